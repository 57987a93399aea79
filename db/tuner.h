// The part of the tuner that RocksDB knows. It counts; a thread for each database decides (db/tuner_logic.h).
//
// Option string: cairn.Tuner (with the default options, which only advise)
// Thread-safety: safe.

#pragma once

#include <deque>
#include <mutex>
#include <utility>

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
  // Memtables sealed and not yet flushed, oldest first: their first sequence number and number of entries.
  std::deque<std::pair<rocksdb::SequenceNumber, uint64_t>> sealed_;  // guarded by mutex_
};

}  // namespace cairn
