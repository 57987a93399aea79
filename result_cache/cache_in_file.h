// A cache in a file for an owner who finds out later whether what the file holds may be believed: one above a database,
// which must be open before it is known what has become of it.

#pragma once

#include <cstdint>
#include <functional>
#include <memory>

#include "cairn/cache.h"
#include "result_cache/cache_file.h"

namespace cairn::cache {

// As ResultCache::Create of options with a path; the cache is empty, and nothing may be put into it before either
// Believe or file->Begin() was called. *file lives as long as the cache.
IndexStatus OpenUnbelieved(const ResultCacheOptions& options, std::unique_ptr<ResultCache>* cache, CacheFile** file);

// The items of these spaces are there from now on, the others are gone for good. `cache` is one of OpenUnbelieved.
void Believe(ResultCache* cache, const std::function<bool(uint32_t)>& spaces);

}  // namespace cairn::cache
