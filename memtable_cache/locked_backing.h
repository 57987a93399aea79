// A pool whose first pages lie in cache that the process has to itself (resctrl.h); what does not fit there lies where
// another backing puts it.
//
// Thread-safety: as Backing.

#pragma once

#include <memory>

#include "memtable_cache/backing.h"
#include "memtable_cache/resctrl.h"

namespace cairn {

// With a class of service, which works on cores and not on addresses, it only keeps the reservation; with a
// pseudo-locked region, the region is given out first, and again when it is free.
std::unique_ptr<Backing> NewLockedBacking(std::unique_ptr<CacheReservation> reservation, std::unique_ptr<Backing> rest);

}  // namespace cairn
