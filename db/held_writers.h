// Who changes what writers look at without a lock.

#pragma once

#include <atomic>
#include <condition_variable>
#include <cstddef>
#include <mutex>
#include <utility>

#include "monitoring/instrumented_mutex.h"

namespace cairn {

// While it lives, this thread creates or drops a column family. Writes look families up without a mutex, and whoever changes the map waits
// at the front of the write queue. With unordered_write RocksDB forgets those that have left the queue for memtables, and may die
// in the map that changes. Thread-compatible.
class WaitsForUnorderedWrites {
 public:
  // `under_way` counts them; when there is none, `ended` is notified under `mutex`.
  WaitsForUnorderedWrites(const std::atomic<size_t>* under_way, std::mutex* mutex, std::condition_variable* ended)
      : under_way_(under_way), mutex_(mutex), ended_(ended), before_(std::exchange(of_thread_, this)) {}
  ~WaitsForUnorderedWrites() { of_thread_ = before_; }
  WaitsForUnorderedWrites(const WaitsForUnorderedWrites&) = delete;
  WaitsForUnorderedWrites& operator=(const WaitsForUnorderedWrites&) = delete;

  // This thread has come to the front of the queue. The database's mutex is let go meanwhile, which a memtable's write may take.
  static void HasEntered(rocksdb::InstrumentedMutex* db_mutex) {
    const WaitsForUnorderedWrites* const waits = std::exchange(of_thread_, nullptr);
    if (waits == nullptr || *waits->under_way_ == 0) return;
    db_mutex->Unlock();
    {
      std::unique_lock<std::mutex> lock(*waits->mutex_);
      waits->ended_->wait(lock, [waits] { return *waits->under_way_ == 0; });
    }
    db_mutex->Lock();
  }

 private:
  static thread_local WaitsForUnorderedWrites* of_thread_;
  const std::atomic<size_t>* const under_way_;
  std::mutex* const mutex_;
  std::condition_variable* const ended_;
  WaitsForUnorderedWrites* const before_;
};

}  // namespace cairn
