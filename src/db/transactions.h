// What writes of transactions have to know of each other.

#pragma once

#include <utility>

namespace cairn {

// This thread rolls a transaction back.
//
// With two write queues RocksDB does it in two steps where it is written before it commits (WRITE_PREPARED, WRITE_UNPREPARED):
// the second one only counts what the first has written. Refused then by a database that has stopped meanwhile, the
// rollback would be neither there nor not there, and would lead compactions astray.
class RollbackScope {
 public:
  RollbackScope() : before_(std::exchange(is_on_, true)) {}
  ~RollbackScope() { is_on_ = before_; }
  RollbackScope(const RollbackScope&) = delete;
  RollbackScope& operator=(const RollbackScope&) = delete;

  static bool IsOn() { return is_on_; }

 private:
  static thread_local bool is_on_;
  const bool before_;
};

}  // namespace cairn
