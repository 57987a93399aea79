// msls_runs: a run of RocksDB (leveled or the trie) against what the model says of it. Every key is written once in
// random order, then requests by popularity warm up, then requests are counted. Written bytes are those of flushes and
// compactions, by RocksDB's own tickers; the log is left out on both sides. The model gets the item size on disk and
// the items in a flush as they were measured.
//
//   build/bin/msls_runs --db=DIR --keys=5M --zipf=0.99 --compaction-pri=kRoundRobin
//   build/bin/msls_runs --db=DIR --keys=5M --optimize
//   build/bin/msls_runs --db=DIR --keys=5M --shift-to=0.99 --tune   # the workload shifts, and the tuner follows
//
// db_bench/msls_grid runs the whole table of docs/msls.md. The directory is emptied first.

#include <algorithm>
#include <atomic>
#include <chrono>
#include <cmath>
#include <cstdio>
#include <cstdlib>
#include <exception>
#include <map>
#include <mutex>
#include <nlohmann/json.hpp>
#include <random>
#include <string>
#include <unordered_map>

#include "cairn/db.h"
#include "cairn/msls.h"
#include "cairn/trie.h"
#include "cairn/tuner.h"
#include "db_bench/measure.h"
#include "rocksdb/convenience.h"
#include "rocksdb/db.h"
#include "rocksdb/rate_limiter.h"
#include "rocksdb/statistics.h"
#include "rocksdb/table.h"
#include "src/msls/workload.h"
#include "src/tools/arguments.h"
#include "src/tools/commands.h"
#include "src/tuner/model_options.h"

namespace cairn {
namespace {

using msls::Popularity;
using msls::Report;
using msls::StoreShape;

constexpr size_t kKeyBytes = 16;

double Seconds() { return std::chrono::duration<double>(std::chrono::steady_clock::now().time_since_epoch()).count(); }

int Fail(const std::string& message) {
  fprintf(stderr, "msls_runs: %s\n", message.c_str());
  return kExitFailure;
}

// Keys in the order of their numbers, so that popularity has no locality (the workload scatters it).
void WriteKey(uint32_t key, char* out) {
  snprintf(out, kKeyBytes + 1, "%016llx", static_cast<unsigned long long>(key) << 16);
}

using Bytes = std::map<std::pair<int, int>, uint64_t>;

// Work of compactions, all of them together.
struct Work {
  double compactions = 0, read_bytes = 0, records = 0, seconds = 0, processor_seconds = 0;
};

// Counts items of flushes, which the model must be told, and what compactions do and write from level to level.
class Counter : public rocksdb::EventListener {
 public:
  void OnCompactionCompleted(rocksdb::DB*, const rocksdb::CompactionJobInfo& info) override {
    std::lock_guard<std::mutex> lock(mutex_);
    compacted_[{info.base_input_level, info.output_level}] += info.stats.total_output_bytes;
    work_.compactions++;
    work_.read_bytes += static_cast<double>(info.stats.total_input_bytes);
    work_.records += static_cast<double>(info.stats.num_input_records);
    work_.seconds += 1e-6 * static_cast<double>(info.stats.elapsed_micros);
    work_.processor_seconds += 1e-6 * static_cast<double>(info.stats.cpu_micros);
  }
  Bytes compacted() {
    std::lock_guard<std::mutex> lock(mutex_);
    return compacted_;
  }
  Work work() {
    std::lock_guard<std::mutex> lock(mutex_);
    return work_;
  }
  void OnMemTableSealed(const rocksdb::MemTableInfo& info) override {
    entries_ += info.num_entries;
    memtables_++;
  }
  uint64_t memtables() const { return memtables_; }
  double EntriesPerFlush() const {
    return memtables_ == 0 ? 0 : static_cast<double>(entries_.load()) / static_cast<double>(memtables_.load());
  }

