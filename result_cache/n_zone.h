// One partition of the N-zone: a log of items in two queues of chunks, and the index of them.
//
//   small queue   chunk ... chunk (being filled)      new items
//   main queue    chunk ... chunk (being filled)      items that were asked for again
//   spare         one empty chunk
//
// Items are appended to a queue's last chunk. When memory is short, the first chunk of a queue is reclaimed as a whole:
// its items leave the index or are appended to the main queue, and the chunk is empty. Items above kApartBytes lie
// apart, one allocation each, and are replaced one by one.
//
// Invariants
//   (1) Every entry of the index leads to an item that is whole and the newest of its key. An item leaves the index
//       before its bytes may be overwritten; so, by invariant (1) of the index, who copies an item between two equal
//       even versions of its bucket has a whole item.
//   (2) While the partition has a chunk, it has a spare one unless a chunk is being reclaimed: what survives of one
//       chunk always finds room.
//   (3) Only what the arena has charged is used.
//
// Thread-safety: Lookup may be called without the lock; everything else, and what is marked so, wants the lock.
//
// Sources: MICA (NSDI 2014; section 5.3.3 of Lim's thesis, CMU 2015); S3-FIFO (SOSP 2023).

#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <deque>
#include <functional>
#include <string>
#include <string_view>
#include <vector>

#include "cairn/cache.h"
#include "result_cache/arena.h"
#include "result_cache/cache_file.h"
#include "result_cache/ghosts.h"
#include "result_cache/hash_index.h"
#include "result_cache/item.h"
#include "util/mutex.h"

namespace cairn::cache {

// A key with what every step needs of it.
struct Key {
  std::string_view bytes;
  uint64_t hash = 0;
  uint32_t space = 0;
};

struct NZoneOptions {
  bool lossy = false;
  uint64_t seed = 0;
  uint64_t buckets = 1;
  uint64_t max_buckets = 1;
  size_t apart_bytes = 0;  // items above lie apart
  uint32_t admit_one_fill_in = 1;
  CacheFile* file = nullptr;  // where the log lies, or null
  size_t partition = 0;       // its number, of so many
  size_t partitions = 1;
};

// The hash of a key, whatever its space.
uint64_t HashBytes(uint64_t seed, std::string_view key);
// That of the key in a space.
inline uint64_t InSpace(uint64_t hash_of_bytes, uint32_t space) { return hash_of_bytes ^ kSplitMixStep * space; }
inline uint64_t HashKey(uint64_t seed, uint32_t space, std::string_view key) {
  return InSpace(HashBytes(seed, key), space);
}

class NZone {
 public:
  enum class Found {
    kNo,
    kValue,
    kAbsent,
    kLocked,  // ask again with LookupLocked
    kTorn,    // inside: a writer was there
  };
  // Told of each item that is evicted though it had not expired, before it is gone. `asked_for`: somebody wanted it
  // since it came into the cache, or not long before.
  using Evicted = std::function<void(uint64_t hash, const Item& item, bool asked_for)>;

  // `buckets`: of all partitions; outlives the zone.
  NZone(const NZoneOptions& options, BucketRange* buckets, Arena* arena, const std::function<uint64_t()>& clock);
  ~NZone();
  NZone(const NZone&) = delete;
  NZone& operator=(const NZone&) = delete;

  CheckedMutex* mutex() CAIRN_RETURNS(mutex_) { return &mutex_; }

  // Without the lock. `value` may be null.
  Found Lookup(const Key& key, std::string* value) {
    const Found found = LookupOnce(key, value);
    return found == Found::kTorn ? LookupAgain(key, value) : found;
  }
  // Loads what Lookup will read first, and then what it will read next.
  void PrefetchBucket(const Key& key) const;
  void PrefetchItem(const Key& key) const;

  // Takes the lock itself, and gives it back before it copies.
  Found LookupLocked(const Key& key, std::string* value);

  // Without the lock. Whether all fills are to be stored, because memory is free.
  bool AdmitsAll() const { return options_.admit_one_fill_in <= 1 || !full_.load(std::memory_order_relaxed); }
  // Whether the zone had the key of late: its fill is welcome. Takes the lock itself, but only where writers often
  // erase what was asked for; else it needs no line of memory that Lookup has not read.
  bool HadOfLate(const Key& key) const {
    return index_.HasGhost(key.hash) || (wants_table_.load(std::memory_order_relaxed) && HasGhostInTable(key));
  }

