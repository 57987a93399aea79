// The pool of sub-MemTables in a pool file: tells a DurablePool each step of a segment's life.
//
// Thread-safety: as Backing.

#pragma once

#include <cstdint>
#include <memory>

#include "memtable_cache/backing.h"
#include "memtable_cache/durable.h"
#include "memtable_cache/resctrl.h"

namespace cairn {

// On persistent memory with eADR, sealed segments leave the cache: those that have pages of the area, `area_bytes` of
// the file, by a copy, others where they are. Without eADR each entry is flushed. `limit`: largest size of the file, 0:
// none. `cache`, or null, lives as long.
std::unique_ptr<Backing> NewDurableBacking(std::shared_ptr<DurablePool> pool, uint64_t limit, uint64_t area_bytes = 0,
                                           std::unique_ptr<CacheReservation> cache = nullptr);

}  // namespace cairn
