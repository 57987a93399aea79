// A database opened for a command with the options stored in it, all column families.
//
// Thread-safety: as rocksdb::DB.

#pragma once

#include <memory>
#include <string>
#include <vector>

#include "rocksdb/db.h"
#include "rocksdb/status.h"

namespace cairn {

class Database {
 public:
  // Reads without a lock, so another process may have the database open; what it shows is the state of one moment, and
  // not what durable memtables hold in a pool file (pool_text says so).
  static rocksdb::Status OpenForReading(const std::string& path, std::unique_ptr<Database>* database);
  // Busy when another process has the database open.
  static rocksdb::Status OpenForWriting(const std::string& path, std::unique_ptr<Database>* database);
  ~Database();

  Database(const Database&) = delete;
  Database& operator=(const Database&) = delete;

  rocksdb::DB* db() const { return db_; }
  const std::vector<rocksdb::ColumnFamilyHandle*>& families() const { return families_; }
  // What lies in the pool file of durable memtables and was not read, a line for people; empty: nothing. Of databases
  // opened for reading.
  const std::string& pool_text() const { return pool_text_; }
  // Null when there is none of this name.
  rocksdb::ColumnFamilyHandle* Find(const std::string& column_family) const;

  // The error of the last background work, if any, comes out here.
  rocksdb::Status Close();

 private:
  Database() = default;

  rocksdb::DB* db_ = nullptr;
  std::vector<rocksdb::ColumnFamilyHandle*> families_;
  std::string pool_text_;
};

}  // namespace cairn
