// cairn cache-bench: replays mixes of requests on a result cache alone and prints hits, misses, memory and rates.

#include <algorithm>
#include <atomic>
#include <cinttypes>
#include <cmath>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <fstream>
#include <iterator>
#include <memory>
#include <string>
#include <thread>
#include <vector>

#include "cairn/cache.h"
#include "tools/arguments.h"
#include "tools/commands.h"
#include "util/mix64.h"
#include "util/thread_seconds.h"

namespace cairn {
namespace {

constexpr char kDescription[] =
    "Replays mixes of requests on a result cache alone: a read that misses puts the value, as a program that reads a "
    "database\n"
    "would. The first fifth of the requests (--warm) warms the cache up; the rest is counted. Writes are not counted "
    "as "
    "hits\n"
    "or misses. First reads are those of items that nobody has asked for before: they miss whatever the cache is. "
    "Rates "
    "are\n"
    "per second of processor time.\n"
    "\n"
    "Mixes: ycsb (Zipf 0.99, 5 % writes), and etc, app and usr, Facebook's pools as zExpander (EuroSys 2016) gives "
    "them: 3.6,\n"
    "6.9 and 17.0 % of the items get 80 % of the accesses (Zipf laws with these parts), 3.2, 3 and 0.2 % writes. "
    "Values have 2 to\n"
    "327 bytes, 101 on average, as in that paper's measurements, or with --sizes=pool those of each pool (Atikoglu et "
    "al.,\n"
    "SIGMETRICS 2012): usr 2 bytes, app about 270, etc a generalized Pareto law.";

struct Mix {
  const char* name;
  double hot_part;  // of the items, that get 80 % of the accesses; 0: zipf is given
  double zipf;
  double writes;
};
constexpr Mix kMixes[] = {
    {"ycsb", 0, 0.99, 0.05}, {"etc", 0.036, 0, 0.032}, {"app", 0.069, 0, 0.03}, {"usr", 0.17, 0, 0.002}};

double Uniform(uint64_t* state) { return static_cast<double>(NextSplitMix64(state) >> 11) * 0x1p-53; }

// Cumulated weights of a Zipf law.
std::vector<double> ZipfSums(uint64_t items, double skew) {
  std::vector<double> sums(items);
  double sum = 0;
  for (uint64_t i = 0; i < items; ++i) sums[i] = sum += std::pow(static_cast<double>(i + 1), -skew);
  return sums;
}

// The skew with which `hot_part` of the items get 80 % of the accesses.
double SkewFor(uint64_t items, double hot_part) {
  double low = 0, high = 2;
  for (int i = 0; i < 20; ++i) {
    const double skew = (low + high) / 2;
    const std::vector<double> sums = ZipfSums(items, skew);
    const auto hot = std::max<uint64_t>(1, static_cast<uint64_t>(hot_part * static_cast<double>(items)));
    (sums[hot - 1] / sums.back() < 0.8 ? low : high) = skew;
  }
  return (low + high) / 2;
}

// Values from real text, or from text that resembles it: sentences of words of a Zipf law.
class Values {
 public:
  bool Read(const std::string& path) {
    std::ifstream file(path, std::ios::binary);
    if (!file) return false;
    text_.assign(std::istreambuf_iterator<char>(file), std::istreambuf_iterator<char>());
    Index();
    return !starts_.empty();
  }
  void Invent() {
    constexpr uint64_t kWords = 5000;
    const std::vector<double> sums = ZipfSums(kWords, 1);
    uint64_t state = 7;
    while (text_.size() < (size_t{8} << 20)) {
      const double at = Uniform(&state) * sums.back();
      uint64_t word = static_cast<uint64_t>(std::upper_bound(sums.begin(), sums.end(), at) - sums.begin());
      for (uint64_t letters = SplitMix64(word), left = 2 + letters % 8; left > 0; --left, letters /= 26) {
        text_ += static_cast<char>('a' + letters % 26);
      }
      text_ += word % 12 == 0 ? '\n' : ' ';
    }
    Index();
  }
  // The first `bytes` bytes from the beginning of some line.
  std::string_view Of(uint64_t item, size_t bytes) const {
    return std::string_view(text_).substr(starts_[SplitMix64(item) % starts_.size()], bytes);
  }

