// Counts what listeners and iterators of later releases are told or may ask for, for test/release_test.cc.

#pragma once

#include <atomic>

#include "rocksdb/listener.h"
#include "rocksdb/options.h"
#include "rocksdb/port/rocksdb_version.h"

namespace cairn::port {

#if CAIRN_ROCKSDB_AT_LEAST(11, 4)

constexpr bool kHasNewEvents = true;

class NewEvents : public rocksdb::EventListener {
 public:
  void OnCompactionPreCommit(rocksdb::DB* /*db*/, const rocksdb::CompactionJobInfo& /*info*/) override { ++precommits; }
  void OnDBShutdownBegin(rocksdb::DB* /*db*/) override { ++shutdowns; }

  std::atomic<int> precommits{0};
  std::atomic<int> shutdowns{0};
};

#else

constexpr bool kHasNewEvents = false;

class NewEvents : public rocksdb::EventListener {
 public:
  std::atomic<int> precommits{0};
  std::atomic<int> shutdowns{0};
};

#endif

// An iterator at a snapshot gives back from time to time what it holds: auto_refresh_iterator_with_snapshot of 10.0.
inline void RefreshByItself(rocksdb::ReadOptions* options) {
#if CAIRN_ROCKSDB_AT_LEAST(10, 0)
  options->auto_refresh_iterator_with_snapshot = true;
#else
  (void)options;
#endif
}

}  // namespace cairn::port
