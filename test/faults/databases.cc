#include "test/faults/databases.h"

#include <algorithm>
#include <filesystem>

#include "cairn/db.h"
#include "cairn/memtable.h"
#include "cairn/result_cache.h"
#include "rocksdb/convenience.h"
#include "rocksdb/merge_operator.h"
#include "rocksdb/port/open_into.h"
#include "test/support.h"

namespace cairn::faults {

bool IsDurable(const std::string& engine) { return engine.compare(0, 7, "durable") == 0; }

bool IsTrieEngine(const std::string& engine) {
  if (engine == "durable_trie") return true;
  const test::Engine* const known = test::FindEngine(engine);
  return known != nullptr && known->trie;
}

Status FillOptions(const std::string& engine, Options* options, Options* leveled) {
  *options = test::BaseOptions();
  options->stats_dump_period_sec = 0;
  options->stats_persist_period_sec = 0;
  options->max_manifest_file_size = 8 << 10;        // begun anew now and then
  options->manifest_preallocation_size = 64 << 10;  // 4 MiB in memory took an eighth of a run
  options->create_missing_column_families = true;
  *leveled = *options;
  const bool cached = engine == "cached" || engine == "cached_power";
  const bool on_levels = engine == "durable" || cached;
  const std::string tables = on_levels ? "leveled" : engine == "durable_trie" ? "trie_htable" : engine;
  const test::Engine* const known = test::FindEngine(tables);
  if (known == nullptr) return Status::InvalidArgument("there is no engine \"" + engine + "\"");
  Status s = known->fill(options);
  if (s.ok()) s = test::FindEngine("leveled")->fill(leveled);
  if (s.ok()) {
    s = rocksdb::MergeOperator::CreateFromString(rocksdb::ConfigOptions(), "stringappend", &options->merge_operator);
  }
  if (s.ok() && IsDurable(engine)) {
    SubMemTableOptions memtable;
    memtable.durable = true;
    memtable.segment_size = 16 << 10;
    memtable.pool_size = 4 << 20;
    options->memtable_factory = NewSubMemTableFactory(memtable);
    leveled->memtable_factory = options->memtable_factory;
  }
  if (s.ok() && cached) {
    DatabaseCacheOptions cache;
    cache.capacity = 1 << 20;
    cache.path = "ANSWERS";
    cache.survive_power_loss = engine == "cached_power";
    cache.admit_one_fill_in = 1;
    cache.adaptive = false;
    UseResultCache(cache, options);
  }
  leveled->merge_operator = options->merge_operator;
  return s;
}

Status OpenedDatabase::Close() {
  if (db == nullptr) return Status::OK();
  for (ColumnFamilyHandle* handle : handles) db->DestroyColumnFamilyHandle(handle);
  handles.clear();
  names.clear();
  const Status s = db->Close();
  db.reset();
  return s;
}

ColumnFamilyHandle* OpenedDatabase::Find(const std::string& name) const {
  for (size_t i = 0; i < names.size(); ++i) {
    if (names[i] == name) return handles[i];
  }
  return nullptr;
}

Status OpenAll(const std::string& engine, const std::string& path, OpenedDatabase* database) {
  Options options;
  Options leveled;
  Status s = FillOptions(engine, &options, &leveled);
  if (!s.ok()) return s;
  std::vector<std::string> names;
  // Not there yet, or not far enough: it is made.
  if (std::filesystem::exists(path + "/CURRENT")) {
    s = DB::ListColumnFamilies(options, path, &names);
    if (!s.ok()) return s;
  }
  for (const char* name : kFamilyNames) {
    if (std::find(names.begin(), names.end(), name) == names.end()) names.emplace_back(name);
  }
  std::vector<ColumnFamilyDescriptor> descriptors;
  for (const std::string& name : names) descriptors.emplace_back(name, name == kFamilyNames[2] ? leveled : options);
  s = cairn::Open(options, path, descriptors, &database->handles, port::Into(&database->db));
  database->names = names;
  return s;
}

Status ReadAll(DB* db, ColumnFamilyHandle* family, Contents* contents) {
  rocksdb::ReadOptions options;
  options.verify_checksums = true;
  const std::unique_ptr<rocksdb::Iterator> iterator(db->NewIterator(options, family));
  for (iterator->SeekToFirst(); iterator->Valid(); iterator->Next()) {
    if (!contents->emplace(iterator->key().ToString(), iterator->value().ToString()).second) {
      return Status::Corruption("the key " + iterator->key().ToString() + " is there twice in " + family->GetName());
    }
  }
  return iterator->status();
}

}  // namespace cairn::faults
