// Where a compaction that runs on this thread wants range deletions taken apart.
//
// RocksDB can end an output table before a key, or where the range deletion of an input begins. A table that holds
// little but one long range deletion has no such place, so it would lie over all that was deleted. A table's reader
// that hands its range deletions out in parts makes some; RocksDB writes the parts as it finds them.
//
// Thread-safety: of a scope, the thread that made it.

#pragma once

#include <string>
#include <vector>

namespace cairn {

class DeletionCutsScope {
 public:
  explicit DeletionCutsScope(std::vector<std::string> cuts);  // user keys in order
  ~DeletionCutsScope();
  DeletionCutsScope(const DeletionCutsScope&) = delete;
  DeletionCutsScope& operator=(const DeletionCutsScope&) = delete;

  // Of this thread's compaction; null if it wants none.
  static const std::vector<std::string>* Current();

 private:
  const std::vector<std::string> cuts_;
  const DeletionCutsScope* const outer_;
};

}  // namespace cairn
