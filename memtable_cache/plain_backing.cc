#include <fcntl.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <cerrno>
#include <cstring>
#include <map>
#include <utility>

#include "memtable_cache/backing.h"
#include "util/mutex.h"
#include "util/page_size.h"

#if defined(__x86_64__)
#include <emmintrin.h>
#endif

namespace cairn {

namespace {

using rocksdb::Status;

Status OutOfMemory(const char* what, size_t bytes) {
  return Status::MemoryLimit(std::string(what) + " of " + std::to_string(bytes) + " bytes for sub-MemTables",
                             strerror(errno));
}

class AnonymousBacking : public Backing {
 public:
  Status Map(size_t bytes, char** region) override {
    char* at = ReserveAligned(bytes);
    if (at == nullptr) return OutOfMemory("address space", bytes);
    if (mprotect(at, bytes, PROT_READ | PROT_WRITE) != 0) {
      const Status s = OutOfMemory("memory", bytes);
      munmap(at, bytes);
      return s;
    }
    // Only advice: without huge pages the first fill of a segment takes a fault every 4 KiB.
    if (madvise(at, bytes, MADV_HUGEPAGE) != 0) no_huge_pages_ = errno;
    *region = at;
    return Status::OK();
  }

  void Unmap(char* region, size_t bytes) override { munmap(region, bytes); }

  std::string Report() const override {
    const int refused = no_huge_pages_.load(std::memory_order_relaxed);
    return std::string("plain memory, sealed in place, ") +
           (refused == 0 ? "huge pages advised" : std::string("no huge pages (") + strerror(refused) + ")");
  }

 private:
  std::atomic<int> no_huge_pages_{0};  // errno of the kernel's refusal
};

// Pages of a memory file: frames by offset, which can be mapped anywhere. The file of the pool's frames and the file of
// the copies are the same; what a page is follows from who maps it.
class CopyingBacking : public Backing {
 public:
  ~CopyingBacking() override {
    if (fd_ >= 0) close(fd_);
  }

  Status Open() {
    fd_ = memfd_create("cairn-sub-memtables", MFD_CLOEXEC);
    return fd_ >= 0 ? Status::OK() : OutOfMemory("a memory file", 0);
  }

  Status Map(size_t bytes, char** region) override {
    const MutexLock lock(&mutex_);
    char* at = ReserveAligned(bytes);
    if (at == nullptr) return OutOfMemory("address space", bytes);
    const Status s = MapNewFrames(at, bytes);
    if (!s.ok()) {
      munmap(at, bytes);
      return s;
    }
    *region = at;
    return s;
  }

  void Unmap(char* region, size_t bytes) override { Discard(region, bytes); }

  bool copies_out() const override { return true; }

  Status CopyOut(char* segment, size_t used, size_t bytes, char** fresh) override {
    // Of a part of a page nothing can be mapped; and who maps it nevertheless maps the page.
    if (reinterpret_cast<uintptr_t>(segment) % PageSize() != 0 || bytes % PageSize() != 0) {
      return Status::NotSupported("the segment is no whole page");
    }
    const MutexLock lock(&mutex_);
    // The copy is made at the addresses that will afterwards be the fresh ones: no third mapping is needed.
    char* at = ReserveAligned(bytes);
    if (at == nullptr) return OutOfMemory("address space", bytes);
    Status s = MapNewFrames(at, bytes);
    if (!s.ok()) {
      munmap(at, bytes);
      return s;
    }
    CopySegment(at, segment, used, layout_);
    const uint64_t frame = TakeFrame(segment, bytes);
    const uint64_t copy = TakeFrame(at, bytes);
    // The kernel replaces a mapping under its lock: a reader that faults meanwhile waits, and finds the copy.
    s = MapFrames(segment, copy, bytes);
    const bool moved = s.ok();
    if (moved) s = MapFrames(at, frame, bytes);
    *fresh = at;
    if (s.ok()) return s;
    // The segment keeps the frames that it has now, and those of which nobody knows go.
    if (!moved) extents_[segment] = {frame, bytes};
    GiveBackFrames(moved ? frame : copy, bytes);
    munmap(at, bytes);
    return s;
  }

  void DropCopy(char* segment, size_t bytes) override { Discard(segment, bytes); }

  std::string Report() const override { return "plain memory, sealed by copy"; }

 private:
  Status MapNewFrames(char* at, size_t bytes) CAIRN_REQUIRES(mutex_) {
    const uint64_t offset = end_;
    if (ftruncate(fd_, static_cast<off_t>(end_ + bytes)) != 0) return OutOfMemory("a memory file", end_ + bytes);
    end_ += bytes;
    return MapFrames(at, offset, bytes);
  }

