// libFuzzer target: EctIndex::Open and lookups on any bytes, with the checksum corrected so that the fuzzer gets past
// it, and with the input taken as hashes, that what is built finds every one of them, and answers within bounds when it
// was changed.

#include <algorithm>
#include <cstdint>
#include <cstdlib>
#include <cstring>
#include <vector>

#include "cairn/ect.h"
#include "test/fuzz/edits.h"
#include "util/checksum.h"

namespace {

void Ask(const cairn::EctIndex& index, const std::vector<uint64_t>& hashes) {
  std::vector<cairn::EctMatch> batch(hashes.size());
  index.LookupBatch(hashes.data(), hashes.size(), batch.data());
  for (size_t i = 0; i < hashes.size(); ++i) {
    const cairn::EctMatch match = index.Lookup(hashes[i]);
    if (match.rank > index.keys() || match.count > index.keys() - match.rank) abort();
    if (match.count > 0) index.BlockOf(match.rank + match.count - 1);
    if (match.rank != batch[i].rank || match.count != batch[i].count) abort();
    index.Bucket(hashes[i]);
  }
}

// With these hashes and some that lie everywhere.
void OpenAndAsk(std::vector<char> bytes, std::vector<uint64_t> hashes, uint64_t everywhere) {
  if (bytes.size() >= 4) {
    const uint32_t crc = cairn::Crc32c(bytes.data(), bytes.size() - 4);
    memcpy(bytes.data() + bytes.size() - 4, &crc, sizeof(crc));
  }
  cairn::EctIndex index;
  if (!cairn::EctIndex::Open(bytes.data(), bytes.size(), cairn::EctVerify::kChecksum, &index).ok()) return;
  for (uint64_t i = 0; i < everywhere; ++i) {
    hashes.push_back(i * (UINT64_MAX / everywhere) + (i * 0x9e3779b97f4a7c15u >> 8));
  }
  Ask(index, hashes);
}

void OpenAnyBytes(const uint8_t* data, size_t size) {
  std::vector<uint64_t> hashes(size / 8);
  if (!hashes.empty()) memcpy(hashes.data(), data, 8 * hashes.size());
  OpenAndAsk(std::vector<char>(data, data + size), std::move(hashes), 256);
}

// The first bytes choose the options and how many bytes at the end are changes, the others are hashes.
void BuildFromBytes(const uint8_t* data, size_t size) {
  if (size < 8) return;
  const size_t changes = std::min<size_t>(data[6] % 32, size - 8);
  cairn::fuzz::Input edits(data + size - changes, changes);
  size -= changes;
  cairn::EctOptions options;
  options.group = 16 + data[0];
  options.hmax = 2 + data[1] % 119;
  options.skip_leaves = 3 + data[2];
  const uint32_t items = data[3] % 40;
  const bool started_blocks = data[4] % 4 == 3;
  if (data[4] % 2 == 0 && items >= 2) options.block_items = items;
  options.prune_at_started_blocks = started_blocks && data[4] % 8 == 7;
  const unsigned shift = data[5] % 64;
  std::vector<uint64_t> hashes((size - 8) / 2);
  for (size_t i = 0; i < hashes.size(); ++i) {
    hashes[i] = uint64_t{data[8 + 2 * i]} << 56 | uint64_t{data[9 + 2 * i]} << shift;
  }
  std::sort(hashes.begin(), hashes.end());
  if ((data[4] & 8) != 0 && !hashes.empty()) {
    options.expected_keys = hashes.size();
    options.first_hash = hashes.front();
    options.last_hash = hashes.back();
  }
  cairn::EctBuilder builder(options);
  for (size_t i = 0; i < hashes.size(); ++i) {
    if (started_blocks && i % (1 + data[7] % 16) == 0) builder.StartBlock();
    builder.Add(hashes[i]);
  }
  std::string bytes;
  if (!builder.Finish(&bytes).ok()) abort();
  cairn::EctIndex index;
  if (!cairn::EctIndex::Open(bytes.data(), bytes.size(), cairn::EctVerify::kChecksum, &index).ok()) abort();
  for (size_t i = 0; i < hashes.size(); ++i) {
    const cairn::EctMatch match = index.Lookup(hashes[i]);
    if (i < match.rank || i - match.rank >= match.count) abort();
  }
  cairn::fuzz::Edit(&edits, &bytes);
  OpenAndAsk(cairn::fuzz::Exact(bytes), std::move(hashes), 16);
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  OpenAnyBytes(data, size);
  BuildFromBytes(data, size);
  return 0;
}
