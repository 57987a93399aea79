#include "db/tuner_logic.h"

#include <algorithm>
#include <cmath>
#include <cstdio>

#include "db/popularity_estimate.h"

namespace cairn {

namespace {

constexpr size_t kMostLines = 100;
// Beliefs further apart than these are different workloads.
constexpr double kSkewStep = 0.15;
constexpr double kKeysFactor = 1.5;

std::string Text(const char* format, double a, double b = 0, double c = 0) {
  char text[256];
  snprintf(text, sizeof(text), format, a, b, c);
  return text;
}

bool Differs(double skew_a, double keys_a, double skew_b, double keys_b) {
  return std::fabs(skew_a - skew_b) > kSkewStep || keys_a > kKeysFactor * keys_b || keys_b > kKeysFactor * keys_a;
}

}  // namespace

double EstimateSkew(double keys, double writes, double distinct) {
  double low = 0, high = 3;
  for (int i = 0; i < 12; i++) {
    const double skew = (low + high) / 2;
    msls::Popularity popularity;
    if (!msls::Popularity::Zipf(keys, skew, &popularity).ok()) return 0;
    (popularity.Unique(writes) > distinct ? low : high) = skew;
  }
  return high < 0.01 ? 0 : (low + high) / 2;
}

void TunerLogic::Log(const std::string& line) {
  report_.log.push_back(line);
  if (report_.log.size() > kMostLines) report_.log.erase(report_.log.begin());
}

// What the sample says, or the Zipf law through the one point that the counters give if there is no sample of most
// flushes.
msls::Status TunerLogic::Believe(const TunerWindow& window, msls::Popularity* popularity) {
  const double flushes = static_cast<double>(window.flushes);
  report_.skew = EstimateSkew(report_.keys, report_.items_per_flush, static_cast<double>(window.distinct) / flushes);
  report_.sampled_keys = 0;
  if (2 * window.sampled_tables > window.flushes) {
    const std::vector<msls::HistogramBin> bins =
        EstimatePopularity(report_.keys, report_.items_per_flush, window.sampled_keys_by_flushes, window.sampled_share);
    if (msls::Popularity::Histogram(bins, popularity).ok()) {
      report_.sampled_keys = window.sampled_keys;
      report_.writes_of_top_tenth = WritesOfMostPopular(bins, 0.1);
      return msls::Status::OK();
    }
  }
  return msls::Popularity::Zipf(report_.keys, report_.skew, popularity);
}

TunerAction TunerLogic::Look(const TunerWindow& window, const TunerView& view, double now) {
  TunerAction action;
  report_.looks++;
  if (window.flushes == 0 || window.distinct == 0 || window.writes < window.distinct || window.flush_bytes == 0) {
    Log("Too little was flushed to go by.");
    return action;
  }
  report_.item_bytes = static_cast<double>(window.flush_bytes) / static_cast<double>(window.distinct);
  report_.items_per_flush = static_cast<double>(window.writes) / static_cast<double>(window.flushes);
  report_.keys = view.data_bytes / report_.item_bytes;
  report_.measured = static_cast<double>(window.flush_bytes + window.compaction_bytes) /
                     (static_cast<double>(window.writes) * report_.item_bytes);
  if (report_.keys < 2 * report_.items_per_flush) {
    Log("The database is smaller than two flushes; nothing to tune.");
    return action;
  }
  msls::Store store = view.store;
  store.log = false;
  store.item_bytes = report_.item_bytes;
  store.write_buffer_bytes = report_.items_per_flush * report_.item_bytes;
  // Sizes beyond the data say nothing.
  while (!store.level_bytes.empty() && store.level_bytes.back() >= view.data_bytes) store.level_bytes.pop_back();
  msls::OptimizeOptions limits;
  limits.max_space_amplification = options_.max_space_amplification;
  msls::Optimum optimum;
  msls::Status s = Believe(window, &action.popularity);
  if (s.ok()) s = msls::Optimize(store, action.popularity, limits, &optimum);
  if (!s.ok()) {
    Log(s.message());
  } else {
    report_.predicted = optimum.before.write_amplification;
    report_.predicted_best = optimum.after.write_amplification;
    report_.best_level_bytes = optimum.store.level_bytes;
  }

  if (state_ == State::kSettling) {
    if (--settle_left_ <= 0) state_ = State::kJudging;
    return action;
  }
  if (state_ == State::kJudging) {
    state_ = State::kIdle;
    if (Differs(report_.skew, report_.keys, skew_before_, keys_before_)) {
      Log("The workload changed during the trial; the change is neither kept nor taken back for its sake.");
      return action;
    }
    if (report_.measured > options_.tolerance * measured_before_) {
      Log(Text("Measured %.2f after the change, %.2f before: taking it back.", report_.measured, measured_before_));
      bad_skew_ = report_.skew;
      bad_keys_ = report_.keys;
      action.kind = TunerAction::Kind::kRollBack;
      return action;
    }
    Log(Text("Measured %.2f after the change, %.2f before: kept.", report_.measured, measured_before_));
    return action;
  }

  if (!s.ok()) return action;
  const double gain = 1 - report_.predicted_best / report_.predicted;
  if (gain < options_.min_gain) return action;
  const std::string prediction =
      Text("Predicted %.2f instead of %.2f (%.1f %% less): ", report_.predicted_best, report_.predicted, 100 * gain);
  if (options_.advisory) {
    Log(prediction + "only advising.");
  } else if (!view.obstacle.empty()) {
    Log(prediction + view.obstacle);
  } else if (options_.max_error > 0 && std::fabs(report_.measured / report_.predicted - 1) > options_.max_error) {
    Log(prediction + Text("but %.2f was measured; the model does not describe this state.", report_.measured));
  } else if (report_.rollbacks >= 2) {
    Log(prediction + "but two changes were taken back, so no more are made.");
  } else if (bad_skew_ >= 0 && !Differs(report_.skew, report_.keys, bad_skew_, bad_keys_)) {
    Log(prediction + "but a change under the same belief was taken back.");
  } else if (changed_ever_ && now - last_change_ < options_.min_seconds_between_changes) {
    Log(prediction + "but the last change is too young.");
  } else {
    action.kind = TunerAction::Kind::kApply;
    action.store = optimum.store;
  }
  return action;
}

void TunerLogic::Done(const TunerAction& action, const std::string& error, double now) {
  if (action.kind == TunerAction::Kind::kNone) return;
  changed_ever_ = true;
  last_change_ = now;
  if (!error.empty()) {
    report_.failures++;
    Log("The change failed: " + error);
    // A change that could not be taken back is tried again at the next look.
    if (action.kind == TunerAction::Kind::kRollBack) state_ = State::kJudging;
    return;
  }
  if (action.kind == TunerAction::Kind::kRollBack) {
    report_.rollbacks++;
    return;
  }
  report_.changes++;
  measured_before_ = report_.measured;
  skew_before_ = report_.skew;
  keys_before_ = report_.keys;
  settle_left_ = options_.settle_windows;
  state_ = settle_left_ > 0 ? State::kSettling : State::kJudging;
  Log(Text("Changed level sizes: predicted %.2f instead of %.2f.", report_.predicted_best, report_.predicted));
}

}  // namespace cairn
