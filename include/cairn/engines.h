// The engines by the names that commands and other languages take.
//
//   rocksdb::Options options;
//   rocksdb::Status s = cairn::UseEngineFromString("engine=ordered;runs=8", &options, &options);
//
// Stateless; thread-safe.

#pragma once

#include <string>
#include <vector>

#include "rocksdb/options.h"
#include "rocksdb/status.h"

namespace cairn {

// RocksDB as it comes.
inline constexpr char kStockEngine[] = "stock";

// All names, the stock engine first.
std::vector<std::string> EngineNames();

// Whether a column family is of an engine of Cairn's: in hash order, with what its preset sets, of ordered
// tables, or of round_robin.
bool IsOfCairn(const rocksdb::ColumnFamilyOptions& options);

// Whether the engine of this name keeps the order of keys, as the stock engine does.
bool KeepsKeyOrder(const std::string& engine);

// Makes a column family one of `engine`. `engine_options`: option strings of the engine ("fan_out=8;slots=12"), applied
// in order. The stock engine leaves `options` alone and takes no option strings. InvalidArgument names what is wrong.
rocksdb::Status UseEngine(const std::string& engine, const std::vector<std::string>& engine_options,
                          rocksdb::ColumnFamilyOptions* options);

// Adds what the engine needs of the database as a whole. `engine_options` as above.
rocksdb::Status UseEngineInDatabase(const std::string& engine, const std::vector<std::string>& engine_options,
                                    rocksdb::DBOptions* options);

// Both of the above, of "engine=NAME" or "engine=NAME;OPTION=VALUE;...". Either may be null. What is refused leaves
// *options as they were.
rocksdb::Status UseEngineFromString(const std::string& text, rocksdb::DBOptions* db_options,
                                    rocksdb::ColumnFamilyOptions* options);

}  // namespace cairn
