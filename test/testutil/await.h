// Waits for what other threads bring about.

#pragma once

#include <chrono>
#include <thread>

namespace cairn {

// Whether `done` comes true within a minute.
template <typename Done>
bool Await(const Done& done) {
  for (int i = 0; i < 6000; ++i) {
    if (done()) return true;
    std::this_thread::sleep_for(std::chrono::milliseconds(10));
  }
  return false;
}

}  // namespace cairn
