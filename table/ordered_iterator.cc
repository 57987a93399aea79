#include "table/ordered_iterator.h"

#include "memory/arena.h"
#include "rocksdb/comparator.h"
#include "rocksdb/options.h"
#include "table/table_reader.h"

namespace cairn {

using rocksdb::InternalIterator;
using rocksdb::IterBoundCheck;
using rocksdb::Slice;
using rocksdb::Status;

namespace {

constexpr int kPublishEvery = 256;

}  // namespace

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
  if (has_readahead_) inner_->SetReadaheadState(&readahead_);
  return inner_;
}

// Counts what the seek before came to.
void OrderedIterator::Begin() {
  stats_.resolved_unused += read_ == Read::kResolved ? 1 : 0;
  stats_.direct_unused += read_ == Read::kDirect ? 1 : 0;
  read_ = Read::kUsed;
}

void OrderedIterator::Publish() {
  seeks_->Add(stats_);
  stats_ = OrderedSeekStats();
  unpublished_ = 0;
}

// Whether the bound can stand for the table's next key.
bool OrderedIterator::Defer(const Slice& bound) {
  // DBIter takes the prefix of every key that it sees.
  if (table_.prefix_extractor != nullptr && !table_.prefix_extractor->InDomain(bound)) return false;
  const Slice* const upper_bound = table_.read_options->iterate_upper_bound;
  if (upper_bound != nullptr && bound.compare(*upper_bound) >= 0) {
    ++stats_.past_bound;
    state_ = State::kPastBound;
    return true;
  }
  ++stats_.deferred;
  placeholder_.clear();
  rocksdb::AppendInternalKey(&placeholder_,
                             rocksdb::ParsedInternalKey(bound, rocksdb::kMaxSequenceNumber, rocksdb::kTypeValue));
  return true;
}

void OrderedIterator::Seek(const Slice& target) {
  if (++unpublished_ >= kPublishEvery) Publish();
  // RocksDB's iterator has asked for a block and wants to be asked again.
  const bool again = state_ == State::kTable && inner_ != nullptr && inner_->status().IsTryAgain();
  if (again) {
    inner_->Seek(target);
    return;
  }
  Begin();
  const Slice user_key = rocksdb::ExtractUserKey(target);
  const OrderBlockPlace::Ref filter = place_->Acquire(*table_.read_options);
  if (filter) {
    const OrderAnswer answer = filter->Find(user_key.data(), user_key.size(), &bound_);
    if (answer == OrderAnswer::kNone) {
      ++stats_.past_end;
      state_ = State::kPastEnd;
      return;
    }
    if (answer == OrderAnswer::kBound) {
      state_ = State::kPlaceholder;
      if (Defer(bound_)) {
        target_.assign(target.data(), target.size());
        return;
      }
    }
    ++stats_.direct;
    read_ = Read::kDirect;
  } else {
    ++stats_.unfiltered;
  }
  state_ = State::kTable;
  Inner()->Seek(target);
}

// A level's iterator, which has no arena, comes here from the file before, too, and that may end with a newer entry of
// this file's first key: (1) would not hold.
void OrderedIterator::SeekToFirst() {
  if (++unpublished_ >= kPublishEvery) Publish();
  Begin();
  if (table_.arena != nullptr) {
    const OrderBlockPlace::Ref filter = place_->Acquire(*table_.read_options);
    if (filter && filter->first_key() != nullptr) {
      state_ = State::kFirst;
      if (Defer(*filter->first_key())) return;
    }
  }
  ++stats_.unfiltered;
  state_ = State::kTable;
  Inner()->SeekToFirst();
}

void OrderedIterator::SeekForPrev(const Slice& target) {
  Begin();
  state_ = State::kTable;
  Inner()->SeekForPrev(target);
}

void OrderedIterator::SeekToLast() {
  Begin();
  state_ = State::kTable;
  Inner()->SeekToLast();
}

void OrderedIterator::Resolve() {
  const bool first = state_ == State::kFirst;
  state_ = State::kTable;
  ++stats_.resolved;
  read_ = Read::kResolved;
  if (first) {
    Inner()->SeekToFirst();
    return;
  }
  Inner()->Seek(target_);
  // With async_io the first call only asks for the block.
  if (inner_->status().IsTryAgain()) inner_->Seek(target_);
}

bool OrderedIterator::Valid() const {
  switch (state_) {
    case State::kTable:
      return inner_ != nullptr && inner_->Valid();
    case State::kPlaceholder:
    case State::kFirst:
      return true;
    case State::kPastEnd:
    case State::kPastBound:
      return false;
  }
  return false;
}

void OrderedIterator::Next() {
  if (state_ != State::kTable) {
    Resolve();
    return;
  }
  Used();
  inner_->Next();
}

bool OrderedIterator::NextAndGetResult(rocksdb::IterateResult* result) {
  if (state_ == State::kTable) {
    Used();
    return inner_->NextAndGetResult(result);
  }
  Resolve();
  if (!inner_->Valid()) return false;
  result->key = inner_->key();
  result->bound_check_result = inner_->UpperBoundCheckResult();
  result->value_prepared = false;
  return true;
}

// What lies before the placeholder lies before the table's next key, and (X, kMaxSequenceNumber) is no entry's key.
void OrderedIterator::Prev() {
  Used();
  if (state_ == State::kTable) {
    inner_->Prev();
    return;
  }
  state_ = State::kTable;
  Inner()->SeekForPrev(placeholder_);
}

Slice OrderedIterator::key() const { return state_ == State::kTable ? inner_->key() : Slice(placeholder_); }
Slice OrderedIterator::user_key() const {
  return state_ == State::kTable ? inner_->user_key() : rocksdb::ExtractUserKey(placeholder_);
}
Slice OrderedIterator::value() const { return state_ == State::kTable ? inner_->value() : Slice(); }
uint64_t OrderedIterator::write_unix_time() const {
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

bool OrderedIterator::MayBeOutOfLowerBound() {
  return state_ != State::kTable || inner_ == nullptr || inner_->MayBeOutOfLowerBound();
}

IterBoundCheck OrderedIterator::UpperBoundCheckResult() {
  if (state_ == State::kPastBound) return IterBoundCheck::kOutOfBound;
  return state_ == State::kTable && inner_ != nullptr ? inner_->UpperBoundCheckResult() : IterBoundCheck::kUnknown;
}

void OrderedIterator::SetPinnedItersMgr(rocksdb::PinnedIteratorsManager* manager) {
  pinned_ = manager;
  if (inner_ != nullptr) inner_->SetPinnedItersMgr(manager);
}
bool OrderedIterator::IsKeyPinned() const { return state_ == State::kTable && inner_->IsKeyPinned(); }
bool OrderedIterator::IsValuePinned() const { return state_ == State::kTable && inner_->IsValuePinned(); }
Status OrderedIterator::GetProperty(std::string name, std::string* property) {
  return Inner()->GetProperty(std::move(name), property);
}

void OrderedIterator::GetReadaheadState(rocksdb::ReadaheadFileInfo* info) {
  if (inner_ != nullptr) {
    inner_->GetReadaheadState(info);
  } else if (has_readahead_) {
    *info = readahead_;
  }
}
void OrderedIterator::SetReadaheadState(rocksdb::ReadaheadFileInfo* info) {
  readahead_ = *info;
  has_readahead_ = true;
  if (inner_ != nullptr) inner_->SetReadaheadState(info);
}

}  // namespace cairn
