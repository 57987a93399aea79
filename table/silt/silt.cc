// Sets RocksDB's options up for a SILT store.

#include "cairn/silt.h"

#include <algorithm>
#include <cstddef>
#include <memory>
#include <unordered_map>

#include "rocksdb/convenience.h"
#include "rocksdb/utilities/options_type.h"
#include "table/ect/ect_table.h"
#include "table/hash_order/hash_order.h"
#include "table/hash_order/hash_order_options.h"
#include "table/silt/silt_merges.h"
#include "table/silt/silt_table.h"
#include "util/class_of.h"
#include "util/listeners.h"
#include "util/option_text.h"

namespace cairn {

using rocksdb::Status;

namespace {

// The last level takes everything, however much that is.
constexpr uint64_t kNoLimit = uint64_t{1} << 60;
constexpr int kLevels = 2;  // HashStores and the SortedStore

// RocksDB counts the HashStores.
void SetTriggers(const SiltOptions& silt, rocksdb::ColumnFamilyOptions* options) {
  const int most = MaxHashStores(silt);
  options->level0_file_num_compaction_trigger = most;
  options->level0_slowdown_writes_trigger = most + 2 * silt.merge_trigger;
  options->level0_stop_writes_trigger = options->level0_slowdown_writes_trigger + silt.merge_trigger;
}

using rocksdb::OptionType;
using rocksdb::OptionTypeInfo;

const std::unordered_map<std::string, OptionTypeInfo>& SiltOptionTypes() {
  static const auto* types = [] {
    auto* made =
        new std::unordered_map<std::string, OptionTypeInfo>(EctTableOptionTypesAt(offsetof(SiltOptions, table)));
    made->insert({{"hash", {offsetof(SiltOptions, hash), OptionType::kString}},
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
  if (silt.merge_trigger < 1 || silt.merge_trigger > 1000) {
    return Status::InvalidArgument("silt option merge_trigger is " + std::to_string(silt.merge_trigger),
                                   "it may be 1 to 1000");
  }
  if (silt.max_hash_stores != 0 && (silt.max_hash_stores < silt.merge_trigger || silt.max_hash_stores > 3000)) {
    return Status::InvalidArgument("silt option max_hash_stores is " + std::to_string(silt.max_hash_stores),
                                   "it may be 0 or merge_trigger to 3000");
  }
  if (silt.merge_threads < 1 || silt.merge_threads > 1000) {
    return Status::InvalidArgument("silt option merge_threads is " + std::to_string(silt.merge_threads),
                                   "it may be 1 to 1000");
  }
  return ValidateEctTableOptions(silt.table);
}

Status UseSilt(rocksdb::ColumnFamilyOptions* options, const SiltOptions& silt) {
  Status s = ValidateSiltOptions(silt);
  if (!s.ok()) return s;
  s = PrepareForHashOrder(options);
  if (!s.ok()) return s;
  HashKind kind = HashKind::kXxh3;
  s = ParseHashKind(silt.hash, &kind);
  if (!s.ok()) return s;

  const rocksdb::BlockBasedTableOptions* blocks = nullptr;
  if (silt.table.table == nullptr && options->table_factory != nullptr &&
      options->table_factory->IsInstanceOf(rocksdb::TableFactory::kBlockBasedTableName())) {
    blocks = options->table_factory->GetOptions<rocksdb::BlockBasedTableOptions>();
  }
  const std::shared_ptr<rocksdb::TableFactory> table =
      blocks != nullptr ? NewEctTableFactoryLike(*blocks, silt.table) : std::make_shared<EctTableFactory>(silt.table);
  options->comparator = silt.seed == kRandomSeed ? OpenSeedComparator(kind) : HashOrderComparator(kind, silt.seed);
  options->table_factory =
      std::make_shared<SiltTableFactory>(table, SiltMergeOptions{silt.merge_trigger, silt.max_hash_stores});
  options->compaction_style = rocksdb::kCompactionStyleLevel;
  options->num_levels = kLevels;
  options->level_compaction_dynamic_level_bytes = false;
  options->max_bytes_for_level_base = kNoLimit;
  options->max_compaction_bytes = kNoLimit;
  SetTriggers(silt, options);
  return Status::OK();
}

Status UseSiltMerges(rocksdb::DBOptions* options, const SiltOptions& silt) {
  const Status s = ValidateSiltOptions(silt);
  if (!s.ok()) return s;
  options->max_subcompactions = std::max(options->max_subcompactions, silt.merge_threads);
  AddListener<SiltMerges>(options);
  return s;
}

Status UseSilt(rocksdb::Options* options, const SiltOptions& silt) {
  const Status s = UseSilt(static_cast<rocksdb::ColumnFamilyOptions*>(options), silt);
  return s.ok() ? UseSiltMerges(options, silt) : s;
}

bool IsSilt(const rocksdb::ColumnFamilyOptions& options, SiltOptions* silt) {
  const KeyHash* const hash = HashOfComparator(options.comparator);
  const auto* const store = AsInstanceOf<SiltTableFactory>(options.table_factory.get());
  if (hash == nullptr || store == nullptr || options.num_levels != kLevels ||
      options.compaction_style != rocksdb::kCompactionStyleLevel) {
    return false;
  }
  const auto* factory = store->CheckedCast<EctTableFactory>();
  if (factory == nullptr) return false;
  if (silt != nullptr) {
    silt->hash = HashKindName(hash->kind());
    silt->seed = SeedIsOpen(options.comparator) ? kRandomSeed : hash->seed();
    silt->merge_trigger = store->merges().merge_trigger;
    silt->max_hash_stores = store->merges().max_hash_stores;
    silt->table = factory->options();
  }
  return true;
}

}  // namespace cairn
