// What a memtable factory offers to be durable: cairn::Open recovers its pool file, gives it a DurablePool for the time
// that the database is open, and takes it back. Without a pool (opened for reading, or by rocksdb::DB::Open, which its
// ValidateOptions refuses) the factory uses plain memory and leaves the file alone.
//
// Thread-safety: UsePool may be called while memtables exist; each keeps the pool it was made with.

#pragma once

#include <cstdint>
#include <memory>
#include <string>

#include "memtable_cache/durable.h"
#include "rocksdb/memtablerep.h"

namespace cairn {

struct DurableSettings {
  std::string path;    // of the pool file; empty: CAIRN_POOL in the database's directory
  uint64_t bytes = 0;  // of the pool file
  bool require_persistent_memory = false;
  uint64_t locked_cache = 0;
};

class DurableMemTableFactory {
 public:
  virtual ~DurableMemTableFactory() = default;
  // False: not durable.
  virtual bool GetDurableSettings(DurableSettings* settings) const = 0;
  // Whether it serves an open database. It cannot serve a second one.
  virtual bool HasPool() const = 0;
  // False: it serves another open database, and goes on with that.
  virtual bool UsePool(const std::shared_ptr<DurablePool>& pool) = 0;
  virtual void LeavePool() = 0;
  // Of the same memtables, but in plain memory: for a database that is only read, or repaired.
  virtual std::shared_ptr<rocksdb::MemTableRepFactory> InPlainMemory() const = 0;
};

}  // namespace cairn
