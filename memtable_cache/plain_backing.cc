#include <sys/mman.h>

#include <algorithm>
#include <atomic>
#include <cerrno>
#include <cstring>

#include "memtable_cache/backing.h"
#include "util/rocksdb_names.h"

#if defined(__x86_64__)
#include <emmintrin.h>
#endif

namespace cairn {

namespace {

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

std::unique_ptr<Backing> NewPlainBacking() { return std::make_unique<AnonymousBacking>(); }

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
