#include <algorithm>
#include <atomic>
#include <chrono>
#include <random>
#include <utility>
#include <vector>

#include "cairn/cache.h"
#include "result_cache/arena.h"
#include "result_cache/cache_file.h"
#include "result_cache/codec.h"
#include "result_cache/get_or_begin.h"
#include "result_cache/hash_bytes.h"
#include "result_cache/n_zone.h"
#include "result_cache/per_thread.h"
#include "result_cache/z_zone.h"
#include "util/mix64.h"
#include "util/mutex.h"

namespace cairn {
namespace cache {
namespace {

constexpr size_t kMinMaxCapacity = size_t{1} << 30;
constexpr size_t kPartitionBytes = size_t{4} << 20;
constexpr size_t kMaxPartitions = 64;
constexpr size_t kChunksAPartition = 256;
constexpr size_t kMinChunk = 4096;
// While a cache shrinks, its index is looked at after so many chunks of each partition.
constexpr size_t kChunksAFit = 8;
// Two huge pages, the last ones of log and index, are not used to the full.
constexpr size_t kMinForHugePages = size_t{64} << 20;
constexpr size_t kMaxChunk = 65536;
// A quarter of a chunk: what no longer fits at its end wastes an eighth at worst, on average.
constexpr size_t kItemsAChunk = 4;
constexpr size_t kBatch = 32;
constexpr uint64_t kFirstBuckets = 64;  // a page
// A Z-zone takes everything as long as this part of the capacity is free.
constexpr size_t kFreePart = 32;
// Of samples and dictionary.
constexpr size_t kMaxCodecBytes = size_t{2} << 20;
// The border between the zones: how often it is looked at, and how far it moves.
constexpr uint64_t kPutsALook = 4096;
constexpr double kRequestsALook = 65536;
constexpr double kTolerance = 0.01;
constexpr double kStep = 0.03;
constexpr double kMinShare = 0.05;
constexpr double kMaxShare = 0.95;
// Rounds of giving back memory elsewhere for one item.
constexpr int kRoomRounds = 8;
// Of a lossy cache, the index is no more than this part.
constexpr size_t kBucketsPart = 4;
// Of a chunk that is recovered: room for its items' index.
constexpr size_t kIndexPart = 8;

size_t PowerOfTwoBelow(size_t n) {
  size_t power = 1;
  while (power * 2 <= n) power *= 2;
  return power;
}

uint64_t MonotonicMilliseconds() {
  return static_cast<uint64_t>(
      std::chrono::duration_cast<std::chrono::milliseconds>(std::chrono::steady_clock::now().time_since_epoch())
          .count());
}

// Counters that threads increment without sharing a cache line, as long as they are few.
class Counters {
 public:
  enum Name {
    kHits,
    kAbsentHits,
    kMisses,
    kPuts,
    kRefusedFills,
    kUnadmittedFills,
    kLots,
    kErases,
    kZHits,
    kPromotions,
    kNames
  };

  void Add(Name name) { AddIn(ThreadCell(), name); }
  // Of the calling thread's cell.
  uint64_t AddIn(size_t cell, Name name) { return AddInCell(cell, &cells_[cell].counts[name], 1); }
  uint64_t Sum(Name name) const {
    uint64_t sum = 0;
    for (const Cell& cell : cells_) sum += cell.counts[name].load(std::memory_order_relaxed);
    return sum;
  }

 private:
  struct alignas(kCacheLine) Cell {
    std::atomic<uint64_t> counts[kNames] = {};
  };

  Cell cells_[kThreadCells];
};

// One word a stripe of keys, whatever their space: writers under way (32 bits) and how many have ended (32 bits). A
// reader's ticket is a word with no writer under way; it is good while the word is the same.
class Fence {
 public:
  using Stripe = std::atomic<uint64_t>;

  static void Bar(Stripe* stripe) { stripe->fetch_add(1, std::memory_order_seq_cst); }
  static void Unbar(Stripe* stripe) { stripe->fetch_add(kEnded - 1, std::memory_order_seq_cst); }
  static bool Barred(uint64_t word) { return (word & (kEnded - 1)) != 0; }

  explicit Fence(size_t stripes) : stripes_(stripes) {}
  size_t bytes() const { return stripes_.size() * sizeof(Stripe); }
  uint32_t Number(uint64_t hash_of_bytes) const {
    return static_cast<uint32_t>(hash_of_bytes >> 16 & (stripes_.size() - 1));
  }
  Stripe* At(uint32_t number) { return &stripes_[number]; }
  Stripe* Of(uint64_t hash_of_bytes) { return At(Number(hash_of_bytes)); }
  const Stripe& Of(uint64_t hash_of_bytes) const { return stripes_[Number(hash_of_bytes)]; }
  Stripe* all() { return &all_; }
  const Stripe& all() const { return all_; }

 private:
  static constexpr uint64_t kEnded = uint64_t{1} << 32;

