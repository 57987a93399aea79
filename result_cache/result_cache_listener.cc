#include "result_cache/result_cache_listener.h"

#include <algorithm>
#include <cstddef>
#include <unordered_map>

#include "rocksdb/customizable.h"
#include "rocksdb/utilities/options_type.h"
#include "util/option_text.h"

namespace cairn {

using rocksdb::OptionType;
using rocksdb::Status;

namespace {

using Compression = ResultCacheOptions::Compression;

const OptionTypes& Types() {
  static const auto* const defaults = new DatabaseCacheOptions();
  static const auto* const compressions = new std::unordered_map<std::string, Compression>{
      {"none", Compression::kNone}, {"lz4", Compression::kLz4}, {"zstd", Compression::kZstd}};
  static const OptionTypes all = {
      {"capacity", {offsetof(DatabaseCacheOptions, capacity), OptionType::kUInt64T}},
      {"path", AnyTextOption(offsetof(DatabaseCacheOptions, path))},
      {"survive_power_loss", {offsetof(DatabaseCacheOptions, survive_power_loss), OptionType::kBoolean}},
      {"charge_to_block_cache", {offsetof(DatabaseCacheOptions, charge_to_block_cache), OptionType::kBoolean}},
      {"compression",
       rocksdb::OptionTypeInfo::Enum<Compression>(offsetof(DatabaseCacheOptions, compression), compressions)},
      {"absent_keys", {offsetof(DatabaseCacheOptions, absent_keys), OptionType::kBoolean}},
      {"merged_values", {offsetof(DatabaseCacheOptions, merged_values), OptionType::kBoolean}},
      {"max_item_bytes", {offsetof(DatabaseCacheOptions, max_item_bytes), OptionType::kUInt64T}},
      {"admit_one_fill_in", {offsetof(DatabaseCacheOptions, admit_one_fill_in), OptionType::kUInt32T}},
      {"huge_pages", {offsetof(DatabaseCacheOptions, huge_pages), OptionType::kBoolean}},
      {"column_families", AnyTextOption(offsetof(DatabaseCacheOptions, column_families))},
      {"adaptive", {offsetof(DatabaseCacheOptions, adaptive), OptionType::kBoolean}}};
  static const auto* types = new OptionTypes(WithoutDefaults(all, defaults));
  return *types;
}

}  // namespace

Status ValidateDatabaseCacheOptions(const DatabaseCacheOptions& options) {
  constexpr uint64_t kMost = uint64_t{1} << 44;
  if (options.capacity <= kMost) return Status::OK();
  return Status::InvalidArgument("cairn.ResultCache: capacity is " + std::to_string(options.capacity),
                                 "it may be at most " + std::to_string(kMost));
}

ResultCacheListener::ResultCacheListener(const DatabaseCacheOptions& options) : options_(options) {
  RegisterOptions("DatabaseCacheOptions", &options_, &Types());
}

Status ResultCacheListener::PrepareOptions(const rocksdb::ConfigOptions& config) {
  const Status s = ValidateDatabaseCacheOptions(options_);
  return s.ok() ? rocksdb::EventListener::PrepareOptions(config) : s;
}

const ResultCacheListener* ResultCacheListener::In(const rocksdb::DBOptions& options) {
  for (const auto& listener : options.listeners) {
    const auto* const ours = listener == nullptr ? nullptr : listener->CheckedCast<ResultCacheListener>();
    if (ours != nullptr) return ours;
  }
  return nullptr;
}

Status ParseDatabaseCacheOptions(const std::string& text, DatabaseCacheOptions* options) {
  rocksdb::ConfigOptions config;
  config.ignore_unknown_options = false;
  config.ignore_unsupported_options = false;
  config.invoke_prepare_options = true;
  ResultCacheListener listener;
  const bool braces = text.size() >= 2 && text.front() == '{' && text.back() == '}';
  const std::string fields = braces ? text.substr(1, text.size() - 2) : "capacity=" + text;
  const Status s = listener.ConfigureFromString(config, fields);
  if (s.ok()) *options = listener.options();
  return s;
}

std::shared_ptr<rocksdb::EventListener> NewResultCache(const DatabaseCacheOptions& cache) {
  return std::make_shared<ResultCacheListener>(cache);
}

void UseResultCache(const DatabaseCacheOptions& cache, rocksdb::DBOptions* options) {
  auto& listeners = options->listeners;
  listeners.erase(std::remove_if(listeners.begin(), listeners.end(),
                                 [](const auto& listener) {
                                   return listener != nullptr &&
                                          listener->IsInstanceOf(ResultCacheListener::kClassName());
                                 }),
                  listeners.end());
  listeners.push_back(NewResultCache(cache));
}

}  // namespace cairn
