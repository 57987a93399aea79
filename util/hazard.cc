#include "util/hazard.h"

#include <algorithm>
#include <utility>
#include <vector>
#include "util/mutex.h"

namespace cairn {

namespace {

struct Retired {
  const void* object;
  std::function<void()> free;
};

// Never destroyed: threads may still end after main.
struct Domain {
  std::atomic<HazardRecord*> records{nullptr};
  CheckedMutex mutex;
  std::vector<Retired> retired CAIRN_GUARDED_BY(mutex);
};

Domain& TheDomain() {
  static auto* domain = new Domain();
  return *domain;
}

}  // namespace

HazardRecord* TakeHazardRecord() {
  Domain& domain = TheDomain();
  for (HazardRecord* record = domain.records.load(std::memory_order_acquire); record != nullptr;
       record = record->next) {
    if (!record->taken.load(std::memory_order_relaxed) && !record->taken.exchange(true, std::memory_order_acq_rel)) {
      return record;
    }
  }
  auto* record = new HazardRecord();
  record->taken.store(true, std::memory_order_relaxed);
  record->next = domain.records.load(std::memory_order_relaxed);
  // Sequentially consistent, as the announcements: Retire looks at records that announce, or they see the new object.
  while (!domain.records.compare_exchange_weak(record->next, record, std::memory_order_seq_cst)) {
  }
  return record;
}

void GiveBack(HazardRecord* record) { record->taken.store(false, std::memory_order_release); }

void Retire(const void* object, std::function<void()> free) {
  Domain& domain = TheDomain();
  std::vector<Retired> unused;
  {
    const MutexLock lock(&domain.mutex);
    domain.retired.push_back({object, std::move(free)});
    std::vector<const void*> announced;
    for (HazardRecord* record = domain.records.load(std::memory_order_seq_cst); record != nullptr;
         record = record->next) {
      const void* const in_use = record->object.load(std::memory_order_seq_cst);
      if (in_use != nullptr) announced.push_back(in_use);
    }
    const auto in_use = [&announced](const Retired& retired) {
      return std::find(announced.begin(), announced.end(), retired.object) != announced.end();
    };
    const auto first_unused = std::partition(domain.retired.begin(), domain.retired.end(), in_use);
    unused.assign(std::make_move_iterator(first_unused), std::make_move_iterator(domain.retired.end()));
    domain.retired.erase(first_unused, domain.retired.end());
  }
  for (const Retired& retired : unused) retired.free();
}

}  // namespace cairn
