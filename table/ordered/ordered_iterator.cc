#include "table/ordered/ordered_iterator.h"

#include "memory/arena.h"
#include "rocksdb/comparator.h"
#include "rocksdb/options.h"
#include "table/table_reader.h"
#include "util/of_thread.h"
#include "util/rocksdb_names.h"

namespace cairn {

using rocksdb::InternalIterator;
using rocksdb::IterBoundCheck;

namespace {

constexpr int kPublishEvery = 256;

}  // namespace

std::string* BoundScratch() {
  struct Bound {
    std::string bytes;
  };
  return &OfThread<Bound>::Get()->bytes;
}

bool MayDefer(const rocksdb::ReadOptions& read_options, const rocksdb::Comparator* comparator,
              rocksdb::TableReaderCaller caller, bool allow_unprepared_value) {
  // Who does not pass over invisible entries asks for prepared values: compaction, ingestion, GetAllKeyVersions.
  if (caller != rocksdb::TableReaderCaller::kUserIterator || !allow_unprepared_value) return false;
  // Made-up keys mean something to this order only, and have no timestamp.
  if (comparator != rocksdb::BytewiseComparator()) return false;
  if (read_options.timestamp != nullptr || read_options.iter_start_ts != nullptr) return false;
  // A tailing iterator keeps its place by the keys it sees; a pinned one hands out their memory; and DBIter counts what
  // it skips before it looks whether that is visible.
  return !read_options.tailing && !read_options.pin_data && read_options.max_skippable_internal_keys == 0;
}

OrderedIterator::~OrderedIterator() {
  Begin();
  Publish();
  if (inner_ == nullptr) return;
  if (table_.arena != nullptr) {
    inner_->~InternalIterator();
  } else {
    delete inner_;
  }
}

rocksdb::InternalIterator* OrderedIterator::Inner() {
  if (inner_ != nullptr) return inner_;
  inner_ =
      table_.reader->NewIterator(*table_.read_options, table_.prefix_extractor, table_.arena, table_.skip_filters,
                                 rocksdb::TableReaderCaller::kUserIterator, table_.compaction_readahead_size, true);
  if (pinned_ != nullptr) inner_->SetPinnedItersMgr(pinned_);
  return inner_;
}

// Counts what the seek before came to.
void OrderedIterator::Begin() {
  stats_.resolved_unused += read_ == ReadFor::kResolved ? 1 : 0;
  stats_.direct_unused += read_ == ReadFor::kDirect ? 1 : 0;
  read_ = ReadFor::kUsed;
}

void OrderedIterator::Publish() {
  seeks_->Add(stats_);
  if (table_.scans != nullptr) table_.scans->Add(stats_.resolved + stats_.direct + stats_.unfiltered + backward_);
  stats_ = OrderedSeekStats();
  backward_ = 0;
  unpublished_ = 0;
}

// Takes over what the cursor came to; false if RocksDB's iterator must go there.
bool OrderedIterator::Moved(BlockCursor::Result result) {
  switch (result) {
    case BlockCursor::Result::kHere:
      state_ = State::kCursor;
      return true;
    case BlockCursor::Result::kEnd:
      state_ = State::kPastEnd;
      return true;
    case BlockCursor::Result::kOutOfBound:
      state_ = State::kPastBound;
      return true;
    case BlockCursor::Result::kElsewhere:
      break;
  }
  state_ = State::kTable;
  return false;
}

void OrderedIterator::Read(const Slice& target) {
  if (has_cursor_ && Moved(cursor_.Seek(target))) return;
  state_ = State::kTable;
  Inner()->Seek(target);
}

void OrderedIterator::ToFirst() {
  if (has_cursor_ && !scans_prepared_ && Moved(cursor_.SeekToFirst())) return;
  state_ = State::kTable;
  Inner()->SeekToFirst();
}

void OrderedIterator::BeginRead(ReadFor read) {
  if (++unpublished_ >= kPublishEvery) Publish();
  Begin();
  ++(read == ReadFor::kResolved ? stats_.resolved : read == ReadFor::kUnfiltered ? stats_.unfiltered : stats_.direct);
  read_ = read;
}

void OrderedIterator::ReadAt(const Slice& target, ReadFor read) {
  BeginRead(read);
  Read(target);
}

void OrderedIterator::ReadBefore(const Slice& target, ReadFor read) {
  BeginRead(read);
  ReadBack(target);
}

void OrderedIterator::ReadBack(const Slice& target) {
  if (has_cursor_ && !scans_prepared_ && Moved(cursor_.SeekForPrev(target))) return;
  state_ = State::kTable;
  Inner()->SeekForPrev(target);
}

void OrderedIterator::ReadFirst() {
  Begin();
  ++stats_.resolved;
  read_ = ReadFor::kResolved;
  ToFirst();
}

bool OrderedIterator::ReadInMemory(const Slice& target, bool back) {
  if (++unpublished_ >= kPublishEvery) Publish();
  Begin();
  if (!has_cursor_) return false;
  constexpr auto kLeave = BlockCursor::Miss::kLeave;
  if (!Moved(back ? cursor_.SeekForPrev(target, kLeave) : cursor_.Seek(target, kLeave))) return false;
  ++stats_.direct;
  read_ = ReadFor::kDirect;
  return true;
}

// With async_io the first call only asks for the block.
void OrderedIterator::SeekInner(const Slice& target) {
  state_ = State::kTable;
  Inner()->Seek(target);
  if (inner_->status().IsTryAgain()) inner_->Seek(target);
}

// Whether the target is what this iterator has stood at without reading. DBIter seeks it where many tables show the
// same; another bound would bring it a byte further, and all of them would have to be sought again.
bool OrderedIterator::WasShown(const Slice& user_key) const {
  const Slice shown = placeholder_.slice();
  return shown.size() >= rocksdb::kNumInternalBytes && rocksdb::ExtractUserKey(shown) == user_key;
}

// Whether `at` lies at or behind the target of the seek before, in the order of internal keys.
bool OrderedIterator::IsBehindTarget(const Slice& at) const {
  const Slice before = target_.slice();
  const int order = rocksdb::ExtractUserKey(at).compare(rocksdb::ExtractUserKey(before));
  return order > 0 ||
         (order == 0 && rocksdb::ExtractInternalKeyFooter(at) <= rocksdb::ExtractInternalKeyFooter(before));
}

// Where the seek before has read and nobody has moved since: what the table holds at the target is known, or will be
// read. A bound made up here would bring DBIter, which seeks a bit further where it has passed over too much, from one
// table's bound to the next table's, and none of them would ever stay read.
bool OrderedIterator::HasReadFor(const Slice& target) {
  if (read_ == ReadFor::kUsed || (state_ != State::kTable && state_ != State::kCursor)) return false;
  if (!IsBehindTarget(target)) return false;
  if (!Valid()) return status().ok();
  const Slice at = key();
  const int order = rocksdb::ExtractUserKey(target).compare(rocksdb::ExtractUserKey(at));
  return order < 0 ||
         (order == 0 && rocksdb::ExtractInternalKeyFooter(target) >= rocksdb::ExtractInternalKeyFooter(at));
}

// Whether the entry that HasReadFor() found is what Seek(target) would find: prefixes and bounds leave out entries.
bool OrderedIterator::StaysAtEntry() const {
  return Valid() && table_.read_options->iterate_upper_bound == nullptr &&
         (table_.prefix_extractor == nullptr || table_.read_options->total_order_seek);
}

// Whether the order filter knows enough of what is behind the key: the end, or a bound that can stand for the table's
// next key. Else what is read at the target counts.
bool OrderedIterator::Defer(const Slice& user_key) {
  const Cached<OrderFilter> filter = place_->Acquire(*table_.read_options, OrderBlockPlace::For::kSeek);
  if (!filter) {
    ++stats_.unfiltered;
    return false;
  }
  std::string* const bound = BoundScratch();
  const OrderAnswer answer =
      WasShown(user_key) ? OrderAnswer::kHere : filter->Find(user_key.data(), user_key.size(), bound);
  if (answer == OrderAnswer::kNone) {
    ++stats_.past_end;
    state_ = State::kPastEnd;
    return true;
  }
  // DBIter takes the prefix of every key that it sees.
  if (answer == OrderAnswer::kHere ||
      (table_.prefix_extractor != nullptr && !table_.prefix_extractor->InDomain(*bound))) {
    ++stats_.direct;
    read_ = ReadFor::kDirect;
    return false;
  }
  const Slice* const upper_bound = table_.read_options->iterate_upper_bound;
  if (upper_bound != nullptr && Slice(*bound).compare(*upper_bound) >= 0) {
    ++stats_.past_bound;
    state_ = State::kPastBound;
    return true;
  }
  ++stats_.deferred;
  state_ = State::kPlaceholder;
  char tag[rocksdb::kNumInternalBytes];
  rocksdb::EncodeFixed64(tag, kPlaceholderTag);
  placeholder_.Assign(*bound);
  placeholder_.Replace(bound->size(), tag, sizeof(tag));
  return true;
}

void OrderedIterator::Seek(const Slice& target) {
  if (++unpublished_ >= kPublishEvery) Publish();
  // RocksDB's iterator has asked for a block and wants to be asked again.
  const bool again = scans_prepared_ || (state_ == State::kTable && inner_ != nullptr && inner_->status().IsTryAgain());
  if (again) {
    inner_->Seek(target);
    return;
  }
  if (HasReadFor(target)) {
    ++stats_.direct;
    if (StaysAtEntry()) return;
  } else {
    Begin();
    if (state_ == State::kCursor && cursor_.IsInBlock(target)) {
      ++stats_.direct;
      read_ = ReadFor::kAtHand;
    } else if (Defer(rocksdb::ExtractUserKey(target))) {
      target_.Assign(target);
      return;
    }
  }
  target_.Assign(target);
  Read(target);
}

void OrderedIterator::SeekToFirst() {
  if (++unpublished_ >= kPublishEvery) Publish();
  Begin();
  ++stats_.unfiltered;
  ToFirst();
}

void OrderedIterator::PrepareFor(const port::ScanRanges* ranges) {
  scans_prepared_ = ranges != nullptr;
  if (!scans_prepared_ && inner_ == nullptr) return;
  Begin();
  state_ = State::kTable;
  port::PrepareScans(Inner(), ranges);
}

void OrderedIterator::SeekForPrev(const Slice& target) {
  Begin();
  ++backward_;
  ReadBack(target);
}

void OrderedIterator::SeekToLast() {
  Begin();
  ++backward_;
  state_ = State::kTable;
  Inner()->SeekToLast();
}

void OrderedIterator::Resolve() {
  ++stats_.resolved;
  read_ = ReadFor::kResolved;
  if (has_cursor_ && Moved(cursor_.Seek(target_.slice()))) return;
  SeekInner(target_.slice());
}

bool OrderedIterator::Valid() const {
  switch (state_) {
    case State::kTable:
      return inner_ != nullptr && inner_->Valid();
    case State::kCursor:
    case State::kPlaceholder:
      return true;
    case State::kPastEnd:
    case State::kPastBound:
      return false;
  }
  return false;
}

void OrderedIterator::Next() {
  switch (state_) {
    case State::kTable:
      Used();
      inner_->Next();
      return;
    case State::kCursor: {
      Used();
      if (Moved(cursor_.Next())) return;
      // RocksDB's iterator goes on from the last entry that the cursor was at.
      SeekInner(cursor_.key());
      if (inner_->Valid() && inner_->key() == cursor_.key()) inner_->Next();
      return;
    }
    default:
      Resolve();
  }
}

bool OrderedIterator::NextAndGetResult(rocksdb::IterateResult* result) {
  if (state_ == State::kTable) {
    Used();
    return inner_->NextAndGetResult(result);
  }
  Next();
  if (!Valid()) return false;
  result->key = key();
  result->bound_check_result = UpperBoundCheckResult();
  result->value_prepared = state_ == State::kCursor;
  return true;
}

// What lies before the placeholder lies before the table's next key, and its key is no entry's.
void OrderedIterator::Prev() {
  Used();
  switch (state_) {
    case State::kTable:
      inner_->Prev();
      return;
    case State::kCursor:
      if (Moved(cursor_.Prev())) return;
      // RocksDB's iterator goes on from the last entry that the cursor was at.
      SeekInner(cursor_.key());
      if (inner_->Valid()) inner_->Prev();
      return;
    default:
      state_ = State::kTable;
      Inner()->SeekForPrev(placeholder_.slice());
  }
}

Slice OrderedIterator::key() const {
  if (state_ == State::kCursor) return cursor_.key();
  return state_ == State::kTable ? inner_->key() : placeholder_.slice();
}
Slice OrderedIterator::value() const {
  Used();
  if (state_ == State::kCursor) return cursor_.value();
  return state_ == State::kTable ? inner_->value() : Slice();
}
uint64_t OrderedIterator::write_unix_time() const {
  if (state_ == State::kCursor) return cursor_.write_unix_time();
  return state_ == State::kTable ? inner_->write_unix_time() : InternalIterator::write_unix_time();
}

Status OrderedIterator::status() const {
  return state_ == State::kTable && inner_ != nullptr ? inner_->status() : Status::OK();
}

bool OrderedIterator::PrepareValue() {
  if (state_ != State::kTable) return true;
  Used();
  return inner_->PrepareValue();
}

IterBoundCheck OrderedIterator::UpperBoundCheckResult() {
  switch (state_) {
    case State::kTable:
      return inner_ != nullptr ? inner_->UpperBoundCheckResult() : IterBoundCheck::kUnknown;
    case State::kCursor:
      return cursor_.bound_check();
    case State::kPastBound:
      return IterBoundCheck::kOutOfBound;
    default:
      return IterBoundCheck::kUnknown;
  }
}

void OrderedIterator::SetPinnedItersMgr(rocksdb::PinnedIteratorsManager* manager) {
  pinned_ = manager;
  cursor_.SetPinnedItersMgr(manager);
  if (inner_ != nullptr) inner_->SetPinnedItersMgr(manager);
}
bool OrderedIterator::IsKeyPinned() const { return state_ == State::kTable && inner_->IsKeyPinned(); }
bool OrderedIterator::IsValuePinned() const {
  if (state_ == State::kCursor) return cursor_.IsValuePinned();
  return state_ == State::kTable && inner_->IsValuePinned();
}

void OrderedIterator::GetReadaheadState(rocksdb::ReadaheadFileInfo* info) {
  if (inner_ != nullptr) inner_->GetReadaheadState(info);
}
void OrderedIterator::SetReadaheadState(rocksdb::ReadaheadFileInfo* info) {
  if (table_.read_options->adaptive_readahead) Inner()->SetReadaheadState(info);
}

}  // namespace cairn
