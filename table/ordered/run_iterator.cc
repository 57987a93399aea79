#include "table/ordered/run_iterator.h"

#include <algorithm>
#include <array>
#include <cstring>
#include <optional>
#include <string>

#include "rocksdb/comparator.h"
#include "rocksdb/port/column_family.h"
#include "rocksdb/port/read_sample.h"
#include "table/perf_counts.h"
#include "util/prefetch.h"
#include "util/rocksdb_names.h"

namespace cairn {

using rocksdb::InternalIterator;
using rocksdb::IterBoundCheck;

namespace {

constexpr int kPublishSeeks = 256;
// Order filters that are asked together: about as many as a processor's loads that wait for memory at once.
constexpr size_t kAskedAtOnce = 16;

// The first bytes of a key as a number that compares as they do; a shorter key's are followed by zeros.
uint64_t WindowOf(const Slice& key) {
  uint64_t window = 0;
  memcpy(&window, key.data(), std::min(key.size(), sizeof(window)));
  return __builtin_bswap64(window);
}

int Compare(uint64_t a_window, const Slice& a, uint64_t b_window, const Slice& b) {
  if (a_window != b_window) return a_window < b_window ? -1 : 1;
  return a.compare(b);
}

// The least key above another.
void AssignBehind(const Slice& user_key, KeyBuffer* key) {
  key->Assign(user_key);
  key->Replace(user_key.size(), "", 1);
}

template <typename T>
T* ArrayIn(rocksdb::Arena* arena, size_t count) {
  return reinterpret_cast<T*>(arena->AllocateAligned(count * sizeof(T)));
}

}  // namespace

bool RunIterator::Serves(const rocksdb::ReadOptions& read_options, const rocksdb::Comparator* comparator,
                         const rocksdb::SliceTransform* prefix_extractor, bool allow_unprepared_value) {
  if (!MayDefer(read_options, comparator, rocksdb::TableReaderCaller::kUserIterator, allow_unprepared_value)) {
    return false;
  }
  // What is read ahead, or only from the caches, is for iterators that have their own way with each block; filters for
  // prefixes and of tables decide by themselves what is to be seen. Who counts by level wants RocksDB's answers.
  if (read_options.read_tier != rocksdb::kReadAllTier || read_options.async_io || read_options.readahead_size != 0 ||
      read_options.table_filter || PerfContextCountsByLevel()) {
    return false;
  }
  return prefix_extractor == nullptr || (read_options.total_order_seek && !read_options.prefix_same_as_start);
}

RunIterator::RunIterator(const rocksdb::ReadOptions* read_options, const Family& family,
                         rocksdb::SequenceNumber sequence, rocksdb::Arena* arena, const Tables* runs, size_t count)
    : read_options_(read_options),
      family_(family),
      arena_(arena),
      runs_(ArrayIn<Run>(arena, count)),
      count_(count),
      heap_(ArrayIn<Placed>(arena, count)),
      pending_(ArrayIn<uint8_t>(arena, count)),
      deletions_up_to_(sequence) {
  for (size_t i = 0; i < count; ++i) (new (&runs_[i]) Run())->tables = runs[i];
}

RunIterator::~RunIterator() {
  for (size_t i = 0; i < count_; ++i) {
    if (runs_[i].scan != nullptr) runs_[i].scan->~OrderedIterator();
    runs_[i].~Run();
  }
  Publish();
  if (own_ != nullptr) own_->~InternalIterator();
}

void RunIterator::Publish() {
  if (seeks_ != nullptr) seeks_->Add(stats_);
  stats_ = OrderedSeekStats();
  unpublished_ = 0;
}

// Starts a seek: no run is anywhere.
void RunIterator::Begin(bool back) {
  if (++unpublished_ >= kPublishSeeks) Publish();
  for (size_t i = 0; i < count_; ++i) {
    if (runs_[i].scan != nullptr) runs_[i].scan->Begin();
  }
  heap_size_ = pending_count_ = 0;
  elsewhere_ = false;
  back_ = back;
  at_ = At::kNowhere;
  status_ = Status::OK();
}

// The table that target_ lies in, or the first one behind it.
size_t RunIterator::FirstFile(const Run& run) const {
  const Slice target = target_.slice(), user_key = rocksdb::ExtractUserKey(target);
  const uint64_t tag = rocksdb::ExtractInternalKeyFooter(target);
  size_t low = 0;
  for (size_t high = run.tables.count; low < high;) {
    const size_t middle = (low + high) / 2;
    const Slice largest = run.tables.files[middle].largest_key, largest_user = rocksdb::ExtractUserKey(largest);
    const int order = Compare(WindowOf(largest_user), largest_user, target_window_, user_key);
    if (order < 0 || (order == 0 && rocksdb::ExtractInternalKeyFooter(largest) > tag)) {
      low = middle + 1;
    } else {
      high = middle;
    }
  }
  return low;
}

// The table that target_ lies in, or the last one before it; tables.count if there is none.
size_t RunIterator::LastFile(const Run& run) const {
  const Slice target = target_.slice(), user_key = rocksdb::ExtractUserKey(target);
  const uint64_t tag = rocksdb::ExtractInternalKeyFooter(target);
  size_t low = 0;
  for (size_t high = run.tables.count; low < high;) {
    const size_t middle = (low + high) / 2;
    const Slice smallest = run.tables.files[middle].smallest_key, smallest_user = rocksdb::ExtractUserKey(smallest);
    const int order = Compare(WindowOf(smallest_user), smallest_user, target_window_, user_key);
    if (order < 0 || (order == 0 && rocksdb::ExtractInternalKeyFooter(smallest) >= tag)) {
      low = middle + 1;
    } else {
      high = middle;
    }
  }
  return low == 0 ? run.tables.count : low - 1;
}

// Whether target_ lies before the first user key of the run's table or, on the way back, behind the last one.
bool RunIterator::IsBetweenFiles(const Run& run) const {
  const rocksdb::FdWithKeyRange& file = run.tables.files[run.file];
  const Slice edge = rocksdb::ExtractUserKey(back_ ? file.largest_key : file.smallest_key);
  const int order = Compare(target_window_, rocksdb::ExtractUserKey(target_.slice()), WindowOf(edge), edge);
  return back_ ? order > 0 : order < 0;
}

// Finds the table's reader; false if there is none that serves.
bool RunIterator::Open(Run* run) const {
  const rocksdb::FdWithKeyRange& file = run->tables.files[run->file];
  run->table = OrderedTableProbe::Of(port::PinnedReaderOf(file.fd));
  if (run->table == nullptr || !run->table->has_entries_only()) return false;
  if (family_.sampled) port::SampleRead(file.file_metadata, port::ReadFound::kValue);
  return true;
}

// A table's iterator is made where the run's one before was: there is one at a time, but for those that are pinned.
OrderedIterator* RunIterator::Scan(Run* run) {
  if (run->scan != nullptr && run->scan_file == run->file) return run->scan;
  rocksdb::ReadaheadFileInfo readahead;
  const bool follows = run->scan != nullptr && run->scan_file + 1 == run->file;
  if (follows) run->scan->GetReadaheadState(&readahead);
  EndScan(run);
  if (run->place == nullptr) run->place = arena_->AllocateAligned(sizeof(OrderedIterator));
  run->scan = run->table->NewScan(*read_options_, family_.prefix_extractor, run->place);
  run->scan_file = run->file;
  if (pinned_ != nullptr) run->scan->SetPinnedItersMgr(pinned_);
  if (follows) run->scan->SetReadaheadState(&readahead);
  return run->scan;
}

void RunIterator::EndScan(Run* run) {
  if (run->scan == nullptr) return;
  if (pinned_ != nullptr && pinned_->PinningEnabled()) {
    pinned_->PinIterator(run->scan, /*arena=*/true);
    run->place = nullptr;
  } else {
    run->scan->~OrderedIterator();
  }
  run->scan = nullptr;
}

// Takes over where the scan has come to.
RunIterator::Went RunIterator::ToEntry(Run* run) {
  OrderedIterator* const scan = run->scan;
  if (scan->Valid()) {
    const Slice key = scan->key();
    run->is_entry = true;
    run->user_key = rocksdb::ExtractUserKey(key);
    run->tag = rocksdb::ExtractInternalKeyFooter(key);
    run->window = WindowOf(run->user_key);
    return Went::kOn;
  }
  const Status s = scan->status();
  if (!s.ok()) {
    status_ = s;
    return Went::kElsewhere;
  }
  const bool out_of_bound = !back_ && scan->UpperBoundCheckResult() == IterBoundCheck::kOutOfBound;
  return out_of_bound ? Went::kPastBound : ToNextFile(run);
}

// Whether nobody asks for what lies behind a placeholder of this key, or before it.
bool RunIterator::IsPastBound(const Slice& user_key) const {
  const Slice* const bound = back_ ? read_options_->iterate_lower_bound : read_options_->iterate_upper_bound;
  if (bound == nullptr) return false;
  return back_ ? user_key.compare(*bound) <= 0 : user_key.compare(*bound) >= 0;
}

// `user_key` stays as long as the run is there.
RunIterator::Went RunIterator::ToBound(Run* run, const Slice& user_key) {
  if (IsPastBound(user_key)) return Went::kPastBound;
  // By (1). A bound before the target is at or below its user key.
  if (back_ && rocksdb::ExtractInternalKeyFooter(target_.slice()) > kPlaceholderTag &&
      user_key == rocksdb::ExtractUserKey(target_.slice())) {
    return ReadBound(run);
  }
  run->is_entry = false;
  run->user_key = user_key;
  run->tag = kPlaceholderTag;
  run->window = WindowOf(user_key);
  return Went::kOn;
}

// To where steps come to the run's table.
RunIterator::Went RunIterator::ToEdge(Run* run) {
  const rocksdb::FdWithKeyRange& file = run->tables.files[run->file];
  run->at_edge = true;
  if (!back_) return ToBound(run, rocksdb::ExtractUserKey(file.smallest_key));
  AssignBehind(rocksdb::ExtractUserKey(file.largest_key), &run->bound);
  return ToBound(run, run->bound.slice());
}

// The run's table is through.
RunIterator::Went RunIterator::ToNextFile(Run* run) {
  const size_t from = run->file;
  if (from == (back_ ? 0 : run->tables.count - 1)) return Went::kEnded;
  run->file = back_ ? from - 1 : from + 1;
  // A table may end with a newer entry of the key that the one behind begins with, and a placeholder between them would
  // sort before that, or behind this one.
  const rocksdb::FdWithKeyRange* const lower = &run->tables.files[std::min(from, run->file)];
  if (rocksdb::ExtractUserKey(lower[0].largest_key) != rocksdb::ExtractUserKey(lower[1].smallest_key)) {
    return ToEdge(run);
  }
  run->at_edge = true;
  return ReadBound(run);
}

RunIterator::Went RunIterator::ReadAt(Run* run, OrderedIterator::ReadFor read) {
  if (back_) {
    Scan(run)->ReadBefore(target_.slice(), read);
  } else {
    Scan(run)->ReadAt(target_.slice(), read);
  }
  return ToEntry(run);
}

RunIterator::Went RunIterator::ReadBound(Run* run) {
  if (!run->at_edge) return ReadAt(run, OrderedIterator::ReadFor::kResolved);
  if (!Open(run)) return Went::kElsewhere;
  // All of the table lies before the target of a step back.
  if (back_) return ReadAt(run, OrderedIterator::ReadFor::kResolved);
  Scan(run)->ReadFirst();
  return ToEntry(run);
}

// What a run came to at a seek without reading.
void RunIterator::CountDeferred(Went went) {
  ++(went == Went::kOn ? stats_.deferred : went == Went::kPastBound ? stats_.past_bound : stats_.past_end);
}

// What the order filter says of the target, which may be in the table.
RunIterator::Went RunIterator::AskOrder(Run* run) {
  std::optional<OrderAnswer> answer;
  if (const Cached<OrderFilter> filter = run->table->Order(*read_options_)) {
    const Slice user_key = rocksdb::ExtractUserKey(target_.slice());
    std::string* const bound = BoundScratch();
    answer = back_ ? filter->FindBefore(user_key.data(), user_key.size(), bound)
                   : filter->Find(user_key.data(), user_key.size(), bound);
    if (*answer == OrderAnswer::kBound) run->bound.Assign(*bound);
  }
  if (!answer.has_value()) return ReadAt(run, OrderedIterator::ReadFor::kUnfiltered);
  const Went went = GoTo(run, *answer, OrderedIterator::ReadFor::kDirect);
  if (*answer != OrderAnswer::kHere && (went != Went::kOn || !run->is_entry)) CountDeferred(went);
  return went;
}

// Where an order filter's answer leads; a bound is in run->bound. REQUIRES: no filter is held, whose place in the cache
// a block that is read may need.
RunIterator::Went RunIterator::GoTo(Run* run, OrderAnswer answer, OrderedIterator::ReadFor read) {
  switch (answer) {
    case OrderAnswer::kHere:
      return ReadAt(run, read);
    case OrderAnswer::kNone:
      return ToNextFile(run);
    case OrderAnswer::kBound:
      return ToBound(run, run->bound.slice());
  }
  return Went::kElsewhere;
}

// What the order filters of some runs say of the target. REQUIRES: count <= kAskedAtOnce.
void RunIterator::AskTogether(const uint8_t* runs, size_t count, OrderAnswer* answers) {
  const Slice user_key = rocksdb::ExtractUserKey(target_.slice());
  std::array<std::optional<Cached<OrderFilter>>, kAskedAtOnce> filters;
  std::array<OrderSearch, kAskedAtOnce> searches;
  for (size_t i = 0; i < count; ++i) {
    filters[i].emplace(runs_[runs[i]].table->Order(*read_options_));
    searches[i].Begin(filters[i]->get(), user_key.data(), user_key.size());
  }
  OrderSearch::Advance(searches.data(), count);
  const OrderSide side = back_ ? OrderSide::kBefore : OrderSide::kBehind;
  std::string* const bound = BoundScratch();
  for (size_t i = 0; i < count; ++i) {
    answers[i] = searches[i].Answer(side, bound);
    if (answers[i] == OrderAnswer::kBound) runs_[runs[i]].bound.Assign(*bound);
  }
}

// Where all pending runs go on, in none of whose tables the target is.
void RunIterator::AskPending() {
  const size_t pending = pending_count_;
  pending_count_ = 0;
  for (size_t begin = 0; begin < pending; begin += kAskedAtOnce) {
    const uint8_t* const runs = pending_ + begin;
    const size_t count = std::min(pending - begin, kAskedAtOnce);
    std::array<OrderAnswer, kAskedAtOnce> answers;
    AskTogether(runs, count, answers.data());
    for (size_t i = 0; i < count; ++i) {
      Run* const run = &runs_[runs[i]];
      Took(run, GoTo(run, answers[i], OrderedIterator::ReadFor::kResolved));
    }
  }
}

bool RunIterator::BloomSaysMaybe(const Run& run, uint64_t hash) const {
  if (run.line == nullptr) return run.table->PointFilterSaysMaybe(*read_options_, target_.slice());
  const bool maybe = run.table->bloom().MayHold(hash, run.line);
  if (maybe) {
    PERF_COUNTER_ADD(bloom_sst_hit_count, 1);
  } else {
    PERF_COUNTER_ADD(bloom_sst_miss_count, 1);
  }
  return maybe;
}

// A table that may have the target. Where a Bloom filter says so, it nearly always has, and a block in memory tells
// more than the order filter.
RunIterator::Went RunIterator::SeekTable(Run* run) {
  if (run->line != nullptr && Scan(run)->ReadInMemory(target_.slice(), back_)) return ToEntry(run);
  return AskOrder(run);
}

bool RunIterator::IsBefore(const Placed& a, const Placed& b) const {
  const int order = Compare(a.window, a.run->user_key, b.window, b.run->user_key);
  if (order != 0) return (order < 0) != back_;
  return back_ ? a.run->tag < b.run->tag : a.run->tag > b.run->tag;
}

void RunIterator::Push(Run* run) {
  const Placed placed{run->window, run};
  size_t at = heap_size_++;
  for (; at > 0 && IsBefore(placed, heap_[(at - 1) / 2]); at = (at - 1) / 2) heap_[at] = heap_[(at - 1) / 2];
  heap_[at] = placed;
}

// The first run of the heap has moved.
void RunIterator::SiftDown() {
  const Placed placed{first()->window, first()};
  size_t at = 0;
  for (size_t child = 1; child < heap_size_; child = 2 * at + 1) {
    if (child + 1 < heap_size_ && IsBefore(heap_[child + 1], heap_[child])) ++child;
    if (!IsBefore(heap_[child], placed)) break;
    heap_[at] = heap_[child];
    at = child;
  }
  heap_[at] = placed;
}

void RunIterator::Pop() {
  heap_[0] = heap_[--heap_size_];
  if (heap_size_ > 0) SiftDown();
}

// Of a run that is not in the heap.
void RunIterator::Took(Run* run, Went went) {
  if (went == Went::kOn) Push(run);
  elsewhere_ |= went == Went::kElsewhere;
}

// Of the first run of the heap.
void RunIterator::TookFirst(Went went) {
  if (went == Went::kOn) {
    SiftDown();
  } else {
    Pop();
  }
  elsewhere_ |= went == Went::kElsewhere;
}

// Shows what comes first, or goes on where RocksDB's iterator finds the key.
void RunIterator::Settle(const Slice& otherwise) {
  if (elsewhere_ && status_.ok()) return SeekOwn(otherwise);
  if (elsewhere_) {
    at_ = At::kNowhere;
  } else if (pending_count_ == 0 || !ShowPending()) {
    ShowFirst();
  }
}

void RunIterator::Seek(const Slice& target) {
  Begin(false);
  target_.Assign(target);
  SeekRuns();
}

// Finds each run's table for target_. Those that it lies in are opened and wait: in pending_, as many as it answers;
// then the lines of their Bloom filters come. The others go to a bound. All is in vain if elsewhere_ is set.
size_t RunIterator::OpenRuns(uint64_t hash) {
  for (size_t i = 0; i < count_; ++i) {
    Run* const run = &runs_[i];
    run->file = back_ ? LastFile(*run) : FirstFile(*run);
    if (run->file == run->tables.count) continue;
    const void* const reader = port::PinnedReaderOf(run->tables.files[run->file].fd);
    if (reader != nullptr) Prefetch(reader, sizeof(OrderedTableProbe));
  }
  size_t in_table = 0;
  for (size_t i = 0; i < count_; ++i) {
    Run* const run = &runs_[i];
    if (run->file == run->tables.count) {
      ++stats_.past_end;
      continue;
    }
    if (IsBetweenFiles(*run)) {
      const Went went = ToEdge(run);
      CountDeferred(went);
      Took(run, went);
      continue;
    }
    if (!Open(run)) {
      elsewhere_ = true;
      return 0;
    }
    run->at_edge = false;
    run->line = nullptr;
    if (run->table->bloom().exist()) {
      run->line = run->table->bloom().LineOf(hash);
      run->table->bloom().Prefetch(run->line);
    }
    pending_[in_table++] = static_cast<uint8_t>(i);
  }
  return in_table;
}

// To the first entry at or behind target_ or, on the way back, the last one at or before it.
void RunIterator::SeekRuns() {
  if (scans_prepared_ || (back_ && !family_.may_defer_back)) return SeekOwn(target_.slice());
  const Slice user_key = rocksdb::ExtractUserKey(target_.slice());
  target_window_ = WindowOf(user_key);
  const uint64_t hash = BloomLines::HashOf(user_key);
  const size_t in_table = OpenRuns(hash);
  if (elsewhere_) return Settle(target_.slice());
  if (in_table > 0) seeks_ = runs_[pending_[0]].table->seeks();
  // By (1). An empty key may not be in a filter.
  const bool may_wait =
      !user_key.empty() && (!back_ || rocksdb::ExtractInternalKeyFooter(target_.slice()) <= kPlaceholderTag);
  for (size_t i = 0; i < in_table; ++i) {
    Run* const run = &runs_[pending_[i]];
    if (!back_ && run->scan != nullptr && run->scan_file == run->file && run->scan->HasAtHand(target_.slice())) {
      Took(run, ReadAt(run, OrderedIterator::ReadFor::kAtHand));
    } else if (may_wait && !BloomSaysMaybe(*run, hash)) {
      ++stats_.deferred;
      pending_[pending_count_++] = pending_[i];
    } else {
      Took(run, SeekTable(run));
    }
  }
  Settle(target_.slice());
}

// The placeholder of the runs that have nothing at the target; false: an entry of the target comes first, or none of
// them goes on within the bounds.
bool RunIterator::ShowPending() {
  const Slice user_key = rocksdb::ExtractUserKey(target_.slice());
  if (heap_size_ > 0 && first()->is_entry && first()->user_key == user_key) return false;
  if (back_) {
    placeholder_.Assign(user_key);
  } else {
    AssignBehind(user_key, &placeholder_);
  }
  if (IsPastBound(placeholder_.slice())) {
    stats_.deferred -= pending_count_;
    stats_.past_bound += pending_count_;
    pending_count_ = 0;
    return false;
  }
  ShowPlaceholder(At::kPending);
  return true;
}

void RunIterator::ShowFirst() {
  if (heap_size_ == 0) {
    at_ = At::kNowhere;
  } else if (first()->is_entry) {
    at_ = At::kEntry;
    key_ = first()->scan->key();
  } else {
    placeholder_.Assign(first()->user_key);
    ShowPlaceholder(At::kBound);
  }
}

// Of the user key that placeholder_ holds.
void RunIterator::ShowPlaceholder(At at) {
  char tag[rocksdb::kNumInternalBytes];
  rocksdb::EncodeFixed64(tag, kPlaceholderTag);
  placeholder_.Replace(placeholder_.size(), tag, sizeof(tag));
  key_ = placeholder_.slice();
  at_ = at;
}

void RunIterator::SeekToFirst() {
  Begin(false);
  if (scans_prepared_) {
    at_ = At::kOwn;
    Own()->SeekToFirst();
    return;
  }
  target_.Assign(Slice());
  for (size_t i = 0; i < count_; ++i) {
    runs_[i].file = 0;
    const Went went = ToEdge(&runs_[i]);
    CountDeferred(went);
    Took(&runs_[i], went);
  }
  Settle(Slice());
}

void RunIterator::SeekForPrev(const Slice& target) {
  Begin(true);
  target_.Assign(target);
  SeekRuns();
}

// As SeekForPrev, from behind the last key of all.
void RunIterator::SeekToLast() {
  Slice last;
  for (size_t i = 0; i < count_; ++i) {
    const Slice largest = rocksdb::ExtractUserKey(runs_[i].tables.files[runs_[i].tables.count - 1].largest_key);
    if (largest.compare(last) > 0) last = largest;
  }
  Begin(true);
  AssignBehind(last, &target_);
  const char oldest[rocksdb::kNumInternalBytes] = {};
  target_.Replace(target_.size(), oldest, sizeof(oldest));
  SeekRuns();
}

void RunIterator::Next() {
  if (at_ == At::kOwn) return own_->Next();
  if (back_) return Turn();
  Step();
}

void RunIterator::Prev() {
  if (at_ == At::kOwn) return own_->Prev();
  if (!back_) return Turn();
  Step();
}

// Goes the other way.
void RunIterator::Turn() {
  target_.Assign(key_);
  Begin(!back_);
  SeekRuns();
  if (!Valid() || key() != target_.slice()) return;
  if (back_) {
    Prev();
  } else {
    Next();
  }
}

void RunIterator::Step() {
  switch (at_) {
    case At::kEntry:
      return StepOfEntry();
    case At::kPending:
      AskPending();
      break;
    default:
      TookFirst(ReadBound(first()));
  }
  // By (1).
  const Slice shown = rocksdb::ExtractUserKey(placeholder_.slice());
  while (!elsewhere_ && heap_size_ > 0 && !first()->is_entry && first()->user_key == shown) {
    TookFirst(ReadBound(first()));
  }
  Settle(placeholder_.slice());
}

void RunIterator::StepOfEntry() {
  Run* const run = first();
  const rocksdb::FdWithKeyRange& file = run->tables.files[run->file];
  const Slice last = back_ ? file.smallest_key : file.largest_key;
  if (back_) {
    run->scan->Prev();
  } else {
    run->scan->Next();
  }
  TookFirst(ToEntry(run));
  Settle(last);
  // The next table begins with the user key that this one has ended with.
  if (at_ != At::kOwn || !own_->Valid() || own_->key() != last) return;
  if (back_) {
    own_->Prev();
  } else {
    own_->Next();
  }
}

bool RunIterator::NextAndGetResult(rocksdb::IterateResult* result) {
  if (at_ == At::kOwn) return own_->NextAndGetResult(result);
  Next();
  if (!Valid()) return false;
  result->key = key();
  result->bound_check_result = UpperBoundCheckResult();
  result->value_prepared = at_ == At::kEntry && first()->scan->is_prepared();
  return true;
}

Slice RunIterator::value() const {
  if (at_ == At::kOwn) return own_->value();
  return at_ == At::kEntry ? first()->scan->value() : Slice();
}

uint64_t RunIterator::write_unix_time() const {
  if (at_ == At::kOwn) return own_->write_unix_time();
  return at_ == At::kEntry ? first()->scan->write_unix_time() : InternalIterator::write_unix_time();
}

bool RunIterator::PrepareValue() {
  if (at_ == At::kOwn) return own_->PrepareValue();
  if (at_ != At::kEntry) return true;
  OrderedIterator* const scan = first()->scan;
  if (scan->PrepareValue()) {
    key_ = scan->key();
    first()->user_key = rocksdb::ExtractUserKey(key_);
    return true;
  }
  status_ = scan->status();
  at_ = At::kNowhere;
  return false;
}

IterBoundCheck RunIterator::UpperBoundCheckResult() {
  if (at_ == At::kOwn) return own_->UpperBoundCheckResult();
  return at_ == At::kEntry ? first()->scan->UpperBoundCheckResult() : IterBoundCheck::kUnknown;
}

bool RunIterator::IsValuePinned() const {
  if (at_ == At::kOwn) return own_->IsValuePinned();
  return at_ == At::kEntry && first()->scan->IsValuePinned();
}

void RunIterator::SetPinnedItersMgr(rocksdb::PinnedIteratorsManager* manager) {
  pinned_ = manager;
  for (size_t i = 0; i < count_; ++i) {
    if (runs_[i].scan != nullptr) runs_[i].scan->SetPinnedItersMgr(manager);
  }
  if (own_ != nullptr) own_->SetPinnedItersMgr(manager);
}

void RunIterator::SetRangeDelReadSeqno(rocksdb::SequenceNumber sequence) {
  deletions_up_to_ = sequence;
  if (own_ != nullptr) own_->SetRangeDelReadSeqno(sequence);
}

void RunIterator::PrepareFor(const port::ScanRanges* ranges) {
  scans_prepared_ = ranges != nullptr;
  if (!scans_prepared_ && own_ == nullptr) return;
  port::PrepareScans(Own(), ranges);
}

InternalIterator* RunIterator::Own() {
  if (own_ != nullptr) return own_;
  own_arena_ = std::make_unique<rocksdb::Arena>();
  own_options_.emplace(*read_options_);
  own_options_->snapshot = nullptr;
  own_ = NewOwn(*own_options_, deletions_up_to_, own_arena_.get());
  if (pinned_ != nullptr) own_->SetPinnedItersMgr(pinned_);
  own_->SetRangeDelReadSeqno(deletions_up_to_);
  return own_;
}

// `target` may lie in this iterator.
void RunIterator::SeekOwn(const Slice& target) {
  status_ = Status::OK();
  at_ = At::kOwn;
  if (back_) {
    Own()->SeekForPrev(target);
  } else {
    Own()->Seek(target);
  }
}

}  // namespace cairn
