// libFuzzer target: property cairn.ect on any bytes, and on one that the input describes and changes, as a reader of
// cairn.EctTable takes it apart, with the checksum of the index within corrected so that the fuzzer gets past it: what
// a lookup would read lies inside the data.

#include <algorithm>
#include <cstdint>
#include <cstdlib>
#include <cstring>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "cairn/ect.h"
#include "table/ect/ect_block_layout.h"
#include "test/fuzz/edits.h"
#include "util/bits.h"
#include "util/checksum.h"
#include "util/elias_fano.h"

namespace {

constexpr uint64_t kDataEnd = uint64_t{1} << 32;

void AskLayout(const cairn::EctBlockLayout& layout, uint64_t hash) {
  const uint64_t block = layout.Guess(hash);
  const uint64_t within = layout.BlocksWithin(hash);
  if (block >= layout.blocks() || within == 0 || within > layout.blocks()) abort();
  uint64_t offset = 0, size = 0;
  layout.Locate(block, &offset, &size);
  if (offset > kDataEnd || size > kDataEnd - offset) abort();
}

void AskIndex(const cairn::EctIndex& index, uint64_t hash) {
  const cairn::EctMatch match = index.Lookup(hash);
  if (match.count == 0) return;
  if (match.rank >= index.keys() || match.count > index.keys() - match.rank) abort();
  if (index.BlockOf(match.rank) > index.BlockOf(match.rank + match.count - 1)) abort();
}

// What a new header says is what is read from it.
void CheckHeader(const cairn::EctPropertyHeader& header, const std::string& property) {
  std::string bytes;
  header.EncodeTo(&bytes);
  if (bytes != property.substr(0, cairn::EctPropertyHeader::kSize)) abort();
}

void OpenAndAsk(std::string property, int questions) {
  if (property.size() >= 4) {
    // The index ends the property, and its checksum the index.
    cairn::EctPropertyHeader header;
    const bool whole = cairn::EctPropertyHeader::DecodeWhole(property, &header).ok();
    if (whole) CheckHeader(header, property);
    if (whole && header.index_bytes >= 4) {
      const uint32_t crc = cairn::Crc32c(property.data() + header.index_at(), header.index_bytes - 4);
      memcpy(&property[property.size() - 4], &crc, sizeof(crc));
    }
  }
  std::unique_ptr<cairn::EctBlockLayout> layout;
  if (!cairn::EctBlockLayout::Open(property, kDataEnd, &layout).ok()) return;
  cairn::EctPropertyHeader header;
  if (!cairn::EctPropertyHeader::DecodeWhole(property, &header).ok()) abort();
  const std::vector<char> tries = cairn::fuzz::Exact(property.substr(header.index_at()));
  cairn::EctIndex index;
  const bool opened = cairn::EctIndex::Open(tries.data(), tries.size(), cairn::EctVerify::kChecksum, &index).ok();
  uint64_t hash = header.first_hash;
  for (int i = 0; i < questions; ++i) {
    AskLayout(*layout, hash);
    if (opened) AskIndex(index, hash);
    hash = i % 3 == 0 ? header.last_hash - hash : hash * 6364136223846793005u + 1442695040888963407u;
  }
}

// A property of a table: three bytes for each step from key to key, of which one says whether a block begins with it.
// Steps are taken several times, so that a short input makes as many blocks as it takes for samples of their offsets.
std::string Build(cairn::fuzz::Input* input) {
  const unsigned shift = static_cast<unsigned>(input->Number(1) % 49);
  std::vector<uint64_t> offsets;
  std::vector<uint64_t> samples;
  uint64_t hash = input->Number(2) << shift;
  uint64_t offset = 0;
  cairn::EctOptions options;
  options.group = 16 + static_cast<uint32_t>(input->Number(1));
  const uint64_t how = input->Number(1);
  options.prune_at_started_blocks = how % 2 == 0;
  const size_t times = size_t{1} << (how >> 1) % 7;
  cairn::EctBuilder builder(options);
  while (input->left() >= 3 && builder.keys() < 2000) {
    const uint64_t step = input->Number(2);
    const uint64_t kind = input->Number(1);
    for (size_t i = 0; i < times; ++i) {
      hash += std::min(step << shift, UINT64_MAX - hash);
      if (offsets.empty() || kind % 4 == 0) {
        if (offsets.size() % cairn::kEctSampleBlocks == 0) samples.push_back(hash);
        if (!offsets.empty()) offset += 1 + kind;
        offsets.push_back(offset);
        builder.StartBlock();
      }
      builder.Add(hash);
    }
  }
  if (offsets.empty()) return "";
  std::string packed, index, bytes;
  cairn::EncodeEliasFano(offsets, offset + 1, &packed);
  if (!builder.Finish(&index).ok()) abort();
  cairn::EctPropertyHeader header;
  header.keys_in_one_block = true;
  header.keys = builder.keys();
  header.first_hash = samples.front();
  header.last_hash = hash;
  header.offsets_bytes = packed.size();
  header.sample_count = static_cast<uint32_t>(samples.size());
  header.index_bytes = index.size();
  header.EncodeTo(&bytes);
  bytes += packed;
  for (const uint64_t sample : samples) {
    cairn::PutU32(&bytes, cairn::EctFraction(sample, header.first_hash, header.last_hash));
  }
  bytes += index;
  std::unique_ptr<cairn::EctBlockLayout> layout;
  if (!cairn::EctBlockLayout::Open(bytes, kDataEnd, &layout).ok() || layout->blocks() != offsets.size()) abort();
  for (size_t i = 0; i < offsets.size(); ++i) {
    uint64_t at = 0, size = 0;
    layout->Locate(i, &at, &size);
    if (at != offsets[i]) abort();
  }
  return bytes;
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  OpenAndAsk(std::string(reinterpret_cast<const char*>(data), size), 200);
  cairn::fuzz::Input input(data, size);
  cairn::fuzz::Input edits = input.Part(input.Number(1) % 32);
  std::string property = Build(&input);
  cairn::fuzz::Edit(&edits, &property);
  OpenAndAsk(std::move(property), 16);
  return 0;
}
