#include "result_cache/arena.h"

#include <sys/mman.h>

#include <algorithm>
#include <utility>

#include "result_cache/cache_file.h"
#include "util/page_size.h"

namespace cairn::cache {

MappedRange::MappedRange(size_t bytes, Pages pages) {
  const size_t unit = pages == Pages::kHuge && bytes >= kHugePage ? kHugePage : PageSize();
  const size_t wanted = RoundUp(bytes == 0 ? 1 : bytes, PageSize());
  void* const mapped =
      mmap(nullptr, wanted + unit, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
  if (mapped == MAP_FAILED) return;
  mapped_ = static_cast<char*>(mapped);
  mapped_size_ = wanted + unit;
  data_ = mapped_ + (RoundUp(reinterpret_cast<uintptr_t>(mapped_), unit) - reinterpret_cast<uintptr_t>(mapped_));
  size_ = wanted;
  // A hint: without huge pages everything works, more slowly.
  if (unit == kHugePage) madvise(data_, size_, MADV_HUGEPAGE);
}

MappedRange::~MappedRange() {
  if (mapped_ != nullptr) munmap(mapped_, mapped_size_);
}

void MappedRange::Release(size_t begin, size_t bytes) {
  const size_t first = RoundUp(begin, PageSize());
  const size_t end = (begin + bytes) / PageSize() * PageSize();
  if (first < end) madvise(data_ + first, end - first, MADV_DONTNEED);
}

Arena::Arena(size_t capacity, size_t max_bytes, size_t chunk_bytes, MappedRange::Pages pages,
             std::function<void(int64_t)> changed, CacheFile* file)
    : chunk_bytes_(chunk_bytes),
      max_bytes_(max_bytes),
      huge_pages_(pages == MappedRange::Pages::kHuge && file == nullptr && max_bytes >= kHugePage),
      changed_(std::move(changed)),
      file_(file),
      // Chunk 0, and what a reader of overwritten bytes may read behind the last chunk.
      range_(file != nullptr ? 0 : max_bytes + 2 * chunk_bytes, pages),
      base_(file != nullptr ? file->chunks() : range_.data()),
      chunks_(file != nullptr ? file->chunk_count() : range_.size() / chunk_bytes - 1),
      capacity_(capacity) {}

void Arena::Charge(size_t bytes) {
  charged_.fetch_add(bytes, std::memory_order_relaxed);
  if (changed_) changed_(static_cast<int64_t>(bytes));
}

void Arena::Uncharge(size_t bytes) {
  charged_.fetch_sub(bytes, std::memory_order_relaxed);
  if (changed_ && bytes > 0) changed_(-static_cast<int64_t>(bytes));
}

bool Arena::TryCharge(size_t bytes) {
  size_t now = charged_.load(std::memory_order_relaxed);
  do {
    const size_t limit = capacity();
    if (now > limit || bytes > limit - now) return false;
  } while (!charged_.compare_exchange_weak(now, now + bytes, std::memory_order_relaxed));
  if (changed_ && bytes > 0) changed_(static_cast<int64_t>(bytes));
  return true;
}

bool Arena::TryChargeNext() {
  if (rest_ >= chunk_bytes_) {
    rest_ -= chunk_bytes_;
    return true;
  }
  const size_t in_page = size_t{next_} * chunk_bytes_ % kHugePage;
  const bool begins_page = huge_pages_ && (in_page == 0 || next_ == 1);
  if (!TryCharge(begins_page ? kHugePage - in_page : chunk_bytes_)) return false;
  if (begins_page) rest_ = kHugePage - in_page - chunk_bytes_;
  return true;
}

uint32_t Arena::TakeChunk() {
  const MutexLock lock(&mutex_);
  if (!free_.empty()) {
    if (!TryCharge(chunk_bytes_)) return 0;
    const uint32_t chunk = free_.back();
    if (file_ != nullptr && !file_->Allocate(chunk)) {
      Uncharge(chunk_bytes_);
      return 0;
    }
    free_.pop_back();
    return chunk;
  }
  if (next_ >= chunks_ || !TryChargeNext()) return 0;
  if (file_ != nullptr && !file_->Allocate(next_)) {
    Uncharge(chunk_bytes_);
    return 0;
  }
  return next_++;
}

void Arena::ReturnRest() {
  const MutexLock lock(&mutex_);
  range_.Release(size_t{next_} * chunk_bytes_, rest_);
  Uncharge(std::exchange(rest_, 0));
}

void Arena::ReturnChunk(uint32_t chunk) {
  if (file_ == nullptr) range_.Release(size_t{chunk} * chunk_bytes_, chunk_bytes_);
  {
    const MutexLock lock(&mutex_);
    free_.push_back(chunk);
  }
  Uncharge(chunk_bytes_);
}

void Arena::AdoptChunks(const std::vector<bool>& adopted) {
  Charge(static_cast<size_t>(std::count(adopted.begin(), adopted.end(), true)) * chunk_bytes_);
  const MutexLock lock(&mutex_);
  for (uint32_t chunk = 1; chunk < adopted.size(); ++chunk) {
    if (adopted[chunk]) next_ = chunk + 1;
  }
  for (uint32_t chunk = next_ - 1; chunk > 0; --chunk) {
    if (!adopted[chunk]) free_.push_back(chunk);
  }
}

}  // namespace cairn::cache
