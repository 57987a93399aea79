#include "table/ect/ect_layout.h"

#include "util/format_version.h"

namespace cairn {

void EctHeader::EncodeTo(std::string* out) const {
  PutU64(out, kMagic);
  PutU32(out, kVersion);
  PutU32(out, flags);
  PutU64(out, keys);
  PutU64(out, first_hash);
  PutU64(out, last_hash);
  PutU64(out, multiplier);
  PutU32(out, buckets);
  PutU16(out, static_cast<uint16_t>(hmax));
  PutU16(out, 0);
  PutU32(out, block_items);
  PutU32(out, skip_leaves);
  PutU32(out, skip_slope);
  PutU32(out, rank_slope);
  PutU32(out, bit_slope);
  PutU32(out, rank_bits | bit_bits << 8);
  PutU64(out, directory_bytes);
  PutU64(out, trie_bits);
  PutU64(out, blocks_bytes);
  PutU64(out, TotalBytes());
}

IndexStatus EctHeader::Decode(const uint8_t* data, size_t size) {
  const auto damaged = [](const char* what, size_t at) {
    return IndexStatus::Corruption("ECT index: " + std::string(what) + " (header, byte " + std::to_string(at) +
                                   "); rebuild it from the sorted hashes");
  };
  if (size < kBytes + kTriePadding + kChecksumBytes) return damaged("shorter than its header", size);
  if (LoadU64(data) != kMagic) return damaged("no magic number", 0);
  if (LoadU32(data + 8) != kVersion) {
    return IndexStatus::NotSupported("ECT index of " + UnknownVersion(LoadU32(data + 8), kVersion) +
                                     ", or rebuild the index");
  }
  flags = LoadU32(data + 12);
  keys = LoadU64(data + 16);
  first_hash = LoadU64(data + 24);
  last_hash = LoadU64(data + 32);
  multiplier = LoadU64(data + 40);
  buckets = LoadU32(data + 48);
  hmax = LoadU16(data + 52);
  block_items = LoadU32(data + 56);
  skip_leaves = LoadU32(data + 60);
  skip_slope = LoadU32(data + 64);
  rank_slope = LoadU32(data + 68);
  bit_slope = LoadU32(data + 72);
  rank_bits = data[76];
  bit_bits = data[77];
  directory_bytes = LoadU64(data + 80);
  trie_bits = LoadU64(data + 88);
  blocks_bytes = LoadU64(data + 96);

  if ((flags & ~(kHasBlocks | kSparse)) != 0) return damaged("unknown flags", 12);
  if (keys > kMaxKeys) return damaged("more than 2^40 keys", 16);
  if (first_hash > last_hash) return damaged("the first hash is above the last", 24);
  if ((keys == 0) != (buckets == 0) || buckets == UINT32_MAX) return damaged("impossible number of buckets", 48);
  // The highest bucket that any hash of the range can get is the last one.
  const unsigned __int128 highest = static_cast<unsigned __int128>(last_hash - first_hash) * multiplier >> 64;
  if (buckets != 0 && (multiplier == 0 || highest >= buckets)) return damaged("multiplier beyond the buckets", 40);
  if (hmax < EctCodes::kMinHmax || hmax > EctCodes::kMaxHmax) return damaged("hmax not within 2 ... 120", 52);
  if (LoadU16(data + 54) != 0) return damaged("reserved bytes are used", 54);
  if (block_items == 1 || (block_items != 0 && (flags & kHasBlocks) != 0)) return damaged("impossible block size", 56);
  if (((flags & kSparse) != 0) != (block_items != 0) && (flags & kHasBlocks) == 0) {
    return damaged("sparse without blocks", 12);
  }
  if (skip_leaves < 3) return damaged("impossible skip limit", 60);
  if (rank_bits > kMaxFieldBits || bit_bits > kMaxFieldBits) return damaged("directory fields wider than 48 bits", 76);
  if (LoadU16(data + 78) != 0) return damaged("reserved bytes are used", 78);
  // Each bound keeps the sums below from overflowing.
  if (directory_bytes != Records() * RecordBytes()) return damaged("impossible directory size", 80);
  if (directory_bytes > size || trie_bits / 8 > size) return damaged("tries longer than the index", 88);
  if (blocks_bytes > size || ((flags & kHasBlocks) != 0) != (blocks_bytes != 0)) {
    return damaged("impossible size of the block section", 96);
  }
  if (LoadU64(data + 104) != TotalBytes() || TotalBytes() != size) {
    return damaged("the sections do not fill the index", 104);
  }
  return IndexStatus::OK();
}

}  // namespace cairn
