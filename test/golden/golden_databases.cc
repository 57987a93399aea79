#include "test/golden/golden_databases.h"

#include <cinttypes>
#include <cstdio>
#include <cstdlib>
#include <random>

#include "cairn/engines.h"
#include "cairn/result_cache.h"
#include "rocksdb/convenience.h"
#include "rocksdb/table.h"
#include "rocksdb/write_batch.h"
#include "util/short_hash.h"

namespace cairn::golden {

using rocksdb::ColumnFamilyHandle;
using rocksdb::DB;
using rocksdb::Status;
using rocksdb::WriteOptions;

namespace {

constexpr int kWrites = 3000;
constexpr int kWritesPerFlush = 300;
constexpr int kKeys = 800;

void Require(const Status& s) {
  if (s.ok()) return;
  std::fprintf(stderr, "golden database: %s\n", s.ToString().c_str());
  std::exit(1);
}

// Short ones, long ones, ones with any bytes, and the empty key.
std::string KeyOf(uint64_t number) {
  char text[40];
  std::snprintf(text, sizeof(text), "key%06" PRIu64, number * 7919 % 1000000);
  std::string key = text;
  if (number % 11 == 3) key += std::string(number % 100, 'k');
  if (number % 13 == 5) key = std::string("\0\xff", 2) + key;
  return number == 0 ? "" : key;
}

std::string ValueOf(std::mt19937_64* random) {
  static const char* const words[] = {"stone", "path ", "hill ", "river", "cloud", "grass", "birch", "heron"};
  const uint64_t draw = (*random)();
  size_t bytes = draw % 150;
  if (draw % 211 == 0) bytes = 5000;
  if (draw % 1999 == 0) bytes = 20000;
  std::string value;
  while (value.size() < bytes) value += words[(*random)() % std::size(words)];
  value.resize(bytes);
  return value;
}

Status WriteOne(std::mt19937_64* random, ColumnFamilyHandle* family, rocksdb::WriteBatch* batch) {
  const uint64_t draw = (*random)();
  const std::string key = KeyOf(draw % kKeys);
  const uint64_t kind = (draw >> 32) % 20;
  if (kind < 3) return batch->Delete(family, key);
  const std::string value = ValueOf(random);
  return kind < 6 ? batch->Merge(family, key, value.substr(0, 50)) : batch->Put(family, key, value);
}

// Where there are range deletions: neither in hash order nor in a pool file.
Status DeleteRange(const Database& database, DB* db, ColumnFamilyHandle* family) {
  const std::string engine = database.engine;
  const size_t name_at = engine.find('=') + 1;
  if (database.killed || !KeepsKeyOrder(engine.substr(name_at, engine.find(';') - name_at))) return Status::OK();
  return db->DeleteRange(WriteOptions(), family, "key300000", "key340000");
}

}  // namespace

const std::vector<Database>& Databases() {
  static const auto* const databases = new std::vector<Database>{
      {"trie", "engine=trie;fan_out=4;slots=4;trigger=3;root_trigger=3", false},
      {"trie_sst", "engine=trie_sst;fan_out=4;slots=4;trigger=3;root_trigger=3;bottommost_format=ect", false},
      {"ordered", "engine=ordered;runs=4", false},
      {"leveled_ordered", "engine=leveled_ordered", false},
      {"ordered_trie", "engine=ordered_trie;fan_out=4;slots=4;trigger=3;root_trigger=3", false},
      {"silt", "engine=silt;merge_trigger=3;last_level_filter_bits=4", false},
      {"durable", "engine=sub_memtables;durable=true;pool_size=2M;segment_size=64K", true},
      {kCached, "engine=leveled_ordered", false},
  };
  return *databases;
}

rocksdb::DBOptions OptionsOf(const Database& database, const std::string& engine,
                             std::vector<rocksdb::ColumnFamilyDescriptor>* families) {
  rocksdb::DBOptions options;
  options.create_if_missing = true;
  options.create_missing_column_families = true;
  options.db_host_id = "golden";  // tables name the machine otherwise
  rocksdb::ColumnFamilyOptions family;
  Require(rocksdb::GetColumnFamilyOptionsFromString(
      rocksdb::ConfigOptions(), family,
      "write_buffer_size=64K;target_file_size_base=32K;max_bytes_for_level_base=128K;"
      "level0_file_num_compaction_trigger=3;compression=kNoCompression;"
      "merge_operator={id=StringAppendOperator;delimiter=,};"
      "block_based_table_factory={block_size=1K;filter_policy=bloomfilter:10:false}",
      &family));
  Require(UseEngineFromString(engine, &options, &family));
  families->assign({{kFamilies[0], family}, {kFamilies[1], family}});
  families->back().options.compression = rocksdb::kZSTD;
  if (std::string(database.name) == kCached) {
    DatabaseCacheOptions cache;
    cache.capacity = 256 << 10;
    cache.path = kAnswers;
    UseResultCache(cache, &options);
  }
  return options;
}

ResultCacheOptions CacheOptions(const std::string& folder) {
  ResultCacheOptions options;
  options.capacity = 256 << 10;
  options.path = folder + "/" + kCacheFile;
  options.identity = "golden";
  return options;
}

std::string CachedKey(int number) { return "cached" + std::to_string(number); }

Status Fill(const Database& database, DB* db, const std::vector<ColumnFamilyHandle*>& families) {
  std::mt19937_64 random(59);
  Status s;
  for (int i = 0; i < kWrites && s.ok();) {
    rocksdb::WriteBatch batch;
    for (int end = i + 10; i < end && s.ok(); ++i) s = WriteOne(&random, families[i / 10 % 2], &batch);
    if (s.ok()) s = db->Write(WriteOptions(), &batch);
    if (s.ok() && i == kWrites / 2) s = DeleteRange(database, db, families[0]);
    if (s.ok() && i % kWritesPerFlush == 0) s = db->Flush(rocksdb::FlushOptions(), families);
  }
  // What follows the last flush is in the log, or in the pool file of a database that is killed.
  WriteOptions synced;
  synced.sync = true;
  return s.ok() ? db->Put(synced, families[0], "synced", "last") : s;
}

Status ReadAll(DB* db, ColumnFamilyHandle* family, Content* content) {
  content->clear();
  rocksdb::ReadOptions options;
  options.total_order_seek = true;
  const std::unique_ptr<rocksdb::Iterator> iterator(db->NewIterator(options, family));
  for (iterator->SeekToFirst(); iterator->Valid(); iterator->Next()) {
    (*content)[iterator->key().ToString()] = iterator->value().ToString();
  }
  return iterator->status();
}

std::string Describe(const Content& content) {
  uint64_t sum = 0;
  for (const auto& [key, value] : content) {
    sum = XXH3_64bits_withSeed(key.data(), key.size(), sum);
    sum = XXH3_64bits_withSeed(value.data(), value.size(), sum);
  }
  char text[64];
  std::snprintf(text, sizeof(text), "%zu keys, checksum %016" PRIx64, content.size(), sum);
  return text;
}

}  // namespace cairn::golden
