#include "db/write_brake.h"

#include <algorithm>

namespace cairn {

namespace {

// A handful of small writes a second: the database stays alive, and a batch that was under way comes to its end.
constexpr uint64_t kCrawl = 4 << 10;

// A rate is taken over at least this time.
constexpr uint64_t kRateMicros = 500 * 1000;

}  // namespace

void WriteBrake::Flushed(uint64_t bytes, uint64_t now_micros) {
  std::lock_guard<std::mutex> lock(mutex_);
  if (rate_ > 0 || free_since_micros_ == 0) {
    free_since_micros_ = rate_ > 0 ? 0 : now_micros;
    free_bytes_ = 0;
    return;
  }
  free_bytes_ += bytes;
  const uint64_t micros = now_micros - free_since_micros_;
  if (micros < kRateMicros) return;
  full_rate_ = std::max(least_full_rate_,
                        static_cast<uint64_t>(1e6 * static_cast<double>(free_bytes_) / static_cast<double>(micros)));
  free_since_micros_ = now_micros;
  free_bytes_ = 0;
}

void WriteBrake::Update(const std::function<double()>& pressure) {
  std::lock_guard<std::mutex> lock(mutex_);
  const double wanted = pressure();
  uint64_t rate = 0;
  if (wanted > 0) {
    const double share = ShareOfFullRate(std::min(wanted, 1.0));
    rate = std::max(kCrawl, static_cast<uint64_t>(static_cast<double>(full_rate_) * share));
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
