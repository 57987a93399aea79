// msls_runs: a run of RocksDB (leveled, round_robin or the trie) against what the model says of it. Every key is
// written once in random order, then requests by popularity warm up, then requests are counted. Written bytes are those
// of flushes and compactions, by RocksDB's own tickers; the log is left out on both sides. The model gets the item size
// on disk and the items in a flush as they were measured.
//
//   build/bin/msls_runs --db=DIR --keys=5M --zipf=0.99 --compaction-pri=kRoundRobin
//   build/bin/msls_runs --db=DIR --keys=5M --optimize
//   build/bin/msls_runs --db=DIR --keys=5M --engine=round_robin
//
// db_bench/msls_grid runs a table of these and compares it with the model. The directory is emptied first.

#include <algorithm>
#include <atomic>
#include <chrono>
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
#include "cairn/round_robin.h"
#include "cairn/trie.h"
#include "db_bench/measure.h"
#include "msls/model_options.h"
#include "msls/workload.h"
#include "rocksdb/convenience.h"
#include "rocksdb/db.h"
#include "rocksdb/port/open_into.h"
#include "rocksdb/rate_limiter.h"
#include "rocksdb/statistics.h"
#include "rocksdb/table.h"
#include "tools/arguments.h"
#include "tools/commands.h"

namespace cairn {
namespace {

using msls::Popularity;
using msls::Report;
using msls::StoreShape;

constexpr size_t kKeyBytes = 16;
// What an entry takes in a block-based table besides key and value.
constexpr size_t kTableOverhead = 9;

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
    at_ = (at_ + 61) % (noise_.size() - value_bytes_);
    const rocksdb::Status s =
        db_->Put(write_, rocksdb::Slice(text, kKeyBytes), rocksdb::Slice(noise_.data() + at_, value_bytes_));
    if (!s.ok() || pace_ == nullptr || pace_->memtables() == seen_) return s;
    seen_ = pace_->memtables();
    return Settle();
  }

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
    return s;
  }

 private:
  rocksdb::DB* const db_;
  const size_t value_bytes_;
  const Counter* const pace_;
  const bool trie_;
  int level0_ = 0;        // files there, at the last look
  bool emptied_ = false;  // fewer than at the look before, at one of them
  uint64_t seen_ = 0;
  std::string noise_;
  size_t at_ = 0;
  rocksdb::WriteOptions write_;
};

// What was asked for.
struct Settings {
  std::string path, pick = "kMinOverlappingRatio", engine = "leveled", order = "round_robin";
  uint64_t keys = 5000000, value = 84, write_buffer = 64 << 20, base = 256 << 20, file = 64 << 20, warm = 0,
           requests = 0, seed = 1, device = 0;
  double zipf = 0;
  int threads = 2, level0 = 4;
  bool optimize = false, unpaced = false, simulate = false;

  bool trie() const { return engine == "trie"; }
  bool round_robin() const { return engine == "round_robin"; }
};

