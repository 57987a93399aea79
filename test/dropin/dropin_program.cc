// A program written for RocksDB, which has never heard of Cairn: it takes its options from a file.
//
//   dropin_program create OPTIONS_FILE DB_DIR   opens a new database with the file's options, writes, flushes, deletes,
//                                               reads back
//   dropin_program reopen DB_DIR                opens it with the options that the database itself has kept, reads back
//   dropin_program return DB_DIR                as reopen, after another release has had the database: passes over
//   options
//                                               that this one does not know, writes a part anew and compacts everything
//
// Prints the names of what the database runs on. Listener, merge operator and iterators cross the library's boundary in
// both directions, so that a difference of layout between the headers and the library shows.

#include <atomic>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <memory>
#include <set>
#include <string>
#include <thread>
#include <vector>

#include "../clients/open_database.h"
#include "rocksdb/convenience.h"
#include "rocksdb/db.h"
#include "rocksdb/listener.h"
#include "rocksdb/merge_operator.h"
#include "rocksdb/metadata.h"
#include "rocksdb/table.h"
#include "rocksdb/utilities/options_util.h"
#include "rocksdb/version.h"
#include "rocksdb/write_batch.h"

namespace {

using stock::Require;

constexpr int kKeys = 40000;

class FlushCounter : public rocksdb::EventListener {
 public:
  void OnFlushCompleted(rocksdb::DB* /*db*/, const rocksdb::FlushJobInfo& info) override {
    if (info.cf_name == "default") flushes++;
  }
  std::atomic<int> flushes{0};
};

class Concatenate : public rocksdb::AssociativeMergeOperator {
 public:
  bool Merge(const rocksdb::Slice& /*key*/, const rocksdb::Slice* existing, const rocksdb::Slice& value,
             std::string* result, rocksdb::Logger* /*logger*/) const override {
    *result = existing != nullptr ? existing->ToString() + value.ToString() : value.ToString();
    return true;
  }
  const char* Name() const override { return "dropin.Concatenate"; }
};

std::string Key(int i) { return "key" + std::to_string(i); }

bool Deleted(int i) { return i % 10 == 3; }

std::string Expected(int i) { return std::to_string(i) + (i % 7 == 0 ? "+" : ""); }

void Write(rocksdb::DB* db) {
  for (int i = 0; i < kKeys; i += 100) {
    rocksdb::WriteBatch batch;
    for (int j = i; j < i + 100; j++) {
      Require(batch.Put(Key(j), std::to_string(j)), "WriteBatch::Put");
      if (j % 7 == 0) Require(batch.Merge(Key(j), "+"), "WriteBatch::Merge");
      if (Deleted(j)) Require(batch.Delete(Key(j)), "WriteBatch::Delete");
    }
    Require(db->Write(rocksdb::WriteOptions(), &batch), "Write");
    if (i % 2000 == 0) Require(db->Flush(rocksdb::FlushOptions()), "Flush");
  }
}

// The same entries again, in new tables.
void Rewrite(rocksdb::DB* db) {
  for (int i = 0; i < kKeys; i += 3) {
    if (Deleted(i)) {
      Require(db->Delete(rocksdb::WriteOptions(), Key(i)), "Delete");
    } else {
      Require(db->Put(rocksdb::WriteOptions(), Key(i), Expected(i)), "Put");
    }
    if (i % 9000 == 0) Require(db->Flush(rocksdb::FlushOptions()), "Flush");
  }
  Require(db->CompactRange(rocksdb::CompactRangeOptions(), nullptr, nullptr), "CompactRange");
  Require(db->Put(rocksdb::WriteOptions(), Key(0), Expected(0)), "Put");
}

void Check(rocksdb::DB* db) {
  for (int i = 0; i < kKeys; i++) {
    std::string value;
    const rocksdb::Status status = db->Get(rocksdb::ReadOptions(), Key(i), &value);
    if (Deleted(i)) {
      Require(status.IsNotFound(), "a deleted key is back");
    } else {
      Require(status, "Get");
      Require(value == Expected(i), "Get: wrong value");
    }
  }
  std::set<std::string> seen;
  std::unique_ptr<rocksdb::Iterator> it(db->NewIterator(rocksdb::ReadOptions()));
  std::string last;
  for (it->SeekToFirst(); it->Valid(); it->Next()) {
    const std::string key = it->key().ToString();
    Require(last.empty() || db->GetOptions().comparator->Compare(last, key) < 0,
            "the iterator's order is not the comparator's");
    Require(it->value().ToString() == Expected(std::atoi(key.c_str() + 3)), "iterator: wrong value");
    seen.insert(key);
    last = key;
  }
  Require(it->status(), "iterator");
  Require(seen.size() == static_cast<size_t>(kKeys - kKeys / 10), "iterator: wrong number of keys");
}

// The flushes are enough for any engine to move files below level 0; it does so in the background.
void AwaitCompaction(rocksdb::DB* db) {
  for (int tenths = 0; tenths < 600; tenths++) {
    rocksdb::ColumnFamilyMetaData metadata;
    db->GetColumnFamilyMetaData(&metadata);
    for (const rocksdb::LevelMetaData& level : metadata.levels) {
      if (level.level > 0 && !level.files.empty()) return;
    }
    std::this_thread::sleep_for(std::chrono::milliseconds(100));
  }
  Require(false, "no compaction within a minute");
}

void Describe(rocksdb::DB* db) {
  const rocksdb::Options options = db->GetOptions();
  std::printf("comparator %s\ntable %s\nlevels %d\n", options.comparator->Name(), options.table_factory->Name(),
              options.num_levels);
  rocksdb::ColumnFamilyMetaData metadata;
  db->GetColumnFamilyMetaData(&metadata);
  for (const rocksdb::LevelMetaData& level : metadata.levels) {
    if (!level.files.empty()) std::printf("level %d: %zu files\n", level.level, level.files.size());
  }
}

}  // namespace

