#include "db/recovery_state.h"

#include <chrono>
#include <thread>

namespace cairn {

thread_local const rocksdb::ErrorHandler* tried_here = nullptr;
thread_local Attempt* Attempt::of_thread = nullptr;

// Never destroyed, for threads that outlive main.
Parts& AllParts() {
  static auto* const parts = new Parts();
  return *parts;
}

void AwaitClosingRecovery(const rocksdb::ErrorHandler* handler, const rocksdb::InstrumentedMutex* mutex) {
  while (AllParts().Has(handler, Part::kCloses) && Attempt::Find(mutex) == nullptr) {
    std::this_thread::sleep_for(std::chrono::microseconds(kMicrosBetweenLooks));
  }
}

}  // namespace cairn
