#include "result_cache/cache_modes.h"

#include <algorithm>
#include <utility>

#include "util/short_hash.h"

namespace cairn {

namespace {

// Keys of which one is in the sample of a trial, and the memory's part.
constexpr uint64_t kTrialPart = 8;
// Between two notes of the database's files.
constexpr uint64_t kReadsANote = uint64_t{1} << 16;

struct CacheModeTraits {
  bool has_spaces;  // column families have
  bool bars;        // writers do
  Asked asked;
  uint64_t memory_part;  // one in so many of the capacity; 0: none
};

// In the order of CacheMode.
constexpr CacheModeTraits kTraits[] = {
    {false, true, Asked::kForNone, 1},            // opening
    {true, true, Asked::kForAll, 1},              // on
    {true, true, Asked::kForSample, kTrialPart},  // trial
    {false, false, Asked::kForNone, 0},           // off
    {false, true, Asked::kForNone, 0},            // waking
    {false, false, Asked::kForNone, 0},           // stopped
};

}  // namespace

CacheModes::CacheModes(const DatabaseCacheOptions& options, const Ruled& ruled) : options_(options), ruled_(ruled) {}

void CacheModes::SetMode(CacheMode mode) {
  const CacheModeTraits& traits = kTraits[static_cast<int>(mode)];
  mode_ = mode;
  mode_began_ = Reads();
  ruled_.times->benefit()->Forget();
  judge_.Begin(mode == CacheMode::kTrial ? CacheJudge::Mode::kTrial : CacheJudge::Mode::kOn,
               options_.adaptive ? CacheJudge::Gauge::kOften : CacheJudge::Gauge::kSeldom);
  SetGauge();
  if (mode == CacheMode::kTrial) sample_.store(times_off_ % kTrialPart, std::memory_order_relaxed);
  asked_.store(traits.asked, std::memory_order_relaxed);
  wake_at_.store(mode == CacheMode::kWaking  ? 0
                 : mode == CacheMode::kTrial ? mode_began_ + judge_.MostOfATrial()
                                             : UINT64_MAX,
                 std::memory_order_relaxed);
  // Spaces go before the writers stop to bar, and come after they have begun.
  if (!traits.has_spaces) ruled_.spaces->Close();
  barring_.store(traits.bars, std::memory_order_seq_cst);
  if (mode == CacheMode::kWaking) rounds_.NextRound();
  if (!traits.bars) ruled_.cache->Clear();
  static_cast<void>(ruled_.cache->SetCapacity(traits.memory_part == 0 ? 0 : options_.capacity / traits.memory_part));
  if (traits.has_spaces) ruled_.spaces->Open();
  seen_ = SeenNow(ruled_.cache->GetStatistics());
}

bool CacheModes::Start() {
  const MutexLock lock(&mutex_);
  if (mode_ == CacheMode::kStopped) return false;
  SetMode(CacheMode::kOn);
  return true;
}

void CacheModes::Stop(const std::string& why) {
  const MutexLock lock(&mutex_);
  if (mode_ == CacheMode::kStopped) return;
  SetMode(CacheMode::kStopped);
  ruled_.log->Line("the result cache is off: " + why);
}

bool CacheModes::stopped() const {
  const MutexLock lock(&mutex_);
  return mode_ == CacheMode::kStopped;
}

bool CacheModes::InSample(const rocksdb::Slice& key) const {
  return XXH3_64bits(key.data(), key.size()) % kTrialPart == sample_.load(std::memory_order_relaxed);
}

// ---- off and on again ----

void CacheModes::TurnOff(const std::string& why) {
  const uint64_t pause = judge_.BeginPause(mode_ == CacheMode::kTrial ? Reads() - mode_began_ : 0);
  ++times_off_;
  SetMode(CacheMode::kOff);
  wake_at_.store(mode_began_ + pause, std::memory_order_relaxed);
  ruled_.log->Line("the result cache is off: " + why + "; it tries again after " + std::to_string(pause) + " reads");
}

void CacheModes::CountPassed(uint64_t* passed) {
  ruled_.times->CountReads(cache::ThreadCell(), *passed);
  *passed = 0;
  TryToWake();
}

void CacheModes::TryToWake() {
  const uint64_t at = wake_at_.load(std::memory_order_relaxed);
  if (at == UINT64_MAX || Reads() < at) return;
  if (!mutex_.TryLock()) return;
  TryToWakeLocked();
  mutex_.Unlock();
}

void CacheModes::TryToWakeLocked() {
  // The sample has none of the keys that are read, or too few: another one next time.
  if (mode_ == CacheMode::kTrial) return TurnOff("a trial has found out nothing");
  if (mode_ == CacheMode::kOff && rounds_.PreviousEnded()) SetMode(CacheMode::kWaking);
  if (mode_ != CacheMode::kWaking || !rounds_.PreviousEnded()) return;
  SetMode(CacheMode::kTrial);
  ruled_.log->Line("the result cache tries again with an eighth of the keys and of its memory");
}

// ---- whether it pays ----

void CacheModes::Look() {
  if (!mutex_.TryLock()) return;
  LookLocked();
  mutex_.Unlock();
}

void CacheModes::LookLocked() {
  if (!HasSpaces()) return;
  const uint64_t reads = Reads();
  if (ruled_.binding != nullptr && reads - files_noted_at_ >= kReadsANote) {
    files_noted_at_ = reads;
    ruled_.binding->Refresh();
  }
  const CacheBenefit& benefit = *ruled_.times->benefit();
  if (!benefit.Knows()) return;
  const ResultCache::Statistics cache = ruled_.cache->GetStatistics();
  const Seen before = std::exchange(seen_, SeenNow(cache));
  saved_ = benefit.SavedPerRead(
      {seen_.counts.reads - before.counts.reads, seen_.counts.barred_keys - before.counts.barred_keys});
  CacheJudge::Window window;
  window.saved = saved_;
  window.tree = benefit.TreeNanoseconds();
  window.saved_absent = benefit.SavedPerAbsentRead();
  window.tree_absent = benefit.AbsentTreeNanoseconds();
  window.hits = seen_.hits - before.hits;
  window.misses = seen_.misses - before.misses;
  const auto capacity = static_cast<double>(std::max<uint64_t>(1, cache.capacity));
  window.held = static_cast<double>(before.item_bytes + seen_.item_bytes) / 2 / capacity;
  window.is_full = cache.memory >= cache.capacity - cache.capacity / 8;
  window.reads = reads - mode_began_;
  ruled_.times->benefit()->Forget();
  if (options_.adaptive) Judge(window);
}

CacheModes::Seen CacheModes::SeenNow(const ResultCache::Statistics& cache) const {
  return {ruled_.times->Counts(), cache.hits + cache.absent_hits, cache.misses, cache.item_bytes};
}

void CacheModes::SetGauge() { ruled_.times->SetGauge(judge_.gauge(), judge_.gauge_number()); }

void CacheModes::Judge(const CacheJudge::Window& window) {
  const CacheJudge::Verdict verdict = judge_.Judge(window);
  if (judge_.keeps_absent() != ruled_.fills->keeps_absent() && options_.absent_keys) {
    ruled_.fills->KeepAbsent(judge_.keeps_absent());
    ruled_.log->Line(std::string("the result cache ") + (judge_.keeps_absent() ? "keeps" : "does not keep") +
                     " absent keys from now on");
  }
  switch (verdict) {
    case CacheJudge::Verdict::kGoOn:
      SetGauge();
      break;
    case CacheJudge::Verdict::kTurnOff:
      TurnOff("it costs " + std::to_string(-window.saved) + " ns for each read more than it saves");
      break;
    case CacheJudge::Verdict::kTurnOn:
      SetMode(CacheMode::kOn);
      ruled_.log->Line("the result cache has all of its memory again: it saves " + std::to_string(window.saved) +
                       " ns for each read");
      break;
  }
}

void CacheModes::AddTo(DatabaseCacheStats* stats) const {
  const MutexLock lock(&mutex_);
  stats->times_off = times_off_;
  stats->on = HasSpaces();
  stats->saved_nanoseconds = saved_;
}

void CacheModes::TEST_Judge(double saved_per_read) {
  {
    const MutexLock lock(&mutex_);
    if (HasSpaces()) {
      CacheJudge::Window window;
      window.saved = saved_per_read;
      window.is_full = true;
      const CacheMode before = mode_;
      for (int i = 0; mode_ == before && i < 3; ++i) Judge(window);
      return;
    }
    wake_at_.store(0, std::memory_order_relaxed);
  }
  TryToWake();
}

}  // namespace cairn
