// Sets RocksDB's options up for ordered tables.

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <string>
#include <unordered_map>
#include <utility>

#include "cairn/ordered.h"
#include "rocksdb/comparator.h"
#include "rocksdb/filter_policy.h"
#include "rocksdb/utilities/options_type.h"
#include "table/ordered_table.h"

namespace cairn {

using rocksdb::Status;

namespace {

const std::unordered_map<std::string, rocksdb::OptionTypeInfo>& OptionTypes() {
  constexpr auto kOrder = offsetof(OrderedOptions, order);
  static const auto* types = new std::unordered_map<std::string, rocksdb::OptionTypeInfo>{
      {"runs", {offsetof(OrderedOptions, runs), rocksdb::OptionType::kInt}},
      {"filter_bits", {offsetof(OrderedOptions, filter_bits), rocksdb::OptionType::kDouble}},
      {"order_bits", {kOrder + offsetof(OrderFilterOptions, order_bits), rocksdb::OptionType::kDouble}},
      {"extra_order_bits", {kOrder + offsetof(OrderFilterOptions, extra_order_bits), rocksdb::OptionType::kDouble}}};
  return *types;
}

}  // namespace

Status OrderedOptionsFromString(const std::string& text, OrderedOptions* options) {
  OrderedOptions parsed = *options;
  rocksdb::ConfigOptions config;
  config.ignore_unknown_options = false;
  const Status s = rocksdb::OptionTypeInfo::ParseType(config, text, OptionTypes(), &parsed);
  if (!s.ok()) return Status::InvalidArgument("options of ordered tables \"" + text + "\"", s.ToString());
  *options = parsed;
  return s;
}

Status UseOrderedTable(rocksdb::ColumnFamilyOptions* options, const OrderedOptions& ordered) {
  if (options->comparator != rocksdb::BytewiseComparator()) {
    return Status::NotSupported("an order filter with the comparator " + std::string(options->comparator->Name()),
                                "it knows rocksdb::BytewiseComparator() without timestamps");
  }
  rocksdb::BlockBasedTableOptions table;
  if (options->table_factory != nullptr) {
    const auto* given = options->table_factory->GetOptions<rocksdb::BlockBasedTableOptions>();
    if (given == nullptr) {
      return Status::NotSupported("an order filter with the table factory " +
                                      std::string(options->table_factory->Name()),
                                  "set a block-based table");
    }
    table = *given;
  }
  if (ordered.filter_bits >= 0) {
    table.filter_policy.reset(ordered.filter_bits > 0 ? rocksdb::NewBloomFilterPolicy(ordered.filter_bits) : nullptr);
  }
  auto factory = std::make_shared<OrderedTableFactory>(table, ordered.order);
  const Status s = factory->ValidateOptions(rocksdb::DBOptions(), rocksdb::ColumnFamilyOptions());
  if (s.ok()) options->table_factory = std::move(factory);
  return s;
}

Status UseOrdered(rocksdb::ColumnFamilyOptions* options, const OrderedOptions& ordered) {
  if (ordered.runs < 2) {
    return Status::InvalidArgument("option runs of ordered tables is " + std::to_string(ordered.runs),
                                   "it may be 2 or more");
  }
  const Status s = UseOrderedTable(options, ordered);
  if (!s.ok()) return s;
  options->compaction_style = rocksdb::kCompactionStyleUniversal;
  options->level0_file_num_compaction_trigger = ordered.runs;
  // Writers wait where compaction falls behind by as many runs again.
  options->level0_slowdown_writes_trigger = std::max(options->level0_slowdown_writes_trigger, 2 * ordered.runs);
  options->level0_stop_writes_trigger = std::max(options->level0_stop_writes_trigger, 3 * ordered.runs);
  return s;
}

}  // namespace cairn
