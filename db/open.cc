// cairn::Open and what else cairn/db.h declares for an open database.

#include <memory>
#include <set>
#include <string>
#include <utility>

#include "cairn/db.h"
#include "cairn/memtable.h"
#include "cairn/silt.h"
#include "cairn/trie.h"
#include "db/db_impl/db_impl.h"
#include "db/durable_db.h"
#include "db/listeners.h"
#include "db/range_deletion_filter.h"
#include "db/trie_files.h"
#include "db/trie_listener.h"
#include "db/trie_scheduler.h"
#include "rocksdb/utilities/options_util.h"
#include "rocksdb/utilities/stackable_db.h"
#include "rocksdb/write_batch.h"
#include "table/hash_order.h"
#include "trie_table/trie_options.h"

namespace cairn {

using rocksdb::Status;

namespace {

bool IsTrie(rocksdb::ColumnFamilyHandle* handle) {
  rocksdb::ColumnFamilyDescriptor descriptor;
  return handle->GetDescriptor(&descriptor).ok() && cairn::IsTrie(descriptor.options, nullptr);
}

// Tables in hash order, of tries and SILT stores, hold none.
bool RefusesRangeDeletions(const rocksdb::ColumnFamilyOptions& options) {
  return options.table_factory != nullptr && !options.table_factory->IsDeleteRangeSupported() &&
         HashOfComparator(options.comparator) != nullptr;
}

bool RefusesRangeDeletions(rocksdb::ColumnFamilyHandle* handle) {
  rocksdb::ColumnFamilyDescriptor descriptor;
  return handle->GetDescriptor(&descriptor).ok() && RefusesRangeDeletions(descriptor.options);
}

Status RefusedDeleteRange(const std::string& column_family) {
  return Status::NotSupported("DeleteRange on column family " + column_family,
                              "a range has no meaning in hash order; delete the keys one by one");
}

// Looks for range deletions in column families that do not support them.
class RangeDeletionFinder : public rocksdb::WriteBatch::Handler {
 public:
  explicit RangeDeletionFinder(rocksdb::DB* db) : db_(dynamic_cast<rocksdb::DBImpl*>(db->GetRootDB())) {}

  Status DeleteRangeCF(uint32_t id, const rocksdb::Slice&, const rocksdb::Slice&) override {
    if (db_ == nullptr) return Status::OK();
    const auto handle = db_->GetColumnFamilyHandleUnlocked(id);
    return handle != nullptr && RefusesRangeDeletions(handle.get()) ? RefusedDeleteRange(handle->GetName())
                                                                    : Status::OK();
  }
  Status PutCF(uint32_t, const rocksdb::Slice&, const rocksdb::Slice&) override { return Status::OK(); }
  Status TimedPutCF(uint32_t, const rocksdb::Slice&, const rocksdb::Slice&, uint64_t) override { return Status::OK(); }
  Status PutEntityCF(uint32_t, const rocksdb::Slice&, const rocksdb::Slice&) override { return Status::OK(); }
  Status DeleteCF(uint32_t, const rocksdb::Slice&) override { return Status::OK(); }
  Status SingleDeleteCF(uint32_t, const rocksdb::Slice&) override { return Status::OK(); }
  Status MergeCF(uint32_t, const rocksdb::Slice&, const rocksdb::Slice&) override { return Status::OK(); }
  Status PutBlobIndexCF(uint32_t, const rocksdb::Slice&, const rocksdb::Slice&) override { return Status::OK(); }
  void LogData(const rocksdb::Slice&) override {}
  Status MarkBeginPrepare(bool) override { return Status::OK(); }
  Status MarkEndPrepare(const rocksdb::Slice&) override { return Status::OK(); }
  Status MarkNoop(bool) override { return Status::OK(); }
  Status MarkRollback(const rocksdb::Slice&) override { return Status::OK(); }
  Status MarkCommit(const rocksdb::Slice&) override { return Status::OK(); }

 private:
  rocksdb::DBImpl* const db_;
};

// A database opened by cairn::Open. It owns the RocksDB it stands for.
class CairnDB : public rocksdb::StackableDB {
 public:
  explicit CairnDB(rocksdb::DB* db) : StackableDB(db) {}

