// The engines that the benchmark programs put side by side: those of db/engine_table.h, RocksDB's own, and variants.
//
// A row serves three programs: db_bench (--engine=NAME), engine_bench and cairn_demo. All rows are given the same
// memory, the same background jobs and the same compression; what else they set is what an experienced user of that
// engine would.
//
// Thread-safety: the table is constant after static initialisation; the functions keep no state.

#pragma once

#include <cstdint>
#include <functional>
#include <string>
#include <vector>

#include "rocksdb/db.h"
#include "rocksdb/options.h"
#include "rocksdb/status.h"

namespace cairn::bench {

// What is the same for every engine of a comparison.
struct EngineSettings {
  uint64_t write_buffer_size = uint64_t{64} << 20;  // bytes
  uint64_t block_cache_size = uint64_t{32} << 20;   // bytes
  int background_jobs = 2;

  // RocksDB's block cache without locks, in place of its default, the LRU cache.
  bool hyper_clock_cache = false;

  // Whether RocksDB's indexes and filters live in the block cache, so that its size is what an engine has of memory. A
  // SILT store's always count there.
  bool index_in_cache = false;

  // Bits a key. Negative: what the engine's row chooses.
  double filter_bits = -1;

  // Files of level 0 that start a compaction. Negative: what the engine's row chooses.
  int level0_trigger = -1;

  // RocksDB's name of a memtable, with options or without; empty: what the engine's row chooses.
  std::string memtable;

  // The engine's own options as an option string; empty: its defaults. trie_sst reads cairn::HashTrieOptions, silt
  // cairn::SiltOptions.
  std::string engine_options;
};

enum class KeyOrder {
  kBytes,  // range scans mean something
  kHash,   // they do not
};

// A flag of db_bench and the value that a preset gives it unless the user names it.
struct PresetFlag {
  const char* name;
  const char* value;
};

// A flag of db_bench that contradicts an engine when the user names it.
struct RefusedFlag {
  const char* name;
  const char* why;  // continues "--NAME "
};

// A benchmark of db_bench that has no meaning on an engine.
struct RefusedBenchmark {
  const char* name;
  const char* unless_default;  // refused only when this flag differs from its default; null: always
  const char* why;             // continues "benchmark NAME "
};

struct Engine {
  const char* name;
  const char* summary;
  KeyOrder key_order;

  // Fills *options for a new or an existing database: everything but the path.
  std::function<rocksdb::Status(const EngineSettings& settings, rocksdb::Options* options)> configure;

  // The caller deletes *db.
  rocksdb::Status (*open)(const rocksdb::Options& options, const std::string& path, rocksdb::DB** db);

  // Flushes, and returns when no flush or compaction is running, queued or due.
  rocksdb::Status (*settle)(rocksdb::DB* db);

  // Lays the engine over options of any origin; null when `flags` say it all.
  std::function<rocksdb::Status(const EngineSettings& settings, rocksdb::DBOptions* database,
                                rocksdb::ColumnFamilyOptions* column_family)>
      overlay;

  // db_bench only.
  std::vector<PresetFlag> flags;
  std::vector<RefusedFlag> refused_flags;
  std::vector<RefusedBenchmark> refused_benchmarks;
};

const std::vector<Engine>& Engines();

// Puts the memtable of the settings, if they name one, into the options that `configure` has filled.
rocksdb::Status UseMemtable(const EngineSettings& settings, rocksdb::ColumnFamilyOptions* options);

// Null for an unknown name.
const Engine* FindEngine(const std::string& name);

// "leveled, universal, ...", for messages.
std::string EngineNames();

}  // namespace cairn::bench
