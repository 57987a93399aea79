#include "table/hash_order/indexed_batches.h"

#include <algorithm>
#include <atomic>
#include <map>
#include <string>

#include "table/hash_order/hash_order.h"
#include "util/mutex.h"

namespace cairn {

using rocksdb::ColumnFamilyDescriptor;
using rocksdb::Comparator;
using rocksdb::Status;

namespace {

struct Orders {
  CheckedMutex mutex;
  std::map<HashKind, std::map<const Comparator*, int>> open CAIRN_GUARDED_BY(mutex);  // how many databases
  std::map<HashKind, const Comparator*> last CAIRN_GUARDED_BY(mutex);
  std::atomic<bool> left_open{false};  // whether any index has an open seed
};

Orders& TheOrders() {
  static auto* const orders = new Orders();
  return *orders;
}

Status WrongOrder(const std::string& which) {
  return Status::InvalidArgument(
      "WriteBatchWithIndex: its index is not in the order of " + which,
      "make it with the comparator of the open column family: "
      "WriteBatchWithIndex(db->DefaultColumnFamily()->GetComparator()), or write by the column family's handle");
}

}  // namespace

std::shared_ptr<const void> NoteAdoptedOrder(const std::vector<ColumnFamilyDescriptor>& given,
                                             const std::vector<ColumnFamilyDescriptor>& resolved) {
  const auto family = std::find_if(given.begin(), given.end(), [](const auto& one) {
    return one.name == rocksdb::kDefaultColumnFamilyName && SeedIsOpen(one.options.comparator);
  });
  if (family == given.end()) return nullptr;
  const Comparator* const order = resolved[static_cast<size_t>(family - given.begin())].options.comparator;
  if (SeedIsOpen(order)) return nullptr;
  const HashKind kind = HashOfComparator(order)->kind();
  Orders& orders = TheOrders();
  const MutexLock lock(&orders.mutex);
  ++orders.open[kind][order];
  orders.last[kind] = order;
  return std::shared_ptr<const void>(order, [kind, order](const void*) {
    Orders& all = TheOrders();
    const MutexLock locked(&all.mutex);
    if (--all.open[kind][order] == 0) all.open[kind].erase(order);
  });
}

const Comparator* OrderForIndex(const Comparator* comparator) {
  if (!SeedIsOpen(comparator)) return comparator;
  const HashKind kind = HashOfComparator(comparator)->kind();
  Orders& orders = TheOrders();
  const MutexLock lock(&orders.mutex);
  const auto& open = orders.open[kind];
  if (open.size() == 1) return open.begin()->first;
  const auto last = orders.last.find(kind);
  if (open.empty() && last != orders.last.end()) return last->second;
  orders.left_open.store(true, std::memory_order_relaxed);
  return comparator;
}

Status CheckIndexOrder(rocksdb::WriteBatchWithIndex* batch, rocksdb::ColumnFamilyHandle* family) {
  if (family == nullptr) {
    if (!TheOrders().left_open.load(std::memory_order_relaxed)) return Status::OK();
    TakeComparedByOpenSeed();
    const std::unique_ptr<rocksdb::WBWIIterator> entries(batch->NewIterator());
    entries->Seek("");
    return TakeComparedByOpenSeed() ? WrongOrder("any database") : Status::OK();
  }
  const Comparator* const order = family->GetComparator();
  if (HashOfComparator(order) == nullptr) return Status::OK();
  // Some keys tell: 16 in another order are in this one, too, once in 2 * 10^13.
  constexpr int kProbes = 16;
  const std::unique_ptr<rocksdb::WBWIIterator> entries(batch->NewIterator(family));
  std::string last;
  int probes = 0;
  for (entries->SeekToFirst(); entries->Valid() && probes < kProbes; entries->Next(), ++probes) {
    const rocksdb::Slice key = entries->Entry().key;
    if (probes > 0 && order->Compare(last, key) > 0) return WrongOrder("column family " + family->GetName());
    last.assign(key.data(), key.size());
  }
  return Status::OK();
}

}  // namespace cairn
