#include "trie_table/bloom_cluster/bloom_directory.h"

#include <algorithm>
#include <cmath>

#include "monitoring/statistics_impl.h"
#include "table/reader_charge.h"
#include "trie_table/bloom_cluster/bloom_batch.h"
#include "trie_table/bloom_cluster/bloom_thread.h"
#include "util/bits.h"
#include "util/hazard.h"
#include "util/rocksdb_names.h"

namespace cairn {

namespace {

// Images of a container that are asked one by one. More: lookups read more places; fewer: more merging when files come.
constexpr size_t kMaxImages = 3;
// Containers whose filters are read into memory when a table is opened that makes room for them.
constexpr int kContainersAtOnce = 4;
// A merged image may have this many bits of precision less than the budget allows.
constexpr unsigned kPrecisionLoss = 2;

// Versions are never used twice, by no container.
uint64_t NextVersion() {
  static std::atomic<uint64_t> next{1};
  return next.fetch_add(1, std::memory_order_relaxed);
}

uint64_t Bit(unsigned i) { return uint64_t{1} << i; }
// REQUIRES: bits != 0.
unsigned HighestBit(uint64_t bits) { return 63 - static_cast<unsigned>(__builtin_clzll(bits)); }
unsigned Count(uint64_t bits) { return static_cast<unsigned>(__builtin_popcountll(bits)); }

uint64_t MembersOf(const FilterCover& cover, uint64_t slots) {
  uint64_t members = 0;
  for (; slots != 0; slots &= slots - 1) {
    const uint8_t member = cover.member_of_slot[LowestBit(slots)];
    if (member != FilterCover::kGone) members |= Bit(member);
  }
  return members;
}

// Those of the process that plan their memory.
class PlanningDirectories {
 public:
  static void Add(std::weak_ptr<FilterDirectory> directory) {
    PlanningDirectories* const all = The();
    const MutexLock lock(&all->mutex_);
    auto& list = all->directories_;
    list.erase(std::remove_if(list.begin(), list.end(), [](const auto& each) { return each.expired(); }), list.end());
    list.push_back(std::move(directory));
  }
  static std::vector<std::shared_ptr<FilterDirectory>> Open() {
    std::vector<std::shared_ptr<FilterDirectory>> open;
    PlanningDirectories* const all = The();
    const MutexLock lock(&all->mutex_);
    for (const std::weak_ptr<FilterDirectory>& each : all->directories_) {
      if (auto directory = each.lock()) open.push_back(std::move(directory));
    }
    return open;
  }

