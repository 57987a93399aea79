// The factory that RocksDB sees; include/cairn/memtable.h says what it is for.

#pragma once

#include <memory>
#include <string>

#include "cairn/memtable.h"
#include "memtable_cache/durable_factory.h"
#include "memtable_cache/segment_pool.h"
#include "rocksdb/memtablerep.h"
#include "util/mutex.h"

namespace cairn {

class SubMemTableFactory : public rocksdb::MemTableRepFactory, public DurableMemTableFactory {
 public:
  explicit SubMemTableFactory(const SubMemTableOptions& options = SubMemTableOptions());

  static const char* kClassName() { return "cairn.SubMemTable"; }
  static const char* kOptionsName() { return "cairn.SubMemTableOptions"; }  // GetOptions<SubMemTableOptions> takes it
  const char* Name() const override { return kClassName(); }

  rocksdb::Status PrepareOptions(const rocksdb::ConfigOptions& config) override;

  using rocksdb::MemTableRepFactory::CreateMemTableRep;
  rocksdb::MemTableRep* CreateMemTableRep(const rocksdb::MemTableRep::KeyComparator& comparator,
                                          rocksdb::Allocator* allocator, const rocksdb::SliceTransform* transform,
                                          rocksdb::Logger* logger) override;
  rocksdb::MemTableRep* CreateMemTableRep(const rocksdb::MemTableRep::KeyComparator& comparator,
                                          rocksdb::Allocator* allocator, const rocksdb::SliceTransform* transform,
                                          rocksdb::Logger* logger, uint32_t column_family) override;

  bool IsInsertConcurrentlySupported() const override { return true; }

  // Durable memtables outside cairn::Open would not be durable.
  rocksdb::Status ValidateOptions(const rocksdb::DBOptions& db_options,
                                  const rocksdb::ColumnFamilyOptions& family_options) const override;
  bool GetDurableSettings(DurableSettings* settings) const override;
  bool HasPool() const override;
  bool UsePool(const std::shared_ptr<DurablePool>& pool) override;
  void LeavePool() override;
  std::shared_ptr<rocksdb::MemTableRepFactory> InPlainMemory() const override;

  // Made at the first use. Of durable memtables it is that of all factories of the database.
  std::shared_ptr<SegmentPool> pool(rocksdb::Logger* logger) const;

 private:
  std::unique_ptr<Backing> MakeBacking() const CAIRN_REQUIRES(mutex_);
  std::shared_ptr<SegmentPool> MakePool(rocksdb::Logger* logger) const CAIRN_REQUIRES(mutex_);

  SubMemTableOptions options_;
  mutable CheckedMutex mutex_;
  mutable std::shared_ptr<SegmentPool> pool_ CAIRN_GUARDED_BY(mutex_);
  std::shared_ptr<DurablePool> durable_pool_ CAIRN_GUARDED_BY(mutex_);  // null: the pool is in plain memory
};

}  // namespace cairn
