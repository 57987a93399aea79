// HashIndex says where the items of one partition lie: buckets of one cache line, seven entries each, two buckets a key
// (docs/design/result_cache.md, The N-zone). A key's entry is in its first bucket or, when that was full, in its second
// one, so that buckets are seven eighths full and most lookups touch one. Buckets are added and taken away one at a
// time (linear hashing): bucket i is split into i and i + 2^k, and nothing else moves.
//
// The buckets of all partitions lie in one BucketRange, in which the partitions take turns by small pages. They grow
// alike, so what they use is the range's beginning, and huge pages hold little more than what is used:
//
//   buckets 0 to 63 of partition 0 | 0 to 63 of partition 1 | ... | 64 to 127 of partition 0 | ...
//
// Invariants
//   (1) Only the holder of the partition's lock changes a bucket, and its version is odd meanwhile. Who has read
//       entries and items between two equal even versions has seen one state of the bucket.
//   (2) An entry that moves is in its new bucket before it leaves the old one, and the old one's version changes. A
//       reader that finds nothing in both buckets, and then the versions of both and the number of buckets unchanged,
//       has seen that the key has no entry.
//   (3) A bucket never has a version again that it had before, whether its memory was given back meanwhile or not (but
//       for 2^31 changes of it).
//   (4) Readers change the reference bits of an entry with a compare-and-swap of the whole entry, and nothing else.
//   (5) A key's ghost is in its first bucket, and perhaps in others, where it is one of another key. Ghosts are hints:
//       versions say nothing of them, and readers look at them without any.
//
// Thread-safety: as said; the functions marked "locked" want the partition's lock.
//
// Sources: MICA (NSDI 2014; section 5.3.3 of Lim's thesis, CMU 2015), for versions; Cavast (PVLDB 13(9), 2020), section
// 4.3, and SLB (section 2.3.2 of Wu's dissertation, UT Arlington 2018), for a bucket in a cache line and its tags;
// W. Litwin, Linear hashing (VLDB 1980).

#pragma once

#include <algorithm>
#include <atomic>
#include <cstddef>
#include <cstdint>

#include "result_cache/arena.h"
#include "result_cache/ghosts.h"
#include "util/mix64.h"

namespace cairn::cache {

// One entry's fields.
struct Entry {
  static constexpr int kPlaceBits = 44;
  static constexpr uint64_t kApart = uint64_t{1} << 44;
  static constexpr uint64_t kMain = uint64_t{1} << 45;
  static constexpr uint64_t kReference = uint64_t{1} << 46;
  static constexpr uint64_t kMostReferences = 3;
  static constexpr uint64_t kReferences = kMostReferences << 46;

  static uint64_t Make(uint64_t hash, uint64_t place) { return TagOf(hash) << 48 | place; }
  // Bits of the hash that choose neither partition nor first bucket.
  static uint64_t TagOf(uint64_t hash) { return hash >> 32 & 0xffff; }
  static uint64_t Tag(uint64_t entry) { return entry >> 48; }
  static uint64_t Place(uint64_t entry) { return entry & ((uint64_t{1} << kPlaceBits) - 1); }
  static uint64_t References(uint64_t entry) { return entry >> 46 & kMostReferences; }
  static uint64_t WithReferences(uint64_t entry, uint64_t references) {
    return (entry & ~kReferences) | references << 46;
  }
};

struct alignas(kCacheLine) Bucket {
  static constexpr int kEntries = 7;

  std::atomic<uint32_t> version;
  std::atomic<uint32_t> ghosts;
  std::atomic<uint64_t> entries[kEntries];
};
static_assert(sizeof(Bucket) == kCacheLine, "a bucket is a cache line");

// Memory for the buckets of all partitions.
//
// Thread-safety: safe; who may change what is the indexes' business.
class BucketRange {
 public:
  static constexpr int kPageShift = 6;
  static constexpr uint64_t kPageBuckets = uint64_t{1} << kPageShift;

  // `max_buckets`: of each partition. REQUIRES: partitions is a power of two.
  BucketRange(uint64_t max_buckets, size_t partitions, MappedRange::Pages pages);

