#include "table/mapped_table.h"

#include <algorithm>

#include "rocksdb/slice.h"
#include "util/bits.h"

namespace cairn {

namespace {

constexpr size_t kSmallestGranule = 512;
constexpr size_t kLargestGranule = 4096;

// Where the file system says that a byte lies; null if it copies.
const char* AddressOf(const rocksdb::RandomAccessFileReader& file, uint64_t offset) {
  char copied = 0;
  rocksdb::Slice byte;
  const rocksdb::IOStatus s = file.Read(rocksdb::IOOptions(), offset, 1, &byte, &copied, nullptr);
  return s.ok() && byte.size() == 1 && byte.data() != &copied ? byte.data() : nullptr;
}

}  // namespace

std::unique_ptr<MappedTable> MappedTable::Of(const rocksdb::RandomAccessFileReader& file, uint64_t file_size,
                                             size_t block_bytes) {
  if (file_size == 0 || file.use_direct_io()) return nullptr;
  const char* const first = AddressOf(file, 0);
  // A file system that copies into memory of its own has one place for both, or two that chance has chosen.
  if (first == nullptr || AddressOf(file, file_size - 1) != first + (file_size - 1)) return nullptr;
  const size_t granule = std::min(std::max(block_bytes, kSmallestGranule), kLargestGranule);
  return std::unique_ptr<MappedTable>(new MappedTable(first, file_size, BitWidth(granule) - 1));
}

MappedTable::MappedTable(const char* base, uint64_t size, unsigned shift)
    : base_(base), size_(size), shift_(shift), verified_(new std::atomic<uint16_t>[(size >> shift) + 1]()) {}

}  // namespace cairn
