#include "memtable_cache/sub_memtable.h"

#include <pthread.h>
#include <sched.h>

#include <algorithm>
#include <new>
#include <random>
#include <thread>
#include <utility>

#include "db/lookup_key.h"
#include "memory/arena.h"
#include "memtable_cache/flush_scope.h"
#include "memtable_cache/tailing.h"
#include "util/key_text.h"
#include "util/spin.h"

namespace cairn {

namespace {

// A memtable takes no segment larger than this part of its write buffer, shared by the cores that write.
constexpr size_t kSegmentsInBuffer = 32;
// An entry that needs more than this part of a segment gets a segment of its own.
constexpr size_t kOversizePart = 4;
constexpr size_t kMaxSlots = 256;
// A run is merged into the one before unless that is so many times as large.
constexpr size_t kRunRatio = 4;
constexpr size_t kHashBatch = 64;
// What the final run will take for an entry: charged while the memtable grows, because later it must not be.
constexpr size_t kFinalRunBytes = 9;

// While there are lookups, a writer indexes what is new after so many entries, waits for its turn to do so after as
// many as the second, and looks whether there still are lookups after as many as the third. Each time it may index more
// than it has written, so that what is not indexed gets less. What is not indexed is counted by the second number, too.
constexpr uint64_t kHelpEvery = 2;
constexpr uint64_t kHelpForSure = 1024;
constexpr uint64_t kForgetLookups = 4096;
constexpr size_t kWriterHelps = 64;

// Every so many lookups that found entries behind the hash, the reader brings it up to date, because writers may have
// stopped; each time if they were many. A reader does not let a larger table grow.
constexpr uint32_t kReaderHelpsEvery = 16;
constexpr size_t kSmallHash = 8192;

// Versions that a search for unhashed ones collects, first and later; after so many searches the hash is cheaper.
constexpr size_t kFirstVersions = 1;
constexpr size_t kMostVersions = 64;
constexpr int kMostSearches = 4;

// RocksDB's entry of an empty key and value.
constexpr size_t kLeastEntryBytes = 10;

// Of a mutex that is mostly held for a few microseconds.
constexpr int kLockSpins = 1000;

// A number that nobody outside can know or choose.
uint64_t SecretNumber() {
  static const uint64_t secret = [] {
    std::random_device source;
    return static_cast<uint64_t>(source()) << 32 | source();
  }();
  static std::atomic<uint64_t> count{0};
  const uint64_t number = count.fetch_add(1, std::memory_order_relaxed);
  return KeyHash(HashKind::kXxh3, secret)(rocksdb::Slice(reinterpret_cast<const char*>(&number), sizeof(number)));
}

// The calling thread. One that has ended may have had the same number; a claim that it left is of nobody then.
uintptr_t Self() { return static_cast<uintptr_t>(pthread_self()); }

size_t PowerOfTwoUpTo(size_t n) {
  size_t power = 1;
  while (power * 2 <= n) power *= 2;
  return power;
}

}  // namespace

thread_local int TailingScope::depth_ = 0;
thread_local FlushScope* FlushScope::innermost_ = nullptr;

// Goes over runs in both directions.
//
// Invariants: forward, every position but the current one is that of the run's first entry behind the current one;
// backward, of its last entry before it. A tailing iterator, which RocksDB moves forward only, passes over entries
// above newest_tag_.
class SubMemTableIterator : public port::MemTableRep::CheckedIterator {
 public:
  explicit SubMemTableIterator(const SubMemTable* table) : table_(table), tailing_(TailingScope::IsOpen()) {}

  bool Valid() const override { return current_ < positions_.size(); }
  const char* key() const override { return EntryAt(current_); }

  void Next() override {
    // As in a skip list, a tailing iterator meets what has been written behind its entry since. Others have a snapshot.
    if (tailing_ && (newest_tag_ != UINT64_MAX || table_->HasNewerThan(runs_.get()))) return GoOnBehind(key());
    Advance();
  }

  void Prev() override {
    if (forward_) Turn(-1);
    --positions_[current_];
    PickLast();
  }

  void Seek(const rocksdb::Slice& internal_key, const char* memtable_key) override {
    Position(memtable_key != nullptr ? rocksdb::GetLengthPrefixedSlice(memtable_key) : internal_key);
    forward_ = true;
    PickFirst();
  }

  void SeekForPrev(const rocksdb::Slice& internal_key, const char* memtable_key) override {
    const rocksdb::Slice key = memtable_key != nullptr ? rocksdb::GetLengthPrefixedSlice(memtable_key) : internal_key;
    Position(key);
    forward_ = true;
    PickFirst();
    const EntryKey target = SplitInternalKey(key);
    if (Valid()) {
      const EntryKey here = KeyOf(this->key());
      if (here.user_key == target.user_key && here.tag == target.tag) return;
    }
    for (ptrdiff_t& position : positions_) --position;
    forward_ = false;
    PickLast();
  }

  // What paranoid_memory_checks asks for: entries that come in another order than the runs were sorted in have changed
  // in memory since.
  rocksdb::Status NextAndValidate(bool allow_data_in_errors) override {
    const char* const before = key();
    Next();
    return !Valid() || table_->order().Compare(before, key()) < 0 ? rocksdb::Status::OK()
                                                                  : Damaged(allow_data_in_errors);
  }
  rocksdb::Status PrevAndValidate(bool allow_data_in_errors) override {
    const char* const behind = key();
    Prev();
    return !Valid() || table_->order().Compare(key(), behind) < 0 ? rocksdb::Status::OK()
                                                                  : Damaged(allow_data_in_errors);
  }
  rocksdb::Status SeekChecked(const rocksdb::Slice& internal_key, const char* memtable_key, bool allow_data_in_errors,
                              const port::CheckEntry& check) override {
    Seek(internal_key, memtable_key);
    const rocksdb::Slice key = memtable_key != nullptr ? rocksdb::GetLengthPrefixedSlice(memtable_key) : internal_key;
    if (!Valid()) return rocksdb::Status::OK();
    if (table_->order().Compare(this->key(), key) < 0) return Damaged(allow_data_in_errors);
    const rocksdb::Status s = check == nullptr ? rocksdb::Status::OK() : check(this->key(), allow_data_in_errors);
    if (!s.ok()) current_ = positions_.size();
    return s;
  }

