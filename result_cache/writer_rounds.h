// Tells when every writer that was under way at some moment has ended, without stopping any.
//
// Each writer belongs to the round that it began in. NextRound begins another one; when the writers of the one before
// have ended, everybody who had begun before the call has.
//
// Thread-safety: Enter and Leave may be called by all threads at any time, the others by one at a time.

#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>

#include "result_cache/per_thread.h"

namespace cairn {

class WriterRounds {
 public:
  using Place = std::atomic<uint64_t>*;

  Place Enter() {
    Cell& cell = cells_[cache::ThreadNumber() % kCells];
    for (;;) {
      const uint64_t round = round_.load(std::memory_order_seq_cst);
      const Place place = &cell.writers[round & 1];
      place->fetch_add(1, std::memory_order_seq_cst);
      // Whoever begins a round looks at the counts of the one before it afterwards, so it sees this one or we see it.
      if (round_.load(std::memory_order_seq_cst) == round) return place;
      place->fetch_sub(1, std::memory_order_seq_cst);
    }
  }
  static void Leave(Place place) { place->fetch_sub(1, std::memory_order_release); }

  // REQUIRES: PreviousEnded().
  void NextRound() { round_.fetch_add(1, std::memory_order_seq_cst); }
  // Of the round before this one.
  bool PreviousEnded() const {
    const uint64_t previous = (round_.load(std::memory_order_seq_cst) & 1) ^ 1;
    for (const Cell& cell : cells_) {
      if (cell.writers[previous].load(std::memory_order_seq_cst) != 0) return false;
    }
    return true;
  }

 private:
  static constexpr size_t kCells = 16;
  struct alignas(64) Cell {
    std::atomic<uint64_t> writers[2] = {{0}, {0}};
  };

  std::atomic<uint64_t> round_{0};
  Cell cells_[kCells];
};

}  // namespace cairn
