// What the cache of a database keeps of the tree's answers, and when it stores them: at once, or later, when a read of
// the same thread has time for it (staged_fills.h).
//
// Thread-safety: safe; `place` is the calling thread's cache::ThreadCell().

#pragma once

#include <cstddef>
#include <cstdint>
#include <string_view>

#include "cairn/cache.h"
#include "cairn/result_cache.h"
#include "result_cache/family_spaces.h"
#include "result_cache/per_thread.h"
#include "result_cache/staged_fills.h"
#include "rocksdb/slice.h"
#include "rocksdb/status.h"

namespace cairn {

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
