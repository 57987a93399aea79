#include "db_bench/engines.h"

#include <algorithm>
#include <cmath>
#include <initializer_list>

#include "cairn/db.h"
#include "cairn/engines.h"
#include "cairn/htable.h"
#include "cairn/memtable.h"
#include "cairn/ordered.h"
#include "cairn/round_robin.h"
#include "cairn/silt.h"
#include "cairn/trie.h"
#include "rocksdb/cache.h"
#include "rocksdb/convenience.h"
#include "rocksdb/filter_policy.h"
#include "rocksdb/port/open_into.h"
#include "rocksdb/statistics.h"
#include "rocksdb/table.h"

namespace cairn {
namespace bench {

using rocksdb::BlockBasedTableOptions;
using rocksdb::ColumnFamilyOptions;
using rocksdb::DB;
using rocksdb::DBOptions;
using rocksdb::Options;
using rocksdb::Status;

namespace {

// The usual filter of a RocksDB in production; a false positive costs a block read in 1 of 100 lookups per level.
constexpr double kRocksDBFilterBits = 10;

// What RocksDB's clock cache is told that an entry takes: a block, most of the time.
constexpr size_t kDataBlockBytes = 4096;

// Shards of at least 16 MiB: a filter of a megabyte does not fit into one of RocksDB's smallest, and would be read anew
// by every lookup.
int CacheShardBits(uint64_t cache_bytes) {
  constexpr int kMostBits = 6;  // RocksDB's own limit
  int bits = 0;
  while (bits < kMostBits && (cache_bytes >> (bits + 1)) >= (uint64_t{16} << 20)) ++bits;
  return bits;
}

std::shared_ptr<rocksdb::Cache> BlockCacheOf(const EngineSettings& settings) {
  if (settings.hyper_clock_cache) {
    return rocksdb::HyperClockCacheOptions(settings.block_cache_size, kDataBlockBytes).MakeSharedCache();
  }
  return rocksdb::NewLRUCache(settings.block_cache_size, CacheShardBits(settings.block_cache_size));
}

void ConfigureCommon(const EngineSettings& settings, double filter_bits, Options* options) {
  *options = Options();
  options->create_if_missing = true;
  options->write_buffer_size = settings.write_buffer_size;
  options->max_background_jobs = settings.background_jobs;
  if (settings.level0_trigger >= 0) {
    options->level0_file_num_compaction_trigger = settings.level0_trigger;
  }
  options->compression = rocksdb::kNoCompression;
  options->statistics = rocksdb::CreateDBStatistics();
  options->stats_dump_period_sec = 0;
  options->stats_persist_period_sec = 0;
  BlockBasedTableOptions table;
  table.block_cache = BlockCacheOf(settings);
  table.cache_index_and_filter_blocks = settings.index_in_cache;
  if (filter_bits > 0) {
    table.filter_policy.reset(rocksdb::NewBloomFilterPolicy(filter_bits));
  }
  options->table_factory.reset(rocksdb::NewBlockBasedTableFactory(table));
}

double FilterBits(const EngineSettings& settings) {
  return settings.filter_bits < 0 ? kRocksDBFilterBits : settings.filter_bits;
}

Status RefuseEngineOptions(const EngineSettings& settings, const char* engine) {
  if (settings.engine_options.empty()) {
    return Status::OK();
  }
  return Status::InvalidArgument(std::string(engine) + " has no engine options", settings.engine_options);
}

Status ConfigureLeveled(const EngineSettings& settings, Options* options) {
  ConfigureCommon(settings, FilterBits(settings), options);
  options->compaction_style = rocksdb::kCompactionStyleLevel;
  options->level_compaction_dynamic_level_bytes = true;
  // RocksDB's own proportions (64 MiB buffer and files, 256 MiB in the first level), kept when the buffer is another.
  options->target_file_size_base = settings.write_buffer_size;
  options->max_bytes_for_level_base = 4 * settings.write_buffer_size;
  return RefuseEngineOptions(settings, "leveled");
}

Status ConfigurePartitioned(const EngineSettings& settings, Options* options) {
  Status s = ConfigureLeveled(settings, options);
  auto* table = options->table_factory->GetOptions<BlockBasedTableOptions>();
  table->index_type = BlockBasedTableOptions::kTwoLevelIndexSearch;
  table->partition_filters = true;
  table->cache_index_and_filter_blocks = true;
  return s;
}

Status ConfigureUniversal(const EngineSettings& settings, Options* options) {
  ConfigureCommon(settings, FilterBits(settings), options);
  options->compaction_style = rocksdb::kCompactionStyleUniversal;
  options->target_file_size_base = settings.write_buffer_size;
  // Sorted runs, not files of level 0, under this style; 8 is what RocksDB's benchmark.sh runs it with.
  if (settings.level0_trigger < 0) {
    options->level0_file_num_compaction_trigger = 8;
  }
  return RefuseEngineOptions(settings, "universal");
}

Status OverlayTrieOf(const char* format, const EngineSettings& settings, DBOptions* database,
                     ColumnFamilyOptions* column_family) {
  if (settings.memtable.empty()) PreferSubMemTables(column_family);
  TrieOptions trie;
  trie.format = format;
  if (settings.filter_bits >= 0) {
    trie.filter_bits = settings.filter_bits;
  }
  if (settings.level0_trigger >= 0) {
    trie.root_trigger = settings.level0_trigger;
  }
  Status s = TrieOptionsFromString(settings.engine_options, &trie);
  if (s.ok()) {
    s = UseTrie(column_family, trie);
  }
  return s.ok() ? UseTrieCompaction(database) : s;
}

Status OverlayTrieSst(const EngineSettings& settings, DBOptions* database, ColumnFamilyOptions* column_family) {
  return OverlayTrieOf("sst", settings, database, column_family);
}

Status OverlayOrderedTrie(const EngineSettings& settings, DBOptions* database, ColumnFamilyOptions* column_family) {
  if (settings.memtable.empty()) PreferSubMemTables(column_family);
  std::string text = settings.engine_options;
  if (settings.filter_bits >= 0) text = "filter_bits=" + std::to_string(settings.filter_bits) + ";" + text;
  if (settings.level0_trigger >= 0) text = "root_trigger=" + std::to_string(settings.level0_trigger) + ";" + text;
  const std::vector<std::string> options = text.empty() ? std::vector<std::string>() : std::vector<std::string>{text};
  Status s = UseEngine("ordered_trie", options, column_family);
  return s.ok() ? UseTrieCompaction(database) : s;
}

Status OverlayTrie(const EngineSettings& settings, DBOptions* database, ColumnFamilyOptions* column_family) {
  return OverlayTrieOf("htable", settings, database, column_family);
}

Status OverlayTrieCached(const EngineSettings& settings, DBOptions* database, ColumnFamilyOptions* column_family) {
  HTableOptions table;
  table.table = column_family->table_factory;
  table.filter.residency = FilterResidency::kCache;
  if (settings.filter_bits >= 0) {
    table.filter.bits_per_key = settings.filter_bits;
  }
  column_family->table_factory.reset(NewHTableFactory(table));
  return OverlayTrie(settings, database, column_family);
}

// What the settings and the engine's options say of ordered tables.
Status ParseOrdered(const EngineSettings& settings, OrderedOptions* ordered) {
  if (settings.filter_bits >= 0) ordered->filter_bits = settings.filter_bits;
  if (settings.level0_trigger >= 0) ordered->runs = settings.level0_trigger;
  return OrderedOptionsFromString(settings.engine_options, ordered);
}

Status OverlayOrdered(const EngineSettings& settings, DBOptions* /*database*/, ColumnFamilyOptions* column_family) {
  if (settings.memtable.empty()) PreferSubMemTables(column_family);
  OrderedOptions ordered;
  Status s = ParseOrdered(settings, &ordered);
  return s.ok() ? UseOrdered(column_family, ordered) : s;
}

Status OverlayLeveledOrdered(const EngineSettings& settings, DBOptions* /*database*/,
                             ColumnFamilyOptions* column_family) {
  OrderedOptions ordered;
  Status s = ParseOrdered(settings, &ordered);
  return s.ok() ? UseOrderedTable(column_family, ordered) : s;
}

Status OverlayRoundRobin(const EngineSettings& settings, DBOptions* database, ColumnFamilyOptions* column_family) {
  RoundRobinOptions round_robin;
  Status s = RoundRobinOptionsFromString(settings.engine_options, &round_robin);
  if (s.ok()) s = UseRoundRobin(column_family, round_robin);
  return s.ok() && round_robin.tune ? UseRoundRobinTuner(database) : s;
}

Status ConfigureOrdered(const EngineSettings& settings, Options* options) {
  EngineSettings stock = settings;
  stock.engine_options.clear();
  Status s = ConfigureUniversal(stock, options);
  return s.ok() ? OverlayOrdered(settings, options, options) : s;
}

Status ConfigureLeveledOrdered(const EngineSettings& settings, Options* options) {
  EngineSettings stock = settings;
  stock.engine_options.clear();
  Status s = ConfigureLeveled(stock, options);
  return s.ok() ? OverlayLeveledOrdered(settings, options, options) : s;
}

Status ConfigureRoundRobin(const EngineSettings& settings, Options* options) {
  EngineSettings stock = settings;
  stock.engine_options.clear();
  Status s = ConfigureLeveled(stock, options);
  return s.ok() ? OverlayRoundRobin(settings, options, options) : s;
}

using OverlayFunction = Status (*)(const EngineSettings&, DBOptions*, ColumnFamilyOptions*);

Status ConfigureOverlaid(OverlayFunction overlay, const EngineSettings& settings, Options* options) {
  ConfigureCommon(settings, 0, options);
  DBOptions database(*options);
  ColumnFamilyOptions column_family(*options);
  Status s = overlay(settings, &database, &column_family);
  *options = Options(database, column_family);
  return s;
}

Status ConfigureTrieSst(const EngineSettings& settings, Options* options) {
  return ConfigureOverlaid(OverlayTrieSst, settings, options);
}

Status ConfigureOrderedTrie(const EngineSettings& settings, Options* options) {
  return ConfigureOverlaid(OverlayOrderedTrie, settings, options);
}

Status ConfigureTrie(const EngineSettings& settings, Options* options) {
  return ConfigureOverlaid(OverlayTrie, settings, options);
}

Status ConfigureTrieCached(const EngineSettings& settings, Options* options) {
  return ConfigureOverlaid(OverlayTrieCached, settings, options);
}

// Of a cuckoo filter's tags, which take 95 % of its bits.
uint32_t TagBits(double filter_bits) {
  if (filter_bits <= 0) return 0;
  return static_cast<uint32_t>(std::lround(std::clamp(0.95 * filter_bits, 4.0, 25.0)));
}

Status OverlaySilt(const EngineSettings& settings, DBOptions* database, ColumnFamilyOptions* column_family) {
  if (settings.memtable.empty()) PreferSubMemTables(column_family);
  SiltOptions silt;
  if (settings.filter_bits >= 0) {
    silt.table.filter_tag_bits = TagBits(settings.filter_bits);
  }
  if (settings.level0_trigger >= 0) {
    silt.merge_trigger = settings.level0_trigger;
    silt.max_hash_stores = settings.level0_trigger;
  }
  Status s = SiltOptionsFromString(settings.engine_options, &silt);
  if (s.ok()) {
    s = UseSilt(column_family, silt);
  }
  return s.ok() ? UseSiltMerges(database, silt) : s;
}

Status ConfigureSilt(const EngineSettings& settings, Options* options) {
  ConfigureCommon(settings, 0, options);
  options->target_file_size_base = settings.write_buffer_size;
  DBOptions database(*options);
  ColumnFamilyOptions column_family(*options);
  Status s = OverlaySilt(settings, &database, &column_family);
  *options = Options(database, column_family);
  return s;
}

Status OpenPlain(const Options& options, const std::string& path, DB** db) {
  return DB::Open(options, path, port::Into(db));
}

Status OpenCairn(const Options& options, const std::string& path, DB** db) { return cairn::Open(options, path, db); }

Status SettlePlain(DB* db) {
  rocksdb::WaitForCompactOptions wait;
  wait.flush = true;
  return db->WaitForCompact(wait);
}

Status SettleTrie(DB* db) {
  Status s = SettlePlain(db);
  if (s.ok()) {
    s = WaitForTrieCompaction(db);
  }
  return s;
}

const char kEngineDecides[] = "contradicts --engine, which decides it; leave one of them out";
const char kByTrie[] =
    "has no meaning in a trie: its levels and files follow from its shape (--engine_options=fan_out=..;slots=..;...)";
const char kBySilt[] =
    "has no meaning in a SILT store, which has level 0 and one sorted level (--engine_options=merge_trigger=..;...)";
const char kNotSilt[] = "contradicts --engine=silt, whose tables are cairn.EctTable over block-based ones";

// What every engine refuses that keeps hash order and whose database is a CairnDB.
void RefuseWhatNeedsKeyOrder(Engine* engine) {
  const char* const order = "needs key order, and --engine keeps hash order";
  const char* const comparator = "contradicts --engine, which brings its own comparator";
  const char* const deletes_ranges = "uses DeleteRange, and --engine keeps hash order";
  const char* const stock_only = "opens what db_bench offers for RocksDB's own engines only";
  for (const RefusedFlag& refused : std::initializer_list<RefusedFlag>{
           {"options_file", kEngineDecides},
           {"compaction_style", kEngineDecides},
           {"use_uint64_comparator", comparator},
           {"user_timestamp_size", comparator},
           {"use_hash_search", "needs a key prefix, and --engine keeps hash order"},
           {"prefix_size", order},
           {"auto_prefix_mode", order},
           {"max_scan_distance", order},
           {"writes_before_delete_range", deletes_ranges},
           {"writes_per_range_tombstone", deletes_ranges},
           {"use_blob_db", "opens a BlobDB, and --engine is opened by cairn::Open"},
           {"use_secondary_db", stock_only},
           {"open_as_follower", stock_only},
       }) {
    engine->refused_flags.push_back(refused);
  }
  for (const char* name : {"approximatesizerandom", "timeseries"}) {
    engine->refused_benchmarks.push_back({name, nullptr, order});
  }
  for (const char* name : {"seekrandom", "seekrandomwhilewriting", "seekrandomwhilemerging", "fillseekseq"}) {
    engine->refused_benchmarks.push_back({name, "seek_nexts", order});
  }
  engine->refused_benchmarks.push_back({"mixgraph", "mix_seek_ratio", order});
}

Engine MakeSilt() {
  Engine silt{};
  silt.name = "silt";
  silt.summary =
      "Cairn's SILT store, in hash order: level 0 and one sorted level with an index of about a bit per key, no "
      "filter.";
  silt.key_order = KeyOrder::kHash;
  silt.configure = ConfigureSilt;
  silt.open = OpenCairn;
  silt.settle = SettlePlain;
  silt.overlay = OverlaySilt;
  silt.refused_flags = {
      {"num_levels", kBySilt},
      {"level_compaction_dynamic_level_bytes", kBySilt},
      {"max_bytes_for_level_base", kBySilt},
      {"max_bytes_for_level_multiplier", kBySilt},
      {"max_bytes_for_level_multiplier_additional", kBySilt},
      {"max_compaction_bytes", kBySilt},
      {"min_level_to_compress", kBySilt},
      {"compaction_pri", kBySilt},
      {"use_plain_table", kNotSilt},
      {"use_cuckoo_table", kNotSilt},
      {"use_ribbon_filter", "contradicts --engine=silt, whose filters are cuckoo filters"},
  };
  for (const char* name : {"fillseqdeterministic", "filluniquerandomdeterministic"}) {
    silt.refused_benchmarks.push_back({name, nullptr, "shapes RocksDB's levels, of which a SILT store has two"});
  }
  RefuseWhatNeedsKeyOrder(&silt);
  return silt;
}

std::vector<Engine> MakeEngines() {
  std::vector<Engine> engines;

  Engine leveled{};
  leveled.name = "leveled";
  leveled.summary =
      "RocksDB's leveled compaction: 10-bit Bloom filters, dynamic level sizes. Few bytes on disk, more written.";
  leveled.key_order = KeyOrder::kBytes;
  leveled.configure = ConfigureLeveled;
  leveled.open = OpenPlain;
  leveled.settle = SettlePlain;
  leveled.flags = {{"compaction_style", "0"}, {"level_compaction_dynamic_level_bytes", "true"}, {"bloom_bits", "10"}};
  leveled.refused_flags = {{"options_file", kEngineDecides}, {"compaction_style", kEngineDecides}};
  engines.push_back(leveled);

  Engine partitioned = leveled;
  partitioned.name = "partitioned";
  partitioned.summary =
      "The same with partitioned indexes and filters in the block cache: less memory, more block reads.";
  partitioned.configure = ConfigurePartitioned;
  partitioned.flags.push_back({"partition_index_and_filters", "true"});
  partitioned.flags.push_back({"cache_index_and_filter_blocks", "true"});
  engines.push_back(partitioned);

  Engine universal = leveled;
  universal.name = "universal";
  universal.summary =
      "RocksDB's universal compaction: 10-bit Bloom filters, merges at 8 sorted runs. Fewer bytes written, more space.";
  universal.configure = ConfigureUniversal;
  universal.flags = {{"compaction_style", "1"}, {"level0_file_num_compaction_trigger", "8"}, {"bloom_bits", "10"}};
  engines.push_back(universal);

  const char* const kOrderedTables = "contradicts --engine, whose tables are block-based with an order filter";
  Engine ordered = universal;
  ordered.name = "ordered";
  ordered.summary =
      "Universal compaction at 16 sorted runs with Cairn's order filters: seeks read what they return, not every run.";
  ordered.configure = ConfigureOrdered;
  ordered.open = OpenCairn;  // db_bench puts its overlay in front of DB::Open
  ordered.overlay = OverlayOrdered;
  ordered.flags = {{"compaction_style", "1"}, {"level0_file_num_compaction_trigger", "16"}, {"bloom_bits", "10"}};
  ordered.refused_flags.push_back({"universal_size_ratio", "is --engine_options=size_ratio=.. of --engine=ordered"});
  ordered.refused_flags.push_back({"universal_max_size_amplification_percent",
                                   "is --engine_options=max_size_amplification_percent=.. of --engine=ordered"});
  for (const char* flag : {"use_plain_table", "use_cuckoo_table", "use_uint64_comparator", "user_timestamp_size"}) {
    ordered.refused_flags.push_back({flag, kOrderedTables});
  }
  engines.push_back(ordered);

  Engine leveled_ordered = leveled;
  leveled_ordered.name = "leveled_ordered";
  leveled_ordered.summary = "RocksDB's leveled compaction with Cairn's order filters: seeks read what they return.";
  leveled_ordered.configure = ConfigureLeveledOrdered;
  leveled_ordered.open = OpenCairn;
  leveled_ordered.overlay = OverlayLeveledOrdered;
  leveled_ordered.refused_flags = leveled.refused_flags;
  leveled_ordered.refused_flags.insert(leveled_ordered.refused_flags.end(), ordered.refused_flags.end() - 4,
                                       ordered.refused_flags.end());
  engines.push_back(leveled_ordered);

  Engine round_robin = leveled;
  round_robin.name = "round_robin";
  round_robin.summary =
      "RocksDB's leveled compaction with the level sizes that write least, tables picked in turn, and a tuner.";
  round_robin.configure = ConfigureRoundRobin;
  round_robin.open = OpenCairn;
  round_robin.overlay = OverlayRoundRobin;
  round_robin.flags = {{"compaction_style", "0"}, {"bloom_bits", "10"}};
  for (const char* flag : {"level_compaction_dynamic_level_bytes", "compaction_pri"}) {
    round_robin.refused_flags.push_back({flag, kEngineDecides});
  }
  engines.push_back(round_robin);

  Engine trie{};
  trie.name = "trie_sst";
  trie.summary =
      "Cairn's trie over block-based tables, in hash order: each byte written once per depth. For point lookups only.";
  trie.key_order = KeyOrder::kHash;
  trie.configure = ConfigureTrieSst;
  trie.open = OpenCairn;
  trie.settle = SettleTrie;
  trie.overlay = OverlayTrieSst;
  trie.refused_flags = {
      {"compaction_pri", kByTrie},
      {"num_levels", kByTrie},
      {"level_compaction_dynamic_level_bytes", kByTrie},
      {"max_bytes_for_level_base", kByTrie},
      {"max_bytes_for_level_multiplier", kByTrie},
      {"max_bytes_for_level_multiplier_additional", kByTrie},
      {"target_file_size_base", kByTrie},
      {"target_file_size_multiplier", kByTrie},
      {"max_compaction_bytes", kByTrie},
      {"min_level_to_compress", kByTrie},
      {"subcompactions", "has no meaning in a trie: its containers are compacted in parallel already"},
      {"universal_size_ratio", "belongs to --engine=universal"},
      {"universal_min_merge_width", "belongs to --engine=universal"},
      {"universal_max_merge_width", "belongs to --engine=universal"},
      {"universal_max_size_amplification_percent", "belongs to --engine=universal"},
      {"universal_compression_size_percent", "belongs to --engine=universal"},
      {"universal_max_read_amp", "belongs to --engine=universal"},
      {"universal_allow_trivial_move", "belongs to --engine=universal"},
      {"universal_incremental", "belongs to --engine=universal"},
      {"universal_stop_style", "belongs to --engine=universal"},
      {"fifo_compaction_max_table_files_size_mb", "belongs to FIFO compaction"},
      {"fifo_compaction_allow_compaction", "belongs to FIFO compaction"},
      {"fifo_compaction_ttl", "belongs to FIFO compaction"},
      {"fifo_age_for_warm", "belongs to FIFO compaction"},
      {"periodic_compaction_seconds", "has no meaning in a trie"},
      {"ttl_seconds", "has no meaning in a trie"},
      {"use_plain_table", "contradicts --engine, which decides the tables"},
      {"use_cuckoo_table", "contradicts --engine, which decides the tables"},
      {"use_ribbon_filter", "contradicts --engine, whose filters are Bloom filters of --bloom_bits"},
  };
  trie.refused_benchmarks = {
      {"fillseqdeterministic", nullptr, "shapes RocksDB's levels, which are a trie's slots"},
      {"filluniquerandomdeterministic", nullptr, "shapes RocksDB's levels, which are a trie's slots"},
      {"compact0", nullptr, "names a RocksDB level, which is a trie's slot; use compact"},
      {"compact1", nullptr, "names a RocksDB level, which is a trie's slot; use compact"},
      {"waitforcompaction", "transaction_db", "does not see a trie's compactions through --transaction_db"},
      {"waitforcompaction", "optimistic_transaction_db",
       "does not see a trie's compactions through --optimistic_transaction_db"},
      {"compact", "transaction_db", "does nothing on a trie through --transaction_db"},
      {"compact", "optimistic_transaction_db", "does nothing on a trie through --optimistic_transaction_db"},
      {"compactall", "transaction_db", "does nothing on a trie through --transaction_db"},
      {"compactall", "optimistic_transaction_db", "does nothing on a trie through --optimistic_transaction_db"},
  };
  RefuseWhatNeedsKeyOrder(&trie);
  engines.push_back(trie);

  // What a trie refuses because of its levels, not because of its order.
  Engine ordered_trie = trie;
  ordered_trie.name = "ordered_trie";
  ordered_trie.summary =
      "Cairn's trie in key order, with order filters: small compactions and a bound on space, for programs that scan.";
  ordered_trie.key_order = KeyOrder::kBytes;
  ordered_trie.configure = ConfigureOrderedTrie;
  ordered_trie.overlay = OverlayOrderedTrie;
  const auto of_order = [](const auto& refused) {
    return std::string(refused.why).find("hash order") != std::string::npos;
  };
  const auto drop = [&](auto* list) { list->erase(std::remove_if(list->begin(), list->end(), of_order), list->end()); };
  drop(&ordered_trie.refused_flags);
  drop(&ordered_trie.refused_benchmarks);
  for (const char* flag : {"writes_before_delete_range", "writes_per_range_tombstone"}) {
    ordered_trie.refused_flags.push_back({flag, "uses DeleteRange, which a trie refuses"});
  }
  engines.push_back(ordered_trie);

  trie.name = "trie";
  trie.summary = "The same over HTables: a lookup reads one bucket, and no index is kept in memory.";
  trie.configure = ConfigureTrie;
  trie.overlay = OverlayTrie;
  engines.push_back(trie);

  trie.name = "trie_cached";
  trie.summary =
      "The same with filter pages in the block cache, for less memory than all filters take: one filter read per "
      "depth.";
  trie.configure = ConfigureTrieCached;
  trie.overlay = OverlayTrieCached;
  engines.push_back(trie);
  engines.push_back(MakeSilt());
  return engines;
}

}  // namespace

Status UseMemtable(const EngineSettings& settings, ColumnFamilyOptions* options) {
  if (settings.memtable.empty()) {
    return Status::OK();
  }
  rocksdb::ConfigOptions config;
  config.ignore_unsupported_options = false;
  return rocksdb::MemTableRepFactory::CreateFromString(config, settings.memtable, &options->memtable_factory);
}

const std::vector<Engine>& Engines() {
  static const std::vector<Engine>* engines = new std::vector<Engine>(MakeEngines());
  return *engines;
}

const Engine* FindEngine(const std::string& name) {
  for (const Engine& engine : Engines()) {
    if (name == engine.name) {
      return &engine;
    }
  }
  return nullptr;
}

std::string EngineNames() {
  std::string names;
  for (const Engine& engine : Engines()) {
    names += names.empty() ? "" : ", ";
    names += engine.name;
  }
  return names;
}

}  // namespace bench
}  // namespace cairn
