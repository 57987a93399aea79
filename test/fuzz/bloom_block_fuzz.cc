// libFuzzer target: a filter block of a BloomCluster, index and pages, of any bytes, and one that the input describes
// and changes, with magic number, version and checksums corrected: what was built has all of its keys, whatever opens
// is probed, verified, read from end to end and loaded, and asks nothing outside its bytes.

#include <algorithm>
#include <cstdint>
#include <cstdlib>
#include <cstring>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "file/random_access_file_reader.h"
#include "test/fuzz/edits.h"
#include "trie_table/bloom_cluster/bloom_block.h"
#include "util/bits.h"
#include "util/checksum.h"

namespace cairn {
namespace {

constexpr uint64_t kMagic = 0x544c466e72696143u;  // of docs/design/bloom_cluster.md
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

std::shared_ptr<const FilterBlock> Open(const std::string& bytes, uint64_t table_id, FilterCounters* counters) {
  FilterContext context;
  context.table_id = table_id;
  std::shared_ptr<const FilterBlock> block;
  auto file = std::make_shared<rocksdb::RandomAccessFileReader>(std::make_unique<Bytes>(bytes), "bytes");
  if (!FilterBlock::Open(context, {}, file, 0, bytes.size(), counters, &block).ok()) return nullptr;
  return block;
}

void Ask(const std::string& bytes, uint64_t table_id) {
  FilterCounters counters;
  const rocksdb::ReadOptions options;
  const std::shared_ptr<const FilterBlock> block = Open(bytes, table_id, &counters);
  if (block == nullptr) return;
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

constexpr uint64_t kTableId = 0x1122334455667788u;

void CorrectChecksums(std::string* bytes) {
  if (bytes->size() < kFilterPageBytes) return;
  const uint64_t end =
      kIndexHeader + static_cast<uint8_t>((*bytes)[19]) * kMemberBytes + uint64_t{LoadU32(bytes->data() + 12)} * 4;
  if (end + 4 <= bytes->size()) {
    const uint32_t checksum = Crc32c(bytes->data(), end);
    memcpy(bytes->data() + end, &checksum, 4);
  }
  for (size_t page = kFilterPageBytes; page + kFilterPageBytes <= bytes->size(); page += kFilterPageBytes) {
    const uint32_t checksum = Crc32c(bytes->data() + page + 4, kFilterPageBytes - 4);
    memcpy(bytes->data() + page, &checksum, 4);
  }
}

// Three bytes a key. Empty if keys lie so unevenly that there is no filter of them.
std::string Build(fuzz::Input* input) {
  const size_t tables = 1 + input->Number(1) % 4;
  const double bits_per_key = 4 + static_cast<double>(input->Number(1) % 16);
  const uint64_t shift = input->Number(1) % 49;
  std::vector<FilterMember> members(tables);
  std::vector<std::pair<uint64_t, unsigned>> pairs;
  uint64_t hash = 0;
  while (!input->empty()) {
    hash += std::min(input->Number(2) << shift, UINT64_MAX - hash);
    pairs.emplace_back(hash, input->Number(1) % tables);
    ++members[pairs.back().second].pairs;
  }
  if (pairs.empty()) return "";
  members[0].table_id = kTableId;
  const FilterShape shape =
      ChooseFilterShape(pairs.size(), pairs.front().first, pairs.back().first, BitWidth(tables - 1), bits_per_key);
  std::vector<uint64_t> packed;
  for (const auto& [each, slot] : pairs) packed.push_back(PackPair(shape.FingerprintOfHash(each), slot));
  std::sort(packed.begin(), packed.end());
  FilterBlockWriter blocks(shape, members);
  ColumnWriter writer(shape, &blocks);
  for (const uint64_t pair : packed) writer.Add(FingerprintOf(pair), SlotOf(pair));
  if (!writer.Finish()) return "";
  std::string bytes;
  blocks.Finish(writer.pairs(), &bytes);
  FilterCounters counters;
  const std::shared_ptr<const FilterBlock> block = Open(bytes, kTableId, &counters);
  if (block == nullptr || !block->Verify({}).ok()) abort();
  for (const auto& [each, slot] : pairs) {
    uint64_t found = 0;
    if (!block->Probe({}, each, FilterResidency::kDisk, &found).ok() || (found >> slot & 1) == 0) abort();
  }
  return bytes;
}

}  // namespace
}  // namespace cairn

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  if (size < 4) return 0;
  uint64_t table_id = 0;
  const std::string bytes = cairn::BlockOf(data, size, &table_id);
  if (!bytes.empty()) cairn::Ask(bytes, table_id);
  cairn::fuzz::Input input(data, size);
  cairn::fuzz::Input edits = input.Part(input.Number(1) % 32);
  std::string built = cairn::Build(&input);
  if (built.empty()) return 0;
  // Index, or what a page begins with, or all of it: most of a page is empty.
  const uint64_t part = edits.Number(1);
  const size_t pages = built.size() / cairn::kFilterPageBytes;
  const size_t from = part % pages * cairn::kFilterPageBytes;
  const size_t count = part < 128 ? 128 : cairn::kFilterPageBytes;
  std::string changed = built.substr(from, count);
  cairn::fuzz::Edit(&edits, &changed);
  changed.resize(count);
  built.replace(from, count, changed);
  cairn::CorrectChecksums(&built);
  cairn::Ask(built, cairn::kTableId);
  return 0;
}
