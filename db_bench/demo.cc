// cairn_demo: one real data set, several engines, the same memory; every key read back and compared byte by byte.
//
// Each engine gets the same operations in the same order: all items in random order, then replacements and deletes of
// random items. Then everything is settled, and every key is read, present or deleted.

#include <gflags/gflags.h>

#include <algorithm>
#include <chrono>
#include <cstdio>
#include <fstream>
#include <memory>
#include <sstream>
#include <string>
#include <vector>

#include "db_bench/engines.h"
#include "db_bench/items.h"
#include "db_bench/keys.h"
#include "db_bench/measure.h"
#include "db_bench/report.h"
#include "msls/workload.h"
#include "rocksdb/db.h"

DEFINE_uint64(items, 0, "Make up so many items, with the sizes of the package index; 0: the package index itself");
DEFINE_string(file, "", "Take the items from this file: one a line, key, tab, value");
DEFINE_string(engines, "leveled,universal,trie", "The engines to compare, the first being the measure");
DEFINE_uint64(updates_percent, 25, "Replacements after the load, in percent of the items");
DEFINE_uint64(deletes_percent, 5, "Deletes among them, in percent of the items");
DEFINE_uint64(write_buffer_size, 512 << 10, "Bytes, of each engine");
DEFINE_uint64(cache_size, 16 << 20, "Block cache, bytes, of each engine");
DEFINE_int32(background_jobs, 2, "Flushes and compactions at once, of each engine");
DEFINE_uint64(seed, 1, "Seeds order and choice of items");
DEFINE_string(db, "", "Folder to make the scratch databases in; empty: $TMPDIR, or /tmp");
DEFINE_string(json, "", "File for the results");

namespace cairn::bench {
namespace {

using Clock = std::chrono::steady_clock;
using rocksdb::Status;

double SecondsSince(Clock::time_point start) { return std::chrono::duration<double>(Clock::now() - start).count(); }

// What every engine is told to do, and what must be there afterwards.
class Plan {
 public:
  explicit Plan(const ItemSource* items) : items_(items), operations_after_load_(0) {
    operations_after_load_ = items->count() * (FLAGS_updates_percent + FLAGS_deletes_percent) / 100;
  }

  const ItemSource& items() const { return *items_; }
  uint64_t operations() const { return items_->count() + operations_after_load_; }

  // The load order, and with another seed the read order.
  msls::Permutation Order(uint64_t seed) const { return {items_->count(), seed}; }

  static constexpr uint32_t kDeleted = ~uint32_t{0};

  // The items' versions after all operations were given to `apply(item, version)`, which may stop them by false.
  template <typename Apply>
  bool Run(std::vector<uint32_t>* versions, const Apply& apply) const {
    versions->assign(items_->count(), 0);
    const msls::Permutation order = Order(FLAGS_seed);
    for (uint64_t i = 0; i < items_->count(); i++) {
      if (!apply(order(i), 0)) {
        return false;
      }
    }
    Random64 random(FLAGS_seed);
    for (uint64_t i = 0; i < operations_after_load_; i++) {
      uint64_t item = random.Uniform(items_->count());
      bool is_delete = random.Uniform(FLAGS_updates_percent + FLAGS_deletes_percent) < FLAGS_deletes_percent;
      uint32_t version = is_delete ? kDeleted : static_cast<uint32_t>(i + 1);
      (*versions)[item] = version;
      if (!apply(item, version)) {
        return false;
      }
    }
    return true;
  }

