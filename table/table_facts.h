// The properties that engines in hash order add to every table: the column family's totals and, in tries, a sketch of
// its keys and the times of its values (ttl_stamps.h).
//
// Thread-safety: a TableFacts serves one table builder.

#pragma once

#include <functional>
#include <memory>
#include <utility>

#include "db/table_properties_collector.h"
#include "table/hash_order/hash_order.h"
#include "table/key_sketch.h"
#include "table/table_builder.h"
#include "table/written_totals.h"

namespace cairn {

// Has collectors made by a function.
class CollectorFactory : public rocksdb::InternalTblPropCollFactory {
 public:
  using Make = std::function<rocksdb::InternalTblPropColl*(uint32_t column_family_id, int level, int num_levels,
                                                           rocksdb::SequenceNumber threshold)>;
  CollectorFactory(const char* name, Make make) : name_(name), make_(std::move(make)) {}
  const char* Name() const override { return name_; }
  rocksdb::InternalTblPropColl* CreateInternalTblPropColl(uint32_t column_family_id, int level, int num_levels,
                                                          rocksdb::SequenceNumber threshold) override {
    return make_(column_family_id, level, num_levels, threshold);
  }

 private:
  const char* const name_;
  const Make make_;
};

// Of all entries. Raw keys hold eight bytes of sequence number and type.
inline uint64_t KeyAndValueBytes(const rocksdb::TableProperties& properties) {
  return properties.raw_key_size + properties.raw_value_size - 8 * properties.num_entries;
}

// The collectors that `options` ask for, to add others to; for the construction of one table builder, which they must
// outlive.
std::unique_ptr<rocksdb::InternalTblPropCollFactories> CollectorsOf(const rocksdb::TableBuilderOptions& options);

// The collectors that `options` ask for and one for the facts; for the construction of one table builder, which it must
// outlive.
std::unique_ptr<rocksdb::InternalTblPropCollFactories> CollectorsWithFacts(const rocksdb::TableBuilderOptions& options);

}  // namespace cairn