  using StackableDB::CompactRange;
  Status CompactRange(const rocksdb::CompactRangeOptions& options, rocksdb::ColumnFamilyHandle* handle,
                      const rocksdb::Slice* begin, const rocksdb::Slice* end) override {
    if (IsTrie(handle)) {
      return Status::NotSupported("CompactRange on the trie " + handle->GetName(),
                                  "a range has no meaning in hash order; use cairn::CompactTrie or cairn compact");
    }
    return StackableDB::CompactRange(options, handle, begin, end);
  }

  // RocksDB refuses a range deletion only after it has written it into the WAL: it then stops all writes, and refuses
  // to open the database again. So it must not come that far.
  using StackableDB::DeleteRange;
  Status DeleteRange(const rocksdb::WriteOptions& options, rocksdb::ColumnFamilyHandle* handle,
                     const rocksdb::Slice& begin, const rocksdb::Slice& end) override {
    if (RefusesRangeDeletions(handle)) return RefusedDeleteRange(handle->GetName());
    return StackableDB::DeleteRange(options, handle, begin, end);
  }
  Status Write(const rocksdb::WriteOptions& options, rocksdb::WriteBatch* batch) override {
    if (batch != nullptr && batch->HasDeleteRange()) {
      RangeDeletionFinder finder(this);
      const Status s = batch->Iterate(&finder);
      if (!s.ok()) return s;
    }
    return StackableDB::Write(options, batch);
  }

  Status PauseBackgroundWork() override {
    const auto scheduler = TrieScheduler::Find(this);
    if (scheduler != nullptr) scheduler->Pause();
    Status s = StackableDB::PauseBackgroundWork();
    if (!s.ok() && scheduler != nullptr) scheduler->Continue();
    return s;
  }

  Status ContinueBackgroundWork() override {
    Status s = StackableDB::ContinueBackgroundWork();
    const auto scheduler = TrieScheduler::Find(this);
    if (s.ok() && scheduler != nullptr) scheduler->Continue();
    return s;
  }

