// What filters of ordered tables take and err, for keys that are spread over sorted runs.
//
//   order_filter_bench [--runs=16] [--bits=6] [--extra_bits=3] [--bloom_bits=8.5] [FILE...]    a FILE has a key a line
//
// Every tenth key of a set is in no run. For each run and
//   - an absent target: one of those. The scan returns the first key of all runs at or above it.
//   - a present target: a key of another run.
//   - a window: from an absent target to 1 to 20 keys later, as an upper bound.
// it is asked whether the run is read in vain: if it does not have the key (or a key of the window), and the filters
// could not tell, or the bound is not above that key. Point lookups are of absent keys of the set, and of near misses:
// another last byte, in the run that has the key.

#include <gflags/gflags.h>

#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <fstream>
#include <functional>
#include <memory>
#include <random>
#include <string>
#include <vector>

#include "cairn/ordered.h"
#include "rocksdb/env.h"
#include "rocksdb/filter_policy.h"
#include "rocksdb/sst_file_writer.h"
#include "rocksdb/table.h"
#include "table/block_based/filter_policy_internal.h"
#include "table/ordered/order_filter.h"
#include "table/ordered/test_keys.h"
#include "util/thread_seconds.h"

DEFINE_uint64(keys, 1000000, "Keys of each set that is drawn");
DEFINE_uint64(runs, 16, "Sorted runs, of equal size but for the last, which has half of the keys");
DEFINE_string(bits, "6", "Bits per key of the last run's order filter; several, separated by commas");
DEFINE_double(extra_bits, 3, "What all runs but the last have in addition");
DEFINE_double(bloom_bits, 8.5, "Bits per key of RocksDB's Bloom filter");
DEFINE_uint64(targets, 20000, "Targets");

namespace {

using cairn::BigEndian;
using cairn::Decimal;
using cairn::ThreadSeconds;
using Random = std::mt19937_64;
using Keys = std::vector<std::string>;

void Sort(Keys* keys) {
  std::sort(keys->begin(), keys->end());
  keys->erase(std::unique(keys->begin(), keys->end()), keys->end());
}

// The filters of one run.
struct Run {
  Keys keys;
  std::string order_bytes;
  cairn::OrderFilter order;
  std::unique_ptr<const char[]> bloom_bytes;
  std::unique_ptr<rocksdb::FilterBitsReader> bloom;

