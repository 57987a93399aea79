// A program that takes RocksDB from the archive and mentions nothing of Cairn.

#include <cstdio>
#include <memory>

#include "rocksdb/db.h"
#include "test/clients/open_database.h"

int main() {
  rocksdb::Options options;
  std::unique_ptr<rocksdb::DB> db;
  const rocksdb::Status status = stock::OpenDatabase(&db, options, "/dev/null/no_database_here");
  std::puts(status.ToString().c_str());
  return status.ok() ? 1 : 0;
}
