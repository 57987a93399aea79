// Known popularities, sampled as the tuner samples them: the estimate must say the same of what is written.

#include "msls/popularity_estimate.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <random>
#include <set>
#include <string>

#include "msls/key_sample.h"
#include "test/testutil/test_seed.h"
#include "util/coding.h"

namespace cairn {
namespace {

using msls::HistogramBin;
using msls::Popularity;

// The keys of Zipf's law as bins so narrow that drawing from them is drawing from the law.
std::vector<HistogramBin> ZipfBins(double keys, double skew) {
  std::vector<HistogramBin> bins;
  for (double rank = 1; rank <= keys;) {
    const double count = std::min(keys - rank + 1, std::max(1.0, std::floor(rank * 0.02)));
    bins.push_back({std::pow(rank + (count - 1) / 2, -skew), count});
    rank += count;
  }
  return bins;
}

// Samples of `flushes` memtables of `writes` requests, through the property and back.
KeySampleWindow Sample(const std::vector<HistogramBin>& bins, int flushes, int writes) {
  std::mt19937_64 random(Seed());
  std::vector<double> cumulative, first_key;
  double weight = 0, keys = 0;
  for (const HistogramBin& bin : bins) {
    first_key.push_back(keys);
    keys += bin.keys;
    weight += bin.weight * bin.keys;
    cumulative.push_back(weight);
  }
  KeySampleWindow window;
  for (int flush = 0; flush < flushes; flush++) {
    std::set<std::string> table;
    for (int i = 0; i < writes; i++) {
      const double at = std::generate_canonical<double, 53>(random) * weight;
      const size_t bin = std::min<size_t>(
          std::upper_bound(cumulative.begin(), cumulative.end(), at) - cumulative.begin(), bins.size() - 1);
      std::string key;
      rocksdb::PutFixed64(
          &key, static_cast<uint64_t>(first_key[bin] +
                                      std::floor(std::generate_canonical<double, 53>(random) * bins[bin].keys)));
      table.insert(key);
    }
    SmallestHashes hashes(1024);
    for (const std::string& key : table) hashes.Add(key);
    EXPECT_TRUE(window.Add(hashes.Encode()));
  }
  return window;
}

// Unique and the best level sizes by the estimate against the truth.
void Check(const std::string& name, const std::vector<HistogramBin>& truth, int flushes, int writes) {
  Popularity real, estimated;
  ASSERT_TRUE(Popularity::Histogram(truth, &real).ok());
  const KeySampleWindow window = Sample(truth, flushes, writes);
  const std::vector<HistogramBin> bins = EstimatePopularity(real.keys(), writes, window.KeysByTables(), window.share());
  ASSERT_TRUE(Popularity::Histogram(bins, &estimated).ok()) << name;
  EXPECT_NEAR(estimated.keys() / real.keys(), 1, 0.001) << name;
  for (double writes_seen : {1.0, 4.0, 16.0, 64.0}) {
    const double p = writes_seen * writes;
    const double tolerance = writes_seen <= flushes ? 0.05 : 0.15;  // beyond what was seen: extrapolated
    EXPECT_NEAR(estimated.Unique(p) / real.Unique(p), 1, tolerance) << name << ", distinct keys of " << p << " writes";
  }
  EXPECT_NEAR(WritesOfMostPopular(bins, 0.1), WritesOfMostPopular(truth, 0.1), 0.06) << name;

  msls::StoreShape store = msls::StoreShape::Default(msls::Design::kRocksDB);
  store.log = false;
  store.write_buffer_bytes = writes * store.item_bytes;
  store.level_base_bytes = 4 * store.write_buffer_bytes;
  store.file_bytes = store.write_buffer_bytes;
  msls::Report a, b;
  ASSERT_TRUE(Model(store, real, &a).ok());
  ASSERT_TRUE(Model(store, estimated, &b).ok());
  EXPECT_NEAR(b.write_amplification / a.write_amplification, 1, 0.05) << name;
}

TEST(PopularityEstimateTest, FindsUniform) { Check("uniform", {{1, 100000}}, 64, 3000); }
TEST(PopularityEstimateTest, FindsZipf) {
  for (double skew : {0.5, 0.99, 1.3}) Check("Zipf " + std::to_string(skew), ZipfBins(100000, skew), 64, 3000);
}
TEST(PopularityEstimateTest, FindsWhatNoZipfLawDescribes) {
  Check("hot and cold", {{10, 10000}, {0.111, 90000}}, 64, 3000);  // 90 % of the writes to 10 % of the keys
  Check("two kinds", {{1, 50000}, {0.02, 50000}}, 64, 3000);       // half of the keys hardly ever
  Check("one hot key", {{100000, 1}, {1, 100000}}, 64, 3000);      // half of the writes to one key
  Check("few flushes", {{10, 2000}, {0.111, 18000}}, 8, 1000);
}

TEST(PopularityEstimateTest, NothingToGoBy) {
  EXPECT_TRUE(EstimatePopularity(1000, 100, {}, 1).empty());
  EXPECT_TRUE(EstimatePopularity(1000, 100, {0}, 1).empty());
  EXPECT_TRUE(EstimatePopularity(1000, 100, {0, 0, 0, 0}, 1).empty());
  EXPECT_TRUE(EstimatePopularity(0, 100, {0, 5, 3, 0}, 1).empty());
  EXPECT_TRUE(EstimatePopularity(1000, 100, {0, 5, 3, 0}, 0).empty());
}

}  // namespace
}  // namespace cairn
