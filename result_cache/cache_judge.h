// CacheJudge decides when the result cache of a database is worth what it costs: from what windows of reads have saved,
// whether it goes on, turns itself off or, after a trial, has all keys again; how the next window is measured, and how
// long the pause after it is.
//
// "There is no such key" is judged apart: a tree whose filters are quick finds that out in less time than the cache
// takes for it, and then the memory is for values.
//
// Invariants
//   (1) A cache that may still fill up is not judged by what it has by now: only if it would not pay with all the hits
//       that more items could bring. Hits grow less than memory does.
//   (2) A trial ends, and takes no more than one in kPausesATrial of the reads between two of them.
//
// Thread-safety: none; the database's cache has a mutex.

#pragma once

#include <cstdint>

namespace cairn {

class CacheJudge {
 public:
  enum class Mode {
    kOn,
    kTrial,  // some of the keys, as much of the memory
  };
  // How often reads ask the tree only, to compare.
  enum class Gauge : uint32_t {
    kOften,
    kSeldom,
    kLong,  // long enough that the processor's caches are as they were without a cache
  };
  enum class Verdict { kGoOn, kTurnOff, kTurnOn };

  struct Window {
    double saved = 0;  // nanoseconds for each read; negative: lost
    double tree = 0;   // nanoseconds that a read of the tree takes
    // The same of reads that found nothing; 0: there were few.
    double saved_absent = 0;
    double tree_absent = 0;
    uint64_t hits = 0;
    uint64_t misses = 0;
    double held = 0;       // keys and values, as a part of the capacity
    bool is_full = false;  // no memory is left
    uint64_t reads = 0;    // of the database, since the mode began
  };

  // `gauge`: of the first windows.
  void Begin(Mode mode, Gauge gauge = Gauge::kOften);
  Verdict Judge(const Window& window);
  Gauge gauge() const { return gauge_; }
  // Counts the gauge's settings: a long run begins when it has changed.
  uint32_t gauge_number() const { return gauge_number_; }

  // Whether the cache is to keep that keys are absent.
  bool keeps_absent() const { return keeps_absent_; }

  // When the cache turns itself off: the reads that pass by until it tries again. `trial`: those of the trial that
  // ends, 0 if it was on.
  uint64_t BeginPause(uint64_t trial);
  // The reads after which a trial ends even if it has found out nothing.
  uint64_t MostOfATrial() const;

 private:
  bool IsHopeless(const Window& window) const;
  void SetGauge(Gauge gauge);
  void JudgeAbsent(const Window& window);
  Verdict JudgeGain(const Window& window);
  Verdict JudgeLoss(const Window& window);

  Mode mode_ = Mode::kOn;
  Gauge gauge_ = Gauge::kOften;
  uint32_t gauge_number_ = 0;
  int losses_ = 0;  // windows one after the other
  int gains_ = 0;
  int windows_to_long_run_ = 0;
  bool keeps_absent_ = true;
  int absent_losses_ = 0;      // windows one after the other
  int windows_to_absent_ = 0;  // with another answer than now
  int absent_pause_ = 0;
  uint64_t pause_ = 0;
};

}  // namespace cairn