  enum class Answer { kNotRead, kBound, kRead };
  // As the iterator of an ordered table does.
  Answer Seek(const std::string& target, std::string* bound) const {
    switch (order.Find(target.data(), target.size(), bound)) {
      case cairn::OrderAnswer::kNone:
        return Answer::kNotRead;
      case cairn::OrderAnswer::kBound:
        return Answer::kBound;
      case cairn::OrderAnswer::kHere:
        break;
    }
    if (target.back() == '\0' || bloom->MayMatch(target)) return Answer::kRead;
    *bound = target + '\0';
    return Answer::kBound;
  }
  bool MayHold(const std::string& key) const {
    return bloom->MayMatch(key) && order.MayContain(key.data(), key.size());
  }
};

struct Built {
  double order_seconds = 0, bloom_seconds = 0;
  uint64_t order_bytes = 0, bloom_bytes = 0;
};

Built Build(double bits, std::vector<Run>* runs) {
  Built built;
  const std::unique_ptr<const rocksdb::FilterPolicy> policy(rocksdb::NewBloomFilterPolicy(FLAGS_bloom_bits));
  const rocksdb::BlockBasedTableOptions table;
  for (Run& run : *runs) {
    built.order_seconds -= ThreadSeconds();
    cairn::OrderFilterBuilder builder(bits + (&run == &runs->back() ? 0 : FLAGS_extra_bits));
    for (const std::string& key : run.keys) builder.Add(key.data(), key.size());
    run.order_bytes = builder.Finish();
    built.order_seconds += ThreadSeconds();
    built.order_bytes += run.order_bytes.size();
    if (run.order.Open(run.order_bytes.data(), run.order_bytes.size()) != nullptr) abort();
    built.bloom_seconds -= ThreadSeconds();
    const std::unique_ptr<rocksdb::FilterBitsBuilder> bloom(
        policy->GetBuilderWithContext(rocksdb::FilterBuildingContext(table)));
    for (const std::string& key : run.keys) bloom->AddKey(key);
    const rocksdb::Slice bytes = bloom->Finish(&run.bloom_bytes);
    built.bloom_seconds += ThreadSeconds();
    built.bloom_bytes += bytes.size();
    run.bloom.reset(policy->GetFilterBitsReader(bytes));
  }
  return built;
}

// Seconds to write the keys, with values of 100 bytes, as one table.
double TableSeconds(const Keys& keys, rocksdb::TableFactory* factory) {
  rocksdb::Options options;
  options.env = rocksdb::NewMemEnv(rocksdb::Env::Default());
  const std::unique_ptr<rocksdb::Env> env(options.env);
  options.table_factory.reset(factory);
  options.compression = rocksdb::kNoCompression;
  rocksdb::SstFileWriter writer(rocksdb::EnvOptions(), options);
  const std::string value(100, 'v');
  if (!writer.Open("/table").ok()) abort();
  const double begin = ThreadSeconds();
  for (const std::string& key : keys) {
    if (!writer.Put(key, value).ok()) abort();
  }
  if (!writer.Finish().ok()) abort();
  return ThreadSeconds() - begin;
}

void Measure(const std::string& name, const Keys& keys, double bits) {
  Random random(1);
  std::vector<Run> runs(FLAGS_runs);
  Keys absent, stored;
  for (const std::string& key : keys) {
    if (random() % 10 == 0) {
      absent.push_back(key);
      continue;
    }
    stored.push_back(key);
    runs[random() % 2 == 0 ? FLAGS_runs - 1 : random() % FLAGS_runs].keys.push_back(key);
  }
  const Built built = Build(bits, &runs);
  const auto count = static_cast<double>(stored.size());

  uint64_t placeholders = 0, in_vain = 0, direct_in_vain = 0, present_in_vain = 0, window_in_vain = 0;
  uint64_t false_absent = 0, false_near = 0, near = 0;
  double asked = 0;
  std::string bound;
  for (uint64_t i = 0; i < FLAGS_targets; ++i) {
    const std::string& target = absent[random() % absent.size()];
    const auto returned = std::upper_bound(stored.begin(), stored.end() - 1, target);
    const auto distance = std::min<ptrdiff_t>(stored.end() - returned - 1, 1 + static_cast<ptrdiff_t>(random() % 20));
    const std::string& upper = *(returned + distance);
    const std::string& present = stored[random() % stored.size()];
    std::string miss = present;
    miss.back() = static_cast<char>(miss.back() ^ (1 + random() % 127));
    const bool is_miss = !std::binary_search(keys.begin(), keys.end(), miss);
    for (const Run& run : runs) {
      const auto next = std::lower_bound(run.keys.begin(), run.keys.end(), target);
      asked -= ThreadSeconds();
      const Run::Answer answer = run.Seek(target, &bound);
      asked += ThreadSeconds();
      if (answer == Run::Answer::kBound) ++placeholders;
      if (next == run.keys.end() || *next != *returned) {
        in_vain += answer == Run::Answer::kBound && bound <= *returned ? 1 : 0;
        direct_in_vain += answer == Run::Answer::kRead ? 1 : 0;
      }
      if (next == run.keys.end() || *next >= upper) {
        window_in_vain += answer == Run::Answer::kRead || (answer == Run::Answer::kBound && bound < upper) ? 1 : 0;
      }
      false_absent += run.MayHold(target) ? 1 : 0;
      if (!std::binary_search(run.keys.begin(), run.keys.end(), present)) {
        present_in_vain += run.Seek(present, &bound) == Run::Answer::kRead ? 1 : 0;
      } else if (is_miss) {
        ++near;
        false_near += run.MayHold(miss) ? 1 : 0;
      }
    }
  }
  const auto per_target = static_cast<double>(FLAGS_targets);
  const double questions = per_target * static_cast<double>(FLAGS_runs);
  const auto share = [](uint64_t part, double of) { return 100 * static_cast<double>(part) / std::max(1.0, of); };
  rocksdb::BlockBasedTableOptions table;
  table.filter_policy.reset(rocksdb::NewBloomFilterPolicy(FLAGS_bloom_bits));
  double stock = 1e9, ordered = 1e9;
  for (int i = 0; i < 3; ++i) {
    stock = std::min(stock, TableSeconds(runs.back().keys, rocksdb::NewBlockBasedTableFactory(table)));
    ordered = std::min(ordered, TableSeconds(runs.back().keys, cairn::NewOrderedTableFactory(table, {bits, 0})));
  }
  printf(
      "| %s | %zu | %.0f | %.2f | %.2f | %.2f %% | %.2f %% | %.3f | %.3f | %.3f | %.3f %% | %.2f %% | %.0f | %.0f | "
      "%.0f | %.0f | %.2f |\n",
      name.c_str(), keys.size(), bits, static_cast<double>(built.order_bytes) * 8 / count,
      static_cast<double>(built.bloom_bytes) * 8 / count, share(in_vain, static_cast<double>(placeholders)),
      share(direct_in_vain, questions), static_cast<double>(in_vain + direct_in_vain) / per_target,
      static_cast<double>(present_in_vain) / per_target, static_cast<double>(window_in_vain) / per_target,
      share(false_absent, questions), share(false_near, static_cast<double>(near)), asked * 1e9 / questions,
      built.order_seconds * 1e9 / count, built.bloom_seconds * 1e9 / count,
      stock * 1e9 / static_cast<double>(runs.back().keys.size()), ordered / stock);
  fflush(stdout);
}

}  // namespace

