// libFuzzer target: units, the header and the indexes of an HTable on any bytes, with checksums corrected so that the
// fuzzer gets past them, and on such as the input describes and changes; and a layout of cells that the input
// describes.

#include <algorithm>
#include <cstdint>
#include <cstdlib>
#include <cstring>
#include <string>
#include <utility>
#include <vector>

#include "test/fuzz/edits.h"
#include "trie_table/htable/htable_format.h"
#include "trie_table/htable/htable_layout.h"
#include "util/checksum.h"

namespace {

using cairn::fuzz::Input;

using cairn::HTableIndex;

void CorrectChecksum(std::string* bytes) {
  if (bytes->size() < 4) return;
  const uint32_t crc = cairn::Crc32c(bytes->data(), bytes->size() - 4);
  memcpy(&(*bytes)[bytes->size() - 4], &crc, sizeof(crc));
}

// The bytes are a copy of their own, so that the sanitizer sees their end.
void OpenUnit(std::vector<char> bytes) {
  cairn::UnitHeader header;
  if (!cairn::DecodeUnitHeader(bytes.data(), bytes.size(), &header).ok() || header.compression != 0) return;
  bytes.resize(cairn::kUnitHeaderSize + header.raw + cairn::kUnitSlack);
  cairn::UnitView view;
  if (!cairn::UnitView::Open(bytes.data() + cairn::kUnitHeaderSize, header.raw, header.entries, header.wide, &view)
           .ok()) {
    return;
  }
  for (uint32_t i = 0; i < view.entries(); ++i) {
    const cairn::UnitEntry entry = view.Entry(i);
    if (entry.key != view.Key(i)) abort();
    volatile char sink = 0;
    for (char c : entry.key) sink = c;
    for (char c : entry.value) sink = c;
    (void)sink;
  }
  for (uint64_t tag = 0; tag < 256; ++tag) {
    uint32_t before = 0;
    for (uint32_t i = view.FindTag(tag, 0); i < view.entries(); i = view.FindTag(tag, i + 1)) {
      if (i < before) abort();
      before = i + 1;
    }
  }
}

// A unit as a table's writer makes it; its entries come back.
std::string BuildUnit(Input* input) {
  constexpr uint64_t kOffset = uint64_t{5} * cairn::kMinBucketSize;
  const bool wide = input->Number(1) % 2 == 1;
  const uint64_t base_seq = input->Number(1);
  std::vector<std::string> keys;
  std::vector<std::string> values;
  std::vector<cairn::UnitEntry> entries;
  std::vector<uint64_t> hashes;
  while (!input->empty() && keys.size() < 200) {
    const uint64_t kind = input->Number(1);
    hashes.push_back(input->Number(1));
    keys.push_back(input->Bytes(kind % 16));
    values.push_back(input->Bytes(kind / 16));
    if (kind == 0xff) values.back().append(300, 'v');
    entries.push_back({"", "", base_seq + (kind % 8 == 0 ? uint64_t{1} << 8 * (kind / 8 % 7) : kind),
                       static_cast<uint8_t>(kind % 32)});
  }
  cairn::UnitBuilder builder;
  builder.Start(base_seq, wide ? cairn::UnitBuilder::Offsets::kWide : cairn::UnitBuilder::Offsets::kNarrow);
  for (size_t i = 0; i < entries.size(); ++i) {
    entries[i].key = keys[i];
    entries[i].value = values[i];
    builder.Add(hashes[i], entries[i]);
  }
  std::string payload, unit;
  builder.AppendPayload(&payload);
  if (payload.size() != builder.size()) abort();
  cairn::UnitHeader header;
  header.wide = wide;
  header.entries = static_cast<uint16_t>(builder.entries());
  header.stored = header.raw = static_cast<uint32_t>(payload.size());
  const size_t size = cairn::kUnitHeaderSize + payload.size() + cairn::kUnitSlack;
  cairn::AppendUnit(header, payload, kOffset, size, &unit);
  if (!wide) {
    std::string written(size, '\0');
    cairn::UnitWriter writer(written.data(), size, base_seq, entries.size());
    for (size_t i = 0; i < entries.size(); ++i) writer.Add(hashes[i], entries[i]);
    writer.Finish(kOffset);
    if (written != unit) abort();
  }
  cairn::UnitView view;
  if (!cairn::DecodeUnitHeader(unit.data(), unit.size(), &header).ok() ||
      header.crc != cairn::UnitChecksum(unit.data(), unit.size(), kOffset) ||
      !cairn::UnitView::Open(unit.data() + cairn::kUnitHeaderSize, header.raw, header.entries, header.wide, &view)
           .ok()) {
    abort();
  }
  for (uint32_t i = 0; i < view.entries(); ++i) {
    const cairn::UnitEntry entry = view.Entry(i);
    if (entry.key != keys[i] || entry.value != values[i] || entry.seq != entries[i].seq ||
        entry.type != entries[i].type) {
      abort();
    }
  }
  return unit;
}

struct IndexBytes {
  std::string header;
  std::string groups;
  std::string extents;
};

// Groups and extents as a table's writer makes them.
IndexBytes BuildIndex(Input* input) {
  cairn::HTableHeader header;
  header.bucket_size = cairn::kMinBucketSize << input->Number(1) % 4;
  std::vector<cairn::GroupPlan> groups(input->Number(1) % 6);
  uint64_t bucket = 0;
  uint64_t hash = 0;
  for (cairn::GroupPlan& group : groups) {
    hash += 1 + (input->Number(2) << input->Number(1) % 44);
    bucket += input->Number(1) % 4;
    group.first = hash;
    group.first_bucket = static_cast<uint32_t>(bucket);
    group.shift = static_cast<uint8_t>(input->Number(1) % 49);
    group.bounds.push_back(0);
    for (uint64_t more = input->Number(1) % 8; more > 0; --more) {
      const uint64_t bound = group.bounds.back() + 1 + (input->Number(1) << more);
      if (bound <= UINT16_MAX) group.bounds.push_back(static_cast<uint16_t>(bound));
    }
    group.spill_buckets = static_cast<uint16_t>(input->Number(1) % 4);
    for (uint64_t more = group.spill_buckets == 0 ? 0 : input->Number(1) % 8; more > 0; --more) {
      group.spills.push_back(static_cast<uint32_t>(input->Number(3) << 8 | more % group.spill_buckets));
    }
    std::sort(group.spills.begin(), group.spills.end());
    group.spills.erase(std::unique(group.spills.begin(), group.spills.end()), group.spills.end());
    bucket += group.bounds.size() + group.spill_buckets;
    header.homes += group.bounds.size();
    header.spill_buckets += group.spill_buckets;
    header.spills += group.spills.size();
  }
  header.groups = groups.size();
  uint64_t end = bucket * header.bucket_size;
  std::vector<cairn::ExtentPlan> extents(groups.empty() ? 0 : input->Number(1) % 6);
  hash = 0;
  for (cairn::ExtentPlan& extent : extents) {
    hash += input->Number(1) << input->Number(1) % 50;
    extent.hash = hash;
    extent.offset = end;
    extent.min_seq = input->Number(2);
    extent.size = static_cast<uint32_t>(cairn::kUnitHeaderSize + input->Number(2));
    end += extent.size;
  }
  header.extents = extents.size();
  header.group_index.offset = end;
  IndexBytes bytes;
  header.AppendTo(&bytes.header);
  cairn::AppendGroupIndex(groups, &bytes.groups);
  cairn::AppendExtentIndex(extents, &bytes.extents);
  HTableIndex index;
  if (!cairn::HTableHeader::Decode(bytes.header, end, &header).ok() ||
      !HTableIndex::Open(header, bytes.groups, bytes.extents, &index).ok() || index.groups() != groups.size() ||
      index.extents().size() != extents.size()) {
    abort();
  }
  uint32_t home = 0;
  for (const cairn::GroupPlan& group : groups) {
    const HTableIndex::Place place = index.Find(group.first);
    if (place.bucket != home || place.offset != uint64_t{group.first_bucket} * header.bucket_size) abort();
    home += static_cast<uint32_t>(group.bounds.size());
  }
  return bytes;
}

void OpenIndex(IndexBytes bytes, int questions) {
  CorrectChecksum(&bytes.header);
  CorrectChecksum(&bytes.extents);
  CorrectChecksum(&bytes.groups);
  cairn::HTableHeader header;
  if (!cairn::HTableHeader::Decode(bytes.header, UINT64_MAX / 2, &header).ok()) return;
  HTableIndex index;
  if (!HTableIndex::Open(header, bytes.groups, bytes.extents, &index).ok() || index.empty()) return;
  uint64_t hash = 0x9e3779b97f4a7c15u;
  for (int i = 0; i < questions; ++i) {
    hash = hash * 6364136223846793005u + 1442695040888963407u;
    const HTableIndex::Place place = index.Find(i % 3 == 0 ? index.GroupFirst(0) + (hash >> (i % 64)) : hash);
    if (place.bucket >= index.homes() || place.offset >= header.group_index.offset) abort();
    if (index.PlaceOf(place.bucket).offset != place.offset) abort();
    uint32_t cursor = 0;
    uint64_t offset = 0;
    while (index.FindSpill(place, hash, &cursor, &offset)) {
      if (offset >= header.group_index.offset) abort();
    }
    uint32_t first = 0, last = 0;
    index.SpillsOf(place, &first, &last);
    for (; first < last; ++first) index.SpillAt(place.group, first);
    index.ExtentsOf(place, &first, &last);
    if (first > last || last > index.extents().size()) abort();
    index.ExtentsOf(hash, &first, &last);
    if (first > last || last > index.extents().size()) abort();
  }
}

// The first byte is the number of extents, the rest a header, extents and a group index.
void OpenAnyIndex(const uint8_t* data, size_t size) {
  if (size < cairn::HTableHeader::kSize + 1) return;
  const size_t rest = size - 1 - cairn::HTableHeader::kSize;
  const size_t extent_size = std::min<size_t>(rest, size_t{data[0]} * 28);
  const char* const header = reinterpret_cast<const char*>(data + 1);
  const char* const body = header + cairn::HTableHeader::kSize;
  IndexBytes bytes{std::string(header, cairn::HTableHeader::kSize), std::string(body + extent_size, rest - extent_size),
                   std::string(body, extent_size)};
  bytes.extents.append(4, '\0');
  bytes.groups.append(4, '\0');
  OpenIndex(std::move(bytes), 300);
}

// The first byte says how many of the next are changes, the one behind it what is changed.
void BuildAndChange(const uint8_t* data, size_t size) {
  Input input(data, size);
  Input edits = input.Part(input.Number(1) % 32);
  const uint64_t part = edits.Number(1) % 4;
  Input same = input;
  std::string unit = BuildUnit(&same);
  if (part == 0) cairn::fuzz::Edit(&edits, &unit);
  if (part == 0) OpenUnit(cairn::fuzz::Exact(unit));
  IndexBytes bytes = BuildIndex(&input);
  if (part != 0) cairn::fuzz::Edit(&edits, part == 1 ? &bytes.header : part == 2 ? &bytes.groups : &bytes.extents);
  OpenIndex(std::move(bytes), 32);
}

// Three bytes a cell: two of the hash, one of the size.
void LayOut(const uint8_t* data, size_t size) {
  if (size < 5) return;
  const unsigned shift = data[0] % 49;
  std::vector<cairn::Cell> cells;
  for (size_t at = 2; at + 3 <= size; at += 3) {
    const uint64_t hash = (uint64_t{data[at]} << 8 | data[at + 1]) << shift;
    cells.push_back({hash, size_t{data[at + 2]} * (1 + data[1] / 8) + 1, 1});
  }
  std::sort(cells.begin(), cells.end(), [](const auto& a, const auto& b) { return a.hash < b.hash; });
  cells.erase(std::unique(cells.begin(), cells.end(), [](const auto& a, const auto& b) { return a.hash == b.hash; }),
              cells.end());
  const size_t capacity = cairn::BucketCapacity(4096);
  for (const cairn::GroupEnd end : {cairn::GroupEnd::kMoreFollows, cairn::GroupEnd::kLast}) {
    const cairn::GroupLayout layout = cairn::LayOutGroup(cells, {capacity, 100, capacity / 16}, end);
    if (layout.cells == 0 || layout.homes.size() != layout.bounds.size()) abort();
    size_t placed = layout.extents.size();
    for (const auto& buckets : {layout.homes, layout.spills}) {
      for (const auto& bucket : buckets) {
        size_t bytes = 0;
        for (uint32_t cell : bucket) bytes += cells[cell].bytes;
        if (bytes > capacity || bucket.size() > 100) abort();
        placed += bucket.size();
      }
    }
    if (placed != layout.cells) abort();
  }
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  OpenUnit(std::vector<char>(data, data + size));
  OpenAnyIndex(data, size);
  BuildAndChange(data, size);
  LayOut(data, size);
  return 0;
}
