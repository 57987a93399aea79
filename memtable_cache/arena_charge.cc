#include "memtable_cache/arena_charge.h"

#include "memory/arena.h"
#include "memory/concurrent_arena.h"

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

Arena& InnerArena(ConcurrentArena& outer);
AllocTracker* Tracker(Arena& arena);

template struct ArenaOf<&ConcurrentArena::arena_>;
template struct TrackerOf<&Arena::tracker_>;

}  // namespace

ArenaCharge::ArenaCharge(rocksdb::Allocator* allocator) {
  if (auto* concurrent = dynamic_cast<ConcurrentArena*>(allocator)) {
    tracker_ = Tracker(InnerArena(*concurrent));
  } else if (auto* arena = dynamic_cast<Arena*>(allocator)) {
    tracker_ = Tracker(*arena);
  }
}

}  // namespace cairn
