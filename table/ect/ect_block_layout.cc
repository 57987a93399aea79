#include "table/ect/ect_block_layout.h"

#include <algorithm>
#include <utility>

#include "util/bits.h"
#include "util/format_version.h"

namespace cairn {

namespace {

constexpr uint32_t kVersion = 2;
constexpr uint32_t kKeysInOneBlock = 1;             // the one flag
constexpr uint64_t kOffsetsHeaderBytes = 24;        // of an Elias-Fano sequence
constexpr uint64_t kBlockTrailerBytes = 5;          // of a block-based table: compression type and checksum
constexpr uint64_t kMostBytes = uint64_t{1} << 48;  // of any part, so that sums do not overflow

}  // namespace

IndexStatus DamagedEctProperty(const std::string& what) {
  return IndexStatus::Corruption("property cairn.ect: " + what + "; compact the file to write it anew");
}

uint32_t EctFraction(uint64_t hash, uint64_t first, uint64_t last) {
  if (hash <= first) return 0;
  if (hash >= last) return UINT32_MAX;
  const unsigned __int128 hashes = static_cast<unsigned __int128>(last - first) + 1;
  return static_cast<uint32_t>((static_cast<unsigned __int128>(hash - first) << 32) / hashes);
}

void EctPropertyHeader::EncodeTo(std::string* out) const {
  PutU32(out, kVersion);
  PutU32(out, keys_in_one_block ? kKeysInOneBlock : 0);
  PutU64(out, keys);
  PutU64(out, first_hash);
  PutU64(out, last_hash);
  PutU64(out, offsets_bytes);
  PutU32(out, sample_count);
  PutU32(out, kEctSampleBlocks);
  PutU64(out, index_bytes);
  PutU64(out, filter_bytes);
}

IndexStatus EctPropertyHeader::Decode(const std::string& bytes, EctPropertyHeader* header) {
  const uint8_t* const data = reinterpret_cast<const uint8_t*>(bytes.data());
  if (bytes.size() < 4) return DamagedEctProperty("shorter than its header");
  if (LoadU32(data) != kVersion) {
    return IndexStatus::NotSupported("property cairn.ect of " + UnknownVersion(LoadU32(data), kVersion));
  }
  if (bytes.size() < kSize) return DamagedEctProperty("shorter than its header");
  if (LoadU32(data + 4) > kKeysInOneBlock) return DamagedEctProperty("unknown flags");
  header->keys_in_one_block = LoadU32(data + 4) == kKeysInOneBlock;
  header->keys = LoadU64(data + 8);
  header->first_hash = LoadU64(data + 16);
  header->last_hash = LoadU64(data + 24);
  header->offsets_bytes = LoadU64(data + 32);
  header->sample_count = LoadU32(data + 40);
  header->index_bytes = LoadU64(data + 48);
  header->filter_bytes = LoadU64(data + 56);
  if (LoadU32(data + 44) != kEctSampleBlocks || header->first_hash > header->last_hash ||
      header->offsets_bytes > kMostBytes || header->index_bytes > kMostBytes || header->filter_bytes > kMostBytes ||
      header->offsets_bytes < kOffsetsHeaderBytes) {
    return DamagedEctProperty("impossible numbers in its header");
  }
  return IndexStatus::OK();
}

IndexStatus EctPropertyHeader::DecodeWhole(const std::string& bytes, EctPropertyHeader* header) {
  const IndexStatus status = Decode(bytes, header);
  if (status.ok() && bytes.size() != header->total()) return DamagedEctProperty("not as long as its header says");
  return status;
}

IndexStatus EctBlockLayout::Open(const std::string& property, uint64_t data_end,
                                 std::unique_ptr<EctBlockLayout>* layout) {
  layout->reset();
  EctPropertyHeader header;
  IndexStatus status = EctPropertyHeader::DecodeWhole(property, &header);
  if (!status.ok()) return status;
  auto opened = std::make_unique<EctBlockLayout>();
  opened->bytes_ = property.substr(EctPropertyHeader::kSize, header.index_at() - EctPropertyHeader::kSize);
  const uint8_t* const data = reinterpret_cast<const uint8_t*>(opened->bytes_.data());
  const char* error = opened->offsets_.Open(data, header.offsets_bytes, LoadU64(data + 8));
  if (error != nullptr) return DamagedEctProperty(std::string("the offsets are ") + error);
  const uint64_t blocks = opened->offsets_.count();
  if (header.sample_count != (blocks + kEctSampleBlocks - 1) / kEctSampleBlocks) {
    return DamagedEctProperty("wrong number of samples");
  }
  opened->samples_ = data + header.offsets_bytes;
  opened->sample_count_ = header.sample_count;
  for (uint64_t i = 1; i < opened->sample_count_; ++i) {
    if (opened->Sample(i) < opened->Sample(i - 1)) return DamagedEctProperty("samples out of order");
  }
  if (opened->offsets_.Get(blocks - 1) + kBlockTrailerBytes > data_end) {
    return DamagedEctProperty("a block begins behind the end of the data");
  }
  opened->first_hash_ = header.first_hash;
  opened->last_hash_ = header.last_hash;
  opened->data_end_ = data_end;
  opened->keys_in_one_block_ = header.keys_in_one_block;
  *layout = std::move(opened);
  return status;
}

void EctBlockLayout::Locate(uint64_t block, uint64_t* offset, uint64_t* size) const {
  *offset = offsets_.Get(block);
  const uint64_t next = block + 1 < offsets_.count() ? offsets_.Get(block + 1) : data_end_;
  // A block is never shorter than its trailer in a table that RocksDB wrote; a read of a wrong size fails its checksum.
  *size = next - *offset > kBlockTrailerBytes ? next - *offset - kBlockTrailerBytes : 0;
}

uint32_t EctBlockLayout::Sample(uint64_t index) const { return LoadU32(samples_ + 4 * index); }

uint64_t EctBlockLayout::Guess(uint64_t hash) const {
  const uint32_t place = EctFraction(hash, first_hash_, last_hash_);
  // The last sample at or below the place; sample 0 is 0 but for damage.
  uint64_t below = 0, above = sample_count_;
  while (above - below > 1) {
    const uint64_t middle = below + (above - below) / 2;
    (Sample(middle) <= place ? below : above) = middle;
  }
  const uint64_t first = below * kEctSampleBlocks;
  const uint64_t count = std::min<uint64_t>(kEctSampleBlocks, blocks() - first);
  const uint64_t from = std::min(Sample(below), place);
  const uint64_t to = above < sample_count_ ? Sample(above) : uint64_t{UINT32_MAX} + 1;
  return first + std::min(count - 1, (place - from) * count / (to - from));
}

uint64_t EctBlockLayout::BlocksWithin(uint64_t distance) const {
  const uint64_t per_block = std::max<uint64_t>(1, (last_hash_ - first_hash_) / blocks());
  return std::clamp<uint64_t>(distance / per_block, 1, blocks());
}

}  // namespace cairn
