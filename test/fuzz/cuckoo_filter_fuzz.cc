// libFuzzer target: CuckooFilter::Open and questions on any bytes, with the checksum corrected, and that a filter built
// from the input has all of it.

#include <cstdint>
#include <cstdlib>
#include <cstring>
#include <vector>

#include "cairn/cuckoo_filter.h"
#include "src/util/checksum.h"

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  std::vector<uint8_t> bytes(data, data + size);
  if (size >= 4) {
    const uint32_t crc = cairn::Crc32c(bytes.data(), size - 4);
    memcpy(bytes.data() + size - 4, &crc, sizeof(crc));
  }
  cairn::CuckooFilter filter;
  if (cairn::CuckooFilter::Open(bytes.data(), bytes.size(), &filter).ok()) {
    for (uint64_t i = 0; i < 1000; ++i) filter.MayContain(i * 0x9e3779b97f4a7c15u);
  }
  if (size < 2) return 0;
  cairn::CuckooFilterOptions options;
  options.tag_bits = 4 + data[0] % 22;
  options.load = 0.5 + 0.47 * data[1] / 255;
  cairn::CuckooFilterBuilder builder(options);
  std::vector<uint64_t> hashes;
  for (size_t at = 2; at + 4 <= size; at += 4) {
    uint32_t low;
    memcpy(&low, data + at, sizeof(low));
    hashes.push_back(low);
    builder.Add(low);
  }
  std::string built;
  if (!builder.Finish(&built).ok()) abort();
  if (!cairn::CuckooFilter::Open(built.data(), built.size(), &filter).ok()) abort();
  for (uint64_t hash : hashes) {
    if (!filter.MayContain(hash)) abort();
  }
  return 0;
}
