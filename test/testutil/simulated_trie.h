// A trie without RocksDB: the real shape, sketches and picker over files that are sorted lists of key hashes.
// Compactions are carried out on those lists, so what the picker chooses can be followed at any scale and checked
// against the truth. For tests and trie_simulation.
//
// Thread-safety: none.

#pragma once

#include <cstdint>
#include <string>
#include <unordered_map>
#include <vector>

#include "trie_table/compaction/hash_picker.h"
#include "trie_table/compaction/hash_shape.h"

namespace cairn {

class SimulatedTrie {
 public:
  struct Costs {
    uint64_t data_bytes = 100;   // of an entry's key and value
    uint64_t table_bytes = 100;  // of an entry in a table: the above and the format's overhead
  };

  // A key's hash; the lowest bits tell a deletion. A file's are in order, and each key is in it once.
  using Entries = std::vector<uint64_t>;
  static constexpr uint64_t kDeleted = 1;

  explicit SimulatedTrie(const HashTrieOptions& trie) : SimulatedTrie(trie, Costs()) {}
  SimulatedTrie(const HashTrieOptions& trie, const Costs& costs)
      : shape(trie),
        picker(&shape, 0),
        costs_(costs),
        hash_(HashKind::kXxh3, trie.seed == kRandomSeed ? 0 : trie.seed) {}

  uint64_t PositionOf(uint64_t key) const { return KeySketch::PositionOf(hash_(std::to_string(key))); }

  // (key, deleted?) in the order of writing: the newest of a key stays.
  void Flush(const std::vector<std::pair<uint64_t, bool>>& operations);

  // What CompactFiles would do, at once.
  void Run(const TrieJob& job);

  // The same in two steps, with other jobs and flushes in between.
  struct Running {
    TrieJob job;
    int depth = 0;
    uint64_t bytes = 0;            // of outputs
    std::vector<Entries> outputs;  // one a container, in order
  };
  Running Start(const TrieJob& job);
  void Finish(const Running& running);

  // Runs what the picker wants until it wants nothing; false if that does not come to an end.
  bool Settle();

  // Keys whose newest entry is not a deletion. Walks over everything.
  uint64_t LiveEntries() const;

  HashShape shape;
  HashPicker picker;
  uint64_t written = 0;  // bytes of tables, flushes included
  uint64_t flushed = 0;
  uint64_t violations = 0;  // jobs that broke an invariant of hash_shape.h

 private:
  struct File {
    Entries entries;
    int level;
  };

  void AddFile(Entries entries, int level);
  bool LiesBelow(uint64_t position, int level, const std::vector<uint64_t>& except) const;
  bool OutputIsFree(const TrieJob& job, int depth) const;

  const Costs costs_;
  const KeyHash hash_;
  std::unordered_map<uint64_t, File> files_;
  uint64_t next_number_ = 1;
};

}  // namespace cairn
