// The pictures, the history, the texts, and the two readers: what a reader from outside says of a database is what the
// database itself says.

#include "cairn/status.h"

#include <cairn/db.h>
#include <cairn/memtable.h>
#include <cairn/silt.h>
#include <cairn/trie.h>
#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>
#include <nlohmann/json.hpp>

#include "rocksdb/port/open_into.h"
#include "rocksdb/statistics.h"
#include "rocksdb/utilities/transaction_db.h"
#include "test/support.h"
#include "test/testutil/metrics_check.h"
#include "test/testutil/test_client.h"
#include "tools/status/log_follower.h"
#include "tools/status/manifest_follower.h"
#include "tools/status/reader.h"
#include "tools/status/snapshot.h"
#include "tools/status/status_json.h"

namespace cairn {
namespace {

namespace fs = std::filesystem;
using nlohmann::json;

// ---------------------------------------------------------------- pictures

PictureFile FileAt(uint64_t number, int level, uint64_t position, uint64_t bytes = 100) {
  PictureFile file;
  file.number = number;
  file.level = level;
  file.bytes = bytes;
  file.first_position = file.last_position = position;
  return file;
}

TEST(PictureTest, ATrieIsRowsOfContainers) {
  HashTrieOptions trie;
  trie.fan_out = 8;
  trie.slots = 4;
  trie.trigger = 3;
  trie.root_trigger = 5;
  const uint64_t eighth = uint64_t{1} << 61;
  std::vector<PictureFile> files = {FileAt(9, 0, 0), FileAt(10, 0, 0), FileAt(1, 4, 0), FileAt(2, 3, 0),
                                    FileAt(3, 4, 7 * eighth)};
  files[3].compacting = true;
  files.push_back(FileAt(4, 4, 2 * eighth));
  files.back().last_position = 3 * eighth;  // spans two containers
  const Picture picture = MakePicture(files, trie);
  EXPECT_EQ(picture.files, 6u);
  EXPECT_EQ(picture.bytes, 600u);
  EXPECT_EQ(picture.compacting_files, 1u);
  EXPECT_EQ(picture.compacting_bytes, 100u);
  EXPECT_EQ(picture.spanning_files, 1u);
  EXPECT_TRUE(picture.runs.empty());
  ASSERT_EQ(picture.depths.size(), 2u);
  const PictureDepth& root = picture.depths[0];
  EXPECT_EQ(root.cells, 1u);
  EXPECT_EQ(root.full_slots, 5);
  ASSERT_EQ(root.filled.size(), 1u);
  EXPECT_EQ(root.filled[0].slots, 2);
  const PictureDepth& first = picture.depths[1];
  EXPECT_EQ(first.places, 8u);
  EXPECT_EQ(first.cells, 8u);
  EXPECT_EQ(first.full_slots, 3);
  EXPECT_EQ(first.containers, 3u);
  EXPECT_EQ(first.slots_min, 1);
  EXPECT_EQ(first.slots_max, 2);
  EXPECT_EQ(first.files, 4u);
  ASSERT_EQ(first.filled.size(), 3u);
  EXPECT_EQ(first.filled[0].index, 0u);
  EXPECT_EQ(first.filled[0].slots, 2);
  EXPECT_EQ(first.filled[0].compacting_files, 1u);
  EXPECT_EQ(first.filled[1].index, 2u);
  EXPECT_EQ(first.filled[2].index, 7u);
}

TEST(PictureTest, DeepTriesHaveCellsOfSeveralContainers) {
  HashTrieOptions trie;
  trie.fan_out = 64;
  trie.slots = 2;
  trie.depth = 4;
  std::vector<PictureFile> files;
  const int deepest = 2 * 4;  // the oldest slot of depth 4: 2^24 containers
  for (uint64_t i = 0; i < 2000; ++i) files.push_back(FileAt(i + 1, deepest, i << 50));
  const Picture picture = MakePicture(files, trie);
  ASSERT_EQ(picture.depths.size(), 5u);
  EXPECT_TRUE(picture.depths[0].filled.empty());
  const PictureDepth& row = picture.depths[4];
  EXPECT_EQ(row.places, uint64_t{1} << 24);
  EXPECT_EQ(row.cells, kMaxCells);
  EXPECT_LE(row.filled.size(), kMaxCells);
  uint64_t files_seen = 0;
  for (const PictureCell& cell : row.filled) {
    EXPECT_LT(cell.index, kMaxCells);
    files_seen += cell.files;
  }
  EXPECT_EQ(files_seen, 2000u);
}

// A depth of more containers than a row has cells; the last cell has fewer of them.
TEST(PictureTest, ATrieInKeyOrderHasACellForEachContainerThatThereIs) {
  KeyTrieOptions trie;
  trie.depth = 2;
  KeyShape shape(trie, rocksdb::BytewiseComparator());
  std::vector<PictureFile> files;
  const auto add = [&](uint64_t number, int level, const std::string& smallest, const std::string& largest) {
    TrieFile file;
    file.number = number;
    file.level = level;
    file.smallest = smallest;
    file.largest = largest;
    shape.Add(file);
    files.push_back(FileAt(number, level, 0));
  };
  const int last = shape.LastLevel(2);
  for (uint64_t i = 0; i < kMaxCells + 3; ++i) {
    const std::string key = std::to_string(10000 + i);
    add(i + 1, last, key + "a", key + "c");
  }
  add(1000, last - 1, "10001b", "10002b");
  add(1001, 0, "1", "2");
  add(1002, 0, "3", "4");
  files[1].compacting = true;
  PlaceInKeyOrder(shape, &files);
  const Picture picture = MakePicture(files, trie);
  EXPECT_EQ(picture.spanning_files, 0u);
  ASSERT_EQ(picture.depths.size(), 3u);
  EXPECT_EQ(picture.depths[0].containers, 1u);
  EXPECT_EQ(picture.depths[0].slots_max, 2);
  EXPECT_TRUE(picture.depths[1].filled.empty());
  const PictureDepth& leaves = picture.depths[2];
  EXPECT_EQ(leaves.containers, kMaxCells + 2);
  EXPECT_EQ(leaves.places, kMaxCells + 2);
  EXPECT_EQ(leaves.cells, kMaxCells / 2 + 1);
  ASSERT_EQ(leaves.filled.size(), leaves.cells);
  EXPECT_EQ(leaves.slots_max, 2);
  EXPECT_EQ(leaves.filled[0].files, 4u) << "two tables, and one over the second and third";
  EXPECT_EQ(leaves.filled[0].compacting_files, 1u);
  EXPECT_EQ(leaves.filled[0].slots, 2);
  EXPECT_EQ(leaves.filled[1].files, 2u);
}

TEST(PictureTest, OthersAreSortedRunsNewestFirst) {
  std::vector<PictureFile> files = {FileAt(1, 2, 0), FileAt(2, 2, 0), FileAt(8, 0, 0), FileAt(9, 0, 0)};
  files[1].compacting = true;
  const Picture picture = MakePicture(files);
  ASSERT_EQ(picture.runs.size(), 3u);
  EXPECT_EQ(picture.runs[0].file_number, 9u);
  EXPECT_EQ(picture.runs[1].file_number, 8u);
  EXPECT_EQ(picture.runs[2].level, 2);
  EXPECT_EQ(picture.runs[2].files, 2u);
  EXPECT_EQ(picture.runs[2].compacting_bytes, 100u);
  files.clear();
  for (uint64_t i = 0; i < 1000; ++i) files.push_back(FileAt(i, 0, 0));
  EXPECT_EQ(MakePicture(files).runs.size(), kMaxRuns);
  EXPECT_TRUE(MakePicture({}).runs.empty());
  EXPECT_TRUE(MakePicture({}, HashTrieOptions()).depths.empty());
}

// ----------------------------------------------------------------- history

StatusSample SampleAt(double at, double bytes) {
  StatusSample sample;
  sample.at = at;
  sample.flushed_bytes = bytes;
  return sample;
}

TEST(HistoryTest, ReachesBackToTheBeginningInFewSamples) {
  History history(1, 8);
  for (int i = 0; i < 1000; ++i) history.Add(SampleAt(i, i));
  EXPECT_LE(history.samples().size(), 8u);
  EXPECT_GE(history.samples().size(), 4u);
  EXPECT_EQ(history.samples().front().at, 0);
  EXPECT_GT(history.samples().back().at, 700);
  for (size_t i = 1; i < history.samples().size(); ++i) {
    EXPECT_GT(history.samples()[i].at, history.samples()[i - 1].at);
  }
  history.Add(SampleAt(5, 5));  // the clock was set back
  EXPECT_EQ(history.samples().size(), 1u);
}

TEST(HistoryTest, RatesAreOfCountersThatGrow) {
  EXPECT_EQ(RateOf(10, 30, 2), 10);
  EXPECT_FALSE(RateOf(30, 10, 2).has_value());  // began anew
  EXPECT_FALSE(RateOf(std::nullopt, 10, 2).has_value());
  EXPECT_FALSE(RateOf(10, 30, 0).has_value());
}

// --------------------------------------------------------------------- LOG

TEST(LogFollowerTest, UnderstandsRocksDBsLines) {
  LogFollower log("none");
  const std::string begin = "2026/11/22-09:39:36.123456 140 ";
  log.OnLine(begin +
             "EVENT_LOG_v1 {\"time_micros\": 1, \"cf_name\": \"a\", \"job\": 2, \"event\": "
             "\"table_file_creation\", \"file_number\": 8, \"file_size\": 1000}");
  EXPECT_EQ(log.totals().flushed_bytes, 1000u);
  log.OnLine(begin +
             "[/compaction/compaction_job.cc:2079] [users] [JOB 7] Compacting 1@0 + 2@1 files to L1, score 1.00");
  log.OnLine(begin +
             "EVENT_LOG_v1 {\"time_micros\": 5000000, \"job\": 7, \"event\": \"compaction_started\", "
             "\"compaction_reason\": \"LevelL0FilesNum\", \"files_L0\": [8], \"files_L1\": [3, 4], \"score\": 1, "
             "\"input_data_size\": 3000}");
  ASSERT_EQ(log.running().size(), 1u);
  const LogFollower::Job& job = log.running().at(7);
  EXPECT_EQ(job.column_family, "users");
  EXPECT_EQ(job.files, (std::set<uint64_t>{3, 4, 8}));
  EXPECT_EQ(job.started_at, 5);
  EXPECT_EQ(job.reason, "LevelL0FilesNum");
  // A compaction's table is no flush.
  log.OnLine(begin +
             "EVENT_LOG_v1 {\"time_micros\": 1, \"job\": 7, \"event\": \"table_file_creation\", "
             "\"file_number\": 9, \"file_size\": 2500}");
  EXPECT_EQ(log.totals().flushed_bytes, 1000u);
  log.OnLine(begin +
             "EVENT_LOG_v1 {\"time_micros\": 6000000, \"job\": 7, \"event\": \"compaction_finished\", "
             "\"total_output_size\": 2500}");
  EXPECT_TRUE(log.running().empty());
  EXPECT_EQ(log.totals().compaction_read_bytes, 3000u);
  EXPECT_EQ(log.totals().compaction_written_bytes, 2500u);

  EXPECT_FALSE(log.stats_dump().has_value());
  log.OnLine(begin + "[db/db_impl.cc:1] ------- DUMPING STATS -------");
  log.OnLine(
      "Interval writes: 10 writes, 10 keys, 10 commit groups, 1.0 writes per commit group, ingest: 12.00 MB, 2.00 "
      "MB/s");
  log.OnLine("Interval stall: 00:00:1.000 H:M:S, 12.5 percent");
  ASSERT_TRUE(log.stats_dump().has_value());
  EXPECT_EQ(log.stats_dump()->ingest_bytes_per_second, 2 << 20);
  EXPECT_EQ(log.stats_dump()->stall_percent, 12.5);

  log.OnLine(begin + "[users] cairn.Tuner: Level sizes are as good as any.");
  ASSERT_EQ(log.tuner_log().count("users"), 1u);
  EXPECT_EQ(log.tuner_log().at("users").back(), "2026/11/22-09:39:36 Level sizes are as good as any.");
}

TEST(LogFollowerTest, NonsenseIsPassedOver) {
  LogFollower log("none");
  const uint64_t seed = test::SeedFromEnvironment();
  SCOPED_TRACE("CAIRN_SEED=" + std::to_string(seed));
  test::Random random(seed);
  const std::string begin = "2026/11/22-09:39:36.123456 140 ";
  const std::string lines[] = {
      begin + R"(EVENT_LOG_v1 {"time_micros": 5, "job": 7, "event": "compaction_started", "files_L0": [8]})",
      begin + R"(EVENT_LOG_v1 {"job": "x", "event": 7})",
      begin + R"(EVENT_LOG_v1 {"job": 1e300, "event": "compaction_finished", "total_output_size": -1e300})",
      begin + "[users] cairn.Tuner: text",
      "EVENT_LOG_v1 ",
      "] [JOB ",
      "] cairn.Tuner: ",
      begin + "[x] DUMPING STATS",
      "Interval writes: , ",
      "Interval stall: H:M:S, "};
  for (int i = 0; i < 20000; ++i) {
    std::string line = lines[random.Uniform(std::size(lines))];
    for (uint64_t change = random.Uniform(4); change-- > 0 && !line.empty();) {
      const size_t at = random.Uniform(line.size());
      if (random.OneIn(2)) line[at] = static_cast<char>(random.Uniform(256));
      if (random.OneIn(4)) line.resize(at);
    }
    log.OnLine(line);
  }
}

TEST(LogFollowerTest, FollowsAFileThatGrowsAndIsReplaced) {
  const test::TempDir dir;
  const std::string file = dir / "LOG";
  LogFollower log(file);
  EXPECT_TRUE(log.Follow().IsNotFound());
  const auto event = [](int bytes) {
    return "2026/11/22-09:39:36.1 1 EVENT_LOG_v1 {\"time_micros\": 1, \"job\": 1, \"event\": \"table_file_creation\", "
           "\"file_size\": " +
           std::to_string(bytes) + "}";
  };
  const auto append = [&file](const std::string& text) { std::ofstream(file, std::ios::app) << text; };
  append(event(1) + "\n" + event(10));  // the second line has no end yet
  ASSERT_OK(log.Follow());
  EXPECT_EQ(log.totals().flushed_bytes, 1u);
  append("\n");
  ASSERT_OK(log.Follow());
  EXPECT_EQ(log.totals().flushed_bytes, 11u);
  EXPECT_EQ(log.TakePast().size(), 1u);
  EXPECT_TRUE(log.TakePast().empty());
  // What was written to the old one before it was replaced is not missed.
  append(event(100) + "\n");
  fs::rename(file, dir / "LOG.old");
  append(event(1000) + "\n");
  ASSERT_OK(log.Follow());
  EXPECT_EQ(log.totals().flushed_bytes, 1111u);
  append(std::string(3 << 20, 'x') + "\n" + event(10000) + "\n");
  ASSERT_OK(log.Follow());
  EXPECT_EQ(log.totals().flushed_bytes, 11111u);
}

// ----------------------------------------------------------------- metrics

TEST(MetricsCheckTest, FindsFaults) {
  const std::string good = "# HELP a_total Text.\n# TYPE a_total counter\na_total{x=\"y\"} 1\na_total 2\n";
  std::map<std::string, double> samples;
  EXPECT_EQ(CheckMetrics(good, &samples), "");
  EXPECT_EQ(samples["a_total{x=\"y\"}"], 1);
  for (const char* bad :
       {"", "a 1\n", "# TYPE a gauge\na 1\n", "# HELP a T\n# TYPE a counter\na 1\n", "# HELP a T\n# TYPE a gauge\na 1",
        "# HELP a T\n# TYPE a gauge\na x\n", "# HELP a T\n# TYPE a gauge\na 1\na 2\n", "\n",
        "# HELP a T\n# TYPE a gauge\na{b=c} 1\n", "# HELP a T\n# TYPE a gauge\na{b=\"\"c\"} 1\n",
        "# HELP a T\n# TYPE a gauge\n# HELP b T\n# TYPE b gauge\na 1\nb 1\na{c=\"d\"} 1\n",
        "# HELP a_micros T\n# TYPE a_micros gauge\na_micros 1\n"}) {
    std::map<std::string, double> ignored;
    EXPECT_NE(CheckMetrics(bad, &ignored), "") << bad;
  }
}

TEST(MetricsTest, NamesOfFamiliesMayBeAnything) {
  StatusSnapshot snapshot;
  snapshot.database = "a\"b\\c\nd\xFF\xC3\x28 \xC3\xA9";
  FamilyStatus family;
  family.name = "</script>\"\\\n";
  snapshot.families.push_back(family);
  std::map<std::string, double> samples;
  EXPECT_EQ(CheckMetrics(StatusToMetrics(snapshot), &samples), "");
  EXPECT_EQ(samples.count("cairn_info{database=\"a\\\"b\\\\c\\nd\xEF\xBF\xBD"
                          "\xEF\xBF\xBD( \xC3\xA9\",source=\"process\"}"),
            1u);
  EXPECT_TRUE(json::accept(StatusToJson(snapshot, History(1))));
}

// ----------------------------------------------------------------- readers

class StatusTest : public ::testing::Test {
 protected:
  ~StatusTest() override { Close(); }

