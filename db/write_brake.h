// Slows the writers of a database down while a trie's root has fallen behind: RocksDB's own write controller does the
// delaying, the trie says how much.
//
// RocksDB's level-0 triggers would do the same, but they act from the open on, and a database opened by
// rocksdb::DB::Open starts its trie compaction at the first flush: a full level 0 would stop the writes that lead to
// that flush. So a trie's options switch the triggers off.
//
// Thread-safety: safe. Takes the DB mutex: REQUIRES: the caller does not hold it.

#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <mutex>

#include "db/db_impl/db_impl.h"
#include "db/write_controller.h"

namespace cairn {

class WriteBrake {
 public:
  // Writers get what they took of late, and at least `least_full_rate` bytes a second, when the brake begins to act.
  WriteBrake(rocksdb::DBImpl* db, uint64_t least_full_rate)
      : db_(db), least_full_rate_(least_full_rate), full_rate_(least_full_rate) {}

  // Tells of a flush: how fast writers are while nobody holds them.
  void Flushed(uint64_t bytes, uint64_t now_micros);

  // Sets the brake to what `pressure` returns: 0 lets go, 1 all but stops writers. Calls of Update are one after
  // another, so the last one to ask is the last one to act.
  void Update(const std::function<double()>& pressure);

  // Bytes a second that writers are held to; 0 when they are not.
  uint64_t rate() const { return rate_; }

 private:
  rocksdb::DBImpl* const db_;
  const uint64_t least_full_rate_;
  std::mutex mutex_;
  uint64_t full_rate_;
  uint64_t free_since_micros_ = 0;  // begin of a time without the brake; 0: none
  uint64_t free_bytes_ = 0;         // flushed since then
  std::unique_ptr<rocksdb::WriteControllerToken> token_;
  std::atomic<uint64_t> rate_{0};
};

// What writers get of the rate that they begin with, under a pressure from 0 to 1.
inline double ShareOfFullRate(double pressure) { return (1 - pressure) * (1 - pressure); }

// The most pressure of a trie at its space bound: it slows writers down to a hundredth. It never stops them, because
// more space is better than no service.
constexpr double kMostPressureForSpace = 0.9;

// The pressure of a root with `files` files that is due at `trigger`: 0 up to 3 times the trigger, 1 from 5 times on.
double RootPressure(uint64_t files, int trigger);

}  // namespace cairn
