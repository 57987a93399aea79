// Finds out why a database does not open, and mends that and nothing else.
//
//   step               what is damaged                    what is lost
//   kPointToManifest   CURRENT                            nothing
//   kDropTables        tables that the MANIFEST lists     what only they hold; what they hid may come back
//   kSkipRecords       records of the WAL                 those records
//   kRebuild           the MANIFEST                       the levels; what compactions had dropped may come back
//   kTakePool          nothing more: after kRebuild, the  nothing
//                      writes of a pool file
//
// What is no damage (no file descriptors left, no space, options that do not fit, writes in a pool file ...) is an
// error, and nothing is changed. Damaged files go into the folder "lost" of the database.
//
// Not thread-safe.

#pragma once

#include <memory>
#include <string>
#include <vector>

#include "memtable_cache/pmem_backing.h"
#include "memtable_cache/recovery.h"
#include "rocksdb/db.h"
#include "rocksdb/env.h"
#include "rocksdb/options.h"
#include "rocksdb/status.h"

namespace rocksdb {
class FSDirectory;
class OfflineManifestWriter;
}  // namespace rocksdb

namespace cairn {

enum class RepairStep { kNone, kPointToManifest, kDropTables, kSkipRecords, kRebuild, kTakePool };

struct RepairPlan {
  RepairStep step = RepairStep::kNone;
  // For people, a line each: why it does not open, what would be done, what that loses.
  std::vector<std::string> lines;
  std::string done;  // what has been done when Do has returned, "was rebuilt from its tables and WAL"

  struct File {
    std::string path;
    uint64_t number = 0;
    int level = 0;               // tables
    uint32_t column_family = 0;  // tables
  };
  std::vector<File> files;  // damaged
  uint64_t manifest = 0;    // to which CURRENT is to point
};

class DatabaseRepair {
 public:
  // Reads the stored options and takes the database's LOCK. Busy: another process has the database open.
  static rocksdb::Status Begin(const std::string& path, std::unique_ptr<DatabaseRepair>* repair);
  ~DatabaseRepair();
  DatabaseRepair(const DatabaseRepair&) = delete;
  DatabaseRepair& operator=(const DatabaseRepair&) = delete;

  // Changes nothing. kNone: the database opens.
  rocksdb::Status Plan(RepairPlan* plan);
  // One step; ask Plan again afterwards whether it was enough.
  rocksdb::Status Do(const RepairPlan& plan);

 private:
  using Families = std::vector<rocksdb::ColumnFamilyDescriptor>;

  explicit DatabaseRepair(std::string path) : path_(std::move(path)) {}
  rocksdb::Status Lock();
  void Unlock();
  rocksdb::Status TryToRead(const rocksdb::DBOptions& options) const;
  rocksdb::Status OpenOnce(const rocksdb::DBOptions& options) const;
  rocksdb::Status PlanForCurrent(RepairPlan* plan) const;
  rocksdb::Status PlanForTables(RepairPlan* plan) const;
  rocksdb::Status PlanForWal(RepairPlan* plan) const;
  rocksdb::Status PlanToRebuild(const std::string& why, RepairPlan* plan) const;
  rocksdb::Status DropTables(const RepairPlan& plan) const;
  rocksdb::Status SkipRecords(const RepairPlan& plan);
  rocksdb::Status HoldPool(const std::string& pool);
  rocksdb::Status Rebuild();
  rocksdb::Status TakePool();
  rocksdb::Status OpenManifest(rocksdb::OfflineManifestWriter* manifest,
                               std::unique_ptr<rocksdb::FSDirectory>* directory, std::vector<std::string>* names) const;
  rocksdb::Status AddFamiliesOfNote() const;
  rocksdb::Status SetIdentity(const std::string& id) const;

  const std::string path_;
  rocksdb::Env* const env_ = rocksdb::Env::Default();
  rocksdb::DBOptions options_;
  Families families_;
  rocksdb::FileLock* lock_ = nullptr;
  // Of a database whose MANIFEST is damaged, when the pool file holds writes.
  std::unique_ptr<PmemFile> pool_;
  PoolCounts pool_counts_;
  bool manifest_cut_off_ = false;
};

}  // namespace cairn
