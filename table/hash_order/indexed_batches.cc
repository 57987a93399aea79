#include "table/hash_order/indexed_batches.h"

#include <memory>
#include <string>

#include "table/hash_order/hash_order.h"

namespace cairn {

using rocksdb::Comparator;
using rocksdb::Status;

namespace {

Status WrongOrder(const std::string& which) {
  return Status::InvalidArgument(
      "WriteBatchWithIndex: its index is not in the order of " + which,
      "make it with the comparator of the open column family: "
      "WriteBatchWithIndex(db->DefaultColumnFamily()->GetComparator()), or write by the column family's handle");
}

}  // namespace

Status CheckIndexOrder(rocksdb::WriteBatchWithIndex* batch, rocksdb::ColumnFamilyHandle* family) {
  const Comparator* const order = family->GetComparator();
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

Status CheckIndexSeed(rocksdb::WriteBatchWithIndex* batch) {
  TakeComparedByOpenSeed();
  const std::unique_ptr<rocksdb::WBWIIterator> entries(batch->NewIterator());
  entries->Seek("");
  return TakeComparedByOpenSeed() ? WrongOrder("any database") : Status::OK();
}

}  // namespace cairn
