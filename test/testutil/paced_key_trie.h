// How long a writer of a trie in key order waits, without a clock: puts that come at a fixed rate, the real picker, its
// space bound and the law of the write throttle, over a SimulatedKeyTrie whose compactions and flushes take as long as
// their bytes say. The same numbers on any machine.
//
// Thread-safety: functions of their arguments.

#pragma once

#include <cstdint>

#include "cairn/trie.h"

namespace cairn {

struct PacedPlay {
  enum class Keys {
    kUniform,
    kHotSpot
  };  // kHotSpot: nine of ten puts to a hundredth of the keys, which moves 40 times

  KeyTrieOptions trie;
  Keys keys = Keys::kUniform;
  uint64_t write_buffer_bytes = 1 << 20;
  uint64_t entries_per_buffer = 400;
  uint64_t buffers = 177;          // that are put; as many keys as puts
  double rate = 0;                 // bytes of puts per second; 0: as fast as they are taken
  double compaction_rate = 80e6;   // bytes read per second, by each of two compactions at a time
  double flush_rate = 200e6;       // bytes per second
  double writer_rate = 90e6;       // of puts that nothing holds up
  double delayed_rate = 16 << 20;  // RocksDB's delayed_write_rate
  uint64_t seed = 1;
};

struct PacedOutcome {
  double seconds = 0;  // until nothing is left to compact
  // How long puts wait, in seconds, from a fourth of them on.
  double p99 = 0, p999 = 0, longest = 0;
  double throttled = 0;  // seconds
  double written = 0;    // bytes per byte flushed
  double space = 0;    // the most bytes of tables, with what compactions have written, per live byte; from a fourth on
  double largest = 0;  // compaction, in bytes read per root_trigger write buffers
};

PacedOutcome Play(const PacedPlay& play);

// The rate that is sustained: that at which all are taken and compacted by a writer that nothing paces.
double SustainedRate(PacedPlay play);

}  // namespace cairn
