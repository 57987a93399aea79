// libFuzzer target: property cairn.ect on any bytes, as a reader of cairn.EctTable takes it apart, with the checksum of
// the index within corrected so that the fuzzer gets past it: what a lookup would read lies inside the data.

#include <cstdint>
#include <cstdlib>
#include <cstring>
#include <memory>
#include <string>

#include "cairn/ect.h"
#include "src/ect/ect_block_layout.h"
#include "src/util/checksum.h"

namespace {

constexpr uint64_t kDataEnd = uint64_t{1} << 20;

void AskLayout(const cairn::EctBlockLayout& layout, uint64_t hash) {
  const uint64_t block = layout.Guess(hash);
  if (block >= layout.blocks() || layout.BlocksWithin(hash) == 0) abort();
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

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  std::string property(reinterpret_cast<const char*>(data), size);
  if (size >= 4) {
    // The index ends the property, and its checksum the index.
    cairn::EctPropertyHeader header;
    const bool whole = cairn::EctPropertyHeader::DecodeWhole(property, &header).ok();
    if (whole) CheckHeader(header, property);
    if (whole && header.index_bytes >= 4) {
      const uint32_t crc = cairn::Crc32c(property.data() + header.index_at(), header.index_bytes - 4);
      memcpy(&property[size - 4], &crc, sizeof(crc));
    }
  }
  std::unique_ptr<cairn::EctBlockLayout> layout;
  if (!cairn::EctBlockLayout::Open(property, kDataEnd, &layout).ok()) return 0;
  cairn::EctPropertyHeader header;
  if (!cairn::EctPropertyHeader::DecodeWhole(property, &header).ok()) abort();
  const std::string tries = property.substr(header.index_at());
  cairn::EctIndex index;
  const bool opened = cairn::EctIndex::Open(tries.data(), tries.size(), cairn::EctVerify::kChecksum, &index).ok();
  uint64_t hash = header.first_hash;
  for (int i = 0; i < 200; ++i) {
    AskLayout(*layout, hash);
    if (opened) AskIndex(index, hash);
    hash = i % 3 == 0 ? header.last_hash - hash : hash * 6364136223846793005u + 1442695040888963407u;
  }
  return 0;
}