  void SeekToFirst() override {
    Refresh();
    positions_.assign(runs_->size(), 0);
    forward_ = true;
    PickFirst();
  }

  void SeekToLast() override {
    Refresh();
    positions_.resize(runs_->size());
    for (size_t i = 0; i < positions_.size(); ++i) positions_[i] = static_cast<ptrdiff_t>(Run(i).size()) - 1;
    forward_ = false;
    PickLast();
  }

 private:
  static constexpr ptrdiff_t kAhead = 8;  // entries whose cache lines are fetched in advance

  // Nothing is read from a memtable that has changed.
  rocksdb::Status Damaged(bool allow_data_in_errors) {
    const std::string where = allow_data_in_errors ? "at the key " + KeyText(KeyOf(key()).user_key) : std::string();
    current_ = positions_.size();
    return rocksdb::Status::Corruption("entries of a sub-MemTable are out of order: its memory has changed", where);
  }

  const SortedRun& Run(size_t i) const { return *(*runs_)[i]; }
  const char* EntryAt(size_t i) const { return Run(i).entry(static_cast<size_t>(positions_[i])); }
  bool InRun(size_t i) const { return positions_[i] >= 0 && static_cast<size_t>(positions_[i]) < Run(i).size(); }

  void Advance() {
    if (!forward_) Turn(+1);
    ++positions_[current_];
    PickFirst();
  }

  // To the first entry behind this one, of what has been published by now.
  void GoOnBehind(const char* entry) {
    Position(rocksdb::GetLengthPrefixedSlice(entry));
    forward_ = true;
    PickFirst();
    Advance();
  }

  // Each positioning sees what was published before it, as in a skip list; tailing iterators rely on that.
  void Refresh() {
    if (!tailing_) {
      runs_ = table_->SortedRuns();
      return;
    }
    RunView view = table_->SortedView();
    runs_ = std::move(view.runs);
    newest_tag_ = view.newest_tag;
  }

  void Position(const rocksdb::Slice& internal_key) {
    Refresh();
    positions_.resize(runs_->size());
    for (size_t i = 0; i < positions_.size(); ++i) {
      positions_[i] = static_cast<ptrdiff_t>(Run(i).LowerBound(table_->order(), internal_key));
      // Most rows come from the largest run, which is the first.
      for (ptrdiff_t ahead = 0; ahead < (i == 0 ? kAhead : 1); ++ahead) Prefetch(i, ahead);
    }
  }

  void Turn(ptrdiff_t step) {
    for (size_t i = 0; i < positions_.size(); ++i) {
      if (i != current_) positions_[i] += step;
    }
    forward_ = step > 0;
  }

  bool Before(size_t a, size_t b) const {
    const uint64_t prefix_a = Run(a).prefix(static_cast<size_t>(positions_[a]));
    const uint64_t prefix_b = Run(b).prefix(static_cast<size_t>(positions_[b]));
    if (prefix_a != prefix_b) return prefix_a < prefix_b;
    return table_->order().CompareRest(EntryAt(a), EntryAt(b)) < 0;
  }

  void PickFirst() {
    Pick(true);
    while (newest_tag_ != UINT64_MAX && Valid() && KeyOf(key()).tag > newest_tag_) {
      ++positions_[current_];
      Pick(true);
    }
  }
  void PickLast() { Pick(false); }
  void Pick(bool first) {
    current_ = positions_.size();
    for (size_t i = 0; i < positions_.size(); ++i) {
      if (InRun(i) && (!Valid() || Before(i, current_) == first)) current_ = i;
    }
    if (Valid()) Prefetch(current_, first ? kAhead : -kAhead);
  }

  [[gnu::always_inline]] void Prefetch(size_t i, ptrdiff_t ahead) const {
    Run(i).Prefetch(static_cast<size_t>(positions_[i] + ahead));
  }

