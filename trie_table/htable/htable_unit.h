// A unit of an HTable in memory, as it lies in the block cache.
//
// Thread-safety: a unit is immutable once it is in the cache; a UnitRef belongs to one thread.

#pragma once

#include <memory>
#include <new>
#include <utility>

#include "cache/typed_cache.h"
#include "rocksdb/cleanable.h"
#include "trie_table/htable/htable_format.h"

namespace cairn {

// One allocation: the object, then the unit's bytes as they lie in the file, but decompressed.
class HTableUnit {
 public:
  static constexpr rocksdb::CacheEntryRole kCacheEntryRole = rocksdb::CacheEntryRole::kDataBlock;

  // Room for `size` bytes.
  static std::unique_ptr<HTableUnit> New(size_t size) {
    return std::unique_ptr<HTableUnit>(new (size + kUnitSlack) HTableUnit(size));
  }
  static void* operator new(size_t self, size_t more) { return ::operator new(self + more); }
  static void operator delete(void* p) { ::operator delete(p); }
  static void operator delete(void* p, size_t /*more*/) { ::operator delete(p); }

  char* bytes() { return reinterpret_cast<char*>(this + 1); }
  const char* bytes() const { return reinterpret_cast<const char*>(this + 1); }
  size_t size() const { return size_; }
  size_t charge() const { return sizeof(*this) + size_ + kUnitSlack; }
  const UnitView& view() const { return view_; }
  rocksdb::Slice ContentSlice() const { return rocksdb::Slice(bytes(), size_); }

  // False for one that a secondary cache brought back otherwise than it was given: its view is empty.
  bool whole() const { return whole_; }

  // Opens bytes that came back from a secondary cache, of the unit at `offset` of its file.
  void OpenAgain(uint64_t offset) {
    UnitHeader header;
    whole_ = DecodeUnitHeader(bytes(), size_, &header).ok() && UnitChecksum(bytes(), size_, offset) == header.crc &&
             Open().ok();
    if (!whole_) view_ = UnitView();
  }

  // Makes view() of bytes that are not compressed.
  IndexStatus Open() {
    UnitHeader header;
    IndexStatus s = DecodeUnitHeader(bytes(), size_, &header);
    if (s.ok() && header.compression != 0) s = IndexStatus::Corruption("unit is still compressed");
    return s.ok() ? UnitView::Open(bytes() + kUnitHeaderSize, header.raw, header.entries, header.wide, &view_) : s;
  }

 private:
  explicit HTableUnit(size_t size) : size_(size) {}

  size_t size_;
  bool whole_ = true;
  UnitView view_;
};

// Brings units back from a secondary cache.
struct HTableUnitContext : public rocksdb::Cache::CreateContext {
  explicit HTableUnitContext(uint64_t unit_offset) : offset(unit_offset) {}

  void Create(std::unique_ptr<HTableUnit>* unit, size_t* charge, const rocksdb::Slice& data,
              rocksdb::CompressionType /*type*/, rocksdb::MemoryAllocator* /*allocator*/) {
    *unit = HTableUnit::New(data.size());
    if (!data.empty()) memcpy((*unit)->bytes(), data.data(), data.size());
    // The cache cannot be told that it is damaged; who asked for it looks at whole().
    (*unit)->OpenAgain(offset);
    *charge = (*unit)->charge();
  }

  const uint64_t offset;  // of the unit in its file, which is part of its checksum
};

using UnitCache = rocksdb::FullTypedCacheInterface<HTableUnit, HTableUnitContext>;

// Keeps a unit from going away: a cache handle, or the unit itself. One that lies in a mapped file stays as long as the
// file is open, which this does not see to.
class UnitRef {
 public:
  UnitRef() = default;
  UnitRef(UnitRef&& other) noexcept { *this = std::move(other); }
  UnitRef& operator=(UnitRef&& other) noexcept {
    std::swap(unit_, other.unit_);
    std::swap(cache_, other.cache_);
    std::swap(handle_, other.handle_);
    std::swap(view_, other.view_);
    std::swap(mapped_, other.mapped_);
    return *this;
  }
  UnitRef(const UnitRef&) = delete;
  UnitRef& operator=(const UnitRef&) = delete;
  ~UnitRef() { Reset(); }

  void SetOwned(std::unique_ptr<HTableUnit> unit) {
    Reset();
    unit_ = unit.release();
    view_ = unit_->view();
  }
  void SetMapped(const UnitView& view) {
    Reset();
    view_ = view;
    mapped_ = true;
  }
  void SetCached(rocksdb::Cache* cache, UnitCache::TypedHandle* handle) {
    Reset();
    cache_ = cache;
    handle_ = handle;
    unit_ = static_cast<HTableUnit*>(cache->Value(handle));
    view_ = unit_->view();
  }
  void Reset() {
    if (handle_ != nullptr) {
      cache_->Release(handle_);
    } else {
      delete unit_;
    }
    unit_ = nullptr;
    handle_ = nullptr;
    mapped_ = false;
  }
  // Hands the hold on the unit over to `cleanable`; returns it, or null for a mapped unit, which nothing holds.
  rocksdb::Cleanable* MoveTo(rocksdb::Cleanable* cleanable) {
    if (handle_ != nullptr) {
      cleanable->RegisterCleanup(
          [](void* cache, void* handle) {
            static_cast<rocksdb::Cache*>(cache)->Release(static_cast<rocksdb::Cache::Handle*>(handle));
          },
          cache_, handle_);
    } else if (unit_ != nullptr) {
      cleanable->RegisterCleanup([](void* unit, void*) { delete static_cast<HTableUnit*>(unit); }, unit_, nullptr);
    }
    unit_ = nullptr;
    handle_ = nullptr;
    return mapped_ ? nullptr : cleanable;
  }

  explicit operator bool() const { return unit_ != nullptr || mapped_; }
  const UnitView& view() const { return view_; }

 private:
  UnitView view_;
  bool mapped_ = false;
  HTableUnit* unit_ = nullptr;
  rocksdb::Cache* cache_ = nullptr;
  UnitCache::TypedHandle* handle_ = nullptr;
};

}  // namespace cairn
