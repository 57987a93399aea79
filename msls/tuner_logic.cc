#include "msls/tuner_logic.h"

#include <algorithm>
#include <cmath>
#include <cstdio>

#include "msls/popularity_estimate.h"

namespace cairn {

namespace {

// Less growth from look to look is noise of compactions: a part of the data, and so many compactions of level 0.
constexpr double kGrows = 1.05;
constexpr double kGrowsByLevel0 = 2;
// The last level gets room for this many times the data that is expected.
constexpr double kMeasuredRoomToGrow = 1.3;
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

// The targets of levels above the one that holds `data_bytes`.
std::vector<double> TargetsBelow(const LevelSizes& sizes, int num_levels, double data_bytes) {
  std::vector<double> targets;
  for (double bytes : LevelTargets(sizes, num_levels)) {
    if (bytes >= data_bytes || (!targets.empty() && bytes <= targets.back())) break;
    targets.push_back(bytes);
  }
  return targets;
}

// How far apart the user would have levels that are not there yet.
double RatioOf(const LevelSizes& sizes) {
  constexpr double kDefault = 10;
  return sizes.multiplier > 1 && sizes.multiplier <= 100 ? sizes.multiplier : kDefault;
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
  constexpr size_t kMostLines = 100;
  report_.log.push_back(line);
  fresh_lines_.push_back(line);
  if (report_.log.size() > kMostLines) report_.log.erase(report_.log.begin());
}

// What the sample says, or the Zipf law through the one point that the counters give if there is no sample of most
// flushes.
IndexStatus TunerLogic::Believe(const TunerWindow& window, double keys, Belief* belief) const {
  const double flushes = static_cast<double>(window.flushes);
  belief->keys = keys;
  belief->skew = EstimateSkew(keys, report_.items_per_flush, static_cast<double>(window.distinct) / flushes);
  if (2 * window.sampled_tables > window.flushes) {
    const std::vector<msls::HistogramBin> bins =
        EstimatePopularity(keys, report_.items_per_flush, window.sampled_keys_by_flushes, window.sampled_share);
    if (msls::Popularity::Histogram(bins, &belief->popularity).ok()) {
      belief->sampled = true;
      belief->writes_of_top_tenth = WritesOfMostPopular(bins, 0.1);
      return IndexStatus::OK();
    }
  }
  return msls::Popularity::Zipf(keys, belief->skew, &belief->popularity);
}

bool TunerLogic::NoticeSizes(const TunerView& view, double now, TunerAction* action) {
  if (!known_) {
    known_ = true;
    baseline_ = in_force_ = view.sizes;
    return true;
  }
  if (view.sizes == in_force_) return true;
  baseline_ = MergedSizes(view.sizes, in_force_, baseline_);
  in_force_ = view.sizes;
  on_trial_ = false;
  changed_ever_ = true;  // so that what was set now stays for a while
  last_change_ = now;
  Log("Level sizes were set by SetOptions: they are what the tuner compares with from now on (" +
      LevelSizesText(baseline_) + " ...).");
  if (!tuned()) return false;
  action->kind = TunerAction::Kind::kAdopt;
  action->sizes = baseline_;
  return false;
}

// Fills the report and what depends on the view alone. False if there is nothing to go by.
bool TunerLogic::Measure(const TunerWindow& window, const TunerView& view) {
  view_ = view;
  if (window.flushes == 0 || window.distinct == 0 || window.writes < window.distinct || window.flush_bytes == 0) {
    Log("Too little was flushed to go by.");
    return false;
  }
  report_.item_bytes = static_cast<double>(window.flush_bytes) / static_cast<double>(window.distinct);
  report_.items_per_flush = static_cast<double>(window.writes) / static_cast<double>(window.flushes);
  report_.measured = static_cast<double>(window.flush_bytes + window.compaction_bytes) /
                     (static_cast<double>(window.writes) * report_.item_bytes);
  double stored = 0, largest = 0;
  for (size_t level = 1; level < view.level_bytes.size(); level++) {
    stored += view.level_bytes[level];
    largest = std::max(largest, view.level_bytes[level]);
  }
  growth_ = 1;
  const double noise = kGrowsByLevel0 * view.store.level0_trigger * report_.items_per_flush * report_.item_bytes;
  if (stored_bytes_ > 0 && std::fabs(stored - stored_bytes_) > noise) growth_ = stored / stored_bytes_;
  stored_bytes_ = stored;
  stored_keys_ = stored / report_.item_bytes;
  deepest_level_ = 1;
  // A level that holds less of the data is one that the data has left, or has not reached yet.
  constexpr double kPopulated = 0.1;
  for (size_t level = 1; level < view.level_bytes.size(); level++) {
    if (view.level_bytes[level] >= kPopulated * stored) deepest_level_ = level;
  }
  report_.keys = largest / report_.item_bytes;
  if (report_.keys < 2 * report_.items_per_flush) {
    Log("The database is smaller than two flushes; nothing to tune.");
    return false;
  }
  store_ = view.store;
  store_.log = false;
  store_.dynamic_level_bytes = view.store.dynamic_level_bytes;
  store_.item_bytes = report_.item_bytes;
  store_.write_buffer_bytes = report_.items_per_flush * report_.item_bytes;
  return true;
}

std::vector<TunerLogic::Belief> TunerLogic::Expected(const TunerWindow& window, const Belief& belief) const {
  std::vector<Belief> expected = {belief};
  const auto add = [&](double keys) {
    Belief other;
    if (keys >= 2 * report_.items_per_flush && Believe(window, keys, &other).ok()) expected.push_back(other);
  };
  // Looks ahead for which data is expected to go on growing as it did: those that pass until a change shows.
  constexpr int kLooksAhead = 2;
  // New keys lie in the levels above the largest until they reach it.
  const double growth = std::pow(growth_, kLooksAhead);
  if (growth_ > kGrows) add(stored_keys_ * growth);
  if (growth_ < 1 / kGrows) add(report_.keys * growth);
  for (const Belief& earlier : recent_) {
    // Of another number of keys it is no workload that comes back.
    if (Differs(0, earlier.keys, 0, belief.keys)) continue;
    if (Differs(earlier.skew, earlier.keys, belief.skew, belief.keys)) expected.push_back(earlier);
  }
  return expected;
}

double TunerLogic::Predict(const LevelSizes& sizes, const Belief& belief) const {
  msls::StoreShape store = store_;
  const double data = belief.keys * store.item_bytes;
  if (store.dynamic_level_bytes) {
    store.level_base_bytes = static_cast<double>(sizes.base);
  } else {
    store.level_bytes = TargetsBelow(sizes, view_.num_levels, data);
    store.level_base_bytes = 2 * data;  // if there are none
  }
  msls::Report report;
  const IndexStatus s = msls::Model(store, belief.popularity, &report);
  return s.ok() ? report.write_amplification : 0;
}

// The sizes with the least writes for as many levels as the data is in. False if none keep the limit on space.
bool TunerLogic::Search(const Belief& belief, LevelSizes* best) {
  msls::StoreShape store = store_;
  const double data = belief.keys * store.item_bytes;
  store.level_bytes.clear();
  store.level_base_bytes = static_cast<double>(in_force_.base);
  msls::OptimizeOptions limits;
  limits.max_space_amplification = options_.max_space_amplification;
  if (!store.dynamic_level_bytes) {
    store.level_bytes = TargetsBelow(in_force_, view_.num_levels, data);
    store.level_base_bytes = 2 * data;
    // Data does not move up, and levels that the user would not have are not taken back.
    const int now = static_cast<int>(store.level_bytes.size()) + 1;
    const int users = static_cast<int>(TargetsBelow(baseline_, view_.num_levels, data).size()) + 1;
    limits.min_levels = std::max(now, std::min(users, static_cast<int>(deepest_level_)));
    limits.max_levels = std::max(limits.min_levels, users);
  }
  msls::Optimum optimum;
  const IndexStatus s = msls::Optimize(store, belief.popularity, limits, &optimum);
  if (!s.ok()) {
    Log(s.message());
    return false;
  }
  report_.predicted_best = optimum.after.write_amplification;
  report_.best_level_bytes = optimum.store.level_bytes;
  if (optimum.store.level_bytes.empty()) return false;  // one level: there is nothing to choose
  const double room = kMeasuredRoomToGrow * std::max(data, stored_bytes_);
  *best = LevelSizesFor(optimum.store.level_bytes, room, RatioOf(baseline_), static_cast<size_t>(view_.num_levels));
  return true;
}

bool TunerLogic::NeverWorseThanBaseline(const LevelSizes& sizes, const std::vector<Belief>& beliefs) const {
  for (const Belief& belief : beliefs) {
    if (Predict(sizes, belief) > Predict(baseline_, belief)) return false;
  }
  return true;
}

// Compares what is measured with what the sizes before the change would have written of the same.
TunerAction TunerLogic::Watch(const Belief& belief) {
  TunerAction action;
  if (!on_trial_) return action;
  if (trial_.settle_left > 0) {
    trial_.settle_left--;
    return action;
  }
  if (Differs(belief.skew, belief.keys, trial_.skew, trial_.keys)) {
    if (!trial_.judged) Log("The workload changed during the trial; the model alone speaks for the change.");
    on_trial_ = false;
    return action;
  }
  const double before = trial_.calibration * Predict(trial_.before, belief);
  const double more = report_.measured / before - options_.tolerance;
  trial_.excess = std::max(0.0, trial_.excess + more);
  const std::string figures =
      Text("Measured %.2f after the change, %.2f expected of the sizes before: ", report_.measured, before);
  if (trial_.excess > options_.tolerance - 1) {
    Log(figures + "taking it back.");
    action.kind = TunerAction::Kind::kRollBack;
    action.sizes = trial_.before;
  } else if (!trial_.judged) {
    Log(figures + "kept.");
    trial_.judged = true;
  }
  return action;
}

TunerAction TunerLogic::Consider(const Belief& belief, const std::vector<Belief>& expected, double now) {
  TunerAction action;
  // While new keys fill the levels, the sizes are for the data that is expected.
  const bool growing = growth_ > kGrows;
  const Belief& aim = growing && expected.size() > 1 ? expected[1] : belief;
  LevelSizes best;
  const bool found = Search(aim, &best);
  const double predicted_best = found ? Predict(best, belief) : report_.predicted;
  report_.predicted_best = std::min(predicted_best, report_.predicted);
  const double gain = 1 - predicted_best / report_.predicted;
  const std::string prediction =
      Text("Predicted %.2f instead of %.2f (%.1f %% less): ", predicted_best, report_.predicted, 100 * gain);
  std::string but;
  if (!found || gain < options_.min_gain) {
    but = "-";
  } else if (options_.advisory) {
    but = "only advising.";
  } else if (!view_.obstacle.empty()) {
    but = view_.obstacle;
  } else if (options_.max_error > 0 && std::fabs(report_.measured / report_.predicted - 1) > options_.max_error) {
    but = Text("but %.2f was measured; the model does not describe this state.", report_.measured);
  } else if (report_.rollbacks >= 2) {
    but = "but two changes were taken back, so no more are made.";
  } else if (bad_skew_ >= 0 && !Differs(belief.skew, belief.keys, bad_skew_, bad_keys_)) {
    but = "but a change under the same belief was taken back.";
  } else if (changed_ever_ && now - last_change_ < options_.min_seconds_between_changes) {
    but = "but the last change is too young.";
  } else if (recent_.empty() || Differs(belief.skew, belief.keys, recent_.back().skew, recent_.back().keys)) {
    but = "but the workload was another at the look before.";
  } else if (!NeverWorseThanBaseline(best, expected)) {
    but = "but not for the data that is expected, or in a workload of late.";
  }
  if (but.empty()) {
    action.kind = TunerAction::Kind::kApply;
    action.sizes = best;
    return action;
  }
  if (but != "-") Log(prediction + but);
  if (!tuned() || options_.advisory || !view_.obstacle.empty()) return action;
  // The user's sizes come back when those in force are predicted to write more than this times as much.
  constexpr double kReturnAt = 1.01;
  // The sizes were set for other data or another workload, and the user's are better for what is there now, or will be.
  const size_t ahead = growing && expected.size() > 1 ? 1 : 0;
  for (size_t i = 0; i <= ahead; i++) {
    const double ours = Predict(in_force_, expected[i]), users = Predict(baseline_, expected[i]);
    if (ours <= kReturnAt * users) continue;
    Log(Text("Predicted %.2f for the sizes set, %.2f for the user's: going back to those.", ours, users));
    action.kind = TunerAction::Kind::kReturn;
    action.sizes = baseline_;
    break;
  }
  return action;
}

TunerAction TunerLogic::Look(const TunerWindow& window, const TunerView& view, double now) {
  TunerAction action;
  report_.looks++;
  if (!NoticeSizes(view, now, &action)) {
    Measure(window, view);
    return action;
  }
  if (!Measure(window, view)) return action;
  Belief belief;
  const IndexStatus s = Believe(window, report_.keys, &belief);
  if (!s.ok()) {
    Log(s.message());
    return action;
  }
  report_.skew = belief.skew;
  report_.sampled_keys = belief.sampled ? window.sampled_keys : 0;
  report_.writes_of_top_tenth = belief.writes_of_top_tenth;
  report_.predicted = Predict(in_force_, belief);
  report_.predicted_untuned = Predict(baseline_, belief);
  const std::vector<Belief> expected = Expected(window, belief);
  action = Watch(belief);
  if (action.kind == TunerAction::Kind::kNone) action = Consider(belief, expected, now);
  recent_.push_back(belief);
  // Looks whose workloads a change must suit.
  constexpr size_t kRecentLooks = 8;
  if (recent_.size() > kRecentLooks) recent_.pop_front();
  return action;
}

void TunerLogic::Done(const TunerAction& action, const std::string& error, double now) {
  if (action.kind == TunerAction::Kind::kNone) return;
  if (action.kind == TunerAction::Kind::kApply) {
    changed_ever_ = true;
    last_change_ = now;
  }
  if (!error.empty()) {
    // What could not be taken back is tried again at the next look.
    report_.failures++;
    Log("The change failed: " + error);
    return;
  }
  const LevelSizes before = in_force_;
  in_force_ = action.sizes;
  on_trial_ = false;
  switch (action.kind) {
    case TunerAction::Kind::kApply:
      report_.changes++;
      on_trial_ = true;
      trial_ = Trial();
      trial_.before = before;
      trial_.calibration = report_.measured / report_.predicted;
      trial_.keys = recent_.back().keys;
      trial_.skew = recent_.back().skew;
      trial_.settle_left = options_.settle_windows;
      Log(Text("Changed level sizes: predicted %.2f instead of %.2f. Now ", report_.predicted_best, report_.predicted) +
          LevelSizesText(in_force_) + " ...");
      break;
    case TunerAction::Kind::kRollBack:
      report_.rollbacks++;
      bad_skew_ = recent_.back().skew;
      bad_keys_ = recent_.back().keys;
      break;
    case TunerAction::Kind::kReturn:
      report_.returns++;
      break;
    default:
      break;
  }
}

}  // namespace cairn