  // Locked, from here on.
  enum class Room { kYes, kNo, kNeeded };
  enum class Into { kUsual, kMain };
  // Stores the item as the newest of its key. kNeeded: the partition has nothing to evict; the key has no item now.
  // For items that lie apart, the caller has charged ApartBytes.
  // `references`: with kMain, how often it was asked for of late.
  Room Put(const Key& key, const Item& given, Into into = Into::kUsual, uint64_t references = 0) CAIRN_REQUIRES(mutex_);
  // For a writer of the key, its next fill is welcome if the item was asked for.
  enum class For { kOwner, kWriter };
  bool Erase(const Key& key, For whom = For::kOwner) CAIRN_REQUIRES(mutex_);
  bool Contains(const Key& key) const CAIRN_REQUIRES(mutex_);
  void Clear() CAIRN_REQUIRES(mutex_);

  // Puts back what the file holds of a chunk that the arena has adopted; chunks in the order in which they were opened.
  // False: there is no memory for it; the chunk is the caller's.
  struct Belief {
    bool expiry = true;                    // the clock is the same
    std::function<bool(uint32_t)> spaces;  // what was of another space is gone
    // Of what has a stamp; null: all.
    std::function<bool(std::string_view key, uint64_t stamp)> stamps;
  };
  bool Recover(uint32_t chunk, const CacheFile::Chunk& there, const Belief& belief) CAIRN_REQUIRES(mutex_);

  bool LiesApart(const Item& item) const {
    return item.header().bytes() > options_.apart_bytes || TooLongForHeader(item);
  }
  static size_t ApartBytes(const Item& item);

  // Evicts until something was given back to the arena. False: there is nothing to evict.
  bool GiveBack() CAIRN_REQUIRES(mutex_);
  // After a change of the capacity.
  void FitIndex() CAIRN_REQUIRES(mutex_);
  // The rest of the last huge page goes back to the system.
  void ReleaseIndexRest() CAIRN_REQUIRES(mutex_) { index_.ReleaseUnused(); }

  struct Numbers {
    uint64_t items = 0;
    uint64_t item_bytes = 0;
    uint64_t index_bytes = 0;
    uint64_t ghost_bytes = 0;  // of the table
    uint64_t evictions = 0;
    uint64_t recovered = 0;
    uint64_t reclaimed = 0;  // chunks
  };
  Numbers numbers() const CAIRN_REQUIRES(mutex_);

  // With a Z-zone beside it. `give_back(bytes)` makes the Z-zone give back memory.
  void SetNeighbour(Evicted evicted, std::function<void(size_t)> give_back) {
    evicted_ = std::move(evicted);
    give_back_ = std::move(give_back);
  }
  // With a neighbour, all ghosts are in one table, as many as items, and those of items elsewhere come to it.
  void WantGhosts(size_t items) CAIRN_REQUIRES(mutex_) { more_ghosts_ = items; }
  // The bytes that the zone may take while there is a neighbour. Without the lock.
  void set_target(size_t bytes) { target_.store(bytes, std::memory_order_relaxed); }
  size_t bytes() const CAIRN_REQUIRES(mutex_);
  // How long, in ticks of Ticks(), an item of the main queue that nobody asks for stays there, of late. Without the
  // lock.
  uint32_t benchmark() const { return benchmark_.load(std::memory_order_relaxed); }
  // About a millisecond each.
  static uint32_t Ticks();

 private:
  enum Queue { kSmall, kMain };
  struct Chunk {
    uint32_t number = 0;
    uint32_t used = 0;    // words
    uint32_t opened = 0;  // in Ticks
  };
  // An item that lies apart. Whoever copies it holds a reference.
  struct ApartItem {
    std::atomic<uint32_t> references{1};
    uint64_t expiry = 0;
    uint32_t space = 0;
    bool absent = false;
    std::string key;
    std::string value;
  };

  static bool TooLongForHeader(const Item& item) {
    return item.key.size() > ItemHeader::kMaxKey || item.value.size() > ItemHeader::kMaxValue;
  }
  // What the checksum of an item with a stamp holds with.
  Word SaltOf(uint64_t place) const;
  Word* WordsAt(uint64_t place) const { return reinterpret_cast<Word*>(arena_->base()) + place; }
  uint64_t PlaceOf(const Chunk& chunk, size_t word) const { return uint64_t{chunk.number} * chunk_words_ + word; }
  Item ViewEntry(uint64_t entry) const CAIRN_REQUIRES(mutex_);
  uint64_t HashOfEntry(uint64_t entry) const CAIRN_REQUIRES(mutex_);
  HashIndex::Slot Find(const Key& key) const CAIRN_REQUIRES(mutex_);
  bool Expired(uint64_t expiry) const { return expiry != 0 && (*clock_)() >= expiry; }
  void Reference(std::atomic<uint64_t>* slot, uint64_t entry) const;
  Found LookupIn(Bucket* bucket, uint32_t version, const Key& key, std::string* value) const;
  Found LookupOnce(const Key& key, std::string* value) const;
  Found LookupAgain(const Key& key, std::string* value) const;

