#include "db/write_brake.h"

#include <algorithm>

namespace cairn {

namespace {

// A handful of small writes a second: the database stays alive, and a batch that was under way comes to its end.
constexpr uint64_t kCrawl = 4 << 10;

}  // namespace

void WriteBrake::Update(const std::function<double()>& pressure) {
  std::lock_guard<std::mutex> lock(mutex_);
  const double wanted = pressure();
  uint64_t rate = 0;
  if (wanted > 0) {
    const double left = 1 - std::min(wanted, 1.0);
    rate = std::max(kCrawl, static_cast<uint64_t>(static_cast<double>(full_rate_) * left * left));
  }
  if (rate == rate_) return;
  rate_ = rate;
  // RocksDB hands its controller out for reading only; taking a token is what its own column families do.
  auto& controller = const_cast<rocksdb::WriteController&>(db_->write_controller());
  rocksdb::InstrumentedMutexLock db_lock(db_->mutex());
  token_.reset();
  if (rate > 0) token_ = controller.GetDelayToken(rate);
}

double RootPressure(uint64_t files, int trigger) {
  const double times = static_cast<double>(files) / trigger;
  return std::clamp((times - 3) / 2, 0.0, 1.0);
}

}  // namespace cairn
