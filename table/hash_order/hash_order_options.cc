#include "table/hash_order/hash_order_options.h"

#include <cstdint>

#include "rocksdb/comparator.h"
#include "rocksdb/port/family_options.h"
#include "rocksdb/slice_transform.h"
#include "table/hash_order/batches.h"
#include "table/hash_order/hash_order.h"
#include "table/hash_order/prefix_order.h"
#include "util/rocksdb_names.h"

namespace cairn {

Status ObeyAges(const std::string& store, rocksdb::ColumnFamilyOptions* options) {
  if (port::CompactsWhatIsRead(*options)) {
    return Status::NotSupported("read_triggered_compaction_threshold", store + " compacts by size and age only");
  }
  for (uint64_t* age : {&options->ttl, &options->periodic_compaction_seconds}) *age = AgeOf(*age);
  return Status::OK();
}

Status PrepareForHashOrder(rocksdb::ColumnFamilyOptions* options) {
  if (options->prefix_extractor != nullptr) {
    return Status::NotSupported("prefix_extractor", "keys of one prefix are not neighbours in hash order");
  }
  if (options->comparator != nullptr && options->comparator->timestamp_size() > 0) {
    return Status::NotSupported("user-defined timestamps", "a store in hash order has none");
  }
  return ObeyAges("a store in hash order", options);
}

Status CheckHashOrder(const rocksdb::ColumnFamilyOptions& options, const std::string& family) {
  if (port::IteratorsDeleteRanges(options) && RefusesRangeDeletions(options)) {
    return Status::NotSupported("min_tombstones_for_range_conversion of column family " + family,
                                "iterators would write range tombstones, which it does not take: set 0");
  }
  if (options.prefix_extractor == nullptr) return Status::OK();
  if (SplitsPrefixes(options.comparator, *options.prefix_extractor)) {
    return Status::NotSupported(
        "prefix_extractor " + options.prefix_extractor->GetId() + " of column family " + family,
        "it takes more of a key than the prefixes of " + std::string(options.comparator->Name()) +
            ", behind which keys are in the order of their hash, and scans of a prefix would miss some");
  }
  if (HashOfComparator(options.comparator) == nullptr) return Status::OK();
  return Status::NotSupported(
      "prefix_extractor " + std::string(options.prefix_extractor->Name()) + " of column family " + family,
      "its keys are in hash order, where those of one prefix are not neighbours, and scans of a prefix would miss "
      "some: "
      "set prefix_extractor=nullptr");
}

}  // namespace cairn
