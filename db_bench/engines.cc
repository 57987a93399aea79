#include "db_bench/engines.h"

#include <initializer_list>
#include <memory>

#include "cairn/db.h"
#include "cairn/htable.h"
#include "cairn/trie.h"
#include "db/engine_table.h"
#include "rocksdb/cache.h"
#include "rocksdb/convenience.h"
#include "rocksdb/filter_policy.h"
#include "rocksdb/port/open_into.h"
#include "rocksdb/statistics.h"
#include "rocksdb/table.h"
#include "util/rocksdb_names.h"

namespace cairn::bench {

using rocksdb::BlockBasedTableOptions;

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

Status RefuseEngineOptions(const EngineSettings& settings) {
  if (settings.engine_options.empty()) return Status::OK();
  return Status::InvalidArgument("RocksDB's own engines have no engine options", settings.engine_options);
}

void ConfigureLeveled(const EngineSettings& settings, Options* options) {
  ConfigureCommon(settings, FilterBits(settings), options);
  options->compaction_style = rocksdb::kCompactionStyleLevel;
  options->level_compaction_dynamic_level_bytes = true;
  // RocksDB's own proportions (64 MiB buffer and files, 256 MiB in the first level), kept when the buffer is another.
  options->target_file_size_base = settings.write_buffer_size;
  options->max_bytes_for_level_base = 4 * settings.write_buffer_size;
}

void ConfigurePartitioned(const EngineSettings& settings, Options* options) {
  ConfigureLeveled(settings, options);
  auto* table = options->table_factory->GetOptions<BlockBasedTableOptions>();
  table->index_type = BlockBasedTableOptions::kTwoLevelIndexSearch;
  table->partition_filters = true;
  table->cache_index_and_filter_blocks = true;
}

void ConfigureUniversal(const EngineSettings& settings, Options* options) {
  ConfigureCommon(settings, FilterBits(settings), options);
  options->compaction_style = rocksdb::kCompactionStyleUniversal;
  options->target_file_size_base = settings.write_buffer_size;
  // Sorted runs, not files of level 0, under this style; 8 is what RocksDB's benchmark.sh runs it with.
  if (settings.level0_trigger < 0) {
    options->level0_file_num_compaction_trigger = 8;
  }
}

using ConfigureFunction = void (*)(const EngineSettings&, Options*);

// One of RocksDB's own.
template <ConfigureFunction configure>
Status ConfigureStock(const EngineSettings& settings, Options* options) {
  configure(settings, options);
  return RefuseEngineOptions(settings);
}

// What an engine of Cairn's is laid over.
void ConfigureBelow(EngineLevels levels, const EngineSettings& settings, Options* options) {
  switch (levels) {
    case EngineLevels::kLeveled:
    case EngineLevels::kLeveledSized:
      return ConfigureLeveled(settings, options);
    case EngineLevels::kUniversal:
      return ConfigureUniversal(settings, options);
    case EngineLevels::kTrie:
      return ConfigureCommon(settings, 0, options);
    case EngineLevels::kSilt:
      ConfigureCommon(settings, 0, options);
      options->target_file_size_base = settings.write_buffer_size;
      return;
  }
}

Status Overlay(const EngineRow& row, const EngineSettings& settings, DBOptions* database,
               ColumnFamilyOptions* column_family) {
  const std::shared_ptr<rocksdb::MemTableRepFactory> given = column_family->memtable_factory;
  const std::vector<std::string> engine_options = {row.tune({settings.filter_bits, settings.level0_trigger}),
                                                   settings.engine_options};
  Status s = row.use(engine_options, column_family);
  if (!settings.memtable.empty()) column_family->memtable_factory = given;
  return s.ok() ? row.use_in_database(engine_options, database) : s;
}

// A trie whose filters lie in the block cache.
Status OverlayTrieCached(const EngineSettings& settings, DBOptions* database, ColumnFamilyOptions* column_family) {
  HTableOptions table;
  table.table = column_family->table_factory;
  table.filter.residency = FilterResidency::kCache;
  if (settings.filter_bits >= 0) {
    table.filter.bits_per_key = settings.filter_bits;
  }
  column_family->table_factory.reset(NewHTableFactory(table));
  return Overlay(*FindEngineRow("trie"), settings, database, column_family);
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

std::function<Status(const EngineSettings&, Options*)> ConfigureOverlaid(
    EngineLevels levels,
    const std::function<Status(const EngineSettings&, DBOptions*, ColumnFamilyOptions*)>& overlay) {
  return [levels, overlay](const EngineSettings& settings, Options* options) {
    ConfigureBelow(levels, settings, options);
    DBOptions database(*options);
    ColumnFamilyOptions column_family(*options);
    Status s = overlay(settings, &database, &column_family);
    *options = Options(database, column_family);
    return s;
  };
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

void RefuseByTrie(Engine* engine) {
  engine->refused_flags = {
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
      {"use_plain_table", "contradicts --engine, which decides the tables"},
      {"use_cuckoo_table", "contradicts --engine, which decides the tables"},
      {"use_ribbon_filter", "contradicts --engine, whose filters are Bloom filters of --bloom_bits"},
  };
  engine->refused_benchmarks = {
      {"fillseqdeterministic", nullptr, "shapes RocksDB's levels, which are a trie's slots"},
      {"filluniquerandomdeterministic", nullptr, "shapes RocksDB's levels, which are a trie's slots"},
      {"compact0", nullptr, "names a RocksDB level, which is a trie's slot; use compact"},
      {"compact1", nullptr, "names a RocksDB level, which is a trie's slot; use compact"},
  };
}

void RefuseBySilt(Engine* engine) {
  engine->refused_flags = {
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
    engine->refused_benchmarks.push_back({name, nullptr, "shapes RocksDB's levels, of which a SILT store has two"});
  }
}

void RefuseByLevels(EngineLevels levels, Engine* engine) {
  switch (levels) {
    case EngineLevels::kLeveled:
      engine->flags = {
          {"compaction_style", "0"}, {"level_compaction_dynamic_level_bytes", "true"}, {"bloom_bits", "10"}};
      break;
    case EngineLevels::kLeveledSized:
      engine->flags = {{"compaction_style", "0"}, {"bloom_bits", "10"}};
      for (const char* flag : {"level_compaction_dynamic_level_bytes", "compaction_pri"}) {
        engine->refused_flags.push_back({flag, kEngineDecides});
      }
      break;
    case EngineLevels::kUniversal:
      engine->flags = {{"compaction_style", "1"}, {"level0_file_num_compaction_trigger", "16"}, {"bloom_bits", "10"}};
      engine->refused_flags = {{"universal_size_ratio", "is --engine_options=size_ratio=.. of --engine=ordered"},
                               {"universal_max_size_amplification_percent",
                                "is --engine_options=max_size_amplification_percent=.. of --engine=ordered"}};
      break;
    case EngineLevels::kTrie:
      return RefuseByTrie(engine);
    case EngineLevels::kSilt:
      return RefuseBySilt(engine);
  }
}

// An engine of Cairn's, as its row says.
Engine EngineOf(const EngineRow& row) {
  Engine engine{};
  engine.name = row.name;
  engine.summary = row.summary;
  engine.key_order = row.keeps_key_order ? KeyOrder::kBytes : KeyOrder::kHash;
  engine.open = OpenCairn;  // db_bench puts its overlay in front of DB::Open
  engine.settle = row.levels == EngineLevels::kTrie ? SettleTrie : SettlePlain;
  engine.overlay = [&row](const EngineSettings& settings, DBOptions* database, ColumnFamilyOptions* column_family) {
    return Overlay(row, settings, database, column_family);
  };
  engine.configure = ConfigureOverlaid(row.levels, engine.overlay);
  RefuseByLevels(row.levels, &engine);
  for (const char* flag : {"options_file", "compaction_style"}) engine.refused_flags.push_back({flag, kEngineDecides});
  for (const char* flag : {"transaction_db", "optimistic_transaction_db"}) {
    engine.refused_flags.push_back(
        {flag, "goes with --options_file in place of --engine; cairn options writes the file"});
  }
  if (row.tables == EngineTables::kOrdered) {
    for (const char* flag : {"use_plain_table", "use_cuckoo_table", "use_uint64_comparator", "user_timestamp_size"}) {
      engine.refused_flags.push_back({flag, "contradicts --engine, whose tables are block-based with an order filter"});
    }
  }
  if (!row.keeps_key_order) RefuseWhatNeedsKeyOrder(&engine);
  return engine;
}

// RocksDB's own engines, which the others are put beside.
void AddRivals(std::vector<Engine>* engines) {
  Engine leveled{};
  leveled.name = "leveled";
  leveled.summary =
      "RocksDB's leveled compaction: 10-bit Bloom filters, dynamic level sizes. Few bytes on disk, more written.";
  leveled.key_order = KeyOrder::kBytes;
  leveled.configure = ConfigureStock<ConfigureLeveled>;
  leveled.open = OpenPlain;
  leveled.settle = SettlePlain;
  RefuseByLevels(EngineLevels::kLeveled, &leveled);
  leveled.refused_flags = {{"options_file", kEngineDecides}, {"compaction_style", kEngineDecides}};
  engines->push_back(leveled);

  Engine partitioned = leveled;
  partitioned.name = "partitioned";
  partitioned.summary =
      "The same with partitioned indexes and filters in the block cache: less memory, more block reads.";
  partitioned.configure = ConfigureStock<ConfigurePartitioned>;
  partitioned.flags.push_back({"partition_index_and_filters", "true"});
  partitioned.flags.push_back({"cache_index_and_filter_blocks", "true"});
  engines->push_back(partitioned);

  Engine universal = leveled;
  universal.name = "universal";
  universal.summary =
      "RocksDB's universal compaction: 10-bit Bloom filters, merges at 8 sorted runs. Fewer bytes written, more space.";
  universal.configure = ConfigureStock<ConfigureUniversal>;
  universal.flags = {{"compaction_style", "1"}, {"level0_file_num_compaction_trigger", "8"}, {"bloom_bits", "10"}};
  engines->push_back(universal);
}

std::vector<Engine> MakeEngines() {
  std::vector<Engine> engines;
  AddRivals(&engines);
  for (const EngineRow& row : EngineTable()) {
    // Stock is `leveled`, and sub-MemTables are --memtablerep.
    const bool is_rival = row.tables == EngineTables::kGiven && row.levels == EngineLevels::kLeveled;
    if (!is_rival) engines.push_back(EngineOf(row));
  }
  Engine cached = EngineOf(*FindEngineRow("trie"));
  cached.name = "trie_cached";
  cached.summary =
      "The trie with filter pages in the block cache, for less memory than all filters take: one filter read per "
      "depth.";
  cached.overlay = OverlayTrieCached;
  cached.configure = ConfigureOverlaid(EngineLevels::kTrie, cached.overlay);
  engines.push_back(cached);
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

}  // namespace cairn::bench
