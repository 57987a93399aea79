// A hash table from user key to its versions, newest first: the point-lookup index of a memtable that is being written.
//
// Open addressing, one 8-byte word a key: 16 bits of the hash and the address of the key's only entry, or of the newest
// of its versions. Superseded versions are out of the way of a lookup; they are reached through the newest one, in
// O(log versions) steps for any snapshot.
//
// Invariants
//   (1) A word changes from empty to an entry, from there to newer versions, and never back.
//   (2) A version's `older` chain is strictly descending in tag. `jump` leads to some version further down the chain.
//   (3) The table is never more than 5/8 full.
//
// Thread-safety: one writer (Add, Reserve); any number of readers, without locks, also while it grows. Memory of
// a table that was outgrown is freed with the index.
//
// Source of the jumps: Myers, "An applicative random-access stack" (1983).

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
  // A version of a key. The first of a key's entries gets one when the second comes.
  struct Version {
    const char* entry;
    uint64_t tag;
    std::atomic<Version*> older;
    const Version* jump;
    uint64_t depth;  // versions below, when it was made
  };

  // Goes through the versions of one key that a snapshot sees, newest first.
  class Versions {
   public:
    bool Valid() const { return entry_ != nullptr; }
    const char* entry() const { return entry_; }
    void Next() {
      version_ = version_ == nullptr ? nullptr : version_->older.load(std::memory_order_acquire);
      entry_ = version_ == nullptr ? nullptr : version_->entry;
    }

   private:
    friend class HashIndex;
    const char* entry_ = nullptr;
    const Version* version_ = nullptr;
  };

  explicit HashIndex(const KeyOrder& order) : order_(order) {}
  ~HashIndex();
  HashIndex(const HashIndex&) = delete;
  HashIndex& operator=(const HashIndex&) = delete;

  // Room for `keys` in all, so that Add need not grow the table.
  void Reserve(size_t keys);

  void Add(const char* entry) { AddAll(&entry, 1); }
  // Many at once hide the latency of the table's cache lines.
  void AddAll(const char* const* entries, size_t count);

  // Versions of `key.user_key` with tags up to `key.tag`. Sees every entry whose Add returned before.
  Versions Find(const EntryKey& key) const;

  // Bytes held, outgrown tables included.
  size_t MemoryBytes() const { return memory_bytes_.load(std::memory_order_relaxed); }
  size_t keys() const { return keys_; }

 private:
  struct Free {
    void operator()(std::atomic<uint64_t>* words) const { free(words); }
  };
  struct Table {
    explicit Table(size_t slots);
    const size_t mask;
    const int shift;
    std::unique_ptr<std::atomic<uint64_t>[], Free> words;
    // The home of a hash: its high bits below the 16 of the tag.
    size_t Home(uint64_t hash) const { return static_cast<size_t>(hash << 16 >> shift) & mask; }
  };

  void AddHashed(const char* entry, uint64_t hash);
  void AddVersion(std::atomic<uint64_t>* slot, uint64_t word, const char* entry, uint64_t tag);
  Version* NewVersion(const char* entry, uint64_t tag, Version* older);
  void Grow(size_t slots);

  const KeyOrder& order_;
  std::atomic<Table*> table_{nullptr};
  size_t keys_ = 0;
  std::vector<std::unique_ptr<Table>> tables_;
  std::vector<std::unique_ptr<Version[]>> versions_;
  size_t versions_left_ = 0;
  std::atomic<size_t> memory_bytes_{0};
};

}  // namespace cairn