int main(int argc, char** argv) {
  gflags::ParseCommandLineFlags(&argc, &argv, true);
  std::vector<std::pair<std::string, Keys>> sets;
  const auto draw = [&sets](const char* name, const std::function<std::string(Random*)>& key) {
    Random random(7);
    Keys keys;
    for (uint64_t i = 0; i < FLAGS_keys; ++i) keys.push_back(key(&random));
    Sort(&keys);
    sets.emplace_back(name, std::move(keys));
  };
  for (int i = 1; i < argc; ++i) {
    std::ifstream file(argv[i]);
    Keys keys;
    for (std::string line; std::getline(file, line);) keys.push_back(line);
    Sort(&keys);
    if (keys.size() > 1)
      sets.emplace_back(strrchr(argv[i], '/') != nullptr ? strrchr(argv[i], '/') + 1 : argv[i], keys);
  }
  if (argc == 1) {
    draw("db_bench keys", [](Random* r) { return BigEndian((*r)() % 10000000) + "00000000"; });
    draw("uniform 64 bits", [](Random* r) { return BigEndian((*r)()); });
    draw("time and 2 bytes",
         [](Random* r) { return BigEndian(1700000000000 + (*r)() % 100000000) + BigEndian((*r)(), 2); });
    draw("user and 12 digits", [](Random* r) { return "user" + Decimal((*r)() % 1000000000, 12); });
    draw("tenant:table:row, 1,000 tenants", [](Random* r) {
      return "tenant" + Decimal((*r)() % 1000, 4) + ":table" + Decimal((*r)() % 8, 2) + ":" +
             Decimal((*r)() % 100000, 10);
    });
    draw("id and time, 20,000 ids", [](Random* r) {
      return "store:" + BigEndian((*r)() % 20000) + BigEndian(1700000000000 + (*r)() % 1000 * 60000);
    });
    draw("all share 1 KiB", [](Random* r) { return std::string(1024, 'p') + BigEndian((*r)(), 5); });
  }
  printf(
      "| keys | number | order_bits | order, bits per key | Bloom, bits per key | absent target: placeholders in vain "
      "| read at once in vain | blocks in vain per seek | present target: blocks in vain per seek | window: blocks in "
      "vain per scan | point lookups: false positives, absent | near miss | ns a seek and run | ns a key built | of "
      "Bloom | ns a key of the stock table | table built, of stock |\n");
  printf("|");
  for (int column = 0; column < 17; ++column) printf(" --- |");
  printf("\n");
  for (const auto& [name, keys] : sets) {
    std::string each = FLAGS_bits;
    for (char* bits = strtok(each.data(), ","); bits != nullptr; bits = strtok(nullptr, ",")) {
      Measure(name, keys, atof(bits));
    }
  }
  return 0;
}
