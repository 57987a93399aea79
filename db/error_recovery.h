// What rocksdb_hooks.cc and cairn_db.cc tell those who recover a database from errors (recovery_state.h).

#pragma once

#include <atomic>
#include <cstdint>

namespace rocksdb {
class ErrorHandler;
class InstrumentedMutex;
}  // namespace rocksdb

namespace cairn {

// A write of a listener to the very database whose recovery it hears of, on the thread that recovers it: the next recovery
// waits for that thread, hence for whatever holds the write back, which is refused then. Costs nothing while no database
// recovers.
class ListenersWrite {
 public:
  // mutex: the database's.
  explicit ListenersWrite(rocksdb::InstrumentedMutex* mutex) {
    if (attempts.load(std::memory_order_relaxed) != 0) Begin(mutex);
  }
  ~ListenersWrite() {
    if (handler_ != nullptr) End();
  }
  ListenersWrite(const ListenersWrite&) = delete;
  ListenersWrite& operator=(const ListenersWrite&) = delete;

  static std::atomic<int> attempts;  // to recover a database, under way; a thread sees its own

 private:
  void Begin(rocksdb::InstrumentedMutex* mutex);
  void End();

  const rocksdb::ErrorHandler* handler_ = nullptr;  // null: no such write
};

// How often this thread has told of an error of a database, ever.
extern thread_local uint64_t errors_told;

// Before a database is destroyed: waits for the last steps of a recovery whose listener has closed it, unless this is the thread
// that recovers it. mutex: the database's.
void AwaitClosingRecovery(const rocksdb::ErrorHandler* handler, const rocksdb::InstrumentedMutex* mutex);

}  // namespace cairn
