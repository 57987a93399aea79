// A hash table from user key to its versions, newest first: the point-lookup index of a memtable that is being written.
//
// Open addressing, one 8-byte word per key: 15 bits of the hash and the address of the key's only entry, or of the list
// of its versions. Lists of versions are skip lists: to add a version, or to find the one that a snapshot sees, takes
// O(log versions) steps in whatever order they come.
//
// Invariants
//   (1) A word changes from empty to an entry, from there to a list, from there to a list with more levels, never back.
//   (2) A list is strictly descending in tag.
//   (3) A table is never more than 5/8 full, neither the one in use nor one that was outgrown: every probe ends.
//   (4) A key lies at its home or behind it, without an empty word between them.
//
// Thread-safety: one writer (Add, Reserve); any number of readers, without locks, also while it grows. Memory of
// a table that was outgrown is freed with the index.
//
// Source of the lists: Pugh, "Skip lists: a probabilistic alternative to balanced trees" (1990).

#pragma once

#include <atomic>
#include <cstdint>
#include <cstdlib>
#include <memory>
#include <vector>

#include "memtable_cache/key_order.h"

namespace cairn {

class HashIndex {
 public:
  // A node of a skip list, with `height` links behind it.
  struct Node {
    const char* entry;
    uint64_t tag;
    std::atomic<Node*>& next(int level) { return reinterpret_cast<std::atomic<Node*>*>(this + 1)[level]; }
    Node* after(int level) const {
      return reinterpret_cast<const std::atomic<Node*>*>(this + 1)[level].load(std::memory_order_acquire);
    }
  };

  // Where a list begins, with `levels` links behind it.
  struct Head {
    uint64_t levels;
    uint64_t nodes;  // the writer's
    std::atomic<Node*>& next(uint64_t level) { return reinterpret_cast<std::atomic<Node*>*>(this + 1)[level]; }
    Node* after(uint64_t level) const {
      return reinterpret_cast<const std::atomic<Node*>*>(this + 1)[level].load(std::memory_order_acquire);
    }
  };

  // Goes through the versions of one key that a snapshot sees, newest first.
  class Versions {
   public:
    bool Valid() const { return entry_ != nullptr; }
    const char* entry() const { return entry_; }
    void Next();

   private:
    friend class HashIndex;
    const char* entry_ = nullptr;
    const Node* node_ = nullptr;  // null: it is the only version
  };

  // Nobody who chooses keys may know the hash's seed: keys of equal hashes are looked for one after the other.
  explicit HashIndex(const KeyHash& hash) : hash_(hash), random_(hash.seed() | 1) {}
  ~HashIndex();
  HashIndex(const HashIndex&) = delete;
  HashIndex& operator=(const HashIndex&) = delete;

  // Room for `keys` in all, so that Add need not grow the table.
  void Reserve(size_t keys);

  void Add(const char* entry) { AddAll(&entry, 1); }
  // Many at once hide the latency of the table's cache lines.
  void AddAll(const char* const* entries, size_t count);

  uint64_t HashOf(const rocksdb::Slice& user_key) const { return hash_(user_key); }
  // Versions of `key.user_key`, which has this hash, with tags up to `key.tag`. Sees every entry whose Add returned
  // before.
  Versions FindHashed(const EntryKey& key, uint64_t hash) const;

  // Bytes held, outgrown tables included.
  size_t MemoryBytes() const { return memory_bytes_.load(std::memory_order_relaxed); }
  // The writer's.
  size_t keys() const { return keys_; }
  size_t KeysBeforeGrowth() const { return (table_.load(std::memory_order_relaxed)->mask + 1) * 5 / 8 - keys_; }

 private:
  struct Free {
    void operator()(std::atomic<uint64_t>* words) const { free(words); }
  };
  struct Table {
    explicit Table(size_t slots);
    const size_t mask;
    const int shift;
    std::unique_ptr<std::atomic<uint64_t>[], Free> words;
    // The home of a hash: its high bits below the 15 of the tag.
    size_t Home(uint64_t hash) const { return static_cast<size_t>(hash << 15 >> shift) & mask; }
  };

  void AddHashed(const char* entry, uint64_t hash);
  void AddVersion(std::atomic<uint64_t>* slot, uint64_t word, const char* entry, uint64_t tag);

  Head* NewHead(uint64_t levels);
  Node* NewNode(const char* entry, uint64_t tag, int height);
  int RandomHeight(uint64_t most);
  char* AllocateBytes(size_t bytes);
  void Grow(size_t slots);

  const KeyHash hash_;
  uint64_t random_;
  std::atomic<Table*> table_{nullptr};
  size_t keys_ = 0;
  std::vector<std::unique_ptr<Table>> tables_;
  std::vector<std::unique_ptr<char[]>> chunks_;
  char* chunk_at_ = nullptr;
  size_t chunk_left_ = 0;
  std::atomic<size_t> memory_bytes_{0};
};

}  // namespace cairn
