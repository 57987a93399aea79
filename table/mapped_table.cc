#include "table/mapped_table.h"

#include <algorithm>

#include "rocksdb/slice.h"
#include "util/bits.h"
#include "util/compression.h"

namespace cairn {

namespace {

constexpr size_t kSmallestGranule = 512;
constexpr size_t kLargestGranule = 4096;

// Where the file system says that a byte lies; null if it copies.
rocksdb::Status FindByte(const rocksdb::RandomAccessFileReader& file, uint64_t offset, const char** at) {
  char copied = 0;
  rocksdb::Slice byte;
  const rocksdb::IOStatus s = file.Read(rocksdb::IOOptions(), offset, 1, &byte, &copied, nullptr);
  *at = byte.size() == 1 && byte.data() != &copied ? byte.data() : nullptr;
  return s;
}

}  // namespace

rocksdb::Status MappedTable::Find(const rocksdb::RandomAccessFileReader& file, uint64_t file_size,
                                  const rocksdb::TableProperties& properties, size_t block_bytes,
                                  std::unique_ptr<const MappedTable>* mapped) {
  const bool compressed = properties.compression_name != rocksdb::CompressionTypeToString(rocksdb::kNoCompression);
  if (file_size == 0 || file.use_direct_io() || compressed) return rocksdb::Status::OK();
  const char* first = nullptr;
  const char* last = nullptr;
  rocksdb::Status s = FindByte(file, 0, &first);
  if (s.ok() && first != nullptr) s = FindByte(file, file_size - 1, &last);
  // A file system that copies into memory of its own has one place for both, or two that chance has chosen.
  if (!s.ok() || first == nullptr || last != first + (file_size - 1)) return s;
  const size_t granule = std::min(std::max(block_bytes, kSmallestGranule), kLargestGranule);
  mapped->reset(new MappedTable(first, file_size, BitWidth(granule) - 1));
  return s;
}

MappedTable::MappedTable(const char* base, uint64_t size, unsigned shift)
    : base_(base), size_(size), shift_(shift), verified_(new std::atomic<uint16_t>[(size >> shift) + 1]()) {}

}  // namespace cairn
