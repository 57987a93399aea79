// Databases that try again at once where RocksDB and this library wait for seconds after an error.

#pragma once

#include <algorithm>
#include <cstdint>
#include <memory>
#include <utility>

#include "rocksdb/env.h"
#include "rocksdb/file_system.h"
#include "rocksdb/sst_file_manager.h"
#include "rocksdb/system_clock.h"

namespace cairn::test {

class EnvWithClock : public rocksdb::EnvWrapper {
 public:
  EnvWithClock(rocksdb::Env* env, std::shared_ptr<rocksdb::SystemClock> clock) : EnvWrapper(env) {
    system_clock_ = std::move(clock);
  }
};

// Of these files, with sleeps of a hundredth of a second at most: RocksDB sleeps for one after a flush or a compaction
// that failed.
inline std::unique_ptr<rocksdb::Env> NewImpatientEnv(const std::shared_ptr<rocksdb::FileSystem>& files) {
  class Clock : public rocksdb::SystemClockWrapper {
   public:
    using SystemClockWrapper::SystemClockWrapper;
    const char* Name() const override { return "ShortSleeps"; }
    void SleepForMicroseconds(int micros) override {
      SystemClockWrapper::SleepForMicroseconds(std::min(micros, 10000));
    }
  };
  class Impatient : public EnvWithClock {
   public:
    explicit Impatient(std::unique_ptr<rocksdb::Env> env)
        : EnvWithClock(env.get(), std::make_shared<Clock>(env->GetSystemClock())), env_(std::move(env)) {}

   private:
    const std::unique_ptr<rocksdb::Env> env_;
  };
  return std::make_unique<Impatient>(rocksdb::NewCompositeEnv(files));
}

// Tries databases that wait for space ten times a second, where others try them every five seconds: its clock is
// behind, so that what is to be waited for is near.
inline std::shared_ptr<rocksdb::SstFileManager> NewImpatientSstFileManager(rocksdb::Env* env) {
  class Clock : public rocksdb::SystemClockWrapper {
   public:
    using SystemClockWrapper::SystemClockWrapper;
    const char* Name() const override { return "Behind"; }
    uint64_t NowMicros() override { return SystemClockWrapper::NowMicros() - 4900000; }
  };
  EnvWithClock behind(env, std::make_shared<Clock>(env->GetSystemClock()));
  return std::shared_ptr<rocksdb::SstFileManager>(rocksdb::NewSstFileManager(&behind, env->GetFileSystem()));
}

}  // namespace cairn::test
