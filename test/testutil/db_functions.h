// Functions of rocksdb::DB that not all releases have, each called once with arguments that a stock database accepts,
// for test/db_interface_test.cc. Keys "a" (value "1") and so on are in the database.

#pragma once

#include <functional>
#include <map>
#include <memory>
#include <string>
#include <unordered_map>
#include <utility>
#include <vector>

#include "rocksdb/db.h"
#include "rocksdb/port/rocksdb_version.h"
#include "rocksdb/utilities/write_batch_with_index.h"

namespace cairn::port {

// NewTable(NAME) writes a table of one key for the column family and returns its path.
struct DbFunctionContext {
  rocksdb::DB* db;
  rocksdb::ColumnFamilyHandle* family;
  std::function<std::string(const std::string& name)> NewTable;
};

using DbFunction = std::function<rocksdb::Status(const DbFunctionContext& c)>;

#if CAIRN_ROCKSDB_AT_LEAST(11, 0)

inline std::map<std::string, DbFunction> FunctionsOfThisRelease() {
  using rocksdb::Status;
  struct Done : rocksdb::DB::AsyncCallback {
    void OnComplete(const rocksdb::PerfContext*, const rocksdb::IOStatsContext*) override { calls++; }
    int calls = 0;
  };
  return {
      {"AbortAllCompactions",
       [](const DbFunctionContext& c) {
         c.db->AbortAllCompactions();
         c.db->ResumeAllCompactions();
         return c.db->WaitForCompact({});
       }},
      {"GetAsync",
       [](const DbFunctionContext& c) {
         Done done;
         Status s;
         std::string value;
         c.db->GetAsync({}, c.family, "a", &value, s, done);
         return s.ok() && (done.calls != 1 || value != "1") ? Status::Corruption(value) : s;
       }},
      {"MultiGetAsync",
       [](const DbFunctionContext& c) {
         Done done;
         rocksdb::ColumnFamilyHandle* families[] = {c.family};
         const rocksdb::Slice keys[] = {"a"};
         rocksdb::PinnableSlice values[1];
         Status statuses[1];
         c.db->MultiGetAsync({}, 1, families, keys, values, statuses, false, done);
         return statuses[0].ok() && (done.calls != 1 || values[0] != "1") ? Status::Corruption() : statuses[0];
       }},
      {"FlushWAL with options",
       [](const DbFunctionContext& c) {
         rocksdb::FlushWALOptions flush;
         flush.sync = true;
         return c.db->FlushWAL(flush);
       }},
      {"GetColumnFamilyMetaData with options",
       [](const DbFunctionContext& c) {
         rocksdb::ColumnFamilyMetaData metadata;
         c.db->GetColumnFamilyMetaData(c.family, rocksdb::GetColumnFamilyMetaDataOptions(), &metadata);
         return metadata.name == c.family->GetName() ? Status::OK() : Status::Corruption(metadata.name);
       }},
      {"SetOptions of several",
       [](const DbFunctionContext& c) {
         const std::unordered_map<std::string, std::string> changes = {{"write_buffer_size", "131072"}};
         const std::vector<rocksdb::ColumnFamilyHandle*> families = {c.family};
         const Status s = c.db->SetOptions(families, changes);
         if (!s.ok()) return s;
         // One refusal refuses all.
         const Status refused = c.db->SetOptions({{c.family, {{"no such option", "1"}}}});
         return refused.IsInvalidArgument() ? s : Status::Corruption(refused.ToString());
       }},
      {"GetNewestUserDefinedTimestamp",
       [](const DbFunctionContext& c) {
         std::string newest;
         return c.db->GetNewestUserDefinedTimestamp(c.family, &newest);
       }},
      {"GetPreparedFileInfoForExternalSstIngestion",
       [](const DbFunctionContext& c) {
         std::shared_ptr<const rocksdb::PreparedFileInfo> info;
         return c.db->GetPreparedFileInfoForExternalSstIngestion(c.NewTable("prepared_info"), &info);
       }},
      {"GetPropertiesOfTablesByLevel",
       [](const DbFunctionContext& c) {
         std::vector<std::unique_ptr<rocksdb::TablePropertiesCollection>> properties;
         return c.db->GetPropertiesOfTablesByLevel(c.family, &properties);
       }},
      {"IngestWriteBatchWithIndex",
       [](const DbFunctionContext& c) {
         const auto batch =
             std::make_shared<rocksdb::WriteBatchWithIndex>(c.family->GetComparator(), 0, true /* overwrite_key */);
         Status s = batch->Put(c.family, "in a batch", "1");
         rocksdb::WriteOptions without_log;
         without_log.disableWAL = true;
         return s.ok() ? c.db->IngestWriteBatchWithIndex(without_log, batch) : s;
       }},
      {"NewMultiScan",
       [](const DbFunctionContext& c) {
         // With no limit RocksDB's own tables read a null pointer. What comes behind "a" is the order's business.
         rocksdb::MultiScanArgs ranges(c.family->GetComparator());
         std::string limit = "b";
         for (int i = 0; c.family->GetComparator()->Compare("a", limit) >= 0; ++i) limit = "b" + std::to_string(i);
         ranges.insert("a", limit);
         const auto scans = c.db->NewMultiScan({}, c.family, ranges);
         try {
           for (auto scan : *scans) {
             for (const auto& entry : scan) return entry.first == "a" ? Status::OK() : Status::Corruption();
           }
         } catch (rocksdb::MultiScanException& e) {
           return e.status();
         }
         return Status::NotFound();
       }},
      {"PrepareFileIngestion",
       [](const DbFunctionContext& c) {
         std::unique_ptr<rocksdb::FileIngestionHandle> prepared;
         rocksdb::IngestExternalFileArg argument;
         argument.column_family = c.family;
         argument.external_files = {c.NewTable("prepared")};
         const Status s = c.db->PrepareFileIngestion({argument}, &prepared);
         return s.ok() ? c.db->CommitFileIngestionHandle(std::move(prepared)) : s;
       }},
  };
}

#else

inline std::map<std::string, DbFunction> FunctionsOfThisRelease() {
  return {
      {"DeleteFile", [](const DbFunctionContext& c) { return c.db->DeleteFile("999999.sst"); }},
      {"MaxMemCompactionLevel",
       [](const DbFunctionContext& c) {
         return c.db->MaxMemCompactionLevel(c.family) == 0 ? rocksdb::Status::OK() : rocksdb::Status::Corruption();
       }},
  };
}

#endif

// DB::DeleteFile, which later releases do not have: NotSupported.
inline rocksdb::Status DeleteTable(rocksdb::DB* db, const std::string& name) {
#if CAIRN_ROCKSDB_AT_LEAST(11, 0)
  (void)db;
  return rocksdb::Status::NotSupported("DeleteFile", name);
#else
  return db->DeleteFile(name);
#endif
}

}  // namespace cairn::port
