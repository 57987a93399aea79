// cairn serve and cairn top as programs, on databases that this process has open: they say what it does, and change
// nothing of it.

#include <cairn/db.h>
#include <cairn/memtable.h>
#include <cairn/status.h>
#include <cairn/trie.h>
#include <fcntl.h>
#include <gtest/gtest.h>
#include <sys/wait.h>
#include <unistd.h>

#include <atomic>
#include <csignal>
#include <filesystem>
#include <functional>
#include <map>
#include <nlohmann/json.hpp>
#include <thread>

#include "rocksdb/compaction_filter.h"
#include "test/support.h"
#include "test/testutil/await.h"
#include "test/testutil/expect_contains.h"
#include "test/testutil/metrics_check.h"
#include "test/testutil/run_program.h"
#include "test/testutil/test_client.h"
#include "tools/top_text.h"

namespace cairn {
namespace {

namespace fs = std::filesystem;
using nlohmann::json;

// `cairn serve`, from its first line to its end.
class Server {
 public:
  explicit Server(const std::string& path, const std::vector<std::string>& flags = {}) {
    int ends[2];
    if (pipe2(ends, O_CLOEXEC) != 0) return;
    std::vector<std::string> words = {ProgramPath("cairn"), "serve", path, "--port=0", "--every=0.2"};
    words.insert(words.end(), flags.begin(), flags.end());
    pid_ = fork();
    if (pid_ == 0) {
      dup2(ends[1], STDOUT_FILENO);
      std::vector<char*> pointers;
      for (std::string& word : words) pointers.push_back(word.data());
      pointers.push_back(nullptr);
      execv(pointers[0], pointers.data());
      _exit(127);
    }
    close(ends[1]);
    char c = 0;
    while (read(ends[0], &c, 1) == 1 && c != '\n') line_ += c;
    close(ends[0]);
    const size_t colon = line_.rfind(':');
    if (colon != std::string::npos) port_ = atoi(line_.c_str() + colon + 1);
  }
  ~Server() {
    if (pid_ > 0) Stop();
  }
  Server(const Server&) = delete;
  Server& operator=(const Server&) = delete;

  // The exit code.
  int Stop(int signal = SIGTERM) {
    kill(pid_, signal);
    int status = 0;
    waitpid(pid_, &status, 0);
    pid_ = -1;
    return WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status);
  }

  const std::string& line() const { return line_; }
  int port() const { return port_; }

  json StatusNow() const { return json::parse(BodyOf(port_, "/status.json"), nullptr, false); }
  // Asks until `holds`, as Await.
  bool Until(const std::function<bool(const json&)>& holds) const {
    return Await([&] { return holds(StatusNow()); });
  }

 private:
  pid_t pid_ = -1;
  std::string line_;
  int port_ = 0;
};

// Compactions that use it wait until the gate is open.
class Gate : public rocksdb::CompactionFilter {
 public:
  const char* Name() const override { return "Gate"; }
  bool Filter(int, const rocksdb::Slice&, const rocksdb::Slice&, std::string*, bool*) const override {
    while (!open_) std::this_thread::sleep_for(std::chrono::milliseconds(1));
    return false;
  }
  void Open() { open_ = true; }
  void Close() { open_ = false; }

 private:
  std::atomic<bool> open_{false};
};

class ServeTest : public ::testing::Test {
 protected:
  ~ServeTest() override {
    gate_.Open();
    delete db_;
  }

  Status Open(bool trie, bool durable = false) {
    rocksdb::Options options = test::BaseOptions();
    options.write_buffer_size = 4 << 20;  // tables are those that Fill flushes
    options.stats_dump_period_sec = 1;
    options.compaction_filter = &gate_;
    SubMemTableOptions memtable;
    memtable.durable = durable;
    if (durable) options.memtable_factory = NewSubMemTableFactory(memtable);
    HashTrieOptions shape;
    shape.format = "sst";  // tables of a few KiB, of which HTables would be half empty: compaction for space
    shape.root_trigger = 4;
    Status s = trie ? UseTrie(&options, shape) : Status::OK();
    if (!trie) options.level0_file_num_compaction_trigger = 4;
    return s.ok() ? cairn::Open(options, path_, &db_) : s;
  }

  // Flushes `files` tables.
  Status Fill(int files) {
    Status s;
    for (int file = 0; file < files; ++file) {
      for (int i = 0; s.ok() && i < 200; ++i) s = db_->Put({}, "key" + std::to_string(i), std::string(100, 'v'));
      if (s.ok()) s = db_->Flush({});
    }
    return s;
  }