  bool ok() const { return range_.data() != nullptr; }
  // Where the partition's bucket 0 lies; bucket i lies Offset(i) buckets behind it.
  Bucket* First(size_t partition) const { return reinterpret_cast<Bucket*>(range_.data()) + partition * kPageBuckets; }
  uint64_t Offset(uint64_t bucket) const { return Offset(bucket, partition_bits_); }
  static uint64_t Offset(uint64_t bucket, int partition_bits) {
    return (bucket & ~(kPageBuckets - 1)) << partition_bits | (bucket & (kPageBuckets - 1));
  }
  int partition_bits() const { return partition_bits_; }
  uint64_t BucketAt(uint64_t offset) const {
    return offset >> (kPageShift + partition_bits_) << kPageShift | (offset & (kPageBuckets - 1));
  }
  // The partition's part of the memory behind bucket `from`, up to the end of the huge page that bucket `to` may have
  // begun, goes back to the system.
  void Release(size_t partition, uint64_t from, uint64_t to);

 private:
  const int partition_bits_;
  MappedRange range_;
};

class HashIndex {
 public:
  // Where an entry stands; valid while the lock is held and nothing is added.
  struct Slot {
    Bucket* bucket = nullptr;
    int entry = 0;

    bool found() const { return bucket != nullptr; }
    uint64_t load() const { return bucket->entries[entry].load(std::memory_order_relaxed); }
  };

  // REQUIRES: the range has room for max_buckets of the partition, and outlives the index.
  HashIndex(BucketRange* range, size_t partition, uint64_t buckets, uint64_t max_buckets);

  uint64_t buckets() const { return buckets_.load(std::memory_order_acquire); }
  uint64_t max_buckets() const { return max_buckets_; }
  uint64_t entries() const { return entries_; }  // locked

  // Readers' side. The two may be one.
  Bucket* First(uint64_t hash, uint64_t buckets) const { return bucket(Address(hash, buckets)); }
  Bucket* Second(uint64_t hash, uint64_t buckets) const { return bucket(Address(hash ^ Distance(hash), buckets)); }

  // Readers' side.
  bool HasGhost(uint64_t hash) const {
    return BucketGhosts::Has(First(hash, buckets())->ghosts.load(std::memory_order_relaxed), hash);
  }
  // Locked.
  void AddGhost(uint64_t hash) {
    std::atomic<uint32_t>* const ghosts = &First(hash, buckets())->ghosts;
    ghosts->store(BucketGhosts::Add(ghosts->load(std::memory_order_relaxed), hash), std::memory_order_relaxed);
  }
  // Locked. Whether there was one.
  bool TakeGhost(uint64_t hash) {
    std::atomic<uint32_t>* const ghosts = &First(hash, buckets())->ghosts;
    const uint32_t before = ghosts->load(std::memory_order_relaxed);
    const uint32_t after = BucketGhosts::Remove(before, hash);
    if (after != before) ghosts->store(after, std::memory_order_relaxed);
    return after != before;
  }

  // Locked: the entry of `hash` for which match(entry) says yes.
  template <class Match>
  Slot Find(uint64_t hash, const Match& match) const {
    const uint64_t n = buckets();
    Bucket* const candidates[2] = {First(hash, n), Second(hash, n)};
    for (Bucket* b : candidates) {
      for (int i = 0; i < Bucket::kEntries; ++i) {
        const uint64_t entry = b->entries[i].load(std::memory_order_relaxed);
        if (entry != 0 && Entry::Tag(entry) == Entry::TagOf(hash) && match(entry)) return {b, i};
      }
    }
    return {};
  }

  // Locked. Where the entries of an item's old place are overwritten, begin and end the change around it.
  static void BeginChange(Bucket* b) {
    b->version.store(b->version.load(std::memory_order_relaxed) + 1, std::memory_order_relaxed);
    std::atomic_thread_fence(std::memory_order_release);
  }
  static void EndChange(Bucket* b) {
    b->version.store(b->version.load(std::memory_order_relaxed) + 1, std::memory_order_release);
  }
  static void Replace(const Slot& slot, uint64_t entry) {
    BeginChange(slot.bucket);
    slot.bucket->entries[slot.entry].store(entry, std::memory_order_relaxed);
    EndChange(slot.bucket);
  }
  void Remove(const Slot& slot) {
    Replace(slot, 0);
    --entries_;
  }

