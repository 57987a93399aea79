// What a Z-zone costs and brings: Gets of a cache by Zipf's law, a fill after each miss, with and without one.
//
//   build/bench/zones_bench --keys=2000000 --cache=0.1 --zipf=0.99
//
// Values are JSON objects of some 80 bytes: field names and words repeat, numbers do not. Blocks of 4 KiB shrink to a
// half by LZ4 (zExpander's places: to 56 %). Prints one JSON object a line: nanoseconds of processor time for a Get
// with its fill, of single hits and misses, and from what a miss costs its caller on the Z-zone pays: below
// `break_even_microseconds` the cache without one takes less time in all.

#include <gflags/gflags.h>
#include <time.h>

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <cstdio>
#include <memory>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "cairn/cache.h"
#include "db_bench/keys.h"
#include "util/mix64.h"

DEFINE_uint64(keys, 2000000, "");
DEFINE_double(cache, 0.1, "its memory, as a part of keys and values");
DEFINE_double(zipf, 0.99, "");
DEFINE_double(puts, 0, "part of the operations that are Puts");
DEFINE_uint64(operations, 20000000, "half of them before it is measured");
DEFINE_double(n_zone_requests, cairn::ResultCacheOptions().n_zone_requests, "");

namespace {

using Compression = cairn::ResultCacheOptions::Compression;
using cairn::bench::Random64;

std::string KeyOf(uint64_t number) {
  std::string key(cairn::bench::kKeyBytes, '\0');
  cairn::bench::EncodeKey(number, key.data());
  return key;
}

// Of a language of so many words, of which a few are used most.
void AppendWord(Random64* random, uint64_t words, std::string* text) {
  const auto rank = static_cast<uint64_t>(std::pow(static_cast<double>(words), random->NextDouble()));
  uint64_t letters = cairn::SplitMix64(words + rank);
  for (uint64_t i = 3 + letters % 7; i > 0; --i, letters /= 26) text->push_back(static_cast<char>('a' + letters % 26));
}

std::string ValueOf(uint64_t number) {
  Random64 random(number);
  std::string value = "{\"id\":" + std::to_string(random.Uniform(10000000)) + ",\"name\":\"";
  AppendWord(&random, 3000, &value);
  value += ' ';
  AppendWord(&random, 3000, &value);
  value += "\",\"city\":\"";
  AppendWord(&random, 1000, &value);
  return value + "\",\"score\":" + std::to_string(random.Uniform(1000)) +
         (random.Uniform(2) == 0 ? ",\"active\":true}" : ",\"active\":false}");
}

double Nanoseconds(clockid_t clock) {
  timespec now{};
  clock_gettime(clock, &now);
  return 1e9 * static_cast<double>(now.tv_sec) + static_cast<double>(now.tv_nsec);
}

struct Mean {
  double sum = 0, count = 0;
  void Add(double value) {
    sum += value;
    ++count;
  }
  double Get() const { return count == 0 ? 0 : std::round(10 * sum / count) / 10; }
};

struct Result {  // NOLINT(bugprone-exception-escape)
  nlohmann::ordered_json json;
  double nanoseconds = 0;
  double misses = 0;  // of a Get
};

class Run {
 public:
  explicit Run(Compression compression) {
    double bytes = 0;
    for (uint64_t i = 0; i < 1000; ++i) bytes += static_cast<double>(cairn::bench::kKeyBytes + ValueOf(i).size());
    cairn::ResultCacheOptions options;
    options.capacity = static_cast<size_t>(FLAGS_cache * static_cast<double>(FLAGS_keys) * bytes / 1000);
    options.compression = compression;
    options.n_zone_requests = FLAGS_n_zone_requests;
    options.hash_seed = 1;
    if (!cairn::ResultCache::Create(options, &cache_).ok()) exit(1);
  }

