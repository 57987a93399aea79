// libFuzzer target: CuckooFilter::Open and questions on any bytes, with the checksum corrected, and that a filter built
// from the input has all of it, and answers when it was changed.

#include <algorithm>
#include <cstdint>
#include <cstdlib>
#include <cstring>
#include <string>
#include <vector>

#include "cairn/cuckoo_filter.h"
#include "test/fuzz/edits.h"
#include "util/checksum.h"

namespace {

void OpenAndAsk(std::vector<char> bytes) {
  if (bytes.size() >= 4) {
    const uint32_t crc = cairn::Crc32c(bytes.data(), bytes.size() - 4);
    memcpy(bytes.data() + bytes.size() - 4, &crc, sizeof(crc));
  }
  cairn::CuckooFilter filter;
  if (!cairn::CuckooFilter::Open(bytes.data(), bytes.size(), &filter).ok()) return;
  uint64_t hashes[64];
  bool answers[64];
  for (uint64_t i = 0; i < 64; ++i) hashes[i] = i * 0x9e3779b97f4a7c15u;
  filter.MayContainBatch(hashes, 64, answers);
  for (size_t i = 0; i < 64; ++i) {
    if (filter.MayContain(hashes[i]) != answers[i]) abort();
  }
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  OpenAndAsk(std::vector<char>(data, data + size));
  if (size < 3) return 0;
  const size_t changes = std::min<size_t>(data[2] % 32, size - 3);
  cairn::fuzz::Input edits(data + size - changes, changes);
  size -= changes;
  cairn::CuckooFilterOptions options;
  options.tag_bits = 4 + data[0] % 22;
  options.load = 0.5 + 0.47 * data[1] / 255;
  cairn::CuckooFilterBuilder builder(options);
  std::vector<uint64_t> hashes;
  for (size_t at = 3; at + 4 <= size; at += 4) {
    uint32_t low;
    memcpy(&low, data + at, sizeof(low));
    hashes.push_back(low);
    builder.Add(low);
  }
  std::string built;
  if (!builder.Finish(&built).ok()) abort();
  cairn::CuckooFilter filter;
  if (!cairn::CuckooFilter::Open(built.data(), built.size(), &filter).ok()) abort();
  for (uint64_t hash : hashes) {
    if (!filter.MayContain(hash)) abort();
  }
  cairn::fuzz::Edit(&edits, &built);
  OpenAndAsk(cairn::fuzz::Exact(built));
  return 0;
}
