// How long a writer waits whose puts come at fixed times, at a share of the rate that the engine sustains.
//
//   paced_writer_bench [--engines="ordered_trie ordered stock"] [--workload=uniform] [--millions=10]
//                      [--write_buffer_mib=6] [--share=0.5] [--rate=PUTS_PER_SECOND] [--json]
//
// Two databases for each engine, in turn. The first is written as fast as it takes puts: the rate that it sustains is
// that at which it has taken them all and has nothing left to compact. (--rate: not measured, but this one.) The second
// gets the same puts at `share` of that. A put that comes while an earlier one waits begins to wait then, not when its
// turn comes, so a pause counts for all puts that fall into it; what the writer's own sleep between puts takes too long
// does not count. Latencies are of puts from a fourth of them on.
//
// Times depend on the machine, and mean something only where nothing else runs.

#include <gflags/gflags.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <cinttypes>
#include <cmath>
#include <cstdio>
#include <nlohmann/json.hpp>
#include <sstream>
#include <string>
#include <thread>
#include <vector>

#include "db/key_order_workload.h"
#include "rocksdb/db.h"

DEFINE_string(engines, "ordered_trie ordered stock", "Engines, separated by spaces");
DEFINE_string(workload, "uniform", "uniform, zipf, sequential, streams or spot");
DEFINE_double(millions, 10, "Puts, and keys of uniform, zipf and spot");
DEFINE_double(write_buffer_mib, 6, "Write buffer; 6 for 10 million puts are as many as 64 for 100 million");
DEFINE_double(share, 0.5, "Rate of the paced writer, as a share of what is sustained");
DEFINE_double(rate, 0, "What is sustained, in puts per second; 0: it is measured");
DEFINE_bool(log, false, "With a write-ahead log");
DEFINE_bool(json, false, "One line of JSON for each engine instead of a table");

namespace cairn {
namespace {

using Clock = std::chrono::steady_clock;

void Check(const rocksdb::Status& s) {
  if (s.ok()) return;
  fprintf(stderr, "paced_writer_bench: %s\n", s.ToString().c_str());
  _exit(1);
}

double Seconds(Clock::duration duration) { return std::chrono::duration<double>(duration).count(); }

// Times within a hundredth, from a nanosecond to an hour.
class Histogram {
 public:
  void Add(double seconds) {
    const double nanoseconds = std::max(seconds * 1e9, 1.0);
    const auto place = static_cast<size_t>(std::log2(nanoseconds) * kParts);
    ++counts_[std::min(place, counts_.size() - 1)];
    ++count_;
    longest_ = std::max(longest_, seconds);
  }
  // The shortest time that this share of all does not exceed.
  double Quantile(double share) const {
    const auto wanted = static_cast<uint64_t>(std::ceil(share * static_cast<double>(count_)));
    uint64_t seen = 0;
    for (size_t place = 0; place < counts_.size(); ++place) {
      seen += counts_[place];
      if (seen >= wanted) return std::exp2(static_cast<double>(place + 1) / kParts) / 1e9;
    }
    return longest_;
  }
  double longest() const { return longest_; }

