#include "result_cache/cache_judge.h"

#include <algorithm>

namespace cairn {

namespace {

// Windows without a gain before the cache turns itself off.
constexpr int kLosses = 3;
// Windows with a gain, one after the other, after which less is spent on measuring it; and those that win a trial.
constexpr int kGains = 4;
constexpr int kGainsInTrial = 2;
// A trial is won with this part of what the tree takes, and below the other a gain is small.
constexpr double kLeastPart = 1.0 / 16;
constexpr double kSmallPart = 1.0 / 3;
// Windows with a small gain between two long runs.
constexpr int kWindowsALongRun = 16;
// So many reads have brought what the cache can hold.
constexpr uint64_t kReadsToWarm = uint64_t{1} << 24;
// Reads that pass by before it tries again; twice as many each time.
constexpr uint64_t kLeastPause = uint64_t{1} << 20;
constexpr uint64_t kMostPause = uint64_t{1} << 27;
constexpr uint64_t kPausesATrial = 8;
// Windows in which absent keys are not kept, twice as many each time; and those that they have to come again.
constexpr int kLeastAbsentPause = 16;
constexpr int kMostAbsentPause = 1024;
constexpr int kWindowsToFill = 4;

}  // namespace

void CacheJudge::SetGauge(Gauge gauge) {
  gauge_ = gauge;
  ++gauge_number_;
}

void CacheJudge::Begin(Mode mode, Gauge gauge) {
  mode_ = mode;
  losses_ = 0;
  gains_ = 0;
  windows_to_long_run_ = 0;
  absent_losses_ = 0;
  SetGauge(gauge);
}

void CacheJudge::JudgeAbsent(const Window& window) {
  if (windows_to_absent_ > 0 && --windows_to_absent_ > 0) return;
  if (!keeps_absent_) {
    keeps_absent_ = true;
    windows_to_absent_ = kWindowsToFill;
    return;
  }
  // While memory is free they are in nobody's way.
  const bool is_loss = window.is_full && window.saved_absent < -window.tree_absent * kLeastPart;
  absent_losses_ = is_loss ? absent_losses_ + 1 : 0;
  if (absent_losses_ < kLosses) return;
  keeps_absent_ = false;
  absent_losses_ = 0;
  absent_pause_ = std::min(kMostAbsentPause, std::max(kLeastAbsentPause, absent_pause_ * 2));
  windows_to_absent_ = absent_pause_;
}

CacheJudge::Verdict CacheJudge::Judge(const Window& window) {
  JudgeAbsent(window);
  const double least = mode_ == Mode::kTrial ? window.tree * kLeastPart : 0;
  if (window.saved > least) return JudgeGain(window);
  const bool may_fill_up = !window.is_full && window.reads < kReadsToWarm && !IsHopeless(window);
  return may_fill_up ? Verdict::kGoOn : JudgeLoss(window);
}

// No hit saves more than all that the tree takes. What a trial has not seen while few reads passed by may still come: a
// scan that begins anew, for one.
bool CacheJudge::IsHopeless(const Window& window) const {
  if (mode_ == Mode::kTrial && window.reads < pause_ / kPausesATrial) return false;
  const uint64_t asked = window.hits + window.misses;
  if (asked == 0) return false;
  const double ratio = static_cast<double>(window.hits) / static_cast<double>(asked);
  const double most = ratio >= window.held ? 1 : ratio / window.held;
  return window.saved + (most - ratio) * window.tree < 0;
}

CacheJudge::Verdict CacheJudge::JudgeGain(const Window& window) {
  losses_ = 0;
  ++gains_;
  if (mode_ == Mode::kTrial) return gains_ < kGainsInTrial ? Verdict::kGoOn : Verdict::kTurnOn;
  if (gains_ < kGains || absent_losses_ > 0) return Verdict::kGoOn;
  pause_ = 0;
  if (gauge_ == Gauge::kLong) windows_to_long_run_ = kWindowsALongRun;
  const bool is_small = window.is_full && window.saved < window.tree * kSmallPart;
  if (is_small && windows_to_long_run_-- <= 0) {
    SetGauge(Gauge::kLong);
  } else if (gauge_ != Gauge::kSeldom) {
    SetGauge(Gauge::kSeldom);
  }
  return Verdict::kGoOn;
}

CacheJudge::Verdict CacheJudge::JudgeLoss(const Window& window) {
  gains_ = 0;
  // A long run leaves little doubt.
  losses_ += gauge_ == Gauge::kLong && window.saved < -window.tree * kLeastPart ? kLosses : 1;
  if (losses_ >= kLosses) return Verdict::kTurnOff;
  if (gauge_ != Gauge::kOften) SetGauge(gauge_ == Gauge::kLong ? Gauge::kLong : Gauge::kOften);
  return Verdict::kGoOn;
}

uint64_t CacheJudge::BeginPause(uint64_t trial) {
  pause_ = std::min(kMostPause, std::max({kLeastPause, pause_ * 2, kPausesATrial * trial}));
  return pause_;
}

uint64_t CacheJudge::MostOfATrial() const { return std::max(pause_, kReadsToWarm); }

}  // namespace cairn
