// A program that was written for RocksDB and finds it by its build system. The engine is a matter of its option string.
//
//   rocksdb_consumer DB_DIR

#include <cstdio>
#include <memory>
#include <string>

#include "../open_database.h"
#include "rocksdb/convenience.h"
#include "rocksdb/db.h"
#include "rocksdb/version.h"

namespace {

rocksdb::Status WriteAndRead(const std::string& path) {
  rocksdb::Options options;
  rocksdb::Status s =
      rocksdb::GetOptionsFromString(rocksdb::ConfigOptions(), rocksdb::Options(),
                                    "create_if_missing=true;memtable_factory=cairn.SubMemTable", &options);
  if (!s.ok()) return s;
  std::unique_ptr<rocksdb::DB> db;
  s = stock::OpenDatabase(&db, options, path);
  if (!s.ok()) return s;
  s = db->Put(rocksdb::WriteOptions(), "key", "value");
  std::string value;
  if (s.ok()) s = db->Get(rocksdb::ReadOptions(), "key", &value);
  if (s.ok() && value != "value") s = rocksdb::Status::Corruption("wrong value", value);
  return s.ok() ? db->Close() : s;
}

}  // namespace

int main(int argc, char** argv) {
  if (argc != 2) {
    std::fprintf(stderr, "usage: rocksdb_consumer DB_DIR\n");
    return 2;
  }
  const rocksdb::Status s = WriteAndRead(argv[1]);
  std::printf("RocksDB %s: %s\n", rocksdb::GetRocksVersionAsString().c_str(), s.ToString().c_str());
  return s.ok() ? 0 : 1;
}
