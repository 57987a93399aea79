// libFuzzer target: EctIndex::Open and lookups on any bytes, with the checksum corrected so that the fuzzer gets past
// it, and with the input taken as hashes, that what is built finds every one of them.

#include <algorithm>
#include <cstdint>
#include <cstdlib>
#include <cstring>
#include <vector>

#include "cairn/ect.h"
#include "src/util/checksum.h"

namespace {

void Ask(const cairn::EctIndex& index, const uint8_t* hashes, size_t count) {
  for (size_t i = 0; i < count; ++i) {
    uint64_t hash;
    memcpy(&hash, hashes + 8 * i, sizeof(hash));
    const cairn::EctMatch match = index.Lookup(hash);
    if (match.rank > index.keys() || match.count > index.keys() - match.rank) abort();
    if (match.count > 0) index.BlockOf(match.rank + match.count - 1);
    index.Bucket(hash);
  }
}

void OpenAnyBytes(const uint8_t* data, size_t size) {
  std::vector<uint8_t> bytes(data, data + size);
  if (size >= 4) {
    const uint32_t crc = cairn::Crc32c(bytes.data(), size - 4);
    memcpy(bytes.data() + size - 4, &crc, sizeof(crc));
  }
  cairn::EctIndex index;
  if (!cairn::EctIndex::Open(bytes.data(), bytes.size(), cairn::EctVerify::kChecksum, &index).ok()) return;
  Ask(index, data, size / 8);
  uint64_t spread[256];
  for (uint64_t i = 0; i < 256; ++i) spread[i] = i << 56 | i * 0x9e3779b97f4a7c15u >> 8;
  Ask(index, reinterpret_cast<const uint8_t*>(spread), 256);
}

// The first bytes choose the options, the others are hashes.
void BuildFromBytes(const uint8_t* data, size_t size) {
  if (size < 8) return;
  cairn::EctOptions options;
  options.group = 16 + data[0];
  options.hmax = 2 + data[1] % 119;
  options.skip_leaves = 3 + data[2];
  const uint32_t items = data[3] % 40;
  if (data[4] % 2 == 0 && items >= 2) options.block_items = items;
  const unsigned shift = data[5] % 64;
  std::vector<uint64_t> hashes((size - 8) / 2);
  for (size_t i = 0; i < hashes.size(); ++i) {
    hashes[i] = uint64_t{data[8 + 2 * i]} << 56 | uint64_t{data[9 + 2 * i]} << shift;
  }
  std::sort(hashes.begin(), hashes.end());
  cairn::EctBuilder builder(options);
  for (uint64_t hash : hashes) builder.Add(hash);
  std::string bytes;
  if (!builder.Finish(&bytes).ok()) abort();
  cairn::EctIndex index;
  if (!cairn::EctIndex::Open(bytes.data(), bytes.size(), cairn::EctVerify::kChecksum, &index).ok()) abort();
  for (size_t i = 0; i < hashes.size(); ++i) {
    const cairn::EctMatch match = index.Lookup(hashes[i]);
    if (i < match.rank || i - match.rank >= match.count) abort();
  }
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  OpenAnyBytes(data, size);
  BuildFromBytes(data, size);
  return 0;
}
