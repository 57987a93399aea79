// A database at work that serves its status, for tools/status/page_test: a trie and a leveled family with a tuner,
// written to until standard input ends. Prints the page's address when the trie has two depths below the root.
//
//   page_program DIR

#include <cairn/db.h>
#include <cairn/memtable.h>
#include <cairn/status.h>
#include <cairn/trie.h>
#include <cairn/tuner.h>
#include <poll.h>
#include <unistd.h>

#include <cstdio>
#include <memory>
#include <random>
#include <string>
#include <thread>

#include "rocksdb/statistics.h"

namespace {

using rocksdb::Status;

constexpr int kKeys = 400000;

bool InputEnded() {
  pollfd input = {STDIN_FILENO, POLLIN, 0};
  char byte = 0;
  return poll(&input, 1, 0) > 0 && read(STDIN_FILENO, &byte, 1) <= 0;
}

int Fail(const Status& s) {
  std::fprintf(stderr, "page_program: %s\n", s.ToString().c_str());
  return 1;
}

}  // namespace

int main(int argc, char** argv) {
  if (argc != 2) return 2;
  rocksdb::Options options;
  options.create_if_missing = true;
  options.create_missing_column_families = true;
  options.write_buffer_size = 256 << 10;
  options.statistics = rocksdb::CreateDBStatistics();
  rocksdb::Options sessions = options, orders = options;
  cairn::HashTrieOptions trie;
  trie.slots = 6;
  trie.root_trigger = 6;
  Status s = cairn::UseTrie(&sessions, trie);
  if (!s.ok()) return Fail(s);
  sessions.memtable_factory = cairn::NewSubMemTableFactory();
  orders.level_compaction_dynamic_level_bytes = false;
  orders.max_bytes_for_level_base = 1 << 20;
  orders.target_file_size_base = 256 << 10;
  cairn::SampleKeys(&orders);
  cairn::TunerOptions tuner;
  tuner.window_flushes = 8;
  s = cairn::UseTuner(&options, tuner);
  if (!s.ok()) return Fail(s);
  std::vector<rocksdb::ColumnFamilyHandle*> handles;
  rocksdb::DB* opened = nullptr;
  // The third family's name would be a script if the page took it for markup.
  s = cairn::Open(
      options, argv[1],
      {{rocksdb::kDefaultColumnFamilyName, orders}, {"sessions", sessions}, {"<img src=x onerror=alert(1)>", options}},
      &handles, &opened);
  if (!s.ok()) return Fail(s);
  const std::unique_ptr<rocksdb::DB> db(opened);
  std::unique_ptr<cairn::StatusServer> server;
  cairn::StatusOptions status;
  status.seconds_between_samples = 1;
  s = cairn::ServeStatus(db.get(), status, &server);

  std::minstd_rand random(1);
  std::string value(100, 'v'), found;
  bool said = false;
  while (s.ok() && !InputEnded()) {
    for (int i = 0; s.ok() && i < 400; ++i) {
      for (size_t k = 0; k < value.size(); k += 2) value[k] = static_cast<char>('a' + random() % 26);
      s = db->Put({}, handles[1], "session" + std::to_string(random() % kKeys), value);
      if (s.ok() && i % 4 == 0) s = db->Put({}, handles[0], "order" + std::to_string(random() % kKeys), value);
    }
    db->Get({}, handles[1], "session" + std::to_string(random() % kKeys), &found).PermitUncheckedError();
    cairn::TrieStats stats;
    if (!said && s.ok()) s = cairn::GetTrieStats(db.get(), handles[1], &stats);
    if (!said && s.ok() && stats.depths.size() >= 3) {
      std::puts(server->url().c_str());
      std::fflush(stdout);
      said = true;
    }
    std::this_thread::sleep_for(std::chrono::milliseconds(said ? 20 : 1));
  }
  server.reset();
  for (rocksdb::ColumnFamilyHandle* handle : handles) {
    db->DestroyColumnFamilyHandle(handle).PermitUncheckedError();
  }
  return s.ok() ? 0 : Fail(s);
}
