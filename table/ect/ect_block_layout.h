// The parts of property cairn.ect that are not the ECT index: its header, and where data blocks lie in the file and in
// hash order. docs/design/ect.md has the bytes. Needs nothing of RocksDB.

#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>

#include "cairn/index_status.h"
#include "util/elias_fano.h"

namespace cairn {

// Every so many blocks, the position of a block's first key among the table's hashes is kept. 16: 2 bits per block,
// and 60 items per block then lie within a quarter of a block of where they are expected.
constexpr uint32_t kEctSampleBlocks = 16;

struct EctPropertyHeader {
  static constexpr size_t kSize = 64;

  bool keys_in_one_block = false;
  uint64_t keys = 0;
  uint64_t first_hash = 0;
  uint64_t last_hash = 0;
  uint64_t offsets_bytes = 0;
  uint32_t sample_count = 0;
  uint64_t index_bytes = 0;
  uint64_t filter_bytes = 0;

  size_t samples_at() const { return kSize + offsets_bytes; }
  size_t index_at() const { return samples_at() + 4 * size_t{sample_count}; }
  size_t total() const { return index_at() + index_bytes; }

  void EncodeTo(std::string* out) const;
  static IndexStatus Decode(const std::string& bytes, EctPropertyHeader* header);
  // The same, and that the property is as long as the header says.
  static IndexStatus DecodeWhole(const std::string& bytes, EctPropertyHeader* header);
};

// Corruption of the property, with what to do about it.
IndexStatus DamagedEctProperty(const std::string& what);

// The place of a hash between the first and the last one, as a fraction of 2^32.
uint32_t EctFraction(uint64_t hash, uint64_t first, uint64_t last);

// What a reader always keeps, about 16 bits per block. Immutable.
class EctBlockLayout {
 public:
  // `property` is all of cairn.ect; its bytes are copied. `data_end`: where the last data block ends.
  static IndexStatus Open(const std::string& property, uint64_t data_end, std::unique_ptr<EctBlockLayout>* layout);

  uint64_t blocks() const { return offsets_.count(); }
  // Where a block lies in the file, and its size without RocksDB's trailer.
  void Locate(uint64_t block, uint64_t* offset, uint64_t* size) const;

  // The block that most likely holds a key with this hash.
  uint64_t Guess(uint64_t hash) const;
  // The number of blocks, from 1 to all, that a distance in hashes is likely to take.
  uint64_t BlocksWithin(uint64_t distance) const;
  // Whether all entries of each key lie in one block.
  bool keys_in_one_block() const { return keys_in_one_block_; }

  size_t bytes() const { return bytes_.size(); }

 private:
  uint32_t Sample(uint64_t index) const;

  std::string bytes_;
  EliasFano offsets_;                 // views bytes_
  const uint8_t* samples_ = nullptr;  // in bytes_
  uint64_t sample_count_ = 0;
  uint64_t first_hash_ = 0;
  uint64_t last_hash_ = 0;
  uint64_t data_end_ = 0;
  bool keys_in_one_block_ = false;
};

}  // namespace cairn
