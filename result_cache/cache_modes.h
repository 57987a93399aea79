// Whether the result cache of a database is worth what it costs, and what follows from that: the mode it is in.
//
//   opening --Start--> on --three losses--> off --pause over--> waking --older writers ended--> on
//
// From every mode Stop leads to `stopped`, which nothing leaves. kTraits in cache_modes.cc says what holds in each
// mode.
//
// Invariants
//   (1) Rule D7: before writers stop to bar, no family has a space. Before families have spaces again, writers bar, and
//       those that began without have ended.
//
// Thread-safety: safe. asked, Bars and PassBy take no lock but once in some hundred calls.

#pragma once

#include <atomic>
#include <cstdint>
#include <string>

#include "cairn/cache.h"
#include "cairn/result_cache.h"
#include "result_cache/cache_benefit.h"
#include "result_cache/cache_judge.h"
#include "result_cache/cache_log.h"
#include "result_cache/cache_times.h"
#include "result_cache/family_spaces.h"
#include "result_cache/file_binding.h"
#include "result_cache/writer_rounds.h"
#include "util/mutex.h"

namespace cairn {

enum class CacheMode {
  kOpening,  // the database is not open yet
  kOn,
  kOff,      // nothing was gained
  kWaking,   // writers bar again; spaces come when those that began before have ended
  kStopped,  // for good: an answer was wrong, or something was written that no rule covers
};

class CacheModes {
 public:
  // What the modes rule.
  struct Ruled {
    ResultCache* cache;
    FileBinding* binding;  // null: it is in memory
    FamilySpaces* spaces;
    CacheTimes* times;
    const CacheLog* log;
  };
  CacheModes(const DatabaseCacheOptions& options, const Ruled& ruled);

  // False: it is stopped already.
  bool Start();
  void Stop(const std::string& why);
  bool stopped() const;

  // Whether reads ask the cache: families may have spaces.
  bool asked() const { return asked_.load(std::memory_order_relaxed); }

  // Whether a writer that begins now bars its keys. *place: if it is not null, the writer calls WriterRounds::Leave
  // when it has ended.
  bool Bars(WriterRounds::Place* place) {
    *place = nullptr;
    // Who bars holds nobody back, and is not counted.
    if (barring_.load(std::memory_order_seq_cst)) return true;
    *place = rounds_.Enter();
    return barring_.load(std::memory_order_seq_cst);
  }

  // Of reads that do not ask the cache.
  void PassBy(uint64_t count) {
    thread_local uint64_t passed = 0;
    passed += count;
    if (passed >= kPassed) CountPassed(&passed);
  }

  // Now and then, while the cache is asked: judges whether it pays.
  void Look();

  // Those of the statistics that it knows.
  void AddTo(DatabaseCacheStats* stats) const;

  // Decides at once, by numbers of the test's, whether the cache pays.
  void TEST_Judge(double saved_per_read);

 private:
  static constexpr uint64_t kPassed = 256;  // counted together

  // What a window is compared with.
  struct Seen {
    CacheBenefit::Counts counts;
    uint64_t hits = 0;
    uint64_t misses = 0;
    uint64_t item_bytes = 0;
  };

  void SetMode(CacheMode mode) CAIRN_REQUIRES(mutex_);
  uint64_t Reads() const { return ruled_.times->Counts().reads; }

  void LookLocked() CAIRN_REQUIRES(mutex_);
  Seen SeenNow(const ResultCache::Statistics& cache) const;
  void Judge(const CacheJudge::Window& window) CAIRN_REQUIRES(mutex_);

  void CountPassed(uint64_t* passed);
  void TryToWake();
  void TryToWakeLocked() CAIRN_REQUIRES(mutex_);

  const DatabaseCacheOptions& options_;
  const Ruled ruled_;
  WriterRounds rounds_;
  std::atomic<bool> barring_{true};
  std::atomic<bool> asked_{false};
  std::atomic<uint64_t> wake_at_{UINT64_MAX};  // reads, after which a pause ends

  mutable CheckedMutex mutex_;
  CacheMode mode_ CAIRN_GUARDED_BY(mutex_) = CacheMode::kOpening;
  CacheJudge judge_ CAIRN_GUARDED_BY(mutex_);
  Seen seen_ CAIRN_GUARDED_BY(mutex_);
  uint64_t files_noted_at_ CAIRN_GUARDED_BY(mutex_) = 0;  // reads
  double saved_ CAIRN_GUARDED_BY(mutex_) = 0;
  uint64_t mode_began_ CAIRN_GUARDED_BY(mutex_) = 0;  // reads
  uint64_t times_off_ CAIRN_GUARDED_BY(mutex_) = 0;
};

}  // namespace cairn
