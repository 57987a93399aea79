// An Env whose time of day a test sets; what is timed and waited for is real.

#pragma once

#include <atomic>
#include <cstdint>
#include <memory>

#include "env/composite_env_wrapper.h"
#include "rocksdb/env.h"
#include "rocksdb/system_clock.h"

namespace cairn::test {

class SetClock final : public rocksdb::SystemClockWrapper {
 public:
  explicit SetClock(int64_t seconds)
      : rocksdb::SystemClockWrapper(rocksdb::SystemClock::Default()), seconds_(seconds) {}
  const char* Name() const override { return "cairn.SetClock"; }
  rocksdb::Status GetCurrentTime(int64_t* seconds) override {
    *seconds = seconds_;
    return rocksdb::Status::OK();
  }
  void Advance(int64_t seconds) { seconds_ += seconds; }

 private:
  std::atomic<int64_t> seconds_;
};

// It must outlive the databases that use it.
inline std::unique_ptr<rocksdb::Env> EnvOf(const std::shared_ptr<SetClock>& clock) {
  return std::make_unique<rocksdb::CompositeEnvWrapper>(rocksdb::Env::Default(), clock);
}

}  // namespace cairn::test
