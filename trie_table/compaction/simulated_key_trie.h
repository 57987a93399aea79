// A trie in key order without RocksDB: the real shape, sketches, picker and cuts over files that are sorted lists of
// numbers. For tests and ordered_trie_simulation.
//
// Thread-safety: none.

#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "table/scan_counts.h"
#include "trie_table/compaction/key_picker.h"
#include "trie_table/compaction/key_shape.h"

namespace cairn {

class SimulatedKeyTrie {
 public:
  struct Costs {
    uint64_t data_bytes = 100;   // of an entry's key and value
    uint64_t table_bytes = 100;  // of an entry in a table
    size_t common_bytes = 0;     // that all keys begin with
  };
  // A key and, in the lowest bit, whether it is deleted.
  using Entries = std::vector<uint64_t>;
  struct Operation {
    uint64_t key;
    bool deleted;
  };

  SimulatedKeyTrie(const KeyTrieOptions& trie, uint64_t write_buffer_bytes, const Costs& costs, KeyPicker::Moves moves);

  // common_bytes, and 8 in the order of numbers.
  static std::string KeyOf(uint64_t key, size_t common_bytes = 0);

  // In the order of writing: the newest of a key stays.
  void Flush(const std::vector<Operation>& operations);

  struct Running {
    uint64_t id = 0;
    TrieJob job;
    uint64_t bytes = 0;  // of outputs
    std::vector<Entries> outputs;
  };
  Running Start(const TrieJob& job);
  void Finish(const Running& running);

  // Counts that a seek of the key has read a block (0: that it is not counted) in each table that lies over it; how
  // many of these lie below the root.
  size_t Scan(uint64_t key, uint64_t block_bytes);

  // Runs what the picker wants until it wants nothing, so many compactions at a time, each of which takes as long as it
  // has bytes to read; false if that does not come to an end.
  bool Settle(size_t at_a_time = 1);
  // A full manual compaction.
  bool Compact();

  // On the disk: tables, outputs of compactions under way, and what these hold.
  uint64_t bytes() const { return shape.bytes() + running_bytes + picker.held_bytes(); }

  // What a reader finds: keys whose newest entry is no deletion. Walks over everything.
  std::vector<uint64_t> LiveKeys() const;

  KeyShape shape;
  KeyPicker picker;
  uint64_t flushed = 0;
  uint64_t written = 0;        // flushes included
  uint64_t running_bytes = 0;  // outputs of compactions under way
  uint64_t most_bytes = 0;     // the most of bytes() at any moment
  uint64_t largest_job = 0;
  uint64_t largest_file = 0;
  uint64_t moved_files = 0;
  std::map<TrieJob::Kind, uint64_t> jobs;
  std::map<TrieJob::Kind, uint64_t> written_by;  // bytes
  uint64_t written_for_scans = 0;
  // Jobs for which RocksDB would have added inputs, or that break an invariant of key_shape.h.
  std::vector<std::string> violations;

 private:
  struct File {
    Entries entries;
    int level;
    std::unique_ptr<ScanCounts::Table> scans;
  };

  std::string NameOf(uint64_t key) const { return KeyOf(key, costs_.common_bytes); }
  void AddFile(Entries entries, int level);
  void Check(const TrieJob& job);
  bool DropsDeletions(const TrieJob& job) const;

  const Costs costs_;
  std::shared_ptr<ScanCounts> scans_;
  std::map<uint64_t, File> files_;
  uint64_t next_number_ = 1;
  uint64_t next_job_ = 1;
};

}  // namespace cairn