// False after a message, with the exit code in `arguments`.
bool ParseSettings(int argc, char** argv, Arguments* arguments, Settings* settings) {
  arguments->Text("db", &settings->path, "DIR", "where the database is put; emptied first");
  arguments->Choice("engine", &settings->engine, {"leveled", "round_robin", "trie"}, "what is run");
  arguments->Count("keys", &settings->keys, "distinct keys", 2, 2000000000);
  arguments->Count("value-bytes", &settings->value, "bytes of a value; keys have 16", 1, 65536);
  arguments->Number("zipf", &settings->zipf, "skew of the popularity; 0: uniform", 0, 8);
  arguments->Choice("compaction-pri", &settings->pick,
                    {"kByCompensatedSize", "kOldestLargestSeqFirst", "kOldestSmallestSeqFirst", "kMinOverlappingRatio",
                     "kRoundRobin"},
                    "leveled: which file is compacted next");
  arguments->Choice("pick", &settings->order, {"round_robin", "best"}, "round_robin: the engine's option");
  arguments->Switch("optimize", &settings->optimize, "leveled: with the level sizes that the optimizer finds");
  arguments->Switch("unpaced", &settings->unpaced, "do not wait for compactions after each memtable");
  arguments->Bytes("write-rate", &settings->device,
                   "bytes per second that flushes and compactions may write, as a slow device");
  arguments->Switch("simulate", &settings->simulate, "play the same store in the simulator as well");
  arguments->Bytes("write-buffer", &settings->write_buffer, "write_buffer_size", 65536);
  arguments->Bytes("level-base", &settings->base, "max_bytes_for_level_base", 65536);
  arguments->Bytes("file-size", &settings->file, "target_file_size_base", 65536);
  arguments->Integer("level0-trigger", &settings->level0, "level0_file_num_compaction_trigger", 1, 1000);
  arguments->Integer("threads", &settings->threads, "background threads", 1, 64);
  arguments->Count("warm", &settings->warm, "requests before counting (default: as many as keys)");
  arguments->Count("requests", &settings->requests, "requests that are counted (default: three times the keys)", 1);
  arguments->Count("seed", &settings->seed, "of the requests");
  if (!arguments->Parse(argc, argv)) return false;
  if (!arguments->Given("warm")) settings->warm = settings->keys;
  if (!arguments->Given("requests")) settings->requests = 3 * settings->keys;
  return true;
}

// What the optimizer and RocksDB's options begin with; the model is told what was measured.
IndexStatus FirstShape(const Settings& settings, const Popularity& popularity, StoreShape* store) {
  *store = StoreShape::Default(settings.trie() ? msls::Design::kTrie : msls::Design::kRocksDB);
  store->log = false;
  store->item_bytes = static_cast<double>(kKeyBytes + settings.value);
  store->write_buffer_bytes = static_cast<double>(settings.write_buffer) * store->item_bytes / (store->item_bytes + 48);
  store->level0_trigger = settings.level0;
  store->file_bytes = static_cast<double>(settings.file);
  store->level_base_bytes = static_cast<double>(settings.base);
  IndexStatus s = msls::FilePickFromName(settings.pick, &store->pick);
  if (!s.ok() || !settings.optimize || settings.trie()) return s;
  msls::Optimum optimum;
  s = Optimize(*store, popularity, msls::OptimizeOptions(), &optimum);
  if (s.ok()) *store = optimum.store;
  return s;
}

// The engine with the workload given, and the shape that its options then have.
rocksdb::Status UseRoundRobinEngine(const Settings& settings, StoreShape* store, rocksdb::Options* options) {
  options->level0_file_num_compaction_trigger = settings.level0;
  options->target_file_size_base = settings.file;
  options->max_bytes_for_level_base = settings.base;
  RoundRobinOptions round_robin;
  round_robin.pick = settings.order;
  round_robin.keys = settings.keys;
  round_robin.item_bytes = kKeyBytes + settings.value + kTableOverhead;
  round_robin.zipf = settings.zipf;
  round_robin.tune = false;
  const rocksdb::Status s = UseRoundRobin(options, round_robin);
  store->dynamic_level_bytes = false;
  store->pick = PickOf(options->compaction_pri);
  store->level_bytes.clear();
  const double data = static_cast<double>(settings.keys) * static_cast<double>(round_robin.item_bytes);
  if (!s.ok() || AppendLevelTargets(*options, data, &store->level_bytes)) return s;
  return rocksdb::Status::InvalidArgument("the level sizes do not grow from level to level");
}

