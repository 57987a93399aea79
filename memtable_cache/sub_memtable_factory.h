// The factory that RocksDB sees; include/cairn/memtable.h says what it is for.

#pragma once

#include <memory>
#include <mutex>
#include <string>

#include "cairn/memtable.h"
#include "memtable_cache/piece_pool.h"
#include "rocksdb/memtablerep.h"

namespace cairn {

class SubMemTableFactory : public rocksdb::MemTableRepFactory {
 public:
  explicit SubMemTableFactory(const SubMemTableOptions& options = SubMemTableOptions());

  static const char* kClassName() { return "cairn.SubMemTable"; }
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

  // Made at the first use.
  std::shared_ptr<PiecePool> pool(rocksdb::Logger* logger) const;

 private:
  SubMemTableOptions options_;
  mutable std::mutex mutex_;  // guards pool_
  mutable std::shared_ptr<PiecePool> pool_;
};

}  // namespace cairn