  // Locked. Adds an entry to a free place. If both buckets are full, entries in them move to their other buckets, at
  // most `moves` one after the other; hash_of(entry) gives its hash. False: no place was found.
  template <class HashOf>
  bool Add(uint64_t hash, uint64_t entry, const HashOf& hash_of, int moves = kMoves) {
    const uint64_t n = buckets();
    Bucket* const first = First(hash, n);
    Bucket* const second = Second(hash, n);
    return PutInFree(first, entry) || PutInFree(second, entry) ||
           (FreePlace(first, hash_of, moves - 1) && PutInFree(first, entry)) ||
           (FreePlace(second, hash_of, moves - 1) && PutInFree(second, entry));
  }

  // Locked. The entry in the key's two buckets that is least worth keeping; they are full.
  Slot Least(uint64_t hash) const;

  // Locked. One bucket more; false at max_buckets. The caller has charged the memory.
  template <class HashOf>
  bool Split(const HashOf& hash_of) {
    const uint64_t n = buckets();
    if (n >= max_buckets_) return false;
    const uint64_t from = n & (HighMask(n + 1) >> 1);
    Bucket* const source = bucket(from);
    Bucket* const target = bucket(n);
    BeginChange(source);
    if (target->version.load(std::memory_order_relaxed) < newest_merged_) {
      target->version.store(newest_merged_, std::memory_order_relaxed);
    }
    BeginChange(target);
    // Which of them would have their first bucket where now is not known.
    target->ghosts.store(source->ghosts.load(std::memory_order_relaxed), std::memory_order_relaxed);
    int next = 0;
    for (auto& place : source->entries) {
      const uint64_t entry = place.load(std::memory_order_relaxed);
      if (entry == 0) continue;
      const uint64_t hash = hash_of(entry);
      // It stands here by its first bucket if that is this one, else by its second.
      const uint64_t address = Address(hash, n) == from ? Address(hash, n + 1) : Address(hash ^ Distance(hash), n + 1);
      if (address != n) continue;
      target->entries[next++].store(entry, std::memory_order_relaxed);
      place.store(0, std::memory_order_relaxed);
    }
    buckets_.store(n + 1, std::memory_order_release);
    most_buckets_ = std::max(most_buckets_, n + 1);
    EndChange(target);
    EndChange(source);
    return true;
  }

  // Locked. One bucket fewer; false at one. What finds no place any more is given to drop(entry).
  template <class HashOf, class Drop>
  bool Merge(const HashOf& hash_of, const Drop& drop) {
    const uint64_t n = buckets();
    if (n <= 1) return false;
    Bucket* const last = bucket(n - 1);
    uint64_t moving[Bucket::kEntries];
    BeginChange(last);
    for (int i = 0; i < Bucket::kEntries; ++i) {
      moving[i] = last->entries[i].load(std::memory_order_relaxed);
      last->entries[i].store(0, std::memory_order_relaxed);
      if (moving[i] != 0) --entries_;
    }
    buckets_.store(n - 1, std::memory_order_release);
    EndChange(last);
    newest_merged_ = std::max(newest_merged_, last->version.load(std::memory_order_relaxed));
    for (const uint64_t entry : moving) {
      if (entry != 0 && !Add(hash_of(entry), entry, hash_of)) drop(entry);
    }
    return true;
  }

  // Locked. Visits the slots of all entries.
  template <class Visit>
  void ForEach(const Visit& visit) const {
    const uint64_t n = buckets();
    for (uint64_t b = 0; b < n; ++b) {
      for (int i = 0; i < Bucket::kEntries; ++i) {
        const Slot slot{bucket(b), i};
        if (slot.load() != 0) visit(slot);
      }
    }
  }

  // Locked. The memory behind the last bucket goes back to the system, also what nobody has used of a huge page.
  void ReleaseUnused();

