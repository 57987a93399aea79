#include "trie_table/compaction/write_throttle.h"

#include <algorithm>

#include "db/column_family.h"
#include "db/internal_stats.h"

namespace cairn {

namespace {

// A handful of small writes a second: the database stays alive, and a batch that was under way comes to its end.
constexpr uint64_t kLeastRate = 4 << 10;

// A rate is taken over at least this time.
constexpr uint64_t kRateMicros = 500 * 1000;

// What RocksDB's controller counts: bytes of write batches, whatever becomes of them in a flush.
uint64_t BytesWritten(rocksdb::DBImpl* db) {
  auto* handle = static_cast<rocksdb::ColumnFamilyHandleImpl*>(db->DefaultColumnFamily());
  return handle->cfd()->internal_stats()->GetDBStats(rocksdb::InternalStats::kIntStatsBytesWritten);
}

// RocksDB hands its controller out for reading only; its own column families get it for writing.
rocksdb::WriteController& ControllerOf(rocksdb::DBImpl* db) {
  return const_cast<rocksdb::WriteController&>(db->write_controller());
}

}  // namespace

WriteThrottle::WriteThrottle(rocksdb::DBImpl* db) : db_(db) {}

void WriteThrottle::MeasureFreeWriters(uint64_t now_micros) {
  if (token_ != nullptr) {
    free_since_micros_ = 0;
    return;
  }
  const uint64_t bytes = BytesWritten(db_);
  const uint64_t micros = now_micros - free_since_micros_;
  if (free_since_micros_ != 0 && micros < kRateMicros) return;
  if (free_since_micros_ != 0) {
    free_rate_ = static_cast<uint64_t>(1e6 * static_cast<double>(bytes - bytes_then_) / static_cast<double>(micros));
  }
  free_since_micros_ = now_micros;
  bytes_then_ = bytes;
}

bool WriteThrottle::Update(uint64_t now_micros, const std::function<double()>& pressure) {
  MutexLock lock(&mutex_);
  MeasureFreeWriters(now_micros);
  const double wanted = pressure();
  if (wanted <= 0 && token_ == nullptr) return false;
  rocksdb::WriteController& controller = ControllerOf(db_);
  rocksdb::InstrumentedMutexLock db_lock(db_->mutex());
  if (wanted <= 0) {
    token_.reset();
    rate_ = 0;
    return false;
  }
  const uint64_t most = controller.max_delayed_write_rate();
  const double share = ShareOfFullRate(std::min(wanted, 1.0));
  const auto full = static_cast<double>(std::max(most, free_rate_));
  const uint64_t rate = std::min(most, std::max(kLeastRate, static_cast<uint64_t>(full * share)));
  const bool switched_on = token_ == nullptr;
  if (switched_on) {
    token_ = controller.GetDelayToken(rate);
  } else if (controller.delayed_write_rate() >= std::min(rate, last_set_)) {
    controller.set_delayed_write_rate(rate);
  }
  last_set_ = controller.delayed_write_rate();
  rate_ = last_set_;
  return switched_on;
}

void WriteThrottle::Release() {
  MutexLock lock(&mutex_);
  if (token_ == nullptr) return;
  rocksdb::InstrumentedMutexLock db_lock(db_->mutex());
  token_.reset();
  rate_ = 0;
}

double RootPressure(uint64_t files, int trigger) {
  const double begin = std::max(3 * trigger, kLeastFilesToSlow);
  const double end = std::max(5 * trigger, kLeastFilesToStop);
  return std::clamp((static_cast<double>(files) - begin) / (end - begin), 0.0, 1.0);
}

}  // namespace cairn
