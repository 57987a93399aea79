#include "memtable_cache/segment_pool.h"

#include <algorithm>

#include "memtable_cache/free_charges.h"

namespace cairn {

namespace {

size_t RoundUp(size_t bytes, size_t unit) { return (bytes + unit - 1) / unit * unit; }

// Regions are aligned to their size.
size_t OffsetInRegion(const char* at) { return reinterpret_cast<uintptr_t>(at) % Backing::kRegionBytes; }

}  // namespace

SegmentPool::SegmentPool(std::unique_ptr<Backing> backing, size_t keep_bytes)
    : backing_(std::move(backing)), keep_bytes_(keep_bytes) {
  if (backing_->durable()) KeepSpare();
}

SegmentPool::~SegmentPool() {
  // No memtable is left, so each region is one free block.
  for (char* region : free_[kOrders - 1]) backing_->Unmap(region, Backing::kRegionBytes);
}

int SegmentPool::OrderOf(size_t bytes) {
  int order = 0;
  while (OrderBytes(order) < bytes) ++order;
  return order;
}

rocksdb::Status SegmentPool::Claim(size_t at_least, size_t wanted, const SegmentOwner& owner, char** base,
                                   size_t* bytes) {
  const MutexLock lock(&mutex_);
  // Of what is kept free for the writes that are under way, each column family of a batch may want a segment.
  size_t size = std::max(RoundUp(at_least, kGrain), full_ ? 0 : RoundUp(wanted, kGrain));
  if (size > Backing::kRegionBytes) {
    const size_t region_bytes = RoundUp(size, Backing::kRegionBytes);
    char* region = nullptr;
    const rocksdb::Status s = backing_->Map(region_bytes, &region);
    if (!s.ok()) return s;
    *base = region;
    *bytes = size;
    CutBehind(region, size, region_bytes);
  } else {
    char* block = nullptr;
    int order = 0;
    const rocksdb::Status s = TakeOrMapBlock(at_least, &size, &block, &order);
    if (!s.ok() && backing_->durable()) {
      // No write is begun before there is room again.
      full_ = true;
      backing_->ReportFree(stats_.free_bytes, full_);
    }
    if (!s.ok()) return s;
    *base = block;
    *bytes = size;
    CutBehind(block, size, OrderBytes(order));
  }
  const rocksdb::Status s = backing_->Claim(*base, size, owner);
  if (s.ok()) {
    stats_.claimed_bytes += size;
    ++stats_.claims;
  }
  if (backing_->durable()) KeepSpare();
  ChargeFree();
  return s;
}

// A free block for *size bytes; if there is none and the backing gives no more, the largest that has `at_least`.
rocksdb::Status SegmentPool::TakeOrMapBlock(size_t at_least, size_t* size, char** block, int* order) {
  *order = OrderOf(*size);
  *block = TakeBlock(*order);
  if (*block != nullptr) return rocksdb::Status::OK();
  const rocksdb::Status s = MapRegion();
  if (s.ok()) {
    *block = TakeBlock(*order);
    return s;
  }
  const int least = OrderOf(RoundUp(at_least, kGrain));
  while (*order > least && free_[*order].empty()) --*order;
  if (free_[*order].empty()) return s;
  *block = TakeBlock(*order);
  *size = std::min(*size, OrderBytes(*order));
  return rocksdb::Status::OK();
}

// Of a durable pool: regions are added before they are needed, so that a pool that cannot grow is known before a write
// finds no room in it.
void SegmentPool::KeepSpare() {
  full_ = false;
  while (stats_.free_bytes < Backing::kSpareBytes && !full_) full_ = !MapRegion().ok();
  backing_->ReportFree(stats_.free_bytes, full_);
}

bool SegmentPool::Seal(char* base, size_t used, size_t bytes) {
  if (!backing_->copies_out()) return false;
  const MutexLock lock(&mutex_);
  if (!backing_->CopyOut(base, used, bytes)) return false;
  stats_.claimed_bytes -= bytes;
  stats_.copied_bytes += bytes;
  stats_.written_bytes += used;
  ++stats_.copies;
  return true;
}

void SegmentPool::Release(char* base, size_t bytes, bool copied) {
  const MutexLock lock(&mutex_);
  (copied ? stats_.copied_bytes : stats_.claimed_bytes) -= bytes;
  if (backing_->Free(base, bytes)) FreeRange(base, bytes);
  if (backing_->durable()) full_ = full_ && stats_.free_bytes < Backing::kSpareBytes;
  TrimFreeRegions();
  if (backing_->durable()) backing_->ReportFree(stats_.free_bytes, full_);
  ChargeFree();
}

void SegmentPool::Attach(rocksdb::WriteBufferManager* manager) {
  if (manager == nullptr) return;
  const MutexLock lock(&mutex_);
  ++managers_[manager];
  if (charged_ == nullptr) ChargeTo(manager);
}

void SegmentPool::Detach(rocksdb::WriteBufferManager* manager) {
  if (manager == nullptr) return;
  const MutexLock lock(&mutex_);
  if (--managers_.at(manager) > 0) return;
  managers_.erase(manager);
  if (charged_ != manager) return;
  FreeCharges::Leave(manager, charged_bytes_);
  ChargeTo(managers_.empty() ? nullptr : managers_.begin()->first);
}

void SegmentPool::ChargeTo(rocksdb::WriteBufferManager* manager) {
  charged_ = manager;
  charged_bytes_ = 0;
  if (manager != nullptr) FreeCharges::Join(manager);
  ChargeFree();
}

void SegmentPool::CountSorting(int64_t bytes) {
  const MutexLock lock(&mutex_);
  stats_.sorting_bytes += static_cast<size_t>(bytes);
  stats_.most_sorting_bytes = std::max(stats_.most_sorting_bytes, stats_.sorting_bytes);
}

void SegmentPool::ChargeFree() {
  if (charged_ != nullptr) charged_bytes_ = FreeCharges::Change(charged_, charged_bytes_, stats_.free_bytes);
}

size_t SegmentPool::MostFree() const {
  size_t most = keep_bytes_;
  if (charged_ != nullptr) most = std::min(most, FreeCharges::MostFree(charged_));
  return backing_->durable() ? std::max(most, Backing::kSpareBytes) : most;
}

SegmentPool::Stats SegmentPool::GetStats() const {
  const MutexLock lock(&mutex_);
  Stats stats = stats_;
  stats.misses = misses_.load(std::memory_order_relaxed);
  return stats;
}

rocksdb::Status SegmentPool::MapRegion() {
  char* region = nullptr;
  const rocksdb::Status s = backing_->Map(Backing::kRegionBytes, &region);
  if (s.ok()) FreeRange(region, Backing::kRegionBytes);
  return s;
}

char* SegmentPool::TakeBlock(int order) {
  int from = order;
  while (from < kOrders && free_[from].empty()) ++from;
  if (from == kOrders) return nullptr;
  char* block = free_[from].front();
  free_[from].pop_front();
  free_blocks_.erase(block);
  stats_.free_bytes -= OrderBytes(from);
  while (from > order) {
    --from;
    if (backing_->durable()) backing_->Split(block, OrderBytes(from));
    PutBlock(block + OrderBytes(from), from);
  }
  return block;
}

void SegmentPool::PutBlock(char* block, int order) {
  free_[order].push_front(block);
  free_blocks_[block] = {order, free_[order].begin()};
  stats_.free_bytes += OrderBytes(order);
}

// Of a free block of `bytes`, keeps the first `keep` out of the pool.
void SegmentPool::CutBehind(char* block, size_t keep, size_t bytes) {
  if (keep == bytes) return;
  if (backing_->durable()) backing_->Split(block, keep);
  FreeRange(block + keep, bytes - keep);
}

// Puts any range of whole grains back, in the largest blocks that fit at its places.
void SegmentPool::FreeRange(char* base, size_t bytes) {
  while (bytes > 0) {
    const size_t offset = OffsetInRegion(base);
    int order = kOrders - 1;
    while (OrderBytes(order) > bytes || offset % OrderBytes(order) != 0) --order;
    const size_t here = OrderBytes(order);
    if (backing_->durable() && here < bytes) backing_->Split(base, here);
    FreeBlockAndJoin(base, order);
    base += here;
    bytes -= here;
  }
}

void SegmentPool::FreeBlockAndJoin(char* block, int order) {
  while (order + 1 < kOrders) {
    const bool second = (OffsetInRegion(block) & OrderBytes(order)) != 0;
    const auto buddy = free_blocks_.find(second ? block - OrderBytes(order) : block + OrderBytes(order));
    if (buddy == free_blocks_.end() || buddy->second.order != order) break;
    block = std::min(block, buddy->first);
    free_[order].erase(buddy->second.place);
    free_blocks_.erase(buddy);
    stats_.free_bytes -= OrderBytes(order);
    if (backing_->durable()) backing_->Join(block);
    ++order;
  }
  PutBlock(block, order);
}

void SegmentPool::TrimFreeRegions() {
  std::list<char*>& whole = free_[kOrders - 1];
  const size_t bytes = OrderBytes(kOrders - 1);
  const size_t most = MostFree();
  // A durable pool must not go below what it keeps.
  const size_t least = backing_->durable() ? most + bytes : most + 1;
  while (stats_.free_bytes >= least && !whole.empty() && backing_->takes_back()) {
    char* block = whole.back();
    whole.pop_back();
    free_blocks_.erase(block);
    stats_.free_bytes -= bytes;
    backing_->Unmap(block, bytes);
  }
}

}  // namespace cairn