  bool EnsureRoom(Queue queue, size_t words) CAIRN_REQUIRES(mutex_);
  uint32_t TakeChunk() CAIRN_REQUIRES(mutex_);
  uint32_t TakeOwnChunk() CAIRN_REQUIRES(mutex_);
  void ReclaimOne() CAIRN_REQUIRES(mutex_);
  void ReclaimAhead() CAIRN_REQUIRES(mutex_);
  void Reclaim(Queue queue, bool keep_none) CAIRN_REQUIRES(mutex_);
  void MeasureAge(const Chunk& chunk) CAIRN_REQUIRES(mutex_);
  void ReclaimItem(Queue queue, uint64_t place, uint64_t hash, const Item& item, bool keep_none) CAIRN_REQUIRES(mutex_);
  // The words are to be filled, and then there, for who finds the file.
  Word* Append(Queue queue, size_t words, uint64_t* place) CAIRN_REQUIRES(mutex_);
  void Appended(Queue queue) CAIRN_REQUIRES(mutex_);
  void OpenChunk(Queue queue, uint32_t chunk) CAIRN_REQUIRES(mutex_);
  void FreeChunk(uint32_t chunk) CAIRN_REQUIRES(mutex_);
  // It is in no index any more.
  void Forget(uint64_t entry) CAIRN_REQUIRES(mutex_);
  bool RecoverItem(uint64_t place, Queue queue, const Belief& belief) CAIRN_REQUIRES(mutex_);
  bool AddEntry(const Key& key, uint64_t entry) CAIRN_REQUIRES(mutex_);
  bool GrowIndex() CAIRN_REQUIRES(mutex_);
  bool ChargeIndexPage() CAIRN_REQUIRES(mutex_);
  void FitGhosts() CAIRN_REQUIRES(mutex_);
  void AddGhost(uint64_t hash, Ghosts::Lost lost) CAIRN_REQUIRES(mutex_);
  // Whether the key belongs into the main queue: it has a ghost, and not one in the table that says that a writer
  // erased it. It has none any more.
  bool TakeGhost(uint64_t hash) CAIRN_REQUIRES(mutex_);
  bool HasGhostInTable(const Key& key) const;
  bool ChargeGhosts(size_t bytes) CAIRN_REQUIRES(mutex_);
  // All of the table.
  void DropGhosts() CAIRN_REQUIRES(mutex_);
  void Account(const Item& item, bool added) CAIRN_REQUIRES(mutex_);
  void Evict(const HashIndex::Slot& slot, uint64_t hash, const Item& item, bool asked_for) CAIRN_REQUIRES(mutex_);
  void DropSlot(const HashIndex::Slot& slot) CAIRN_REQUIRES(mutex_);
  Room PutApart(const Key& key, const Item& item) CAIRN_REQUIRES(mutex_);
  bool EvictApart() CAIRN_REQUIRES(mutex_);
  void FreeApart(uint64_t number) CAIRN_REQUIRES(mutex_);
  size_t chunks() const CAIRN_REQUIRES(mutex_) { return queues_[kSmall].size() + queues_[kMain].size(); }
  Queue QueueToReclaim() const CAIRN_REQUIRES(mutex_);

  const NZoneOptions options_;
  Arena* const arena_;
  const std::function<uint64_t()>* const clock_;
  const size_t chunk_words_;
  Evicted evicted_;
  std::function<void(size_t)> give_back_;
  std::atomic<size_t> target_{SIZE_MAX};
  std::atomic<uint32_t> benchmark_{UINT32_MAX};

