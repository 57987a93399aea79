#include "table/silt/silt_table.h"

#include <cstddef>

#include "rocksdb/utilities/options_type.h"
#include "table/ect/ect_table.h"
#include "util/option_text.h"

namespace cairn {

namespace {

using rocksdb::OptionType;

const OptionTypes& MergeOptions() {
  static const auto* const defaults = new SiltMergeOptions();
  static const auto* const types = new OptionTypes(
      WithoutDefaults({{"partitions", {offsetof(SiltMergeOptions, partitions), OptionType::kInt}},
                       {"space_bound", {offsetof(SiltMergeOptions, space_bound), OptionType::kDouble}},
                       {"merge_trigger", {offsetof(SiltMergeOptions, merge_trigger), OptionType::kInt}},
                       {"max_hash_stores", {offsetof(SiltMergeOptions, max_hash_stores), OptionType::kInt}}},
                      defaults));
  return *types;
}

}  // namespace

SiltTableFactory::SiltTableFactory(std::shared_ptr<rocksdb::TableFactory> table, const SiltMergeOptions& merges)
    : HashOrderTableFactory(table != nullptr ? std::move(table) : std::make_shared<EctTableFactory>()),
      merges_(merges) {
  RegisterOptions(kClassName(), &merges_, &MergeOptions());
}

bool SiltTableFactory::IsInstanceOf(const std::string& name) const {
  return name == HashOrderTableFactory::kClassName() || HashOrderTableFactory::IsInstanceOf(name);
}

std::string SiltTableFactory::GetPrintableOptions() const {
  return "  partitions: " + std::to_string(merges_.partitions) +
         "\n  space_bound: " + std::to_string(merges_.space_bound) +
         "\n  merge_trigger: " + std::to_string(merges_.merge_trigger) +
         "\n  max_hash_stores: " + std::to_string(merges_.max_hash_stores) + "\n" +
         HashOrderTableFactory::GetPrintableOptions();
}

rocksdb::Status SiltTableFactory::ValidateOptions(const rocksdb::DBOptions& db_options,
                                                  const rocksdb::ColumnFamilyOptions& cf_options) const {
  SiltOptions silt;
  silt.partitions = merges_.partitions;
  silt.space_bound = merges_.space_bound;
  silt.merge_trigger = merges_.merge_trigger;
  silt.max_hash_stores = merges_.max_hash_stores;
  const rocksdb::Status s = ValidateSiltOptions(silt);
  return s.ok() ? HashOrderTableFactory::ValidateOptions(db_options, cf_options) : s;
}

std::unique_ptr<rocksdb::TableFactory> SiltTableFactory::Clone() const {
  return std::make_unique<SiltTableFactory>(std::shared_ptr<rocksdb::TableFactory>(table()->Clone()), merges_);
}

}  // namespace cairn
