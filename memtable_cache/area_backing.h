// A pool in plain memory whose writers work in an *area*: few pages that stay in the cache. A segment has pages of the
// area from its claim until it is sealed by copy, or freed; what finds no room there lies outside from the start.
// docs/design/sub_memtable.md says which pages those are.
//
// Thread-safety: as Backing.
//
// Source: CacheKV (ICDE 2023), sections III-A and III-C.

#pragma once

#include <cstddef>
#include <memory>

#include "memtable_cache/backing.h"
#include "memtable_cache/resctrl.h"

namespace cairn {

enum class SealBy { kStaying, kCopy };

// The area is the pseudo-locked region of the reservation. If it has none, or is null, the area is a memory file of
// `area_bytes` where segments are sealed by copy; else there is none: a class of service works on cores, not on pages.
std::unique_ptr<Backing> NewAreaBacking(std::unique_ptr<CacheReservation> reservation, SealBy seal, size_t area_bytes);

}  // namespace cairn