  mutable CheckedMutex mutex_;
  HashIndex index_;
  size_t charged_index_bytes_ CAIRN_GUARDED_BY(mutex_) = 0;
  std::deque<Chunk> queues_[2] CAIRN_GUARDED_BY(mutex_);
  uint64_t next_order_ CAIRN_GUARDED_BY(mutex_) = 1;
  uint32_t spare_ CAIRN_GUARDED_BY(mutex_) = 0;
  std::vector<uint32_t> free_ CAIRN_GUARDED_BY(mutex_);
  size_t rounds_ CAIRN_GUARDED_BY(mutex_) = 0;  // chunks reclaimed since one became free
  std::atomic<bool> full_{false};  // chunks have been reclaimed, and none came for nothing since; set with the lock
  // Writers erase so much that its ghosts have a table; set with the lock.
  std::atomic<bool> wants_table_{false};
  Ghosts ghosts_ CAIRN_GUARDED_BY(mutex_);  // of what was erased; with a neighbour or many writers, all
  uint32_t erased_of_late_ CAIRN_GUARDED_BY(mutex_) = 0;
  uint32_t evicted_of_late_ CAIRN_GUARDED_BY(mutex_) = 0;
  size_t more_ghosts_ CAIRN_GUARDED_BY(mutex_) = 0;
  std::vector<ApartItem*> apart_ CAIRN_GUARDED_BY(mutex_);  // null: a free number
  std::vector<uint64_t> free_apart_ CAIRN_GUARDED_BY(mutex_);
  size_t apart_hand_ CAIRN_GUARDED_BY(mutex_) = 0;
  size_t apart_bytes_ CAIRN_GUARDED_BY(mutex_) = 0;
  // Of the chunks reclaimed last, newest first.
  uint32_t main_ages_[3] CAIRN_GUARDED_BY(mutex_) = {UINT32_MAX, UINT32_MAX, UINT32_MAX};
  Numbers numbers_ CAIRN_GUARDED_BY(mutex_);
};

// ---- what a hit runs through ----

inline void NZone::Reference(std::atomic<uint64_t>* slot, uint64_t entry) const {
  if (Entry::References(entry) >= Entry::kMostReferences) return;
  // Lost if the entry has changed: then it is another item's, or somebody else has referred to it.
  slot->compare_exchange_strong(entry, entry + Entry::kReference, std::memory_order_relaxed);
}

inline NZone::Found NZone::LookupIn(Bucket* bucket, uint32_t version, const Key& key, std::string* value) const {
  const uint64_t tag = Entry::TagOf(key.hash);
  const auto changed = [&] {
    std::atomic_thread_fence(std::memory_order_acquire);
    return bucket->version.load(std::memory_order_relaxed) != version;
  };
  for (auto& slot : bucket->entries) {
    const uint64_t entry = slot.load(std::memory_order_relaxed);
    if (Entry::Tag(entry) != tag || entry == 0) continue;
    if ((entry & Entry::kApart) != 0) return Found::kLocked;
    if (key.bytes.size() > options_.apart_bytes) continue;  // not in the log
    const Word* const words = WordsAt(Entry::Place(entry));
    __builtin_prefetch(words + kCacheLine / sizeof(Word));
    const ItemHeader header = ItemHeader::Decode(LoadWord(words));
    if (header.key_bytes != key.bytes.size() || header.space != key.space) continue;
    const Word* const bytes = words + header.head_words();
    if (!SameBytes(bytes, key.bytes)) continue;
    const uint64_t expiry = header.expires() ? LoadWord(words + 1) : 0;
    // From here on its lengths are right.
    if (changed()) return Found::kTorn;
    if (Expired(expiry)) return Found::kNo;
    if (value != nullptr && !header.absent()) {
      if (value->size() != header.value_bytes) value->resize(header.value_bytes);
      LoadBytes(value->data(), bytes, header.key_bytes, header.value_bytes);
      if (changed()) return Found::kTorn;
    }
    Reference(&slot, entry);
    return header.absent() ? Found::kAbsent : Found::kValue;
  }
  return Found::kNo;
}

inline NZone::Found NZone::LookupOnce(const Key& key, std::string* value) const {
  const uint64_t buckets = index_.buckets();
  Bucket* const candidates[2] = {index_.First(key.hash, buckets), index_.Second(key.hash, buckets)};
  __builtin_prefetch(candidates[1]);  // who misses waits for one line of memory instead of two
  uint32_t versions[2];
  for (int i = 0; i < 2; ++i) {
    versions[i] = candidates[i]->version.load(std::memory_order_acquire);
    if ((versions[i] & 1) != 0) return Found::kTorn;
    const Found found = LookupIn(candidates[i], versions[i], key, value);
    if (found != Found::kNo) return found;
  }
  // Nothing was found; by (2) of the index that is so if nothing has changed.
  std::atomic_thread_fence(std::memory_order_acquire);
  const bool same = candidates[0]->version.load(std::memory_order_relaxed) == versions[0] &&
                    candidates[1]->version.load(std::memory_order_relaxed) == versions[1] &&
                    index_.buckets() == buckets;
  return same ? Found::kNo : Found::kTorn;
}

}  // namespace cairn::cache
