#include "result_cache/cache_fills.h"

#include "util/rocksdb_names.h"

namespace cairn {

namespace {

// By default an item may take so much of the capacity.
constexpr uint64_t kItemsPart = 64;

StagedFills::Fill FillOf(const SpaceRead& read, const Status& s, const Slice& value) {
  StagedFills::Fill fill{read.ticket, read.space, !s.ok(), read.key, {}};
  if (s.ok()) fill.value = {value.data(), value.size()};
  return fill;
}

}  // namespace

CacheFills::CacheFills(const DatabaseCacheOptions& options, ResultCache* cache)
    : max_item_bytes_(options.max_item_bytes != 0 ? options.max_item_bytes : options.capacity / kItemsPart),
      cache_(cache),
      keeps_absent_(options.absent_keys) {}

bool CacheFills::Wants(const SpaceRead& read, const Status& s, const Slice& value) const {
  if (!IsPlain(s)) return false;
  if (s.ok()) return read.key.size() + value.size() <= max_item_bytes_;
  return s.IsNotFound() && keeps_absent_ && read.key.size() <= max_item_bytes_;
}

void CacheFills::Store(const StagedFills::Fill& fill) {
  if (fill.absent) {
    cache_->FillAbsent(fill.ticket, fill.key, fill.space);
  } else {
    cache_->Fill(fill.ticket, fill.key, fill.value, fill.space);
  }
}

void CacheFills::Store(const SpaceRead& read, const Status& s, const Slice& value) {
  if (Wants(read, s, value)) Store(FillOf(read, s, value));
}

void CacheFills::StoreLater(size_t place, const SpaceRead& read, const Status& s, const Slice& value) {
  if (!Wants(read, s, value)) return;
  StagedFills* const staged = &staged_[place];
  const StagedFills::Fill fill = FillOf(read, s, value);
  if (staged->Add(fill)) return;
  StoreOne(staged);
  if (!staged->Add(fill)) Store(fill);
}

void CacheFills::StoreOne(StagedFills* staged) {
  staged->TakeOne([this](const StagedFills::Fill& fill) { Store(fill); });
}

void CacheFills::StoreAll(StagedFills* staged) {
  for (size_t i = 0; i < StagedFills::kFills && !staged->empty(); ++i) StoreOne(staged);
}

void CacheFills::StoreAll() {
  for (StagedFills& staged : staged_) StoreAll(&staged);
}

}  // namespace cairn
