// What every read of a database asks of a cache, without the price of a virtual call, of a second look at which thread
// it is and, after a miss, of a second hash.
//
// Thread-safety: safe.

#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <string_view>

#include "cairn/cache.h"
#include "result_cache/cache_file.h"

namespace cairn::cache {

// cache->Get(key, value, space), by the thread whose ThreadCell() (result_cache/per_thread.h) is `cell`. *hash: of the
// key, for BeginFillOf.
ResultCache::Answer GetIn(size_t cell, ResultCache* cache, std::string_view key, std::string* value, uint32_t space,
                          uint64_t* hash);

// Of a key that GetIn has hashed and not found, before the store is read: Admit, and BeginFill if it says yes. Most
// fills of a full cache are not admitted, and then that was all.
bool BeginFillOf(size_t cell, ResultCache* cache, uint64_t hash, uint32_t space, ResultCache::FillTicket* ticket);

// A cache in a file for an owner who finds out later whether what the file holds may be believed: one above a database,
// which must be open before it is known what has become of it.
//
// As ResultCache::Create of options with a path; the cache is empty, and nothing may be put into it before either
// Believe or file->Begin() was called. *file lives as long as the cache. `stamps`: CacheFile::Shape's.
IndexStatus OpenUnbelieved(const ResultCacheOptions& options, bool stamps, std::unique_ptr<ResultCache>* cache,
                           CacheFile** file);

// The items of these spaces are there from now on, the others are gone for good. `cache` is one of OpenUnbelieved.
// `stamps`: which items with a stamp to believe; null: all.
void Believe(ResultCache* cache, const std::function<bool(uint32_t)>& spaces,
             const std::function<bool(std::string_view key, uint64_t stamp)>& stamps);

}  // namespace cairn::cache
