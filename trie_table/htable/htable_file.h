// An HTable's file: opens it, and reads its units through the block cache or past it.
//
// Thread-safety: immutable once open.

#pragma once

#include <memory>
#include <string>

#include "cache/cache_key.h"
#include "file/random_access_file_reader.h"
#include "rocksdb/file_system.h"
#include "rocksdb/table_properties.h"
#include "table/get_context.h"
#include "table/mapped_table.h"
#include "table/reader_charge.h"
#include "table/table_builder.h"
#include "trie_table/htable/htable_compression.h"
#include "trie_table/htable/htable_format.h"
#include "trie_table/htable/htable_unit.h"

namespace cairn {

// Where a unit lies.
struct UnitPlace {
  uint64_t offset = 0;
  size_t size = 0;
};

class HTableFile {
 public:
  // A null cache: units are read from the file each time.
  static rocksdb::Status Open(const rocksdb::ReadOptions& read_options, const rocksdb::TableReaderOptions& options,
                              std::shared_ptr<rocksdb::Cache> cache,
                              std::unique_ptr<rocksdb::RandomAccessFileReader> file, uint64_t file_size,
                              std::shared_ptr<HTableFile>* result);

  const HTableHeader& header() const { return header_; }
  const HTableIndex& index() const { return index_; }
  const std::shared_ptr<const rocksdb::TableProperties>& properties() const { return properties_; }
  const std::string& name() const { return file_->file_name(); }
  const std::shared_ptr<rocksdb::RandomAccessFileReader>& file() const { return file_; }
  const std::shared_ptr<rocksdb::Cache>& cache() const { return cache_; }
  const rocksdb::OffsetableCacheKey& cache_key() const { return cache_key_; }
  // Of size 0 if there is none. The filter block has checksums of its own.
  const FilePart& filter_part() const { return header_.filter; }
  uint64_t file_size() const { return file_size_; }
  const std::shared_ptr<rocksdb::FileSystem>& fs() const { return fs_; }
  // Never that of another file that is or was open in this process.
  uint64_t id() const { return id_; }
  // Units lie before this.
  uint64_t data_end() const { return header_.filter.size > 0 ? header_.filter.offset : header_.group_index.offset; }
  rocksdb::Statistics* statistics() const { return statistics_; }
  rocksdb::SystemClock* clock() const { return clock_; }
  // That the table had when it was opened, for counters by level.
  uint32_t level() const { return level_; }
  size_t bytes_in_memory() const {
    return sizeof(*this) + index_.bytes() + properties_->ApproximateMemoryUsage() + decompressor_->bytes_in_memory() +
           (mapped_ == nullptr ? 0 : mapped_->bytes_in_memory());
  }
  // Charges that to the block cache; MemoryLimit if a strict one has no room.
  rocksdb::Status Charge(rocksdb::CacheEntryRoleOptions::Decision decision) {
    // No unit lies at the file's end.
    return charge_.Take(cache_, KeyOf(file_size_).AsSlice(), bytes_in_memory(), decision);
  }
  // What replaces every sequence number; kDisableGlobalSequenceNumber: nothing.
  rocksdb::SequenceNumber global_seqno() const { return global_seqno_; }

  // What a lookup of this hash reads first. REQUIRES: !index().empty().
  UnitPlace FirstUnitOf(uint64_t hash) const;

  // Whether units are read where they lie in memory, past the cache: the table is mapped, and not compressed.
  bool is_mapped() const { return mapped_ != nullptr; }

  // Whether a unit is in the cache; counts nothing.
  bool IsCached(const UnitPlace& place) const;
  // Looks a unit up in the cache. False: it is not there.
  bool FindCached(const UnitPlace& place, rocksdb::GetContext* get_context, UnitRef* ref) const;
  // From the cache, else from the file and, with fill_cache, into the cache. Incomplete if the file may not be read.
  rocksdb::Status Read(const rocksdb::ReadOptions& read_options, const UnitPlace& place,
                       rocksdb::GetContext* get_context, UnitRef* ref) const;
  // Makes a unit of the bytes that were read, in `unit`, from `place`, and puts it into the cache with fill_cache.
  rocksdb::Status Admit(const rocksdb::ReadOptions& read_options, const UnitPlace& place,
                        std::unique_ptr<HTableUnit> unit, rocksdb::GetContext* get_context, UnitRef* ref) const;
  // Checks bytes and opens them where they are. *unit is set if they had to be decompressed.
  rocksdb::Status View(const rocksdb::ReadOptions& read_options, const UnitPlace& place, const char* bytes,
                       std::unique_ptr<HTableUnit>* unit, UnitView* view) const;
  // Reads bytes. *result points into scratch, or to a mapped file.
  rocksdb::Status ReadBytes(const rocksdb::ReadOptions& read_options, uint64_t offset, size_t size, char* scratch,
                            rocksdb::Slice* result) const;

  // Evicts nothing, counts nothing: reads and checks everything.
  rocksdb::Status Verify(const rocksdb::ReadOptions& read_options) const;

  rocksdb::Status Corruption(const std::string& what, uint64_t offset) const;

 private:
  HTableFile();
  rocksdb::Status ReadTail(const rocksdb::ReadOptions& read_options, const rocksdb::TableReaderOptions& options);
  rocksdb::Status ReadMapped(const rocksdb::ReadOptions& read_options, const UnitPlace& place, UnitRef* ref) const;
  rocksdb::Status Decompress(const UnitHeader& header, const char* stored, char* raw) const;
  rocksdb::Status VerifyUnits(const rocksdb::ReadOptions& read_options, uint64_t offset, uint64_t units) const;
  rocksdb::CacheKey KeyOf(uint64_t offset) const { return cache_key_.WithOffset(offset >> 2); }

  std::shared_ptr<rocksdb::RandomAccessFileReader> file_;
  uint64_t file_size_ = 0;
  std::unique_ptr<const MappedTable> mapped_;
  const uint64_t id_;
  std::shared_ptr<rocksdb::FileSystem> fs_;
  std::shared_ptr<rocksdb::Cache> cache_;
  rocksdb::OffsetableCacheKey cache_key_;
  rocksdb::Statistics* statistics_ = nullptr;
  rocksdb::SystemClock* clock_ = nullptr;
  uint32_t level_ = 0;
  rocksdb::CacheTier lowest_cache_tier_ = rocksdb::CacheTier::kNonVolatileBlockTier;
  HTableHeader header_;
  HTableIndex index_;
  std::shared_ptr<const rocksdb::TableProperties> properties_;
  std::unique_ptr<UnitDecompressor> decompressor_;
  rocksdb::SequenceNumber global_seqno_ = 0;
  ReaderCharge charge_;
};

}  // namespace cairn
