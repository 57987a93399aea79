// Where the bytes of a pool lie: the seam between the pool, which knows segments, and a kind of memory.
//
// Plain memory is here; persistent memory and an area that stays in the cache are other implementations. A backing that
// is durable also sees each step of a segment's life, in the order in which they happen.
//
// Thread-safety: Map, Unmap, CopyOut, Split, Join, Claim and Free are called under the pool's mutex. FinishEntry and
// Publish are called by the one writer that has claimed the segment.

#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "rocksdb/status.h"

namespace cairn {

// The bytes of a segment: a header, in it a 64-bit word (see segment.h), then entries without a gap, each a header that
// begins with its length (u32) and the bytes themselves, padded.
struct SegmentLayout {
  size_t header_bytes = 64;
  size_t word_offset = 0;
  size_t entry_header_bytes = 4;
  size_t entry_alignment = 1;

  size_t EntryBytes(size_t length) const {
    return (entry_header_bytes + length + entry_alignment - 1) / entry_alignment * entry_alignment;
  }
};

// Whose segment it is.
struct SegmentOwner {
  uint64_t memtable = 0;  // unique in the pool
  uint32_t column_family = 0;
  bool one_entry = false;  // the segment is for one entry and sealed with it, where it is
};

class Backing {
 public:
  virtual ~Backing() = default;

  const SegmentLayout& layout() const { return layout_; }

  // A region for segments: `bytes`, a multiple of `kRegionBytes`, aligned to it. NoSpace when there is no more; then
  // the pool waits for memtables to die, or takes plain memory, if nothing is promised about the bytes.
  virtual rocksdb::Status Map(size_t bytes, char** region) = 0;
  virtual void Unmap(char* region, size_t bytes) = 0;
  // Whether Unmap gives memory back while the pool is in use.
  virtual bool takes_back() const { return true; }

  // A free segment of `bytes` is about to be stored into. After an error it must not be, and never comes back.
  virtual rocksdb::Status Claim(char* segment, size_t bytes, const SegmentOwner& owner) {
    return rocksdb::Status::OK();
  }
  // Nobody reads a claimed segment any more. False: it must not be used again.
  virtual bool Free(char* segment, size_t bytes) { return true; }

  // Whether CopyOut does anything.
  virtual bool copies_out() const { return false; }
  // The sealed segment's first `used` bytes leave the cache: they are copied to pages of a store, which are then mapped
  // at the same addresses, so that readers notice nothing. False: the segment has the pages that it had.
  virtual bool CopyOut(char* segment, size_t used, size_t bytes) { return false; }

  // The hooks of a durable backing, called only if durable().
  virtual bool durable() const { return false; }
  // A free segment becomes two, of which the first has `bytes`; a free segment and the free one behind it become one.
  virtual void Split(char* segment, size_t bytes) {}
  virtual void Join(char* segment) {}
  // `length` bytes at `entry` are about to be published; then they have been.
  virtual void FinishEntry(char* segment, char* entry, uint32_t length) {}
  virtual void Publish(char* segment) {}
  // An entry lies in plain memory instead, because Map said `why`; then all entries of one such segment are in tables,
  // or of no interest any more.
  virtual void Spilled(const rocksdb::Status& why) {}
  virtual void SpillEnded() {}
  // What the pool has free now, and whether Map has refused to add to it.
  virtual void ReportFree(size_t bytes, bool full) {}
  // No entry will be added to the memtable; it is in a table that the MANIFEST holds.
  virtual void MemTableSealed(const SegmentOwner& owner) {}
  virtual void MemTableFlushed(const SegmentOwner& owner, const std::vector<char*>& segments) {}
  // The memtable, to which nothing will be added, is about to be read for its flush; its segments are about to be
  // freed. Both may take as long as a disk does, and are called without the pool's mutex. After an error, that must not
  // be done.
  virtual rocksdb::Status BeforeFlush() { return rocksdb::Status::OK(); }
  virtual rocksdb::Status BeforeFree(const std::vector<char*>& segments) { return rocksdb::Status::OK(); }

  // One line for the log and for statistics.
  virtual std::string Report() const = 0;

  static constexpr size_t kRegionBytes = size_t{2} << 20;
  // What a durable pool keeps free, so that the writes that are under way when it becomes full find room.
  static constexpr size_t kSpareBytes = 2 * kRegionBytes;

 protected:
  SegmentLayout layout_;
};

// Ordinary memory, on huge pages where the machine gives them.
std::unique_ptr<Backing> NewPlainBacking();

// Addresses without memory, `bytes` of them, aligned to Backing::kRegionBytes; null when there are none. munmap gives
// them back.
char* ReserveAligned(size_t bytes);

// A sealed segment's first `used` bytes, past the cache. Its word is copied as an atomic: a late writer may still try
// to claim the segment, in vain.
void CopySegment(char* to, const char* from, size_t used, const SegmentLayout& layout);

// memcpy with stores that do not fill the cache; complete (fenced) when it returns.
void CopyPastCache(char* to, const char* from, size_t length);

}  // namespace cairn
