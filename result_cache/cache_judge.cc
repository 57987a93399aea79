#include "result_cache/cache_judge.h"

#include <algorithm>

namespace cairn {

namespace {

// Windows without a gain before the cache turns itself off.
constexpr int kLosses = 3;
// Windows with a gain, one after the other, after which less is spent on measuring it.
constexpr int kGains = 4;
// Short windows.
constexpr int kFirstWindows = 8;
// So many reads have brought what the cache can hold.
constexpr uint64_t kReadsToWarm = uint64_t{1} << 24;
// Reads that pass by before it tries again; twice as many each time.
constexpr uint64_t kLeastPause = uint64_t{1} << 20;
constexpr uint64_t kMostPause = uint64_t{1} << 27;
constexpr uint64_t kPausesATry = 16;

// No hit saves more than all that the tree takes.
bool IsHopeless(const CacheJudge::Window& window) {
  const uint64_t asked = window.hits + window.misses;
  if (asked == 0) return false;
  const double ratio = static_cast<double>(window.hits) / static_cast<double>(asked);
  const double most = ratio >= window.held ? 1 : ratio / window.held;
  return window.saved + (most - ratio) * window.tree < 0;
}

}  // namespace

void CacheJudge::Begin(Gauge gauge) {
  losses_ = 0;
  gains_ = 0;
  windows_ = 0;
  gauge_ = gauge;
}

CacheJudge::Verdict CacheJudge::Judge(const Window& window) {
  if (++windows_ == kFirstWindows && gauge_ == Gauge::kFirst) gauge_ = Gauge::kOften;
  if (window.saved > 0) return JudgeGain();
  // What was not seen while few reads passed by may still come after a pause: a scan that begins anew, for one.
  const bool is_early = window.reads < pause_ / kPausesATry;
  const bool may_fill_up = !window.is_full && window.reads < kReadsToWarm && (is_early || !IsHopeless(window));
  return may_fill_up ? Verdict::kGoOn : JudgeLoss();
}

CacheJudge::Verdict CacheJudge::JudgeGain() {
  losses_ = 0;
  if (++gains_ < kGains) return Verdict::kGoOn;
  pause_ = 0;
  gauge_ = Gauge::kSeldom;
  return Verdict::kGoOn;
}

CacheJudge::Verdict CacheJudge::JudgeLoss() {
  gains_ = 0;
  if (gauge_ == Gauge::kSeldom) gauge_ = Gauge::kOften;
  return ++losses_ < kLosses ? Verdict::kGoOn : Verdict::kTurnOff;
}

uint64_t CacheJudge::BeginPause(uint64_t reads) {
  const bool again = pause_ != 0;
  pause_ = std::min(kMostPause, std::max({kLeastPause, pause_ * 2, again ? kPausesATry * reads : 0}));
  return pause_;
}

}  // namespace cairn
