// Databases on any engine, as scripts, judges and stress runs open them.
//
// Thread-safety: functions are thread-safe, an OpenedDatabase is not.

#pragma once

#include <map>
#include <memory>
#include <string>
#include <vector>

#include "rocksdb/db.h"
#include "rocksdb/options.h"
#include "rocksdb/status.h"

namespace cairn::faults {

using Contents = std::map<std::string, std::string>;

// Two column families of the engine and one in the order of keys.
inline constexpr int kFamilies = 3;
inline constexpr const char* kFamilyNames[kFamilies] = {"default", "second", "ordered_keys"};

// Options of a database on the engine; those of the column family "ordered_keys" in *leveled.
rocksdb::Status FillOptions(const std::string& engine, rocksdb::Options* options, rocksdb::Options* leveled);
bool IsDurable(const std::string& engine);
bool IsTrieEngine(const std::string& engine);

// A database with all its column families.
struct OpenedDatabase {
  std::unique_ptr<rocksdb::DB> db;
  std::vector<std::string> names;
  std::vector<rocksdb::ColumnFamilyHandle*> handles;
  ~OpenedDatabase() { Close(); }
  rocksdb::Status Close();
  rocksdb::ColumnFamilyHandle* Find(const std::string& name) const;
};
rocksdb::Status OpenAll(const std::string& engine, const std::string& path, OpenedDatabase* database);
// Everything in the column family; Corruption for a key that is there twice.
rocksdb::Status ReadAll(rocksdb::DB* db, rocksdb::ColumnFamilyHandle* family, Contents* contents);

}  // namespace cairn::faults
