// Counts what a program's stores do to persistent memory, where no such device is at hand: a cache evicts lines of 64
// bytes, the medium takes blocks of 256. A block that arrives in parts is read, changed and written for each part.
//
// The model: one shared cache of `cache_bytes`, `ways`-associative, least recently used first, write-back,
// write-allocate; in front of the medium a buffer of `buffer_blocks` blocks that gathers the lines of a block, least
// recently used first out (the device's write-combining buffer: 16 KiB, 64 blocks). Flushes and non-temporal stores
// reach the buffer in the order of the program. No prefetching, no timing.
//
// Thread-safety: none. Give the stores of several threads in the order that is to be looked at.
//
// Source: CacheKV (ICDE 2023), section II-C; sizes of the buffer: Xiang et al. (EuroSys 2022).

#pragma once

#include <cstddef>
#include <cstdint>
#include <list>
#include <unordered_map>
#include <vector>

namespace cairn {

struct PmSimulatorOptions {
  uint64_t cache_bytes = 32 << 20;
  int ways = 16;
  size_t buffer_blocks = 64;
};

struct PmCounts {
  uint64_t lines = 0;           // 64-byte lines that reached the device
  uint64_t outside_runs = 0;    // of those, not part of four in a row that fill an aligned block of 256 bytes
  uint64_t blocks_written = 0;  // by the medium, 256 bytes each
  uint64_t blocks_read = 0;     // because the buffer had only a part of the block
  // Bytes written by the medium per byte that reached the device.
  double Amplification() const { return lines == 0 ? 0 : static_cast<double>(blocks_written) * 256 / (lines * 64); }
  double OutsideRuns() const { return lines == 0 ? 0 : static_cast<double>(outside_runs) / lines; }
};

class PmSimulator {
 public:
  explicit PmSimulator(const PmSimulatorOptions& options = PmSimulatorOptions());

  // Addresses from `begin` to `end` are in locked cache: they are never evicted. The caller makes the cache smaller.
  void Lock(uint64_t begin, uint64_t end) {
    locked_begin_ = begin;
    locked_end_ = end;
  }

  // Addresses below kMemory are persistent memory; above, they are ordinary memory, whose lines compete for the cache
  // and cost the device nothing.
  static constexpr uint64_t kMemory = uint64_t{1} << 46;

  void Store(uint64_t address, size_t length) { Touch(address, length, true); }
  void Load(uint64_t address, size_t length) { Touch(address, length, false); }
  // Writes back what is dirty, in the order of addresses; the lines stay in the cache.
  void Flush(uint64_t address, size_t length);
  void StoreNonTemporal(uint64_t address, size_t length);

  // Everything dirty goes to the device as the cache would evict it; then the counts are final.
  void Finish();

  const PmCounts& counts() const { return counts_; }

 private:
  struct Line {
    uint64_t number = 0;
    uint64_t used = 0;
    bool dirty = false;
    bool valid = false;
  };
  struct Block {
    unsigned present = 0;  // a bit per line
    std::list<uint64_t>::iterator place;
  };

  void Touch(uint64_t address, size_t length, bool store);
  Line* Find(uint64_t number);
  Line* Allocate(uint64_t number);
  void ToDevice(uint64_t number);
  void EndRun();
  void WriteBlock(uint64_t block);

  const size_t sets_;
  const size_t ways_;
  const size_t buffer_blocks_;
  std::vector<Line> lines_;
  uint64_t locked_begin_ = 0;
  uint64_t locked_end_ = 0;
  uint64_t clock_ = 0;
  std::unordered_map<uint64_t, Block> buffer_;
  std::list<uint64_t> order_;  // most recently used first
  uint64_t run_block_ = ~uint64_t{0};
  unsigned run_lines_ = 0;  // a bit per line
  uint64_t run_count_ = 0;
  PmCounts counts_;
};

}  // namespace cairn
