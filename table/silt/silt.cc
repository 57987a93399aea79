// What a SILT store's options say; db/presets.cc sets RocksDB's up for one.

#include "cairn/silt.h"

#include <cstddef>
#include <unordered_map>

#include "rocksdb/utilities/options_type.h"
#include "table/ect/ect_table.h"
#include "table/hash_order/hash_order.h"
#include "table/silt/silt_merges.h"
#include "table/silt/silt_table.h"
#include "util/class_of.h"
#include "util/option_text.h"
#include "util/rocksdb_names.h"

namespace cairn {

namespace {

using rocksdb::OptionType;
using rocksdb::OptionTypeInfo;

const std::unordered_map<std::string, OptionTypeInfo>& SiltOptionTypes() {
  static const auto* types = [] {
    auto* made =
        new std::unordered_map<std::string, OptionTypeInfo>(EctTableOptionTypesAt(offsetof(SiltOptions, table)));
    made->insert({{"partitions", {offsetof(SiltOptions, partitions), OptionType::kInt}},
                  {"space_bound", {offsetof(SiltOptions, space_bound), OptionType::kDouble}},
                  {"hash", {offsetof(SiltOptions, hash), OptionType::kString}},
                  {"seed", {offsetof(SiltOptions, seed), OptionType::kUInt64T}},
                  {"merge_trigger", {offsetof(SiltOptions, merge_trigger), OptionType::kInt}},
                  {"max_hash_stores", {offsetof(SiltOptions, max_hash_stores), OptionType::kInt}},
                  {"merge_threads", {offsetof(SiltOptions, merge_threads), OptionType::kUInt32T}}});
    return made;
  }();
  return *types;
}

}  // namespace

Status SiltOptionsFromString(const std::string& text, SiltOptions* options) {
  return ParseOptions(text, SiltOptionTypes(), "silt options", ValidateSiltOptions, options);
}

std::string SiltOptionsToString(const SiltOptions& options) { return PrintOptions(&options, SiltOptionTypes()); }

Status ValidateSiltOptions(const SiltOptions& silt) {
  HashKind kind;
  Status s = ParseHashKind(silt.hash, &kind);
  if (!s.ok()) return s;
  const auto bad = [](const char* field, const std::string& value, const std::string& allowed) {
    return Status::InvalidArgument("silt option " + std::string(field) + " is " + value, "it may be " + allowed);
  };
  const int partitions = silt.partitions;
  if (partitions < 1 || partitions > 64 || (partitions & (partitions - 1)) != 0) {
    return bad("partitions", std::to_string(partitions), "1, 2, 4, 8, 16, 32 or 64");
  }
  if (!(silt.space_bound >= 1.1 && silt.space_bound <= 1000)) {
    return bad("space_bound", std::to_string(silt.space_bound), "1.1 to 1000");
  }
  if (silt.merge_trigger < 1 || silt.merge_trigger > 1000) {
    return bad("merge_trigger", std::to_string(silt.merge_trigger), "1 to 1000");
  }
  const int least = partitions == 1 ? silt.merge_trigger : 2;
  const int most = partitions == 1 ? 3000 : kMostHashStoresOfAPartition;
  if (silt.max_hash_stores != 0 && (silt.max_hash_stores < least || silt.max_hash_stores > most)) {
    return bad(
        "max_hash_stores", std::to_string(silt.max_hash_stores),
        partitions == 1 ? "0 or merge_trigger to 3000" : "0 or 2 to " + std::to_string(most) + " with partitions");
  }
  if (silt.merge_threads < 1 || silt.merge_threads > 1000) {
    return bad("merge_threads", std::to_string(silt.merge_threads), "1 to 1000");
  }
  return ValidateEctTableOptions(silt.table);
}

bool IsSilt(const rocksdb::ColumnFamilyOptions& options, SiltOptions* silt) {
  const KeyHash* const hash = HashOfComparator(options.comparator);
  const auto* const store = AsInstanceOf<SiltTableFactory>(options.table_factory.get());
  if (hash == nullptr || store == nullptr) return false;
  // What cuts tables into partitions is a trie's (db/presets.cc).
  const bool has_shape = store->merges().partitions > 1
                             ? options.sst_partitioner_factory != nullptr
                             : options.sst_partitioner_factory == nullptr && options.num_levels == kSiltLevels &&
                                   options.compaction_style == rocksdb::kCompactionStyleLevel;
  const auto* const factory = store->CheckedCast<EctTableFactory>();
  if (!has_shape || factory == nullptr) return false;
  if (silt != nullptr) {
    silt->hash = HashKindName(hash->kind());
    silt->seed = SeedIsOpen(options.comparator) ? kRandomSeed : hash->seed();
    silt->partitions = store->merges().partitions;
    silt->space_bound = store->merges().space_bound;
    silt->merge_trigger = store->merges().merge_trigger;
    silt->max_hash_stores = store->merges().max_hash_stores;
    silt->table = factory->options();
  }
  return true;
}

}  // namespace cairn
