#include "db_bench/run_mixes.h"

#include "util/rocksdb_names.h"

#include <algorithm>
#include <atomic>
#include <chrono>
#include <memory>

namespace cairn::bench {

namespace {

using Clock = std::chrono::steady_clock;

double SecondsSince(Clock::time_point start) { return std::chrono::duration<double>(Clock::now() - start).count(); }

double Per(double amount, uint64_t of) { return of == 0 ? 0 : amount / static_cast<double>(of); }

uint64_t Written(const rocksdb::Statistics& statistics) {
  const WriteCounters counters = ReadWriteCounters(statistics);
  return counters.flush_bytes + counters.compaction_bytes;
}

Status Wrong(const char* what, uint64_t number) { return Status::Corruption(what, std::to_string(number)); }

class MixRun {
 public:
  MixRun(const Engine& engine, const MixSettings& settings, DB* db, const rocksdb::Statistics& statistics)
      : engine_(engine),
        settings_(settings),
        shape_(settings.mixes.front()->shape),
        db_(db),
        statistics_(statistics),
        values_(settings.seed),
        model_(shape_, settings.items) {}

  Status Load(JsonWriter* json);
  Status Run(const Mix& mix, JsonWriter* json);
  // A scan of everything finds as many items as there are.
  Status CheckCount();

  uint64_t live_bytes() const { return live_bytes_.load(std::memory_order_relaxed); }
  uint64_t put_bytes() const { return put_bytes_; }
  const std::atomic<uint64_t>* live_bytes_of_sampler() const { return &live_bytes_; }

 private:
  Slice ValueOf(uint64_t number, uint32_t version) const {
    return values_.Value(number + (uint64_t{version} << 40),
                         ValueBytes(shape_, number, version, settings_.record_bytes));
  }
  uint64_t ItemBytes(uint64_t number, uint32_t version) const {
    return version == 0 ? 0 : KeyBytes(shape_, number) + ValueBytes(shape_, number, version, settings_.record_bytes);
  }
  Status Put(uint64_t number);
  Status Delete(uint64_t number);
  Status Get(uint64_t number);
  Status Scan(uint64_t number, uint64_t length);
  Status Check(uint64_t number, const Slice& value) const;
  Status Do(const Operation& operation);
  void Report(double seconds, const CpuSeconds& cpu, JsonWriter* json);

