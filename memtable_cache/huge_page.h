// Plain memory for a pool, on huge pages where the machine has them: MAP_HUGETLB, else madvise(MADV_HUGEPAGE), else
// ordinary pages. Which it was is reported.
//
// Thread-safety: immutable once made.

#pragma once

#include <cstddef>
#include <memory>
#include <string>

#include "rocksdb/status.h"

namespace cairn {

enum class PageKind { kHugeTlb, kAdvised, kOrdinary };

class MemoryRegion {
 public:
  enum class Sharing {
    kAnonymous,   // cannot be mapped a second time
    kRemappable,  // a memory file: MapAt puts its pages at other addresses, too
  };

  // `bytes` is rounded up to whole huge pages. Aligned to a huge page. Filled with zeros.
  static rocksdb::Status Create(size_t bytes, Sharing sharing, std::unique_ptr<MemoryRegion>* region);
  ~MemoryRegion();
  MemoryRegion(const MemoryRegion&) = delete;
  MemoryRegion& operator=(const MemoryRegion&) = delete;

  char* base() const { return base_; }
  size_t bytes() const { return bytes_; }
  PageKind page_kind() const { return page_kind_; }
  // What `offset` and `length` of MapAt must be multiples of.
  size_t page_bytes() const;

  // Maps `length` bytes of a remappable region at `offset` over `address` as well.
  rocksdb::Status MapAt(void* address, size_t offset, size_t length) const;

  // One line for the log and `cairn stats`.
  std::string Report() const;

 private:
  MemoryRegion() = default;
  bool TryHugeTlb(Sharing sharing);
  rocksdb::Status UseOrdinary(Sharing sharing);

  char* base_ = nullptr;
  size_t bytes_ = 0;
  char* mapped_ = nullptr;  // begins before base_ where that had to be aligned
  size_t mapped_bytes_ = 0;
  int fd_ = -1;
  PageKind page_kind_ = PageKind::kOrdinary;
  std::string why_not_;
};

}  // namespace cairn
