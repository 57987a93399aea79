#include "src/htable/version_lookup.h"

#include <utility>

#include "db/column_family.h"
#include "db/merge_helper.h"
#include "db/wide/wide_columns_helper.h"
#include "logging/logging.h"
#include "monitoring/statistics_impl.h"
#include "src/port/column_family.h"

namespace cairn {

using rocksdb::GetContext;
using rocksdb::PinnableSlice;
using rocksdb::Slice;
using rocksdb::Status;

namespace {

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

VersionLookup::Next VersionLookup::Ask(const VersionTable& table, uint64_t hash) {
  return Take(table.reader->Find(request_.options, request_.key.internal_key(), hash, &context_), table.level);
}

VersionLookup::Next VersionLookup::Take(const Status& s, int level) {
  *request_.status = s;
  const GetContext::GetState state = context_.State();
  if (request_.status->ok() && (state == GetContext::kNotFound || state == GetContext::kMerge)) {
    return Next::kOlderTable;
  }
  ReportCounters();
  if (!request_.status->ok()) return Next::kNothing;
  switch (state) {
    case GetContext::kFound:
      Found(level);
      break;
    case GetContext::kDeleted:
      *request_.status = Status::NotFound();
      break;
    case GetContext::kMergeOperatorFailed:
      *request_.status = Status::Corruption(Status::SubCode::kMergeOperatorFailed);
      break;
    case GetContext::kUnexpectedBlobIndex:
      *request_.status = Status::NotSupported("a blob of the stacked BlobDB; open the database with that");
      break;
    default:
      *request_.status = Status::Corruption("corrupted key for ", request_.key.user_key());
  }
  return Next::kNothing;
}

void VersionLookup::Found(int level) {
  RecordTick(options_.stats, level == 0   ? rocksdb::GET_HIT_L0
                             : level == 1 ? rocksdb::GET_HIT_L1
                                          : rocksdb::GET_HIT_L2_AND_UP);
  const bool wanted = request_.do_merge && (request_.value != nullptr || request_.columns != nullptr);
  if (is_blob_ && wanted) ReadBlob();
}

void VersionLookup::ReadBlob() {
  const Slice index = request_.value != nullptr
                          ? Slice(*request_.value)
                          : rocksdb::WideColumnsHelper::GetDefaultColumn(request_.columns->columns());
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
  } else if (options_.merge_operator == nullptr) {
    *request_.status = Status::InvalidArgument("there are merge operands, and no merge_operator");
  } else if (request_.value != nullptr || request_.columns != nullptr) {
    // The operands are all that there is of the key.
    *request_.status = rocksdb::MergeHelper::TimedFullMerge(
        options_.merge_operator.get(), request_.key.user_key(), rocksdb::MergeHelper::kNoBaseValue,
        request_.merge_context->GetOperands(), options_.logger, options_.stats, options_.clock,
        /*update_num_ops_stats=*/true, /*op_failure_scope=*/nullptr,
        request_.value != nullptr ? request_.value->GetSelf() : nullptr, request_.columns);
    if (request_.status->ok() && request_.value != nullptr) request_.value->PinSelf();
  }
}

}  // namespace cairn
