// What a trie would write: the real picker over a model of the files, in seconds instead of hours. Puts and compactions
// take the time that their bytes take at the given rates, so that compactions overlap with each other and with flushes
// and slow puts down as they do in a database.
//
//   trie_simulation --puts=1000000 --keys=1000000 --flush=4500 --trie="fan_out=8;slots=16"

#include <gflags/gflags.h>

#include <algorithm>
#include <cinttypes>
#include <cstdio>
#include <map>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "db_bench/keys.h"
#include "test/testutil/simulated_trie.h"
#include "trie_table/compaction/write_throttle.h"

DEFINE_uint64(puts, 1000000, "puts");
DEFINE_uint64(keys, 1000000, "distinct keys");
DEFINE_string(distribution, "uniform", "uniform, or zipf");
DEFINE_double(theta, 0.99, "of Zipf's law");
DEFINE_uint64(seed, 1, "of the keys");
DEFINE_uint64(flush, 4600, "puts in a write buffer");
DEFINE_uint64(data_bytes, 117, "key and value");
DEFINE_uint64(table_bytes, 131, "the same in a table");
DEFINE_string(trie, "", "option string of the trie");
DEFINE_int32(threads, 2, "compactions at once; 0: each is done at once");
DEFINE_double(compaction_rate, 3.5, "bytes that a compaction writes while one byte is put");
DEFINE_double(delayed_rate, 0.6, "rate of puts when they begin to be slowed down, of the full rate");
DEFINE_bool(jobs, false, "a line for every compaction");
DEFINE_uint64(every, 0, "puts between lines of progress; 0: a tenth of all");

namespace cairn {
namespace {

// Time is counted in bytes put.
class Simulation {
 public:
  Simulation(const HashTrieOptions& options, std::unique_ptr<bench::KeyChooser> keys)
      : keys_(std::move(keys)), trie_(options, {FLAGS_data_bytes, FLAGS_table_bytes}) {}

  void Run() {
    const uint64_t every = FLAGS_every != 0 ? FLAGS_every : std::max<uint64_t>(1, FLAGS_puts / 10);
    printf("%12s %9s %9s %9s %6s %6s\n", "puts", "written", "space", "worst", "files", "root");
    uint64_t next_line = every;
    for (uint64_t puts = 0; puts < FLAGS_puts;) {
      const uint64_t flush = std::min(FLAGS_flush, FLAGS_puts - puts);
      Flush(flush);
      puts += flush;
      const bool line = puts >= next_line || puts == FLAGS_puts;
      if (line) next_line += every;
      Report(puts, line);
    }
    const double end = now_;
    while (!running_.empty()) Advance(running_.begin()->first);
    Report(FLAGS_puts, true);
    for (const auto& [name, bytes] : written_) {
      printf("  %-24s %6.3f  in %" PRIu64 "\n", name.c_str(), PerByte(bytes), jobs_[name]);
    }
    printf("  held back: %.1f %% of the time\n", 100 - 100 * static_cast<double>(put_ * FLAGS_data_bytes) / end);
    if (trie_.violations != 0) printf("%" PRIu64 " compactions broke an invariant\n", trie_.violations);
  }

 private:
  double PerByte(uint64_t bytes) const {
    return static_cast<double>(bytes) / static_cast<double>(put_ * FLAGS_data_bytes);
  }

  static double WriteBuffers(uint64_t bytes) {
    return static_cast<double>(bytes) / static_cast<double>(FLAGS_flush * FLAGS_table_bytes);
  }

  void Flush(uint64_t puts) {
    std::vector<std::pair<uint64_t, bool>> operations;
    for (uint64_t i = 0; i < puts; ++i) {
      const uint64_t key = keys_->Next();
      operations.emplace_back(key, false);
      if (seen_.size() <= key) seen_.resize(FLAGS_keys);
      if (!seen_[key]) ++live_;
      seen_[key] = true;
    }
    put_ += puts;
    Wait(static_cast<double>(puts * FLAGS_data_bytes));
    const uint64_t before = trie_.written;
    trie_.Flush(operations);
    written_["flush"] += trie_.written - before;
    ++jobs_["flush"];
    Schedule();
  }

