// What order filters take and err, for keys that are spread over sorted runs: bits per key, and for each run and target
// whether the run is read in vain. docs/ordered.md has its table.
//
//   order_filter_bench [--runs=16] [--bits=6,9] [FILE...]    a FILE has a key a line
//
// A target is a key of the set that no run has: every tenth. The scan returns the first key of all runs at or above it.
// A run is read in vain if it does not have that key and the filter could not tell, or its bound is not above that key.

#include <gflags/gflags.h>

#include <algorithm>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <fstream>
#include <functional>
#include <random>
#include <string>
#include <vector>

#include "table/order_filter.h"

DEFINE_uint64(keys, 1000000, "Keys of each set that is drawn");
DEFINE_uint64(runs, 16, "Sorted runs, of equal size but for the last, which has half of the keys");
DEFINE_string(bits, "6,9,11", "Bits per key, separated by commas");
DEFINE_uint64(targets, 20000, "Targets");

namespace {

using Random = std::mt19937_64;
using Keys = std::vector<std::string>;

std::string BigEndian(uint64_t v, int bytes = 8) {
  std::string key;
  for (int i = bytes - 1; i >= 0; --i) key.push_back(static_cast<char>(v >> (8 * i)));
  return key;
}

std::string Decimal(uint64_t v, int digits) {
  char text[32];
  snprintf(text, sizeof(text), "%0*llu", digits, static_cast<unsigned long long>(v));
  return text;
}

void Sort(Keys* keys) {
  std::sort(keys->begin(), keys->end());
  keys->erase(std::unique(keys->begin(), keys->end()), keys->end());
}

double Seconds() { return std::chrono::duration<double>(std::chrono::steady_clock::now().time_since_epoch()).count(); }

void Measure(const std::string& name, const Keys& keys, double bits) {
  Random random(1);
  std::vector<Keys> runs(FLAGS_runs);
  Keys targets, stored;
  for (const std::string& key : keys) {
    if (random() % 10 == 0) {
      targets.push_back(key);
      continue;
    }
    stored.push_back(key);
    runs[random() % 2 == 0 ? FLAGS_runs - 1 : random() % FLAGS_runs].push_back(key);
  }
  std::vector<std::string> bytes;
  double built = -Seconds();
  size_t size = 0;
  for (const Keys& run : runs) {
    cairn::OrderFilterBuilder builder(bits);
    for (const std::string& key : run) builder.Add(key.data(), key.size());
    bytes.push_back(builder.Finish());
    size += bytes.back().size();
  }
  built += Seconds();
  std::vector<cairn::OrderFilter> filters(runs.size());
  for (size_t i = 0; i < runs.size(); ++i) {
    if (filters[i].Open(bytes[i].data(), bytes[i].size()) != nullptr) return;
  }
  uint64_t deferred = 0, unknown = 0, in_vain = 0, questions = 0;
  double asked = 0;
  std::string bound;
  for (uint64_t i = 0; i < FLAGS_targets; ++i) {
    const std::string& target = targets[random() % targets.size()];
    const std::string& returned = *std::upper_bound(stored.begin(), stored.end() - 1, target);
    for (size_t run = 0; run < runs.size(); ++run) {
      const auto next = std::lower_bound(runs[run].begin(), runs[run].end(), target);
      const bool has_it = next != runs[run].end() && *next == returned;
      asked -= Seconds();
      const cairn::OrderAnswer answer = filters[run].Find(target.data(), target.size(), &bound);
      asked += Seconds();
      ++questions;
      deferred += answer == cairn::OrderAnswer::kBound ? 1 : 0;
      if (has_it) continue;
      unknown += answer == cairn::OrderAnswer::kHere ? 1 : 0;
      in_vain += answer == cairn::OrderAnswer::kBound && bound <= returned ? 1 : 0;
    }
  }
  const double per_target = static_cast<double>(FLAGS_targets);
  printf("| %s | %zu | %.0f | %.2f | %.2f %% | %.2f %% | %.3f | %.0f | %.0f |\n", name.c_str(), keys.size(), bits,
         static_cast<double>(size) * 8 / static_cast<double>(stored.size()),
         100 * static_cast<double>(in_vain) / static_cast<double>(std::max<uint64_t>(deferred, 1)),
         100 * static_cast<double>(unknown) / static_cast<double>(questions),
         static_cast<double>(in_vain + unknown) / per_target, asked * 1e9 / static_cast<double>(questions),
         built * 1e9 / static_cast<double>(keys.size()));
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
      "| keys | number | bits asked for | bits per key | placeholders in vain | not deferred in vain | blocks in vain "
      "per seek | ns a question | ns a key built |\n");
  printf("| --- | --- | --- | --- | --- | --- | --- | --- | --- |\n");
  for (const auto& [name, keys] : sets) {
    std::string each = FLAGS_bits;
    for (char* bits = strtok(each.data(), ","); bits != nullptr; bits = strtok(nullptr, ",")) {
      Measure(name, keys, atof(bits));
    }
  }
  return 0;
}
