// libFuzzer target: RibbonFilter::Open and questions on any bytes, with the checksum corrected, and that a filter built
// from the input has all of it, and answers when it was changed.

#include <algorithm>
#include <cstdint>
#include <cstdlib>
#include <cstring>
#include <string>
#include <vector>

#include "table/ect/ribbon_filter.h"
#include "test/fuzz/edits.h"
#include "util/checksum.h"

namespace {

void OpenAndAsk(std::vector<char> bytes, const std::vector<uint64_t>& hashes) {
  if (bytes.size() >= 4) {
    const uint32_t crc = cairn::Crc32c(bytes.data(), bytes.size() - 4);
    memcpy(bytes.data() + bytes.size() - 4, &crc, sizeof(crc));
  }
  cairn::RibbonFilter filter;
  if (!cairn::RibbonFilter::Open(bytes.data(), bytes.size(), &filter).ok()) return;
  for (uint64_t hash : hashes) filter.MayContain(hash);
  for (uint64_t i = 0; i < 32; ++i) filter.MayContain(i << 59 | i * (0x9e3779b97f4a7c15u >> 8));
}

}  // namespace

// The first bytes choose the bits, how far hashes lie apart, and how many bytes at the end are changes.
extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  OpenAndAsk(std::vector<char>(data, data + size), {});
  if (size < 4) return 0;
  cairn::fuzz::Input input(data, size);
  cairn::RibbonFilterBuilder builder(static_cast<uint32_t>(1 + input.Number(1) % cairn::kMaxRibbonBits));
  const uint64_t shift = input.Number(1) % 49;
  cairn::fuzz::Input edits = input.Part(input.Number(1) % 32);
  std::vector<uint64_t> hashes;
  uint64_t hash = 0;
  while (!input.empty()) {
    hash += std::min(input.Number(2) << shift, UINT64_MAX - hash);
    hashes.push_back(hash);
    builder.Add(hash);
  }
  std::string built;
  if (!builder.Finish(&built).ok()) abort();
  cairn::RibbonFilter filter;
  if (!cairn::RibbonFilter::Open(built.data(), built.size(), &filter).ok()) abort();
  for (uint64_t each : hashes) {
    if (!filter.MayContain(each)) abort();
  }
  cairn::fuzz::Edit(&edits, &built);
  OpenAndAsk(cairn::fuzz::Exact(built), hashes);
  return 0;
}