  const SubMemTable* const table_;
  const bool tailing_;
  std::shared_ptr<const RunSet> runs_;
  uint64_t newest_tag_ = UINT64_MAX;
  std::vector<ptrdiff_t> positions_;
  size_t current_ = 0;
  bool forward_ = true;
};

SubMemTable::SubMemTable(const SubMemTableOptions& options, std::shared_ptr<SegmentPool> pool,
                         const KeyComparator& comparator, rocksdb::Allocator* allocator, uint32_t column_family)
    : MemTableRep(allocator),
      options_(options),
      pool_(std::move(pool)),
      layout_(pool_->layout()),
      owner_{pool_->NextMemTable(), column_family},
      order_(comparator),
      hash_function_(HashKind::kXxh3, SecretNumber()),
      block_bytes_(allocator->BlockSize()),
      arena_charge_(allocator),
      runs_(std::make_shared<RunSet>()),
      newest_runs_(runs_.get()) {
  const size_t cores = std::max(1U, std::thread::hardware_concurrency());
  size_t slots = 2;
  while (slots < 2 * cores && slots < kMaxSlots) slots *= 2;
  slot_mask_ = slots - 1;
  slots_.reset(new Slot[slots]);
  pool_->Attach(arena_charge_.manager());
}

SubMemTable::~SubMemTable() {
  if (sorter_.joinable()) sorter_.join();
  // Else what is in them is what a loss of power may leave: they stay as they are.
  const rocksdb::Status free =
      pool_->backing()->durable() ? pool_->backing()->BeforeFree(PoolSegments()) : rocksdb::Status();
  for (const auto& segment : segments_) {
    if (segment->on_heap) {
      if (!flushed_) pool_->backing()->SpillEnded();
      ::operator delete (segment->base, std::align_val_t{64});
    } else if (free.ok()) {
      pool_->Release(segment->base, segment->bytes, segment->copied_out);
    }
  }
  pool_->Detach(arena_charge_.manager());
}

rocksdb::KeyHandle SubMemTable::Allocate(size_t length, char** buffer) {
  Segment* segment = ClaimForWriting(layout_.EntryBytes(length));
  const size_t tail = SegmentWord::Decode(segment->word->load(std::memory_order_relaxed)).tail;
  char* entry = segment->base + tail;
  const auto stored = static_cast<uint32_t>(length);
  memcpy(entry, &stored, sizeof(stored));
  segment->pending = stored;
  *buffer = entry + layout_.entry_header_bytes;
  return segment;
}

void SubMemTable::Insert(rocksdb::KeyHandle handle) {
  auto* segment = static_cast<Segment*>(handle);
  SegmentWord word = SegmentWord::Decode(segment->word->load(std::memory_order_relaxed));
  const bool durable = pool_->backing()->durable() && !segment->on_heap;
  if (durable) {
    pool_->backing()->FinishEntry(segment->base, segment->base + word.tail + layout_.entry_header_bytes,
                                  segment->pending);
  }
  if (segment->marks != nullptr) AddMark(segment, segment->base + word.tail + layout_.entry_header_bytes, word);
  ++word.entries;
  word.tail = std::min(word.tail + layout_.EntryBytes(segment->pending), kMaxSegmentTail);
  word.state = segment->oversize ? SegmentState::kSealed : SegmentState::kOpen;
  segment->writer.store(0, std::memory_order_relaxed);
  segment->word->store(word.Encode(), std::memory_order_release);
  if (durable) pool_->backing()->Publish(segment->base);
  if (segment->marks != nullptr) HelpIndex(word.entries);
  ReportIndexes();
}

void SubMemTable::HelpIndex(uint64_t entries) {
  if (entries % kHelpEvery != 0) return;
  if (looked_up_.load(std::memory_order_relaxed)) HelpReaders(entries);
  if (entries % kHelpForSure == 0) BoundUnhashed(kHelpForSure);
}

void SubMemTable::AddMark(Segment* segment, const char* entry, const SegmentWord& word) {
  const EntryKey key = KeyOf(entry);
  const size_t taken = segment->marks->Add(word.entries, static_cast<uint32_t>(word.tail),
                                           static_cast<uint16_t>(HashOf(key.user_key)), key.tag);
  if (taken == 0) return;
  ChargeIndex(taken);
  mark_bytes_.fetch_add(taken, std::memory_order_relaxed);
}

Segment* SubMemTable::ClaimForWriting(size_t entry_bytes) {
  const auto core = static_cast<size_t>(std::max(0, sched_getcpu()));
  for (size_t probe = 0;; ++probe) {
    Slot* slot = &slots_[(core + probe) & slot_mask_];
    Segment* segment = nullptr;
    switch (TryClaim(slot, entry_bytes, &segment)) {
      case Answer::kClaimed:
        return segment;
      case Answer::kTooLarge:
        return OversizeSegment(entry_bytes);
      case Answer::kEmpty:
        if (entry_bytes > WantedSegmentBytes() / kOversizePart) return OversizeSegment(entry_bytes);
        segment = FillSlot(slot, entry_bytes);
        if (segment != nullptr) return segment;
        break;
      case Answer::kBusy:
        pool_->CountMiss();
        if (probe > slot_mask_) std::this_thread::yield();
        break;
    }
  }
}

SubMemTable::Answer SubMemTable::TryClaim(Slot* slot, size_t entry_bytes, Segment** claimed) {
  Segment* segment = slot->segment.load(std::memory_order_acquire);
  if (segment == nullptr) return Answer::kEmpty;
  uint64_t old = segment->word->load(std::memory_order_relaxed);
  SegmentWord word = SegmentWord::Decode(old);
  if (word.state == SegmentState::kBusy && segment->writer.load(std::memory_order_relaxed) == Self()) {
    // RocksDB has given up the entry for which this thread claimed the segment (its checksum did not hold).
    segment->writer.store(0, std::memory_order_relaxed);
    word.state = SegmentState::kOpen;
    old = word.Encode();
    segment->word->store(old, std::memory_order_release);
  }
  if (word.state != SegmentState::kOpen) return Answer::kBusy;
  const bool fits = word.tail + entry_bytes <= segment->bytes;
  if (!fits && entry_bytes > segment->bytes / kOversizePart) return Answer::kTooLarge;
  word.state = fits ? SegmentState::kBusy : SegmentState::kSealed;
  if (!segment->word->compare_exchange_strong(old, word.Encode(), std::memory_order_acquire)) return Answer::kBusy;
  if (fits) {
    segment->writer.store(Self(), std::memory_order_relaxed);
    *claimed = segment;
    return Answer::kClaimed;
  }
  slot->segment.store(nullptr, std::memory_order_release);
  SealSegment(segment);
  return Answer::kEmpty;
}

Segment* SubMemTable::FillSlot(Slot* slot, size_t entry_bytes) {
  const MutexLock lock(&segments_mutex_);
  if (slot->segment.load(std::memory_order_relaxed) != nullptr) return nullptr;
  Segment* segment = AddSegment(layout_.header_bytes + entry_bytes, false);
  slot->segment.store(segment, std::memory_order_release);
  ++slots_in_use_;
  return segment;
}

Segment* SubMemTable::OversizeSegment(size_t entry_bytes) {
  const MutexLock lock(&segments_mutex_);
  ChargeLocked(kFinalRunBytes);
  return AddSegment(layout_.header_bytes + entry_bytes, true);
}

size_t SubMemTable::WantedSegmentBytes() const {
  size_t buffer = std::max(8 * block_bytes_, 2 * charged_.load(std::memory_order_relaxed));
  const rocksdb::WriteBufferManager* const manager = arena_charge_.manager();
  if (manager != nullptr && manager->enabled()) buffer = std::min(buffer, manager->buffer_size());
  return PowerOfTwoUpTo(std::clamp(buffer / kSegmentsInBuffer, SegmentPool::kGrain, size_t{options_.segment_size}));
}

// A segment that the caller has claimed already.
Segment* SubMemTable::AddSegment(size_t at_least, bool oversize) {
  auto owned = std::make_unique<Segment>();
  Segment* segment = owned.get();
  segment->oversize = oversize;
  const size_t wanted =
      oversize ? at_least : std::max(SegmentPool::kGrain, WantedSegmentBytes() / PowerOfTwoUpTo(slots_in_use_ + 1));
  SegmentOwner owner = owner_;
  owner.one_entry = oversize;
  const rocksdb::Status claimed = pool_->Claim(at_least, wanted, owner, &segment->base, &segment->bytes);
  if (!claimed.ok()) {
    // RocksDB has no way to refuse an entry here. Its own memtables take from the heap, too.
    pool_->backing()->Spilled(claimed);
    segment->bytes = std::max(at_least, wanted);
    segment->base = static_cast<char*>(::operator new (segment->bytes, std::align_val_t{64}));
    segment->on_heap = true;
  }
  segment->word = reinterpret_cast<std::atomic<uint64_t>*>(segment->base + layout_.word_offset);
  segment->word->store(SegmentWord{0, SegmentState::kBusy, layout_.header_bytes}.Encode(), std::memory_order_relaxed);
  segment->writer.store(Self(), std::memory_order_relaxed);
  if (UsesHash()) {
    segment->marks =
        std::make_unique<SegmentMarks>(oversize ? 1 : segment->bytes / layout_.EntryBytes(kLeastEntryBytes));
  }
  segment->hashed.tail.store(layout_.header_bytes, std::memory_order_relaxed);
  segment->sorted.tail.store(layout_.header_bytes, std::memory_order_relaxed);
  if (segments_.empty()) {
    first_to_hash_.store(segment, std::memory_order_release);
    first_to_sort_.store(segment, std::memory_order_release);
  } else {
    segments_.back()->hashed.next.store(segment, std::memory_order_release);
    segments_.back()->sorted.next.store(segment, std::memory_order_release);
  }
  segments_.push_back(std::move(owned));
  last_segment_.store(segment, std::memory_order_release);
  ChargeLocked(segment->bytes);
  return segment;
}

void SubMemTable::SealSegment(Segment* segment) {
  const SegmentWord word = segment->Load();
  if (!segment->on_heap) segment->copied_out = pool_->Seal(segment->base, word.tail, segment->bytes);
  // A segment costs a lookup what a thousand entries do.
  if (segment->marks != nullptr) BoundUnhashed(kHelpForSure);
  const MutexLock lock(&segments_mutex_);
  --slots_in_use_;
  ChargeLocked(word.entries * kFinalRunBytes);
}

void SubMemTable::ChargeLocked(size_t bytes) {
  if (read_only_.load(std::memory_order_relaxed)) return;
  charged_.fetch_add(bytes, std::memory_order_relaxed);
  arena_charge_.Charge(bytes);
}

void SubMemTable::ChargeIndex(size_t bytes) const {
  const MutexLock lock(&segments_mutex_);
  if (read_only_.load(std::memory_order_relaxed)) return;
  unreported_.fetch_add(bytes, std::memory_order_relaxed);
  arena_charge_.Charge(bytes);
}

void SubMemTable::MarkReadOnly() {
  const MutexLock lock(&segments_mutex_);
  for (size_t i = 0; i <= slot_mask_; ++i) {
    Segment* segment = slots_[i].segment.exchange(nullptr, std::memory_order_acq_rel);
    if (segment == nullptr) continue;
    SegmentWord word = segment->Load();
    word.state = SegmentState::kSealed;
    segment->word->store(word.Encode(), std::memory_order_release);
    // Not in charged_: RocksDB has added ApproximateMemoryUsage to the sum of its read-only memtables before it calls
    // this, and will take away what it is then.
    arena_charge_.Charge(word.entries * kFinalRunBytes);
  }
  read_only_.store(true, std::memory_order_release);
  if (pool_->backing()->durable()) pool_->backing()->MemTableSealed(owner_);
}

void SubMemTable::MarkFlushed() {
  if (!pool_->backing()->durable()) return;
  const MutexLock lock(&segments_mutex_);
  pool_->backing()->MemTableFlushed(owner_, PoolSegments());
  if (flushed_) return;
  flushed_ = true;
  // Now, and not when the memtable dies: an iterator may keep it for as long as it likes.
  for (const auto& segment : segments_) {
    if (segment->on_heap) pool_->backing()->SpillEnded();
  }
}

std::vector<char*> SubMemTable::PoolSegments() const {
  std::vector<char*> bases;
  for (const auto& segment : segments_) {
    if (!segment->on_heap) bases.push_back(segment->base);
  }
  return bases;
}

bool SubMemTable::HasNewerThan(const RunSet* runs) const {
  // In this order: entries that are no longer behind the runs are in runs that are not these, or in none yet.
  return RunsAreStale() || newest_runs_.load(std::memory_order_acquire) != runs;
}

bool SubMemTable::RunsAreStale() const {
  for (const Segment* segment = first_to_sort_.load(std::memory_order_acquire); segment != nullptr;
       segment = segment->sorted.next.load(std::memory_order_acquire)) {
    if (segment->Load().tail != segment->sorted.tail.load(std::memory_order_acquire)) return true;
  }
  return false;
}

template <class Visitor, class Finish>
size_t SubMemTable::CatchUp(Segment::Progress Segment::*progress, std::atomic<Segment*>* first, size_t limit,
                            Visitor&& visit, Finish&& finish) const {
  const Segment* const last = last_segment_.load(std::memory_order_acquire);
  std::atomic<Segment*>* link = first;
  size_t visited = 0;
  for (Segment* segment = first->load(std::memory_order_acquire); segment != nullptr && visited < limit;) {
    const bool is_last = segment == last;
    Segment::Progress& mine = segment->*progress;
    Segment* next = mine.next.load(std::memory_order_acquire);
    const SegmentWord word = segment->Load();
    const size_t before = visited;
    SegmentWalk walk(*segment, layout_, mine.tail.load(std::memory_order_relaxed), word.tail);
    while (visited < limit) {
      const char* entry = walk.Next();
      if (entry == nullptr) break;
      visit(entry);
      ++visited;
    }
    if (visited != before) {
      finish();
      mine.entries.store(mine.entries.load(std::memory_order_relaxed) + visited - before, std::memory_order_release);
      mine.tail.store(walk.offset(), std::memory_order_release);
    }
    // The last segment stays in the list: the next one will be linked to it.
    if (word.state == SegmentState::kSealed && next != nullptr && walk.offset() == word.tail) {
      link->store(next, std::memory_order_release);
    } else {
      link = &mine.next;
    }
    segment = is_last ? nullptr : next;
  }
  return visited;
}

// Memory that sorting takes while it lasts, beyond what the run that it makes is charged for.
class SubMemTable::Sorting {
 public:
  // `entries` are sorted; `more`: what else is taken.
  Sorting(const SubMemTable* table, size_t entries, size_t more)
      : pool_(table->pool_.get()),
        bytes_(entries * (sizeof(SortItem) - sizeof(const char*)) +
               std::min(entries, SortItems::kSpareItems) * sizeof(SortItem) + more),
        charge_(table->arena_charge_.manager(), bytes_) {
    pool_->CountSorting(static_cast<int64_t>(bytes_));
  }
  ~Sorting() { pool_->CountSorting(-static_cast<int64_t>(bytes_)); }
  Sorting(const Sorting&) = delete;
  Sorting& operator=(const Sorting&) = delete;

