// CacheJudge decides when the result cache of a database is worth what it costs: from what windows of reads have saved,
// whether it goes on or turns itself off, how the next window is measured, and how long the pause after it is.
//
// Invariants
//   (1) A cache that may still fill up is not judged by what it has by now: only if it would not pay with all the hits
//       that more items could bring. Hits grow less than memory does.
//   (2) Trying again takes no more than one in kPausesATry of the reads between two tries.
//   (3) The first windows are short: where nothing is gained, so few reads have cost more.
//
// Thread-safety: none; the database's cache has a mutex.

#pragma once

#include <cstdint>

namespace cairn {

class CacheJudge {
 public:
  // How often reads ask the tree only, to compare.
  enum class Gauge : uint32_t { kFirst, kOften, kSeldom };
  enum class Verdict { kGoOn, kTurnOff };

  struct Window {
    double saved = 0;  // nanoseconds for each read; negative: lost
    double tree = 0;   // nanoseconds that a read of the tree takes
    uint64_t hits = 0;
    uint64_t misses = 0;
    double held = 0;       // keys and values, as a part of the capacity
    bool is_full = false;  // no memory is left
    uint64_t reads = 0;    // of the database, since the cache is on
  };

  // `gauge`: of the first windows.
  void Begin(Gauge gauge = Gauge::kFirst);
  Verdict Judge(const Window& window);
  Gauge gauge() const { return gauge_; }

  // When the cache turns itself off: the reads that pass by until it tries again. `reads`: those since it was on.
  uint64_t BeginPause(uint64_t reads);

 private:
  Verdict JudgeGain();
  Verdict JudgeLoss();

  Gauge gauge_ = Gauge::kFirst;
  int windows_ = 0;
  int losses_ = 0;  // windows one after the other
  int gains_ = 0;
  uint64_t pause_ = 0;  // the last; 0: none since it paid
};

}  // namespace cairn
