// What the cache of a database keeps of the tree's answers, and when it stores them: at once, or later, when a read of
// the same thread has time for it (StagedFills).
//
// Thread-safety: safe; `place` is the calling thread's cache::ThreadCell().

#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <string_view>

#include "cairn/cache.h"
#include "cairn/result_cache.h"
#include "result_cache/family_spaces.h"
#include "result_cache/per_thread.h"
#include "rocksdb/slice.h"
#include "rocksdb/status.h"

namespace cairn {

// StagedFills holds what reads of the tree have brought until the cache takes it. A read that missed is slow already;
// so it leaves its answer here, and a later read that hits, and is quick, stores it. What is stored and when it is
// refused stays as it is: a fill has its ticket, whenever it comes.
//
// Invariants
//   (1) Fills are taken in the order in which they were added, each once.
//   (2) No more than kFills, of no more than kMostBytes each, are held, in memory of the object's own.
// Of a thread: no other writes to its cache lines.
class alignas(64) StagedFills {
 public:
  static constexpr size_t kFills = 4;
  static constexpr size_t kMostBytes = 512;

  struct Fill {
    ResultCache::FillTicket ticket;
    uint32_t space = 0;
    bool absent = false;
    std::string_view key;
    std::string_view value;
  };

  bool empty() const { return count_.load(std::memory_order_relaxed) == 0; }

  // False: it does not fit.
  bool Add(const Fill& fill) {
    const size_t bytes = fill.key.size() + fill.value.size();
    if (bytes > kMostBytes) return false;
    const Use use(this);
    const uint32_t count = count_.load(std::memory_order_relaxed);
    if (!use.mine() || count == kFills) return false;
    const uint32_t place = (first_ + count) % kFills;
    Held& held = held_[place];
    marks_[place] = MarkOf(fill.key);
    held.fill = fill;
    // An empty one may have no place.
    if (!fill.key.empty()) std::memcpy(held.bytes, fill.key.data(), fill.key.size());
    if (!fill.value.empty()) std::memcpy(held.bytes + fill.key.size(), fill.value.data(), fill.value.size());
    count_.store(count + 1, std::memory_order_relaxed);
    return true;
  }

  // store(fill) takes the oldest. False: there is none.
  template <class Store>
  bool TakeOne(const Store& store) {
    const Use use(this);
    const uint32_t count = count_.load(std::memory_order_relaxed);
    if (!use.mine() || count == 0) return false;
    Held& held = held_[first_];
    Fill fill = held.fill;
    fill.key = {held.bytes, fill.key.size()};
    fill.value = {held.bytes + fill.key.size(), fill.value.size()};
    store(fill);
    first_ = (first_ + 1) % kFills;
    count_.store(count - 1, std::memory_order_relaxed);
    return true;
  }

  bool Holds(std::string_view key, uint32_t space) {
    if (empty()) return false;
    const Use use(this);
    const uint32_t count = use.mine() ? count_.load(std::memory_order_relaxed) : 0;
    for (uint32_t i = 0; i < count; ++i) {
      const uint32_t place = (first_ + i) % kFills;
      if (marks_[place] != MarkOf(key)) continue;
      const Held& held = held_[place];
      if (held.fill.space == space && std::string_view(held.bytes, held.fill.key.size()) == key) return true;
    }
    return false;
  }

 private:
  // Most keys that differ have different ones: their length and last bytes.
  static uint64_t MarkOf(std::string_view key) {
    uint64_t last = 0;
    if (key.size() >= sizeof(last)) std::memcpy(&last, key.data() + key.size() - sizeof(last), sizeof(last));
    return last ^ uint64_t { key.size() } << 56;
  }

  // `bytes` holds key and value; the fill's views have their lengths only.
  struct Held {
    Fill fill;
    char bytes[kMostBytes];
  };
  class Use {
   public:
    explicit Use(StagedFills* fills) : fills_(fills), mine_(!fills->used_.exchange(true, std::memory_order_acquire)) {}
    ~Use() {
      if (mine_) fills_->used_.store(false, std::memory_order_release);
    }
    Use(const Use&) = delete;
    Use& operator=(const Use&) = delete;
    bool mine() const { return mine_; }

   private:
    StagedFills* const fills_;
    const bool mine_;
  };

  std::atomic<bool> used_{false};
  std::atomic<uint32_t> count_{0};
  uint32_t first_ = 0;           // this and what follows: whoever uses it
  uint64_t marks_[kFills] = {};  // of keys
  Held held_[kFills];
};

// A key that is read, with the space that its family had before the cache was asked (rule D2).
struct SpaceRead {
  const FamilySpaces::Family* family;
  uint32_t space;
  std::string_view key;
  ResultCache::FillTicket ticket;
};

// Whether there is nothing more to an answer than "here it is" or "there is none".
inline bool IsPlain(const rocksdb::Status& s) { return s.subcode() == rocksdb::Status::SubCode::kNone; }

class CacheFills {
 public:
  CacheFills(const DatabaseCacheOptions& options, ResultCache* cache);

  // Of the tree's answer. Nothing is stored of an error, of a large item, or if a writer came since the read's ticket.
  void Store(const SpaceRead& read, const rocksdb::Status& s, const rocksdb::Slice& value);
  void StoreLater(size_t place, const SpaceRead& read, const rocksdb::Status& s, const rocksdb::Slice& value);

  // What the thread, or every thread, has left for later.
  bool AnyLeft(size_t place) const { return !staged_[place].empty(); }
  bool Holds(size_t place, const SpaceRead& read) { return staged_[place].Holds(read.key, read.space); }
  void StoreOne(size_t place) { StoreOne(&staged_[place]); }
  void StoreAll(size_t place) { StoreAll(&staged_[place]); }
  void StoreAll();

 private:
  // Whether it is to be stored.
  bool Wants(const SpaceRead& read, const rocksdb::Status& s, const rocksdb::Slice& value) const;
  void Store(const StagedFills::Fill& fill);
  void StoreOne(StagedFills* staged);
  void StoreAll(StagedFills* staged);

  const uint64_t max_item_bytes_;
  ResultCache* const cache_;
  const bool keeps_absent_;
  StagedFills staged_[cache::kThreadCells];
};

}  // namespace cairn
