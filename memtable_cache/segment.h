// A segment (the paper's sub-MemTable): bytes of the pool that one memtable fills from the front, one writer at a time.
//
// Its header has one 64-bit word: a counter of entries (38 bits), a state (2), the tail (24, the offset behind the last
// entry). A writer claims a segment by one compare-and-swap of the word (kOpen -> kBusy), writes behind the tail, and
// publishes by one store of the word: new counter, new tail, kOpen.
//
// Invariants
//   (1) Only the thread that made a segment kBusy changes the word until it is kBusy no more.
//   (2) What lies below the tail never changes and never moves until the memtable dies.
//   (3) A word is stored (release) after the bytes that its tail covers: who loads it (acquire) may read them.
//
// Source: CacheKV (ICDE 2023), section III-A.

#pragma once

#include <atomic>
#include <cstdint>
#include <cstring>
#include <memory>

#include "memtable_cache/backing.h"
#include "memtable_cache/segment_marks.h"

namespace cairn {

enum class SegmentState : uint64_t { kFree = 0, kOpen = 1, kBusy = 2, kSealed = 3 };

constexpr int kSegmentTailBits = 24;
constexpr int kSegmentStateBits = 2;
constexpr size_t kMaxSegmentTail = (size_t{1} << kSegmentTailBits) - 1;

struct SegmentWord {
  uint64_t entries = 0;
  SegmentState state = SegmentState::kFree;
  size_t tail = 0;

  static SegmentWord Decode(uint64_t word) {
    return {word >> (kSegmentTailBits + kSegmentStateBits),
            static_cast<SegmentState>(word >> kSegmentTailBits & ((1U << kSegmentStateBits) - 1)),
            word & kMaxSegmentTail};
  }
  uint64_t Encode() const {
    return entries << (kSegmentTailBits + kSegmentStateBits) | static_cast<uint64_t>(state) << kSegmentTailBits | tail;
  }
};

// What memory knows of a segment. An oversize segment holds one entry that may be longer than a tail can say; its tail
// is then kMaxSegmentTail, and the length of the entry is in the entry.
struct alignas(64) Segment {
  char* base = nullptr;
  size_t bytes = 0;
  std::atomic<uint64_t>* word = nullptr;
  uint32_t pending = 0;  // length of the entry that is being written; the writer's
  // The thread that made the segment kBusy; 0 before the segment is kOpen again, because whoever claims it next says so
  // a moment later, when the last writer may have come again. A thread that finds itself here in a busy segment has not
  // published what it claimed the segment for, and never will: it claims one segment at a time.
  std::atomic<uintptr_t> writer{0};
  bool oversize = false;
  bool on_heap = false;     // the pool had nothing
  bool copied_out = false;  // the addresses are backed by a copy

  // Of its entries; null where lookups use no hash.
  std::unique_ptr<SegmentMarks> marks;

  // How far an index is: bytes from the segment's beginning, entries (stored before the bytes), and the next segment
  // that it is not done with.
  struct Progress {
    std::atomic<size_t> tail{0};
    std::atomic<uint64_t> entries{0};
    std::atomic<Segment*> next{nullptr};
  };
  alignas(64) Progress hashed;
  Progress sorted;

  SegmentWord Load() const { return SegmentWord::Decode(word->load(std::memory_order_acquire)); }
};

// Walks the entries of a segment from offset to offset.
class SegmentWalk {
 public:
  SegmentWalk(const Segment& segment, const SegmentLayout& layout, size_t from, size_t to)
      : layout_(layout), base_(segment.base), at_(base_ + from), end_(base_ + to), single_(segment.oversize) {}

  // Behind the last entry that it gave.
  size_t offset() const { return static_cast<size_t>(at_ - base_); }

  // The next entry, or null at the end.
  const char* Next() { return at_ >= end_ ? nullptr : NextUnchecked(); }

  // The next entry, wherever the end is. REQUIRES: there is one.
  const char* NextUnchecked() {
    const char* entry = at_ + layout_.entry_header_bytes;
    uint32_t length;
    memcpy(&length, at_, sizeof(length));
    at_ = single_ ? end_ : at_ + layout_.EntryBytes(length);
    return entry;
  }

 private:
  const SegmentLayout layout_;
  const char* const base_;
  const char* at_;
  const char* const end_;
  const bool single_;
};

}  // namespace cairn