  Stripe all_{0};
  std::vector<Stripe> stripes_;
};

class ResultCacheImpl final : public ResultCache {
 public:
  // `file`: where the N-zone lies, or null.
  ResultCacheImpl(const ResultCacheOptions& options, size_t max_capacity, size_t partitions, size_t chunk_bytes,
                  std::unique_ptr<CacheFile> file);
  ~ResultCacheImpl() override;
  bool ok() const;

  CacheFile* file() const { return file_.get(); }
  // Of what the file holds, before anything is put.
  void Recover(const std::function<bool(uint32_t)>& spaces,
               const std::function<bool(std::string_view, uint64_t)>& stamps);

  Answer Get(std::string_view key, std::string* value, uint32_t space) override;
  void MultiGet(size_t count, const std::string_view* keys, std::string* values, Answer* answers,
                uint32_t space) override;
  bool Put(std::string_view key, std::string_view value, uint32_t space, uint64_t milliseconds) override {
    return Store(MakeKey(key, space), MakeItem(key, value, space, milliseconds, false), nullptr);
  }
  bool PutAbsent(std::string_view key, uint32_t space, uint64_t milliseconds) override {
    return Store(MakeKey(key, space), MakeItem(key, {}, space, milliseconds, true), nullptr);
  }
  bool Erase(std::string_view key, uint32_t space) override;
  FillTicket BeginFill(std::string_view key) override;
  bool Fill(const FillTicket& ticket, std::string_view key, std::string_view value, uint32_t space,
            uint64_t milliseconds) override {
    return StoreFill(ticket, key, MakeItem(key, value, space, milliseconds, false));
  }
  bool FillAbsent(const FillTicket& ticket, std::string_view key, uint32_t space, uint64_t milliseconds) override {
    return StoreFill(ticket, key, MakeItem(key, {}, space, milliseconds, true));
  }
  Answer GetOrBegin(std::string_view key, std::string* value, uint32_t space, FillTicket* ticket) override;
  Answer GetIn(size_t cell, std::string_view key, std::string* value, uint32_t space, uint64_t* hash);
  // Of a key of that hash in no space.
  FillTicket TicketOf(uint64_t hash_of_bytes) const;
  bool Admit(FillTicket* ticket, uint32_t space) override;
  bool BeginFillIn(size_t cell, uint64_t hash_of_bytes, uint32_t space, FillTicket* ticket);
  void MultiGetOrBegin(size_t count, const std::string_view* keys, const uint32_t* spaces, std::string* const* values,
                       Answer* answers, FillTicket* tickets) override;
  bool Unchanged(const FillTicket& ticket) const override;
  void Bar(std::string_view key, uint32_t space) override;
  void Unbar(std::string_view key) override { Fence::Unbar(fence_.Of(HashBytes(seed_, key))); }
  uint32_t Bar(std::string_view key, const std::atomic<uint32_t>& space) override;
  void UnbarStripe(uint32_t stripe) override { Fence::Unbar(fence_.At(stripe)); }
  void BarAll() override;
  void UnbarAll() override { Fence::Unbar(fence_.all()); }
  void Clear() override;
  IndexStatus SetCapacity(size_t bytes) override;
  Statistics GetStatistics() const override;

 private:
  static Item MakeItem(std::string_view key, std::string_view value, uint32_t space, uint64_t expiry, bool absent) {
    return {key, value, expiry, space, absent};
  }
  Key MakeKey(std::string_view key, uint32_t space) const { return {key, HashKey(seed_, space, key), space}; }
  static Key KeyOf(const FillTicket& ticket, std::string_view key, uint32_t space) {
    return {key, InSpace(KeyHash(ticket), space), space};
  }
  bool Admits(size_t cell, const Key& key);
  void EraseBarred(const Key& key);
  size_t PartitionNumber(const Key& key) const { return key.hash >> 48 & partition_mask_; }
  NZone* PartitionOf(const Key& key) const { return n_[PartitionNumber(key)].get(); }
  // Null: there is no Z-zone.
  ZZone* ZOf(const Key& key) const { return z_.empty() ? nullptr : z_[PartitionNumber(key)].get(); }
  Answer Count(size_t cell, NZone::Found found);
  NZone::Found LookupInZ(const Key& key, std::string* value);
  void Promote(const Key& key, const Item& item, uint64_t stamp);
  bool EraseLocked(NZone* partition, const Key& key, NZone::For whom = NZone::For::kOwner)
      CAIRN_REQUIRES(partition->mutex());
  void ClearLocked(size_t partition) CAIRN_REQUIRES(n_[partition]->mutex());
  bool HasFreeMemory() const { return arena_.charged() < arena_.capacity() - arena_.capacity() / kFreePart; }
  void SetShare(double share);
  void Adapt();
  NZone::Found LookupElsewhere(const Key& key, std::string* value, NZone::Found found);
  __attribute__((always_inline)) Answer Lookup(size_t cell, const Key& key, std::string* value);
  // With the milliseconds from now in item.expiry.
  bool Store(const Key& key, Item item, const FillTicket* ticket);
  bool StoreFill(const FillTicket& ticket, std::string_view key, const Item& item);
  NZone::Room StoreOnce(NZone* partition, const Key& key, const Item& item, const FillTicket* ticket, bool* refused);
  bool ChargeApart(size_t bytes);
  bool MakeRoom();
  void FitIndexes();
  void ReturnRests();

