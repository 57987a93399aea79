// The bytes of a table file that the file system maps (allow_mmap_reads), read where they lie, and which blocks of it
// have been verified. A block is verified before it is first used, once as long as the file is open.
//
// Invariants
//   (1) The mapping lasts as long as the RandomAccessFileReader. RocksDB writes a table file once and never cuts it, so
//       no access is beyond its end (docs/design/mapped_tables.md says what else may change a mapped file).
//   (2) IsVerified(offset) only if SetVerified(offset) was called: two blocks that begin in one granule displace each
//       other, and are verified again.
//
// Thread-safety: all.

#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <memory>

#include "file/random_access_file_reader.h"
#include "rocksdb/status.h"
#include "rocksdb/table_properties.h"

namespace cairn {

class MappedTable {
 public:
  // Leaves *mapped null if reads are not answered from one mapping, and for a compressed table, whose blocks are used
  // in the cache alone. Blocks take about `block_bytes`.
  static rocksdb::Status Find(const rocksdb::RandomAccessFileReader& file, uint64_t file_size,
                              const rocksdb::TableProperties& properties, size_t block_bytes,
                              std::unique_ptr<const MappedTable>* mapped);

  // REQUIRES: offset <= file size.
  const char* At(uint64_t offset) const { return base_ + offset; }
  uint64_t size() const { return size_; }

  bool IsVerified(uint64_t offset) const {
    return verified_[offset >> shift_].load(std::memory_order_relaxed) == NameOf(offset);
  }
  void SetVerified(uint64_t offset) const {
    verified_[offset >> shift_].store(NameOf(offset), std::memory_order_relaxed);
  }

  size_t bytes_in_memory() const { return sizeof(*this) + ((size_ >> shift_) + 1) * sizeof(verified_[0]); }

 private:
  MappedTable(const char* base, uint64_t size, unsigned shift);

  // Of a block among those that begin in its granule; never 0.
  uint16_t NameOf(uint64_t offset) const { return static_cast<uint16_t>((offset & ((uint64_t{1} << shift_) - 1)) + 1); }

  const char* const base_;
  const uint64_t size_;
  const unsigned shift_;                                     // of offsets, to granules
  const std::unique_ptr<std::atomic<uint16_t>[]> verified_;  // by granule; 0: none of its blocks
};

}  // namespace cairn