 private:
  static PlanningDirectories* The() {
    static auto* const all = new PlanningDirectories();
    return all;
  }
  CheckedMutex mutex_;
  std::vector<std::weak_ptr<FilterDirectory>> directories_ CAIRN_GUARDED_BY(mutex_);
};

}  // namespace

int FilterDirectory::DeepestFrom(int depth) const {
  int deepest = kMaxDepths - 1;
  while (deepest > depth && tables_at_depth_[static_cast<size_t>(deepest)].load(std::memory_order_relaxed) == 0) {
    --deepest;
  }
  return deepest;
}

double FilterDirectory::BitsAt(int depth) const {
  if (depth < 0 || depth >= kMaxDepths || options_.bits_per_key == 0) return options_.bits_per_key;
  const int deepest = DeepestFrom(depth);
  return std::min(options_.bits_per_key + options_.bits_per_depth * (deepest - depth),
                  std::max(options_.bits_per_key, kMaxBitsPerKey));
}

double FilterDirectory::BitsInMemoryAt(int depth) const {
  if (options_.residency == FilterResidency::kPinned) return BitsAt(depth);
  if (depth < 0 || depth >= kMaxDepths) return 0;
  return planned_bits_[static_cast<size_t>(depth)].load(std::memory_order_relaxed);
}

void FilterDirectory::CountTable(int depth, int change, uint64_t keys, const std::shared_ptr<rocksdb::Cache>& cache) {
  if (depth < 0 || depth >= kMaxDepths) return;
  const auto at = static_cast<size_t>(depth);
  tables_at_depth_[at].fetch_add(change, std::memory_order_relaxed);
  keys_at_depth_[at].fetch_add(change < 0 ? 0 - keys : keys, std::memory_order_relaxed);
  // What becomes free is planned for with the next table.
  if (options_.residency != FilterResidency::kCache || change < 0) return;
  if (Plan(cache)) must_fit_.store(true, std::memory_order_relaxed);
}

void FilterDirectory::FitToPlan() {
  if (must_fit_.exchange(false, std::memory_order_relaxed)) FitContainers(kContainersAtOnce);
  if (options_.residency != FilterResidency::kCache) return;
  {
    // Not with every table: there may be thousands of families, and of tables when they are opened.
    const MutexLock lock(&plan_mutex_);
    if (!share_.HasGrown()) return;
  }
  for (const std::shared_ptr<FilterDirectory>& other : PlanningDirectories::Open()) {
    if (other.get() != this) other->FitIfTooMuch();
  }
}

void FilterDirectory::FitContainers(int may_grow) {
  int grown = 0;
  bool waits = false;
  for (const std::shared_ptr<FilterContainer>& container : OpenContainers()) {
    waits |= grown == may_grow;
    if (container->Fit(/*may_grow=*/grown < may_grow)) ++grown;
  }
  if (waits) must_fit_.store(true, std::memory_order_relaxed);
}

void FilterDirectory::FitIfTooMuch() {
  {
    const MutexLock lock(&plan_mutex_);
    if (!share_.IsTooMuch()) return;
  }
  if (Plan(nullptr)) FitContainers(/*may_grow=*/0);
}

std::vector<FilterNeed> FilterDirectory::Needs() const {
  std::vector<FilterNeed> needs;
  for (int depth = 0; depth <= DeepestFrom(0); ++depth) {
    needs.push_back({keys_at_depth_[static_cast<size_t>(depth)].load(std::memory_order_relaxed), BitsAt(depth)});
  }
  return needs;
}

bool FilterDirectory::Plan(const std::shared_ptr<rocksdb::Cache>& cache) {
  const MutexLock lock(&plan_mutex_);
  if (planned_cache_ == nullptr) planned_cache_ = cache;
  if (!is_listed_) PlanningDirectories::Add(weak_from_this());
  is_listed_ = true;
  const std::vector<FilterNeed> needs = Needs();
  uint64_t all = 0;
  for (const FilterNeed& need : needs) all += FilterBytes(need.keys, need.bits);
  const uint64_t budget = share_.Ask(planned_cache_, all, memory_share_.load(std::memory_order_relaxed));
  const std::vector<uint8_t> plan = PlanFilterMemory(needs, budget);
  bool changed = false;
  for (size_t i = 0; i < plan.size(); ++i) {
    const uint8_t before = planned_bits_[i].load(std::memory_order_relaxed);
    // Where it can only just be more it is not, lest filters come and go with every compaction.
    const bool roomy = plan[i] > before && FilterBytes(needs[i].keys + needs[i].keys / 8, plan[i]) <= budget;
    if (plan[i] < before || roomy || before == 0) {
      planned_bits_[i].store(plan[i], std::memory_order_relaxed);
      changed |= plan[i] != before;
    }
    // A table that is written now is asked by pages later if its depth grows out of memory, or memory shrinks. The
    // deepest is the first to be.
    std::vector<FilterNeed> grown(needs.begin(), needs.begin() + static_cast<ptrdiff_t>(i) + 1);
    grown[i].keys *= 2;
    const bool stays = i + 1 < needs.size() && PlanFilterMemory(grown, budget)[i] != 0;
    stays_in_memory_[i].store(stays, std::memory_order_relaxed);
  }
  return changed;
}

bool FilterDirectory::WritesClustersAt(int depth) const {
  if (options_.clusters != FilterClusters::kAuto) return options_.clusters == FilterClusters::kAlways;
  if (options_.residency == FilterResidency::kPinned) return false;
  return depth < 0 || depth >= kMaxDepths || !stays_in_memory_[static_cast<size_t>(depth)];
}

std::vector<std::shared_ptr<FilterContainer>> FilterDirectory::OpenContainers() {
  std::vector<std::shared_ptr<FilterContainer>> open;
  const MutexLock lock(&mutex_);
  for (const auto& [name, container] : containers_) {
    if (auto held = container.lock()) open.push_back(std::move(held));
  }
  return open;
}

std::vector<FilterDepth> FilterDirectory::Depths() {
  std::vector<FilterDepth> depths(kMaxDepths);
  for (const std::shared_ptr<FilterContainer>& container : OpenContainers()) container->AddTo(&depths);
  for (int depth = 0; depth < kMaxDepths; ++depth) depths[static_cast<size_t>(depth)].depth = depth;
  depths.erase(std::remove_if(depths.begin(), depths.end(), [](const FilterDepth& each) { return each.tables == 0; }),
               depths.end());
  return depths;
}

std::shared_ptr<FilterContainer> FilterDirectory::Find(uint64_t name) {
  if (name == 0) return std::make_shared<FilterContainer>(this, false);
  const MutexLock lock(&mutex_);
  std::weak_ptr<FilterContainer>& entry = containers_[name];
  std::shared_ptr<FilterContainer> container = entry.lock();
  if (container == nullptr) {
    container = std::make_shared<FilterContainer>(this, true);
    entry = container;
  }
  if (containers_.size() > sweep_at_) {
    for (auto it = containers_.begin(); it != containers_.end();) {
      it = it->second.expired() ? containers_.erase(it) : std::next(it);
    }
    sweep_at_ = std::max<size_t>(64, 2 * containers_.size());
  }
  return container;
}

std::shared_ptr<FilterContainer> FilterDirectory::FindOpen(uint64_t name) {
  const MutexLock lock(&mutex_);
  const auto found = containers_.find(name);
  return found == containers_.end() ? nullptr : found->second.lock();
}

void FilterDirectory::ChangeMemory(int64_t bytes, const std::shared_ptr<rocksdb::Cache>& cache) {
  const MutexLock lock(&charge_mutex_);
  const uint64_t now = counters_.memory.fetch_add(static_cast<uint64_t>(bytes)) + static_cast<uint64_t>(bytes);
  if (charge_ == nullptr && cache != nullptr) {
    charged_cache_ = cache;
    charge_ = std::make_shared<Charge>(cache, /*delayed_decrease=*/true);
  }
  if (charge_ == nullptr) return;
  // What a cache with a strict limit refuses is used all the same, as RocksDB's memtables do.
  charge_->UpdateCacheReservation(std::min<uint64_t>(now, MostCharged())).PermitUncheckedError();
}

uint64_t FilterDirectory::MostCharged() const {
  if (!charged_cache_->HasStrictCapacityLimit()) return UINT64_MAX;
  // It is charged in whole steps.
  const uint64_t room = RoomForCharges(*charged_cache_, charge_->GetTotalReservedCacheSize());
  return room / Charge::GetDummyEntrySize() * Charge::GetDummyEntrySize();
}

FilterContainer::FilterContainer(FilterDirectory* directory, bool may_plan)
    : directory_(directory), may_plan_(may_plan || directory->options().residency == FilterResidency::kPinned) {
  const MutexLock lock(&mutex_);
  Publish();
}

FilterContainer::~FilterContainer() {
  // No member, so no reader.
  delete snapshot_.load(std::memory_order_relaxed);
}

Status FilterContainer::Join(const FilterContext& context, const rocksdb::ReadOptions& read_options,
                             const std::shared_ptr<const FilterBlock>& block, unsigned* member) {
  const MutexLock lock(&mutex_);
  *member = kNoMember;
  for (uint64_t left = live_; left != 0; left &= left - 1) {
    if (members_[LowestBit(left)].table_id == context.table_id) return Status::OK();
  }
  if (~live_ == 0) return Status::OK();
  depth_ = context.depth;
  uint64_t used = live_;
  for (const Image& image : images_) used |= image.members;
  // A number that no image knows, or else one of a table that is gone, by (3).
  const unsigned number = LowestBit(~used != 0 ? ~used : ~live_);
  if (cache_ == nullptr) cache_ = context.block_cache;
  const Status s = AddImages(read_options, block, number);
  if (!s.ok()) return s;
  members_[number] = {context.table_id, {context.level, context.newest, context.table}, block};
  live_ |= Bit(number);
  if (images_.size() > kMaxImages) MergeImages(2);
  Publish();
  *member = number;
  return Status::OK();
}

Status FilterContainer::AddImages(const rocksdb::ReadOptions& read_options,
                                  const std::shared_ptr<const FilterBlock>& block, unsigned member) {
  const double bits = may_plan_ ? directory_->BitsInMemoryAt(depth_) : 0;
  if (directory_->options().residency == FilterResidency::kPinned) {
    image_bits_ = bits;
    return bits == 0 ? Status::OK() : AddImage(read_options, block, member);
  }
  if (bits == 0 || bits > image_bits_) Reload(read_options, bits);
  // The questions to a page that cannot be read are its own errors.
  if (image_bits_ > 0 && !AddImage(read_options, block, member).ok()) DropImages();
  return Status::OK();
}

void FilterContainer::Reload(const rocksdb::ReadOptions& read_options, double bits) {
  DropImages();
  image_bits_ = bits;
  for (uint64_t left = bits == 0 ? 0 : live_; left != 0; left &= left - 1) {
    if (AddImage(read_options, members_[LowestBit(left)].block, LowestBit(left)).ok()) continue;
    DropImages();
    return;
  }
  if (images_.size() > kMaxImages) MergeImages(2);
}

void FilterContainer::DropImages() {
  int64_t freed = 0;
  for (const Image& image : images_) freed += static_cast<int64_t>(image.image->bytes());
  images_.clear();
  image_bits_ = 0;
  if (freed != 0) directory_->ChangeMemory(-freed, cache_);
}

bool FilterContainer::Fit(bool may_grow) {
  const MutexLock lock(&mutex_);
  const double bits = may_plan_ ? directory_->BitsInMemoryAt(depth_) : 0;
  if (live_ == 0 || bits == image_bits_ || (bits > image_bits_ && !may_grow)) return false;
  const bool grows = bits > image_bits_;
  if (grows || bits == 0) {
    Reload(rocksdb::ReadOptions(), bits);
  } else {
    image_bits_ = bits;
    MergeImages(1);
  }
  Publish();
  return grows;
}

void FilterContainer::AddTo(std::vector<FilterDepth>* depths) const {
  const MutexLock lock(&mutex_);
  if (depth_ < 0 || static_cast<size_t>(depth_) >= depths->size()) return;
  FilterDepth& depth = (*depths)[static_cast<size_t>(depth_)];
  depth.tables += Count(live_);
  for (uint64_t left = live_; left != 0; left &= left - 1) {
    depth.file_bytes += members_[LowestBit(left)].block->pages() * kFilterPageBytes;
    if (image_bits_ > 0) ++depth.tables_in_memory;
  }
  for (const Image& image : images_) depth.memory_bytes += image.image->bytes();
}

void FilterContainer::Leave(unsigned member) {
  const MutexLock lock(&mutex_);
  live_ &= ~Bit(member);
  members_[member] = Member();
  int64_t freed = 0;
  for (size_t i = 0; i < images_.size();) {
    if ((images_[i].members & live_) != 0) {
      ++i;
      continue;
    }
    freed += static_cast<int64_t>(images_[i].image->bytes());
    images_.erase(images_.begin() + static_cast<ptrdiff_t>(i));
  }
  if (freed != 0) directory_->ChangeMemory(-freed, cache_);
  Publish();
}

Status FilterContainer::AddImage(const rocksdb::ReadOptions& read_options,
                                 const std::shared_ptr<const FilterBlock>& block, unsigned member) {
  Image added;
  added.shift = member;
  added.members = Bit(member);
  const double bits = std::min(image_bits_, directory_->BitsAt(depth_));
  if (block->members().size() == 1 && bits >= std::floor(directory_->BitsAt(depth_))) {
    const Status s = block->LoadImage(read_options, &added.image);
    if (!s.ok()) return s;
  } else {
    // Of a cluster only the table's own filter: the others have theirs.
    const auto cursor = FilterBlock::NewCursor(block, read_options);
    MergeInput input;
    input.cursor = cursor.get();
    input.precision = block->shape().precision;
    input.slots.fill(MergeInput::kDropped);
    input.slots[0] = 0;
    FilterShape shape = block->shape();
    const unsigned shift = 64 - shape.precision;
    const uint64_t high = shape.columns == 0 ? shape.low : shape.low + (shape.columns << shape.column_shift()) - 1;
    shape = ChooseFilterShape(block->members()[0].pairs, shape.low << shift,
                              std::min(high, LowMask(shape.precision)) << shift, 0, bits, shape.precision);
    FilterImage::Builder builder(shape, block->members()[0].pairs);
    ColumnWriter writer(shape, &builder);
    if (MergePairs({input}, shape, &writer)) added.image = builder.Finish(writer.pairs());
    // A page could not be read, or its own hashes are too uneven. The whole cluster's image says the same and more; an
    // error is its own. Without an image the table's keys would all be found absent.
    if (added.image == nullptr) {
      const Status s = block->LoadImage(read_options, &added.image);
      if (!s.ok()) return s;
    }
  }
  directory_->ChangeMemory(static_cast<int64_t>(added.image->bytes()), cache_);
  images_.push_back(std::move(added));
  return Status::OK();
}

void FilterContainer::MergeImages(size_t at_least) {
  uint64_t pairs = 0, low = ~uint64_t{0}, high = 0, live = 0;
  for (const Image& image : images_) {
    const FilterShape& shape = image.image->shape();
    const unsigned shift = 64 - shape.precision;
    pairs += image.image->pairs();
    low = std::min(low, shape.low << shift);
    const uint64_t last = shape.columns == 0 ? shape.low : shape.low + (shape.columns << shape.column_shift()) - 1;
    high = std::max(high, std::min(last, LowMask(shape.precision)) << shift | LowMask(shift));
    live |= image.members & live_;
  }
  const unsigned slot_bits = BitWidth(HighestBit(live));
  const double bits = std::min(image_bits_, directory_->BitsAt(depth_));
  const unsigned wanted = ChooseFilterShape(pairs, low, high, slot_bits, bits).precision;
  unsigned precision = kMaxPrecision;
  std::vector<Image> merged, kept;
  for (Image& image : images_) {
    // Merging takes the least precision of all, so an image that has far less stays alone.
    const unsigned own = image.image->shape().precision;
    (own + kPrecisionLoss < wanted ? kept : merged).push_back(image);
    if (own + kPrecisionLoss >= wanted) precision = std::min(precision, own);
  }
  if (merged.size() < at_least) return;
  const FilterShape shape = ChooseFilterShape(pairs, low, high, slot_bits, bits, precision);
  std::vector<std::unique_ptr<PairCursor>> cursors;
  std::vector<MergeInput> inputs;
  Image result;
  int64_t before = 0;
  for (const Image& image : merged) {
    cursors.push_back(image.image->NewCursor());
    MergeInput input;
    input.cursor = cursors.back().get();
    input.precision = image.image->shape().precision;
    for (unsigned slot = 0; slot < kMaxFilterSlots; ++slot) {
      const unsigned member = slot + image.shift;
      const bool is_live = member < kMaxFilterSlots && (image.members & live_ & Bit(member)) != 0;
      input.slots[slot] = is_live ? static_cast<uint8_t>(member) : MergeInput::kDropped;
    }
    inputs.push_back(input);
    result.members |= image.members & live_;
    before += static_cast<int64_t>(image.image->bytes());
  }
  FilterImage::Builder builder(shape, pairs);
  ColumnWriter writer(shape, &builder);
  if (MergePairs(inputs, shape, &writer)) result.image = builder.Finish(writer.pairs());
  if (result.image == nullptr) return;  // out of memory: go on with what there is
  kept.push_back(result);
  images_ = std::move(kept);
  directory_->ChangeMemory(static_cast<int64_t>(result.image->bytes()) - before, cache_);
}

std::vector<FilterCover> FilterContainer::ChooseCovers(uint64_t members) const {
  std::vector<FilterCover> candidates, chosen;
  for (uint64_t left = live_; left != 0; left &= left - 1) {
    FilterCover cover;
    cover.block = members_[LowestBit(left)].block;
    cover.member_of_slot.fill(FilterCover::kGone);
    const std::vector<FilterMember>& named = cover.block->members();
    for (size_t slot = 0; slot < named.size(); ++slot) {
      for (uint64_t open = members; open != 0; open &= open - 1) {
        const unsigned number = LowestBit(open);
        if (members_[number].table_id != named[slot].table_id) continue;
        cover.member_of_slot[slot] = static_cast<uint8_t>(number);
        cover.members |= Bit(number);
      }
    }
    candidates.push_back(std::move(cover));
  }
  std::sort(candidates.begin(), candidates.end(),
            [](const FilterCover& a, const FilterCover& b) { return Count(a.members) > Count(b.members); });
  for (FilterCover& cover : candidates) {
    if ((cover.members & members) == 0) continue;
    for (uint8_t& member : cover.member_of_slot) {
      if (member != FilterCover::kGone && (members & Bit(member)) == 0) member = FilterCover::kGone;
    }
    cover.members &= members;
    members &= ~cover.members;
    chosen.push_back(std::move(cover));
  }
  return chosen;
}

std::vector<FilterCover> FilterContainer::Beneath(int level, unsigned* precision) const {
  const MutexLock lock(&mutex_);
  *precision = 0;
  uint64_t beneath = 0;
  for (uint64_t left = live_; left != 0; left &= left - 1) {
    const Member& member = members_[LowestBit(left)];
    // Level 0 is a column of its own, where whatever is open is older than what is being written.
    if (level < 0 || member.peer.level < 0 || (level > 0 && member.peer.level <= level)) continue;
    beneath |= Bit(LowestBit(left));
    *precision = std::max(*precision, member.block->shape().precision);
  }
  return ChooseCovers(beneath);
}

void FilterContainer::Publish() {
  auto* next = new Snapshot();
  next->version = NextVersion();
  next->live = live_;
  if (live_ != 0) next->peers.resize(HighestBit(live_) + 1);
  for (size_t i = 0; i < next->peers.size(); ++i) next->peers[i] = members_[i].peer;
  if (live_ != 0) next->first = next->last = HighestBit(live_);
  for (uint64_t left = live_; left != 0; left &= left - 1) {
    if (next->peers[next->last].IsNewerThan(next->peers[LowestBit(left)])) next->last = LowestBit(left);
    if (next->peers[LowestBit(left)].IsNewerThan(next->peers[next->first])) next->first = LowestBit(left);
  }
  next->in_memory = image_bits_ > 0;
  if (next->in_memory) {
    next->images = images_;
  } else {
    next->covers = ChooseCovers(live_);
    for (size_t i = 0; i < next->covers.size(); ++i) {
      for (uint64_t left = next->covers[i].members; left != 0; left &= left - 1) {
        next->cover_of_member[LowestBit(left)] = static_cast<uint8_t>(i);
      }
    }
  }
  const Snapshot* const last = snapshot_.exchange(next, std::memory_order_seq_cst);
  in_memory_.store(next->in_memory, std::memory_order_relaxed);
  version_.store(next->version, std::memory_order_release);
  if (last != nullptr) Retire(last, [last] { delete last; });
}

bool FilterContainer::MayContain(const rocksdb::ReadOptions& read_options, unsigned member,
                                 const FilterContext& context, uint64_t hash) const {
  FilterThread* const thread = ThisFilterThread();
  const FilterMemo* const memo = FindOut(read_options, member, context.depth, hash, thread);
  const bool may = memo->MayHold(member);
  thread->Count(context.level, may);
  if (context.statistics != nullptr) thread->Tick(context.statistics, hash, may, member == memo->last);
  return may;
}

uint64_t FilterContainer::MayContainBatch(const rocksdb::ReadOptions& read_options, unsigned member,
                                          const FilterContext& context, FilterBatch* batch) const {
  FilterThread* const thread = ThisFilterThread();
  const uint64_t version = version_.load(std::memory_order_acquire);
  uint64_t unknown = 0;
  for (uint64_t left = batch->wanted; left != 0; left &= left - 1) {
    const unsigned place = LowestBit(left);
    if (!thread->MemoAt(place)->Knows(version, batch->hashes[place], member)) unknown |= Bit(place);
  }
  if (unknown != 0 && in_memory()) {
    ProbeBatch(*batch, unknown, thread);
  } else if (unknown != 0) {
    ReadBatch(read_options, member, context, batch, unknown, thread);
  }
  uint64_t may = 0;
  for (uint64_t left = batch->wanted; left != 0; left &= left - 1) {
    const bool may_hold = thread->MemoAt(LowestBit(left))->MayHold(member);
    thread->Count(context.level, may_hold);
    if (may_hold) may |= Bit(LowestBit(left));
  }
  const unsigned positive = Count(may), useful = Count(batch->wanted) - positive;
  if (useful > 0) RecordTick(context.statistics, rocksdb::BLOOM_FILTER_USEFUL, useful);
  if (positive > 0) RecordTick(context.statistics, rocksdb::BLOOM_FILTER_FULL_POSITIVE, positive);
  return may;
}

uint64_t FilterContainer::MayHold(const rocksdb::ReadOptions& read_options, uint64_t members, int depth, uint64_t hash,
                                  FilterThread* thread) const {
  FilterMemo* const memo = thread->MemoOf(hash, depth);
  const uint64_t version = version_.load(std::memory_order_acquire);
  if (memo->hash != hash || memo->version != version || (members & ~memo->known) != 0) {
    const Protected<Snapshot> snapshot(thread->hazard(), snapshot_);
    if (!snapshot->in_memory) return AskPages(read_options, members, hash, *snapshot, memo);
    *memo = {snapshot->version, hash, ~uint64_t{0}, snapshot->ProbeImages(hash), snapshot->last};
  }
  return memo->may & members;
}

uint64_t FilterContainer::AskPages(const rocksdb::ReadOptions& read_options, uint64_t members, uint64_t hash,
                                   const Snapshot& snapshot, FilterMemo* memo) const {
  directory_->mutable_counters()->probes.fetch_add(1, std::memory_order_relaxed);
  if (memo->hash != hash || memo->version != snapshot.version) *memo = {snapshot.version, hash, 0, 0, snapshot.last};
  for (uint64_t left = members & ~memo->known; left != 0; left &= left - 1) {
    if ((memo->known >> LowestBit(left) & 1) != 0) continue;
    Ask(read_options, LowestBit(left), hash, snapshot, &memo->known, &memo->may);
  }
  return (memo->may | ~memo->known) & members;
}

inline const FilterMemo* FilterContainer::FindOut(const rocksdb::ReadOptions& read_options, unsigned member, int depth,
                                                  uint64_t hash, FilterThread* thread) const {
  FilterMemo* const memo = thread->MemoOf(hash, depth);
  const uint64_t version = version_.load(std::memory_order_acquire);
  if (memo->Knows(version, hash, member)) return memo;
  directory_->mutable_counters()->probes.fetch_add(1, std::memory_order_relaxed);
  const Protected<Snapshot> snapshot(thread->hazard(), snapshot_);
  if (memo->hash != hash || memo->version != snapshot->version) *memo = {snapshot->version, hash, 0, 0, snapshot->last};
  Ask(read_options, member, hash, *snapshot, &memo->known, &memo->may);
  return memo;
}

inline uint64_t FilterContainer::Snapshot::ProbeImages(uint64_t hash) const {
  if (images.size() > 1) {
    for (const Image& image : images) image.image->PrefetchDirectory(hash);
    for (const Image& image : images) image.image->PrefetchColumn(hash);
  }
  uint64_t may = 0;
  for (const Image& image : images) may |= image.image->Probe(hash) << image.shift;
  return may;
}

void FilterContainer::Ask(const rocksdb::ReadOptions& read_options, unsigned member, uint64_t hash,
                          const Snapshot& snapshot, uint64_t* known, uint64_t* may) const {
  if (snapshot.in_memory) {
    *may |= snapshot.ProbeImages(hash);
    *known = ~uint64_t{0};
    return;
  }
  const FilterCover& cover = snapshot.CoverOf(member);
  uint64_t slots = 0;
  // A page that cannot be read or is damaged answers nothing.
  if (!cover.block->Probe(read_options, hash, directory_->options().residency, &slots).ok()) return;
  *may |= MembersOf(cover, slots);
  *known |= cover.members;
}

struct FilterContainer::BatchQuestions {
  struct Asked {
    FilterMemo* memo;
    FilterCover cover;
  };
  std::vector<FilterQuestion> questions;  // number: of `asked`
  std::vector<Asked> asked;
};

void FilterContainer::ProbeBatch(const FilterBatch& batch, uint64_t places, FilterThread* thread) const {
  uint64_t hashes[FilterBatch::kMaxKeys];
  size_t count = 0;
  for (uint64_t left = places; left != 0; left &= left - 1) hashes[count++] = batch.hashes[LowestBit(left)];
  Prefetch(hashes, count);
  directory_->mutable_counters()->probes.fetch_add(count, std::memory_order_relaxed);
  const Protected<Snapshot> snapshot(thread->hazard(), snapshot_);
  // What has just gone from memory is not known.
  const uint64_t known = snapshot->in_memory ? ~uint64_t{0} : 0;
  for (uint64_t left = places; left != 0; left &= left - 1) {
    FilterMemo* const memo = thread->MemoAt(LowestBit(left));
    *memo = {snapshot->version, batch.hashes[LowestBit(left)], known, 0, snapshot->last};
    for (const Image& image : snapshot->images) memo->may |= image.image->Probe(memo->hash) << image.shift;
  }
}

void FilterContainer::AddQuestions(unsigned member, const FilterBatch& batch, uint64_t places, FilterThread* thread,
                                   BatchQuestions* questions) const {
  const Protected<Snapshot> snapshot(thread->hazard(), snapshot_);
  if (snapshot->live == 0) return;
  if (member == kNoMember) member = snapshot->first;
  for (; places != 0; places &= places - 1) {
    const uint64_t hash = batch.hashes[LowestBit(places)];
    FilterMemo* const memo = thread->MemoAt(LowestBit(places));
    if (memo->Knows(snapshot->version, hash, member)) continue;
    if (memo->hash != hash || memo->version != snapshot->version) {
      *memo = {snapshot->version, hash, 0, 0, snapshot->last};
    }
    if (snapshot->in_memory) {
      memo->known = ~uint64_t{0};
      memo->may = snapshot->ProbeImages(hash);
      continue;
    }
    const FilterCover& cover = snapshot->CoverOf(member);
    FilterQuestion question;
    question.block = cover.block;
    question.hash = hash;
    question.number = questions->asked.size();
    questions->questions.push_back(std::move(question));
    questions->asked.push_back({memo, cover});
  }
}

void FilterContainer::ReadBatch(const rocksdb::ReadOptions& read_options, unsigned member, const FilterContext& context,
                                FilterBatch* batch, uint64_t places, FilterThread* thread) const {
  BatchQuestions all;
  AddQuestions(member, *batch, places, thread, &all);
  if (batch->async_reads != nullptr && batch->add_others != nullptr && context.container_of != nullptr) {
    for (uint64_t left = batch->add_others(&batch->hashes) & ~batch->wanted; left != 0; left &= left - 1) {
      const unsigned place = LowestBit(left);
      const auto other = directory_->FindOpen(context.container_of(batch->hashes[place], context.depth));
      if (other != nullptr && other.get() != this) other->AddQuestions(kNoMember, *batch, Bit(place), thread, &all);
    }
  }
  directory_->mutable_counters()->probes.fetch_add(all.questions.size(), std::memory_order_relaxed);
  AskTogether(read_options, directory_->options().residency, batch->async_reads, &all.questions);
  for (const FilterQuestion& question : all.questions) {
    if (!question.answered) continue;
    const BatchQuestions::Asked& asked = all.asked[question.number];
    asked.memo->may |= MembersOf(asked.cover, question.members);
    asked.memo->known |= asked.cover.members;
  }
}

void FilterContainer::Prefetch(const uint64_t* hashes, size_t count) const {
  const Protected<Snapshot> snapshot(ThisFilterThread()->hazard(), snapshot_);
  for (const Image& image : snapshot->images) {
    for (size_t i = 0; i < count; ++i) image.image->PrefetchDirectory(hashes[i]);
  }
  for (const Image& image : snapshot->images) {
    for (size_t i = 0; i < count; ++i) image.image->PrefetchColumn(hashes[i]);
  }
}

FilterContainer::Found FilterContainer::FindNewest(size_t place, uint64_t hash,
                                                   std::shared_ptr<const HTableFile>* table) const {
  rocksdb::ReadOptions in_memory;
  in_memory.read_tier = rocksdb::kBlockCacheTier;
  FilterThread* const thread = ThisFilterThread();
  const Protected<Snapshot> snapshot(thread->hazard(), snapshot_);
  uint64_t known = 0, may = 0;
  const FilterMemo& memo = *thread->MemoAt(place);
  if (memo.hash == hash && memo.version == snapshot->version) {
    known = memo.known;
    may = memo.may;
  }
  for (uint64_t unknown = snapshot->live & ~known; unknown != 0; unknown &= ~known) {
    Ask(in_memory, LowestBit(unknown), hash, *snapshot, &known, &may);
    if ((known >> LowestBit(unknown) & 1) == 0) return Found::kUnknown;
  }
  const Peer* newest = nullptr;
  for (uint64_t left = may & snapshot->live; left != 0; left &= left - 1) {
    const Peer& peer = snapshot->peers[LowestBit(left)];
    if (newest == nullptr || peer.IsNewerThan(*newest)) newest = &peer;
  }
  if (newest == nullptr) return Found::kNone;
  *table = newest->table.lock();
  return *table == nullptr ? Found::kUnknown : Found::kTable;
}

size_t FilterContainer::MemoryOf(unsigned member) const {
  const MutexLock lock(&mutex_);
  if (member >= kMaxFilterSlots || members_[member].block == nullptr) return 0;
  const FilterBlock& block = *members_[member].block;
  const double own = static_cast<double>(block.members()[0].pairs);
  double bytes = static_cast<double>(block.bytes());
  for (const Image& image : images_) {
    if ((image.members & Bit(member)) == 0 || image.image->pairs() == 0) continue;
    bytes += static_cast<double>(image.image->bytes()) * std::min(1.0, own / static_cast<double>(image.image->pairs()));
  }
  return static_cast<size_t>(bytes);
}

size_t FilterContainer::sources() const {
  const Protected<Snapshot> snapshot(ThisFilterThread()->hazard(), snapshot_);
  return snapshot->images.size() + snapshot->covers.size();
}

}  // namespace cairn
