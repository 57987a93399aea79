// The part of the tuner that RocksDB knows. It counts; a thread for each database decides (db/tuner_logic.h), one
// column family after the other.
//
// Option string: cairn.Tuner (with the default options, which only advise)
// Thread-safety: safe.

#pragma once

#include <deque>
#include <functional>
#include <map>
#include <mutex>
#include <string>
#include <utility>

#include "cairn/tuner.h"
#include "rocksdb/listener.h"

namespace cairn {

// Where a test may step in, on the tuner's thread. An error that it returns before SetOptions stands for a SetOptions
// that failed.
enum class TunerPoint { kBeforeSolving, kBeforeSetOptions };
using TunerHook = std::function<rocksdb::Status(TunerPoint)>;

class TunerListener : public rocksdb::EventListener {
 public:
  explicit TunerListener(const TunerOptions& options, TunerHook hook = nullptr);
  static const char* kClassName() { return "cairn.Tuner"; }
  const char* Name() const override { return kClassName(); }

  void OnMemTableSealed(const rocksdb::MemTableInfo& info) override;
  void OnFlushCompleted(rocksdb::DB* db, const rocksdb::FlushJobInfo& info) override;
  void OnCompactionCompleted(rocksdb::DB* db, const rocksdb::CompactionJobInfo& info) override;
  void OnColumnFamilyHandleDeletionStarted(rocksdb::ColumnFamilyHandle* handle) override;

 private:
  // First sequence number and number of entries.
  using Memtables = std::deque<std::pair<rocksdb::SequenceNumber, uint64_t>>;

  const TunerOptions options_;
  const TunerHook hook_;
  std::mutex mutex_;
  // Memtables sealed and not yet flushed, oldest first, by the name of the column family.
  std::map<std::string, Memtables> sealed_;  // guarded by mutex_
};

}  // namespace cairn
