// What every read of a database asks of a cache, without the price of a virtual call and of a second look at which thread
// it is.
//
// Thread-safety: safe.

#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>

#include "cairn/cache.h"

namespace cairn::cache {

// cache->GetOrBegin(key, value, space, ticket), by the thread whose ThreadCell() (src/cache/per_thread.h) is `cell`.
ResultCache::Answer GetOrBeginIn(size_t cell, ResultCache* cache, std::string_view key, std::string* value,
                                 uint32_t space, ResultCache::FillTicket* ticket);

}  // namespace cairn::cache
