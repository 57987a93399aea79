// A pool in plain memory whose writers work in an *area*: few pages that stay in the cache. A segment has pages of the
// area from its claim until it is sealed by copy, or freed; what finds no room there lies outside from the start.
// docs/design/sub_memtable.md says which pages those are.
//
// Thread-safety: as Backing.
//
// Source: CacheKV (ICDE 2023), sections III-A and III-C.

#pragma once

#include <cstdint>
#include <memory>
#include <optional>

#include "memtable_cache/backing.h"
#include "memtable_cache/resctrl.h"

namespace cairn {

// The area is a memory file. Without `area_bytes` there is none, and segments are sealed in place. The reservation, if
// it is not null, is of the cores that writers run on, and lasts as long as the backing.
std::unique_ptr<Backing> NewAreaBacking(std::unique_ptr<CacheReservation> reservation,
                                        std::optional<uint64_t> area_bytes);

}  // namespace cairn
