// RocksDB's Bloom filter of a table, read where it lies in memory: a lookup that asks many tables hashes its key once,
// and has the processor fetch all of their lines before it looks at the first.
//
// The bytes are those of RocksDB's format_version 5 and later: 64 byte lines, and behind them five bytes: -1, 0, the
// number of probes, 0, 0.
//
// Thread-safety: immutable.

#pragma once

#include <cstdint>

#include "rocksdb/slice.h"
#include "table/block_based/block_based_table_reader.h"

namespace cairn {

class BloomLines {
 public:
  // None.
  BloomLines() = default;
  // Of an open table; none if its filter is another, does not have whole keys, or is not kept on the heap.
  explicit BloomLines(const rocksdb::BlockBasedTable::Rep& rep);

  bool exist() const { return lines_ != 0; }

  static uint64_t HashOf(const rocksdb::Slice& user_key);

  // REQUIRES, for these: exist().
  const char* LineOf(uint64_t hash) const { return data_ + (((hash & UINT32_MAX) * lines_) >> 32) * kLineBytes; }
  void Prefetch(const char* line) const {
    __builtin_prefetch(line);
    // Lines are not aligned.
    __builtin_prefetch(line + kLineBytes - 1);
  }
  bool MayHold(uint64_t hash, const char* line) const {
    auto h = static_cast<uint32_t>(hash >> 32);
    for (uint32_t probe = 0; probe < probes_; ++probe, h *= kNextProbe) {
      const uint32_t bit = h >> 23;
      if ((static_cast<uint8_t>(line[bit >> 3]) >> (bit & 7) & 1) == 0) return false;
    }
    return true;
  }

 private:
  static constexpr size_t kLineBytes = 64;
  static constexpr uint32_t kNextProbe = 0x9e3779b9;

  const char* data_ = nullptr;
  uint32_t lines_ = 0;
  uint32_t probes_ = 0;
};

}  // namespace cairn
