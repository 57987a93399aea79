// What is told of damage by a reader of RocksDB's log format. Since 10.0 RocksDB also says which log it is.

#pragma once

#include "db/log_reader.h"
#include "rocksdb/port/rocksdb_version.h"

namespace cairn::port {

class LogReporter : public rocksdb::log::Reader::Reporter {
 public:
  // `bytes`, about, are dropped.
  virtual void Dropped(size_t bytes, const rocksdb::Status& why) = 0;

#if CAIRN_ROCKSDB_AT_LEAST(10, 0)
  void Corruption(size_t bytes, const rocksdb::Status& why, uint64_t /*log_number*/) final { Dropped(bytes, why); }
#else
  void Corruption(size_t bytes, const rocksdb::Status& why) final { Dropped(bytes, why); }
#endif
};

// Keeps the first fault.
class FirstFault : public LogReporter {
 public:
  void Dropped(size_t /*bytes*/, const rocksdb::Status& why) override {
    if (status.ok()) status = why;
  }
  rocksdb::Status status;
};

}  // namespace cairn::port