  // Families: default (leveled), "tree" (a trie), "silt", "runs" (universal), and one whose name is no plain text.
  Status Open(bool statistics = true) {
    rocksdb::Options options = test::BaseOptions();
    options.create_missing_column_families = true;
    if (statistics) options.statistics = rocksdb::CreateDBStatistics();
    rocksdb::Options tree = options, silt = options, runs = options;
    HashTrieOptions trie;
    trie.slots = 4;
    trie.root_trigger = 4;
    Status s = UseTrie(&tree, trie);
    if (s.ok()) s = UseSilt(&silt);
    if (!s.ok()) return s;
    tree.memtable_factory = NewSubMemTableFactory();
    runs.compaction_style = rocksdb::kCompactionStyleUniversal;
    return cairn::Open(options, path_,
                       {{rocksdb::kDefaultColumnFamilyName, options},
                        {"tree", tree},
                        {"silt", silt},
                        {"runs", runs},
                        {odd_name_, options}},
                       &handles_, &db_);
  }

  void Close() {
    for (ColumnFamilyHandle* handle : handles_) db_->DestroyColumnFamilyHandle(handle).PermitUncheckedError();
    handles_.clear();
    delete db_;
    db_ = nullptr;
  }

  Status Fill(int rounds = 6) {
    Status s;
    for (int round = 0; round < rounds; ++round) {
      for (ColumnFamilyHandle* handle : handles_) {
        for (int i = 0; s.ok() && i < 500; ++i) {
          s = db_->Put({}, handle, "key" + std::to_string((i * 37 + round * 211) % 1500), std::string(100, 'v'));
        }
        if (s.ok()) s = db_->Flush({}, handle);
      }
    }
    if (s.ok()) s = WaitForTrieCompaction(db_);
    if (s.ok()) s = db_->WaitForCompact(rocksdb::WaitForCompactOptions());
    return s;
  }