  using StackableDB::GetProperty;
  bool GetProperty(rocksdb::ColumnFamilyHandle* handle, const rocksdb::Slice& property, std::string* value) override {
    const bool table = property == "cairn.stats";
    if (!table && property != "cairn.stats.json") return StackableDB::GetProperty(handle, property, value);
    TrieStats trie;
    SiltStats silt;
    if (GetTrieStats(this, handle, &trie).ok()) {
      *value = table ? TrieStatsToTable(trie) : TrieStatsToJson(trie);
    } else if (GetSiltStats(this, handle, &silt).ok()) {
      *value = table ? SiltStatsToTable(silt) : SiltStatsToJson(silt);
    } else {
      return false;
    }
    SubMemTableStats memtable;
    if (table && GetSubMemTableStats(*GetOptions(handle).memtable_factory, &memtable).ok()) {
      *value += SubMemTableStatsToTable(memtable);
    }
    return true;
  }
};

Status CheckDescriptors(const rocksdb::DBOptions& options,
                        const std::vector<rocksdb::ColumnFamilyDescriptor>& column_families) {
  Status s;
  const bool has_listener = HasListener<TrieListener>(options);
  for (const auto& descriptor : column_families) {
    if (!s.ok()) return s;
    if (!cairn::IsTrie(descriptor.options, nullptr)) continue;
    s = CheckTrieOptions(descriptor.options);
    if (s.ok() && !has_listener) {
      s = Status::InvalidArgument("column family " + descriptor.name + " is a trie, but nothing would compact it",
                                  "add the listener cairn.TrieCompaction: cairn::UseTrieCompaction(&db_options)");
    }
  }
  return s;
}

// Replays the WAL through the filter and leaves the database closed. A filter that stayed would be named in the OPTIONS
// file.
Status TakeRangeDeletionsOutOfTheWal(const rocksdb::DBOptions& options, const std::string& path,
                                     const std::vector<rocksdb::ColumnFamilyDescriptor>& column_families) {
  std::set<std::string> names;
  for (const auto& descriptor : column_families) {
    if (RefusesRangeDeletions(descriptor.options)) names.insert(descriptor.name);
  }
  RangeDeletionFilter filter(std::move(names));
  rocksdb::DBOptions with_filter = options;
  with_filter.wal_filter = &filter;
  with_filter.avoid_flush_during_recovery = false;
  with_filter.listeners.clear();
  std::vector<rocksdb::ColumnFamilyHandle*> handles;
  rocksdb::DB* opened = nullptr;
  Status s = rocksdb::DB::Open(with_filter, path, column_families, &handles, &opened);
  if (!s.ok()) return s;
  for (rocksdb::ColumnFamilyHandle* handle : handles) opened->DestroyColumnFamilyHandle(handle).PermitUncheckedError();
  s = opened->Close();
  delete opened;
  return s;
}

Status OpenRocksDB(const rocksdb::DBOptions& options, const std::string& path,
                   const std::vector<rocksdb::ColumnFamilyDescriptor>& column_families,
                   std::vector<rocksdb::ColumnFamilyHandle*>* handles, rocksdb::DB** db) {
  Status s = rocksdb::DB::Open(options, path, column_families, handles, db);
  if (s.IsNotSupported() && options.wal_filter == nullptr && s.ToString().find("DeleteRange") != std::string::npos) {
    s = TakeRangeDeletionsOutOfTheWal(options, path, column_families);
    if (s.ok()) s = rocksdb::DB::Open(options, path, column_families, handles, db);
  }
  return s;
}

}  // namespace

Status Open(const rocksdb::DBOptions& options, const std::string& path,
            const std::vector<rocksdb::ColumnFamilyDescriptor>& column_families,
            std::vector<rocksdb::ColumnFamilyHandle*>* handles, rocksdb::DB** db) {
  *db = nullptr;
  Status s = CheckDescriptors(options, column_families);
  if (!s.ok()) return s;
  rocksdb::DB* opened = nullptr;
  if (IsDurable(column_families)) {
    const auto open = [&](const rocksdb::DBOptions& durable_options, std::vector<rocksdb::ColumnFamilyHandle*>* given,
                          rocksdb::DB** inner) {
      return OpenRocksDB(durable_options, path, column_families, given, inner);
    };
    s = OpenDurable(options, path, column_families, open, handles, &opened);
  } else {
    s = OpenRocksDB(options, path, column_families, handles, &opened);
  }
  if (!s.ok()) return s;
  auto wrapped = std::make_unique<CairnDB>(opened);
  const auto scheduler = TrieScheduler::Attach(opened);
  if (scheduler != nullptr) s = scheduler->LoadAll(*handles);
  if (!s.ok()) {
    for (rocksdb::ColumnFamilyHandle* handle : *handles) {
      wrapped->DestroyColumnFamilyHandle(handle).PermitUncheckedError();
    }
    handles->clear();
    wrapped->Close().PermitUncheckedError();
    return s;
  }
  *db = wrapped.release();
  return s;
}

Status Open(const rocksdb::Options& options, const std::string& path, rocksdb::DB** db) {
  std::vector<rocksdb::ColumnFamilyHandle*> handles;
  Status s = Open(options, path, {{rocksdb::kDefaultColumnFamilyName, options}}, &handles, db);
  // RocksDB keeps a handle of its own for the default column family.
  if (s.ok()) s = (*db)->DestroyColumnFamilyHandle(handles[0]);
  return s;
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
  if (!IsTrie(handle))
    return Status::NotSupported("column family " + handle->GetName() + " is no trie", "use CompactRange");
  const auto scheduler = TrieScheduler::Attach(db);
  if (scheduler == nullptr) {
    return Status::InvalidArgument("the database was opened without the listener cairn.TrieCompaction",
                                   "add it: cairn::UseTrieCompaction(&db_options)");
  }
  return scheduler->Compact(handle, options);
}

Status StartTrieCompaction(rocksdb::DB* db) {
  const auto scheduler = TrieScheduler::Attach(db);
  if (scheduler == nullptr) {
    return Status::InvalidArgument("the database was opened without the listener cairn.TrieCompaction",
                                   "add it: cairn::UseTrieCompaction(&db_options)");
  }
  return scheduler->LoadAllFamilies();
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
  TrieOptions trie;
  if (!cairn::IsTrie(descriptor.options, &trie)) {
    return Status::NotSupported("column family " + handle->GetName(), "is no trie");
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

Status GetTrieStats(rocksdb::DB* db, rocksdb::ColumnFamilyHandle* handle, TrieStats* stats) {
  const auto scheduler = TrieScheduler::Find(db);
  const Status s = scheduler == nullptr ? ReadTrieStats(db, handle, stats) : scheduler->GetStats(handle, stats);
  return s.ok() ? AddEctTables(db, handle, stats) : s;
}

}  // namespace cairn
