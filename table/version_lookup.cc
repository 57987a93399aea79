#include "table/version_lookup.h"

#include <new>
#include <utility>

#include "db/column_family.h"
#include "db/merge_helper.h"
#include "db/wide/wide_columns_helper.h"
#include "monitoring/file_read_sample.h"
#include "monitoring/statistics_impl.h"
#include "rocksdb/port/column_family.h"
#include "test_util/sync_point.h"
#include "util/bits.h"
#include "util/rocksdb_names.h"

namespace cairn {

using rocksdb::GetContext;

namespace {

void CountHit(rocksdb::Statistics* statistics, int level) {
  RecordTick(statistics, level == 0   ? rocksdb::GET_HIT_L0
                         : level == 1 ? rocksdb::GET_HIT_L1
                                      : rocksdb::GET_HIT_L2_AND_UP);
}

// Of a lookup that a table has answered without an error of its own.
Status StatusOf(GetContext::GetState state, const Slice& user_key) {
  switch (state) {
    case GetContext::kFound:
      return Status::OK();
    case GetContext::kDeleted:
      return Status::NotFound();
    case GetContext::kMergeOperatorFailed:
      return Status::Corruption(Status::SubCode::kMergeOperatorFailed);
    case GetContext::kUnexpectedBlobIndex:
      return Status::NotSupported("a blob of the stacked BlobDB; open the database with that");
    default:
      return Status::Corruption("corrupted key for ", user_key);
  }
}

// The operands are all that there is of a key.
Status MergeAlone(const rocksdb::ImmutableOptions& options, const Slice& user_key, rocksdb::MergeContext* operands,
                  PinnableSlice* value, rocksdb::PinnableWideColumns* columns) {
  if (options.merge_operator == nullptr) {
    return Status::InvalidArgument("there are merge operands, and no merge_operator");
  }
  Status s = rocksdb::MergeHelper::TimedFullMerge(
      options.merge_operator.get(), user_key, rocksdb::MergeHelper::kNoBaseValue, operands->GetOperands(),
      options.logger, options.stats, options.clock, /*update_num_ops_stats=*/true, /*op_failure_scope=*/nullptr,
      value != nullptr ? value->GetSelf() : nullptr, columns);
  if (s.ok() && value != nullptr) value->PinSelf();
  return s;
}

// Whether an entry may have to be fetched to be merged, or to be handed out as an operand.
bool MayFetch(const VersionRequest& request, const rocksdb::ImmutableOptions& options) {
  return options.merge_operator != nullptr || !request.do_merge;
}

}  // namespace

VersionLookup::VersionLookup(rocksdb::Version* version, const VersionRequest& request)
    : version_(version),
      request_(request),
      options_(port::ImmutableOptionsOf(*version->cfd())),
      blobs_(MayFetch(request, options_) ? std::make_optional<port::VersionBlobFetcher>(version, request.options)
                                         : std::nullopt),
      context_(options_.user_comparator, options_.merge_operator.get(), options_.logger, options_.stats,
               request.status->ok() ? GetContext::kNotFound : GetContext::kMerge, request.key.user_key(),
               request.do_merge ? request.value : nullptr, request.do_merge ? request.columns : nullptr,
               /*timestamp=*/nullptr, request.value_found, request.merge_context, request.do_merge,
               request.max_covering_tombstone_seq, options_.clock, /*seq=*/nullptr,
               options_.merge_operator != nullptr ? request.pinned_iterators : nullptr, request.callback,
               request.is_blob != nullptr ? request.is_blob : &is_blob_, rocksdb::BlockCacheTraceHelper::kReservedGetId,
               blobs_.has_value() ? &*blobs_ : nullptr) {
  // Operands stay where they were read until they are merged.
  if (options_.merge_operator != nullptr) request.pinned_iterators->StartPinning();
}

VersionLookup::Next VersionLookup::Take(const Status& s, int level) {
  *request_.status = s;
  const GetContext::GetState state = context_.State();
  if (request_.status->ok() && (state == GetContext::kNotFound || state == GetContext::kMerge)) {
    return Next::kOlderTable;
  }
  ReportCounters();
  if (!request_.status->ok()) return Next::kNothing;
  *request_.status = StatusOf(state, request_.key.user_key());
  if (state == GetContext::kFound) Found(level);
  return Next::kNothing;
}

void VersionLookup::Found(int level) {
  CountHit(options_.stats, level);
  const bool wanted = request_.do_merge && (request_.value != nullptr || request_.columns != nullptr);
  if (is_blob_ && wanted) ReadBlob();
}

void VersionLookup::ReadBlob() {
  Slice index = request_.value != nullptr ? Slice(*request_.value)
                                          : rocksdb::WideColumnsHelper::GetDefaultColumn(request_.columns->columns());
  TEST_SYNC_POINT_CALLBACK("Version::Get::TamperWithBlobIndex", &index);  // of RocksDB's own tests
  PinnableSlice blob;
  *request_.status =
      version_->GetBlob(request_.options, context_.ukey_to_get_blob_value(), index, nullptr, &blob, nullptr);
  if (!request_.status->ok()) {
    if (request_.status->IsIncomplete()) context_.MarkKeyMayExist();
  } else if (request_.value != nullptr) {
    *request_.value = std::move(blob);
  } else {
    request_.columns->SetPlainValue(std::move(blob));
  }
}

void VersionLookup::Finish() {
  ReportCounters();
  if (context_.State() != GetContext::kMerge) {
    *request_.status = Status::NotFound();
  } else if (!request_.do_merge) {
    *request_.status = Status::OK();
  } else if (options_.merge_operator == nullptr || request_.value != nullptr || request_.columns != nullptr) {
    *request_.status =
        MergeAlone(options_, request_.key.user_key(), request_.merge_context, request_.value, request_.columns);
  }
}

void FinishLookup(rocksdb::Version* version, const VersionRequest& request, std::optional<VersionLookup>* lookup) {
  if (!lookup->has_value() && request.status->ok()) {
    *request.status = Status::NotFound();
    return;
  }
  if (!lookup->has_value()) lookup->emplace(version, request);
  (*lookup)->Finish();
}

VersionBatch::VersionBatch(rocksdb::Version* version, const rocksdb::ReadOptions& options,
                           rocksdb::MultiGetContext::Range* range, rocksdb::ReadCallback* callback)
    : options_(options), immutable_(port::ImmutableOptionsOf(*version->cfd())), range_(range), callback_(callback) {
  if (immutable_.merge_operator != nullptr) {
    pinned_iterators_.StartPinning();
    blobs_.emplace(version, options);
  }
  for (auto key = range->begin(); key != range->end(); ++key) keys_[key.index()] = &*key;
}

bool VersionBatch::Serves(rocksdb::Version* version, const rocksdb::MultiGetContext::Range& range) {
  if (!version->storage_info()->GetBlobFiles().empty()) return false;
  for (auto key = range.begin(); key != range.end(); ++key) {
    if (key->max_covering_tombstone_seq != 0 || key->timestamp != nullptr) return false;
  }
  return true;
}

VersionBatch::~VersionBatch() {
  EndLevel();
  if (levels_read_ != 0) RecordInHistogram(immutable_.stats, rocksdb::NUM_LEVEL_READ_PER_MULTIGET, levels_read_);
  ForEachBit(has_context_, [this](size_t place) { ContextAt(place)->~GetContext(); });
}

GetContext* VersionBatch::ContextAt(size_t place) {
  return std::launder(reinterpret_cast<GetContext*>(contexts_[place]));
}

const GetContext* VersionBatch::ContextAt(size_t place) const {
  return std::launder(reinterpret_cast<const GetContext*>(contexts_[place]));
}

GetContext* VersionBatch::MakeContext(size_t place) {
  if (HasContext(place)) return ContextAt(place);
  rocksdb::KeyContext* const key = keys_[place];
  auto* const context = new (contexts_[place])
      GetContext(immutable_.user_comparator, immutable_.merge_operator.get(), immutable_.logger, immutable_.stats,
                 key->s->ok() ? GetContext::kNotFound : GetContext::kMerge, key->ukey_with_ts, key->value, key->columns,
                 /*timestamp=*/nullptr, /*value_found=*/nullptr, &key->merge_context, /*do_merge=*/true,
                 &key->max_covering_tombstone_seq, immutable_.clock, /*seq=*/nullptr,
                 immutable_.merge_operator != nullptr ? &pinned_iterators_ : nullptr, callback_, &key->is_blob_index,
                 rocksdb::BlockCacheTraceHelper::kReservedGetId, blobs_.has_value() ? &*blobs_ : nullptr);
  has_context_ |= uint64_t{1} << place;
  key->get_context = context;
  // From now on errors of tables.
  *key->s = Status::OK();
  return context;
}

void VersionBatch::BeginTable(int level, uint64_t places) {
  if (level != level_) EndLevel();
  level_ = level;
  ForEachBit(places, [this](size_t place) { MakeContext(place); });
}

uint64_t VersionBatch::EndTable(int level, uint64_t places) {
  uint64_t older = 0;
  ForEachBit(places, [&](size_t place) {
    TakeReads(ContextAt(place));
    // What comes behind the limit is aborted, whatever the table said.
    if (over_limit_ || !IsComplete(place, level)) older |= uint64_t{1} << place;
  });
  RecordInHistogram(immutable_.stats, rocksdb::SST_BATCH_SIZE, static_cast<uint64_t>(__builtin_popcountll(places)));
  if (level == 0) EndLevel();
  return older;
}

void VersionBatch::TakeReads(GetContext* context) {
  rocksdb::GetContextStats& read = context->get_context_stats_;
  indexes_and_filters_read_ += read.num_index_read + read.num_filter_read;
  tables_read_ += read.num_sst_read;
  read.num_index_read = read.num_filter_read = read.num_sst_read = 0;
}

void VersionBatch::EndLevel() {
  if (indexes_and_filters_read_ != 0) {
    RecordInHistogram(immutable_.stats, rocksdb::NUM_INDEX_AND_FILTER_BLOCKS_READ_PER_LEVEL, indexes_and_filters_read_);
  }
  if (tables_read_ != 0) {
    RecordInHistogram(immutable_.stats, rocksdb::NUM_SST_READ_PER_LEVEL, tables_read_);
    ++levels_read_;
  }
  indexes_and_filters_read_ = tables_read_ = 0;
}

bool VersionBatch::IsComplete(size_t place, int level) {
  rocksdb::KeyContext* const key = keys_[place];
  GetContext* const context = ContextAt(place);
  const GetContext::GetState state = context->State();
  if (key->s->ok()) {
    if (state == GetContext::kNotFound || state == GetContext::kMerge) return false;
    *key->s = StatusOf(state, key->lkey->user_key());
    if (state == GetContext::kFound) Found(key, level);
  }
  Done(place);
  return true;
}

void VersionBatch::Found(rocksdb::KeyContext* key, int level) {
  CountHit(immutable_.stats, level);
  if (key->is_blob_index) {
    *key->s = Status::Corruption("a blob, of a file that the Version does not have");
    return;
  }
  CountSize(*key);
}

void VersionBatch::CountSize(const rocksdb::KeyContext& key) {
  range_->AddValueSize(key.value != nullptr ? key.value->size() : key.columns->serialized_size());
  over_limit_ |= range_->GetValueSize() > options_.value_size_soft_limit;
}

void VersionBatch::Done(size_t place) {
  if (immutable_.stats != nullptr && HasContext(place)) ContextAt(place)->ReportCounters();
  rocksdb::MultiGetContext::Range::Iterator key(range_, place);
  range_->MarkKeyDone(key);
}

void VersionBatch::Finish(size_t place) {
  rocksdb::KeyContext* const key = keys_[place];
  // A key that no table was asked about may have operands in memtables.
  const bool absent = (!HasContext(place) && key->s->ok()) || MakeContext(place)->State() != GetContext::kMerge;
  if (absent) {
    *key->s = Status::NotFound();
  } else {
    *key->s = MergeAlone(immutable_, key->lkey->user_key(), &key->merge_context, key->value, key->columns);
    if (key->s->ok()) CountSize(*key);
  }
  Done(place);
}

void VersionBatch::Abort(uint64_t places) {
  ForEachBit(places, [this](size_t place) {
    *keys_[place]->s = Status::Aborted();
    Done(place);
  });
}

bool VersionBatch::IsSampled(size_t place) const {
  return HasContext(place) ? ContextAt(place)->sample() : rocksdb::should_sample_file_read();
}

}  // namespace cairn
