// Whether RocksDB's reader of logs has told of anything torn or damaged, or of what an older log of the same file has left.

#pragma once

#include <cstddef>

#include "db/log_reader.h"
#include "rocksdb/port/rocksdb_version.h"

namespace cairn::port {

struct DamageReporter : rocksdb::log::Reader::Reporter {
#if CAIRN_ROCKSDB_AT_LEAST(11, 0)
  void Corruption(size_t /*bytes*/, const rocksdb::Status& /*why*/, uint64_t /*wal*/) override { damaged = true; }
#else
  void Corruption(size_t /*bytes*/, const rocksdb::Status& /*why*/) override { damaged = true; }
#endif
  void OldLogRecord(size_t /*bytes*/) override { damaged = true; }

  bool damaged = false;
};

}  // namespace cairn::port
