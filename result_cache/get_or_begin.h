// What every read of a database asks of a cache, without the price of a virtual call, of a second look at which thread
// it is and, after a miss, of a second hash.
//
// Thread-safety: safe.

#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>

#include "cairn/cache.h"

namespace cairn::cache {

// cache->Get(key, value, space), by the thread whose ThreadCell() (result_cache/per_thread.h) is `cell`. *hash: of the
// key, for BeginFillOf.
ResultCache::Answer GetIn(size_t cell, ResultCache* cache, std::string_view key, std::string* value, uint32_t space,
                          uint64_t* hash);

// Of a key that GetIn has hashed and not found, before the store is read: Admit, and BeginFill if it says yes. Most
// fills of a full cache are not admitted, and then that was all.
bool BeginFillOf(size_t cell, ResultCache* cache, uint64_t hash, uint32_t space, ResultCache::FillTicket* ticket);

}  // namespace cairn::cache