rocksdb::Status OptionsOf(const Settings& settings, const Popularity& popularity, std::shared_ptr<Counter> counter,
                          StoreShape* shape, rocksdb::Options* options) {
  const StoreShape& store = *shape;
  options->create_if_missing = true;
  options->compression = rocksdb::kNoCompression;
  options->max_background_jobs = settings.threads;
  options->statistics = rocksdb::CreateDBStatistics();
  options->write_buffer_size = settings.write_buffer;
  if (settings.device != 0) {
    options->rate_limiter.reset(rocksdb::NewGenericRateLimiter(static_cast<int64_t>(settings.device)));
  }
  options->listeners.push_back(std::move(counter));
  if (settings.trie()) return UseTrie(options);
  if (settings.round_robin()) return UseRoundRobinEngine(settings, shape, options);
  std::vector<std::pair<std::string, std::string>> named;
  const IndexStatus s = RocksDBOptions(store, popularity, &named);
  if (!s.ok()) return rocksdb::Status::InvalidArgument(s.message());
  std::unordered_map<std::string, std::string> map(named.begin(), named.end());
  map.erase("write_buffer_size");
  rocksdb::ColumnFamilyOptions family(*options);
  const rocksdb::Status status =
      rocksdb::GetColumnFamilyOptionsFromMap(rocksdb::ConfigOptions(), *options, map, &family);
  *options = rocksdb::Options(*options, family);
  return status;
}

// What a run wrote and took.
struct Measured {
  Cost before, after;
  Bytes steps_before, steps_after;  // compacted, by step
  uint64_t requests = 0;
  double load_seconds = 0, settled_seconds = 0;

  double FlushBytes() const { return static_cast<double>(after.counters.flush_bytes - before.counters.flush_bytes); }
  double CompactionBytes() const {
    return static_cast<double>(after.counters.compaction_bytes - before.counters.compaction_bytes);
  }
};

rocksdb::Status Measure(const Settings& settings, const Popularity& popularity, rocksdb::DB* db,
                        const rocksdb::Statistics& statistics, Counter* counter, Measured* measured) {
  Run run(db, settings.value, settings.unpaced ? nullptr : counter, settings.trie());
  const auto spent = [&] { return Cost{counter->work(), bench::ReadWriteCounters(statistics), bench::ReadCpu()}; };
  const auto steps = [&] { return settings.trie() ? TrieBytes(db) : counter->compacted(); };
  rocksdb::Status status;
  msls::Workload workload(popularity, settings.seed);
  for (uint64_t i = 0; i < settings.keys && status.ok(); i++) status = run.Put(workload.Load(i));
  uint64_t done = 0;
  if (status.ok()) status = run.Requests(&workload, settings.warm, &done);
  if (status.ok()) status = run.Settle();
  measured->before = spent();
  measured->steps_before = steps();
  const double start = Seconds();
  if (status.ok()) status = run.Requests(&workload, settings.requests, &measured->requests);
  measured->load_seconds = Seconds() - start;
  if (status.ok()) status = run.Settle();
  measured->settled_seconds = Seconds() - start;
  measured->after = spent();
  measured->steps_after = steps();
  return status;
}

// The shape of what lies in the database now, and how many items that are.
rocksdb::Status MeasureShape(const Settings& settings, const Counter& counter, rocksdb::DB* db, StoreShape* store,
                             double* entries) {
  rocksdb::TablePropertiesCollection tables;
  const rocksdb::Status status = db->GetPropertiesOfAllTables(&tables);
  rocksdb::ColumnFamilyMetaData metadata;
  db->GetColumnFamilyMetaData(&metadata);
  *entries = 0;
  for (const auto& table : tables) *entries += static_cast<double>(table.second->num_entries);
  if (!status.ok()) return status;
  if (*entries == 0) return rocksdb::Status::NotFound("no table has an item");
  store->item_bytes = static_cast<double>(metadata.size) / *entries;
  store->write_buffer_bytes = std::max(1.0, counter.EntriesPerFlush()) * store->item_bytes;
  if (settings.trie()) {
    SetTrieShape(HashTrieOptions(), static_cast<double>(kKeyBytes + settings.value), store->item_bytes, store);
  }
  return status;
}

