// What the tuner decides, without a database (docs/design/tuner.md has the law): belief from a window of flushes,
// prediction, and the state of a change under trial.
//
//   as set --gain, allowed--> tuned: settling (n windows) --> watched --worse than the sizes before--> as before
//                             tuned, at any look          --the user's sizes are better now--> as set
//                             any                         --someone else sets sizes--> as set
//
// Invariants
//   (1) The baseline is what the user set last; only sizes that the model puts above it, for the data of this look and
//       for what is expected until the next but one, and in the recent workloads, are ever set.
//   (2) The state changes in Done only: an action that was not taken leaves everything as it was.
//   (3) Never worse twice: after a change was taken back, nothing is set until the belief has changed, and after the
//       second time nothing at all.
//
// Not thread-safe.

#pragma once

#include <deque>
#include <string>
#include <utility>
#include <vector>

#include "cairn/msls.h"
#include "cairn/tuner.h"
#include "msls/level_sizes.h"

namespace cairn {

// What was counted between two looks.
struct TunerWindow {
  uint64_t flushes = 0;
  uint64_t writes = 0;    // entries of sealed memtables
  uint64_t distinct = 0;  // entries of the tables flushed
  uint64_t flush_bytes = 0;
  uint64_t compaction_bytes = 0;
  // Of the tables flushed (msls/key_sample.h).
  uint64_t sampled_tables = 0;
  uint64_t sampled_keys = 0;
  std::vector<double> sampled_keys_by_flushes;
  double sampled_share = 0;
};

// What the database is, at a look.
struct TunerView {
  std::vector<double> level_bytes;  // from level 0 on
  LevelSizes sizes;                 // in force
  int num_levels = 7;
  msls::StoreShape store;  // pick, trigger and file size; item size, write buffer and level sizes are the logic's
  std::string obstacle;    // why nothing can be set; empty: it can
};

struct TunerAction {
  enum class Kind {
    kNone,
    kApply,     // sizes that are better than those in force
    kRollBack,  // those before a change that made it worse
    kReturn,    // the baseline, better than what was set for other data or another workload
    kAdopt,     // the baseline, of which the user has set a part
  };
  Kind kind = Kind::kNone;
  LevelSizes sizes;
};

// The Zipf skew (0 to 3) at which `writes` requests are expected to touch `distinct` of `keys` keys.
double EstimateSkew(double keys, double writes, double distinct);

class TunerLogic {
 public:
  explicit TunerLogic(const TunerOptions& options) : options_(options) {}

  // One look. `now` is in seconds of a clock that only runs forward.
  TunerAction Look(const TunerWindow& window, const TunerView& view, double now);
  // What became of the action that the last Look asked for; `error` is empty if it worked. Not called for an action
  // that was given up because sizes changed meanwhile.
  void Done(const TunerAction& action, const std::string& error, double now);

  const TunerReport& report() const { return report_; }
  // Lines of the report's log that were not taken yet.
  std::vector<std::string> TakeLines() { return std::exchange(fresh_lines_, {}); }

 private:
  struct Belief {
    double keys = 0;
    double skew = 0;
    bool sampled = false;            // else the Zipf law is believed
    double writes_of_top_tenth = 0;  // only if sampled
    msls::Popularity popularity;
  };
  // A change that is compared with the sizes before it.
  struct Trial {
    LevelSizes before;
    // What was measured for `before` by what was predicted for it.
    double calibration = 1;
    double keys = 0, skew = 0;  // believed when it began
    int settle_left = 0;
    bool judged = false;
    // Sum of the parts by which more was written than `before` would have, never below 0.
    double excess = 0;
  };

  void Log(const std::string& line);
  bool tuned() const { return in_force_ != baseline_; }
  // True if sizes are what they were after the last action; else they are the baseline from now on, and `action` sets
  // what is missing of it.
  bool NoticeSizes(const TunerView& view, double now, TunerAction* action);
  bool Measure(const TunerWindow& window, const TunerView& view);
  IndexStatus Believe(const TunerWindow& window, double keys, Belief* belief) const;
  // The beliefs of this look in which a change must not be worse than the baseline.
  std::vector<Belief> Expected(const TunerWindow& window, const Belief& belief) const;
  double Predict(const LevelSizes& sizes, const Belief& belief) const;
  bool Search(const Belief& belief, LevelSizes* best);
  bool NeverWorseThanBaseline(const LevelSizes& sizes, const std::vector<Belief>& beliefs) const;
  TunerAction Watch(const Belief& belief);
  TunerAction Consider(const Belief& belief, const std::vector<Belief>& expected, double now);

  const TunerOptions options_;
  TunerReport report_;
  std::vector<std::string> fresh_lines_;
  bool known_ = false;  // the next two are
  LevelSizes baseline_;
  LevelSizes in_force_;
  bool on_trial_ = false;
  Trial trial_;
  bool changed_ever_ = false;
  double last_change_ = 0;
  double bad_skew_ = -1, bad_keys_ = 0;  // belief under which a change was taken back
  std::deque<Belief> recent_;            // newest last
  // Of this look.
  TunerView view_;
  msls::StoreShape store_;
  double stored_keys_ = 0;    // versions and copies in all levels
  double stored_bytes_ = 0;   // 0: no look yet
  double growth_ = 1;         // of stored_bytes_ since the look before
  size_t deepest_level_ = 1;  // that holds a good part of the data
};

}  // namespace cairn
