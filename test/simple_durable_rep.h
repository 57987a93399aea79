// The least memtable that can be durable: entries in segments of a pool file, a sorted set of pointers as the index.
// Tests of the pool file run on it, so that what they find is not the business of a better index.
//
// Thread-safety: as a memtable; the factory may be shared by the column families of one database.

#pragma once

#include <memory>

#include "memtable_cache/durable_factory.h"
#include "rocksdb/memtablerep.h"

namespace cairn {
namespace test {

std::shared_ptr<rocksdb::MemTableRepFactory> NewSimpleDurableFactory(const DurableSettings& settings,
                                                                     uint64_t segment_bytes = 32 << 10);

}  // namespace test
}  // namespace cairn
