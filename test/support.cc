#include "test/support.h"

#include <cstdlib>
#include <random>

#include "cairn/db.h"
#include "cairn/htable.h"
#include "cairn/memtable.h"
#include "cairn/ordered.h"
#include "cairn/round_robin.h"
#include "cairn/silt.h"
#include "cairn/trie.h"
#include "rocksdb/cache.h"
#include "rocksdb/table.h"
#include "test/testutil/trie_fixture.h"

namespace cairn::test {

uint64_t NumberFromEnvironment(const char* name, uint64_t otherwise) {
  const char* text = std::getenv(name);
  return text != nullptr && *text != '\0' ? std::strtoull(text, nullptr, 0) : otherwise;
}

uint64_t SeedFromEnvironment() { return NumberFromEnvironment("CAIRN_SEED", std::random_device()()); }

namespace {

Status FillLeveled(Options* options) {
  options->level0_file_num_compaction_trigger = 2;
  options->max_bytes_for_level_base = 32 << 10;
  options->max_bytes_for_level_multiplier = 3;
  options->target_file_size_base = 8 << 10;
  return Status::OK();
}

Status FillUniversal(Options* options) {
  options->compaction_style = rocksdb::kCompactionStyleUniversal;
  options->level0_file_num_compaction_trigger = 3;
  options->target_file_size_base = 8 << 10;
  return Status::OK();
}

// Two children, so that a key's path is long; pushes deeper whenever it may.
HashTrieOptions TinyTrie() {
  auto trie = ShapedTrie<HashTrieOptions>(/*fan_out=*/2, /*slots=*/3, /*trigger=*/2, /*depth=*/5, /*root_trigger=*/2);
  trie.format = "sst";
  trie.grow_liveness = 0.1;
  return trie;
}

// Four children and few slots; a container and the root are due at `trigger`.
HashTrieOptions SmallTrie(int trigger, int depth) {
  auto trie = ShapedTrie<HashTrieOptions>(/*fan_out=*/4, /*slots=*/4, trigger, depth, /*root_trigger=*/trigger);
  trie.format = "sst";
  return trie;
}

Status FillTrieTiny(Options* options) { return UseTrie(options, TinyTrie()); }

// Merges in place at the deepest depth rather than growing, under a tight space bound.
Status FillTrieTight(Options* options) {
  HashTrieOptions trie = SmallTrie(3, 3);
  trie.space_bound = 1.1;
  trie.grow_liveness = 0.9;
  trie.seed = 0x9e3779b97f4a7c15u;
  return UseTrie(options, trie);
}

Status FillTrieSha1(Options* options) {
  HashTrieOptions trie = SmallTrie(2, 4);
  trie.hash = "sha1";
  trie.seed = 7;
  trie.filter_bits = 0;
  trie.grow_liveness = 0.1;
  return UseTrie(options, trie);
}

Status FillSiltPinned(Options* options) {
  SiltOptions silt;
  silt.partitions = 1;
  silt.merge_trigger = 2;
  options->target_file_size_base = 16 << 10;
  return UseSilt(options, silt);
}

// Many small partitions, which are merged for space or because they have filled up.
Status FillSiltPartitions(Options* options) {
  SiltOptions silt;
  silt.partitions = 4;
  silt.max_hash_stores = 4;
  return UseSilt(options, silt);
}

// Indexes that the block cache has seldom room for, small groups and filters that often err.
Status FillSiltCache(Options* options) {
  rocksdb::BlockBasedTableOptions table = *options->table_factory->GetOptions<rocksdb::BlockBasedTableOptions>();
  table.block_cache = rocksdb::NewLRUCache(32 << 10, 0);
  options->table_factory.reset(rocksdb::NewBlockBasedTableFactory(table));
  SiltOptions silt;
  silt.seed = 7;
  silt.partitions = 1;
  silt.merge_trigger = 3;
  silt.table.group = 16;
  silt.table.hmax = 4;
  silt.table.filter_tag_bits = 4;
  silt.table.last_level_filter_bits = 2;
  silt.table.index_residency = EctIndexResidency::kCache;
  return UseSilt(options, silt);
}

// No index in memory and no filters.
Status FillSiltDropped(Options* options) {
  SiltOptions silt;
  silt.partitions = 1;
  silt.merge_trigger = 4;
  silt.table.filter_tag_bits = 0;
  silt.table.index_residency = EctIndexResidency::kDropped;
  return UseSilt(options, silt);
}

// The same shapes over HTables, with small groups, so that a table has several.
Status UseSmallHTables(Options* options, HashTrieOptions trie) {
  trie.format = "htable";
  HTableOptions htable;
  htable.table = options->table_factory;
  htable.group_buckets = 8;
  options->table_factory.reset(NewHTableFactory(htable));
  return UseTrie(options, trie);
}

Status FillTrieHTable(Options* options) { return UseSmallHTables(options, TinyTrie()); }

Status FillTrieZstd(Options* options) {
  options->compression = rocksdb::kZSTD;
  options->compression_opts.max_dict_bytes = 2048;
  options->compression_opts.zstd_max_train_bytes = 32 << 10;
  HashTrieOptions trie = SmallTrie(3, 3);
  trie.seed = 3;
  return UseSmallHTables(options, trie);
}

// Tables with nothing older below them have an ECT index, beside block-based ones with Bloom filters, or HTables.
Status FillTrieEct(Options* options) {
  HashTrieOptions trie = TinyTrie();
  trie.space_bound = 1.2;
  trie.grow_liveness = 0.5;
  trie.bottommost_format = "ect";
  return UseTrie(options, trie);
}

Status FillTrieHTableEct(Options* options) {
  HashTrieOptions trie = SmallTrie(2, 3);
  trie.grow_liveness = 0.1;
  trie.bottommost_format = "ect";
  return UseSmallHTables(options, trie);
}

Status FillTrieDefault(Options* options) { return UseTrie(options, HashTrieOptions()); }

// Sub-MemTables beside another engine; segments sealed in place, or by copy.
Status FillLeveledSub(Options* options) {
  options->memtable_factory = NewSubMemTableFactory();
  return FillLeveled(options);
}

Status FillTrieSubCopy(Options* options) {
  SubMemTableOptions memtable;
  memtable.copy_on_seal = true;
  memtable.pool_size = 256 << 10;
  options->memtable_factory = NewSubMemTableFactory(memtable);
  return FillTrieTight(options);
}

// Order filters that err often, over both compaction styles; in the cache, which has seldom room for them.
Status FillOrdered(Options* options) {
  options->memtable_factory = NewSubMemTableFactory();
  OrderedOptions ordered;
  ordered.runs = 8;
  ordered.order.order_bits = 3;
  ordered.order.extra_order_bits = 0;
  Status s = FillUniversal(options);
  return s.ok() ? UseOrdered(options, ordered) : s;
}

Status FillOrderedCache(Options* options) {
  rocksdb::BlockBasedTableOptions table = *options->table_factory->GetOptions<rocksdb::BlockBasedTableOptions>();
  table.block_cache = rocksdb::NewLRUCache(32 << 10, 0);
  table.cache_index_and_filter_blocks = true;
  options->table_factory.reset(rocksdb::NewBlockBasedTableFactory(table));
  return FillOrdered(options);
}

Status FillLeveledOrdered(Options* options) {
  Status s = FillLeveled(options);
  return s.ok() ? UseOrderedTable(options) : s;
}

// Levels for a few thousand keys, and a tuner that looks often and changes sizes when it may.
Status FillRoundRobin(Options* options) {
  Status s = FillLeveled(options);
  RoundRobinOptions round_robin;
  round_robin.keys = 5000;
  round_robin.max_space = 0;
  round_robin.window_flushes = 4;
  round_robin.min_seconds_between_changes = 0;
  return s.ok() ? UseRoundRobin(options, round_robin) : s;
}

KeyTrieOptions KeyTrie(int fan_out, int trigger, int depth) {
  auto trie = ShapedTrie<KeyTrieOptions>(fan_out, /*slots=*/4, trigger, depth, /*root_trigger=*/trigger);
  trie.filter_bits = 16;
  trie.space_bound = 1.5;
  return trie;
}

Status FillOrderedTrie(Options* options) { return UseTrie(options, KeyTrie(4, 3, 4)); }

Status FillOrderedTrieTight(Options* options) {
  KeyTrieOptions trie = KeyTrie(2, 2, 3);
  trie.space_bound = 1.1;
  return UseTrie(options, trie);
}

}  // namespace

const std::vector<Engine>& Engines() {
  static const std::vector<Engine> engines = {
      {"leveled", FillLeveled, false, 2},
      {"universal", FillUniversal, false, 0},
      {"trie_tiny", FillTrieTiny, true, 3},
      {"trie_tight", FillTrieTight, true, 1},
      {"trie_sha1", FillTrieSha1, true, 3},
      {"trie_default", FillTrieDefault, true, 1},
      {"silt_pinned", FillSiltPinned, false, 1},
      {"silt_partitions", FillSiltPartitions, true, 1},
      {"silt_cache", FillSiltCache, false, 1},
      {"silt_dropped", FillSiltDropped, false, 1},
      {"leveled_sub", FillLeveledSub, false, 2},
      {"ordered", FillOrdered, false, 0},
      {"ordered_cache", FillOrderedCache, false, 0},
      {"leveled_ordered", FillLeveledOrdered, false, 2},
      {"round_robin", FillRoundRobin, false, 1},
      {"ordered_trie", FillOrderedTrie, true, 3},
      {"ordered_trie_tight", FillOrderedTrieTight, true, 1},
      {"trie_sub_copy", FillTrieSubCopy, true, 1},
      {"trie_htable", FillTrieHTable, true, 3},
      {"trie_zstd", FillTrieZstd, true, 1},
      {"trie_ect", FillTrieEct, true, 1},
      {"trie_htable_ect", FillTrieHTableEct, true, 1},
  };
  return engines;
}

const Engine* FindEngine(const std::string& name) {
  for (const Engine& engine : Engines()) {
    if (name == engine.name) return &engine;
  }
  return nullptr;
}

std::string EngineName(const ::testing::TestParamInfo<Engine>& info) { return info.param.name; }
void PrintTo(const Engine& engine, std::ostream* out) { *out << engine.name; }

Options BaseOptions() {
  Options options;
  options.create_if_missing = true;
  options.max_background_jobs = 2;
  options.write_buffer_size = 64 << 10;
  options.max_write_buffer_number = 3;
  rocksdb::BlockBasedTableOptions table;
  table.block_size = 512;
  options.table_factory.reset(rocksdb::NewBlockBasedTableFactory(table));
  options.compression = rocksdb::kNoCompression;
  options.force_consistency_checks = true;
  options.paranoid_file_checks = true;
  options.paranoid_checks = true;
  return options;
}

Options OptionsOf(const Engine& engine) {
  Options options = BaseOptions();
  EXPECT_OK(engine.fill(&options));
  return options;
}

Status CompactAll(rocksdb::DB* db, rocksdb::ColumnFamilyHandle* column_family, bool trie) {
  if (trie) return CompactTrie(db, column_family);
  rocksdb::CompactRangeOptions options;
  options.bottommost_level_compaction = rocksdb::BottommostLevelCompaction::kForceOptimized;
  // Under faults RocksDB would wait for compactions that it does not start.
  options.allow_write_stall = true;
  return db->CompactRange(options, column_family, nullptr, nullptr);
}

int DeepestDepth(rocksdb::DB* db, rocksdb::ColumnFamilyHandle* column_family, bool trie) {
  if (trie) {
    TrieStats stats;
    EXPECT_OK(GetTrieStats(db, column_family, &stats));
    return stats.depths.empty() ? 0 : stats.depths.back().depth;
  }
  rocksdb::ColumnFamilyMetaData metadata;
  db->GetColumnFamilyMetaData(column_family, &metadata);
  int deepest = 0;
  for (const rocksdb::LevelMetaData& level : metadata.levels) {
    if (!level.files.empty()) deepest = level.level;
  }
  return deepest;
}

}  // namespace cairn::test