 private:
  std::atomic<uint64_t> entries_{0}, memtables_{0};
  std::mutex mutex_;
  Bytes compacted_;  // guarded by mutex_; from level, to level
  Work work_;        // guarded by mutex_
};

// What has been written into each depth of a trie, by compactions within the depth as well: RocksDB tells its listeners
// nothing of compactions that are asked for.
Bytes TrieBytes(rocksdb::DB* db) {
  Bytes bytes;
  TrieStats stats;
  if (!GetTrieStats(db, db->DefaultColumnFamily(), &stats).ok()) return bytes;
  for (const TrieDepthStats& depth : stats.depths) bytes[{-1, depth.depth}] = depth.written_bytes;
  return bytes;
}

// Bytes by step for each byte put in.
nlohmann::ordered_json Steps(const Bytes& before, const Bytes& after, double ingested) {
  nlohmann::ordered_json json = nlohmann::ordered_json::object();
  for (const auto& [step, bytes] : after) {
    const auto found = before.find(step);
    const uint64_t written = bytes - (found == before.end() ? 0 : found->second);
    if (written == 0) continue;
    const std::string to = std::to_string(step.second);
    json[step.first < 0 ? "into depth " + to : std::to_string(step.first) + " to " + to] =
        static_cast<double>(written) / ingested;
  }
  return json;
}

nlohmann::ordered_json Steps(const Report& report) {
  nlohmann::ordered_json json;
  for (const msls::WriteCost& step : report.breakdown) json[step.name] = step.value;
  return json;
}

// What requests cost besides bytes written. Compactions that are asked for, as the trie's, are not among those that
// RocksDB tells its listeners of, nor are moves.
struct Cost {
  Work work;
  bench::WriteCounters counters;
  bench::CpuSeconds cpu;
};

nlohmann::ordered_json Spent(const Cost& before, const Cost& after, uint64_t puts) {
  const double each = 1 / static_cast<double>(puts);
  const uint64_t read = after.counters.compaction_read_bytes - before.counters.compaction_read_bytes;
  nlohmann::ordered_json json;
  json["compactions"] = after.work.compactions - before.work.compactions;
  json["records_compacted_per_put"] = (after.work.records - before.work.records) * each;
  json["bytes_read_per_put"] = static_cast<double>(read) * each;
  json["compaction_seconds"] = after.work.seconds - before.work.seconds;
  json["compaction_processor_seconds"] = after.work.processor_seconds - before.work.processor_seconds;
  json["processor_seconds"] = after.cpu.process - before.cpu.process;
  json["writer_processor_seconds"] = after.cpu.thread - before.cpu.thread;
  json["stalled_seconds"] = 1e-6 * static_cast<double>(after.counters.stall_micros - before.counters.stall_micros);
  return json;
}

class Run {
 public:
  // With `pace` Put waits for compactions whenever a memtable has been sealed.
  Run(rocksdb::DB* db, size_t value_bytes, const Counter* pace, bool trie)
      : db_(db), value_bytes_(value_bytes), pace_(pace), trie_(trie), noise_(1 << 20, 0) {
    std::mt19937_64 random(1);
    for (char& c : noise_) c = static_cast<char>(random());
    write_.disableWAL = true;
  }

  rocksdb::Status Put(uint32_t key) {
    char text[kKeyBytes + 1];
    WriteKey(key, text);
    puts_++;
    at_ = (at_ + 61) % (noise_.size() - value_bytes_);
    const rocksdb::Status s =
        db_->Put(write_, rocksdb::Slice(text, kKeyBytes), rocksdb::Slice(noise_.data() + at_, value_bytes_));
    if (!s.ok() || pace_ == nullptr || pace_->memtables() == seen_) return s;
    seen_ = pace_->memtables();
    return Settle();
  }

  // Lets what the tuner reports be noted after each of its looks.
  void Watch() { watch_ = true; }
  const nlohmann::ordered_json& looks() const { return looks_; }

  // Requests, at least `count`, until level 0 has just been emptied: what is counted begins and ends there, or a part
  // of a compaction that is a good part of all would be counted or not. *done: how many. Without pace exactly `count`.
  rocksdb::Status Requests(msls::Workload* workload, uint64_t count, uint64_t* done) {
    rocksdb::Status s;
    for (*done = 0; *done < count && s.ok(); ++*done) s = Put(workload->Draw());
    emptied_ = false;
    for (; s.ok() && pace_ != nullptr && !emptied_; ++*done) s = Put(workload->Draw());
    return s;
  }

  // Waits until nothing is left to flush or compact.
  rocksdb::Status Settle() {
    rocksdb::Status s = db_->WaitForCompact(rocksdb::WaitForCompactOptions());
    if (s.ok() && trie_) s = WaitForTrieCompaction(db_);
    std::string files = "0";
    db_->GetProperty("rocksdb.num-files-at-level0", &files);
    const int level0 = atoi(files.c_str());
    emptied_ = emptied_ || level0 < level0_;
    level0_ = level0;
    if (watch_) Note();
    return s;
  }

