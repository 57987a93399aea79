// msls_runs: a run of RocksDB (leveled or the trie) against what the model says of it. Every key is written once in
// random order, then requests by popularity warm up, then requests are counted. Written bytes are those of flushes and
// compactions, by RocksDB's own tickers; the log is left out on both sides. The model gets the item size on disk and
// the items in a flush as they were measured.
//
//   build/bin/msls_runs --db=DIR --keys=5M --zipf=0.99 --compaction-pri=kRoundRobin
//   build/bin/msls_runs --db=DIR --keys=5M --optimize
//
// db_bench/msls_grid runs the whole table of docs/msls.md. The directory is emptied first.

#include <algorithm>
#include <atomic>
#include <chrono>
#include <cmath>
#include <cstdio>
#include <exception>
#include <nlohmann/json.hpp>
#include <random>
#include <string>
#include <unordered_map>

#include "cairn/db.h"
#include "cairn/msls.h"
#include "cairn/trie.h"
#include "msls/workload.h"
#include "rocksdb/convenience.h"
#include "rocksdb/db.h"
#include "rocksdb/statistics.h"
#include "rocksdb/table.h"
#include "tools/arguments.h"
#include "tools/commands.h"
#include "trie_table/trie_options.h"

namespace cairn {
namespace {

using msls::Popularity;
using msls::Report;
using msls::Store;

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

// Counts items of flushes, which the model must be told.
class FlushCounter : public rocksdb::EventListener {
 public:
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
};

class Run {
 public:
  // With `pace` Put waits for compactions whenever a memtable has been sealed.
  Run(rocksdb::DB* db, rocksdb::Statistics* statistics, size_t value_bytes, const FlushCounter* pace)
      : db_(db), statistics_(statistics), value_bytes_(value_bytes), pace_(pace), noise_(1 << 20, 0) {
    std::mt19937_64 random(1);
    for (char& c : noise_) c = static_cast<char>(random());
    write_.disableWAL = true;
  }

  rocksdb::Status Put(uint32_t key) {
    char text[kKeyBytes + 1];
    WriteKey(key, text);
    if (pace_ != nullptr && pace_->memtables() != seen_) {
      seen_ = pace_->memtables();
      const rocksdb::Status s = Settle();
      if (!s.ok()) return s;
    }
    at_ = (at_ + 61) % (noise_.size() - value_bytes_);
    return db_->Put(write_, rocksdb::Slice(text, kKeyBytes), rocksdb::Slice(noise_.data() + at_, value_bytes_));
  }

  // Waits until nothing is left to flush or compact.
  rocksdb::Status Settle() { return db_->WaitForCompact(rocksdb::WaitForCompactOptions()); }

  uint64_t Flushed() const { return statistics_->getTickerCount(rocksdb::FLUSH_WRITE_BYTES); }
  uint64_t Compacted() const { return statistics_->getTickerCount(rocksdb::COMPACT_WRITE_BYTES); }

 private:
  rocksdb::DB* const db_;
  rocksdb::Statistics* const statistics_;
  const size_t value_bytes_;
  const FlushCounter* const pace_;
  uint64_t seen_ = 0;
  std::string noise_;
  size_t at_ = 0;
  rocksdb::WriteOptions write_;
};

int Main(int argc, char** argv) {
  Arguments arguments("msls_runs", "Measures the write amplification of RocksDB and compares it with the model.");
  std::string path, pick = "kMinOverlappingRatio", engine = "leveled";
  uint64_t keys = 5000000, value = 84, write_buffer = 64 << 20, base = 256 << 20, file = 64 << 20, warm = 0,
           requests = 0, seed = 1;
  double zipf = 0, space = 0;
  int threads = 2, level0 = 4;
  bool optimize = false, static_levels = false, unpaced = false;
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

  Popularity popularity;
  msls::Status s = Popularity::Zipf(static_cast<double>(keys), zipf, &popularity);
  if (!s.ok()) return arguments.UsageError(s.message());
  Store store = Store::Default(trie ? msls::Design::kTrie : msls::Design::kRocksDB);
  store.log = false;
  // First guesses, for the optimizer; the model is told what was measured.
  store.item_bytes = static_cast<double>(kKeyBytes + value);
  store.write_buffer_bytes = static_cast<double>(write_buffer) * store.item_bytes / (store.item_bytes + 48);
  store.level0_trigger = level0;
  store.file_bytes = static_cast<double>(file);
  store.level_base_bytes = static_cast<double>(base);
  store.dynamic_level_bytes = !static_levels;
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
  auto flushes = std::make_shared<FlushCounter>();
  options.listeners.push_back(flushes);
  rocksdb::Status status;
  if (trie) {
    status = UseTrie(&options);
    TrieOptions shape;
    if (status.ok() && IsTrie(options, &shape)) {
      store.root_trigger = shape.root_trigger;
      store.column_trigger = TriggerOf(shape);
      store.fan_out = shape.fan_out;
      store.grow_liveness = shape.grow_liveness;
      store.space_bound = shape.space_bound;
    }
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
  rocksdb::DB* raw = nullptr;
  if (status.ok()) status = rocksdb::DestroyDB(path, options);
  if (status.ok()) status = Open(options, path, &raw);
  if (!status.ok()) return Fail(path + ": " + status.ToString());
  std::unique_ptr<rocksdb::DB> db(raw);

  Run run(db.get(), options.statistics.get(), value, unpaced ? nullptr : flushes.get());
  msls::Workload workload(popularity, seed);
  for (uint64_t i = 0; i < keys && status.ok(); i++) status = run.Put(workload.Load(i));
  for (uint64_t i = 0; i < warm && status.ok(); i++) status = run.Put(workload.Draw());
  if (status.ok()) status = run.Settle();
  const uint64_t flushed = run.Flushed(), compacted = run.Compacted();
  const double start = Seconds();
  for (uint64_t i = 0; i < requests && status.ok(); i++) status = run.Put(workload.Draw());
  const double load_seconds = Seconds() - start;
  if (status.ok()) status = run.Settle();
  const double seconds = Seconds() - start;
  if (!status.ok()) return Fail(status.ToString());
  const double flush_bytes = static_cast<double>(run.Flushed() - flushed);
  const double compaction_bytes = static_cast<double>(run.Compacted() - compacted);

  rocksdb::TablePropertiesCollection tables;
  status = db->GetPropertiesOfAllTables(&tables);
  rocksdb::ColumnFamilyMetaData metadata;
  db->GetColumnFamilyMetaData(&metadata);
  double entries = 0;
  for (const auto& table : tables) entries += static_cast<double>(table.second->num_entries);
  if (!status.ok() || entries == 0) return Fail("The tables cannot be read: " + status.ToString());
  store.item_bytes = static_cast<double>(metadata.size) / entries;
  store.write_buffer_bytes = std::max(1.0, flushes->EntriesPerFlush()) * store.item_bytes;
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
  json["items_per_flush"] = flushes->EntriesPerFlush();
  json["level_targets"] = store.level_bytes;
  json["measured"] = measured;
  json["measured_flush"] = flush_bytes / ingested;
  json["model"] = model.write_amplification;
  json["error_percent"] = 100 * (model.write_amplification / measured - 1);
  json["measured_space"] = entries / static_cast<double>(keys);
  json["model_space"] = model.space_amplification;
  json["puts_per_second"] = static_cast<double>(requests) / load_seconds;
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
