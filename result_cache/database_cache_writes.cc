// What writers and changes of whole column families do to the cache (rules D1 and D4).

#include <algorithm>
#include <utility>

#include "db/dbformat.h"
#include "result_cache/database_cache.h"
#include "util/batch_handler.h"
#include "util/rocksdb_names.h"

namespace cairn {

DatabaseCache::ChangeScope::ChangeScope(DatabaseCache* cache, std::vector<uint32_t> families)
    : cache_(cache), families_(std::move(families)) {
  if (cache_ == nullptr) return;
  cache_->spaces_.BeginChange(families_);
  cache_->SettleFile();
}

DatabaseCache::ChangeScope::~ChangeScope() {
  if (cache_ == nullptr) return;
  cache_->NoteFiles();
  cache_->spaces_.EndChange(families_);
}

DatabaseCache::ChangeAllScope::ChangeAllScope(DatabaseCache* cache) : cache_(cache) {
  if (cache_ == nullptr) return;
  cache_->cache_->BarAll();
  cache_->SettleFile();
}

DatabaseCache::ChangeAllScope::~ChangeAllScope() {
  if (cache_ == nullptr) return;
  cache_->NoteFiles();
  cache_->cache_->UnbarAll();
}

// Bars each key as it comes, and collects families that change as a whole.
class DatabaseCache::WriteScope::Collector final : public BatchHandler {
 public:
  explicit Collector(WriteScope* scope) : scope_(scope) {}

  Status PutCF(uint32_t id, const Slice& key, const Slice&) override { return Take(id, key); }
  Status TimedPutCF(uint32_t id, const Slice& key, const Slice&, uint64_t) override { return Take(id, key); }
  Status PutEntityCF(uint32_t id, const Slice& key, const Slice&) override { return Take(id, key); }
  Status DeleteCF(uint32_t id, const Slice& key) override { return Take(id, key); }
  Status SingleDeleteCF(uint32_t id, const Slice& key) override { return Take(id, key); }
  Status MergeCF(uint32_t id, const Slice& key, const Slice&) override { return Take(id, key); }
  Status PutBlobIndexCF(uint32_t id, const Slice& key, const Slice&) override { return Take(id, key); }
  Status DeleteRangeCF(uint32_t id, const Slice&, const Slice&) override {
    auto& families = scope_->families_;
    if (std::find(families.begin(), families.end(), id) == families.end()) families.push_back(id);
    return Status::OK();
  }

 private:
  Status Take(uint32_t id, const Slice& key) {
    scope_->BarKey(id, key);
    return Status::OK();
  }

  WriteScope* const scope_;
};

void DatabaseCache::WriteScope::BarKey(uint32_t family, const Slice& key) {
  const FamilySpaces::Family* const found = cache_->spaces_.FindOrMake(family);
  if (found != nullptr && found->allowed.load(std::memory_order_relaxed)) {
    stripes_.push_back(cache_->cache_->Bar({key.data(), key.size()}, found->space));
  }
}

DatabaseCache::WriteScope::WriteScope(DatabaseCache* cache, const rocksdb::WriteBatch* batch)
    : cache_(cache), writes_(batch != nullptr && batch->Count() > 0) {
  if (cache_ == nullptr || !cache_->modes_.Bars(&place_)) return;
  CacheTimes::Barring barring(&cache_->times_);
  Collector collector(this);
  // What cannot be read may hold anything.
  everything_ = writes_ && !batch->Iterate(&collector).ok();
  if (everything_) cache_->cache_->BarAll();
  cache_->spaces_.BeginChange(families_);
  barring.End(stripes_.size());
}

DatabaseCache::WriteScope::WriteScope(DatabaseCache* cache, uint32_t family, const Slice& key)
    : cache_(cache), writes_(true) {
  if (cache_ == nullptr || !cache_->modes_.Bars(&place_)) return;
  CacheTimes::Barring barring(&cache_->times_);
  BarKey(family, key);
  barring.End(stripes_.size());
}

// Whether writers bar or not: what is read later may be filled in.
void DatabaseCache::WriteScope::Written(const Status& s, uint64_t wal, uint64_t sequence) {
  if (!writes_ || cache_ == nullptr || cache_->binding_ == nullptr) return;
  // Refused before it was written anywhere. What has a number and failed is in the WAL, whose replay may bring what
  // cannot be read now: RocksDB leaves a batch half inserted where it meets a family that is gone.
  const bool refused =
      sequence == rocksdb::kMaxSequenceNumber && (s.IsBusy() || s.IsTryAgain() || s.IsIncomplete() || s.IsTimedOut() ||
                                                  s.IsInvalidArgument() || s.IsNotSupported() || s.IsExpired());
  if (!refused) cache_->binding_->NoteWrite(s.ok() ? wal : 0, sequence);
}

DatabaseCache::WriteScope::~WriteScope() {
  if (cache_ == nullptr) return;
  for (const uint32_t stripe : stripes_) cache_->cache_->UnbarStripe(stripe);
  if (everything_) cache_->cache_->UnbarAll();
  if (!families_.empty()) cache_->spaces_.EndChange(families_);
  if (place_ != nullptr) WriterRounds::Leave(place_);
}

}  // namespace cairn
