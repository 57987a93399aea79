// What the device under a folder can do: random reads of 4 KiB past the page cache, so many at once. Benchmarks give
// engines' reads as a share of it.
//
// Thread-safety: one thread calls.

#pragma once

#include <string>

#include "rocksdb/status.h"

namespace cairn::bench {

struct DeviceRate {
  double reads_per_second = 0;
  double cpu_micros = 0;  // per read
};

// Of the largest file in the folder, by io_uring, for `seconds`. NotSupported where the kernel has none.
rocksdb::Status MeasureDevice(const std::string& folder, unsigned depth, double seconds, DeviceRate* rate);

}  // namespace cairn::bench