 private:
  static constexpr size_t kLongest = 1 << 16;
  void Index() {
    for (size_t i = 0; i + kLongest < text_.size(); ++i) {
      if (i == 0 || text_[i - 1] == '\n') starts_.push_back(i);
    }
  }
  std::string text_;
  std::vector<size_t> starts_;
};

struct Settings {
  uint64_t capacity = 0;  // bytes; 0: as percent say
  double writes = -1;     // percent; below 0: as the mix says
  uint64_t items = 1000000;
  uint64_t requests = 4000000;
  uint64_t warm = UINT64_MAX;  // of them; else a fifth
  uint64_t threads = 1;
  uint64_t seed = 1;
  std::string sizes = "records";
  ResultCacheOptions cache;
};

// Sizes of a key and a value; the same for an item whenever it is asked for.
struct Sizes {
  size_t key = 0;
  size_t value = 0;
};

Sizes SizesOf(const Mix& mix, const Settings& settings, uint64_t item) {
  uint64_t state = item;
  const double u = Uniform(&state);
  const std::string name = mix.name;
  Sizes sizes{16, 0};
  if (name == "usr") sizes.key = NextSplitMix64(&state) % 2 == 0 ? 16 : 21;
  if (name == "app") sizes.key = 31;
  if (name == "etc") {  // generalized extreme values, as Atikoglu et al. fit them
    const double size = 30.7984 + 8.20449 / 0.078688 * (std::pow(-std::log(Uniform(&state) + 1e-12), -0.078688) - 1);
    sizes.key = static_cast<size_t>(std::min(250.0, std::max(16.0, size)));
  }
  if (settings.sizes == "records" || name == "ycsb") {
    sizes.value = 2 + static_cast<size_t>(325 * std::pow(u, 2.28));  // 101 on average
  } else if (name == "usr") {
    sizes.value = 2;
  } else if (name == "app") {
    sizes.value = 230 + static_cast<size_t>(80 * u);
  } else {
    sizes.value =
        u < 0.4 ? 1 + static_cast<size_t>(u * 37)
                : static_cast<size_t>(std::min(50000.0, 214.476 / 0.348238 * (std::pow((1 - u) / 0.6, -0.348238) - 1)));
  }
  return sizes;
}

// One mix's law and data, shared by runs.
class Workload {
 public:
  Workload(const Mix& mix, const Settings& settings, const Values* values)
      : mix_(mix), settings_(settings), values_(values) {
    skew_ = mix.hot_part > 0 ? SkewFor(settings.items, mix.hot_part) : mix.zipf;
    sums_ = ZipfSums(settings.items, skew_);
    for (uint64_t i = 0; i < settings.items; ++i) {
      const Sizes sizes = SizesOf(mix_, settings_, i);
      bytes_ += sizes.key + sizes.value;
    }
  }
  const Mix& mix() const { return mix_; }
  double skew() const { return skew_; }
  uint64_t bytes() const { return bytes_; }  // keys and values of all items

  uint64_t Draw(uint64_t* state) const {
    const double at = Uniform(state) * sums_.back();
    const auto item = static_cast<uint64_t>(std::upper_bound(sums_.begin(), sums_.end(), at) - sums_.begin());
    return std::min(item, settings_.items - 1);
  }
  // *key holds the bytes of the view.
  std::string_view Key(uint64_t item, std::string* key) const {
    const size_t bytes = SizesOf(mix_, settings_, item).key;
    char text[40];
    snprintf(text, sizeof(text), "%.3s:%04" PRIx64 "%08" PRIx64, mix_.name, SplitMix64(item) & 0xffff, item);
    key->assign(text);
    key->resize(bytes, '.');
    return *key;
  }
  std::string_view Value(uint64_t item) const { return values_->Of(item, SizesOf(mix_, settings_, item).value); }