  Result Measure() {
    cairn::bench::ZipfKeys keys(FLAGS_keys, FLAGS_zipf, 1);
    Use(FLAGS_operations / 2, &keys);
    const auto before = cache_->GetStatistics();
    const double took = Use(FLAGS_operations / 2, &keys);
    const auto after = cache_->GetStatistics();
    SampleHits(&keys);
    const double gets = static_cast<double>(after.hits - before.hits + after.misses - before.misses);
    Result result;
    result.nanoseconds = took / gets;
    result.misses = static_cast<double>(after.misses - before.misses) / gets;
    result.json = {{"nanoseconds", std::round(10 * result.nanoseconds) / 10},
                   {"misses", result.misses},
                   {"z_hits", static_cast<double>(after.z_hits - before.z_hits) / gets},
                   {"promotions", static_cast<double>(after.promotions - before.promotions) / gets},
                   {"n_hit_nanoseconds", n_hit_.Get()},
                   {"z_hit_nanoseconds", z_hit_.Get()},
                   {"miss_nanoseconds", miss_.Get()},
                   {"n_zone_share", after.n_zone_share},
                   {"items", after.items},
                   {"compression_ratio", static_cast<double>(after.z_item_bytes) /
                                             static_cast<double>(std::max<uint64_t>(1, after.z_bytes))}};
    return result;
  }

 private:
  using Answer = cairn::ResultCache::Answer;

  struct Operation {
    bool puts;
    std::string key, value;
  };

  // Nanoseconds of processor time. What is asked for is drawn before the clock runs.
  double Use(uint64_t count, cairn::bench::KeyChooser* keys) {
    constexpr uint64_t kPart = 4096;
    std::vector<Operation> part(kPart);
    double took = 0;
    for (uint64_t done = 0; done < count; done += kPart) {
      for (Operation& operation : part) {
        const uint64_t number = keys->Next();
        operation = {random_.NextDouble() < FLAGS_puts, KeyOf(number), ValueOf(number)};
      }
      const double begin = Nanoseconds(CLOCK_THREAD_CPUTIME_ID);
      for (const Operation& operation : part) {
        if (operation.puts) {
          cache_->Put(operation.key, operation.value);
        } else if (cache_->Get(operation.key, &value_) == Answer::kMiss) {
          cache_->Fill(cache_->BeginFill(operation.key), operation.key, operation.value);
        }
      }
      took += Nanoseconds(CLOCK_THREAD_CPUTIME_ID) - begin;
    }
    return took;
  }

  void SampleHits(cairn::bench::KeyChooser* keys) {
    for (uint64_t i = 0; i < 200000; ++i) {
      const std::string key = KeyOf(keys->Next());
      const auto before = cache_->GetStatistics();
      const double begin = Nanoseconds(CLOCK_MONOTONIC);
      const Answer answer = cache_->Get(key, &value_);
      const double took = Nanoseconds(CLOCK_MONOTONIC) - begin;
      if (took > 1e5) continue;  // the processor was elsewhere
      const bool in_z = cache_->GetStatistics().z_hits > before.z_hits;
      (answer == Answer::kMiss ? miss_ : in_z ? z_hit_ : n_hit_).Add(took);
    }
  }

  std::unique_ptr<cairn::ResultCache> cache_;
  Random64 random_{2};
  std::string value_;
  Mean n_hit_, z_hit_, miss_;
};

}  // namespace

int main(int argc, char** argv) {  // NOLINT(bugprone-exception-escape)
  gflags::ParseCommandLineFlags(&argc, &argv, true);
  Result plain;
  for (const auto& [name, compression] : {std::pair("none", Compression::kNone), std::pair("lz4", Compression::kLz4),
                                          std::pair("zstd", Compression::kZstd)}) {
    Result result = Run(compression).Measure();
    nlohmann::ordered_json json = {{"compression", name}};
    json.update(result.json);
    if (compression == Compression::kNone) {
      plain = result;
    } else {
      json["rate"] = plain.nanoseconds / result.nanoseconds;
      json["fewer_misses"] = 1 - result.misses / plain.misses;
      json["break_even_microseconds"] =
          (result.nanoseconds - plain.nanoseconds) / (plain.misses - result.misses) / 1000;
    }
    printf("%s\n", json.dump().c_str());
    fflush(stdout);
  }
  return 0;
}
