// What golden databases hold, and with which options: shared by golden_make, which writes them, and golden_test. The
// content depends on nothing but this file, so that any release can be asked for the same.
//
// Thread-safety: none is needed.

#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <vector>

#include "cairn/cache.h"
#include "rocksdb/db.h"
#include "rocksdb/options.h"

namespace cairn::golden {

struct Database {
  const char* name;
  const char* engine;  // as UseEngineFromString takes it
  bool killed;         // its writer ends without closing it
};

const std::vector<Database>& Databases();
inline constexpr char kCached[] = "cached";  // the database that has a result cache in a file, kAnswers in its folder
inline constexpr char kAnswers[] = "ANSWERS";
// A result cache of its own, in the folder of kCached.
inline constexpr char kCacheFile[] = "CACHE";
inline constexpr int kCachedAnswers = 200;

// Column families: all have the engine, the second compresses.
inline constexpr const char* kFamilies[] = {"default", "compressed"};

// Of the database, with descriptors of kFamilies; a failure ends the process.
rocksdb::DBOptions OptionsOf(const Database& database, const std::string& engine,
                             std::vector<rocksdb::ColumnFamilyDescriptor>* families);
ResultCacheOptions CacheOptions(const std::string& folder);
std::string CachedKey(int number);

// Writes the content into the column families of a new database.
rocksdb::Status Fill(const Database& database, rocksdb::DB* db,
                     const std::vector<rocksdb::ColumnFamilyHandle*>& families);

using Content = std::map<std::string, std::string>;

// All keys and values, by an iterator.
rocksdb::Status ReadAll(rocksdb::DB* db, rocksdb::ColumnFamilyHandle* family, Content* content);

// "1234 keys, checksum 0123456789abcdef"
std::string Describe(const Content& content);

}  // namespace cairn::golden
