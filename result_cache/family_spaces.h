// Which space of the result cache each column family of a database has.
//
// A family has one space, or none (ResultCache::kNoSpace): then its reads bypass the cache. It gets its first space
// when it is read first, because only then are its options at hand. To take a family's space away makes all its answers
// unreachable at once.
//
// Invariants
//   (1) A family has a space only from Adopt or Open to Close, if its options allow it (rule D5) and no change of the
//       whole family is under way (rule D4).
//   (2) No number of a space is given a second time before the cache has been cleared.
//   (3) In a file, a space is recorded before the family has it, and no longer recorded before the family loses it
//       (P9).
//
// Thread-safety: safe. Reads of a family that is known, and of its space, take no lock.

#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "cairn/cache.h"
#include "cairn/result_cache.h"
#include "result_cache/cache_log.h"
#include "result_cache/file_binding.h"
#include "rocksdb/db.h"
#include "util/mutex.h"

namespace cairn {

class FamilySpaces {
 public:
  struct Family {
    std::atomic<uint32_t> space{ResultCache::kNoSpace};
    std::atomic<bool> known{false};  // whether `allowed` is known
    std::atomic<bool> allowed{true};
    int changes = 0;  // under way; guarded by FamilySpaces::mutex_, as what follows
    uint32_t id = 0;
    uint64_t options = 0;  // hash of those that make answers what they are
  };

  // `binding`: null if the cache is in memory. All of them outlive this.
  FamilySpaces(const DatabaseCacheOptions& options, ResultCache* cache, FileBinding* binding, const CacheLog* log)
      : options_(options), cache_(cache), binding_(binding), log_(log) {}

  // Null: it cannot have a space.
  const Family* Of(rocksdb::ColumnFamilyHandle* handle) {
    const Family* const family = Find(handle->GetID());
    return family != nullptr && family->known.load(std::memory_order_acquire) ? family : Meet(handle);
  }
  // Null: nobody has asked for it yet.
  Family* Find(uint32_t id) const {
    if (id >= kMaxFamilies) return nullptr;
    const Page* const page = pages_[id / kFamiliesAPage].load(std::memory_order_seq_cst);
    return page == nullptr ? nullptr : page->families[id % kFamiliesAPage].load(std::memory_order_seq_cst);
  }
  // For a writer, who has no handle. Null: it cannot have a space.
  const Family* FindOrMake(uint32_t id);
  static uint32_t SpaceOf(const Family* family) {
    return family == nullptr ? ResultCache::kNoSpace : family->space.load(std::memory_order_seq_cst);
  }

  // From now on families have spaces, or none. At first they have none.
  void Open();
  void Close();

  // Rule D4: between the two, these families have no spaces.
  void BeginChange(const std::vector<uint32_t>& families) { CountChanges(families, 1); }
  void EndChange(const std::vector<uint32_t>& families) { CountChanges(families, -1); }
  uint64_t changes() const { return changes_.load(std::memory_order_relaxed); }

  // Before Open, of a cache in a file that is right: these families have the spaces that the file records, and the
  // cache holds nothing else. After a loss of power, only what was right at the state that is left (P11).
  void Adopt(const std::vector<rocksdb::ColumnFamilyHandle*>& families, const WalReport::Since& since);

  // Logs each name in the option column_families that is none of these families'.
  void WarnOfUnknownNames(const std::vector<rocksdb::ColumnFamilyHandle*>& families) const;

 private:
  // Families by id; a page is made when it is needed.
  static constexpr size_t kFamiliesAPage = 256;
  static constexpr size_t kPages = 1024;
  static constexpr uint32_t kMaxFamilies = kPages * kFamiliesAPage;
  struct Page {
    std::atomic<Family*> families[kFamiliesAPage] = {};
  };

  const Family* Meet(rocksdb::ColumnFamilyHandle* handle);
  // What is known of it now; with no space. Null: it cannot have one.
  Family* Examine(rocksdb::ColumnFamilyHandle* handle, const rocksdb::ColumnFamilyDescriptor& descriptor)
      CAIRN_REQUIRES(mutex_);
  // Why the family may not have a space; empty: it may.
  std::string WhyNot(const rocksdb::ColumnFamilyDescriptor& family) const;

  Family* Make(uint32_t id) CAIRN_REQUIRES(mutex_);
  void RenewSpace(Family* family) CAIRN_REQUIRES(mutex_);
  void RenewSpaces() CAIRN_REQUIRES(mutex_);
  uint32_t FreshSpace() CAIRN_REQUIRES(mutex_);
  void CountChanges(const std::vector<uint32_t>& families, int by);

  const DatabaseCacheOptions& options_;
  ResultCache* const cache_;
  FileBinding* const binding_;
  const CacheLog* const log_;
  std::atomic<Page*> pages_[kPages] = {};
  std::atomic<uint64_t> changes_{0};

  CheckedMutex mutex_;
  bool open_ CAIRN_GUARDED_BY(mutex_) = false;
  std::vector<std::unique_ptr<Page>> all_pages_ CAIRN_GUARDED_BY(mutex_);
  std::vector<std::unique_ptr<Family>> all_families_ CAIRN_GUARDED_BY(mutex_);
  uint32_t next_space_ CAIRN_GUARDED_BY(mutex_) = 0;
};

}  // namespace cairn
