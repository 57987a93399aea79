#include "memtable_cache/arena_charge.h"

#include "memory/arena.h"
#include "memory/concurrent_arena.h"
#include "util/class_of.h"

// The memtable's arena has the tracker that the WriteBufferManager counts with, and no function that gives it. The
// language lets an explicit instantiation name private members; a RocksDB in which they are gone does not compile.

namespace cairn {

namespace {

using rocksdb::AllocTracker;
using rocksdb::Arena;
using rocksdb::ConcurrentArena;

template <auto kMember>
struct ArenaOf {
  friend Arena& InnerArena(ConcurrentArena& outer) { return outer.*kMember; }
};
template <auto kMember>
struct TrackerOf {
  friend AllocTracker* Tracker(Arena& arena) { return arena.*kMember; }
};

template <auto kMember>
struct ManagerOf {
  friend rocksdb::WriteBufferManager* Manager(AllocTracker& tracker) { return tracker.*kMember; }
};

Arena& InnerArena(ConcurrentArena& outer);
AllocTracker* Tracker(Arena& arena);
rocksdb::WriteBufferManager* Manager(AllocTracker& tracker);

template struct ArenaOf<&ConcurrentArena::arena_>;
template struct TrackerOf<&Arena::tracker_>;
template struct ManagerOf<&AllocTracker::write_buffer_manager_>;

}  // namespace

ArenaCharge::ArenaCharge(rocksdb::Allocator* allocator) {
  static auto* const concurrent_example = new ConcurrentArena();
  static auto* const example = new Arena();
  if (auto* concurrent = AsSameClassAs(concurrent_example, allocator)) {
    tracker_ = Tracker(InnerArena(*concurrent));
  } else if (auto* arena = AsSameClassAs(example, allocator)) {
    tracker_ = Tracker(*arena);
  }
  rocksdb::WriteBufferManager* const manager = tracker_ == nullptr ? nullptr : Manager(*tracker_);
  if (manager != nullptr && (manager->enabled() || manager->cost_to_cache())) manager_ = manager;
}

}  // namespace cairn
