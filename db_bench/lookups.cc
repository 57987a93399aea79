#include "db_bench/lookups.h"

#include <algorithm>
#include <chrono>
#include <thread>

#include "db_bench/report.h"
#include "util/rocksdb_names.h"

namespace cairn::bench {

namespace {

using Clock = std::chrono::steady_clock;

constexpr uint64_t kPresentStream = 2;
constexpr uint64_t kMissingStream = 3;
// Of the first of several threads; the next ones follow.
constexpr uint64_t kThreadStreams = 100;

// Times and counts what happens in the scope, in this thread.
class Measurement {
 public:
  explicit Measurement(LookupResult* result) : result_(result), start_(Clock::now()), cpu_start_(ReadCpu().thread) {
    ResetLookupCounters();
  }
  ~Measurement() {
    result_->cpu_seconds = ReadCpu().thread - cpu_start_;
    result_->seconds = std::chrono::duration<double>(Clock::now() - start_).count();
    result_->counters = ReadLookupCounters();
  }
  Measurement(const Measurement&) = delete;
  Measurement& operator=(const Measurement&) = delete;

 private:
  LookupResult* const result_;
  const Clock::time_point start_;
  const double cpu_start_;
};

}  // namespace

std::unique_ptr<KeyChooser> KeySpace::NewChooser(uint64_t stream) const {
  if (zipf) return std::make_unique<ZipfKeys>(keys, theta, seed + stream);
  return std::make_unique<UniformKeys>(keys, seed + stream);
}

Status Lookups::Check(uint64_t number, const Status& got, const Slice& value) const {
  if (!got.ok()) {
    return got.IsNotFound() ? Status::Corruption("a key that was put is missing", std::to_string(number)) : got;
  }
  if (value != values_.Value(number, sizes_[number])) {
    return Status::Corruption("a key has another value than its newest", std::to_string(number));
  }
  return got;
}

Status Lookups::GetPresent(uint64_t number, PinnableSlice* value) const {
  char key[kKeyBytes];
  EncodeKey(number, key);
  return Check(number, db_->Get(ReadOptions(), db_->DefaultColumnFamily(), Slice(key, kKeyBytes), value), *value);
}

Status Lookups::PresentOf(uint64_t stream, const std::string& step, uint64_t gets, LookupResult* result) const {
  std::unique_ptr<KeyChooser> chooser = keys_.NewChooser(stream);
  Progress bar(step, "gets", gets, 0, stderr, kBarOnly);
  const Measurement measurement(result);
  PinnableSlice value;
  if (result->timed) result->nanos.reserve(gets);
  while (result->gets < gets) {
    const uint64_t number = chooser->Next();
    if (sizes_[number] == 0) continue;
    const Clock::time_point start = result->timed ? Clock::now() : Clock::time_point();
    Status s = GetPresent(number, &value);
    if (!s.ok()) return s;
    if (result->timed) result->nanos.push_back(NanosSince(start));
    value.Reset();
    bar.Step(++result->gets);
  }
  std::sort(result->nanos.begin(), result->nanos.end());
  return Status::OK();
}

Status Lookups::Present(const std::string& step, uint64_t gets, LookupResult* result) const {
  return PresentOf(kPresentStream, step, gets, result);
}

Status Lookups::MissingOf(uint64_t seed, uint64_t gets, LookupResult* result) const {
  Random64 random(seed);
  const Measurement measurement(result);
  PinnableSlice value;
  for (; result->gets < gets; ++result->gets) {
    char key[kKeyBytes];
    EncodeKey(keys_.keys + random.Uniform(uint64_t{1} << 62), key);
    const Status s = db_->Get(ReadOptions(), db_->DefaultColumnFamily(), Slice(key, kKeyBytes), &value);
    if (!s.IsNotFound()) return s.ok() ? Status::Corruption("a key that was never put is there") : s;
  }
  return Status::OK();
}

Status Lookups::Missing(uint64_t gets, LookupResult* result) const {
  return MissingOf(keys_.seed + kMissingStream, gets, result);
}

Status Lookups::InThreads(int threads, uint64_t gets, bool present, LookupResult* result) const {
  const auto count = static_cast<size_t>(threads);
  std::vector<LookupResult> results(count);
  std::vector<Status> statuses(count);
  std::vector<std::thread> running;
  for (size_t i = 0; i < count; ++i) {
    running.emplace_back([&, i] {
      const uint64_t stream = kThreadStreams + i;
      statuses[i] =
          present ? PresentOf(stream, "", gets, &results[i]) : MissingOf(keys_.seed + stream, gets, &results[i]);
    });
  }
  for (std::thread& thread : running) thread.join();
  for (size_t i = 0; i < count; ++i) {
    if (!statuses[i].ok()) return statuses[i];
    result->gets += results[i].gets;
    result->seconds = std::max(result->seconds, results[i].seconds);
    result->cpu_seconds += results[i].cpu_seconds;
    result->counters += results[i].counters;
  }
  return Status::OK();
}

Status Lookups::InBatches(const std::string& step, uint64_t gets, size_t batch, LookupResult* result) const {
  std::unique_ptr<KeyChooser> chooser = keys_.NewChooser(kPresentStream);
  std::vector<uint64_t> numbers(batch);
  std::vector<char> bytes(batch * kKeyBytes);
  std::vector<Slice> keys(batch);
  std::vector<PinnableSlice> values(batch);
  std::vector<Status> statuses(batch);
  Progress bar(step, "gets", gets, 0, stderr, kBarOnly);
  const Measurement measurement(result);
  while (result->gets < gets) {
    for (size_t i = 0; i < batch;) {
      numbers[i] = chooser->Next();
      if (sizes_[numbers[i]] == 0) continue;
      EncodeKey(numbers[i], &bytes[i * kKeyBytes]);
      keys[i] = Slice(&bytes[i * kKeyBytes], kKeyBytes);
      ++i;
    }
    db_->MultiGet(ReadOptions(), db_->DefaultColumnFamily(), batch, keys.data(), values.data(), statuses.data());
    for (size_t i = 0; i < batch; ++i) {
      Status s = Check(numbers[i], statuses[i], values[i]);
      if (!s.ok()) return s;
      values[i].Reset();
    }
    result->gets += batch;
    bar.Step(result->gets);
  }
  return Status::OK();
}

Status Lookups::Seeks(const std::string& step, uint64_t seeks, SeekTo to, int steps, LookupResult* result) const {
  std::unique_ptr<KeyChooser> chooser = keys_.NewChooser(kPresentStream);
  Progress bar(step, "seeks", seeks, 0, stderr, kBarOnly);
  const Measurement measurement(result);
  while (result->gets < seeks) {
    const uint64_t number = chooser->Next();
    if (sizes_[number] == 0) continue;
    char key[kKeyBytes + 1] = {};  // a zero behind a key makes the key right behind it
    EncodeKey(number, key);
    const std::unique_ptr<rocksdb::Iterator> it(db_->NewIterator(ReadOptions()));
    it->Seek(Slice(key, to == SeekTo::kPresent ? kKeyBytes : sizeof(key)));
    if (to == SeekTo::kPresent && (!it->Valid() || it->key() != Slice(key, kKeyBytes))) {
      return it->status().ok() ? Status::Corruption("a seek has not found a key that was put") : it->status();
    }
    for (int i = 0; i < steps && it->Valid(); ++i) it->Next();
    if (!it->status().ok()) return it->status();
    bar.Step(++result->gets);
  }
  return Status::OK();
}

Status Lookups::Scan(bool fill_cache, LookupResult* result) const {
  const Measurement measurement(result);
  ReadOptions read;
  read.fill_cache = fill_cache;
  const std::unique_ptr<rocksdb::Iterator> it(db_->NewIterator(read));
  uint64_t bytes = 0;
  for (it->SeekToFirst(); it->Valid(); it->Next()) {
    bytes += it->key().size() + it->value().size();
    ++result->gets;
  }
  if (!it->status().ok()) return it->status();
  const auto present =
      static_cast<uint64_t>(std::count_if(sizes_.begin(), sizes_.end(), [](uint16_t size) { return size != 0; }));
  return result->gets == present && bytes > 0 ? Status::OK() : Status::Corruption("a scan has not found every key");
}

}  // namespace cairn::bench