 private:
  static constexpr size_t kParts = 70;  // of an octave
  std::vector<uint64_t> counts_ = std::vector<uint64_t>(kParts * 42);
  uint64_t count_ = 0;
  double longest_ = 0;
};

struct Result {
  double seconds = 0;  // until there was nothing to compact
  Histogram waits;
  double longest_sleep_over = 0;  // the writer's own
  TableCounter::Counts counts;
};

// With a rate of 0, as fast as puts are taken.
Result Write(const std::string& engine, double rate) {
  WorkloadDatabase database;
  Check(database.Open("paced_writer_bench", engine, static_cast<uint64_t>(FLAGS_write_buffer_mib * (1 << 20))));
  rocksdb::DB* const db = database.db();
  rocksdb::WriteOptions write;
  write.disableWAL = !FLAGS_log;
  const auto puts = static_cast<uint64_t>(FLAGS_millions * 1e6);
  std::vector<bool> present(FLAGS_workload == "streams" ? 0 : puts);
  uint64_t live = 0;
  std::string value(kWorkloadValueBytes, '\0');
  Result result;
  const Clock::time_point begin = Clock::now();
  Clock::time_point awake = begin;
  for (uint64_t i = 0; i < puts; ++i) {
    const uint64_t key = WorkloadKeyAt(FLAGS_workload, i, puts);
    MakeWorkloadValue(i, &value);
    Clock::time_point due = begin;
    if (rate > 0) {
      due += std::chrono::duration_cast<Clock::duration>(std::chrono::duration<double>(static_cast<double>(i) / rate));
      if (Clock::now() < due) {
        std::this_thread::sleep_until(due);
        awake = Clock::now();
        result.longest_sleep_over = std::max(result.longest_sleep_over, Seconds(awake - due));
      }
    }
    Check(db->Put(write, WorkloadKey(key), value));
    if (rate > 0 && i >= puts / 4) result.waits.Add(Seconds(Clock::now() - std::max(due, awake)));
    if (present.empty() || !present[key]) ++live;
    if (!present.empty()) present[key] = true;
    if (i >= puts / 4) database.counter()->SetLive(live * (kWorkloadKeyBytes + kWorkloadValueBytes));
  }
  Check(db->Flush(rocksdb::FlushOptions()));
  Check(database.Settle());
  result.seconds = Seconds(Clock::now() - begin);
  result.counts = database.counter()->Get();
  Check(database.Destroy());
  return result;
}

void Measure(const std::string& engine) {
  const double puts = FLAGS_millions * 1e6;
  const double sustained = FLAGS_rate > 0 ? FLAGS_rate : puts / Write(engine, 0).seconds;
  const double rate = FLAGS_share * sustained;
  const Result paced = Write(engine, rate);
  const Histogram& waits = paced.waits;
  const double written = static_cast<double>(paced.counts.written) / static_cast<double>(paced.counts.flushed);
  if (FLAGS_json) {
    const nlohmann::ordered_json json = {{"engine", engine},
                                         {"workload", FLAGS_workload},
                                         {"puts", puts},
                                         {"write_buffer_mib", FLAGS_write_buffer_mib},
                                         {"sustained_puts_per_second", std::round(sustained)},
                                         {"puts_per_second", std::round(rate)},
                                         {"p50_microseconds", 1e6 * waits.Quantile(0.5)},
                                         {"p99_microseconds", 1e6 * waits.Quantile(0.99)},
                                         {"p999_microseconds", 1e6 * waits.Quantile(0.999)},
                                         {"p9999_microseconds", 1e6 * waits.Quantile(0.9999)},
                                         {"longest_microseconds", 1e6 * waits.longest()},
                                         {"longest_sleep_over_microseconds", 1e6 * paced.longest_sleep_over},
                                         {"written_per_byte_flushed", written},
                                         {"most_space_per_live_byte", paced.counts.peak.per_live_byte},
                                         {"largest_compaction_bytes", paced.counts.largest}};
    printf("%s\n", json.dump().c_str());
  } else {
    printf("| %s | %.0f | %.0f | %.1f us | %.1f us | %.3f ms | %.3f ms | %.1f ms | %.2f | %.2f |\n", engine.c_str(),
           sustained / 1000, rate / 1000, 1e6 * waits.Quantile(0.5), 1e6 * waits.Quantile(0.99),
           1e3 * waits.Quantile(0.999), 1e3 * waits.Quantile(0.9999), 1e3 * waits.longest(), written,
           paced.counts.peak.per_live_byte);
  }
  fflush(stdout);
}

}  // namespace
}  // namespace cairn

int main(int argc, char** argv) {  // NOLINT(bugprone-exception-escape)
  gflags::ParseCommandLineFlags(&argc, &argv, true);
  if (!FLAGS_json) {
    printf(
        "| engine | sustained, thousand puts per second | paced | p50 | p99 | p99.9 | p99.99 | longest | written | "
        "space |\n");
    printf("| --- | --- | --- | --- | --- | --- | --- | --- | --- | --- |\n");
  }
  std::istringstream engines(FLAGS_engines);
  for (std::string engine; engines >> engine;) cairn::Measure(engine);
  return 0;
}
