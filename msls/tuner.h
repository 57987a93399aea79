// The part of the tuner that RocksDB knows. It counts; a thread for each database decides (msls/tuner_logic.h), one
// column family after the other. One listener may serve several databases, of one Options object say: each is counted
// and tuned by itself.
//
// Option string: cairn.Tuner (with the default options, which only advise)
// Thread-safety: safe.

#pragma once

#include <functional>

#include "cairn/tuner.h"
#include "rocksdb/listener.h"

namespace cairn {

// Where a test may step in, on the tuner's thread. An error that it returns before SetOptions stands for a SetOptions
// that failed.
enum class TunerPoint { kBeforeSolving, kBeforeSetOptions };
using TunerHook = std::function<rocksdb::Status(TunerPoint)>;

// What a tuner does in a column family with these options; false: nothing.
using TunerChoice = bool (*)(const rocksdb::ColumnFamilyOptions& options, TunerOptions* tuner);

class TunerListener : public rocksdb::EventListener {
 public:
  // With the same options in all column families.
  explicit TunerListener(const TunerOptions& options, TunerHook hook = nullptr);
  explicit TunerListener(TunerChoice choice);
  static const char* kClassName() { return "cairn.Tuner"; }
  const char* Name() const override { return kClassName(); }

  void OnMemTableSealed(const rocksdb::MemTableInfo& info) override;
  void OnFlushBegin(rocksdb::DB* db, const rocksdb::FlushJobInfo& info) override;
  void OnFlushCompleted(rocksdb::DB* db, const rocksdb::FlushJobInfo& info) override;
  void OnCompactionCompleted(rocksdb::DB* db, const rocksdb::CompactionJobInfo& info) override;
  void OnColumnFamilyHandleDeletionStarted(rocksdb::ColumnFamilyHandle* handle) override;

 private:
  const TunerOptions options_;
  const TunerChoice choice_ = nullptr;  // in place of options_
  const TunerHook hook_;
};

// Ends the tuner's thread of the database whose handle of the default column family this is, if it has one, for good.
// REQUIRES: the database is about to be closed. What the thread sets once RocksDB has begun to close is lost, with
// memory.
void StopTuning(rocksdb::ColumnFamilyHandle* default_handle);

// Of how many column families of a database a tuner holds anything: for tests.
size_t TunedColumnFamilies(rocksdb::DB* db);

}  // namespace cairn
