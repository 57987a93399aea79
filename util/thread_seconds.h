// Processor time of the calling thread: what else runs on the machine is no part of it.

#pragma once

#include <time.h>

namespace cairn {

inline double ThreadSeconds() {
  timespec now;
  clock_gettime(CLOCK_THREAD_CPUTIME_ID, &now);
  return static_cast<double>(now.tv_sec) + 1e-9 * static_cast<double>(now.tv_nsec);
}

}  // namespace cairn
