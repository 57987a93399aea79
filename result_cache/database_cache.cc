#include "result_cache/database_cache.h"

#include "util/rocksdb_names.h"

#include <utility>

namespace cairn {

DatabaseCache::DatabaseCache(const DatabaseCacheOptions& options, std::unique_ptr<ResultCache> cache,
                             std::unique_ptr<FileBinding> binding)
    : options_(options),
      cache_(std::move(cache)),
      binding_(std::move(binding)),
      spaces_(options_, cache_.get(), binding_.get(), &log_),
      fills_(options_, cache_.get()),
      modes_(options_, {cache_.get(), binding_.get(), &spaces_, &times_, &log_}) {}

DatabaseCache::~DatabaseCache() = default;

void DatabaseCache::Start(rocksdb::DB* db, std::shared_ptr<rocksdb::Logger> log,
                          const std::vector<ColumnFamilyHandle*>& families) {
  log_.Begin(std::move(log));
  if (modes_.stopped()) return;
  if (binding_ != nullptr) {
    if (binding_->stamps()) {
      db_.store(db, std::memory_order_release);
      binding_->SetStamp([db] { return db->GetLatestSequenceNumber(); });
    }
    if (!AdoptFile(families)) return modes_.Stop("its file cannot be synced");
  } else if (!distrust_.empty()) {
    log_.Line("the result cache has no file: " + distrust_);
  }
  if (!modes_.Start()) return;
  log_.Line("result cache of " + std::to_string(options_.capacity) + " bytes");
  spaces_.WarnOfUnknownNames(families);
}

void DatabaseCache::NeverStart(std::shared_ptr<rocksdb::Logger> log, const std::string& why) {
  log_.Begin(std::move(log));
  Stop(why);
}

DatabaseCacheStats DatabaseCache::GetStats() {
  fills_.StoreAll();
  DatabaseCacheStats stats;
  stats.cache = cache_->GetStatistics();
  const CacheBenefit::Counts counts = times_.Counts();
  stats.reads = counts.reads;
  stats.barred_keys = counts.barred_keys;
  stats.changes = spaces_.changes();
  stats.checked_hits = checked_.load(std::memory_order_relaxed);
  stats.wrong_hits = wrong_.load(std::memory_order_relaxed);
  modes_.AddTo(&stats);
  return stats;
}

// ---- the file ----

bool DatabaseCache::AdoptFile(const std::vector<ColumnFamilyHandle*>& families) {
  std::string why = !distrust_.empty() ? distrust_ : binding_->WhyNot(wal_report_);
  if (why.empty() && times_.AnyWrites()) why = "the opening itself has written";
  if (why.empty() && binding_->lost_power() && db_.load()->GetLatestSequenceNumber() < wal_report_.since.covered) {
    why = "the database lacks writes that had been synced";
  }
  if (why.empty()) {
    spaces_.Adopt(families, wal_report_.since);
    log_.Line("the result cache goes on with " + std::to_string(cache_->GetStatistics().recovered) + " answers of " +
              options_.path);
  } else {
    log_.Line("the result cache begins empty: " + why);
    if (!binding_->Begin()) return false;
  }
  binding_->Bind(wal_report_);
  TakePoint();
  return true;
}

void DatabaseCache::LookAtFoundFiles() {
  if (binding_ != nullptr) binding_->LookAtFound();
}

void DatabaseCache::NoteFiles() {
  if (binding_ == nullptr) return;
  binding_->Refresh();
  TakePoint();
}

// If it fails, the next opening after a loss of power finds what a flush has made of the WALs, and begins empty.
void DatabaseCache::TakePoint() {
  rocksdb::DB* const db = db_.load(std::memory_order_acquire);
  if (db == nullptr) return;
  const MutexLock lock(&point_mutex_);
  std::unique_ptr<rocksdb::WalFile> wal;
  // In this order: what comes after the point is in this WAL or in later ones.
  if (!db->GetCurrentWalFile(&wal).ok()) return;
  FileBinding::Point point;
  point.wal = wal->LogNumber();
  point.sequence = db->GetLatestSequenceNumber();
  if (!db->FlushWAL(true).ok() || !db->GetCurrentWalFile(&wal).ok()) return;
  point.wal_has_writes = wal->LogNumber() != point.wal || wal->SizeFileBytes() > 0;
  binding_->Refresh();
  binding_->NotePoint(point);
}

void DatabaseCache::SettleFile() {
  if (db_.load(std::memory_order_acquire) == nullptr) return;
  if (!binding_->Settle(cache::CacheFile::Part::kAll)) Stop("its file cannot be synced");
}

void DatabaseCache::BeginClose() {
  fills_.StoreAll();
  TakePoint();
  if (binding_ != nullptr) binding_->BeginClose();
}

void DatabaseCache::CancelClose() {
  if (binding_ != nullptr) binding_->CancelClose();
}

}  // namespace cairn
