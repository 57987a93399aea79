#include "cairn/engines.h"

#include <algorithm>
#include <cstring>
#include <memory>
#include <utility>

#include "cairn/memtable.h"
#include "cairn/ordered.h"
#include "cairn/round_robin.h"
#include "cairn/silt.h"
#include "cairn/trie.h"
#include "rocksdb/convenience.h"
#include "rocksdb/memtablerep.h"
#include "trie_table/compaction/trie_options.h"

namespace cairn {
namespace {

using rocksdb::ColumnFamilyOptions;
using rocksdb::DBOptions;
using rocksdb::Status;

constexpr char kSubMemTables[] = "cairn.SubMemTable";
constexpr char kEngineIs[] = "engine=";
constexpr char kOrderedEngine[] = "ordered";
constexpr char kLeveledOrderedEngine[] = "leveled_ordered";
constexpr char kOrderedTrieEngine[] = "ordered_trie";
constexpr char kRoundRobinEngine[] = "round_robin";

struct Engine {
  const char* name;
  Status (*use)(const std::vector<std::string>& engine_options, ColumnFamilyOptions* options);
  Status (*use_in_database)(const std::vector<std::string>& engine_options, DBOptions* options);
};

Status UseStock(const std::vector<std::string>& engine_options, ColumnFamilyOptions* options) {
  if (engine_options.empty()) return Status::OK();
  return Status::InvalidArgument("the engine \"stock\" has no options of its own: " + engine_options.front());
}

// Lays texts over *options, a later one over those before.
template <class EngineOptions>
Status Parse(Status (*parse)(const std::string&, EngineOptions*), const std::vector<std::string>& texts,
             EngineOptions* options) {
  for (const std::string& text : texts) {
    Status s = parse(text, options);
    if (!s.ok()) return s;
  }
  return Status::OK();
}

Status UseTrieOf(const char* format, const std::vector<std::string>& engine_options, ColumnFamilyOptions* options) {
  PreferSubMemTables(options);
  TrieOptions trie;
  trie.format = format;
  Status s = Parse(TrieOptionsFromString, engine_options, &trie);
  return s.ok() ? UseTrie(options, trie) : s;
}

Status UseTrieSst(const std::vector<std::string>& engine_options, ColumnFamilyOptions* options) {
  return UseTrieOf("sst", engine_options, options);
}

Status UseTrieHTable(const std::vector<std::string>& engine_options, ColumnFamilyOptions* options) {
  return UseTrieOf("htable", engine_options, options);
}

Status UseTrieInKeyOrder(const std::vector<std::string>& engine_options, ColumnFamilyOptions* options) {
  PreferSubMemTables(options);
  TrieOptions trie = KeyOrderTrie();
  Status s = Parse(TrieOptionsFromString, engine_options, &trie);
  if (s.ok() && !IsInKeyOrder(trie)) {
    s = Status::InvalidArgument("option order of the engine \"ordered_trie\" is " + trie.order,
                                "it may be key; the engines trie and trie_sst are in hash order");
  }
  return s.ok() ? UseTrie(options, trie) : s;
}

Status UseTrieInDatabase(const std::vector<std::string>&, DBOptions* options) { return UseTrieCompaction(options); }

Status UseSiltStore(const std::vector<std::string>& engine_options, ColumnFamilyOptions* options) {
  PreferSubMemTables(options);
  SiltOptions silt;
  Status s = Parse(SiltOptionsFromString, engine_options, &silt);
  return s.ok() ? UseSilt(options, silt) : s;
}

Status UseSiltInDatabase(const std::vector<std::string>& engine_options, DBOptions* options) {
  SiltOptions silt;
  Status s = Parse(SiltOptionsFromString, engine_options, &silt);
  return s.ok() ? UseSiltMerges(options, silt) : s;
}

Status UseOrderedRuns(const std::vector<std::string>& engine_options, ColumnFamilyOptions* options) {
  PreferSubMemTables(options);
  OrderedOptions ordered;
  Status s = Parse(OrderedOptionsFromString, engine_options, &ordered);
  return s.ok() ? UseOrdered(options, ordered) : s;
}

Status UseOrderedInDatabase(const std::vector<std::string>& engine_options, DBOptions* options) {
  OrderedOptions ordered;
  Status s = Parse(OrderedOptionsFromString, engine_options, &ordered);
  return s.ok() && ordered.compaction == kOrderedByTrie ? UseTrieCompaction(options) : s;
}

Status UseLeveledOrdered(const std::vector<std::string>& engine_options, ColumnFamilyOptions* options) {
  OrderedOptions ordered;
  Status s = Parse(OrderedOptionsFromString, engine_options, &ordered);
  return s.ok() ? UseOrderedTable(options, ordered) : s;
}

Status UseLeveledRoundRobin(const std::vector<std::string>& engine_options, ColumnFamilyOptions* options) {
  RoundRobinOptions round_robin;
  Status s = Parse(RoundRobinOptionsFromString, engine_options, &round_robin);
  return s.ok() ? UseRoundRobin(options, round_robin) : s;
}

Status UseRoundRobinInDatabase(const std::vector<std::string>& engine_options, DBOptions* options) {
  RoundRobinOptions round_robin;
  Status s = Parse(RoundRobinOptionsFromString, engine_options, &round_robin);
  return s.ok() && round_robin.tune ? UseRoundRobinTuner(options) : s;
}

// RocksDB's own tables and compaction: sub-MemTables alone.
Status UseSubMemTables(const std::vector<std::string>& engine_options, ColumnFamilyOptions* options) {
  std::string value = kSubMemTables;
  for (const std::string& text : engine_options) value += (value == kSubMemTables ? ":" : ";") + text;
  std::shared_ptr<rocksdb::MemTableRepFactory> factory;
  rocksdb::ConfigOptions config;
  config.ignore_unsupported_options = false;
  const Status s = rocksdb::MemTableRepFactory::CreateFromString(config, value, &factory);
  if (!s.ok()) return Status::InvalidArgument("options of sub-MemTables \"" + value + "\"", s.ToString());
  options->memtable_factory = std::move(factory);
  return s;
}

Status UseNothingInDatabase(const std::vector<std::string>&, DBOptions*) { return Status::OK(); }

const Engine kEngines[] = {
    {kStockEngine, UseStock, UseNothingInDatabase},
    {"sub_memtables", UseSubMemTables, UseNothingInDatabase},
    {"trie_sst", UseTrieSst, UseTrieInDatabase},
    {"trie", UseTrieHTable, UseTrieInDatabase},
    {"silt", UseSiltStore, UseSiltInDatabase},
    {kOrderedEngine, UseOrderedRuns, UseOrderedInDatabase},
    {kOrderedTrieEngine, UseTrieInKeyOrder, UseTrieInDatabase},
    {kLeveledOrderedEngine, UseLeveledOrdered, UseNothingInDatabase},
    {kRoundRobinEngine, UseLeveledRoundRobin, UseRoundRobinInDatabase},
};

Status Find(const std::string& name, const Engine** found) {
  std::string list;
  for (const Engine& engine : kEngines) {
    if (name == engine.name) {
      *found = &engine;
      return Status::OK();
    }
    list += (list.empty() ? "" : ", ") + std::string(engine.name);
  }
  return Status::InvalidArgument("there is no engine \"" + name + "\"; there are " + list);
}

}  // namespace

std::vector<std::string> EngineNames() {
  std::vector<std::string> names;
  for (const Engine& engine : kEngines) names.emplace_back(engine.name);
  return names;
}

bool IsOfCairn(const ColumnFamilyOptions& options) {
  return IsTrie(options, nullptr) || IsSilt(options, nullptr) || IsOrdered(options) || IsRoundRobin(options, nullptr);
}

bool KeepsKeyOrder(const std::string& engine) {
  return engine == kStockEngine || engine == "sub_memtables" || engine == kOrderedEngine ||
         engine == kLeveledOrderedEngine || engine == kOrderedTrieEngine || engine == kRoundRobinEngine;
}

Status UseEngine(const std::string& engine, const std::vector<std::string>& engine_options,
                 ColumnFamilyOptions* options) {
  const Engine* found = nullptr;
  Status s = Find(engine, &found);
  return s.ok() ? found->use(engine_options, options) : s;
}

Status UseEngineInDatabase(const std::string& engine, const std::vector<std::string>& engine_options,
                           DBOptions* options) {
  const Engine* found = nullptr;
  Status s = Find(engine, &found);
  return s.ok() ? found->use_in_database(engine_options, options) : s;
}

Status UseEngineFromString(const std::string& text, DBOptions* db_options, ColumnFamilyOptions* options) {
  const size_t end = std::min(text.find(';'), text.size());
  if (text.compare(0, strlen(kEngineIs), kEngineIs) != 0) {
    return Status::InvalidArgument("\"" + text + "\" names no engine", "engine=NAME or engine=NAME;OPTION=VALUE;...");
  }
  const std::string name = text.substr(strlen(kEngineIs), end - strlen(kEngineIs));
  std::vector<std::string> engine_options;
  if (end + 1 < text.size()) engine_options.push_back(text.substr(end + 1));
  Status s;
  if (options != nullptr) {
    ColumnFamilyOptions changed = *options;
    s = UseEngine(name, engine_options, &changed);
    if (s.ok()) *options = changed;
  }
  return s.ok() && db_options != nullptr ? UseEngineInDatabase(name, engine_options, db_options) : s;
}

}  // namespace cairn