 private:
  SegmentPool* const pool_;
  const size_t bytes_;
  const PassingCharge charge_;
};

// By the runs; writers may add to it.
size_t SubMemTable::CountUnsorted() const {
  size_t entries = 0;
  for (const Segment* segment = first_to_sort_.load(std::memory_order_acquire); segment != nullptr;
       segment = segment->sorted.next.load(std::memory_order_acquire)) {
    const uint64_t sorted = segment->sorted.entries.load(std::memory_order_acquire);
    entries += segment->Load().entries - sorted;
  }
  return entries;
}

size_t SubMemTable::CountEntries() const {
  const MutexLock lock(&segments_mutex_);
  size_t entries = 0;
  for (const auto& segment : segments_) entries += segment->Load().entries;
  return entries;
}

void SubMemTable::HelpReaders(uint64_t entries) const {
  if (entries % kHelpForSure == 0) {
    // As much as the segment may have got since the last time.
    LockSpinning(&hash_mutex_, kLockSpins);
    const MutexLock lock(&hash_mutex_, MutexLock::kHeld);
    UpdateHashLocked(2 * kHelpForSure, Growth::kAny);
  } else {
    if (!hash_mutex_.TryLock()) return;
    const MutexLock lock(&hash_mutex_, MutexLock::kHeld);
    UpdateHashLocked(kWriterHelps, Growth::kAny);
  }
  if (entries % kForgetLookups == 0) looked_up_.store(false, std::memory_order_relaxed);
}

void SubMemTable::BoundUnhashed(uint64_t entries) const {
  if (unhashed_.fetch_add(entries, std::memory_order_relaxed) < kMostUnhashed) return;
  LockSpinning(&hash_mutex_, kLockSpins);
  const MutexLock lock(&hash_mutex_, MutexLock::kHeld);
  UpdateHashLocked(2 * kHelpForSure, Growth::kAny);
}

void SubMemTable::HelpAsReader(uint64_t unhashed) const {
  if (read_only_.load(std::memory_order_acquire)) {
    if (unhashed > kManyUnhashed) SortInBackground();
    return;
  }
  thread_local uint32_t searches = 0;
  if (unhashed <= kManyUnhashed && ++searches % kReaderHelpsEvery != 0) return;
  if (!hash_mutex_.TryLock()) return;
  const MutexLock lock(&hash_mutex_, MutexLock::kHeld);
  UpdateHashLocked(kReaderHelps, Growth::kSmall);
}

void SubMemTable::SortInBackground() const {
  if (sorting_.load(std::memory_order_relaxed) || sorting_.exchange(true)) return;
  try {
    sorter_ = std::thread([this] { SortedRuns(); });
  } catch (const std::system_error&) {
    // No thread can be had: the flush will sort.
  }
}

void SubMemTable::UpdateHash() const {
  LockSpinning(&hash_mutex_, kLockSpins);
  const MutexLock lock(&hash_mutex_, MutexLock::kHeld);
  UpdateHashLocked(SIZE_MAX, Growth::kAny);
}

void SubMemTable::UpdateHashLocked(size_t limit, Growth growth) const {
  HashIndex* hash = hash_owner_.get();
  if (hash == nullptr) {
    hash_owner_ = std::make_unique<HashIndex>(hash_function_);
    hash = hash_owner_.get();
    // Room for what a full write buffer will hold, if its entries are like those so far.
    const size_t entries = CountEntries();
    const size_t charged = std::max<size_t>(1, charged_.load(std::memory_order_relaxed));
    hash->Reserve(std::max(entries, entries * std::min<size_t>(8 * block_bytes_ / charged, 64)));
    // Before entries leave the segments' ends for it: a lookup that no longer finds them there asks for it.
    hash_.store(hash, std::memory_order_release);
  }
  if (growth == Growth::kSmall && hash->keys() > kSmallHash) limit = std::min(limit, hash->KeysBeforeGrowth());
  const char* batch[kHashBatch];
  size_t count = 0;
  auto finish = [&] {
    hash->AddAll(batch, count);
    count = 0;
  };
  const size_t added = CatchUp(
      &Segment::hashed, &first_to_hash_, limit,
      [&](const char* entry) {
        batch[count++] = entry;
        if (count == kHashBatch) finish();
      },
      finish);
  if (added < limit) {
    unhashed_.store(0, std::memory_order_relaxed);
  } else {
    // Never below zero: it is a count by the thousand, which lags.
    uint64_t unhashed = unhashed_.load(std::memory_order_relaxed);
    while (!unhashed_.compare_exchange_weak(unhashed, unhashed - std::min<uint64_t>(unhashed, added),
                                            std::memory_order_relaxed)) {
    }
  }
  if (hash->MemoryBytes() != hash_charged_) {
    ChargeIndex(hash->MemoryBytes() - hash_charged_);
    hash_charged_ = hash->MemoryBytes();
  }
}

uint64_t SubMemTable::UnhashedEntries(uint64_t enough) const {
  uint64_t entries = 0;
  for (const Segment* segment = first_to_hash_.load(std::memory_order_acquire); segment != nullptr && entries < enough;
       segment = segment->hashed.next.load(std::memory_order_acquire)) {
    const uint64_t hashed = segment->hashed.entries.load(std::memory_order_acquire);
    entries += segment->Load().entries - hashed;
  }
  return entries;
}

// The newest versions of a key up to a tag. Sees every entry whose tag is not larger, that was published before the
// search and is not in the hash; may see such as have got there meanwhile.
class SubMemTable::Unhashed {
 public:
  // Collects the newest `most` of them.
  void Search(const SubMemTable& table, const EntryKey& key, uint64_t hash, size_t most) {
    key_ = key;
    mark_ = static_cast<uint16_t>(hash);
    most_ = most;
    count_ = at_ = 0;
    seen_ = 0;
    const Segment* const first = table.first_to_hash_.load(std::memory_order_acquire);
    // The segment where the wanted version most likely is: what it holds leaves out most of the others, if the key has
    // versions in all of them.
    const Segment* best = nullptr;
    uint64_t best_tag = 0;
    for (const Segment* segment = first; segment != nullptr;
         segment = segment->hashed.next.load(std::memory_order_acquire)) {
      const uint64_t tag = segment->marks->tags().smallest();
      if (tag > key.tag || tag < best_tag) continue;
      best = segment;
      best_tag = tag;
    }
    if (best != nullptr) SearchSegment(*best, table.layout_);
    for (const Segment* segment = first; segment != nullptr;
         segment = segment->hashed.next.load(std::memory_order_acquire)) {
      if (segment != best) SearchSegment(*segment, table.layout_);
    }
  }

