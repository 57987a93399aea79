#include "memtable_cache/durable_backing.h"

#include <sys/mman.h>

#include <cerrno>
#include <cstring>
#include <unordered_map>
#include <utility>

#include "util/page_size.h"
#include "util/rocksdb_names.h"

namespace cairn {

namespace {

class DurableBacking : public Backing {
 public:
  DurableBacking(std::shared_ptr<DurablePool> pool, uint64_t limit, uint64_t area_bytes,
                 std::unique_ptr<CacheReservation> cache)
      : pool_(std::move(pool)), cache_(std::move(cache)), user_(pool_->NextUser()) {
    pool_->LimitTo(limit);
    layout_.header_bytes = kSegmentHeaderBytes;
    layout_.word_offset = kTailWordOffset;
    layout_.entry_header_bytes = kEntryHeaderBytes;
    layout_.entry_alignment = 8;
    if (area_bytes > 0 && copies_out()) MakeArea((area_bytes + kRegionBytes - 1) / kRegionBytes * kRegionBytes);
  }

  ~DurableBacking() override {
    ReportFree(0, false);
    if (area_ == nullptr) return;
    pool_->TakeFree(area_, area_bytes_, area_bytes_);  // where all of it is free, it becomes one segment
    Unmap(area_, area_bytes_);
  }

  Status Map(size_t bytes, char** region) override {
    char* const at = ReserveAligned(bytes);
    if (at == nullptr) return Status::MemoryLimit("address space for a pool file", strerror(errno));
    const Status s = pool_->Take(bytes, at);
    if (s.ok()) {
      *region = at;
    } else {
      munmap(at, bytes);
    }
    return s;
  }

  void Unmap(char* region, size_t bytes) override {
    pool_->GiveBack(region, bytes);
    munmap(region, bytes);
  }
  bool takes_back() const override { return pool_->CanGiveBack(); }

  // With eADR nothing has been flushed: left to the cache, a sealed segment would reach the medium in scattered lines,
  // each of which costs a block. One outside the area is written back where it is, in order.
  bool copies_out() const override { return pool_->file()->on_persistent_memory() && !pool_->file()->needs_flush(); }
  bool CopyOut(char* segment, size_t used, size_t bytes) override {
    const auto lent = lent_.find(segment);
    if (lent != lent_.end() && pool_->MoveHome(segment, used, bytes)) {
      pool_->FreeMoved(lent->second);
      lent_.erase(lent);
      return true;
    }
    // The old pages may be gone from these addresses already.
    if (lent != lent_.end()) pool_->MapAs(segment, lent->second, bytes).PermitUncheckedError();
    pool_->file()->WriteBack(segment, used);
    return false;
  }

  bool durable() const override { return true; }
  void Split(char* segment, size_t bytes) override { pool_->Split(segment, bytes); }
  void Join(char* segment) override { pool_->Join(segment); }
  Status Claim(char* segment, size_t bytes, const SegmentOwner& owner) override {
    Status s;
    char* const from =
        !owner.one_entry && CanBeMapped(segment, bytes) ? pool_->TakeFree(area_, area_bytes_, bytes) : nullptr;
    if (from != nullptr && pool_->MapAs(segment, from, bytes).ok()) {
      lent_[segment] = from;
    } else if (from != nullptr) {
      s = pool_->MapAs(segment, segment, bytes);
    }
    if (s.ok()) pool_->Claim(segment, user_ << 48 | owner.memtable, owner.column_family, 0);
    return s;
  }
  bool Free(char* segment, size_t bytes) override {
    pool_->Free(segment);
    return lent_.erase(segment) == 0 || pool_->MapAs(segment, segment, bytes).ok();
  }
  void FinishEntry(char* segment, char* entry, uint32_t length) override { pool_->FinishEntry(segment, entry, length); }
  void Publish(char* segment) override { pool_->PersistTail(segment); }
  void Spilled(const Status& why) override { pool_->Fail(why); }
  void SpillEnded() override { pool_->FailureEnded(); }
  void ReportFree(size_t bytes, bool full) override {
    pool_->CountFree(static_cast<int64_t>(bytes) - static_cast<int64_t>(free_), static_cast<int>(full) - full_);
    free_ = bytes;
    full_ = static_cast<int>(full);
  }
  void MemTableSealed(const SegmentOwner& /*owner*/) override { pool_->AcknowledgeAll(); }
  void MemTableFlushed(const SegmentOwner& /*owner*/, const std::vector<char*>& segments) override {
    pool_->MarkFlushed(segments);
  }

  Status BeforeFlush() override { return pool_->SyncForFlush(); }
  Status BeforeFree(const std::vector<char*>& segments) override { return pool_->BeforeFree(segments); }

  std::string Report() const override {
    const uint64_t returned = pool_->returned_bytes();
    std::string report = pool_->file()->Report();
    if (returned > 0) report += "; " + std::to_string(returned) + " bytes of it given back to the file system";
    if (area_ != nullptr) {
      report += "; sealed by copy, writers work in " + std::to_string(area_bytes_) + " bytes of it";
    }
    if (cache_ != nullptr) report += "; cache: " + cache_->ReportLine();
    return report + why_not_;
  }

 private:
  // Of a part of a page, or of a device's unit, nothing can be mapped.
  bool CanBeMapped(const char* segment, size_t bytes) const {
    const size_t unit = pool_->file()->keeps_size() ? PmemFile::kDeviceUnitBytes : PageSize();
    return area_ != nullptr && reinterpret_cast<uintptr_t>(segment) % unit == 0 && bytes % unit == 0;
  }

  void MakeArea(size_t bytes) {
    const Status s = Map(bytes, &area_);
    if (s.ok()) {
      area_bytes_ = bytes;
    } else {
      area_ = nullptr;
      why_not_ = "; sealed in place, because there is no room for " + std::to_string(bytes) +
                 " bytes to work in: " + s.ToString();
    }
  }

  const std::shared_ptr<DurablePool> pool_;
  const std::unique_ptr<CacheReservation> cache_;
  char* area_ = nullptr;  // segments of their own, a region of the pool file
  size_t area_bytes_ = 0;
  std::unordered_map<char*, char*> lent_;  // by claimed segment: the one of the area whose bytes it has
  std::string why_not_;
  size_t free_ = 0;  // as reported last
  int full_ = 0;
  const uint64_t user_;  // cutters of the pool, one after the other, each count memtables on their own
};

}  // namespace

std::unique_ptr<Backing> NewDurableBacking(std::shared_ptr<DurablePool> pool, uint64_t limit, uint64_t area_bytes,
                                           std::unique_ptr<CacheReservation> cache) {
  return std::make_unique<DurableBacking>(std::move(pool), limit, area_bytes, std::move(cache));
}

}  // namespace cairn