  const Engine& engine_;
  const MixSettings& settings_;
  const Shape shape_;
  DB* const db_;
  const rocksdb::Statistics& statistics_;
  const ValueSource values_;
  ItemModel model_;
  std::atomic<uint64_t> live_bytes_{0};
  uint64_t put_bytes_ = 0;
  std::vector<uint32_t> nanos_[kOperationKinds];
  std::string key_;
  rocksdb::PinnableSlice value_;
};

Status MixRun::Put(uint64_t number) {
  EncodeItemKey(shape_, number, &key_);
  const uint64_t before = ItemBytes(number, model_.Version(number));
  const uint32_t version = model_.Store(number);
  const uint64_t after = ItemBytes(number, version);
  put_bytes_ += after;
  live_bytes_.fetch_add(after - before, std::memory_order_relaxed);
  return db_->Put(WriteOptions(), key_, ValueOf(number, version));
}

Status MixRun::Delete(uint64_t number) {
  EncodeItemKey(shape_, number, &key_);
  live_bytes_.fetch_sub(ItemBytes(number, model_.Version(number)), std::memory_order_relaxed);
  put_bytes_ += key_.size();
  model_.Remove(number);
  return db_->Delete(WriteOptions(), key_);
}

Status MixRun::Check(uint64_t number, const Slice& value) const {
  const uint32_t version = model_.Version(number);
  if (version == 0) return Wrong("a key that is not there was found", number);
  return value == ValueOf(number, version) ? Status::OK() : Wrong("a key has another value than its newest", number);
}

Status MixRun::Get(uint64_t number) {
  EncodeItemKey(shape_, number, &key_);
  value_.Reset();
  const Status s = db_->Get(ReadOptions(), db_->DefaultColumnFamily(), key_, &value_);
  if (!s.IsNotFound()) return s.ok() ? Check(number, value_) : s;
  return model_.Version(number) == 0 ? Status::OK() : Wrong("a key that was put is missing", number);
}

Status MixRun::Scan(uint64_t number, uint64_t length) {
  EncodeItemKey(shape_, number, &key_);
  const std::unique_ptr<rocksdb::Iterator> it(db_->NewIterator(ReadOptions()));
  it->Seek(key_);
  const bool in_stream = StreamsOf(shape_) > 0;
  for (uint64_t i = 0; i < length; ++i, it->Next()) {
    if (!it->Valid()) {
      if (!it->status().ok() || !in_stream) return it->status();  // the last keys of all may be fewer
      return Wrong("a scan ends before the last item", number + i);
    }
    const uint64_t found = DecodeItemKey(shape_, it->key());
    if ((in_stream || i == 0) && found != number + i) return Wrong("a scan has not found an item", number + i);
    if (i > 0 && it->key().compare(key_) <= 0) return Wrong("a scan is out of order", found);
    const Status s = Check(found, it->value());
    if (!s.ok()) return s;
    key_.assign(it->key().data(), it->key().size());
  }
  return it->status();
}

Status MixRun::Do(const Operation& operation) {
  Status s;
  switch (operation.kind) {
    case OperationKind::kGet:
    case OperationKind::kAbsentGet:
      return Get(operation.number);
    case OperationKind::kUpdate:
    case OperationKind::kInsert:
      return Put(operation.number);
    case OperationKind::kDelete:
      return Delete(operation.number);
    case OperationKind::kScan:
      return Scan(operation.number, operation.length);
    case OperationKind::kReadModifyWrite:
      s = Get(operation.number);
      return s.ok() ? Put(operation.number) : s;
  }
  return s;
}

Status MixRun::Load(JsonWriter* json) {
  const uint64_t streams = StreamsOf(shape_);
  Progress bar(engine_.name + std::string(": load"), "items", settings_.items, 0, stderr, kBarOnly);
  const Clock::time_point start = Clock::now();
  for (uint64_t i = 0; i < settings_.items; ++i) {
    const Status s = Put(streams == 0 ? i : (i % streams) << 32 | i / streams);
    if (!s.ok()) return s;
    bar.Step(i);
  }
  const double seconds = SecondsSince(start);
  const Status s = engine_.settle(db_);
  const double settled = SecondsSince(start);
  json->BeginObject("load")
      .Add("items", settings_.items)
      .Add("per_second", static_cast<double>(settings_.items) / seconds)
      .Add("per_second_until_settled", static_cast<double>(settings_.items) / settled)
      .Add("written_per_byte", Per(static_cast<double>(Written(statistics_)), put_bytes_))
      .EndObject();
  return s;
}

Status MixRun::Run(const Mix& mix, JsonWriter* json) {
  for (std::vector<uint32_t>& nanos : nanos_) nanos.clear();
  MixGenerator generator(mix, &model_, settings_.seed + SplitMix64(&mix - Mixes().data()));
  const uint64_t put_before = put_bytes_;
  const uint64_t written_before = Written(statistics_);
  Progress bar(engine_.name + (": " + std::string(mix.name)), "operations", settings_.operations, 0, stderr, kBarOnly);
  ResetLookupCounters();
  const CpuSeconds cpu_start = ReadCpu();
  const Clock::time_point start = Clock::now();
  for (uint64_t i = 0; i < settings_.operations; ++i) {
    const Operation operation = generator.Next();
    const Clock::time_point before = Clock::now();
    const Status s = Do(operation);
    if (!s.ok()) return s;
    nanos_[static_cast<int>(operation.kind)].push_back(NanosSince(before));
    bar.Step(i);
  }
  const double seconds = SecondsSince(start);
  CpuSeconds cpu = ReadCpu();
  cpu.thread -= cpu_start.thread;
  cpu.process -= cpu_start.process + cpu.thread;
  json->BeginObject(mix.name);
  Report(seconds, cpu, json);
  const Status s = engine_.settle(db_);
  if (put_bytes_ > put_before) {
    json->Add("written_per_byte",
              Per(static_cast<double>(Written(statistics_) - written_before), put_bytes_ - put_before));
  }
  json->EndObject();
  return s;
}

// cpu: of this thread, and of the others.
void MixRun::Report(double seconds, const CpuSeconds& cpu, JsonWriter* json) {
  const uint64_t operations = settings_.operations;
  json->Add("operations", operations)
      .Add("per_second", static_cast<double>(operations) / seconds)
      .Add("cpu_micros", Per(1e6 * cpu.thread, operations))
      .Add("background_cpu_micros", Per(1e6 * cpu.process, operations))
      .Add("blocks_read_per_operation", Per(static_cast<double>(ReadLookupCounters().blocks_read), operations));
  // Percentiles of all operations first.
  std::vector<uint32_t> all;
  for (const std::vector<uint32_t>& nanos : nanos_) all.insert(all.end(), nanos.begin(), nanos.end());
  const auto add = [json](const std::string& prefix, std::vector<uint32_t>* nanos) {
    std::sort(nanos->begin(), nanos->end());
    for (const auto& [name, share] : {std::pair("p50", 0.5), {"p99", 0.99}, {"p999", 0.999}}) {
      const auto place = static_cast<size_t>(share * static_cast<double>(nanos->size() - 1));
      json->Add(prefix + name + "_micros", 1e-3 * (*nanos)[place]);
    }
  };
  add("", &all);
  for (int i = 0; i < kOperationKinds; ++i) {
    if (nanos_[i].empty()) continue;
    json->BeginObject(OperationName(static_cast<OperationKind>(i))).Add("count", uint64_t{nanos_[i].size()});
    add("", &nanos_[i]);
    json->EndObject();
  }
}

Status MixRun::CheckCount() {
  ReadOptions read;
  read.fill_cache = false;
  const std::unique_ptr<rocksdb::Iterator> it(db_->NewIterator(read));
  uint64_t found = 0;
  for (it->SeekToFirst(); it->Valid(); it->Next()) ++found;
  if (!it->status().ok() || found == model_.present()) return it->status();
  return Status::Corruption("a scan of everything found " + std::to_string(found) + " items",
                            std::to_string(model_.present()) + " were put");
}

}  // namespace

Status RunMixes(const Engine& engine, const MixSettings& settings, DB* db, const rocksdb::Statistics& statistics,
                JsonWriter* json) {
  MixRun run(engine, settings, db, statistics);
  SpaceSampler sampler(db, settings.database, run.live_bytes_of_sampler(), 4 * settings.write_buffer_size);
  Status s = run.Load(json);
  std::string left_out;
  for (const Mix* const mix : settings.mixes) {
    if (!s.ok()) return s;
    if (NeedsKeyOrder(*mix) && engine.key_order == KeyOrder::kHash) {
      left_out += (left_out.empty() ? "" : ", ") + std::string(mix->name);
      continue;
    }
    s = run.Run(*mix, json);
  }
  sampler.Stop();
  if (s.ok() && settings.count_at_last) s = run.CheckCount();
  const uint64_t tables = LiveTableBytes(db);
  json->Add("written_per_byte", Per(static_cast<double>(Written(statistics)), run.put_bytes()))
      .Add("live_bytes", run.live_bytes())
      .Add("table_bytes", tables)
      .Add("space_amplification", Per(static_cast<double>(tables), run.live_bytes()))
      .Add("max_space_amplification", sampler.max_live_tables())
      .Add("max_space_amplification_on_disk", sampler.max_table_files());
  if (!left_out.empty()) json->Add("left_out", left_out + ": they scan, and the engine keeps hash order");
  return s;
}

}  // namespace cairn::bench
