// Waits without sleeping, for what takes less time than to sleep and wake up.
//
// Thread-safety: all functions, by all threads.

#pragma once

#include "port/port.h"
#include "util/mutex.h"

namespace cairn {

// Asks done() so many times, with a pause of the processor's after each; whether it has said so.
template <class Done>
bool SpinUntil(int spins, const Done& done) {
  for (int i = 0; i < spins; ++i) {
    if (done()) return true;
    rocksdb::port::AsmVolatilePause();
  }
  return false;
}

// Tries so many times before it sleeps: for a mutex that is mostly held for less time than that.
inline void LockSpinning(CheckedMutex* mutex, int spins) CAIRN_ACQUIRE(mutex) CAIRN_NO_THREAD_SAFETY_ANALYSIS {
  if (!SpinUntil(spins, [&] { return mutex->TryLock(); })) mutex->Lock();
}

}  // namespace cairn