  // Entries that had no hash.
  uint64_t seen() const { return seen_; }
  // There may be older ones than those collected.
  bool full() const { return count_ == most_; }

  bool Valid() const { return at_ < count_; }
  const char* entry() const { return found_[at_].entry; }
  uint64_t tag() const { return found_[at_].tag; }
  void Next() { ++at_; }

 private:
  static constexpr size_t kBlock = SegmentMarks::kBlockEntries;

  struct Found {
    uint64_t tag;
    const char* entry;
  };

  // Whether there may be wanted versions where tags are in this range.
  bool MayHold(const SegmentMarks::TagRange& tags) const {
    return tags.smallest() <= key_.tag && !(full() && tags.largest() < found_[count_ - 1].tag);
  }

  void SearchSegment(const Segment& segment, const SegmentLayout& layout) {
    const uint64_t from = segment.hashed.entries.load(std::memory_order_acquire);
    const uint64_t to = segment.Load().entries;
    if (from >= to) return;
    seen_ += to - from;
    if (!MayHold(segment.marks->tags())) return;
    const size_t first = from / kBlock;
    const size_t last = (to - 1) / kBlock;
    const auto search = [&](size_t block) {
      SearchBlock(segment, layout, block, block == first ? from % kBlock : 0,
                  block == last ? (to - 1) % kBlock + 1 : kBlock);
    };
    // The most likely block first, likewise.
    size_t best = last;
    uint64_t best_tag = 0;
    for (size_t block = first; last - first > 1 && block <= last; ++block) {
      const uint64_t tag = segment.marks->block(block).tags.smallest();
      if (tag > key_.tag || tag < best_tag) continue;
      best = block;
      best_tag = tag;
    }
    search(best);
    for (size_t block = last + 1; block-- > first;) {
      if (block != best) search(block);
    }
  }