  // What lies in the database's directory, with sizes and times, but for what this process does by itself: it writes to
  // its LOG and through the mapping of its pool file, and removes the WAL of what was flushed.
  std::map<std::string, std::string> Listing() const {
    std::map<std::string, std::string> listing;
    for (const auto& entry : fs::directory_iterator(path_)) {
      const std::string name = entry.path().filename();
      const auto time = entry.last_write_time().time_since_epoch().count();
      if (entry.path().extension() == ".log") continue;
      listing[name] =
          name == "LOG" || name == "CAIRN_POOL" ? "" : std::to_string(entry.file_size()) + " " + std::to_string(time);
    }
    return listing;
  }

  ProgramResult Top(std::vector<std::string> words) const {
    words.insert(words.begin(), "top");
    return Cairn(words);
  }

  const test::TempDir dir_;
  const std::string path_ = dir_ / "db";
  Gate gate_;
  rocksdb::DB* db_ = nullptr;
};

TEST_F(ServeTest, ATrieThatIsOpenElsewhereIsFollowed) {
  gate_.Open();
  ASSERT_OK(Open(true));
  ASSERT_OK(Fill(3));
  ASSERT_OK(WaitForTrieCompaction(db_));
  const auto before = Listing();
  Server server(path_);
  ASSERT_GT(server.port(), 0) << server.line();
  EXPECT_CONTAINS(server.line(), path_ + " is shown at http://127.0.0.1:");
  json status = server.StatusNow();
  ASSERT_TRUE(status.is_object());
  EXPECT_EQ(status["source"], "files");
  EXPECT_EQ(status["open"], true);
  EXPECT_EQ(status["process"], getpid());
  EXPECT_EQ(status["column_families"][0]["engine"], "trie");
  EXPECT_EQ(status["column_families"][0]["files"], 3);
  EXPECT_TRUE(status["memory_bytes"].is_null());
  EXPECT_TRUE(status["put_bytes"].is_null());
  EXPECT_EQ(BodyOf(server.port(), "/").substr(0, 15), "<!DOCTYPE html>");
  std::map<std::string, double> samples;
  EXPECT_EQ(CheckMetrics(BodyOf(server.port(), "/metrics"), &samples), "");
  EXPECT_EQ(samples["cairn_table_files{column_family=\"default\"}"], 3);
  EXPECT_EQ(Listing(), before);

  ASSERT_OK(Fill(3));
  ASSERT_OK(WaitForTrieCompaction(db_));
  rocksdb::ColumnFamilyMetaData meta;
  db_->GetColumnFamilyMetaData(&meta);
  EXPECT_TRUE(server.Until([&meta](const json& now) {
    return now["column_families"][0]["files"] == meta.file_count && now["column_families"][0]["depths"].size() == 2;
  }));
  EXPECT_TRUE(server.Until([](const json& now) { return now["stats_dump"].is_object(); }));
  EXPECT_GT(server.StatusNow()["column_families"][0]["totals"]["flushed_bytes"], 0);
  EXPECT_EQ(server.Stop(), 0);
}

TEST_F(ServeTest, WhatIsCompactedNowIsSeenFromBothSides) {
  for (const bool trie : {true, false}) {
    SCOPED_TRACE(trie ? "trie" : "leveled");
    ASSERT_OK(Open(trie));
    ASSERT_OK(Fill(4));  // the compaction that they start waits at the gate
    Server server(path_);
    ASSERT_TRUE(server.Until([](const json& now) { return now["column_families"][0]["compacting_files"] == 4; }));
    const json outside = server.StatusNow();
    ASSERT_EQ(outside["running"].size(), 1u);
    EXPECT_EQ(outside["running"][0]["column_family"], "default");
    EXPECT_EQ(outside["running"][0]["files"], 4);
    EXPECT_EQ(outside["running"][0]["levels"], json::array({0}));
    const json inside = json::parse(StatusJson(db_));
    EXPECT_EQ(inside["column_families"][0]["compacting_files"], 4);
    EXPECT_EQ(inside["running_compactions"], 1);
    const ProgramResult top = Top({path_});
    EXPECT_EQ(top.exit_code, 0);
    EXPECT_CONTAINS(top.out, "compactions under way\n  default: 4 tables");
    gate_.Open();
    EXPECT_TRUE(server.Until([](const json& now) { return now["running"].empty(); }));
    EXPECT_TRUE(server.Until([](const json& now) { return now["column_families"][0]["compacting_files"] == 0; }));
    EXPECT_EQ(server.Stop(SIGINT), 0);
    delete db_;
    db_ = nullptr;
    fs::remove_all(path_);
    gate_.Close();
  }
}

TEST_F(ServeTest, ALivePoolIsLeftAlone) {
  gate_.Open();
  ASSERT_OK(Open(true, true));
  ASSERT_OK(Fill(1));
  ASSERT_OK(db_->Put({}, "in the pool", "value"));
  const auto before = Listing();
  Server server(path_);
  EXPECT_EQ(server.StatusNow()["column_families"][0]["memtable"], "cairn.SubMemTable");
  EXPECT_EQ(Top({path_}).exit_code, 0);
  EXPECT_EQ(Listing(), before);
  EXPECT_OK(db_->Put({}, "more", "value"));
  delete db_;
  db_ = nullptr;
  EXPECT_TRUE(server.Until([](const json& now) { return now["open"] == false; }));
  ASSERT_OK(Open(true, true));
  std::string value;
  EXPECT_OK(db_->Get({}, "in the pool", &value));
  EXPECT_OK(db_->Get({}, "more", &value));
}

TEST_F(ServeTest, ErrorsEndTheProgramWithALine) {
  const auto fail = [](const std::vector<std::string>& words, int code, const std::string& part) {
    const ProgramResult result = Cairn(words);
    EXPECT_EQ(result.exit_code, code) << result.err;
    EXPECT_CONTAINS(result.err, part);
  };
  fail({"serve", dir_ / "none"}, 1, "is no RocksDB database");
  fail({"top", dir_ / "none"}, 1, "is no RocksDB database");
  fail({"serve"}, 2, "DB");
  gate_.Open();
  ASSERT_OK(Open(false));
  Server server(path_);
  fail({"serve", path_, "--port=" + std::to_string(server.port())}, 1, "is taken by another program");
  fail({"serve", path_, "--port=70000"}, 2, "65535");
  fail({"serve", path_, "--listen=example.org", "--port=0"}, 1, "give an IP address");
  fail({"serve", path_, "--every=0", "--port=0"}, 1, "seconds_between_samples");
  fail({"top", path_, "--every=0"}, 2, "--every");
  // The database goes away under the server, which says so and goes on.
  delete db_;
  db_ = nullptr;
  fs::rename(path_, dir_ / "moved");
  const auto answers_with = [&server](const std::string& code) {
    return Await([&] { return Get(server.port(), "/status.json").compare(9, 3, code) == 0; });
  };
  EXPECT_TRUE(answers_with("503"));
  fs::rename(dir_ / "moved", path_);
  EXPECT_TRUE(answers_with("200"));
}

TEST_F(ServeTest, TopPrintsLines) {
  gate_.Open();
  ASSERT_OK(Open(true));
  ASSERT_OK(Fill(5));
  ASSERT_OK(WaitForTrieCompaction(db_));
  const ProgramResult once = Top({path_});
  EXPECT_EQ(once.exit_code, 0) << once.err;
  EXPECT_CONTAINS(once.out, "open in process " + std::to_string(getpid()));
  EXPECT_CONTAINS(once.out, "default (trie): ");
  EXPECT_CONTAINS(once.out, "not seen: Memory");
  EXPECT_EQ(once.out.find('\033'), std::string::npos);
  const ProgramResult thrice = Top({path_, "--count=3", "--every=100ms"});
  EXPECT_EQ(thrice.exit_code, 0) << thrice.err;
  size_t looks = 0;
  for (size_t at = 0; (at = thrice.out.find("default (trie)", at)) != std::string::npos; ++at) ++looks;
  EXPECT_EQ(looks, 3u);
}

TEST(TopTextTest, LinesAreAsWideAsTheTerminalAndPlain) {
  StatusSnapshot snapshot;
  snapshot.database = "a\033[2Jb\n";
  FamilyStatus family;
  family.name = "\r\b\x7F";
  family.tuner_log = {std::string(500, 'x')};
  family.picture.runs.resize(50);
  snapshot.families.push_back(family);
  for (const size_t width : {1, 20, 80, 300}) {
    for (const std::string& line : StatusToLines(snapshot, History(1), width)) {
      EXPECT_LE(line.size(), width);
      for (const char c : line) EXPECT_GE(static_cast<unsigned char>(c), 0x20);
    }
  }
}

}  // namespace
}  // namespace cairn