 private:
  Bucket* bucket(uint64_t number) const { return first_ + BucketRange::Offset(number, partition_bits_); }
  uint64_t NumberOf(const Bucket* b) const { return range_->BucketAt(static_cast<uint64_t>(b - first_)); }

  // 2^(k+1) - 1 for 2^k < n <= 2^(k+1).
  static uint64_t HighMask(uint64_t n) { return n <= 1 ? 0 : ~uint64_t{0} >> __builtin_clzll(n - 1); }
  static uint64_t Address(uint64_t hash, uint64_t n) {
    const uint64_t mask = HighMask(n);
    const uint64_t address = (hash & 0xffffffff) & mask;
    return address < n ? address : address & (mask >> 1);
  }
  // What lies between a key's buckets, from its tag.
  static uint64_t DistanceOfTag(uint64_t tag) { return Mix64(tag + 1) | 1; }
  static uint64_t Distance(uint64_t hash) { return DistanceOfTag(Entry::TagOf(hash)); }

  // The other bucket of an entry that stands in bucket `b`, by its tag alone. Null where that does not tell: b is yet
  // to be split, so that its number lacks the highest bit of the hash, and the other has been split.
  Bucket* OtherByTag(uint64_t b, uint64_t entry, uint64_t n) const {
    const uint64_t low = HighMask(n) >> 1;
    const uint64_t split = n - (low + 1);  // so many buckets, and as many at the end
    const uint64_t other = b ^ DistanceOfTag(Entry::Tag(entry));
    if (b > low || b < split) return bucket(Address(other, n));
    return (other & low) >= split ? bucket(other & low) : nullptr;
  }

  static constexpr int kMoves = 3;

  bool PutInFree(Bucket* b, uint64_t entry);

  template <class HashOf>
  Bucket* Other(Bucket* b, uint64_t entry, const HashOf& hash_of) const {
    const uint64_t n = buckets();
    Bucket* const by_tag = OtherByTag(NumberOf(b), entry, n);
    if (by_tag != nullptr) return by_tag;
    const uint64_t hash = hash_of(entry);
    return First(hash, n) == b ? Second(hash, n) : First(hash, n);
  }

  // Moves an entry of the full bucket to its other bucket, where further entries move up to `more` times to make room.
  // Items are looked at last: each is a line of memory that has nothing to do with what is stored.
  template <class HashOf>
  bool FreePlace(Bucket* b, const HashOf& hash_of, int more) {
    const uint64_t n = buckets();
    Bucket* others[Bucket::kEntries];
    for (int i = 0; i < Bucket::kEntries; ++i) {
      others[i] = OtherByTag(NumberOf(b), b->entries[i].load(std::memory_order_relaxed), n);
      __builtin_prefetch(others[i]);
    }
    for (int i = 0; i < Bucket::kEntries; ++i) {
      if (others[i] != nullptr && others[i] != b && MoveTo(others[i], {b, i})) return true;
    }
    for (int i = 0; i < Bucket::kEntries; ++i) {
      if (others[i] != nullptr) continue;
      others[i] = Other(b, b->entries[i].load(std::memory_order_relaxed), hash_of);
      if (others[i] != b && MoveTo(others[i], {b, i})) return true;
    }
    for (int i = 0; more > 0 && i < Bucket::kEntries; ++i) {
      if (others[i] == b || !FreePlace(others[i], hash_of, more - 1)) continue;
      // On its way that may have emptied a place here, and filled another one.
      const uint64_t entry = b->entries[i].load(std::memory_order_relaxed);
      if (entry == 0) return true;
      if (Other(b, entry, hash_of) == others[i] && MoveTo(others[i], {b, i})) return true;
    }
    return false;
  }
  bool MoveTo(Bucket* to, const Slot& from) {
    if (!PutInFree(to, from.load())) return false;
    Remove(from);
    return true;
  }

  BucketRange* const range_;
  const size_t partition_;
  Bucket* const first_;
  const int partition_bits_;
  const uint64_t max_buckets_;
  std::atomic<uint64_t> buckets_;
  uint64_t most_buckets_;  // that there were since ReleaseUnused
  uint64_t entries_ = 0;
  uint32_t newest_merged_ = 0;  // version of a bucket that was taken away
};

}  // namespace cairn::cache