  void SearchBlock(const Segment& segment, const SegmentLayout& layout, size_t number, size_t from, size_t to) {
    const SegmentMarks::Block& block = segment.marks->block(number);
    if (!MayHold(block.tags)) return;
    uint64_t matches = block.Matches(mark_, from, to);
    if (matches == 0) return;
    SegmentWalk walk(segment, layout, block.offset, block.offset + 1);
    const char* entry = walk.NextUnchecked();
    for (size_t at = 0; matches != 0; ++at, matches >>= 1, entry = walk.NextUnchecked()) {
      if ((matches & 1) == 0) continue;
      const EntryKey here = KeyOf(entry);
      if (here.tag <= key_.tag && here.user_key == key_.user_key) Add({here.tag, entry});
      if (matches == 1) break;
    }
  }

  void Add(const Found& found) {
    if (full() && found.tag < found_[count_ - 1].tag) return;
    size_t i = full() ? count_ - 1 : count_++;
    for (; i > 0 && found_[i - 1].tag < found.tag; --i) found_[i] = found_[i - 1];
    found_[i] = found;
  }

  EntryKey key_;
  uint16_t mark_ = 0;
  size_t most_ = 0;
  Found found_[kMostVersions];
  size_t count_ = 0;
  size_t at_ = 0;
  uint64_t seen_ = 0;
};

void SubMemTable::GetHashed(const rocksdb::LookupKey& key, void* argument, bool (*callback)(void*, const char*)) {
  EntryKey wanted = SplitInternalKey(key.internal_key());
  const uint64_t hash = HashOf(wanted.user_key);
  if (!looked_up_.load(std::memory_order_relaxed)) looked_up_.store(true, std::memory_order_relaxed);
  Unhashed fresh;
  HashIndex::Versions versions;
  const auto search = [&](size_t most) {
    fresh.Search(*this, wanted, hash, most);
    // After the search: what has left the segments' ends meanwhile is in the hash.
    const HashIndex* const index = hash_.load(std::memory_order_acquire);
    versions = index == nullptr ? HashIndex::Versions() : index->FindHashed(wanted, hash);
  };
  search(kFirstVersions);
  const uint64_t unhashed = fresh.seen();
  int searches = 1;
  bool more = true;
  while (more && (fresh.Valid() || versions.Valid())) {
    const char* entry = versions.Valid() ? versions.entry() : nullptr;
    const bool from_fresh = fresh.Valid() && (entry == nullptr || fresh.tag() >= KeyOf(entry).tag);
    if (from_fresh) {
      if (entry == fresh.entry()) versions.Next();
      entry = fresh.entry();
      fresh.Next();
    } else {
      versions.Next();
    }
    more = callback(argument, entry);
    if (!more || !from_fresh || fresh.Valid() || !fresh.full()) continue;
    wanted.tag = KeyOf(entry).tag - 1;
    if (++searches > kMostSearches) {
      // A lookup that wants so many versions is not one that a hot key slows down.
      if (read_only_.load(std::memory_order_acquire)) {
        std::string rest = wanted.user_key.ToString();
        rocksdb::PutFixed64(&rest, wanted.tag);
        return GetSorted(rest, argument, callback);
      }
      UpdateHash();
      searches = 0;
    }
    search(kMostVersions);
  }
  if (unhashed != 0) HelpAsReader(unhashed);
}

void SubMemTable::GetSorted(const rocksdb::Slice& internal_key, void* argument, bool (*callback)(void*, const char*)) {
  SubMemTableIterator iterator(this);
  iterator.Seek(internal_key, nullptr);
  while (iterator.Valid() && callback(argument, iterator.key())) iterator.Next();
}

void SubMemTable::Get(const rocksdb::LookupKey& key, void* argument, bool (*callback)(void*, const char*)) {
  if (!UsesHash() || run_is_better_.load(std::memory_order_acquire)) {
    return GetSorted(key.internal_key(), argument, callback);
  }
  GetHashed(key, argument, callback);
}

rocksdb::Status SubMemTable::GetChecked(const rocksdb::LookupKey& key, void* argument,
                                        bool (*callback)(void*, const char*), bool allow_data_in_errors,
                                        const port::CheckEntry& check) {
  SubMemTableIterator iterator(this);
  rocksdb::Status s = iterator.SeekChecked(key.internal_key(), nullptr, allow_data_in_errors, check);
  while (s.ok() && iterator.Valid() && callback(argument, iterator.key())) {
    s = iterator.NextAndValidate(allow_data_in_errors);
    if (s.ok() && iterator.Valid() && check != nullptr) s = check(iterator.key(), allow_data_in_errors);
  }
  return s;
}

bool SubMemTable::Contains(const char* entry) const {
  SubMemTableIterator iterator(this);
  const rocksdb::Slice internal_key = rocksdb::GetLengthPrefixedSlice(entry);
  iterator.Seek(internal_key, nullptr);
  return iterator.Valid() && rocksdb::GetLengthPrefixedSlice(iterator.key()) == internal_key;
}

std::shared_ptr<const RunSet> SubMemTable::SortedRuns() const {
  if (has_final_run_.load(std::memory_order_acquire)) return FinalRun();
  const MutexLock lock(&sort_mutex_);
  if (has_final_run_.load(std::memory_order_relaxed)) return runs_;
  if (read_only_.load(std::memory_order_acquire)) {
    runs_ = std::make_shared<RunSet>(1, SortAll());
    newest_runs_.store(runs_.get(), std::memory_order_release);
    has_final_run_.store(true, std::memory_order_release);
    run_is_better_.store(UnhashedEntries(kManyUnhashed + 1) > kManyUnhashed, std::memory_order_release);
    return runs_;
  }
  CatchUpRuns();
  return runs_;
}

RunView SubMemTable::SortedView() const {
  std::shared_ptr<const RunSet> runs = SortedRuns();
  const MutexLock lock(&sort_mutex_);
  if (has_final_run_.load(std::memory_order_relaxed)) return {runs_};
  const uint64_t newest_tag = newest_tag_;
  // Runs to which nothing has to be added are what was there at one moment, between the two looks at the segments.
  if (runs == runs_ && !RunsAreStale()) return {std::move(runs)};
  // An entry that had a part in the tag was published before this second look, and so was all that its writer knew of;
  // what was begun later has larger tags.
  CatchUpRuns();
  return {runs_, newest_tag};
}

void SubMemTable::CatchUpRuns() const {
  if (!RunsAreStale()) return;
  newest_runs_.store(nullptr, std::memory_order_release);
  while (SortSome()) {
  }
  newest_runs_.store(runs_.get(), std::memory_order_release);
}

bool SubMemTable::SortSome() const {
  // And some that come meanwhile.
  const size_t unsorted = CountUnsorted();
  const size_t room = unsorted + unsorted / 64 + 256;
  const Sorting sorting(this, room, room * SortedRun::kDenseBytes);
  SortItems items(room);
  uint64_t newest_tag = newest_tag_;
  const size_t added = CatchUp(
      &Segment::sorted, &first_to_sort_, room,
      [&](const char* entry) {
        const EntryKey key = KeyOf(entry);
        newest_tag = std::max(newest_tag, key.tag);
        items.Add({order_.Prefix(key.user_key), entry});
      },
      [] {});
  newest_tag_ = newest_tag;
  if (items.size() != 0) {
    AddRun(SortedRun::FromEntries(order_, &items, SortedRun::Prefixes::kDense,
                                  runs_->empty() ? nullptr : runs_->front().get()));
  }
  return added == room;
}

std::shared_ptr<const SortedRun> SubMemTable::SortAll() const {
  const size_t entries = CountEntries();
  const Sorting sorting(this, entries, 0);
  SortItems items(entries);
  const MutexLock lock(&segments_mutex_);
  for (const auto& segment : segments_) {
    SegmentWalk walk(*segment, layout_, layout_.header_bytes, segment->Load().tail);
    for (const char* entry = walk.Next(); entry != nullptr; entry = walk.Next()) {
      items.Add({order_.Prefix(KeyOf(entry).user_key), entry});
    }
  }
  return SortedRun::FromEntries(order_, &items, SortedRun::Prefixes::kSparse, nullptr);
}

// Runs shrink by kRunRatio or more from the first to the last, and have one depth.
void SubMemTable::AddRun(std::shared_ptr<const SortedRun> run) const {
  auto runs = std::make_shared<RunSet>(*runs_);
  for (auto& each : *runs) {
    if (each->depth() == run->depth()) continue;
    const PassingCharge both(arena_charge_.manager(), each->size() * SortedRun::kDenseBytes);
    each = SortedRun::WithDepth(order_, *each, run->depth());
  }
  while (!runs->empty() && runs->back()->size() < kRunRatio * run->size()) {
    const PassingCharge both(arena_charge_.manager(), (runs->back()->size() + run->size()) * SortedRun::kDenseBytes);
    run = SortedRun::Merge(order_, *runs->back(), *run);
    runs->pop_back();
  }
  runs->push_back(std::move(run));
  size_t bytes = 0;
  for (const auto& each : *runs) bytes += each->MemoryBytes();
  if (bytes > runs_charged_) {
    ChargeIndex(bytes - runs_charged_);
    runs_charged_ = bytes;
  }
  runs_ = std::move(runs);
}

uint64_t SubMemTable::ApproximateNumEntries(const rocksdb::Slice& start, const rocksdb::Slice& end) {
  uint64_t entries = 0;
  const std::shared_ptr<const RunSet> runs = SortedRuns();
  for (const auto& run : *runs) {
    const size_t from = run->LowerBound(order_, start);
    const size_t to = run->LowerBound(order_, end);
    entries += to > from ? to - from : 0;
  }
  return entries;
}

void SubMemTable::UniqueRandomSample(uint64_t /*num_entries*/, uint64_t target_sample_size,
                                     std::unordered_set<const char*>* entries) {
  const std::shared_ptr<const RunSet> runs = SortedRuns();
  std::mt19937_64 random(owner_.memtable);
  uint64_t left = 0;
  for (const auto& run : *runs) left += run->size();
  // Selection sampling: each entry with the chance that what is wanted bears to what is left (Knuth, 3.4.2, S).
  for (const auto& run : *runs) {
    for (size_t i = 0; i < run->size() && target_sample_size > 0; ++i, --left) {
      if (random() % left < target_sample_size) {
        entries->insert(run->entry(i));
        --target_sample_size;
      }
    }
  }
}

rocksdb::MemTableRep::Iterator* SubMemTable::GetIterator(rocksdb::Arena* arena) {
  FlushScope* const flush = FlushScope::Innermost();
  if (flush != nullptr) flush->Note(pool_->backing()->BeforeFlush());
  if (arena == nullptr) return new SubMemTableIterator(this);
  return new (arena->AllocateAligned(sizeof(SubMemTableIterator))) SubMemTableIterator(this);
}

}  // namespace cairn
