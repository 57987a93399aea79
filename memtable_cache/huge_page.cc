#include "memtable_cache/huge_page.h"

#include <sys/mman.h>
#include <unistd.h>

#include <cerrno>
#include <cstdint>
#include <cstring>

namespace cairn {

using rocksdb::Status;

namespace {

constexpr size_t kHugePageBytes = 2 << 20;
constexpr size_t kPageBytes = 4096;

}  // namespace

Status MemoryRegion::Create(size_t bytes, Sharing sharing, std::unique_ptr<MemoryRegion>* region) {
  std::unique_ptr<MemoryRegion> result(new MemoryRegion());
  result->bytes_ = (bytes + kHugePageBytes - 1) / kHugePageBytes * kHugePageBytes;
  if (result->bytes_ == 0) return Status::InvalidArgument("a memory region needs a size");
  if (!result->TryHugeTlb(sharing)) {
    const Status s = result->UseOrdinary(sharing);
    if (!s.ok()) return s;
  }
  *region = std::move(result);
  return Status::OK();
}

MemoryRegion::~MemoryRegion() {
  if (mapped_ != nullptr) munmap(mapped_, mapped_bytes_);
  if (fd_ >= 0) close(fd_);
}

bool MemoryRegion::TryHugeTlb(Sharing sharing) {
  int flags = MAP_PRIVATE | MAP_ANONYMOUS | MAP_HUGETLB;
  if (sharing == Sharing::kRemappable) {
    fd_ = memfd_create("cairn_pool", MFD_CLOEXEC | MFD_HUGETLB);
    if (fd_ >= 0 && ftruncate(fd_, static_cast<off_t>(bytes_)) != 0) {
      close(fd_);
      fd_ = -1;
    }
    flags = MAP_SHARED;
  }
  void* at = MAP_FAILED;
  if (sharing == Sharing::kAnonymous || fd_ >= 0) {
    // The kernel reserves the pages here, and says so if there are not enough: no fault later can fail.
    at = mmap(nullptr, bytes_, PROT_READ | PROT_WRITE, flags, fd_, 0);
  }
  if (at == MAP_FAILED) {
    why_not_ = strerror(errno);
    if (fd_ >= 0) close(fd_);
    fd_ = -1;
    return false;
  }
  mapped_ = base_ = static_cast<char*>(at);
  mapped_bytes_ = bytes_;
  page_kind_ = PageKind::kHugeTlb;
  return true;
}

Status MemoryRegion::UseOrdinary(Sharing sharing) {
  // Address space for the alignment, into which the memory is then mapped.
  mapped_bytes_ = bytes_ + kHugePageBytes;
  void* const at = mmap(nullptr, mapped_bytes_, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
  if (at == MAP_FAILED) return Status::MemoryLimit("no address space for a pool", strerror(errno));
  mapped_ = static_cast<char*>(at);
  const auto address = reinterpret_cast<uintptr_t>(at);
  base_ = mapped_ + (kHugePageBytes - address % kHugePageBytes) % kHugePageBytes;
  int flags = MAP_FIXED | MAP_PRIVATE | MAP_ANONYMOUS;
  if (sharing == Sharing::kRemappable) {
    fd_ = memfd_create("cairn_pool", MFD_CLOEXEC);
    if (fd_ < 0 || ftruncate(fd_, static_cast<off_t>(bytes_)) != 0) {
      return Status::MemoryLimit("no memory file for a pool", strerror(errno));
    }
    flags = MAP_FIXED | MAP_SHARED;
  }
  if (mmap(base_, bytes_, PROT_READ | PROT_WRITE, flags, fd_, 0) == MAP_FAILED) {
    return Status::MemoryLimit("no memory for a pool of " + std::to_string(bytes_) + " bytes", strerror(errno));
  }
  if (madvise(base_, bytes_, MADV_HUGEPAGE) == 0) {
    page_kind_ = PageKind::kAdvised;
  } else {
    why_not_ += std::string("; ") + strerror(errno);
  }
  return Status::OK();
}

size_t MemoryRegion::page_bytes() const { return page_kind_ == PageKind::kHugeTlb ? kHugePageBytes : kPageBytes; }

Status MemoryRegion::MapAt(void* address, size_t offset, size_t length) const {
  if (fd_ < 0) return Status::NotSupported("this memory region cannot be mapped twice");
  const int flags = MAP_SHARED | MAP_FIXED;
  return mmap(address, length, PROT_READ | PROT_WRITE, flags, fd_, static_cast<off_t>(offset)) == MAP_FAILED
             ? Status::MemoryLimit("a pool's pages cannot be mapped again", strerror(errno))
             : Status::OK();
}

std::string MemoryRegion::Report() const {
  const std::string text = "pool in memory, " + std::to_string(bytes_) + " bytes, ";
  switch (page_kind_) {
    case PageKind::kHugeTlb:
      return text + "on huge pages";
    case PageKind::kAdvised:
      return text + "huge pages advised (none reserved: " + why_not_ + ")";
    case PageKind::kOrdinary:
      break;
  }
  return text + "on ordinary pages (no huge pages: " + why_not_ + ")";
}

}  // namespace cairn
