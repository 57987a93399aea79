// The engines, a row each. Whoever adds an engine adds a row to EngineTable() in engines.cc: option strings, the
// environment, `cairn convert`, db_bench and engine_bench read it.
//
// Thread-safety: constant.

#pragma once

#include <string>
#include <vector>

#include "rocksdb/options.h"
#include "rocksdb/status.h"

namespace cairn {

// What decides how tables lie on RocksDB's levels.
enum class EngineLevels {
  kLeveled,       // RocksDB's leveled compaction, with the sizes that the options give
  kLeveledSized,  // the same, with the engine's own sizes
  kUniversal,     // RocksDB's universal compaction
  kTrie,          // a trie
  kSilt,          // a SILT store: level 0 and one sorted level
};

enum class EngineTables {
  kGiven,    // those of the options
  kOrdered,  // block-based, with an order filter
  kDecided,  // the engine's
};

// What every engine knows under one name or another. Negative: the engine's own choice.
struct EngineTuning {
  double filter_bits = -1;  // per key
  int runs = -1;            // sorted runs, or files of level 0, that start a compaction
};

struct EngineRow {
  const char* name;
  const char* summary;
  bool keeps_key_order;
  EngineLevels levels;
  EngineTables tables;
  // What the environment lays over a program's options for it. Null: it writes files that RocksDB without Cairn does
  // not read, or changes what a database was created with, so a program has to ask for it.
  const char* environment;
  // The engine's options that say what `tuning` does.
  std::string (*tune)(const EngineTuning& tuning);
  rocksdb::Status (*use)(const std::vector<std::string>& engine_options, rocksdb::ColumnFamilyOptions* options);
  rocksdb::Status (*use_in_database)(const std::vector<std::string>& engine_options, rocksdb::DBOptions* options);
};

// The stock engine first.
const std::vector<EngineRow>& EngineTable();

// Null: there is none of that name.
const EngineRow* FindEngineRow(const std::string& name);

}  // namespace cairn
