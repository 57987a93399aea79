#include "memtable_cache/free_charges.h"

#include <algorithm>
#include <map>

#include "memtable_cache/arena_charge.h"
#include "util/mutex.h"

namespace cairn {

using rocksdb::WriteBufferManager;

namespace {

// Of a limit, what all pools together may count and keep.
constexpr size_t kPartOfLimit = 16;

struct Counted {
  size_t pools = 0;
  size_t bytes = 0;
};

struct Charges {
  CheckedMutex mutex;
  std::map<WriteBufferManager*, Counted> managers CAIRN_GUARDED_BY(mutex);
};

Charges& All() {
  static auto* const charges = new Charges();
  return *charges;
}

}  // namespace

void FreeCharges::Join(WriteBufferManager* manager) {
  const MutexLock lock(&All().mutex);
  ++All().managers[manager].pools;
}

void FreeCharges::Leave(WriteBufferManager* manager, size_t counted) {
  {
    const MutexLock lock(&All().mutex);
    Counted& all = All().managers.at(manager);
    all.bytes -= counted;
    // Another manager may come to lie at its address.
    if (--all.pools == 0) All().managers.erase(manager);
  }
  manager->FreeMem(counted);
}

size_t FreeCharges::Change(WriteBufferManager* manager, size_t counted, size_t free) {
  size_t now = free;
  {
    const MutexLock lock(&All().mutex);
    size_t& all = All().managers.at(manager).bytes;
    const size_t others = all - counted;
    if (manager->enabled()) {
      const size_t most = manager->buffer_size() / kPartOfLimit;
      now = std::min(free, most - std::min(most, others));
    }
    all = others + now;
  }
  if (now > counted) PassingCharge::Take(manager, now - counted);
  if (now < counted) manager->FreeMem(counted - now);
  return now;
}

size_t FreeCharges::MostFree(WriteBufferManager* manager) {
  if (!manager->enabled()) return SIZE_MAX;
  const MutexLock lock(&All().mutex);
  return manager->buffer_size() / kPartOfLimit / All().managers.at(manager).pools;
}

}  // namespace cairn
