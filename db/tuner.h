// The part of the tuner that RocksDB knows. It counts; a thread for each database decides (db/tuner_logic.h).
//
// Option string: cairn.Tuner (with the default options, which only advise)
// Thread-safety: safe.

#pragma once

#include <mutex>

#include "cairn/tuner.h"
#include "rocksdb/listener.h"

namespace cairn {

class TunerListener : public rocksdb::EventListener {
 public:
  explicit TunerListener(const TunerOptions& options);
  static const char* kClassName() { return "cairn.Tuner"; }
  const char* Name() const override { return kClassName(); }

  void OnMemTableSealed(const rocksdb::MemTableInfo& info) override;
  void OnFlushCompleted(rocksdb::DB* db, const rocksdb::FlushJobInfo& info) override;
  void OnCompactionCompleted(rocksdb::DB* db, const rocksdb::CompactionJobInfo& info) override;
  void OnColumnFamilyHandleDeletionStarted(rocksdb::ColumnFamilyHandle* handle) override;

 private:
  const TunerOptions options_;
  std::mutex mutex_;
  uint64_t sealed_writes_ = 0;  // guarded by mutex_: of memtables sealed and not yet flushed
};

}  // namespace cairn
