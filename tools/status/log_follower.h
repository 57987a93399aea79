// What a database's LOG tells of its work: flushes and compactions with their bytes (the lines EVENT_LOG_v1), which
// compactions are under way, the stats that RocksDB dumps from time to time, and what the tuner says. A LOG that a
// process writes to is followed; at the beginning the last kPastBytes of it are read.
//
// Thread-safety: none.

#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "rocksdb/status.h"
#include "tools/status/snapshot.h"

namespace cairn {

class LogFollower {
 public:
  static constexpr uint64_t kPastBytes = 8 << 20;
  // Of one line; what is longer is passed over.
  static constexpr size_t kMaxLine = 1 << 20;
  static constexpr size_t kMaxTunerLines = 100;

  // `file`: the path of the LOG.
  explicit LogFollower(std::string file) : file_(std::move(file)) {}

  // Reads on; also when the LOG was replaced by a new one. NotFound when there is none.
  rocksdb::Status Follow();

  struct Job {
    double started_at = 0;
    std::string column_family;
    std::string reason;
    std::vector<int> levels;
    std::set<uint64_t> files;
    uint64_t bytes = 0;
  };

  // Since the first line that was read; of all column families.
  const FamilyTotals& totals() const { return totals_; }
  const std::map<int64_t, Job>& running() const { return running_; }  // by job number
  const std::optional<StatsDump>& stats_dump() const { return stats_dump_; }
  // By column family, newest last.
  const std::map<std::string, std::vector<std::string>>& tuner_log() const { return tuner_log_; }
  // What flushes and compactions came to before the first Follow, in steps of a few seconds.
  std::vector<StatusSample> TakePast() { return std::move(past_); }

  // One line of a LOG, without its end. For tests.
  void OnLine(const std::string& line);

 private:
  void ReadOn();
  void OnText(const char* text, size_t size);
  void OnEvent(const std::string& line, const char* json);
  void AddPast(double at);

  const std::string file_;
  // Of the LOG that is being read. It stays open, so that the end of one that is replaced is not missed.
  class Descriptor;
  std::shared_ptr<const Descriptor> descriptor_;
  uint64_t offset_ = 0;
  bool skip_line_ = false;  // the rest of a line whose beginning was not read, or which is too long
  bool in_past_ = false;
  std::string rest_;  // of a line that is not complete yet

  FamilyTotals totals_;
  std::map<int64_t, Job> running_;
  // "[family] [JOB n]" stands in a line of its own before the event that has the number only.
  std::map<int64_t, std::string> family_of_job_;
  std::optional<StatsDump> stats_dump_;
  std::map<std::string, std::vector<std::string>> tuner_log_;
  std::vector<StatusSample> past_;
};

// The time at the beginning of a LOG's line ("2026/11/22-09:39:36.123456"), in seconds since 1970; empty: there is
// none. RocksDB writes local time.
std::optional<double> TimeOfLogLine(const std::string& line);

}  // namespace cairn
