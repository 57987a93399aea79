#include "memtable_cache/locked_backing.h"

#include <fcntl.h>
#include <sys/mman.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <utility>

#include "util/mutex.h"

namespace cairn {

namespace {

using rocksdb::Status;

class LockedBacking : public Backing {
 public:
  LockedBacking(std::unique_ptr<CacheReservation> reservation, std::unique_ptr<Backing> rest)
      : reservation_(std::move(reservation)), rest_(std::move(rest)) {
    layout_ = rest_->layout();
    const MutexLock lock(&mutex_);
    if (reservation_->kind() == CacheReservationKind::kPseudoLocked) MapDevice();
  }
  ~LockedBacking() override {
    if (locked_ != nullptr) munmap(locked_, bytes_);
  }

  Status Map(size_t bytes, char** region) override {
    const MutexLock lock(&mutex_);
    for (size_t i = 0; bytes == kRegionBytes && i < used_.size(); ++i) {
      if (used_[i]) continue;
      used_[i] = true;
      *region = locked_ + i * kRegionBytes;
      return Status::OK();
    }
    return rest_->Map(bytes, region);
  }

  void Unmap(char* region, size_t bytes) override {
    const MutexLock lock(&mutex_);
    if (locked_ == nullptr || region < locked_ || region >= locked_ + bytes_) {
      rest_->Unmap(region, bytes);
      return;
    }
    // A locked region stays mapped: unmapped lines would not come back into the cache.
    for (size_t at = 0; at < bytes; at += kRegionBytes) used_[(region + at - locked_) / kRegionBytes] = false;
  }

  std::string Report() const override {
    std::string report = reservation_->report();
    for (char& c : report) c = c == '\n' ? ';' : c;
    return rest_->Report() + "; cache: " + report + why_not_;
  }

 private:
  void MapDevice() CAIRN_REQUIRES(mutex_) {
    bytes_ = reservation_->bytes() / kRegionBytes * kRegionBytes;
    if (bytes_ == 0) {
      why_not_ = " the locked region is smaller than 2 MiB and not used";
      return;
    }
    const int fd = open(reservation_->device().c_str(), O_RDWR | O_CLOEXEC);
    char* const at = fd >= 0 ? ReserveAligned(bytes_) : nullptr;
    if (at != nullptr && mmap(at, bytes_, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_FIXED, fd, 0) != MAP_FAILED) {
      locked_ = at;
      used_.resize(bytes_ / kRegionBytes);
    } else {
      // The kernel wants the thread to be bound to the region's cores.
      why_not_ = " " + reservation_->device() + " cannot be mapped: " + strerror(errno) +
                 "; bind the process to the cores of that cache";
      if (at != nullptr) munmap(at, bytes_);
    }
    if (fd >= 0) close(fd);
  }

  const std::unique_ptr<CacheReservation> reservation_;
  const std::unique_ptr<Backing> rest_;
  CheckedMutex mutex_;
  char* locked_ = nullptr;
  size_t bytes_ = 0;
  std::vector<bool> used_ CAIRN_GUARDED_BY(mutex_);  // by region
  std::string why_not_;
};

}  // namespace

std::unique_ptr<Backing> NewLockedBacking(std::unique_ptr<CacheReservation> reservation,
                                          std::unique_ptr<Backing> rest) {
  return std::make_unique<LockedBacking>(std::move(reservation), std::move(rest));
}

}  // namespace cairn