int main(int argc, char** argv) {
  const std::string mode = argc > 1 ? argv[1] : "";
  Require((mode == "create" && argc == 4) || ((mode == "reopen" || mode == "return") && argc == 3),
          "usage: dropin_program create OPTIONS_FILE DB_DIR | reopen DB_DIR | return DB_DIR");
  const std::string path = argv[argc - 1];
  Require(rocksdb::GetRocksVersionAsString() ==
              std::to_string(ROCKSDB_MAJOR) + "." + std::to_string(ROCKSDB_MINOR) + "." + std::to_string(ROCKSDB_PATCH),
          "headers and library differ in version");

  rocksdb::ConfigOptions config;
  config.ignore_unknown_options = mode == "return";
  rocksdb::DBOptions db_options;
  std::vector<rocksdb::ColumnFamilyDescriptor> column_families;
  if (mode == "create") {
    Require(rocksdb::LoadOptionsFromFile(config, argv[2], &db_options, &column_families), "LoadOptionsFromFile");
  } else {
    Require(rocksdb::LoadLatestOptions(config, path, &db_options, &column_families), "LoadLatestOptions");
  }
  auto counter = std::make_shared<FlushCounter>();
  db_options.listeners.push_back(counter);
  for (rocksdb::ColumnFamilyDescriptor& family : column_families) {
    family.options.merge_operator = std::make_shared<Concatenate>();
  }
  std::vector<rocksdb::ColumnFamilyHandle*> handles;
  std::unique_ptr<rocksdb::DB> db;
  Require(stock::OpenDatabase(&db, db_options, path, column_families, &handles), "DB::Open");
  if (mode == "create") {
    Write(db.get());
    Require(counter->flushes > 0, "the listener has heard of no flush");
    AwaitCompaction(db.get());
  }
  Check(db.get());
  if (mode == "return") {
    Rewrite(db.get());
    Check(db.get());
  }
  Describe(db.get());
  for (rocksdb::ColumnFamilyHandle* handle : handles) Require(db->DestroyColumnFamilyHandle(handle), "handle");
  Require(db->Close(), "Close");
  return 0;
}
