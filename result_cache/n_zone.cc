#include "result_cache/n_zone.h"

#include <algorithm>
#include <chrono>
#include <utility>

#include "result_cache/hash_bytes.h"

namespace cairn::cache {
namespace {

constexpr size_t kIndexPage = 4096;
// A partition with fewer chunks gives none away for anything else.
constexpr size_t kMinChunks = 4;
// A partition with fewer chunks has none that is free before it is needed.
constexpr size_t kChunksToSpareOne = 32;
// Of seven entries a bucket; 0.875 leaves one full pair of buckets in some 10.
constexpr uint64_t kEntriesForEightBuckets = 49;
constexpr size_t kGhostsABucket = 6;
// Where writers erase more than a third of what the small queue loses, ghosts of both kinds are wanted for long.
constexpr uint32_t kEvictedForErased = 3;
// The table of ghosts costs each miss a lock and a line of memory: it is made where writers erase more than this part
// of what the small queue loses, and given back where they erase less than a quarter of that.
constexpr uint32_t kEvictedForTable = 64;
constexpr uint32_t kEvictedWithoutTable = 4 * kEvictedForTable;
// So many ghosts tell.
constexpr uint32_t kGhostsOfLate = 4096;
// Splits before the usual time, when an entry finds no place.
constexpr int kExtraSplits = 32;
// Rounds over a bucket that a writer keeps changing before a reader waits for the lock.
constexpr int kAttempts = 16;
// References that carry an item from the small queue to the main queue.
constexpr uint64_t kPromotion = 1;
// Items looked at together in a chunk that is reclaimed, so that their buckets come into the processor's cache side by
// side.
constexpr size_t kReclaimBatch = 16;

void Pause() {
#if defined(__x86_64__) || defined(__i386__)
  __builtin_ia32_pause();
#elif defined(__aarch64__)
  asm volatile("isb");  // a few cycles; yield does nothing on most processors
#endif
}

}  // namespace

uint64_t HashBytes(uint64_t seed, std::string_view key) { return HashBytesInline(seed, key); }

NZone::NZone(const NZoneOptions& options, BucketRange* buckets, Arena* arena, const std::function<uint64_t()>& clock)
    : options_(options),
      arena_(arena),
      clock_(&clock),
      chunk_words_(arena->chunk_bytes() / sizeof(Word)),
      index_(buckets, options.partition, options.buckets, options.max_buckets) {
  if (options.file != nullptr) next_order_ = options.file->first_order();
}

NZone::~NZone() {
  for (ApartItem* item : apart_) delete item;
}

// ---- lookups ----

NZone::Found NZone::LookupAgain(const Key& key, std::string* value) const {
  for (int attempt = 1; attempt < kAttempts; ++attempt) {
    Pause();
    const Found found = LookupOnce(key, value);
    if (found != Found::kTorn) return found;
  }
  return Found::kLocked;
}

void NZone::PrefetchBucket(const Key& key) const { __builtin_prefetch(index_.First(key.hash, index_.buckets())); }

void NZone::PrefetchItem(const Key& key) const {
  const uint64_t buckets = index_.buckets();
  const uint64_t tag = Entry::TagOf(key.hash);
  for (const auto& slot : index_.First(key.hash, buckets)->entries) {
    const uint64_t entry = slot.load(std::memory_order_relaxed);
    if (Entry::Tag(entry) != tag || entry == 0 || (entry & Entry::kApart) != 0) continue;
    const char* const item = reinterpret_cast<const char*>(WordsAt(Entry::Place(entry)));
    __builtin_prefetch(item);
    __builtin_prefetch(item + kCacheLine);
    return;
  }
  __builtin_prefetch(index_.Second(key.hash, buckets));
}

NZone::Found NZone::LookupLocked(const Key& key, std::string* value) {
  ApartItem* apart = nullptr;
  {
    const MutexLock lock(&mutex_);
    const HashIndex::Slot slot = Find(key);
    if (!slot.found()) return Found::kNo;
    const uint64_t entry = slot.load();
    const Item item = ViewEntry(entry);
    if (Expired(item.expiry)) {
      DropSlot(slot);
      return Found::kNo;
    }
    Reference(&slot.bucket->entries[slot.entry], entry);
    if (item.absent) return Found::kAbsent;
    if (value == nullptr) return Found::kValue;
    if ((entry & Entry::kApart) == 0) {
      value->assign(item.value);
      return Found::kValue;
    }
    apart = apart_[Entry::Place(entry) - 1];
    apart->references.fetch_add(1, std::memory_order_relaxed);
  }
  value->assign(apart->value);
  if (apart->references.fetch_sub(1, std::memory_order_acq_rel) == 1) delete apart;
  return Found::kValue;
}

// ---- the index, locked ----

Item NZone::ViewEntry(uint64_t entry) const {
  if ((entry & Entry::kApart) == 0) return ViewItem(WordsAt(Entry::Place(entry)));
  const ApartItem& item = *apart_[Entry::Place(entry) - 1];
  return {item.key, item.value, item.expiry, item.space, item.absent};
}

uint64_t NZone::HashOfEntry(uint64_t entry) const {
  const Item item = ViewEntry(entry);
  return HashKey(options_.seed, item.space, item.key);
}

HashIndex::Slot NZone::Find(const Key& key) const {
  return index_.Find(key.hash, [&](uint64_t entry) CAIRN_CALLED_AT_ONCE {
    const Item item = ViewEntry(entry);
    return item.space == key.space && item.key == key.bytes;
  });
}

void NZone::Account(const Item& item, bool added) {
  const uint64_t bytes = item.key.size() + item.value.size();
  numbers_.items += added ? 1 : -1;
  numbers_.item_bytes += added ? bytes : -bytes;
}

void NZone::DropSlot(const HashIndex::Slot& slot) {
  const uint64_t entry = slot.load();
  Account(ViewEntry(entry), false);
  index_.Remove(slot);
  Forget(entry);
}

void NZone::Forget(uint64_t entry) {
  if ((entry & Entry::kApart) != 0) {
    FreeApart(Entry::Place(entry) - 1);
  } else if (options_.file != nullptr) {
    MarkDead(WordsAt(Entry::Place(entry)));
  }
}

void NZone::Evict(const HashIndex::Slot& slot, uint64_t hash, const Item& item, bool asked_for) {
  ++numbers_.evictions;
  if (evicted_ && !Expired(item.expiry)) evicted_(hash, item, asked_for);
  DropSlot(slot);
}

bool NZone::AddEntry(const Key& key, uint64_t entry) {
  const auto hash_of = [this](uint64_t other) CAIRN_CALLED_AT_ONCE { return HashOfEntry(other); };
  for (int splits = 0;; ++splits) {
    if (index_.Add(key.hash, entry, hash_of)) return true;
    const bool page_is_full = (index_.buckets() + 1) * sizeof(Bucket) > charged_index_bytes_;
    if (options_.lossy || splits == kExtraSplits || (page_is_full && !arena_->TryCharge(kIndexPage))) break;
    if (page_is_full) charged_index_bytes_ += kIndexPage;
    if (!index_.Split(hash_of)) break;
  }
  const HashIndex::Slot slot = index_.Least(key.hash);
  const uint64_t least = slot.load();
  Evict(slot, HashOfEntry(least), ViewEntry(least), (least & Entry::kMain) != 0);
  return index_.Add(key.hash, entry, hash_of);
}

bool NZone::ChargeIndexPage() {
  const size_t needed = RoundUp(index_.buckets() * sizeof(Bucket), kIndexPage);
  if (needed <= charged_index_bytes_) return true;
  if (!arena_->TryCharge(needed - charged_index_bytes_)) return false;
  charged_index_bytes_ = needed;
  return true;
}

bool NZone::GrowIndex() {
  if (!ChargeIndexPage()) return false;
  const auto hash_of = [this](uint64_t entry) CAIRN_CALLED_AT_ONCE { return HashOfEntry(entry); };
  while (!options_.lossy && 8 * (index_.entries() + 1) > kEntriesForEightBuckets * index_.buckets() &&
         index_.buckets() < index_.max_buckets()) {
    if ((index_.buckets() + 1) * sizeof(Bucket) > charged_index_bytes_) {
      if (!arena_->TryCharge(kIndexPage)) {
        // Full: the index grows at the cost of the log.
        const uint32_t chunk = chunks() > kMinChunks ? TakeOwnChunk() : 0;
        if (chunk == 0) break;
        arena_->ReturnChunk(chunk);
        if (!arena_->TryCharge(kIndexPage)) break;
      }
      charged_index_bytes_ += kIndexPage;
    }
    if (!index_.Split(hash_of)) break;
  }
  FitGhosts();
  return true;
}

void NZone::AddGhost(uint64_t hash, Ghosts::Lost lost) {
  const bool erased = lost == Ghosts::Lost::kErased;
  ++(erased ? erased_of_late_ : evicted_of_late_);
  if (erased_of_late_ + evicted_of_late_ >= kGhostsOfLate) {
    erased_of_late_ /= 2;
    evicted_of_late_ /= 2;
    if (!evicted_ && kEvictedWithoutTable * erased_of_late_ < evicted_of_late_) DropGhosts();
  }
  if (erased && kEvictedForTable * erased_of_late_ > evicted_of_late_)
    wants_table_.store(true, std::memory_order_relaxed);
  const bool in_table = evicted_ || erased || kEvictedForErased * erased_of_late_ > evicted_of_late_;
  if (in_table && ghosts_.bytes() > 0) {
    ghosts_.Add(hash, lost);
  } else {
    index_.AddGhost(hash);
  }
}

bool NZone::TakeGhost(uint64_t hash) {
  const bool in_bucket = index_.TakeGhost(hash);
  return ghosts_.Take(hash) == Ghosts::Lost::kEvicted || in_bucket;
}

bool NZone::HasGhostInTable(const Key& key) const {
  const MutexLock lock(&mutex_);
  return ghosts_.Find(key.hash) != Ghosts::Lost::kNever;
}

// When the cache is full, at the cost of the neighbour or of the log.
bool NZone::ChargeGhosts(size_t bytes) {
  if (arena_->TryCharge(bytes)) return true;
  if (give_back_) {
    give_back_(bytes);
    return arena_->TryCharge(bytes);
  }
  for (size_t freed = 0; freed < bytes && chunks() > kMinChunks; freed += arena_->chunk_bytes()) {
    const uint32_t chunk = TakeOwnChunk();
    if (chunk == 0) return false;
    arena_->ReturnChunk(chunk);
  }
  return arena_->TryCharge(bytes);
}

void NZone::DropGhosts() {
  wants_table_.store(false, std::memory_order_relaxed);
  arena_->Uncharge(ghosts_.bytes());
  ghosts_ = Ghosts();
}

// As many as there are items, or a quarter fewer, where the table is wanted.
void NZone::FitGhosts() {
  const auto is_wanted = [this]() { return evicted_ || wants_table_.load(std::memory_order_relaxed); };
  if (!is_wanted()) return;
  const size_t ghosts = index_.buckets() * kGhostsABucket + more_ghosts_;
  const size_t wanted = (ghosts + ghosts / 8 + Ghosts::kSet) * sizeof(uint16_t);
  if (ghosts * sizeof(uint16_t) <= ghosts_.bytes() + ghosts_.bytes() / 8) return;
  if (!ChargeGhosts(wanted)) return;
  // Room may have been made at the cost of what there was, or of the wish.
  const size_t before = is_wanted() ? ghosts_.bytes() : 0;
  if (is_wanted()) ghosts_.Resize(ghosts + ghosts / 8);
  arena_->Uncharge(before + wanted - ghosts_.bytes());
}

void NZone::FitIndex() {
  if (options_.lossy) return;
  const auto hash_of = [this](uint64_t entry) CAIRN_CALLED_AT_ONCE { return HashOfEntry(entry); };
  bool merged = false;
  while (index_.buckets() > options_.buckets &&
         8 * index_.entries() < kEntriesForEightBuckets * index_.buckets() * 3 / 4) {
    index_.Merge(hash_of, [this](uint64_t entry) CAIRN_CALLED_AT_ONCE {
      ++numbers_.evictions;
      Account(ViewEntry(entry), false);
      Forget(entry);
    });
    merged = true;
  }
  if (!merged) return;
  index_.ReleaseUnused();
  const size_t needed = index_.entries() == 0 ? 0 : RoundUp(index_.buckets() * sizeof(Bucket), kIndexPage);
  if (needed < charged_index_bytes_) {
    arena_->Uncharge(charged_index_bytes_ - needed);
    charged_index_bytes_ = needed;
  }
  DropGhosts();
}

// ---- the log, locked ----

NZone::Queue NZone::QueueToReclaim() const {
  if (queues_[kMain].empty()) return kSmall;
  if (queues_[kSmall].empty()) return kMain;
  return queues_[kSmall].size() * 10 >= chunks() ? kSmall : kMain;
}

// Nobody can guess it who only knows what is in the file's items.
Word NZone::SaltOf(uint64_t place) const {
  if (options_.file == nullptr || !options_.file->stamps()) return 0;
  const auto chunk = static_cast<uint32_t>(place / chunk_words_);
  return SplitMix64(SplitMix64(options_.seed ^ place) + options_.file->OrderOf(chunk));
}

Word* NZone::Append(Queue queue, size_t words, uint64_t* place) {
  std::deque<Chunk>& chunks_of_queue = queues_[queue];
  if (chunks_of_queue.empty() || chunks_of_queue.back().used + words > chunk_words_) {
    uint32_t next = spare_;
    if (free_.empty()) {
      spare_ = 0;
    } else {
      next = free_.back();
      free_.pop_back();
    }
    OpenChunk(queue, next);
  }
  Chunk& chunk = chunks_of_queue.back();
  *place = PlaceOf(chunk, chunk.used);
  chunk.used += static_cast<uint32_t>(words);
  return WordsAt(*place);
}

bool NZone::EnsureRoom(Queue queue, size_t words) {
  const auto has_room = [&]() CAIRN_REQUIRES(mutex_) {
    return !queues_[queue].empty() && queues_[queue].back().used + words <= chunk_words_;
  };
  if (has_room()) return true;
  const uint32_t chunk = TakeChunk();
  if (chunk == 0) return false;
  if (has_room()) {  // what survived elsewhere has opened one
    free_.push_back(chunk);
  } else {
    OpenChunk(queue, chunk);
  }
  return true;
}

void NZone::OpenChunk(Queue queue, uint32_t chunk) {
  queues_[queue].push_back({chunk, 0, Ticks()});
  if (options_.file == nullptr) return;
  const auto state = queue == kSmall ? CacheFile::State::kSmall : CacheFile::State::kMain;
  options_.file->OpenChunk(chunk, state, options_.partition, next_order_++);
}

void NZone::Appended(Queue queue) {
  const Chunk& chunk = queues_[queue].back();
  if (options_.file != nullptr) options_.file->SetUsed(chunk.number, chunk.used);
}

void NZone::FreeChunk(uint32_t chunk) {
  if (options_.file != nullptr) options_.file->FreeChunk(chunk);
}

uint32_t NZone::TakeChunk() {
  if (spare_ == 0 && !free_.empty()) {
    spare_ = free_.back();
    free_.pop_back();
  }
  if (!free_.empty()) {
    const uint32_t chunk = free_.back();
    free_.pop_back();
    return chunk;
  }
  if (spare_ == 0) spare_ = arena_->TakeChunk();
  if (spare_ == 0) return 0;
  const bool may_grow = chunks() < kMinChunks || bytes() < target_.load(std::memory_order_relaxed);
  uint32_t chunk = may_grow ? arena_->TakeChunk() : 0;
  if (chunk == 0 && may_grow && give_back_) {
    give_back_(arena_->chunk_bytes());
    chunk = arena_->TakeChunk();
  }
  while (may_grow && chunk == 0 && apart_bytes_ > chunks() * arena_->chunk_bytes() && EvictApart())
    chunk = arena_->TakeChunk();
  full_.store(chunk == 0, std::memory_order_relaxed);
  if (chunk != 0) return chunk;
  chunk = TakeOwnChunk();
  if (!may_grow && bytes() > target_.load(std::memory_order_relaxed) + arena_->chunk_bytes() && chunks() > kMinChunks) {
    const uint32_t surplus = TakeOwnChunk();
    if (surplus != 0) arena_->ReturnChunk(surplus);
  }
  return chunk;
}

size_t NZone::bytes() const {
  return (chunks() + free_.size() + (spare_ != 0 ? 1 : 0)) * arena_->chunk_bytes() + charged_index_bytes_ +
         ghosts_.bytes() + apart_bytes_;
}

uint32_t NZone::Ticks() {
  const auto now = std::chrono::steady_clock::now().time_since_epoch();
  return static_cast<uint32_t>(std::chrono::duration_cast<std::chrono::microseconds>(now).count() >> 10);
}

// A chunk is a marker: what was appended to it and not asked for since stayed as long as it did.
void NZone::MeasureAge(const Chunk& chunk) {
  main_ages_[2] = main_ages_[1];
  main_ages_[1] = main_ages_[0];
  main_ages_[0] = Ticks() - chunk.opened;
  const uint64_t mean = (3 * uint64_t{main_ages_[0]} + 2 * uint64_t{main_ages_[1]} + main_ages_[2]) / 6;
  benchmark_.store(static_cast<uint32_t>(mean), std::memory_order_relaxed);
}

uint32_t NZone::TakeOwnChunk() {
  while (free_.empty()) {
    if (chunks() == 0) return 0;
    ReclaimOne();
  }
  const uint32_t chunk = free_.back();
  free_.pop_back();
  return chunk;
}

void NZone::ReclaimOne() {
  // Items that are referred to survive, at most three times each; who has to reclaim this long keeps none.
  const size_t patience = std::min<size_t>(16, 2 * chunks());
  Reclaim(QueueToReclaim(), rounds_ >= patience);
  rounds_ = free_.empty() ? rounds_ + 1 : 0;
}

// It may take many chunks, most of whose items survive, to gain one. So items that come while there is none reclaim one
// chunk each, before it is needed, instead of one item all of them.
void NZone::ReclaimAhead() {
  if (!free_.empty() || give_back_) return;
  // It grows, or items that lie apart make room.
  if (arena_->charged() + arena_->chunk_bytes() <= arena_->capacity()) return;
  if (apart_bytes_ > chunks() * arena_->chunk_bytes() || chunks() < kChunksToSpareOne) return;
  full_.store(true, std::memory_order_relaxed);
  ReclaimOne();
}

void NZone::Reclaim(Queue queue, bool keep_none) {
  const Chunk chunk = queues_[queue].front();
  queues_[queue].pop_front();
  ++numbers_.reclaimed;
  if (queue == kMain) MeasureAge(chunk);
  uint64_t places[kReclaimBatch];
  uint64_t hashes[kReclaimBatch];
  Item items[kReclaimBatch];
  for (size_t at = 0; at < chunk.used;) {
    size_t count = 0;
    for (; count < kReclaimBatch && at < chunk.used; ++count) {
      places[count] = PlaceOf(chunk, at);
      items[count] = ViewItem(WordsAt(places[count]));
      hashes[count] = HashKey(options_.seed, items[count].space, items[count].key);
      PrefetchBucket({items[count].key, hashes[count], items[count].space});
      at += items[count].header().words();
    }
    for (size_t i = 0; i < count; ++i) ReclaimItem(queue, places[i], hashes[i], items[i], keep_none);
  }
  FreeChunk(chunk.number);
  if (spare_ == 0) {
    spare_ = chunk.number;
  } else {
    free_.push_back(chunk.number);
  }
}

void NZone::ReclaimItem(Queue queue, uint64_t place, uint64_t hash, const Item& item, bool keep_none) {
  const HashIndex::Slot slot = index_.Find(
      hash, [place](uint64_t entry) { return Entry::Place(entry) == place && (entry & Entry::kApart) == 0; });
  if (!slot.found()) return;  // overwritten or erased
  const uint64_t entry = slot.load();
  const uint64_t references = Entry::References(entry);
  const bool expired = Expired(item.expiry);
  const bool wanted = queue == kSmall ? references >= kPromotion : references > 0;
  if (!wanted || keep_none || expired) {
    if (queue == kSmall && !expired) AddGhost(hash, Ghosts::Lost::kEvicted);
    Evict(slot, hash, item, queue == kMain || references > 0);
    return;
  }
  const size_t words = item.header().words();
  uint64_t new_place = 0;
  Word* const to = Append(kMain, words, &new_place);
  if (item.stamped) {
    StoreItem(to, item, SaltOf(new_place));
  } else {
    CopyWords(to, WordsAt(place), words);
  }
  Appended(kMain);
  const uint64_t kept = queue == kSmall ? 0 : references - 1;
  HashIndex::Replace(slot, Entry::WithReferences(Entry::Make(hash, new_place) | Entry::kMain, kept));
  Forget(entry);
}

NZone::Room NZone::Put(const Key& key, const Item& given, Into into, uint64_t references) {
  if (LiesApart(given)) return PutApart(key, given);
  Item item = given;
  item.checked = options_.file != nullptr;
  item.stamped = item.checked && options_.file->stamps();
  if (item.stamped) item.stamp = options_.file->Stamp();
  const size_t words = item.header().words();
  HashIndex::Slot slot = Find(key);
  const bool known = slot.found();
  const uint64_t old_entry = known ? slot.load() : 0;
  if (known && (old_entry & Entry::kApart) == 0 && ViewEntry(old_entry).header().words() == words) {
    Account(ViewEntry(old_entry), false);
    HashIndex::BeginChange(slot.bucket);
    StoreItem(WordsAt(Entry::Place(old_entry)), item, SaltOf(Entry::Place(old_entry)));
    HashIndex::EndChange(slot.bucket);
    Account(item, true);
    Reference(&slot.bucket->entries[slot.entry], slot.load());
    return Room::kYes;
  }
  if (known) DropSlot(slot);
  // Before the item has a place: all this may reclaim chunks.
  if (!GrowIndex()) return Room::kNeeded;
  const bool to_main = into == Into::kMain || (known ? (old_entry & Entry::kMain) != 0 : TakeGhost(key.hash));
  const Queue queue = to_main ? kMain : kSmall;
  if (!EnsureRoom(queue, words)) return Room::kNeeded;
  uint64_t place = 0;
  Word* const to = Append(queue, words, &place);
  StoreItem(to, item, SaltOf(place));
  Appended(queue);
  const uint64_t entry = Entry::Make(key.hash, place) | (to_main ? Entry::kMain : 0);
  if (!AddEntry(key, Entry::WithReferences(entry, known ? Entry::References(old_entry) : references))) {
    Forget(entry);
    return Room::kNo;
  }
  Account(item, true);
  ReclaimAhead();
  return Room::kYes;
}

bool NZone::Erase(const Key& key, For whom) {
  const HashIndex::Slot slot = Find(key);
  if (!slot.found()) return false;
  const uint64_t entry = slot.load();
  const bool expired = Expired(ViewEntry(entry).expiry);
  const bool asked_for = (entry & Entry::kMain) != 0 || Entry::References(entry) > 0;
  if (whom == For::kWriter && full_.load(std::memory_order_relaxed) && asked_for)
    AddGhost(key.hash, Ghosts::Lost::kErased);
  DropSlot(slot);
  return !expired;
}

bool NZone::Contains(const Key& key) const { return Find(key).found(); }

void NZone::Clear() {
  index_.ForEach([this](const HashIndex::Slot& slot) CAIRN_CALLED_AT_ONCE { DropSlot(slot); });
  for (auto& queue : queues_) {
    for (const Chunk& chunk : queue) {
      FreeChunk(chunk.number);
      arena_->ReturnChunk(chunk.number);
    }
    queue.clear();
  }
  for (const uint32_t chunk : free_) arena_->ReturnChunk(chunk);
  free_.clear();
  if (spare_ != 0) arena_->ReturnChunk(spare_);
  spare_ = 0;
  full_.store(false, std::memory_order_relaxed);
  DropGhosts();
  FitIndex();
}

bool NZone::Recover(uint32_t chunk, const CacheFile::Chunk& there, const Belief& belief) {
  if (spare_ == 0) spare_ = arena_->TakeChunk();
  if (spare_ == 0) return false;
  const Queue queue = there.state == CacheFile::State::kSmall ? kSmall : kMain;
  // What has lost power has any item of this life of the chunk, and says nothing of where they end.
  const bool lost_power = options_.file->lost_power();
  const size_t end = lost_power ? chunk_words_ : std::min<size_t>(there.used, chunk_words_);
  const bool stamps = options_.file->stamps();
  bool damaged = false;  // behind a damaged item nothing tells where the next begins
  size_t used = 0;
  for (size_t at = 0; at < end;) {
    const uint64_t place = uint64_t{chunk} * chunk_words_ + at;
    Word* const words = WordsAt(place);
    const ItemHeader header = ItemHeader::Decode(words[0]);
    // Without a time to expire at, an Item has a word less than this header says.
    const bool fits = header.words() <= end - at && !(header.expires() && words[1] == 0) &&
                      !(stamps && header.bytes() > options_.apart_bytes + 4 * sizeof(Word));
    const bool whole = fits && ChecksumIsRight(words, SaltOf(place));
    if (whole || (fits && !stamps)) {
      if (!whole || !RecoverItem(place, queue, belief)) MarkDead(words);
      used = at += header.words();
    } else if (stamps) {
      // A dead item, or word by word, so that no whole item stays that is in no index.
      const bool dead = fits && !lost_power && !damaged && IsDead(words);
      const size_t cleared = dead ? header.words() : 1;
      damaged |= !dead && words[0] != 0;
      for (size_t i = 0; i < cleared; ++i) {
        if (words[i] != 0) StoreWord(words + i, 0);
      }
      at += cleared;
    } else {
      break;  // damaged
    }
  }
  // Who was killed has left at most one item behind the end.
  if (stamps && end < chunk_words_) StoreWord(WordsAt(uint64_t{chunk} * chunk_words_ + end), 0);
  options_.file->SetUsed(chunk, static_cast<uint32_t>(used));
  queues_[queue].push_back({chunk, static_cast<uint32_t>(used), Ticks()});
  next_order_ = std::max(next_order_, there.order + 1);
  return true;
}

bool NZone::RecoverItem(uint64_t place, Queue queue, const Belief& belief) {
  const Item item = ViewItem(WordsAt(place));
  const Key key{item.key, HashKey(options_.seed, item.space, item.key), item.space};
  if ((key.hash >> 48 & (options_.partitions - 1)) != options_.partition) return false;
  if (!belief.spaces(item.space)) return false;
  if (belief.stamps && (!item.stamped || !belief.stamps(item.key, item.stamp))) return false;
  if (item.expiry != 0 && (!belief.expiry || Expired(item.expiry))) return false;
  // Who was killed while a chunk was reclaimed has left two copies of what survives.
  if (Find(key).found() || !GrowIndex()) return false;
  if (!AddEntry(key, Entry::Make(key.hash, place) | (queue == kMain ? Entry::kMain : 0))) return false;
  Account(item, true);
  ++numbers_.recovered;
  return true;
}

bool NZone::GiveBack() {
  if (free_.empty() && apart_bytes_ > chunks() * arena_->chunk_bytes() && EvictApart()) return true;
  uint32_t chunk = TakeOwnChunk();
  if (chunk == 0) std::swap(chunk, spare_);
  if (chunk == 0 && EvictApart()) return true;
  if (chunk == 0 && ghosts_.bytes() == 0) return false;
  if (chunk == 0) {
    DropGhosts();
  } else {
    arena_->ReturnChunk(chunk);
  }
  return true;
}

// ---- items that lie apart, locked ----

size_t NZone::ApartBytes(const Item& item) {
  constexpr size_t kAllocator = 64;  // of the three allocations, and the pointer
  return sizeof(ApartItem) + kAllocator + item.key.size() + item.value.size();
}

NZone::Room NZone::PutApart(const Key& key, const Item& item) {
  const HashIndex::Slot slot = Find(key);
  const uint64_t references = slot.found() ? Entry::References(slot.load()) : 0;
  if (slot.found()) DropSlot(slot);
  if (!GrowIndex()) return Room::kNeeded;
  auto* const apart = new ApartItem;
  apart->expiry = item.expiry;
  apart->space = item.space;
  apart->absent = item.absent;
  apart->key = item.key;
  apart->value = item.value;
  uint64_t number = apart_.size();
  if (free_apart_.empty()) {
    apart_.push_back(apart);
  } else {
    number = free_apart_.back();
    free_apart_.pop_back();
    apart_[number] = apart;
  }
  apart_bytes_ += ApartBytes(item);
  Account(item, true);
  const uint64_t entry = Entry::Make(key.hash, number + 1) | Entry::kApart;
  if (AddEntry(key, Entry::WithReferences(entry, references))) return Room::kYes;
  Account(item, false);
  FreeApart(number);
  return Room::kNo;
}

void NZone::FreeApart(uint64_t number) {
  ApartItem* const apart = apart_[number];
  const size_t bytes = ApartBytes({apart->key, apart->value});
  apart_bytes_ -= bytes;
  arena_->Uncharge(bytes);
  apart_[number] = nullptr;
  free_apart_.push_back(number);
  if (apart->references.fetch_sub(1, std::memory_order_acq_rel) == 1) delete apart;
}

bool NZone::EvictApart() {
  if (apart_bytes_ == 0) return false;
  for (size_t steps = 4 * apart_.size(); steps > 0; --steps) {
    apart_hand_ = (apart_hand_ + 1) % apart_.size();
    const ApartItem* const apart = apart_[apart_hand_];
    if (apart == nullptr) continue;
    const Key key{apart->key, HashKey(options_.seed, apart->space, apart->key), apart->space};
    const HashIndex::Slot slot = Find(key);
    const uint64_t entry = slot.load();
    if (Entry::References(entry) > 0 && !Expired(apart->expiry)) {
      HashIndex::Replace(slot, entry - Entry::kReference);
      continue;
    }
    Evict(slot, key.hash, ViewEntry(entry), false);
    return true;
  }
  return false;
}

NZone::Numbers NZone::numbers() const {
  Numbers numbers = numbers_;
  numbers.index_bytes = index_.buckets() * sizeof(Bucket);
  numbers.ghost_bytes = ghosts_.bytes();
  return numbers;
}

}  // namespace cairn::cache