 private:
  const ItemSource* const items_;
  uint64_t operations_after_load_;
};

struct Outcome {
  const Engine* engine = nullptr;
  uint64_t operations = 0;
  double write_seconds = 0;
  double settle_seconds = 0;
  uint64_t ingested_bytes = 0;
  uint64_t live_bytes = 0;
  uint64_t present = 0;
  uint64_t deleted = 0;
  WriteCounters written;
  uint64_t table_bytes = 0;
  uint64_t table_memory = 0;
  TreeShape shape;
  double read_seconds = 0;
  LookupCounters lookups;
};

Status Write(const Plan& plan, rocksdb::DB* db, std::vector<uint32_t>* versions, Outcome* outcome) {
  Progress bar(std::string(outcome->engine->name) + ": write", "writes", plan.operations(), 0, stderr, kBarOnly);
  Clock::time_point start = Clock::now();
  std::string key;
  std::string value;
  Status s;
  plan.Run(versions, [&](uint64_t item, uint32_t version) {
    plan.items().Key(item, &key);
    if (version == Plan::kDeleted) {
      s = db->Delete(rocksdb::WriteOptions(), key);
      value.clear();
    } else {
      plan.items().Value(item, version, &value);
      s = db->Put(rocksdb::WriteOptions(), key, value);
    }
    outcome->ingested_bytes += key.size() + value.size();
    bar.Step(++outcome->operations);
    return s.ok();
  });
  outcome->write_seconds = SecondsSince(start);
  return s;
}

// Every key, in an order that is neither that of the load nor that of any engine.
Status ReadBack(const Plan& plan, const std::vector<uint32_t>& versions, rocksdb::DB* db, Outcome* outcome) {
  Progress bar(std::string(outcome->engine->name) + ": read and compare", "keys", versions.size(), 0, stderr, kBarOnly);
  ResetLookupCounters();
  Clock::time_point start = Clock::now();
  std::string key;
  std::string expected;
  rocksdb::PinnableSlice value;
  const msls::Permutation order = plan.Order(FLAGS_seed + 1);
  for (uint64_t i = 0; i < versions.size(); i++) {
    uint64_t item = order(i);
    plan.items().Key(item, &key);
    Status s = db->Get(rocksdb::ReadOptions(), db->DefaultColumnFamily(), key, &value);
    if (versions[item] == Plan::kDeleted) {
      if (!s.IsNotFound()) {
        return s.ok() ? Status::Corruption("a deleted key is still there", key) : s;
      }
      outcome->deleted++;
    } else {
      if (!s.ok()) {
        return s.IsNotFound() ? Status::Corruption("a key is missing", key) : s;
      }
      plan.items().Value(item, versions[item], &expected);
      if (value != expected) {
        return Status::Corruption("a key has another value than was written last", key);
      }
      outcome->present++;
      outcome->live_bytes += key.size() + expected.size();
    }
    value.Reset();
    bar.Step(i);
  }
  outcome->read_seconds = SecondsSince(start);
  outcome->lookups = ReadLookupCounters();
  return Status::OK();
}

// No key that was never written, and none twice.
Status CountAll(rocksdb::DB* db, const Outcome& outcome) {
  std::unique_ptr<rocksdb::Iterator> it(db->NewIterator(rocksdb::ReadOptions()));
  uint64_t count = 0;
  for (it->SeekToFirst(); it->Valid(); it->Next()) {
    count++;
  }
  if (it->status().ok() && count != outcome.present) {
    return Status::Corruption("a scan gives " + std::to_string(count) + " keys instead of " +
                              std::to_string(outcome.present));
  }
  return it->status();
}

Status RunEngine(const Plan& plan, Outcome* outcome) {
  ScratchFolder folder;
  EngineSettings settings;
  settings.write_buffer_size = FLAGS_write_buffer_size;
  settings.block_cache_size = FLAGS_cache_size;
  settings.background_jobs = FLAGS_background_jobs;
  rocksdb::Options options;
  Status s = folder.Create(FLAGS_db, std::string("cairn_demo_") + outcome->engine->name + "_");
  if (s.ok()) {
    s = outcome->engine->configure(settings, &options);
  }
  rocksdb::DB* raw = nullptr;
  if (s.ok()) {
    s = outcome->engine->open(options, folder.path() + "/db", &raw);
  }
  if (!s.ok()) {
    return s;
  }
  std::unique_ptr<rocksdb::DB> db(raw);
  std::vector<uint32_t> versions;
  s = Write(plan, raw, &versions, outcome);
  Clock::time_point settle_start = Clock::now();
  if (s.ok()) {
    s = outcome->engine->settle(raw);
  }
  outcome->settle_seconds = SecondsSince(settle_start);
  outcome->written = ReadWriteCounters(*options.statistics);
  outcome->table_bytes = LiveTableBytes(raw);
  outcome->table_memory = TableReaderMemory(raw);
  outcome->shape = ReadShape(raw);
  if (s.ok()) {
    s = ReadBack(plan, versions, raw, outcome);
  }
  if (s.ok()) {
    s = CountAll(raw, *outcome);
  }
  Status closed = db->Close();
  return s.ok() ? closed : s;
}

double Ratio(double a, double b) { return b == 0 ? 0 : a / b; }

double WriteAmplification(const Outcome& o) {
  return Ratio(static_cast<double>(o.written.flush_bytes + o.written.compaction_bytes),
               static_cast<double>(o.ingested_bytes));
}
double SpaceAmplification(const Outcome& o) {
  return Ratio(static_cast<double>(o.table_bytes), static_cast<double>(o.live_bytes));
}
double WriteRate(const Outcome& o) { return Ratio(static_cast<double>(o.operations), o.write_seconds); }
double Lookups(const Outcome& o) { return static_cast<double>(o.present + o.deleted); }
double ReadRate(const Outcome& o) { return Ratio(Lookups(o), o.read_seconds); }
double BlocksRead(const Outcome& o) { return Ratio(static_cast<double>(o.lookups.blocks_read), Lookups(o)); }
double BlocksTouched(const Outcome& o) {
  return Ratio(static_cast<double>(o.lookups.blocks_read + o.lookups.blocks_cached), Lookups(o));
}

std::string Table(const std::vector<Outcome>& outcomes) {
  std::vector<std::vector<std::string>> rows;
  auto row = [&](const std::string& name, auto cell) {
    rows.push_back({name});
    for (const Outcome& o : outcomes) {
      rows.back().push_back(cell(o));
    }
  };
  row("", [](const Outcome& o) { return std::string(o.engine->name); });
  row("load rate, writes/s", [](const Outcome& o) { return ShortCount(WriteRate(o)); });
  row("settle after it, s", [](const Outcome& o) { return Fixed(o.settle_seconds, 1); });
  row("written to tables", [](const Outcome& o) {
    return HumanBytes(static_cast<double>(o.written.flush_bytes + o.written.compaction_bytes));
  });
  row("write amplification", [](const Outcome& o) { return Fixed(WriteAmplification(o), 2); });
  row("bytes on disk", [](const Outcome& o) { return HumanBytes(static_cast<double>(o.table_bytes)); });
  row("space amplification", [](const Outcome& o) { return Fixed(SpaceAmplification(o), 2); });
  row("read rate, lookups/s", [](const Outcome& o) { return ShortCount(ReadRate(o)); });
  row("block reads per lookup", [](const Outcome& o) { return Fixed(BlocksRead(o), 3); });
  row("  and found in the cache", [](const Outcome& o) { return Fixed(BlocksTouched(o) - BlocksRead(o), 3); });
  row("index and filter memory", [](const Outcome& o) { return HumanBytes(static_cast<double>(o.table_memory)); });
  row("keys compared", [](const Outcome& o) { return std::to_string(o.present); });
  row("deleted keys found absent", [](const Outcome& o) { return std::to_string(o.deleted); });
  return AlignTable(rows);
}

std::string Json(const Plan& plan, const std::vector<Outcome>& outcomes) {
  JsonWriter json;
  json.BeginObject();
  json.Add("program", "cairn_demo")
      .Add("data", plan.items().Description())
      .Add("items", plan.items().count())
      .Add("updates_percent", FLAGS_updates_percent)
      .Add("deletes_percent", FLAGS_deletes_percent)
      .Add("write_buffer_size", FLAGS_write_buffer_size)
      .Add("cache_size", FLAGS_cache_size)
      .Add("background_jobs", FLAGS_background_jobs)
      .Add("seed", FLAGS_seed);
  json.BeginObject("engines");
  for (const Outcome& o : outcomes) {
    json.BeginObject(o.engine->name)
        .Add("writes", o.operations)
        .Add("writes_per_second", WriteRate(o))
        .Add("settle_seconds", o.settle_seconds)
        .Add("ingested_bytes", o.ingested_bytes)
        .Add("flush_bytes", o.written.flush_bytes)
        .Add("compaction_bytes", o.written.compaction_bytes)
        .Add("written_per_byte", WriteAmplification(o))
        .Add("live_bytes", o.live_bytes)
        .Add("table_bytes", o.table_bytes)
        .Add("space_amplification", SpaceAmplification(o))
        .Add("lookups_per_second", ReadRate(o))
        .Add("blocks_read_per_lookup", BlocksRead(o))
        .Add("blocks_touched_per_lookup", BlocksTouched(o))
        .Add("index_filter_memory_bytes", o.table_memory)
        .Add("files", o.shape.files)
        .Add("sorted_runs", o.shape.sorted_runs)
        .Add("keys_compared", o.present)
        .Add("deleted_keys_absent", o.deleted)
        .EndObject();
  }
  json.EndObject();
  json.EndObject();
  return json.text();
}

Status ReadItems(std::unique_ptr<ItemSource>* items) {
  if (FLAGS_items > 0) {
    *items = MakeUpItems(FLAGS_items);
    return Status::OK();
  }
  if (FLAGS_file.empty()) {
    return ReadPackageIndexOfThisMachine(items);
  }
  std::ifstream file(FLAGS_file);
  return file ? ReadTsv(&file, FLAGS_file, items) : Status::NotFound("cannot read " + FLAGS_file);
}

// Empty, or what is wrong with the flags.
std::string ReadFlags(std::vector<Outcome>* outcomes) {
  if (FLAGS_items > 0 && !FLAGS_file.empty()) {
    return "--items and --file exclude each other";
  }
  if (FLAGS_items > uint64_t{1} << 38) {
    return "--items may be at most 2^38";
  }
  if (FLAGS_deletes_percent > 100) {
    return "--deletes_percent may be at most 100";
  }
  std::stringstream names(FLAGS_engines);
  for (std::string name; std::getline(names, name, ',');) {
    Outcome outcome;
    outcome.engine = FindEngine(name);
    if (outcome.engine == nullptr) {
      return "unknown engine " + name + " in --engines; it may be " + EngineNames();
    }
    outcomes->push_back(outcome);
  }
  return outcomes->empty() ? "--engines names none; it may be " + EngineNames() : "";
}

// From a sample of the items.
double BuffersFilled(const Plan& plan) {
  uint64_t count = plan.items().count();
  uint64_t sample = std::min<uint64_t>(count, 10000);
  uint64_t bytes = 0;
  std::string text;
  const msls::Permutation order = plan.Order(FLAGS_seed);
  for (uint64_t i = 0; i < sample; i++) {
    uint64_t item = order(i);
    plan.items().Key(item, &text);
    bytes += text.size();
    plan.items().Value(item, 0, &text);
    bytes += text.size();
  }
  return static_cast<double>(bytes) / static_cast<double>(sample) * static_cast<double>(plan.operations()) /
         static_cast<double>(FLAGS_write_buffer_size);
}

Status Run(std::vector<Outcome>* outcomes) {
  printf("Reading the items\n");
  fflush(stdout);
  std::unique_ptr<ItemSource> items;
  Status s = ReadItems(&items);
  if (!s.ok()) {
    return s;
  }
  Plan plan(items.get());
  printf("%s\n", items->Description().c_str());
  printf(
      "Each engine: all items in random order, then %s replaced or deleted (%llu : %llu), then all read and "
      "compared.\n",
      ShortCount(static_cast<double>(plan.operations() - items->count())).c_str(),
      static_cast<unsigned long long>(FLAGS_updates_percent), static_cast<unsigned long long>(FLAGS_deletes_percent));
  printf("Each engine: write buffer %s, block cache %s, %d background jobs, WAL on, no compression.\n",
         HumanBytes(static_cast<double>(FLAGS_write_buffer_size)).c_str(),
         HumanBytes(static_cast<double>(FLAGS_cache_size)).c_str(), FLAGS_background_jobs);
  printf(
      "The buffer is small because the data are: what compaction costs depends on how many buffers the writes fill. "
      "Here\n"
      "about %s, as many as %s fill at RocksDB's usual buffer of 64 MiB.\n",
      ShortCount(BuffersFilled(plan)).c_str(), HumanBytes(BuffersFilled(plan) * (64 << 20)).c_str());
  for (Outcome& outcome : *outcomes) {
    s = RunEngine(plan, &outcome);
    if (!s.ok()) {
      return Status::Aborted(outcome.engine->name, s.ToString());
    }
    printf("%s: done, %.0f s; all %llu keys as they were written last\n", outcome.engine->name,
           outcome.write_seconds + outcome.settle_seconds + outcome.read_seconds,
           static_cast<unsigned long long>(outcome.present) + outcome.deleted);
    fflush(stdout);
  }
  printf("\n%s", Table(*outcomes).c_str());
  return FLAGS_json.empty() ? Status::OK() : WriteTextFile(FLAGS_json, Json(plan, *outcomes));
}

}  // namespace
}  // namespace cairn::bench

int main(int argc, char** argv) {
  gflags::SetUsageMessage(
      "stores the distribution's package index in several engines, reads all of it back, and compares what it cost\n\n"
      "  cairn_demo [--items=N | --file=TSV] [--json=FILE]");
  gflags::ParseCommandLineFlags(&argc, &argv, true);
  std::vector<cairn::bench::Outcome> outcomes;
  std::string wrong = argc > 1 ? std::string("unexpected argument ") + argv[1] : cairn::bench::ReadFlags(&outcomes);
  if (!wrong.empty()) {
    fprintf(stderr, "cairn_demo: %s\n", wrong.c_str());
    return 2;
  }
  rocksdb::Status s = cairn::bench::Run(&outcomes);
  if (!s.ok()) {
    fprintf(stderr, "cairn_demo: %s\n", s.ToString().c_str());
    return 1;
  }
  return 0;
}
