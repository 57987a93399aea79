// libFuzzer target: a filter block of a BloomCluster, index and pages, with magic number, version and checksums corrected:
// whatever opens is probed, verified, read from end to end and loaded, and asks nothing outside its bytes.

#include <algorithm>
#include <cstdint>
#include <cstdlib>
#include <cstring>
#include <memory>
#include <string>

#include "file/random_access_file_reader.h"
#include "src/bloom_cluster/bloom_block.h"
#include "src/util/bits.h"
#include "src/util/checksum.h"

namespace cairn {
namespace {

constexpr uint64_t kMagic = 0x544c466e72696143u;  // of docs/bloom_cluster.md
constexpr size_t kIndexHeader = 48;
constexpr size_t kMemberBytes = 16;

class Bytes : public rocksdb::FSRandomAccessFile {
 public:
  explicit Bytes(const std::string& bytes) : bytes_(bytes) {}
  rocksdb::IOStatus Read(uint64_t offset, size_t n, const rocksdb::IOOptions& /*options*/, rocksdb::Slice* result,
                         char* scratch, rocksdb::IODebugContext* /*debug*/) const override {
    const size_t from = std::min<size_t>(offset, bytes_.size());
    const size_t count = std::min(n, bytes_.size() - from);
    memcpy(scratch, bytes_.data() + from, count);
    *result = rocksdb::Slice(scratch, count);
    return rocksdb::IOStatus::OK();
  }

 private:
  const std::string& bytes_;
};

// The input's first part is the index, the rest what its pages begin and end with.
std::string BlockOf(const uint8_t* data, size_t size, uint64_t* table_id) {
  const size_t pages = data[0] % 4;
  const size_t index = std::min<size_t>(size - 2, kIndexHeader + data[1]);
  std::string bytes(reinterpret_cast<const char*>(data + 2), index);
  bytes.resize(kFilterPageBytes * (1 + pages));
  memcpy(bytes.data(), &kMagic, 8);
  const uint32_t version = 1;
  const auto count = static_cast<uint32_t>(pages);
  memcpy(bytes.data() + 8, &version, 4);
  memcpy(bytes.data() + 12, &count, 4);
  const size_t members = static_cast<uint8_t>(bytes[19]);
  const size_t end = kIndexHeader + members * kMemberBytes + pages * 4;
  if (end + 4 > kFilterPageBytes) return "";
  const uint32_t checksum = Crc32c(bytes.data(), end);
  memcpy(bytes.data() + end, &checksum, 4);
  *table_id = LoadU64(bytes.data() + kIndexHeader);
  const uint8_t* rest = data + 2 + index;
  size_t left = size - 2 - index;
  for (size_t page = 1; page <= pages; ++page) {
    char* const at = bytes.data() + page * kFilterPageBytes;
    const size_t part = left / (pages - page + 1);
    memcpy(at + 8, rest, part / 2);
    memcpy(at + kFilterPageBytes - (part - part / 2), rest + part / 2, part - part / 2);
    memcpy(at + 4, bytes.data() + end - 4 * (pages - page + 1), 4);  // the first column that the index says
    const auto tag = static_cast<uint32_t>(*table_id);
    memcpy(at + 12, &tag, 4);
    const uint32_t page_checksum = Crc32c(at + 4, kFilterPageBytes - 4);
    memcpy(at, &page_checksum, 4);
    rest += part;
    left -= part;
  }
  return bytes;
}

void Ask(const std::string& bytes, uint64_t table_id) {
  FilterContext context;
  context.table_id = table_id;
  FilterCounters counters;
  const rocksdb::ReadOptions options;
  std::shared_ptr<const FilterBlock> block;
  auto file = std::make_shared<rocksdb::RandomAccessFileReader>(std::make_unique<Bytes>(bytes), "bytes");
  if (!FilterBlock::Open(context, options, file, 0, bytes.size(), &counters, &block).ok()) return;
  for (uint64_t i = 0; i < 64; ++i) {
    uint64_t members = 0;
    block->Probe(options, i * 0x9e3779b97f4a7c15u, FilterResidency::kDisk, &members).PermitUncheckedError();
    block->Probe(options, i << 58 | i, FilterResidency::kDisk, &members).PermitUncheckedError();
  }
  const bool good = block->Verify(options).ok();
  const std::unique_ptr<PairCursor> cursor = FilterBlock::NewCursor(block, options);
  uint64_t pair = 0;
  uint64_t pairs = 0;
  while (pairs < 1000000 && cursor->Next(&pair)) ++pairs;
  std::shared_ptr<const FilterImage> image;
  const bool loaded = block->LoadImage(options, &image).ok();
  if (good && cursor->failed()) abort();
  if (good && !loaded) abort();
}

}  // namespace
}  // namespace cairn

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  if (size < 4) return 0;
  uint64_t table_id = 0;
  const std::string bytes = cairn::BlockOf(data, size, &table_id);
  if (!bytes.empty()) cairn::Ask(bytes, table_id);
  return 0;
}