  const ResultCacheOptions options_;
  const std::unique_ptr<CacheFile> file_;
  const uint64_t seed_;
  const std::function<uint64_t()> clock_;
  Arena arena_;
  Fence fence_;
  size_t fixed_bytes_ = 0;
  std::atomic<size_t> index_rest_{0};  // of its last huge page, at most
  std::unique_ptr<BucketRange> buckets_;
  const uint64_t partition_mask_;
  std::vector<std::unique_ptr<NZone>> n_;
  std::unique_ptr<Codec> codec_;           // null: there is no Z-zone
  std::vector<std::unique_ptr<ZZone>> z_;  // empty, or one for each of n_
  std::atomic<double> n_share_{1};
  std::atomic<uint64_t> puts_until_look_{kPutsALook};
  CheckedMutex resize_mutex_;
  CheckedMutex adapt_mutex_;
  uint64_t seen_n_hits_ CAIRN_GUARDED_BY(adapt_mutex_) = 0;
  uint64_t seen_z_work_ CAIRN_GUARDED_BY(adapt_mutex_) = 0;
  std::atomic<size_t> next_giver_{0};
  Counters counters_;
};

MappedRange::Pages PagesOf(const ResultCacheOptions& options) {
  const bool huge = options.huge_pages && options.capacity >= kMinForHugePages;
  return huge ? MappedRange::Pages::kHuge : MappedRange::Pages::kSmall;
}

uint64_t SeedOf(const ResultCacheOptions& options) {
  if (options.hash_seed != 0) return options.hash_seed;
  std::random_device device;
  return uint64_t{device()} << 32 | device();
}

ResultCacheImpl::ResultCacheImpl(const ResultCacheOptions& options, size_t max_capacity, size_t partitions,
                                 size_t chunk_bytes, std::unique_ptr<CacheFile> file)
    : options_(options),
      file_(std::move(file)),
      seed_(file_ != nullptr ? file_->seed() : SeedOf(options)),
      clock_(options.clock ? options.clock : MonotonicMilliseconds),
      arena_(options.capacity, max_capacity, chunk_bytes, PagesOf(options), options.memory_changed, file_.get()),
      fence_(std::min<size_t>(65536, std::max<size_t>(64, PowerOfTwoBelow(options.capacity / 16384 + 1)))),
      partition_mask_(partitions - 1) {
  NZoneOptions zone;
  zone.lossy = options.lossy;
  zone.seed = seed_;
  zone.apart_bytes = chunk_bytes / kItemsAChunk;
  // A Z-zone has a door of its own.
  const bool has_door = options.compression == ResultCacheOptions::Compression::kNone;
  zone.admit_one_fill_in = has_door ? options.admit_one_fill_in : 1;
  zone.max_buckets = std::max<uint64_t>(64, max_capacity / partitions / 128);
  if (options.lossy) {  // six entries a bucket, if items are as expected, and memory for items beside it
    const size_t bytes = options.capacity / partitions;
    const size_t buckets = bytes / std::max<size_t>(1, options.expected_item_bytes) / 6;
    zone.buckets = std::max<uint64_t>(1, std::min(buckets, bytes / kBucketsPart / sizeof(Bucket)));
  } else {
    zone.buckets = kFirstBuckets;
  }
  zone.buckets = std::min(zone.buckets, zone.max_buckets);
  zone.file = file_.get();
  zone.partitions = partitions;
  buckets_ = std::make_unique<BucketRange>(zone.max_buckets, partitions, PagesOf(options));
  if (!ok()) return;
  for (zone.partition = 0; zone.partition < partitions; ++zone.partition) {
    n_.push_back(std::make_unique<NZone>(zone, buckets_.get(), &arena_, clock_));
  }
  fixed_bytes_ = fence_.bytes() + partitions * sizeof(NZone);
  if (PagesOf(options) == MappedRange::Pages::kHuge) index_rest_ = kHugePage;
  arena_.Charge(fixed_bytes_ + index_rest_);
  if (options.compression == ResultCacheOptions::Compression::kNone) return;
  const size_t budget = std::min(kMaxCodecBytes, options.capacity / 12);
  arena_.Charge(budget);
  codec_ = std::make_unique<Codec>(options.compression, options.capacity, budget,
                                   [this](size_t bytes) { arena_.Uncharge(bytes); });
  ZZoneOptions z;
  z.seed = seed_;
  for (const auto& n : n_) {
    z_.push_back(std::make_unique<ZZone>(z, &arena_, codec_.get(), n->mutex(), clock_));
    ZZone* const mine = z_.back().get();
    NZone* const beside = n.get();
    n->SetNeighbour(
        [this, mine, beside](uint64_t hash, const Item& item, bool asked_for) CAIRN_REQUIRES(beside->mutex()) {
          // What was read once keeps out nothing else.
          if (asked_for || HasFreeMemory()) mine->Insert(hash, item);
          beside->WantGhosts(mine->items() / 2);
        },
        [mine](size_t bytes) { mine->GiveBack(bytes); });
  }
  SetShare(options.n_zone_share);
}

// Newest chunks first, as many as the capacity has room for beside their index.
void ResultCacheImpl::Recover(const std::function<bool(uint32_t)>& spaces,
                              const std::function<bool(std::string_view, uint64_t)>& stamps) {
  struct Found {
    uint32_t number;
    CacheFile::Chunk chunk;
  };
  std::vector<Found> all;
  for (uint32_t number = 1; number < file_->chunk_count(); ++number) {
    const CacheFile::Chunk chunk = file_->Read(number);
    // A file that was copied may have holes, which a full file system has no blocks for.
    if (chunk.state != CacheFile::State::kFree && chunk.partition < n_.size() && file_->Allocate(number)) {
      all.push_back({number, chunk});
    } else {
      file_->FreeChunk(number);
    }
  }
  std::sort(all.begin(), all.end(), [](const Found& a, const Found& b) { return a.chunk.order > b.chunk.order; });
  const size_t spares = n_.size() * arena_.chunk_bytes();
  const size_t room = arena_.capacity() - std::min(arena_.capacity(), arena_.charged() + spares);
  const size_t most = room / (arena_.chunk_bytes() + arena_.chunk_bytes() / kIndexPart);
  for (size_t i = most; i < all.size(); ++i) file_->FreeChunk(all[i].number);
  all.resize(std::min(all.size(), most));
  std::vector<bool> adopted(file_->chunk_count(), false);
  for (const Found& found : all) adopted[found.number] = true;
  arena_.AdoptChunks(adopted);
  for (auto found = all.rbegin(); found != all.rend(); ++found) {
    NZone* const partition = n_[found->chunk.partition].get();
    const MutexLock lock(partition->mutex());
    if (partition->Recover(found->number, found->chunk, {file_->same_boot(), spaces, stamps})) continue;
    file_->FreeChunk(found->number);
    arena_.ReturnChunk(found->number);
  }
}

// What a file holds is for who opens it next.
ResultCacheImpl::~ResultCacheImpl() {
  if (!ok()) return;
  z_.clear();
  if (codec_ != nullptr) codec_->Finish();
  if (file_ != nullptr) static_cast<void>(file_->Close());
  arena_.Uncharge(arena_.charged());
}

// What huge pages hold that nobody uses. From then on these pages are small ones.
void ResultCacheImpl::ReturnRests() {
  arena_.ReturnRest();
  if (index_rest_.load(std::memory_order_relaxed) == 0) return;
  for (const auto& partition : n_) {
    const MutexLock lock(partition->mutex());
    partition->ReleaseIndexRest();
  }
  arena_.Uncharge(index_rest_.exchange(0));
}

void ResultCacheImpl::ClearLocked(size_t partition) {
  n_[partition]->Clear();
  if (!z_.empty()) z_[partition]->Clear();
}

void ResultCacheImpl::SetShare(double share) {
  n_share_.store(share, std::memory_order_relaxed);
  const double each = share * static_cast<double>(arena_.capacity()) / static_cast<double>(n_.size());
  for (const auto& n : n_) n->set_target(static_cast<size_t>(each));
}

// Moves the border between the zones by a step, if the N-zone served too few or too many of the requests that need
// work.
void ResultCacheImpl::Adapt() {
  if (puts_until_look_.fetch_sub(1, std::memory_order_relaxed) != 1) return;
  const MutexLock lock(&adapt_mutex_);
  puts_until_look_.store(kPutsALook, std::memory_order_relaxed);
  const uint64_t z_hits = counters_.Sum(Counters::kZHits);
  const uint64_t n_hits = counters_.Sum(Counters::kHits) + counters_.Sum(Counters::kAbsentHits) - z_hits;
  uint64_t z_work = z_hits;
  for (size_t i = 0; i < n_.size(); ++i) {
    const MutexLock partition_lock(n_[i]->mutex());
    z_work += z_[i]->numbers().rebuilds;
  }
  const auto by_n = static_cast<double>(n_hits - seen_n_hits_);
  const auto by_z = static_cast<double>(z_work - seen_z_work_);
  if (by_n + by_z < kRequestsALook) return;
  seen_n_hits_ = n_hits;
  seen_z_work_ = z_work;
  const double part = by_n / (by_n + by_z);
  const double share = n_share_.load(std::memory_order_relaxed);
  if (part < options_.n_zone_requests - kTolerance) SetShare(std::min(kMaxShare, share + kStep));
  if (part > options_.n_zone_requests + kTolerance) SetShare(std::max(kMinShare, share - kStep));
}

bool ResultCacheImpl::ok() const { return arena_.ok() && buckets_->ok(); }

ResultCache::Answer ResultCacheImpl::Count(size_t cell, NZone::Found found) {
  switch (found) {
    case NZone::Found::kValue:
      counters_.AddIn(cell, Counters::kHits);
      return Answer::kValue;
    case NZone::Found::kAbsent:
      counters_.AddIn(cell, Counters::kAbsentHits);
      return Answer::kAbsent;
    default:
      counters_.AddIn(cell, Counters::kMisses);
      return Answer::kMiss;
  }
}

// Where a look without the lock has not found it.
NZone::Found ResultCacheImpl::LookupElsewhere(const Key& key, std::string* value, NZone::Found found) {
  if (found == NZone::Found::kLocked) found = PartitionOf(key)->LookupLocked(key, value);
  return found == NZone::Found::kNo && !z_.empty() ? LookupInZ(key, value) : found;
}

inline ResultCache::Answer ResultCacheImpl::Lookup(size_t cell, const Key& key, std::string* value) {
  NZone::Found found = PartitionOf(key)->Lookup(key, value);
  if (found != NZone::Found::kValue && found != NZone::Found::kAbsent) found = LookupElsewhere(key, value, found);
  return Count(cell, found);
}

NZone::Found ResultCacheImpl::LookupInZ(const Key& key, std::string* value) {
  bool again = false;
  uint64_t stamp = 0;
  uint64_t expiry = 0;
  const NZone::Found found =
      ZOf(key)->Lookup(key, value, NZone::Ticks(), PartitionOf(key)->benchmark(), &again, &stamp, &expiry);
  if (found == NZone::Found::kNo) return found;
  counters_.Add(Counters::kZHits);
  const bool absent = found == NZone::Found::kAbsent;
  if (again && (absent || value != nullptr)) {
    Promote(key, {key.bytes, absent ? std::string_view() : std::string_view(*value), expiry, key.space, absent}, stamp);
  }
  return found;
}

void ResultCacheImpl::Promote(const Key& key, const Item& item, uint64_t stamp) {
  NZone* const n = PartitionOf(key);
  if (n->LiesApart(item)) return;
  const MutexLock lock(n->mutex());
  // If neither has changed, the item still is the newest answer.
  if (!ZOf(key)->StillThere(key, stamp) || n->Contains(key)) return;
  const uint32_t there = ZOf(key)->MayHave(key.hash);
  if (n->Put(key, item, NZone::Into::kMain, there == 0 ? 0 : there - 1) != NZone::Room::kYes) return;
  ZOf(key)->Invalidate(key.hash);
  counters_.Add(Counters::kPromotions);
}

bool ResultCacheImpl::EraseLocked(NZone* partition, const Key& key, NZone::For whom) {
  const bool in_n = partition->Erase(key, whom);
  ZZone* const z = ZOf(key);
  if (z != nullptr) z->Invalidate(key.hash);
  return in_n;
}

ResultCache::Answer ResultCacheImpl::Get(std::string_view key, std::string* value, uint32_t space) {
  uint64_t hash = 0;
  return GetIn(ThreadCell(), key, value, space, &hash);
}

void ResultCacheImpl::MultiGet(size_t count, const std::string_view* keys, std::string* values, Answer* answers,
                               uint32_t space) {
  const size_t cell = ThreadCell();
  for (size_t begin = 0; begin < count; begin += kBatch) {
    const size_t batch = std::min(kBatch, count - begin);
    Key batch_keys[kBatch];
    for (size_t i = 0; i < batch; ++i) {
      batch_keys[i] = MakeKey(keys[begin + i], space);
      PartitionOf(batch_keys[i])->PrefetchBucket(batch_keys[i]);
    }
    for (size_t i = 0; i < batch; ++i) PartitionOf(batch_keys[i])->PrefetchItem(batch_keys[i]);
    for (size_t i = 0; i < batch; ++i) {
      answers[begin + i] = Lookup(cell, batch_keys[i], values == nullptr ? nullptr : values + begin + i);
    }
  }
}

bool ResultCacheImpl::MakeRoom() {
  for (size_t tried = 0; tried < n_.size(); ++tried) {
    const size_t number = next_giver_.fetch_add(1, std::memory_order_relaxed) % n_.size();
    NZone* const giver = n_[number].get();
    const MutexLock lock(giver->mutex());
    ZZone* const z = z_.empty() ? nullptr : z_[number].get();
    const double z_share = 1 - n_share_.load(std::memory_order_relaxed);
    const double z_target = z_share * static_cast<double>(arena_.capacity()) / static_cast<double>(n_.size());
    if (z != nullptr && z->bytes() > 0 && (static_cast<double>(z->bytes()) > z_target || giver->bytes() == 0)) {
      z->GiveBack(arena_.chunk_bytes());
      return true;
    }
    if (giver->GiveBack()) return true;
  }
  return false;
}

bool ResultCacheImpl::ChargeApart(size_t bytes) {
  if (bytes > arena_.capacity()) return false;  // not worth emptying the cache
  while (!arena_.TryCharge(bytes)) {
    if (!MakeRoom()) return false;
  }
  return true;
}

// Lots are drawn by the number of those that the thread has drawn before: nothing is shared.
inline bool ResultCacheImpl::Admits(size_t cell, const Key& key) {
  const uint64_t lot = counters_.AddIn(cell, Counters::kLots) * kThreadCells + cell;
  const bool drawn = (SplitMix64(seed_ + lot) >> 32) * options_.admit_one_fill_in >> 32 == 0;
  const NZone* const partition = PartitionOf(key);
  if (drawn || partition->AdmitsAll() || partition->HadOfLate(key)) return true;
  counters_.AddIn(cell, Counters::kUnadmittedFills);
  return false;
}

bool ResultCacheImpl::Admit(FillTicket* ticket, uint32_t space) {
  const size_t cell = ThreadCell();
  if (IsBarred(*ticket)) {
    counters_.AddIn(cell, Counters::kRefusedFills);
    return false;
  }
  if (!Admits(cell, KeyOf(*ticket, {}, space))) return false;
  SetAdmitted(ticket);
  return true;
}

// The ticket last: it is a line of memory more, and of no use to what is not admitted.
inline bool ResultCacheImpl::BeginFillIn(size_t cell, uint64_t hash_of_bytes, uint32_t space, FillTicket* ticket) {
  if (!Admits(cell, {{}, InSpace(hash_of_bytes, space), space})) return false;
  *ticket = TicketOf(hash_of_bytes);
  if (IsBarred(*ticket)) {
    counters_.AddIn(cell, Counters::kRefusedFills);
    return false;
  }
  SetAdmitted(ticket);
  return true;
}

NZone::Room ResultCacheImpl::StoreOnce(NZone* partition, const Key& key, const Item& item, const FillTicket* ticket,
                                       bool* refused) {
  const MutexLock lock(partition->mutex());
  // Under the lock: a Bar that comes after this look erases after this item was stored.
  *refused = ticket != nullptr && !Unchanged(*ticket);
  if (*refused) return NZone::Room::kNo;
  ZZone* const z = ZOf(key);
  const uint32_t there = z == nullptr ? 0 : z->MayHave(key.hash);
  // What the Z-zone has was worth its place: a writer of it does not make it a newcomer.
  const NZone::Room room =
      there == 0 ? partition->Put(key, item) : partition->Put(key, item, NZone::Into::kMain, there - 1);
  // Whether there was room or not, what the Z-zone has of the key is old now.
  if (z != nullptr) z->Invalidate(key.hash);
  return room;
}

bool ResultCacheImpl::StoreFill(const FillTicket& ticket, std::string_view key, const Item& item) {
  FillTicket admitted = ticket;
  // Before others make room for it.
  if (!IsAdmitted(ticket) && !Admit(&admitted, item.space)) return false;
  return Store(KeyOf(admitted, key, item.space), item, &admitted);
}

bool ResultCacheImpl::Store(const Key& key, Item item, const FillTicket* ticket) {
  if (item.expiry != 0) {
    const uint64_t now = clock_();
    item.expiry = item.expiry > UINT64_MAX - now ? UINT64_MAX : now + item.expiry;
  }
  NZone* const partition = PartitionOf(key);
  const bool apart = partition->LiesApart(item);
  NZone::Room room = NZone::Room::kNo;
  bool refused = false;
  for (int round = 0; round < kRoomRounds; ++round) {
    if (apart && !ChargeApart(NZone::ApartBytes(item))) break;
    room = StoreOnce(partition, key, item, ticket, &refused);
    if (room == NZone::Room::kYes) {
      counters_.Add(Counters::kPuts);
      if (!z_.empty() && options_.n_zone_requests > 0) Adapt();
      return true;
    }
    if (apart) arena_.Uncharge(NZone::ApartBytes(item));
    if (room == NZone::Room::kNo || !MakeRoom()) break;
  }
  if (refused) {
    counters_.Add(Counters::kRefusedFills);
    return false;
  }
  // An older answer must not stay.
  const MutexLock lock(partition->mutex());
  if (ticket == nullptr) EraseLocked(partition, key);
  return false;
}

bool ResultCacheImpl::Erase(std::string_view key, uint32_t space) {
  const Key with_hash = MakeKey(key, space);
  NZone* const partition = PartitionOf(with_hash);
  const MutexLock lock(partition->mutex());
  const ZZone* const z = ZOf(with_hash);
  const bool in_z = z != nullptr && !partition->Contains(with_hash) && z->Contains(with_hash);
  const bool erased = EraseLocked(partition, with_hash) || in_z;
  if (erased) counters_.Add(Counters::kErases);
  return erased;
}

ResultCache::FillTicket ResultCacheImpl::TicketOf(uint64_t hash_of_bytes) const {
  const uint64_t of_key = fence_.Of(hash_of_bytes).load(std::memory_order_seq_cst);
  const uint64_t of_all = fence_.all().load(std::memory_order_seq_cst);
  return MakeTicket(hash_of_bytes, of_key, of_all, Fence::Barred(of_key) || Fence::Barred(of_all));
}

ResultCache::FillTicket ResultCacheImpl::BeginFill(std::string_view key) { return TicketOf(HashBytes(seed_, key)); }

// The ticket comes after the miss: who hits needs none, and what the caller reads elsewhere comes later still.
ResultCache::Answer ResultCacheImpl::GetOrBegin(std::string_view key, std::string* value, uint32_t space,
                                                FillTicket* ticket) {
  uint64_t hash = 0;
  const Answer answer = GetIn(ThreadCell(), key, value, space, &hash);
  if (answer == Answer::kMiss) *ticket = TicketOf(hash);
  return answer;
}

inline ResultCache::Answer ResultCacheImpl::GetIn(size_t cell, std::string_view key, std::string* value, uint32_t space,
                                                  uint64_t* hash) {
  *hash = HashBytesInline(seed_, key);
  return Lookup(cell, {key, InSpace(*hash, space), space}, value);
}

void ResultCacheImpl::MultiGetOrBegin(size_t count, const std::string_view* keys, const uint32_t* spaces,
                                      std::string* const* values, Answer* answers, FillTicket* tickets) {
  const size_t cell = ThreadCell();
  for (size_t begin = 0; begin < count; begin += kBatch) {
    const size_t end = std::min(count, begin + kBatch);
    for (size_t i = begin; i < end; ++i) {
      tickets[i] = TicketOf(HashBytes(seed_, keys[i]));
      const Key key = KeyOf(tickets[i], keys[i], spaces[i]);
      PartitionOf(key)->PrefetchBucket(key);
    }
    for (size_t i = begin; i < end; ++i) {
      const Key key = KeyOf(tickets[i], keys[i], spaces[i]);
      PartitionOf(key)->PrefetchItem(key);
    }
    for (size_t i = begin; i < end; ++i) answers[i] = Lookup(cell, KeyOf(tickets[i], keys[i], spaces[i]), values[i]);
  }
}

bool ResultCacheImpl::Unchanged(const FillTicket& ticket) const {
  // What the caller has read in the database comes before the second look at the words.
  std::atomic_thread_fence(std::memory_order_acquire);
  return MayFill(ticket, fence_.Of(KeyHash(ticket)).load(std::memory_order_seq_cst),
                 fence_.all().load(std::memory_order_seq_cst));
}

void ResultCacheImpl::EraseBarred(const Key& key) {
  NZone* const partition = PartitionOf(key);
  const MutexLock lock(partition->mutex());
  if (EraseLocked(partition, key, NZone::For::kWriter)) counters_.Add(Counters::kErases);
}

void ResultCacheImpl::Bar(std::string_view key, uint32_t space) {
  const uint64_t hash = HashBytes(seed_, key);
  Fence::Bar(fence_.Of(hash));
  EraseBarred({key, InSpace(hash, space), space});
}

uint32_t ResultCacheImpl::Bar(std::string_view key, const std::atomic<uint32_t>& space) {
  const uint64_t hash = HashBytes(seed_, key);
  const uint32_t stripe = fence_.Number(hash);
  Fence::Bar(fence_.At(stripe));
  const uint32_t now = space.load(std::memory_order_seq_cst);
  if (now != kNoSpace) EraseBarred({key, InSpace(hash, now), now});
  return stripe;
}

void ResultCacheImpl::BarAll() {
  Fence::Bar(fence_.all());
  for (size_t i = 0; i < n_.size(); ++i) {
    const MutexLock lock(n_[i]->mutex());
    ClearLocked(i);
  }
}

void ResultCacheImpl::Clear() {
  BarAll();
  UnbarAll();
}

IndexStatus ResultCacheImpl::SetCapacity(size_t bytes) {
  if (bytes > arena_.max_bytes()) {
    return IndexStatus::InvalidArgument("a result cache of " + std::to_string(bytes) +
                                        " bytes: address space was reserved for " + std::to_string(arena_.max_bytes()) +
                                        "; raise ResultCacheOptions::max_capacity");
  }
  // One after the other: what huge pages hold beyond what is used is charged by who is last.
  const MutexLock lock(&resize_mutex_);
  arena_.set_capacity(bytes);
  if (!z_.empty()) SetShare(n_share_.load(std::memory_order_relaxed));
  const bool has_rests = PagesOf(options_) == MappedRange::Pages::kHuge && bytes >= kMinForHugePages;
  if (has_rests) arena_.Charge(kHugePage - index_rest_.exchange(kHugePage));
  if (arena_.charged() <= bytes) return IndexStatus::OK();
  if (!has_rests) ReturnRests();
  // The index shrinks with the log; else all of the log would go before it.
  for (bool gave = true; gave && arena_.charged() > bytes;) {
    gave = false;
    for (size_t i = 0; i < kChunksAFit * n_.size() && arena_.charged() > bytes && MakeRoom(); ++i) gave = true;
    FitIndexes();
  }
  return IndexStatus::OK();
}

void ResultCacheImpl::FitIndexes() {
  for (const auto& partition : n_) {
    const MutexLock lock(partition->mutex());
    partition->FitIndex();
  }
}

ResultCache::Statistics ResultCacheImpl::GetStatistics() const {
  Statistics all;
  all.hits = counters_.Sum(Counters::kHits);
  all.absent_hits = counters_.Sum(Counters::kAbsentHits);
  all.misses = counters_.Sum(Counters::kMisses);
  all.puts = counters_.Sum(Counters::kPuts);
  all.refused_fills = counters_.Sum(Counters::kRefusedFills);
  all.unadmitted_fills = counters_.Sum(Counters::kUnadmittedFills);
  all.erases = counters_.Sum(Counters::kErases);
  for (const auto& partition : n_) {
    const MutexLock lock(partition->mutex());
    const NZone::Numbers numbers = partition->numbers();
    all.items += numbers.items;
    all.item_bytes += numbers.item_bytes;
    all.index_bytes += numbers.index_bytes;
    all.evictions += numbers.evictions;
    all.recovered += numbers.recovered;
  }
  for (size_t i = 0; i < z_.size(); ++i) {
    const MutexLock lock(n_[i]->mutex());
    const ZZone::Numbers numbers = z_[i]->numbers();
    all.z_items += numbers.items;
    all.z_item_bytes += numbers.item_bytes;
    all.z_bytes += numbers.bytes;
    all.evictions += numbers.evictions;
  }
  all.items += all.z_items;
  all.item_bytes += all.z_item_bytes;
  all.z_hits = counters_.Sum(Counters::kZHits);
  all.promotions = counters_.Sum(Counters::kPromotions);
  all.n_zone_share = n_share_.load(std::memory_order_relaxed);
  all.memory = arena_.charged();
  all.capacity = arena_.capacity();
  return all;
}

// With a file, as long as it is not recovered, nothing may be put.
IndexStatus CreateUnrecovered(const ResultCacheOptions& options, bool stamps,
                              std::unique_ptr<ResultCacheImpl>* result) {
  const bool in_file = !options.path.empty();
  const size_t usual_max =
      in_file ? options.capacity : std::max(kMinMaxCapacity, std::min(options.capacity, SIZE_MAX / 8) * 8);
  const size_t max_capacity = options.max_capacity != 0 ? options.max_capacity : usual_max;
  if (options.capacity > max_capacity) {
    return IndexStatus::InvalidArgument("ResultCacheOptions: capacity " + std::to_string(options.capacity) +
                                        " is above max_capacity " + std::to_string(max_capacity));
  }
  const size_t partitions =
      std::min(kMaxPartitions, PowerOfTwoBelow(std::max(kPartitionBytes, options.capacity) / kPartitionBytes));
  const size_t chunk =
      std::min(kMaxChunk, std::max(kMinChunk, PowerOfTwoBelow(options.capacity / partitions / kChunksAPartition + 1)));
  std::unique_ptr<CacheFile> file;
  if (in_file) {
    const CacheFile::Shape shape{chunk, max_capacity / chunk + 2, partitions, stamps};
    const IndexStatus s = CacheFile::Open(options.path, shape, options.identity, SeedOf(options), &file);
    if (!s.ok()) return s;
  }
  auto cache = std::make_unique<ResultCacheImpl>(options, max_capacity, partitions, chunk, std::move(file));
  if (!cache->ok()) {
    return IndexStatus::InvalidArgument("ResultCacheOptions: the system has no address space for max_capacity " +
                                        std::to_string(max_capacity) + "; lower it");
  }
  *result = std::move(cache);
  return IndexStatus::OK();
}

bool AnySpace(uint32_t /*space*/) { return true; }

}  // namespace

IndexStatus OpenUnbelieved(const ResultCacheOptions& options, bool stamps, std::unique_ptr<ResultCache>* cache,
                           CacheFile** file) {
  std::unique_ptr<ResultCacheImpl> made;
  const IndexStatus s = CreateUnrecovered(options, stamps, &made);
  if (!s.ok()) return s;
  *file = made->file();
  *cache = std::move(made);
  return s;
}

void Believe(ResultCache* cache, const std::function<bool(uint32_t)>& spaces,
             const std::function<bool(std::string_view key, uint64_t stamp)>& stamps) {
  static_cast<ResultCacheImpl*>(cache)->Recover(spaces, stamps);
}

ResultCache::Answer GetIn(size_t cell, ResultCache* cache, std::string_view key, std::string* value, uint32_t space,
                          uint64_t* hash) {
  return static_cast<ResultCacheImpl*>(cache)->GetIn(cell, key, value, space, hash);
}

bool BeginFillOf(size_t cell, ResultCache* cache, uint64_t hash, uint32_t space, ResultCache::FillTicket* ticket) {
  return static_cast<ResultCacheImpl*>(cache)->BeginFillIn(cell, hash, space, ticket);
}

}  // namespace cache

IndexStatus ResultCache::Create(const ResultCacheOptions& options, std::unique_ptr<ResultCache>* result) {
  std::unique_ptr<cache::ResultCacheImpl> made;
  const IndexStatus s = cache::CreateUnrecovered(options, false, &made);
  if (!s.ok()) return s;
  if (made->file() != nullptr) made->Recover(cache::AnySpace, nullptr);
  *result = std::move(made);
  return s;
}

}  // namespace cairn