 private:
  const Mix mix_;
  const Settings& settings_;
  const Values* const values_;
  double skew_ = 0;
  std::vector<double> sums_;
  uint64_t bytes_ = 0;
};

struct Result {
  double miss_ratio = 0;
  double first_ratio = 0;
  double requests_per_second = 0;  // of a core
  uint64_t wrong = 0;
  ResultCache::Statistics statistics;
};

struct Counted {
  uint64_t reads = 0;
  uint64_t misses = 0;
  uint64_t firsts = 0;  // reads of items that nobody had asked for or written before
  uint64_t wrong = 0;
  double seconds = 0;
};

// Which items somebody has asked for.
using Asked = std::vector<std::atomic<bool>>;

void Replay(const Workload& workload, ResultCache* cache, uint64_t requests, uint64_t seed, Asked* asked,
            Counted* counted) {
  constexpr uint64_t kPart = 4096;
  uint64_t state = seed;
  std::string value, key;
  std::vector<uint64_t> items(kPart);
  std::vector<std::string> keys(kPart);
  std::vector<bool> writes(kPart);
  for (uint64_t done = 0; done < requests; done += kPart) {
    // Drawing takes as long as a lookup, and is not the cache's time.
    for (uint64_t i = 0; i < kPart; ++i) {
      items[i] = workload.Draw(&state);
      workload.Key(items[i], &keys[i]);
      writes[i] = Uniform(&state) < workload.mix().writes;
      const bool first = !(*asked)[items[i]].exchange(true, std::memory_order_relaxed);
      if (first && !writes[i]) ++counted->firsts;
    }
    const double start = ThreadSeconds();
    for (uint64_t i = 0; i < kPart; ++i) {
      if (writes[i]) {
        cache->Put(keys[i], workload.Value(items[i]));
        continue;
      }
      ++counted->reads;
      if (cache->Get(keys[i], &value) == ResultCache::Answer::kValue) {
        if (i % 16 == 0 && value != workload.Value(items[i])) ++counted->wrong;
        continue;
      }
      ++counted->misses;
      cache->Put(keys[i], workload.Value(items[i]));
    }
    counted->seconds += ThreadSeconds() - start;
  }
}

// One way to keep items.
struct Kind {
  const char* name;
  ResultCacheOptions::Compression compression;
  enum class File { kNone, kFresh, kAgain } file;
};
constexpr Kind kKinds[] = {{"n", ResultCacheOptions::Compression::kNone, Kind::File::kNone},
                           {"lz4", ResultCacheOptions::Compression::kLz4, Kind::File::kNone},
                           {"zstd", ResultCacheOptions::Compression::kZstd, Kind::File::kNone},
                           {"file", ResultCacheOptions::Compression::kNone, Kind::File::kFresh},
                           {"again", ResultCacheOptions::Compression::kNone, Kind::File::kAgain}};

// A usr key of 16 bytes holds its number in 8 digits; so do all others.
constexpr uint64_t kMostItems = uint64_t{1} << 31;

bool Run(const Workload& workload, const Settings& settings, uint64_t capacity, const Kind& kind, Result* result) {
  ResultCacheOptions options = settings.cache;
  options.capacity = capacity;
  options.compression = kind.compression;
  if (kind.file == Kind::File::kNone) options.path.clear();
  if (kind.file == Kind::File::kFresh) std::remove(options.path.c_str());
  options.hash_seed = settings.seed;
  std::unique_ptr<ResultCache> cache;
  const IndexStatus status = ResultCache::Create(options, &cache);
  if (!status.ok()) {
    fprintf(stderr, "cairn cache-bench: %s\n", status.message().c_str());
    return false;
  }
  std::vector<Counted> counted(settings.threads);
  Asked asked(settings.items);
  // What is opened again is warm.
  for (int phase = kind.file == Kind::File::kAgain ? 1 : 0; phase < 2; ++phase) {
    const uint64_t each = (phase == 0 ? settings.warm : settings.requests - settings.warm) / settings.threads;
    std::vector<std::thread> threads;
    for (size_t i = 0; i < counted.size(); ++i) {
      counted[i] = Counted();
      threads.emplace_back(Replay, std::cref(workload), cache.get(), each, NextSplitMix64(&options.hash_seed), &asked,
                           &counted[i]);
    }
    for (std::thread& thread : threads) thread.join();
  }
  Counted all;
  for (const Counted& mine : counted) {
    all.reads += mine.reads;
    all.misses += mine.misses;
    all.firsts += mine.firsts;
    all.wrong += mine.wrong;
    all.seconds += mine.seconds;
  }
  const auto reads = static_cast<double>(std::max<uint64_t>(1, all.reads));
  result->miss_ratio = static_cast<double>(all.misses) / reads;
  // What was asked for before the file was opened again, nobody knows.
  result->first_ratio = kind.file == Kind::File::kAgain ? 0 : static_cast<double>(all.firsts) / reads;
  result->requests_per_second = static_cast<double>(settings.requests - settings.warm) / all.seconds;
  result->wrong = all.wrong;
  result->statistics = cache->GetStatistics();
  return true;
}

void Print(const Workload& workload, double percent, const std::string& zones, const Result& r, double n_misses,
           bool json, bool first) {
  const ResultCache::Statistics& s = r.statistics;
  const uint64_t n_bytes = s.memory - s.z_bytes;
  const double n_part =
      static_cast<double>(s.item_bytes - s.z_item_bytes) / static_cast<double>(std::max<uint64_t>(1, n_bytes));
  const double z_part = s.z_bytes == 0 ? 0 : static_cast<double>(s.z_stored_bytes) / static_cast<double>(s.z_bytes);
  const double fewer = n_misses > 0 ? 1 - r.miss_ratio / n_misses : 0;
  if (json) {
    printf("%s{\"mix\": \"%s\", \"skew\": %.3f, \"percent\": %g, \"capacity\": %" PRIu64
           ", \"zones\": \"%s\", \"miss_ratio\": %.5f, "
           "\"fewer_misses\": %.4f, \"first_ratio\": %.5f, \"requests_per_core_second\": %.0f, \"items\": %" PRIu64
           ", \"item_bytes\": %" PRIu64 ", \"memory\": %" PRIu64
           ", \"n_zone_share\": %.2f, \"n_zone_items_part\": %.4f, \"z_zone_items_part\": %.4f, "
           "\"z_hits\": %" PRIu64 ", \"z_rebuilds\": %" PRIu64 ", \"promotions\": %" PRIu64 "}",
           first ? "" : ",\n ", workload.mix().name, workload.skew(), percent, s.capacity, zones.c_str(), r.miss_ratio,
           fewer, r.first_ratio, r.requests_per_second, s.items, s.item_bytes, s.memory, s.n_zone_share, n_part, z_part,
           s.z_hits, s.z_rebuilds, s.promotions);
    return;
  }
  printf("%-5s %4.3g%% %7.1f %-9s %7.2f %7.2f %7.1f %8.2f %7.1f %6.0f%% %6.0f%% %6.0f%%\n", workload.mix().name,
         percent, static_cast<double>(s.capacity) / 1048576, zones.c_str(), 100 * r.miss_ratio, 100 * r.first_ratio,
         100 * fewer, r.requests_per_second / 1e6, static_cast<double>(s.item_bytes) / 1048576, 100 * s.n_zone_share,
         100 * n_part, 100 * z_part);
  fflush(stdout);
}

int RunCacheBench(int argc, char** argv) {
  Settings settings;
  std::string values_path;
  std::vector<std::string> mixes, zones;
  uint64_t small = 5, medium = 10, large = 20;
  bool json = false;
  Arguments arguments("cache-bench", kDescription);
  arguments.Texts("mix", &mixes, "MIX", "ycsb, etc, app or usr; default: all");
  arguments.Texts("zones", &zones, "ZONES",
                  "n (no compression), lz4 or zstd; with --path file and again; default: all");
  arguments.Text("path", &settings.cache.path, "FILE",
                 "items in this file as well: begun anew (zones file), and then opened again (again)");
  arguments.Count("items", &settings.items, "different keys", 1000, kMostItems);
  arguments.Count("requests", &settings.requests, "requests of each run", 50000);
  arguments.Count("warm", &settings.warm, "requests, of those, that only warm the cache up; default: a fifth", 1);
  arguments.Count("threads", &settings.threads, "threads that send them", 1, 256);
  arguments.Count("small", &small, "first cache size, in percent of all keys and values", 1, 1000);
  arguments.Count("medium", &medium, "second cache size; 0: none", 0, 1000);
  arguments.Count("large", &large, "third cache size; 0: none", 0, 1000);
  arguments.Choice("sizes", &settings.sizes, {"records", "pool"}, "sizes of values");
  arguments.Text("values", &values_path, "FILE", "text whose lines are the values; default: invented words");
  arguments.Number("n-zone-requests", &settings.cache.n_zone_requests, "part of the work that the N-zone is to do", 0,
                   1);
  arguments.Number("n-zone-share", &settings.cache.n_zone_share, "part of the memory that it begins with", 0.01, 1);
  arguments.Number("writes", &settings.writes, "percent of the requests that write, in the place of the mix's", 0, 100);
  arguments.Count("capacity", &settings.capacity, "bytes, in the place of percents", 0);
  arguments.Count("seed", &settings.seed, "of requests and hash", 1);
  arguments.Switch("json", &json, "print JSON, one object for each run");
  if (!arguments.Parse(argc, argv)) return arguments.exit_code();
  if (settings.warm == UINT64_MAX) settings.warm = settings.requests / 5;
  if (settings.warm >= settings.requests) return arguments.UsageError("--warm has to be below --requests");
  const auto is_mix = [](const std::string& name) {
    return std::any_of(std::begin(kMixes), std::end(kMixes), [&](const Mix& mix) { return name == mix.name; });
  };
  for (const std::string& name : mixes) {
    if (!is_mix(name)) return arguments.UsageError("--mix=" + name + ": it may be ycsb, etc, app or usr");
  }
  for (const std::string& name : zones) {
    const auto* const kind =
        std::find_if(std::begin(kKinds), std::end(kKinds), [&](const Kind& one) { return name == one.name; });
    if (kind == std::end(kKinds)) {
      return arguments.UsageError("--zones=" + name + ": it may be n, lz4, zstd, file or again");
    }
    if (kind->file != Kind::File::kNone && settings.cache.path.empty()) {
      return arguments.UsageError("--zones=" + name + " wants --path=FILE");
    }
  }
  const auto wanted = [](const std::vector<std::string>& given, const std::string& name) {
    return given.empty() || std::find(given.begin(), given.end(), name) != given.end();
  };
  Values values;
  if (values_path.empty()) {
    values.Invent();
  } else if (!values.Read(values_path)) {
    return Fail("cache-bench", rocksdb::Status::IOError(values_path, "cannot be read, or has less than 64 KiB"));
  }

  if (json) {
    printf("[");
  } else {
    printf("%-5s %5s %7s %-9s %7s %7s %7s %8s %7s %7s %7s %7s\n", "mix", "cache", "MiB", "zones", "misses", "first",
           "fewer", "Mreq/s", "holds", "N share", "N items", "Z items");
  }
  bool first = true, all_right = true;
  for (const Mix& mix : kMixes) {
    if (!wanted(mixes, mix.name)) continue;
    Mix with_writes = mix;
    if (settings.writes >= 0) with_writes.writes = settings.writes / 100;
    const Workload workload(with_writes, settings, &values);
    if (settings.capacity > 0) medium = large = 0;
    for (const uint64_t percent : {small, medium, large}) {
      if (percent == 0) continue;
      double n_misses = 0;
      for (const Kind& kind : kKinds) {
        if (!wanted(zones, kind.name)) continue;
        if (kind.file != Kind::File::kNone && settings.cache.path.empty()) continue;
        Result result;
        const uint64_t capacity = settings.capacity > 0 ? settings.capacity : workload.bytes() * percent / 100;
        if (!Run(workload, settings, capacity, kind, &result)) return kExitFailure;
        Print(workload, 100 * static_cast<double>(capacity) / static_cast<double>(workload.bytes()), kind.name, result,
              n_misses, json, first);
        first = false;
        if (std::string(kind.name) == "n") n_misses = result.miss_ratio;
        if (result.wrong > 0) {
          fprintf(stderr,
                  "cairn cache-bench: %" PRIu64
                  " wrong values; this is a fault of the cache, please report it with --seed=%" PRIu64 "\n",
                  result.wrong, settings.seed);
          all_right = false;
        }
      }
    }
  }
  printf(json ? "]\n"
              : "misses and first reads in percent of the reads; fewer misses than with zones n; holds: MiB of keys "
                "and values; items: part of a zone's memory that holds them\n");
  return all_right ? kExitOk : kExitFailure;
}

const CommandRegistration kCacheBench("cache-bench",
                                      "Replays mixes of requests on a result cache: misses, rates, memory",
                                      RunCacheBench);

}  // namespace
}  // namespace cairn