  // Frames are recorded by page, because segments are cut and joined.
  Status MapFrames(char* at, uint64_t offset, size_t bytes) CAIRN_REQUIRES(mutex_) {
    if (!MapSameBytes(at, bytes, fd_, offset)) {
      return OutOfMemory("a mapping", bytes);
    }
    extents_[at] = {offset, bytes};
    return Status::OK();
  }

  // The frames at `at`, cut out of the extent that holds them.
  uint64_t TakeFrame(char* at, size_t bytes) CAIRN_REQUIRES(mutex_) {
    auto it = --extents_.upper_bound(at);
    char* const begin = it->first;
    const Extent extent = it->second;
    extents_.erase(it);
    const size_t before = static_cast<size_t>(at - begin);
    if (before > 0) extents_[begin] = {extent.offset, before};
    if (before + bytes < extent.bytes) {
      extents_[at + bytes] = {extent.offset + before + bytes, extent.bytes - before - bytes};
    }
    return extent.offset + before;
  }

  void Discard(char* at, size_t bytes) {
    const MutexLock lock(&mutex_);
    while (bytes > 0) {
      const auto it = --extents_.upper_bound(at);
      const size_t here = std::min(bytes, it->second.bytes - static_cast<size_t>(at - it->first));
      const uint64_t offset = TakeFrame(at, here);
      GiveBackFrames(offset, here);
      munmap(at, here);
      at += here;
      bytes -= here;
    }
  }

  void GiveBackFrames(uint64_t offset, size_t bytes) {
    fallocate(fd_, FALLOC_FL_PUNCH_HOLE | FALLOC_FL_KEEP_SIZE, static_cast<off_t>(offset), static_cast<off_t>(bytes));
  }

  struct Extent {
    uint64_t offset;
    size_t bytes;
  };

  CheckedMutex mutex_;
  int fd_ = -1;
  uint64_t end_ CAIRN_GUARDED_BY(mutex_) = 0;  // of the file; holes are not used again: an offset costs nothing
  std::map<char*, Extent> extents_ CAIRN_GUARDED_BY(mutex_);
};

}  // namespace

char* ReserveAligned(size_t bytes) {
  const size_t slack = Backing::kRegionBytes;
  void* got = mmap(nullptr, bytes + slack, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
  if (got == MAP_FAILED) return nullptr;
  char* begin = static_cast<char*>(got);
  char* aligned = reinterpret_cast<char*>((reinterpret_cast<uintptr_t>(begin) + slack - 1) / slack * slack);
  if (aligned > begin) munmap(begin, static_cast<size_t>(aligned - begin));
  const size_t tail = static_cast<size_t>(begin + bytes + slack - (aligned + bytes));
  if (tail > 0) munmap(aligned + bytes, tail);
  return aligned;
}

Status Backing::CopyOut(char* /*segment*/, size_t /*used*/, size_t /*bytes*/, char** /*fresh*/) {
  return Status::NotSupported("this backing seals segments in place");
}

Status NewPlainBacking(bool copy_out, std::unique_ptr<Backing>* backing) {
  if (!copy_out) {
    *backing = std::make_unique<AnonymousBacking>();
    return Status::OK();
  }
  auto copying = std::make_unique<CopyingBacking>();
  const Status s = copying->Open();
  if (s.ok()) *backing = std::move(copying);
  return s;
}

void CopySegment(char* to, const char* from, size_t used, const SegmentLayout& layout) {
  using Word = std::atomic<uint64_t>;
  const size_t after = layout.word_offset + sizeof(Word);
  memcpy(to, from, layout.word_offset);
  const uint64_t word = reinterpret_cast<const Word*>(from + layout.word_offset)->load(std::memory_order_relaxed);
  reinterpret_cast<Word*>(to + layout.word_offset)->store(word, std::memory_order_relaxed);
  const size_t header_end = std::min(used, layout.header_bytes);
  memcpy(to + after, from + after, header_end - after);
  CopyPastCache(to + header_end, from + header_end, used - header_end);
}

// Not mmap(): the thread sanitizer takes that for a write to all of the bytes.
bool MapSameBytes(char* at, size_t bytes, int fd, uint64_t offset) {
  const int64_t mapped = syscall(SYS_mmap, at, bytes, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_FIXED, fd, offset);
  return mapped != -1;
}

void CopyPastCache(char* to, const char* from, size_t length) {
#if defined(__x86_64__)
  size_t i = 0;
  if (reinterpret_cast<uintptr_t>(to) % 16 == 0) {
    for (; i + 16 <= length; i += 16) {
      const __m128i value = _mm_loadu_si128(reinterpret_cast<const __m128i*>(from + i));
      _mm_stream_si128(reinterpret_cast<__m128i*>(to + i), value);
    }
  }
  memcpy(to + i, from + i, length - i);
  _mm_sfence();
#else
  memcpy(to, from, length);
#endif
}

}  // namespace cairn