  const test::TempDir dir_;
  const std::string path_ = dir_ / "db";
  const std::string odd_name_ = "<img src=x>\"\\\xFF";
  std::vector<ColumnFamilyHandle*> handles_;
  rocksdb::DB* db_ = nullptr;
};

const FamilyStatus* FamilyOf(const StatusSnapshot& snapshot, const std::string& name) {
  for (const FamilyStatus& family : snapshot.families) {
    if (family.name == name) return &family;
  }
  return nullptr;
}

TEST_F(StatusTest, JsonOfAnOpenDatabase) {
  ASSERT_OK(Open());
  ASSERT_OK(Fill());
  const json status = json::parse(StatusJson(db_), nullptr, false);
  ASSERT_TRUE(status.is_object());
  EXPECT_EQ(status["schema"], 1);
  EXPECT_EQ(status["source"], "process");
  EXPECT_EQ(status["database"], path_);
  EXPECT_GT(status["put_keys"], 5 * 6 * 500 - 1);
  EXPECT_EQ(status["running_compactions"], 0);
  ASSERT_EQ(status["column_families"].size(), 5u);
  uint64_t bytes = 0;
  for (const json& family : status["column_families"]) {
    SCOPED_TRACE(family["name"].dump());
    bytes += family["bytes"].get<uint64_t>();
    EXPECT_GT(family["files"], 0);
    EXPECT_GT(family["totals"]["flushed_bytes"], 0);
    EXPECT_GE(family["write_amplification"], 1.0);
    EXPECT_TRUE(family["depths"].is_null() != family["runs"].is_null());
    EXPECT_TRUE(family["memory"].is_object());
  }
  EXPECT_EQ(status["bytes"], bytes);
  const json& tree = status["column_families"][1];
  EXPECT_EQ(tree["name"], "tree");
  EXPECT_EQ(tree["engine"], "trie");
  EXPECT_EQ(tree["memtable"], "cairn.SubMemTable");
  EXPECT_GE(tree["depths"].size(), 2u);
  TrieStats trie;
  ASSERT_OK(GetTrieStats(db_, handles_[1], &trie));
  for (const json& depth : tree["depths"]) {
    const TrieDepthStats& wanted = trie.depths[depth["depth"].get<size_t>()];
    uint64_t cells_files = 0;
    for (const json& cell : depth["filled"]) cells_files += cell[3].get<uint64_t>();
    EXPECT_EQ(cells_files, wanted.files);
    EXPECT_EQ(depth["bytes"], wanted.bytes);
  }
  EXPECT_EQ(status["column_families"][2]["engine"], "silt");
  EXPECT_EQ(status["column_families"][3]["engine"], "universal");
  for (const auto& [name, values] : status["history"].items()) EXPECT_EQ(values.size(), 1u) << name;
}

// Containers are ranges of keys there, not of hashes, and a small root is full with fewer tables than root_trigger.
TEST_F(StatusTest, ATrieInKeyOrderIsSeenByItsRangesOfKeys) {
  rocksdb::Options options = test::BaseOptions();
  options.write_buffer_size = 16 << 10;
  KeyTrieOptions trie;
  trie.space_bound = 1.5;
  trie.fan_out = 4;
  trie.slots = 4;
  trie.root_trigger = 12;
  ASSERT_OK(UseTrie(&options, trie));
  ASSERT_OK(cairn::Open(options, path_, &db_));
  for (int round = 0; round < 2; ++round) {
    for (int i = 0; i < 3000; ++i) {
      ASSERT_OK(db_->Put({}, "key" + std::to_string(10000 + (i * 7919 + round) % 3000), std::string(100, 'v')));
    }
  }
  ASSERT_OK(db_->Flush({}));
  ASSERT_OK(WaitForTrieCompaction(db_));
  TrieStats stats;
  ASSERT_OK(GetTrieStats(db_, db_->DefaultColumnFamily(), &stats));
  ASSERT_GE(stats.depths.size(), 2u);
  ASSERT_GT(stats.depths.back().containers, 4);
  ASSERT_LT(stats.root_due_files, 12);
  const auto expect_seen = [&](const FamilyStatus& family) {
    EXPECT_EQ(family.picture.spanning_files, 0u);
    ASSERT_EQ(family.picture.depths.size(), stats.depths.size());
    EXPECT_EQ(family.picture.depths[0].full_slots, stats.root_due_files);
    for (const PictureDepth& depth : family.picture.depths) {
      SCOPED_TRACE(depth.depth);
      const TrieDepthStats& wanted = stats.depths[static_cast<size_t>(depth.depth)];
      EXPECT_EQ(depth.containers, static_cast<uint64_t>(wanted.containers));
      EXPECT_EQ(depth.slots_max, wanted.slots_max);
      EXPECT_EQ(depth.files, wanted.files);
      if (wanted.containers == 0) continue;
      EXPECT_EQ(depth.places, depth.containers);
      EXPECT_EQ(depth.filled.size(), depth.cells);
    }
    ASSERT_TRUE(family.trie.has_value());
    EXPECT_EQ(family.trie->live_bytes, stats.live_bytes);
    EXPECT_EQ(family.trie->depths.back().containers, stats.depths.back().containers);
    EXPECT_EQ(family.trie->depths.back().pending_containers, 0u);
  };
  StatusSnapshot within;
  ASSERT_OK(NewDatabaseReader(db_)->Read(&within));
  {
    SCOPED_TRACE("process");
    expect_seen(within.families[0]);
  }
  Close();
  std::unique_ptr<StatusReader> reader;
  ASSERT_OK(OpenFilesReader(path_, &reader));
  StatusSnapshot outside;
  ASSERT_OK(reader->Read(&outside));
  SCOPED_TRACE("files");
  expect_seen(outside.families[0]);
}

TEST_F(StatusTest, MetricsOfAnOpenDatabase) {
  ASSERT_OK(Open());
  ASSERT_OK(Fill());
  std::string value;
  ASSERT_OK(db_->Get({}, handles_[1], "key1", &value));
  std::map<std::string, double> samples;
  const std::string text = MetricsText(db_);
  ASSERT_EQ(CheckMetrics(text, &samples), "") << text;
  rocksdb::ColumnFamilyMetaData meta;
  db_->GetColumnFamilyMetaData(handles_[1], &meta);
  EXPECT_EQ(samples["cairn_table_bytes{column_family=\"tree\"}"], static_cast<double>(meta.size));
  EXPECT_EQ(samples["cairn_table_files{column_family=\"tree\"}"], static_cast<double>(meta.file_count));
  EXPECT_GE(samples["cairn_trie_compactions_total{column_family=\"tree\",kind=\"root\"}"], 1);
  EXPECT_EQ(samples["rocksdb_number_keys_read_total"], 1);
  EXPECT_EQ(samples["rocksdb_db_get_seconds_count"], 1);
  EXPECT_LT(samples["rocksdb_db_get_seconds_sum"], 60);
  db_->GetColumnFamilyMetaData(handles_[3], &meta);
  double runs_files = 0;
  for (int level = 0; level < 7; ++level) {
    runs_files += samples["cairn_level_files{column_family=\"runs\",level=\"" + std::to_string(level) + "\"}"];
  }
  EXPECT_EQ(runs_files, static_cast<double>(meta.file_count));
  // Counters only grow.
  ASSERT_OK(Fill(1));
  std::map<std::string, double> later;
  ASSERT_EQ(CheckMetrics(MetricsText(db_), &later), "");
  for (const auto& [name, before] : samples) {
    if (name.find("_total") != std::string::npos && name.find("quantile=") == std::string::npos) {
      EXPECT_GE(later[name], before) << name;
    }
  }
}

TEST_F(StatusTest, WithoutStatisticsTheirMetricsAreLeftOut) {
  ASSERT_OK(Open(false));
  std::map<std::string, double> samples;
  ASSERT_EQ(CheckMetrics(MetricsText(db_), &samples), "");
  EXPECT_EQ(samples.count("rocksdb_number_keys_read_total"), 0u);
  const json status = json::parse(StatusJson(db_));
  EXPECT_EQ(status["not_seen"].size(), 1u);
  EXPECT_TRUE(status["history"]["get_keys_per_second"][0].is_null());
}

TEST_F(StatusTest, FilesSayWhatTheDatabaseSays) {
  ASSERT_OK(Open());
  ASSERT_OK(Fill());
  StatusSnapshot inside;
  ASSERT_OK(NewDatabaseReader(db_)->Read(&inside));
  Close();
  std::map<std::string, fs::file_time_type> before;
  for (const auto& entry : fs::directory_iterator(path_)) before[entry.path()] = entry.last_write_time();

  std::unique_ptr<StatusReader> reader;
  ASSERT_OK(OpenFilesReader(path_, &reader));
  StatusSnapshot outside;
  ASSERT_OK(reader->Read(&outside));
  ASSERT_EQ(outside.families.size(), inside.families.size());
  for (const FamilyStatus& wanted : inside.families) {
    SCOPED_TRACE(wanted.name);
    const FamilyStatus* found = FamilyOf(outside, wanted.name);
    ASSERT_NE(found, nullptr);
    EXPECT_EQ(found->engine, wanted.engine);
    EXPECT_EQ(found->memtable, wanted.memtable);
    EXPECT_EQ(found->table, wanted.table);
    EXPECT_EQ(found->picture.files, wanted.picture.files);
    EXPECT_EQ(found->picture.bytes, wanted.picture.bytes);
    EXPECT_EQ(found->picture.runs.size(), wanted.picture.runs.size());
    ASSERT_EQ(found->picture.depths.size(), wanted.picture.depths.size());
    for (size_t i = 0; i < wanted.picture.depths.size(); ++i) {
      ASSERT_EQ(found->picture.depths[i].filled.size(), wanted.picture.depths[i].filled.size());
      for (size_t k = 0; k < wanted.picture.depths[i].filled.size(); ++k) {
        EXPECT_EQ(found->picture.depths[i].filled[k].slots, wanted.picture.depths[i].filled[k].slots);
        EXPECT_EQ(found->picture.depths[i].filled[k].bytes, wanted.picture.depths[i].filled[k].bytes);
      }
    }
    EXPECT_FALSE(found->memory.has_value());
  }
  const FamilyStatus* tree = FamilyOf(outside, "tree");
  ASSERT_TRUE(tree->trie.has_value());
  EXPECT_EQ(tree->described_tables, tree->picture.files);
  EXPECT_EQ(tree->trie->flushed_bytes, FamilyOf(inside, "tree")->trie->flushed_bytes);
  EXPECT_EQ(tree->trie->live_bytes, FamilyOf(inside, "tree")->trie->live_bytes);
  EXPECT_EQ(outside.open, false);
  EXPECT_EQ(outside.running_compactions, 0u);
  EXPECT_FALSE(outside.not_seen.empty());
  EXPECT_FALSE(reader->TakePast().empty());
  EXPECT_TRUE(json::accept(StatusToJson(outside, History(1))));
  std::map<std::string, double> samples;
  EXPECT_EQ(CheckMetrics(StatusToMetrics(outside), &samples), "");

  std::map<std::string, fs::file_time_type> after;
  for (const auto& entry : fs::directory_iterator(path_)) after[entry.path()] = entry.last_write_time();
  EXPECT_EQ(after, before);
}

TEST_F(StatusTest, FilesAreFollowed) {
  ASSERT_OK(Open());
  ASSERT_OK(Fill(2));
  Close();
  std::unique_ptr<StatusReader> reader;
  ASSERT_OK(OpenFilesReader(path_, &reader));
  StatusSnapshot outside;
  ASSERT_OK(reader->Read(&outside));
  const uint64_t before = BytesOf(outside);
  // Another session: another MANIFEST, another LOG, a family less.
  ASSERT_OK(Open());
  ASSERT_OK(Fill(3));
  ASSERT_OK(db_->DropColumnFamily(handles_[3]));
  Close();
  ASSERT_OK(reader->Read(&outside));
  EXPECT_GT(BytesOf(outside), 0u);
  EXPECT_NE(BytesOf(outside), before);
  EXPECT_EQ(FamilyOf(outside, "runs"), nullptr);
  EXPECT_NE(FamilyOf(outside, "tree"), nullptr);
}

TEST_F(StatusTest, AManifestThatGrowsIsReadOnInPieces) {
  ASSERT_OK(Open());
  ASSERT_OK(Fill(3));
  Close();
  // Every length of the MANIFEST is a state that a reader from outside can meet.
  const std::string copy = dir_ / "copy";
  fs::create_directory(copy);
  std::string current, manifest;
  ASSERT_OK(rocksdb::ReadFileToString(rocksdb::Env::Default(), path_ + "/CURRENT", &current));
  const std::string name = current.substr(0, current.size() - 1);
  ASSERT_OK(rocksdb::ReadFileToString(rocksdb::Env::Default(), path_ + "/" + name, &manifest));
  std::ofstream(copy + "/CURRENT") << current;
  std::ofstream out(copy + "/" + name, std::ios::binary);
  ManifestFollower follower(copy);
  const uint64_t seed = test::SeedFromEnvironment();
  SCOPED_TRACE("CAIRN_SEED=" + std::to_string(seed));
  test::Random random(seed);
  for (size_t at = 0; at < manifest.size();) {
    const size_t step = std::min<size_t>(1 + random.Uniform(97), manifest.size() - at);
    out.write(manifest.data() + at, static_cast<std::streamsize>(step));
    out.flush();
    at += step;
    ASSERT_OK(follower.Follow());
  }
  ManifestFollower whole(path_);
  ASSERT_OK(whole.Follow());
  ASSERT_EQ(follower.families().size(), whole.families().size());
  for (const auto& [id, family] : whole.families()) {
    const ManifestFamily& found = follower.families().at(id);
    EXPECT_EQ(found.name, family.name);
    ASSERT_EQ(found.tables.size(), family.tables.size());
    for (const auto& [number, table] : family.tables) EXPECT_EQ(found.tables.at(number).level, table.level);
  }
}

TEST_F(StatusTest, ErrorsOfFilesAreStatuses) {
  std::unique_ptr<StatusReader> reader;
  EXPECT_TRUE(OpenFilesReader(dir_ / "none", &reader).IsNotFound());
  fs::create_directory(dir_ / "empty");
  EXPECT_TRUE(OpenFilesReader(dir_ / "empty", &reader).IsNotFound());
  std::ofstream(dir_ / "empty" + "/CURRENT") << "../../etc/passwd\n";
  EXPECT_TRUE(OpenFilesReader(dir_ / "empty", &reader).IsCorruption());
  ASSERT_OK(Open());
  ASSERT_OK(Fill(1));
  Close();
  ASSERT_OK(OpenFilesReader(path_, &reader));
  // Without OPTIONS, LOG and LOCK there is still a picture, of runs.
  for (const auto& entry : fs::directory_iterator(path_)) {
    const std::string name = entry.path().filename();
    if (name.compare(0, 7, "OPTIONS") == 0 || name.compare(0, 3, "LOG") == 0 || name == "LOCK") fs::remove(entry);
  }
  StatusSnapshot snapshot;
  ASSERT_OK(reader->Read(&snapshot));
  EXPECT_EQ(snapshot.families.size(), 5u);
  EXPECT_EQ(snapshot.families[1].engine, "unknown");
  EXPECT_GT(snapshot.families[1].picture.runs.size(), 0u);
  EXPECT_FALSE(snapshot.open.has_value());
  EXPECT_GE(snapshot.not_seen.size(), 3u);
  // The database goes away: an error now, and no end of the reader.
  fs::rename(path_, dir_ / "moved");
  EXPECT_TRUE(reader->Read(&snapshot).IsNotFound());
  fs::rename(dir_ / "moved", path_);
  EXPECT_OK(reader->Read(&snapshot));
}

TEST_F(StatusTest, TheLogMayLieElsewhereOrSayNothing) {
  for (const bool silent : {false, true}) {
    SCOPED_TRACE(silent ? "silent" : "elsewhere");
    const std::string path = dir_ / (silent ? "silent" : "elsewhere");
    rocksdb::Options options = test::BaseOptions();
    if (silent) options.info_log_level = rocksdb::WARN_LEVEL;
    if (!silent) options.db_log_dir = dir_ / "logs";
    ASSERT_OK(cairn::Open(options, path, &db_));
    ASSERT_OK(db_->Put({}, "key", "value"));
    ASSERT_OK(db_->Flush({}));
    Close();
    std::unique_ptr<StatusReader> reader;
    ASSERT_OK(OpenFilesReader(path, &reader));
    StatusSnapshot snapshot;
    ASSERT_OK(reader->Read(&snapshot));
    ASSERT_EQ(snapshot.families.size(), 1u);
    EXPECT_EQ(snapshot.families[0].totals.has_value(), !silent);
    EXPECT_EQ(snapshot.running_compactions.has_value(), !silent);
    EXPECT_EQ(snapshot.not_seen.size(), silent ? 2u : 1u);
    if (!silent) {
      EXPECT_GT(snapshot.families[0].totals->flushed_bytes, 0u);
    }
  }
}

TEST_F(StatusTest, WritersThatDoNotQueueAreCounted) {
  rocksdb::Options options = test::BaseOptions();
  PreferSubMemTables(&options);
  ASSERT_OK(rocksdb::DB::Open(options, path_, port::Into(&db_)));
  for (const char* key : {"a", "b", "c"}) ASSERT_OK(db_->Put({}, key, "value"));
  rocksdb::WriteOptions low;
  low.low_pri = true;
  ASSERT_OK(db_->Put(low, "d", "value"));
  std::map<std::string, double> samples;
  ASSERT_EQ(CheckMetrics(MetricsText(db_), &samples), "");
  EXPECT_EQ(samples["cairn_unqueued_writes_total"], 3);
  EXPECT_EQ(samples["cairn_queued_writes_total{reason=\"options\"}"], 1);
  EXPECT_EQ(samples["cairn_queued_writes_total{reason=\"switch\"}"], 0);
  EXPECT_EQ(samples["cairn_write_gate_closings_total"], 1);
  EXPECT_EQ(samples["cairn_put_keys_total"], 4);
  const json status = json::parse(StatusJson(db_));
  EXPECT_EQ(status["writers"]["unqueued"], 3);
  EXPECT_EQ(status["writers"]["queued"]["options"], 1);
}

TEST_F(StatusTest, EveryKindOfOpenDatabaseIsShown) {
  const rocksdb::Options options = test::BaseOptions();
  const auto check = [](rocksdb::DB* db) {
    std::map<std::string, double> samples;
    EXPECT_EQ(CheckMetrics(MetricsText(db), &samples), "");
    EXPECT_EQ(samples["cairn_table_files{column_family=\"default\"}"], 1);
    EXPECT_TRUE(json::accept(StatusJson(db)));
  };
  ASSERT_OK(rocksdb::DB::Open(options, path_, port::Into(&db_)));  // nothing of Cairn's
  ASSERT_OK(db_->Put({}, "key", "value"));
  ASSERT_OK(db_->Flush({}));
  check(db_);
  Close();
  ASSERT_OK(rocksdb::DB::OpenForReadOnly(options, path_, port::Into(&db_)));
  check(db_);
  Close();
  ASSERT_OK(rocksdb::DB::OpenAsSecondary(options, path_, dir_ / "secondary", port::Into(&db_)));
  check(db_);
  Close();
  rocksdb::TransactionDB* transactions = nullptr;
  ASSERT_OK(rocksdb::TransactionDB::Open(options, rocksdb::TransactionDBOptions(), path_, &transactions));
  db_ = transactions;
  check(db_);
}

TEST_F(StatusTest, PromtoolFindsNoFault) {
  if (system("command -v promtool > /dev/null") != 0) {
    GTEST_SKIP() << "LEFT OUT: promtool is not here; Debian's package prometheus has it";
  }
  ASSERT_OK(Open());
  ASSERT_OK(Fill());
  std::string value;
  ASSERT_OK(db_->Get({}, handles_[1], "key1", &value));
  std::ofstream(dir_ / "metrics") << MetricsText(db_);
  const std::string command = "promtool check metrics < '" + (dir_ / "metrics") + "' > '" + (dir_ / "said") + "' 2>&1";
  const int code = system(command.c_str());
  std::ifstream said(dir_ / "said");
  EXPECT_EQ(code, 0) << said.rdbuf();
}

TEST_F(StatusTest, ServesWhileOthersWriteAndFamiliesComeAndGo) {
  ASSERT_OK(Open());
  StatusOptions options;
  options.seconds_between_samples = 0.1;
  std::unique_ptr<StatusServer> server;
  ASSERT_OK(ServeStatus(db_, options, &server));
  std::unique_ptr<StatusServer> second;
  const Status taken = ServeStatus(db_, server->port(), &second);
  EXPECT_TRUE(taken.IsBusy()) << taken.ToString();
  options.seconds_between_samples = 0;
  EXPECT_TRUE(ServeStatus(db_, options, &second).IsInvalidArgument());
  for (int i = 0; i < 5; ++i) {
    ColumnFamilyHandle* handle = nullptr;
    ASSERT_OK(db_->CreateColumnFamily(test::BaseOptions(), "passing", &handle));
    ASSERT_OK(db_->Put({}, handle, "key", "value"));
    ASSERT_OK(Fill(1));
    EXPECT_TRUE(json::accept(BodyOf(server->port(), "/status.json")));
    std::map<std::string, double> samples;
    EXPECT_EQ(CheckMetrics(BodyOf(server->port(), "/metrics"), &samples), "");
    EXPECT_EQ(BodyOf(server->port(), "/").substr(0, 15), "<!DOCTYPE html>");
    ASSERT_OK(db_->DropColumnFamily(handle));
    EXPECT_TRUE(json::accept(StatusJson(db_)));
    ASSERT_OK(db_->DestroyColumnFamilyHandle(handle));
  }
  server.reset();
}

}  // namespace
}  // namespace cairn
