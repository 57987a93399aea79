// The counters of a database over time, in a bounded number of samples: when there are too many, every second one goes,
// and samples are taken half as often from then on. So the history reaches back to the beginning, ever coarser.
//
// Thread-safety: none.

#pragma once

#include <cstddef>
#include <optional>
#include <vector>

#include "tools/status/snapshot.h"

namespace cairn {

// Counters only grow, unless the database was opened anew in between.
struct StatusSample {
  double at = 0;  // seconds since 1970
  std::optional<double> user_bytes;
  std::optional<double> user_keys;
  std::optional<double> keys_read;
  std::optional<double> flushed_bytes;
  std::optional<double> compaction_read_bytes;
  std::optional<double> compaction_written_bytes;
  // Values of the moment.
  std::optional<double> bytes;
  std::optional<double> memory_bytes;
  std::optional<double> write_amplification;
  std::optional<double> space_amplification;
};

StatusSample SampleOf(const StatusSnapshot& snapshot);

// What a counter grew by per second; empty when either is unknown, no time has passed, or the counter began anew.
std::optional<double> RateOf(std::optional<double> before, std::optional<double> after, double seconds);

class History {
 public:
  // REQUIRES: limit >= 4.
  explicit History(double seconds_between_samples, size_t limit = 240)
      : spacing_(seconds_between_samples), limit_(limit) {}

  // Dropped if the last one is too near. Times that run backwards (the clock was set) begin a new history.
  void Add(const StatusSample& sample);

  const std::vector<StatusSample>& samples() const { return samples_; }  // oldest first
  double seconds_between_samples() const { return spacing_; }

 private:
  double spacing_;
  const size_t limit_;
  std::vector<StatusSample> samples_;
};

}  // namespace cairn
