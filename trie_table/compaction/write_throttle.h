// Slows the writers of a database down while a trie's root has fallen behind: RocksDB's own write controller does the
// delaying, the trie says how much.
//
// RocksDB's level-0 triggers would do the same, but they act from the open on, and a database opened by
// rocksdb::DB::Open starts its trie compaction at the first flush: a full level 0 would stop the writes that lead to
// that flush. So a trie's options switch the triggers off.
//
// Thread-safety: safe. Takes the DB mutex: REQUIRES: the caller does not hold it.

#pragma once

#include <atomic>
#include <cstdint>
#include <functional>
#include <memory>

#include "db/db_impl/db_impl.h"
#include "db/write_controller.h"
#include "util/mutex.h"

namespace cairn {

// The law: under a pressure p, RocksDB's writers are held to
//
//   min(delayed_write_rate, full * (1 - p)^2) bytes of write batches per second, 4 KiB at least,
//
// where `full` is what writers took while nothing held them, or delayed_write_rate if that is more. RocksDB has one
// rate for all its column families and changes it by itself: it caps it at delayed_write_rate, and multiplies it by 1.4
// whenever one of them installs a flush or a compaction, or begins a memtable. So each Update sets it anew, and while
// the write throttle is on, its owner calls Update every tenth of a second. It is left alone while it is
// lower than what was set last: then a column family that is no trie holds writers back, too.
class WriteThrottle {
 public:
  explicit WriteThrottle(rocksdb::DBImpl* db);

  // Sets the write throttle to what `pressure` returns: 0 lets go, 1 all but stops writers. Calls of Update are one
  // after another, so the last one to ask is the last one to act. Whether this call has switched it on: who asks for
  // the rate before and after may miss that, because others call in between.
  bool Update(uint64_t now_micros, const std::function<double()>& pressure);

  // Lets go for good. The DB may be closing.
  void Release();

  // Bytes a second that writers were held to after the last Update, read back from RocksDB; 0 when they were not.
  uint64_t rate() const { return rate_; }

 private:
  void MeasureFreeWriters(uint64_t now_micros) CAIRN_REQUIRES(mutex_);

  rocksdb::DBImpl* const db_;
  CheckedMutex mutex_;
  uint64_t free_rate_ CAIRN_GUARDED_BY(mutex_) = 0;          // what writers took of late while nothing held them
  uint64_t free_since_micros_ CAIRN_GUARDED_BY(mutex_) = 0;  // begin of a time without the write throttle; 0: none
  uint64_t bytes_then_ CAIRN_GUARDED_BY(mutex_) = 0;         // written to the DB until then
  uint64_t last_set_ CAIRN_GUARDED_BY(mutex_) = 0;
  std::unique_ptr<rocksdb::WriteControllerToken> token_ CAIRN_GUARDED_BY(mutex_);
  std::atomic<uint64_t> rate_{0};
};

// What writers get of the rate that they begin with, under a pressure from 0 to 1.
inline double ShareOfFullRate(double pressure) { return (1 - pressure) * (1 - pressure); }

// The most pressure of a trie at its space bound: it slows writers down to a hundredth. It never stops them, because
// more space is better than no service.
constexpr double kMostPressureForSpace = 0.9;

// Where RocksDB's level0_slowdown_writes_trigger and level0_stop_writes_trigger are by default: a small root holds
// nobody back before a leveled column family would.
constexpr int kLeastFilesToSlow = 20;
constexpr int kLeastFilesToStop = 36;

// The pressure of a root with `files` files that is due at `trigger`: 0 up to 3 times the trigger, but no fewer than
// kLeastFilesToSlow files; 1 from 5 times the trigger on, but no fewer than kLeastFilesToStop.
double RootPressure(uint64_t files, int trigger);

}  // namespace cairn
