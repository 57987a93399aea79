#include "util/cairn_parts.h"

#include <algorithm>

#include "rocksdb/comparator.h"
#include "rocksdb/listener.h"
#include "rocksdb/memtablerep.h"
#include "rocksdb/sst_partitioner.h"
#include "rocksdb/table.h"
#include "rocksdb/table_properties.h"

namespace cairn {

namespace {

template <class Pointer>
bool IsCairn(const Pointer& part) {
  return part != nullptr && IsCairnName(part->Name());
}

template <class Container>
bool AnyIsCairn(const Container& parts) {
  return std::any_of(parts.begin(), parts.end(), [](const auto& part) { return IsCairn(part); });
}

}  // namespace

bool UsesCairn(const rocksdb::ColumnFamilyOptions& options) {
  return IsCairn(options.comparator) || IsCairn(options.memtable_factory) || IsCairn(options.table_factory) ||
         IsCairn(options.sst_partitioner_factory) || AnyIsCairn(options.table_properties_collector_factories);
}

bool UsesCairn(const rocksdb::DBOptions& options, const std::vector<rocksdb::ColumnFamilyDescriptor>& families) {
  return AnyIsCairn(options.listeners) ||
         std::any_of(families.begin(), families.end(), [](const auto& family) { return UsesCairn(family.options); });
}

}  // namespace cairn
