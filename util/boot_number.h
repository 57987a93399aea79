// Which boot of the system this is: what a process wrote into a shared mapping without a sync is there under the same
// boot, and may be gone under another.
//
// Thread-safety: safe.

#pragma once

#include <cstdint>

namespace cairn {

// 0: not known, so no two are the same.
uint64_t BootNumber();

}  // namespace cairn
