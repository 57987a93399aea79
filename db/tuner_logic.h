// What the tuner decides, without a database: belief from a window of flushes, prediction, and the state of a change
// under trial.
//
//   idle --gain, allowed--> settling (n windows) --> judged: kept -> idle, or worse -> taken back -> idle
//
// Never worse twice: after a change was taken back, nothing is applied until the belief has changed, and after the
// second time nothing at all. Not thread-safe.

#pragma once

#include <string>
#include <vector>

#include "cairn/msls.h"
#include "cairn/tuner.h"

namespace cairn {

// What was counted between two looks.
struct TunerWindow {
  uint64_t flushes = 0;
  uint64_t writes = 0;    // entries of sealed memtables
  uint64_t distinct = 0;  // entries of the tables flushed
  uint64_t flush_bytes = 0;
  uint64_t compaction_bytes = 0;
  // Of the tables flushed (db/key_sample.h).
  uint64_t sampled_tables = 0;
  uint64_t sampled_keys = 0;
  std::vector<double> sampled_keys_by_flushes;
  double sampled_share = 0;
};

// What the database is, at a look.
struct TunerView {
  double data_bytes = 0;  // of the largest level
  msls::Store store;      // item size and write buffer are filled in by the logic
  std::string obstacle;   // why nothing can be applied; empty: it can
};

struct TunerAction {
  enum class Kind { kNone, kApply, kRollBack };
  Kind kind = Kind::kNone;
  msls::Store store;  // kApply
  msls::Popularity popularity;
};

// The Zipf skew (0 to 3) at which `writes` requests are expected to touch `distinct` of `keys` keys.
double EstimateSkew(double keys, double writes, double distinct);

class TunerLogic {
 public:
  explicit TunerLogic(const TunerOptions& options) : options_(options) {}

  // One look. `now` is in seconds of a clock that only runs forward.
  TunerAction Look(const TunerWindow& window, const TunerView& view, double now);
  // What became of the action that the last Look asked for; `error` is empty if it worked.
  void Done(const TunerAction& action, const std::string& error, double now);

  const TunerReport& report() const { return report_; }

 private:
  enum class State { kIdle, kSettling, kJudging };

  void Log(const std::string& line);
  msls::Status Believe(const TunerWindow& window, msls::Popularity* popularity);

  const TunerOptions options_;
  TunerReport report_;
  State state_ = State::kIdle;
  int settle_left_ = 0;
  bool changed_ever_ = false;
  double last_change_ = 0;
  double measured_before_ = 0;  // of the change under trial
  double skew_before_ = 0, keys_before_ = 0;
  double bad_skew_ = -1, bad_keys_ = 0;  // belief under which a change was taken back
};

}  // namespace cairn
