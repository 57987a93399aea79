// libFuzzer target: units, the header and the indexes of an HTable on any bytes, with checksums corrected so that the
// fuzzer gets past them; and a layout of cells that the input describes.

#include <algorithm>
#include <cstdint>
#include <cstdlib>
#include <cstring>
#include <string>
#include <vector>

#include "src/htable/htable_format.h"
#include "src/htable/htable_layout.h"
#include "src/util/checksum.h"

namespace {

using cairn::HTableIndex;

void CorrectChecksum(std::string* bytes) {
  if (bytes->size() < 4) return;
  const uint32_t crc = cairn::Crc32c(bytes->data(), bytes->size() - 4);
  memcpy(&(*bytes)[bytes->size() - 4], &crc, sizeof(crc));
}

void OpenUnit(const uint8_t* data, size_t size) {
  // A copy of its own, so that the sanitizer sees its end.
  std::vector<char> bytes(data, data + size);
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

// The first byte is the number of extents, the rest a group index, extents and a header.
void OpenIndex(const uint8_t* data, size_t size) {
  if (size < cairn::HTableHeader::kSize + 1) return;
  std::string header_bytes(reinterpret_cast<const char*>(data + 1), cairn::HTableHeader::kSize);
  CorrectChecksum(&header_bytes);
  cairn::HTableHeader header;
  if (!cairn::HTableHeader::Decode(header_bytes, UINT64_MAX / 2, &header).ok()) return;
  const size_t rest = size - 1 - header_bytes.size();
  const size_t extent_size = std::min<size_t>(rest, size_t{data[0]} * 28);
  const char* const body = reinterpret_cast<const char*>(data + 1 + header_bytes.size());
  std::string extents(body, extent_size), groups(body + extent_size, rest - extent_size);
  extents.append(4, '\0');
  groups.append(4, '\0');
  CorrectChecksum(&extents);
  CorrectChecksum(&groups);
  HTableIndex index;
  if (!HTableIndex::Open(header, groups, extents, &index).ok() || index.empty()) return;
  uint64_t hash = 0x9e3779b97f4a7c15u;
  for (int i = 0; i < 300; ++i) {
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
  OpenUnit(data, size);
  OpenIndex(data, size);
  LayOut(data, size);
  return 0;
}