 private:
  void Note() {
    TunerReport report;
    if (!GetTunerReport(db_, &report) || report.looks == seen_looks_) return;
    seen_looks_ = report.looks;
    nlohmann::ordered_json look;
    look["puts"] = puts_;
    look["keys"] = std::llround(report.keys);
    look["skew"] = report.skew;
    look["sampled_keys"] = report.sampled_keys;
    look["writes_of_top_tenth"] = report.writes_of_top_tenth;
    look["measured"] = report.measured;
    look["predicted"] = report.predicted;
    look["predicted_best"] = report.predicted_best;
    look["changes"] = report.changes;
    look["rollbacks"] = report.rollbacks;
    look["did"] = report.log.empty() || report.log.back() == seen_line_ ? "" : report.log.back();
    if (!report.log.empty()) seen_line_ = report.log.back();
    fprintf(stderr, "%s\n", look.dump().c_str());
    looks_.push_back(std::move(look));
  }

  rocksdb::DB* const db_;
  const size_t value_bytes_;
  const Counter* const pace_;
  const bool trie_;
  bool watch_ = false;
  uint64_t puts_ = 0;
  uint64_t seen_looks_ = 0;
  std::string seen_line_;
  nlohmann::ordered_json looks_ = nlohmann::ordered_json::array();
  int level0_ = 0;        // files there, at the last look
  bool emptied_ = false;  // fewer than at the look before, at one of them
  uint64_t seen_ = 0;
  std::string noise_;
  size_t at_ = 0;
  rocksdb::WriteOptions write_;
};

int Main(int argc, char** argv) {
  Arguments arguments("msls_runs", "Measures the write amplification of RocksDB and compares it with the model.");
  std::string path, pick = "kMinOverlappingRatio", engine = "leveled";
  uint64_t window = 32, keys = 5000000, value = 84, write_buffer = 64 << 20, base = 256 << 20, file = 64 << 20,
           warm = 0, requests = 0, seed = 1, device = 0;
  double zipf = 0, space = 0, shift_to = 0;
  int threads = 2, level0 = 4;
  bool optimize = false, static_levels = false, unpaced = false, simulate = false, tune = false;
  arguments.Text("db", &path, "DIR", "where the database is put; emptied first");
  arguments.Choice("engine", &engine, {"leveled", "trie"}, "what is run");
  arguments.Count("keys", &keys, "distinct keys", 2, 2000000000);
  arguments.Count("value-bytes", &value, "bytes of a value; keys have 16", 1, 65536);
  arguments.Number("zipf", &zipf, "skew of the popularity; 0: uniform", 0, 8);
  arguments.Choice("compaction-pri", &pick,
                   {"kByCompensatedSize", "kOldestLargestSeqFirst", "kOldestSmallestSeqFirst", "kMinOverlappingRatio",
                    "kRoundRobin"},
                   "leveled: which file is compacted next");
  arguments.Switch("static-levels", &static_levels, "leveled: without level_compaction_dynamic_level_bytes");
  arguments.Switch("optimize", &optimize, "leveled: with the level sizes that the optimizer finds");
  arguments.Number("max-space", &space, "with --optimize: bytes kept for each live byte; 0: no limit", 0, 1e6);
  arguments.Switch("unpaced", &unpaced, "do not wait for compactions after each memtable");
  arguments.Bytes("write-rate", &device, "bytes per second that flushes and compactions may write, as a slow device");
  arguments.Number("shift-to", &shift_to, "as many requests again with this skew of the popularity", 0, 8);
  arguments.Switch("tune", &tune, "leveled: with the tuner, which may change level sizes; implies --static-levels");
  arguments.Count("window", &window, "with --tune: flushes between two looks of the tuner", 1);
  arguments.Switch("simulate", &simulate, "play the same store in the simulator as well");
  arguments.Bytes("write-buffer", &write_buffer, "write_buffer_size", 65536);
  arguments.Bytes("level-base", &base, "max_bytes_for_level_base", 65536);
  arguments.Bytes("file-size", &file, "target_file_size_base", 65536);
  arguments.Integer("level0-trigger", &level0, "level0_file_num_compaction_trigger", 1, 1000);
  arguments.Integer("threads", &threads, "background threads", 1, 64);
  arguments.Count("warm", &warm, "requests before counting (default: as many as keys)");
  arguments.Count("requests", &requests, "requests that are counted (default: three times the keys)", 1);
  arguments.Count("seed", &seed, "of the requests");
  if (!arguments.Parse(argc, argv)) return arguments.exit_code();
  if (path.empty()) return arguments.UsageError("--db says where the database is put; it must be given");
  if (!arguments.Given("warm")) warm = keys;
  if (!arguments.Given("requests")) requests = 3 * keys;
  const bool trie = engine == "trie";
  if (tune && (trie || unpaced)) return arguments.UsageError("--tune is for the leveled engine, without --unpaced");

  Popularity popularity;
  msls::Status s = Popularity::Zipf(static_cast<double>(keys), zipf, &popularity);
  if (!s.ok()) return arguments.UsageError(s.message());
  StoreShape store = StoreShape::Default(trie ? msls::Design::kTrie : msls::Design::kRocksDB);
  store.log = false;
  // First guesses, for the optimizer; the model is told what was measured.
  store.item_bytes = static_cast<double>(kKeyBytes + value);
  store.write_buffer_bytes = static_cast<double>(write_buffer) * store.item_bytes / (store.item_bytes + 48);
  store.level0_trigger = level0;
  store.file_bytes = static_cast<double>(file);
  store.level_base_bytes = static_cast<double>(base);
  store.dynamic_level_bytes = !static_levels && !tune;
  s = msls::FilePickFromName(pick, &store.pick);
  if (s.ok() && optimize && !trie) {
    msls::Optimum optimum;
    msls::OptimizeOptions limits;
    limits.max_space_amplification = space;
    s = Optimize(store, popularity, limits, &optimum);
    if (s.ok()) store = optimum.store;
  }
  if (!s.ok()) return arguments.UsageError(s.message());

  rocksdb::Options options;
  options.create_if_missing = true;
  options.compression = rocksdb::kNoCompression;
  options.max_background_jobs = threads;
  options.statistics = rocksdb::CreateDBStatistics();
  options.write_buffer_size = write_buffer;
  if (device != 0) options.rate_limiter.reset(rocksdb::NewGenericRateLimiter(static_cast<int64_t>(device)));
  auto counter = std::make_shared<Counter>();
  options.listeners.push_back(counter);
  rocksdb::Status status;
  const TrieOptions shape;
  if (trie) {
    status = UseTrie(&options, shape);
  } else {
    std::vector<std::pair<std::string, std::string>> named;
    s = RocksDBOptions(store, popularity, &named);
    if (!s.ok()) return Fail(s.message());
    std::unordered_map<std::string, std::string> map(named.begin(), named.end());
    map.erase("write_buffer_size");
    rocksdb::ColumnFamilyOptions family(options);
    status = rocksdb::GetColumnFamilyOptionsFromMap(rocksdb::ConfigOptions(), options, map, &family);
    options = rocksdb::Options(options, family);
  }
  if (tune && status.ok()) {
    TunerOptions tuner;
    tuner.advisory = false;
    tuner.window_flushes = window;
    tuner.min_seconds_between_changes = 0;
    status = UseTuner(&options, tuner);
  }
  rocksdb::DB* raw = nullptr;
  if (status.ok()) status = rocksdb::DestroyDB(path, options);
  if (status.ok()) status = Open(options, path, &raw);
  if (!status.ok()) return Fail(path + ": " + status.ToString());
  std::unique_ptr<rocksdb::DB> db(raw);

  Run run(db.get(), value, unpaced ? nullptr : counter.get(), trie);
  if (tune) run.Watch();
  msls::Workload workload(popularity, seed);
  for (uint64_t i = 0; i < keys && status.ok(); i++) status = run.Put(workload.Load(i));
  uint64_t done = 0;
  if (status.ok()) status = run.Requests(&workload, warm, &done);
  if (status.ok()) status = run.Settle();
  auto spent = [&] { return Cost{counter->work(), bench::ReadWriteCounters(*options.statistics), bench::ReadCpu()}; };
  const Cost cost_before = spent();
  auto compacted_by_step = [&] { return trie ? TrieBytes(db.get()) : counter->compacted(); };
  const Bytes steps = compacted_by_step();
  const double start = Seconds();
  if (status.ok()) status = run.Requests(&workload, requests, &requests);
  const double load_seconds = Seconds() - start;
  if (status.ok()) status = run.Settle();
  const double seconds = Seconds() - start;
  if (!status.ok()) return Fail(status.ToString());
  const Cost cost_after = spent();
  const bench::WriteCounters &before = cost_before.counters, &after = cost_after.counters;
  const double flush_bytes = static_cast<double>(after.flush_bytes - before.flush_bytes);
  const double compaction_bytes = static_cast<double>(after.compaction_bytes - before.compaction_bytes);

  uint64_t shifted = requests;
  Popularity popularity_after;
  if (arguments.Given("shift-to") && status.ok()) {
    s = Popularity::Zipf(static_cast<double>(keys), shift_to, &popularity_after);
    if (!s.ok()) return Fail(s.message());
    msls::Workload workload_after(popularity_after, seed);
    status = run.Requests(&workload_after, requests, &shifted);
  }
  const bench::WriteCounters end = bench::ReadWriteCounters(*options.statistics);
  const double shifted_bytes =
      static_cast<double>(end.flush_bytes + end.compaction_bytes - after.flush_bytes - after.compaction_bytes);

  rocksdb::TablePropertiesCollection tables;
  status = db->GetPropertiesOfAllTables(&tables);
  rocksdb::ColumnFamilyMetaData metadata;
  db->GetColumnFamilyMetaData(&metadata);
  double entries = 0;
  for (const auto& table : tables) entries += static_cast<double>(table.second->num_entries);
  if (!status.ok() || entries == 0) return Fail("The tables cannot be read: " + status.ToString());
  store.item_bytes = static_cast<double>(metadata.size) / entries;
  store.write_buffer_bytes = std::max(1.0, counter->EntriesPerFlush()) * store.item_bytes;
  if (trie) SetTrieShape(shape, static_cast<double>(kKeyBytes + value), store.item_bytes, &store);
  Report model;
  s = Model(store, popularity, &model);
  if (!s.ok()) return Fail(s.message());

  const double ingested = static_cast<double>(requests) * store.item_bytes;
  const double measured = (flush_bytes + compaction_bytes) / ingested;
  nlohmann::ordered_json json;
  json["engine"] = engine;
  json["keys"] = keys;
  json["popularity"] = popularity.name();
  json["compaction_pri"] = trie ? "" : pick;
  json["optimized"] = optimize;
  json["item_bytes_on_disk"] = store.item_bytes;
  json["items_per_flush"] = counter->EntriesPerFlush();
  json["level_targets"] = store.level_bytes;
  json["measured"] = measured;
  json["measured_flush"] = flush_bytes / ingested;
  json["model"] = model.write_amplification;
  json["error_percent"] = 100 * (model.write_amplification / measured - 1);
  json["measured_space"] = entries / static_cast<double>(keys);
  json["model_space"] = model.space_amplification;
  json["measured_steps"] = Steps(steps, compacted_by_step(), ingested);
  json["model_steps"] = Steps(model);
  if (simulate) {
    Report simulation;
    msls::SimulationOptions play;
    play.seed = seed;
    play.warm_requests = static_cast<double>(warm);
    play.requests = std::max(static_cast<double>(requests), 200 * store.write_buffer_bytes / store.item_bytes);
    s = Simulate(store, popularity, play, &simulation);
    if (!s.ok()) return Fail(s.message());
    json["simulation"] = simulation.write_amplification;
    json["simulation_space"] = simulation.space_amplification;
    json["simulation_steps"] = Steps(simulation);
  }
  if (arguments.Given("shift-to")) {
    json["shifted_to"] = popularity_after.name();
    json["measured_after_shift"] = shifted_bytes / (static_cast<double>(shifted) * store.item_bytes);
  }
  if (tune) json["looks"] = run.looks();
  json["cost"] = Spent(cost_before, cost_after, requests);
  json["puts_per_second"] = static_cast<double>(requests) / load_seconds;
  json["puts_per_second_settled"] = static_cast<double>(requests) / seconds;  // until nothing is left to compact
  json["seconds"] = seconds;
  printf("%s\n", json.dump().c_str());
  db.reset();
  status = rocksdb::DestroyDB(path, options);
  return status.ok() ? kExitOk : Fail(status.ToString());
}

}  // namespace
}  // namespace cairn

int main(int argc, char** argv) {
  try {
    return cairn::Main(argc, argv);
  } catch (const std::exception& error) {
    fprintf(stderr, "msls_runs: %s\n", error.what());
    return 1;
  }
}