  // Lets time pass for the puts of `bytes`, in steps between which the rate of puts is set anew.
  void Wait(double bytes) {
    constexpr int kSteps = 16;
    for (int step = 0; step < kSteps; ++step) {
      constexpr double kLeastRate = 1e-4;
      const double pressure = std::max(cairn::kMostPressureForSpace * trie_.picker.SpacePressure(), RootPressure());
      const double rate =
          pressure == 0 ? 1 : FLAGS_delayed_rate * std::max(kLeastRate, cairn::ShareOfFullRate(pressure));
      const double end = now_ + bytes / kSteps / rate;
      while (!running_.empty() && running_.begin()->first <= end) Advance(running_.begin()->first);
      now_ = end;
    }
  }

  double RootPressure() const { return cairn::RootPressure(trie_.shape.root().files, trie_.shape.trie().root_trigger); }

  void Schedule() {
    TrieJob job;
    while ((FLAGS_threads == 0 || running_.size() < static_cast<size_t>(FLAGS_threads)) && trie_.picker.Pick(&job)) {
      SimulatedTrie::Running running = trie_.Start(job);
      const double seconds = static_cast<double>(running.bytes) / FLAGS_compaction_rate;
      running_.emplace(now_ + (FLAGS_threads == 0 ? 0 : seconds), std::move(running));
      if (FLAGS_threads == 0) Advance(now_);
    }
  }

  // Lets the compaction that ends first end.
  void Advance(double to) {
    now_ = to;
    const SimulatedTrie::Running running = std::move(running_.begin()->second);
    running_.erase(running_.begin());
    const std::string name = std::string(NameOf(running.job.kind)) + " to depth " + std::to_string(running.depth) +
                             (running.job.for_space ? " for space" : "");
    written_[name] += running.bytes;
    ++jobs_[name];
    if (FLAGS_jobs) {
      printf("  %s: container %" PRIu64 ", %zu tables, %.1f of %.1f write buffers\n", name.c_str(),
             running.job.id.container, running.job.inputs.size(), WriteBuffers(running.bytes),
             WriteBuffers(running.job.input_bytes));
    }
    trie_.Finish(running);
    if (FLAGS_threads != 0) Schedule();
  }

  void Report(uint64_t puts, bool line) {
    const double space = static_cast<double>(trie_.shape.bytes()) / static_cast<double>(live_ * FLAGS_data_bytes);
    worst_ = std::max(worst_, space);
    if (!line) return;
    printf("%12" PRIu64 " %9.3f %9.3f %9.3f %6" PRIu64 " %6" PRIu64 "\n", puts, PerByte(trie_.written), space, worst_,
           trie_.shape.files(), trie_.shape.root().files);
  }

  std::unique_ptr<bench::KeyChooser> keys_;
  SimulatedTrie trie_;
  std::multimap<double, SimulatedTrie::Running> running_;  // by the time of their end
  double now_ = 0;
  uint64_t put_ = 0;
  uint64_t live_ = 0;
  std::vector<bool> seen_;
  double worst_ = 0;
  std::map<std::string, uint64_t> written_;
  std::map<std::string, uint64_t> jobs_;
};

}  // namespace
}  // namespace cairn

int main(int argc, char** argv) {
  gflags::SetUsageMessage("[flags]: bytes that a trie writes, from its picker and a model of its files");
  gflags::ParseCommandLineFlags(&argc, &argv, true);
  cairn::HashTrieOptions options;
  const rocksdb::Status status = cairn::TrieOptionsFromString(FLAGS_trie, &options);
  if (!status.ok() || FLAGS_puts == 0 || FLAGS_keys == 0 || FLAGS_flush == 0 || FLAGS_compaction_rate <= 0 ||
      (FLAGS_distribution != "uniform" && FLAGS_distribution != "zipf")) {
    fprintf(stderr, "trie_simulation: %s\n", status.ok() ? "a flag is out of range" : status.ToString().c_str());
    return 2;
  }
  std::unique_ptr<cairn::bench::KeyChooser> keys;
  if (FLAGS_distribution == "zipf") {
    keys = std::make_unique<cairn::bench::ZipfKeys>(FLAGS_keys, FLAGS_theta, FLAGS_seed);
  } else {
    keys = std::make_unique<cairn::bench::UniformKeys>(FLAGS_keys, FLAGS_seed);
  }
  cairn::Simulation(options, std::move(keys)).Run();
  return 0;
}
