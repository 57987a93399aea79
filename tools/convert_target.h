// The options of the database that `cairn convert` writes: the source's, with another engine, and those under which it
// is written.
//
// Stateless; thread-safe.

#pragma once

#include <string>
#include <vector>

#include "rocksdb/options.h"
#include "tools/convert_source.h"

namespace cairn {

struct TargetFamily {
  std::string name;
  bool converted = true;  // false: keeps the engine that it has in the source
  rocksdb::ColumnFamilyOptions options;
};

struct ConvertTarget {
  rocksdb::DBOptions db_options;
  std::vector<TargetFamily> families;  // in the order of the source's
  std::vector<std::string> notes;      // what is left behind without harm to the data, a sentence each
};

// `only`: names of the column families to convert; empty: all.
rocksdb::Status PlanConvertTarget(const ConvertSource& source, const std::string& engine,
                                  const std::vector<std::string>& engine_options, const std::vector<std::string>& only,
                                  ConvertTarget* target);

// The same for the time of writing: memtables that only append, no compaction filter, nothing that expires. What is
// written under these options can be opened with the others.
ConvertTarget ForWriting(const ConvertTarget& target);

// Text of the OPTIONS file that the way back is to start from, to be kept in the destination; empty: none.
rocksdb::Status StockOptionsToRemember(const ConvertSource& source, std::string* text);

}  // namespace cairn
