// A program that takes RocksDB from the archive and mentions nothing of Cairn.

#include <cstdio>

#include "rocksdb/db.h"

int main() {
  rocksdb::Options options;
  rocksdb::DB* db = nullptr;
  const rocksdb::Status status = rocksdb::DB::Open(options, "/dev/null/no_database_here", &db);
  std::puts(status.ToString().c_str());
  return status.ok() ? 1 : 0;
}
