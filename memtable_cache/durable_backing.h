// The pool of sub-MemTables in a pool file: tells a DurablePool each step of a segment's life.
//
// Thread-safety: as Backing.

#pragma once

#include <cstdint>
#include <memory>

#include "memtable_cache/backing.h"
#include "memtable_cache/durable.h"

namespace cairn {

// Sealed segments stay where they are; on persistent memory they are written back line after line, at the seal with
// eADR, entry by entry without. `limit`: largest size of the file, 0: none.
std::unique_ptr<Backing> NewDurableBacking(std::shared_ptr<DurablePool> pool, uint64_t limit);

}  // namespace cairn
