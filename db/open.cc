// cairn::Open and what else cairn/db.h declares for an open database.

#include <string>

#include "cairn/db.h"
#include "cairn/trie.h"
#include "rocksdb/port/open_into.h"
#include "rocksdb/utilities/options_util.h"
#include "trie_table/compaction/trie_files.h"
#include "trie_table/compaction/trie_options.h"
#include "trie_table/compaction/trie_scheduler.h"
#include "trie_table/htable/htable_table.h"
#include "util/rocksdb_names.h"

namespace cairn {

Status Open(const rocksdb::DBOptions& options, const std::string& path,
            const std::vector<rocksdb::ColumnFamilyDescriptor>& column_families,
            std::vector<rocksdb::ColumnFamilyHandle*>* handles, rocksdb::DB** db) {
  return rocksdb::DB::Open(options, path, column_families, handles, port::Into(db));
}

Status Open(const rocksdb::Options& options, const std::string& path, rocksdb::DB** db) {
  return rocksdb::DB::Open(options, path, port::Into(db));
}

Status OpenWithStoredOptions(const std::string& path, std::vector<std::string>* names,
                             std::vector<rocksdb::ColumnFamilyHandle*>* handles, rocksdb::DB** db) {
  *db = nullptr;
  rocksdb::DBOptions options;
  std::vector<rocksdb::ColumnFamilyDescriptor> column_families;
  Status s = rocksdb::LoadLatestOptions(rocksdb::ConfigOptions(), path, &options, &column_families);
  if (!s.ok()) return s;
  options.create_if_missing = false;
  names->clear();
  for (const auto& descriptor : column_families) names->push_back(descriptor.name);
  return Open(options, path, column_families, handles, db);
}

Status CompactTrie(rocksdb::DB* db, rocksdb::ColumnFamilyHandle* handle, const TrieCompactOptions& options) {
  return CompactTrieRange(db, handle, nullptr, nullptr, options);
}

Status WaitForTrieCompaction(rocksdb::DB* db, uint64_t timeout_micros) {
  const auto scheduler = TrieScheduler::Find(db);
  return scheduler == nullptr ? Status::OK() : scheduler->WaitUntilIdle(timeout_micros);
}

Status TrieContainerOf(rocksdb::ColumnFamilyHandle* handle, const rocksdb::Slice& key, int depth,
                       std::vector<int>* path) {
  rocksdb::ColumnFamilyDescriptor descriptor;
  Status s = handle->GetDescriptor(&descriptor);
  if (!s.ok()) return s;
  if (!cairn::IsTrie(descriptor.options)) {
    return Status::NotSupported("column family " + handle->GetName(), "is no trie");
  }
  HashTrieOptions trie;
  if (!IsHashTrie(descriptor.options, &trie)) {
    return Status::NotSupported("containers of the trie " + handle->GetName(), "in key order they have no numbers");
  }
  if (depth < 0 || depth > trie.depth) {
    return Status::InvalidArgument("depth " + std::to_string(depth),
                                   "this trie has depths 0 to " + std::to_string(trie.depth));
  }
  const HashPrefixMap map = ContainerMapOf(trie);
  const uint64_t position = map.Position(key);
  path->clear();
  for (int d = 1; d <= depth; ++d) {
    path->push_back(static_cast<int>(map.ContainerAt(position, d) - map.FirstChild(map.ContainerAt(position, d - 1))));
  }
  return s;
}

namespace {

// What the filters of open HTables take; nothing for other tables.
Status AddFilters(rocksdb::ColumnFamilyHandle* handle, TrieStats* stats) {
  rocksdb::ColumnFamilyDescriptor descriptor;
  const Status s = handle->GetDescriptor(&descriptor);
  if (!s.ok()) return s;
  const auto* const tables = descriptor.options.table_factory->CheckedCast<HTableFactory>();
  if (tables == nullptr) return s;
  for (const FilterDepth& filters : tables->FilterDepths()) {
    if (static_cast<size_t>(filters.depth) >= stats->depths.size()) continue;
    TrieDepthStats& depth = stats->depths[static_cast<size_t>(filters.depth)];
    depth.filter_bytes = filters.file_bytes;
    depth.filter_memory_bytes = filters.memory_bytes;
    depth.filters_in_memory = filters.tables_in_memory;
  }
  stats->filter_pages_read = tables->filter_pages_read();
  stats->filter_pages_cached = tables->filter_pages_cached();
  return s;
}

}  // namespace

Status GetTrieStats(rocksdb::DB* db, rocksdb::ColumnFamilyHandle* handle, TrieStats* stats) {
  const auto scheduler = TrieScheduler::Find(db);
  Status s = scheduler == nullptr ? ReadTrieStats(db, handle, stats) : scheduler->GetStats(handle, stats);
  if (s.ok()) s = AddFilters(handle, stats);
  return s.ok() ? AddEctTables(db, handle, stats) : s;
}

}  // namespace cairn