IndexStatus AddSimulation(const Settings& settings, const StoreShape& store, const Popularity& popularity,
                          uint64_t requests, nlohmann::ordered_json* json) {
  Report simulation;
  msls::SimulationOptions play;
  play.seed = settings.seed;
  play.warm_requests = static_cast<double>(settings.warm);
  play.requests = std::max(static_cast<double>(requests), 200 * store.write_buffer_bytes / store.item_bytes);
  const IndexStatus s = Simulate(store, popularity, play, &simulation);
  if (!s.ok()) return s;
  (*json)["simulation"] = simulation.write_amplification;
  (*json)["simulation_space"] = simulation.space_amplification;
  (*json)["simulation_steps"] = Steps(simulation);
  return s;
}

IndexStatus ToJson(const Settings& settings, const StoreShape& store, const Popularity& popularity,
                   const Counter& counter, const Measured& measured, double entries, nlohmann::ordered_json* to) {
  Report model;
  IndexStatus s = Model(store, popularity, &model);
  if (!s.ok()) return s;
  const auto requests = static_cast<double>(measured.requests);
  const double ingested = requests * store.item_bytes;
  const double written = (measured.FlushBytes() + measured.CompactionBytes()) / ingested;
  nlohmann::ordered_json& json = *to;
  json["engine"] = settings.engine;
  json["keys"] = settings.keys;
  json["popularity"] = popularity.name();
  json["compaction_pri"] = settings.trie() ? "" : FilePickName(store.pick);
  json["optimized"] = settings.optimize;
  json["item_bytes_on_disk"] = store.item_bytes;
  json["items_per_flush"] = counter.EntriesPerFlush();
  json["level_targets"] = store.level_bytes;
  json["measured"] = written;
  json["measured_flush"] = measured.FlushBytes() / ingested;
  json["model"] = model.write_amplification;
  json["error_percent"] = 100 * (model.write_amplification / written - 1);
  json["measured_space"] = entries / static_cast<double>(settings.keys);
  json["model_space"] = model.space_amplification;
  json["measured_steps"] = Steps(measured.steps_before, measured.steps_after, ingested);
  json["model_steps"] = Steps(model);
  if (settings.simulate) s = AddSimulation(settings, store, popularity, measured.requests, to);
  json["cost"] = Spent(measured.before, measured.after, measured.requests);
  json["puts_per_second"] = requests / measured.load_seconds;
  json["puts_per_second_settled"] = requests / measured.settled_seconds;  // until nothing is left to compact
  json["seconds"] = measured.settled_seconds;
  return s;
}

int Main(int argc, char** argv) {
  Arguments arguments("msls_runs", "Measures the write amplification of RocksDB and compares it with the model.");
  Settings settings;
  if (!ParseSettings(argc, argv, &arguments, &settings)) return arguments.exit_code();
  if (settings.path.empty()) return arguments.UsageError("--db says where the database is put; it must be given");
  Popularity popularity;
  StoreShape store;
  const auto keys = static_cast<double>(settings.keys);
  IndexStatus s = Popularity::Zipf(keys, settings.zipf, &popularity);
  if (s.ok()) s = FirstShape(settings, popularity, &store);
  if (!s.ok()) return arguments.UsageError(s.message());

  const auto counter = std::make_shared<Counter>();
  rocksdb::Options options;
  rocksdb::Status status = OptionsOf(settings, popularity, counter, &store, &options);
  std::unique_ptr<rocksdb::DB> db;
  if (status.ok()) status = rocksdb::DestroyDB(settings.path, options);
  if (status.ok()) status = Open(options, settings.path, port::Into(&db));
  if (!status.ok()) return Fail(settings.path + ": " + status.ToString());

  Measured measured;
  double entries = 0;
  status = Measure(settings, popularity, db.get(), *options.statistics, counter.get(), &measured);
  if (status.ok()) status = MeasureShape(settings, *counter, db.get(), &store, &entries);
  if (!status.ok()) return Fail(status.ToString());
  nlohmann::ordered_json json;
  s = ToJson(settings, store, popularity, *counter, measured, entries, &json);
  if (!s.ok()) return Fail(s.message());
  printf("%s\n", json.dump().c_str());
  db.reset();
  status = rocksdb::DestroyDB(settings.path, options);
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
