#include "memtable_cache/area_backing.h"

#include <fcntl.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <iterator>
#include <map>
#include <unordered_map>
#include <utility>

#include "util/page_size.h"
#include "util/rocksdb_names.h"

namespace cairn {

namespace {

constexpr int kReadWrite = PROT_READ | PROT_WRITE;

// Gives a file's pages addresses that hold others. Not mmap(): the thread sanitizer takes that for a write to all of
// the bytes.
bool MapOver(char* at, size_t bytes, int flags, int fd, uint64_t offset) {
  return syscall(SYS_mmap, at, bytes, kReadWrite, flags | MAP_FIXED | MAP_POPULATE, fd, offset) != -1;
}

class AreaBacking : public Backing {
 public:
  AreaBacking(std::unique_ptr<CacheReservation> reservation, std::optional<uint64_t> area_bytes)
      : reservation_(std::move(reservation)), store_(NewPlainBacking()) {
    if (area_bytes.has_value()) OpenMemory(*area_bytes / PageSize() * PageSize());
  }
  ~AreaBacking() override {
    if (fd_ >= 0) close(fd_);
  }

  Status Map(size_t bytes, char** region) override { return store_->Map(bytes, region); }
  void Unmap(char* region, size_t bytes) override { store_->Unmap(region, bytes); }

  Status Claim(char* segment, size_t bytes, const SegmentOwner& owner) override {
    // Of a part of a page nothing can be mapped; and who maps it nevertheless maps the page.
    uint64_t offset = 0;
    if (owner.one_entry || reinterpret_cast<uintptr_t>(segment) % PageSize() != 0 || bytes % PageSize() != 0 ||
        !TakeRange(bytes, &offset)) {
      return Status::OK();
    }
    if (MapOver(segment, bytes, MAP_SHARED, fd_, offset)) {
      lent_[segment] = offset;
      return Status::OK();
    }
    // The old pages may be gone from these addresses already.
    GiveRange(offset, bytes);
    return MapStore(segment, bytes) ? Status::OK() : Status::MemoryLimit("pages of a sub-MemTable", strerror(errno));
  }

  bool Free(char* segment, size_t bytes) override {
    const auto lent = lent_.find(segment);
    if (lent == lent_.end()) return true;
    // Pages that cannot be replaced stay at these addresses.
    if (MapStore(segment, bytes)) GiveRange(lent->second, bytes);
    lent_.erase(lent);
    return true;
  }

  bool copies_out() const override { return fd_ >= 0; }

  bool CopyOut(char* segment, size_t used, size_t bytes) override {
    const auto lent = lent_.find(segment);
    if (lent == lent_.end()) return false;
    void* const room = mmap(nullptr, bytes, kReadWrite, MAP_PRIVATE | MAP_ANONYMOUS | MAP_POPULATE, -1, 0);
    if (room == MAP_FAILED) return false;
    CopySegment(static_cast<char*>(room), segment, used, layout_);
    // The kernel replaces a mapping under its lock: a reader that faults meanwhile waits, and finds the copy.
    if (syscall(SYS_mremap, room, bytes, bytes, MREMAP_MAYMOVE | MREMAP_FIXED, segment) == -1) {
      munmap(room, bytes);
      // The old pages may be gone from these addresses already.
      MapOver(segment, bytes, MAP_SHARED, fd_, lent->second);
      return false;
    }
    GiveRange(lent->second, bytes);
    lent_.erase(lent);
    return true;
  }

  std::string Report() const override {
    std::string report = copies_out() ? "plain memory, sealed by copy" : store_->Report();
    if (area_bytes_ > 0) report += ", writers work in " + std::to_string(area_bytes_) + " bytes of a memory file";
    if (reservation_ != nullptr) report += "; cache: " + reservation_->ReportLine();
    return report + why_not_;
  }

 private:
  void OpenMemory(uint64_t bytes) {
    fd_ = bytes > 0 ? memfd_create("cairn-sub-memtables", MFD_CLOEXEC) : -1;
    if (fd_ >= 0 && ftruncate(fd_, static_cast<off_t>(bytes)) == 0) {
      area_bytes_ = bytes;
      free_[0] = bytes;
      return;
    }
    why_not_ =
        std::string("; sealed in place, because ") +
        (bytes == 0 ? "pool_size is less than a page" : std::string("there is no memory file: ") + strerror(errno));
    if (fd_ >= 0) close(fd_);
    fd_ = -1;
  }

  bool MapStore(char* segment, size_t bytes) {
    return syscall(SYS_mmap, segment, bytes, kReadWrite, MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED, -1, 0) != -1;
  }

  // The first that fits: the fewest pages are in use.
  bool TakeRange(uint64_t bytes, uint64_t* offset) {
    for (auto range = free_.begin(); range != free_.end(); ++range) {
      if (range->second < bytes) continue;
      *offset = range->first;
      const uint64_t rest = range->second - bytes;
      free_.erase(range);
      if (rest > 0) free_[*offset + bytes] = rest;
      return true;
    }
    return false;
  }

  void GiveRange(uint64_t offset, uint64_t bytes) {
    auto next = free_.emplace(offset, bytes).first;
    if (next != free_.begin() && std::prev(next)->first + std::prev(next)->second == offset) --next;
    while (std::next(next) != free_.end() && next->first + next->second >= std::next(next)->first) {
      next->second = std::next(next)->first + std::next(next)->second - next->first;
      free_.erase(std::next(next));
    }
  }

  const std::unique_ptr<CacheReservation> reservation_;
  const std::unique_ptr<Backing> store_;
  int fd_ = -1;
  uint64_t area_bytes_ = 0;
  std::string why_not_;
  std::map<uint64_t, uint64_t> free_;         // of the area: bytes, by offset
  std::unordered_map<char*, uint64_t> lent_;  // where in the area a claimed segment's pages are
};

}  // namespace

std::unique_ptr<Backing> NewAreaBacking(std::unique_ptr<CacheReservation> reservation,
                                        std::optional<uint64_t> area_bytes) {
  return std::make_unique<AreaBacking>(std::move(reservation), area_bytes);
}

}  // namespace cairn
