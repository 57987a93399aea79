#include "cairn/engines.h"

#include <algorithm>
#include <cmath>
#include <cstring>
#include <memory>
#include <utility>

#include "cairn/memtable.h"
#include "cairn/ordered.h"
#include "cairn/round_robin.h"
#include "cairn/silt.h"
#include "cairn/trie.h"
#include "db/engine_table.h"
#include "rocksdb/convenience.h"
#include "rocksdb/memtablerep.h"
#include "trie_table/compaction/trie_options.h"
#include "util/rocksdb_names.h"

namespace cairn {
namespace {

constexpr char kSubMemTables[] = "cairn.SubMemTable";
constexpr char kEngineIs[] = "engine=";

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
  TrieOptionText trie;
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
  TrieOptionText trie = KeyTrieOptions();
  Status s = Parse(TrieOptionsFromString, engine_options, &trie);
  if (s.ok() && !trie.in_key_order()) {
    s = Status::InvalidArgument("option order of the engine \"ordered_trie\" is " + trie.order,
                                "it may be key; the engines trie and trie_sst are in hash order");
  }
  return s.ok() ? UseTrie(options, trie) : s;
}

Status UseTrieInDatabase(const std::vector<std::string>&, DBOptions* options) { return UseTrieCompaction(options); }

// An engine whose options are read by `parse` and used by `use`, on the memtable that it prefers.
enum class Memtable { kGiven, kSub };
template <class EngineOptions, Status (*parse)(const std::string&, EngineOptions*),
          Status (*use)(ColumnFamilyOptions*, const EngineOptions&), Memtable memtable>
Status UseParsed(const std::vector<std::string>& engine_options, ColumnFamilyOptions* options) {
  if (memtable == Memtable::kSub) PreferSubMemTables(options);
  EngineOptions parsed;
  Status s = Parse(parse, engine_options, &parsed);
  return s.ok() ? use(options, parsed) : s;
}

Status UseSiltInDatabase(const std::vector<std::string>& engine_options, DBOptions* options) {
  SiltOptions silt;
  Status s = Parse(SiltOptionsFromString, engine_options, &silt);
  return s.ok() ? UseSiltMerges(options, silt) : s;
}

Status UseOrderedInDatabase(const std::vector<std::string>& engine_options, DBOptions* options) {
  OrderedOptions ordered;
  Status s = Parse(OrderedOptionsFromString, engine_options, &ordered);
  return s.ok() && ordered.compaction == kOrderedByTrie ? UseTrieCompaction(options) : s;
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

std::string TuneNothing(const EngineTuning&) { return ""; }

std::string Text(const char* option, double value) { return std::string(option) + "=" + std::to_string(value) + ";"; }
std::string Text(const char* option, int value) { return std::string(option) + "=" + std::to_string(value) + ";"; }

std::string TuneTrie(const EngineTuning& tuning) {
  std::string text;
  if (tuning.filter_bits >= 0) text += Text("filter_bits", tuning.filter_bits);
  if (tuning.runs >= 0) text += Text("root_trigger", tuning.runs);
  return text;
}

std::string TuneOrdered(const EngineTuning& tuning) {
  std::string text;
  if (tuning.filter_bits >= 0) text += Text("filter_bits", tuning.filter_bits);
  if (tuning.runs >= 0) text += Text("runs", tuning.runs);
  return text;
}

// A cuckoo filter's tags take 95 % of its bits.
int TagBits(double filter_bits) {
  if (filter_bits <= 0) return 0;
  return static_cast<int>(std::lround(std::clamp(0.95 * filter_bits, 4.0, 25.0)));
}

std::string TuneSilt(const EngineTuning& tuning) {
  std::string text;
  if (tuning.filter_bits >= 0) text += Text("filter_tag_bits", TagBits(tuning.filter_bits));
  if (tuning.runs >= 0) text += Text("merge_trigger", tuning.runs) + Text("max_hash_stores", tuning.runs);
  return text;
}

Status Find(const std::string& name, const EngineRow** found) {
  *found = FindEngineRow(name);
  if (*found != nullptr) return Status::OK();
  std::string list;
  for (const EngineRow& row : EngineTable()) list += (list.empty() ? "" : ", ") + std::string(row.name);
  return Status::InvalidArgument("there is no engine \"" + name + "\"; there are " + list);
}

}  // namespace

const std::vector<EngineRow>& EngineTable() {
  constexpr bool kKeyOrder = true;
  constexpr bool kHashOrder = false;
  static const auto* const table = new std::vector<EngineRow>{
      {kStockEngine, "RocksDB as it comes.", kKeyOrder, EngineLevels::kLeveled, EngineTables::kGiven, nullptr,
       TuneNothing, UseStock, UseNothingInDatabase},
      {"sub_memtables", "RocksDB's own tables and compaction under sub-MemTables.", kKeyOrder, EngineLevels::kLeveled,
       EngineTables::kGiven, "memtable_factory=cairn.SubMemTable", TuneNothing, UseSubMemTables, UseNothingInDatabase},
      {"leveled_ordered", "RocksDB's leveled compaction with Cairn's order filters: seeks read what they return.",
       kKeyOrder, EngineLevels::kLeveled, EngineTables::kOrdered, "table_factory=cairn.OrderedTable", TuneOrdered,
       UseParsed<OrderedOptions, OrderedOptionsFromString, UseOrderedTable, Memtable::kGiven>, UseNothingInDatabase},
      {"ordered",
       "Universal compaction at 16 sorted runs with Cairn's order filters: seeks read what they return, not every run.",
       kKeyOrder, EngineLevels::kUniversal, EngineTables::kOrdered, nullptr, TuneOrdered,
       UseParsed<OrderedOptions, OrderedOptionsFromString, UseOrdered, Memtable::kSub>, UseOrderedInDatabase},
      {"ordered_trie",
       "Cairn's trie in key order, with order filters: small compactions and a bound on space, for programs that scan.",
       kKeyOrder, EngineLevels::kTrie, EngineTables::kDecided, nullptr, TuneTrie, UseTrieInKeyOrder, UseTrieInDatabase},
      {"trie", "Cairn's trie in hash order over HTables: a lookup reads one bucket, and no index is kept in memory.",
       kHashOrder, EngineLevels::kTrie, EngineTables::kDecided, nullptr, TuneTrie, UseTrieHTable, UseTrieInDatabase},
      {"trie_sst", "The same over block-based tables: each byte is written once per depth.", kHashOrder,
       EngineLevels::kTrie, EngineTables::kDecided, nullptr, TuneTrie, UseTrieSst, UseTrieInDatabase},
      {"silt",
       "Cairn's SILT store, in hash order: level 0 and one sorted level with an index of about a bit per key, no "
       "filter.",
       kHashOrder, EngineLevels::kSilt, EngineTables::kDecided, nullptr, TuneSilt,
       UseParsed<SiltOptions, SiltOptionsFromString, UseSilt, Memtable::kSub>, UseSiltInDatabase},
      {"round_robin",
       "RocksDB's leveled compaction with the level sizes that write least, tables picked in turn, and a tuner.",
       kKeyOrder, EngineLevels::kLeveledSized, EngineTables::kGiven, nullptr, TuneNothing,
       UseParsed<RoundRobinOptions, RoundRobinOptionsFromString, UseRoundRobin, Memtable::kGiven>,
       UseRoundRobinInDatabase},
  };
  return *table;
}

const EngineRow* FindEngineRow(const std::string& name) {
  for (const EngineRow& row : EngineTable()) {
    if (name == row.name) return &row;
  }
  return nullptr;
}

std::vector<std::string> EngineNames() {
  std::vector<std::string> names;
  for (const EngineRow& row : EngineTable()) names.emplace_back(row.name);
  return names;
}

bool IsOfCairn(const ColumnFamilyOptions& options) {
  return IsTrie(options) || IsSilt(options, nullptr) || IsOrdered(options) || IsRoundRobin(options, nullptr);
}

bool KeepsKeyOrder(const std::string& engine) {
  const EngineRow* const row = FindEngineRow(engine);
  return row != nullptr && row->keeps_key_order;
}

Status UseEngine(const std::string& engine, const std::vector<std::string>& engine_options,
                 ColumnFamilyOptions* options) {
  const EngineRow* found = nullptr;
  Status s = Find(engine, &found);
  return s.ok() ? found->use(engine_options, options) : s;
}

Status UseEngineInDatabase(const std::string& engine, const std::vector<std::string>& engine_options,
                           DBOptions* options) {
  const EngineRow* found = nullptr;
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
