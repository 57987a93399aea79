// A program that uses Cairn from an installed tree: opens a trie, writes, compacts, reads back.
//
//   consumer DB_DIR

#include <cstdio>
#include <memory>
#include <string>

#include "cairn/db.h"
#include "cairn/trie.h"
#include "rocksdb/convenience.h"
#include "rocksdb/db.h"

namespace {

int Fail(const char* what, const rocksdb::Status& status) {
  std::fprintf(stderr, "%s: %s\n", what, status.ToString().c_str());
  return 1;
}

}  // namespace

int main(int argc, char** argv) {
  if (argc != 2) {
    std::fprintf(stderr, "usage: consumer DB_DIR\n");
    return 2;
  }

  // A component by its option string: the registration has to be in whatever library was linked.
  rocksdb::ColumnFamilyOptions by_name;
  rocksdb::Status status = rocksdb::GetColumnFamilyOptionsFromString(
      rocksdb::ConfigOptions(), rocksdb::ColumnFamilyOptions(), "comparator=cairn.HashOrder:xxh3:0", &by_name);
  if (!status.ok()) return Fail("comparator by name", status);

  rocksdb::Options options;
  options.create_if_missing = true;
  status = cairn::UseTrie(&options);
  if (!status.ok()) return Fail("UseTrie", status);
  rocksdb::DB* raw = nullptr;
  status = cairn::Open(options, argv[1], &raw);
  if (!status.ok()) return Fail("Open", status);
  std::unique_ptr<rocksdb::DB> db(raw);

  for (int i = 0; i < 10000; i++) {
    status = db->Put(rocksdb::WriteOptions(), "key" + std::to_string(i), "value" + std::to_string(i));
    if (!status.ok()) return Fail("Put", status);
  }
  status = db->Flush(rocksdb::FlushOptions());
  if (!status.ok()) return Fail("Flush", status);
  status = cairn::CompactTrie(db.get(), db->DefaultColumnFamily());
  if (!status.ok()) return Fail("CompactTrie", status);
  for (int i = 0; i < 10000; i++) {
    std::string value;
    status = db->Get(rocksdb::ReadOptions(), "key" + std::to_string(i), &value);
    if (!status.ok()) return Fail("Get", status);
    if (value != "value" + std::to_string(i)) return Fail("Get", rocksdb::Status::Corruption("wrong value"));
  }
  std::printf("10000 keys read back from a trie\n");
  return 0;
}
