#include "result_cache/cache_modes.h"

#include <algorithm>
#include <utility>

namespace cairn {

namespace {

// Between two notes of the database's files.
constexpr uint64_t kReadsANote = uint64_t{1} << 16;

struct CacheModeTraits {
  bool asked;  // by reads; column families have spaces, and there is memory
  bool bars;   // writers do
};

// In the order of CacheMode.
constexpr CacheModeTraits kTraits[] = {
    {false, true},   // opening
    {true, true},    // on
    {false, false},  // off
    {false, true},   // waking
    {false, false},  // stopped
};

}  // namespace

CacheModes::CacheModes(const DatabaseCacheOptions& options, const Ruled& ruled) : options_(options), ruled_(ruled) {}

void CacheModes::SetMode(CacheMode mode) {
  const CacheModeTraits& traits = kTraits[static_cast<int>(mode)];
  mode_ = mode;
  mode_began_ = Reads();
  ruled_.times->benefit()->Forget();
  judge_.Begin(options_.adaptive ? CacheJudge::Gauge::kFirst : CacheJudge::Gauge::kSeldom);
  ruled_.times->SetGauge(judge_.gauge());
  asked_.store(traits.asked, std::memory_order_relaxed);
  wake_at_.store(mode == CacheMode::kWaking ? 0 : UINT64_MAX, std::memory_order_relaxed);
  // Spaces go before the writers stop to bar, and come after they have begun.
  if (!traits.asked) ruled_.spaces->Close();
  barring_.store(traits.bars, std::memory_order_seq_cst);
  if (mode == CacheMode::kWaking) rounds_.NextRound();
  if (!traits.bars) ruled_.cache->Clear();
  static_cast<void>(ruled_.cache->SetCapacity(traits.asked ? options_.capacity : 0));
  if (traits.asked) ruled_.spaces->Open();
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

// ---- off and on again ----

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
  if (mode_ == CacheMode::kOff && rounds_.PreviousEnded()) SetMode(CacheMode::kWaking);
  if (mode_ != CacheMode::kWaking || !rounds_.PreviousEnded()) return;
  SetMode(CacheMode::kOn);
  ruled_.log->Line("the result cache tries again");
}

// ---- whether it pays ----

void CacheModes::Look() {
  if (!mutex_.TryLock()) return;
  LookLocked();
  mutex_.Unlock();
}

void CacheModes::LookLocked() {
  if (mode_ != CacheMode::kOn) return;
  const uint64_t reads = Reads();
  if (ruled_.binding != nullptr && reads - files_noted_at_ >= kReadsANote) {
    files_noted_at_ = reads;
    ruled_.binding->Refresh();
  }
  const CacheBenefit& benefit = *ruled_.times->benefit();
  if (!ruled_.times->Knows()) return;
  const ResultCache::Statistics cache = ruled_.cache->GetStatistics();
  const Seen before = std::exchange(seen_, SeenNow(cache));
  saved_ = benefit.SavedPerRead(
      {seen_.counts.reads - before.counts.reads, seen_.counts.barred_keys - before.counts.barred_keys});
  CacheJudge::Window window;
  window.saved = saved_;
  window.tree = benefit.TreeNanoseconds();
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

void CacheModes::Judge(const CacheJudge::Window& window) {
  if (judge_.Judge(window) == CacheJudge::Verdict::kGoOn) return ruled_.times->SetGauge(judge_.gauge());
  const uint64_t pause = judge_.BeginPause(Reads() - mode_began_);
  ++times_off_;
  SetMode(CacheMode::kOff);
  wake_at_.store(mode_began_ + pause, std::memory_order_relaxed);
  ruled_.log->Line("the result cache is off: it costs " + std::to_string(-window.saved) +
                   " ns for each read more than it saves; it tries again after " + std::to_string(pause) + " reads");
}

void CacheModes::AddTo(DatabaseCacheStats* stats) const {
  const MutexLock lock(&mutex_);
  stats->times_off = times_off_;
  stats->on = mode_ == CacheMode::kOn;
  stats->saved_nanoseconds = saved_;
}

void CacheModes::TEST_Judge(double saved_per_read) {
  {
    const MutexLock lock(&mutex_);
    if (mode_ == CacheMode::kOn) {
      CacheJudge::Window window;
      window.saved = saved_per_read;
      window.is_full = true;
      for (int i = 0; mode_ == CacheMode::kOn && i < 3; ++i) Judge(window);
      return;
    }
    wake_at_.store(0, std::memory_order_relaxed);
  }
  TryToWake();
}

}  // namespace cairn
