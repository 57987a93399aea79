#include <gtest/gtest.h>

#include <cmath>
#include <cstdio>
#include <cstdlib>
#include <fstream>
#include <limits>
#include <random>

#include "cairn/msls.h"
#include "test/testutil/temp_dir.h"

namespace cairn::msls {
namespace {

constexpr double kInfinity = std::numeric_limits<double>::infinity();

Popularity Uniform(double keys) {
  Popularity p;
  IndexStatus s = Popularity::Uniform(keys, &p);
  EXPECT_TRUE(s.ok()) << s.message();
  return p;
}

Popularity Zipf(double keys, double skew) {
  Popularity p;
  IndexStatus s = Popularity::Zipf(keys, skew, &p);
  EXPECT_TRUE(s.ok()) << s.message();
  return p;
}

// The sums as they are defined, key by key.
class Exact {
 public:
  Exact(size_t keys, double skew) : probability_(keys) {
    double total = 0;
    for (size_t i = keys; i-- > 0;) total += probability_[i] = std::pow(static_cast<double>(i + 1), -skew);
    for (double& p : probability_) p /= total;
  }
  double Unique(double requests) const {
    double sum = 0;
    for (size_t i = probability_.size(); i-- > 0;) sum -= std::expm1(requests * std::log1p(-probability_[i]));
    return sum;
  }
  double MeanUnique(double requests) const {
    double sum = 0;
    for (size_t i = probability_.size(); i-- > 0;) {
      const long double x = -static_cast<long double>(requests) * std::log1p(-probability_[i]);
      sum += static_cast<double>(x < 1e-4L ? x / 2 - x * x / 6 + x * x * x / 24 : 1 + std::expm1(-x) / x);
    }
    return sum;
  }
  double MissProbability(double requests) const {
    double sum = 0;
    for (size_t i = probability_.size(); i-- > 0;) {
      sum += probability_[i] * std::exp(requests * std::log1p(-probability_[i]));
    }
    return sum;
  }

 private:
  std::vector<double> probability_;
};

uint64_t Seed() {
  const char* text = getenv("CAIRN_SEED");
  const uint64_t seed = text ? strtoull(text, nullptr, 10) : std::random_device()();
  printf("CAIRN_SEED=%llu\n", static_cast<unsigned long long>(seed));
  return seed;
}

std::vector<Popularity> Several() {
  std::vector<Popularity> all = {Uniform(2),      Uniform(1000),   Uniform(1e12),  Zipf(1000, 0.5),
                                 Zipf(1e8, 0.99), Zipf(1e12, 0.8), Zipf(1e6, 1.5), Zipf(1e5, 3)};
  Popularity histogram;
  EXPECT_TRUE(Popularity::Histogram({{100, 10}, {99, 5}, {1, 1e6}, {0.25, 1e7}, {0, 1e9}}, &histogram).ok());
  all.push_back(histogram);
  return all;
}

TEST(PopularityTest, AgreesWithExactSums) {
  for (double skew : {0.0, 0.3, 0.8, 0.99, 1.0, 1.2, 2.0, 4.0}) {
    for (size_t keys : {2, 7, 50, 1234, 300000}) {
      const Exact exact(keys, skew);
      const Popularity p = Zipf(static_cast<double>(keys), skew);
      for (double requests : {0.02, 0.7, 1.0, 13.0, 1e3, 2e4, 1e6, 3e7}) {
        EXPECT_NEAR(p.Unique(requests) / exact.Unique(requests), 1, 1e-6) << skew << " " << keys << " " << requests;
        EXPECT_NEAR(p.MeanUnique(requests) / exact.MeanUnique(requests), 1, 1e-6)
            << skew << " " << keys << " " << requests;
        EXPECT_NEAR(p.MissProbability(requests), exact.MissProbability(requests), 1e-7)
            << skew << " " << keys << " " << requests;
      }
    }
  }
}

TEST(PopularityTest, HistogramAgreesWithExactSums) {
  std::vector<HistogramBin> bins;
  const size_t kKeys = 20000;
  for (size_t i = 0; i < kKeys; i++) bins.push_back({std::pow(static_cast<double>(i + 1), -0.9), 1});
  Popularity p;
  ASSERT_TRUE(Popularity::Histogram(bins, &p).ok());
  const Exact exact(kKeys, 0.9);
  EXPECT_EQ(p.keys(), kKeys);
  for (double requests : {0.7, 13.0, 1e3, 2e4, 1e6, 3e7}) {
    EXPECT_NEAR(p.Unique(requests) / exact.Unique(requests), 1, 1e-6) << requests;
    EXPECT_NEAR(p.MeanUnique(requests) / exact.MeanUnique(requests), 1, 1e-6) << requests;
    EXPECT_NEAR(p.MissProbability(requests), exact.MissProbability(requests), 1e-7) << requests;
  }
}

TEST(PopularityTest, NumbersOfTheThesis) {
  // Lim's thesis (CMU 2015), section 4.2.4: Merge(10^7, 9 * 10^7) is about 9.03 * 10^7 of 10^8 keys at s = 0.99.
  EXPECT_NEAR(Zipf(1e8, 0.99).Merge(1e7, 9e7), 9.03e7, 0.005e7);
  // Section 4.3.3: 10 Mi of 10^8 uniform keys.
  const double size = 10 * 1048576.0;
  EXPECT_NEAR(Uniform(1e8).DInterval(size), 2.26e7, 0.005e7);
  EXPECT_NEAR(Uniform(1e8).UniqueInverse(size), 1.11e7, 0.005e7);
}

TEST(PopularityTest, UniqueIsIncreasingConcaveAndBounded) {
  for (const Popularity& p : Several()) {
    double last = 0, last_mean = 0, last_rate = 1 + 1e-9, last_requests = 0;
    for (double requests = 1; requests < 1e16; requests *= 1.7) {
      const double unique = p.Unique(requests), mean = p.MeanUnique(requests);
      EXPECT_GE(unique, last) << p.name();
      EXPECT_GE(mean, last_mean) << p.name();
      EXPECT_LE(unique, std::min(requests, p.keys()) * (1 + 1e-9)) << p.name();
      EXPECT_LE(mean, unique * (1 + 1e-9)) << p.name();
      EXPECT_NEAR(unique + p.Missing(requests), p.keys(), 1e-8 * p.keys()) << p.name();
      const double rate = (unique - last) / (requests - last_requests);
      EXPECT_LE(rate, last_rate + 1e-9) << p.name() << " " << requests;
      last = unique, last_mean = mean, last_rate = rate, last_requests = requests;
    }
    EXPECT_EQ(p.Unique(0), 0);
    EXPECT_EQ(p.Unique(kInfinity), p.keys());
    EXPECT_EQ(p.MeanUnique(kInfinity), p.keys());
    EXPECT_NEAR(p.Unique(1), 1, 1e-9);
  }
}

TEST(PopularityTest, InversesUndo) {
  std::mt19937_64 random(Seed());
  for (const Popularity& p : Several()) {
    for (int i = 0; i < 200; i++) {
      const double part = std::pow(10, -12.0 * std::uniform_real_distribution<>()(random));
      for (double size : {p.keys() * part, p.keys() * (1 - part / 2)}) {
        EXPECT_NEAR(p.Unique(p.UniqueInverse(size)) / size, 1, 1e-9) << p.name() << " " << size;
        EXPECT_NEAR(p.MeanUnique(p.DInterval(size)) / size, 1, 1e-9) << p.name() << " " << size;
        EXPECT_GE(p.DInterval(size), p.UniqueInverse(size) * (1 - 1e-9)) << p.name() << " " << size;
      }
    }
    EXPECT_EQ(p.UniqueInverse(0), 0);
    EXPECT_EQ(p.UniqueInverse(p.keys()), kInfinity);
    EXPECT_EQ(p.DInterval(p.keys()), kInfinity);
  }
}

TEST(PopularityTest, MergeCommutesAndHasLimits) {
  std::mt19937_64 random(Seed());
  for (const Popularity& p : Several()) {
    for (int i = 0; i < 100; i++) {
      const double u = p.keys() * std::uniform_real_distribution<>()(random);
      const double v = p.keys() * std::uniform_real_distribution<>()(random);
      const double merged = p.Merge(u, v);
      EXPECT_EQ(merged, p.Merge(v, u));
      EXPECT_GE(merged, std::max(u, v) * (1 - 1e-9));
      EXPECT_LE(merged, std::min(u + v, p.keys()) * (1 + 1e-9));
      EXPECT_NEAR(p.Merge(p.Merge(u, v), 0.1 * p.keys()) / p.Merge(u, p.Merge(v, 0.1 * p.keys())), 1, 1e-8);
    }
    EXPECT_NEAR(p.Merge(p.keys() / 3, 0) / (p.keys() / 3), 1, 1e-9);
    EXPECT_EQ(p.Merge(p.keys(), p.keys() / 2), p.keys());
  }
}

// Lim's thesis (CMU 2015), lemma 4.5: the density adds up to the size of the level.
TEST(PopularityTest, DensityAddsUpToTheLevel) {
  for (const Popularity& p : {Uniform(1e8), Zipf(1e8, 0.99)}) {
    const double size = 10 * 1048576.0;
    const double dinterval = p.DInterval(size);
    const int kSteps = 100000;
    double sum = 0;
    for (int i = 0; i < kSteps; i++) sum += p.Density(dinterval, (i + 0.5) / kSteps);
    EXPECT_NEAR(sum / kSteps * p.keys() / size, 1, 1e-6) << p.name();
  }
}

TEST(PopularityTest, MissProbabilityIsTheRateOfNewKeys) {
  for (const Popularity& p : Several()) {
    for (double requests : {3.0, 1e3, 1e6}) {
      const double rate = p.Missing(requests) - p.Missing(requests + 1);
      EXPECT_NEAR(p.MissProbability(requests), rate, 1e-3 * rate + 1e-9 * p.keys()) << p.name();
    }
  }
}

TEST(PopularityTest, OneKey) {
  Popularity histogram;
  ASSERT_TRUE(Popularity::Histogram({{5, 1}}, &histogram).ok());
  for (const Popularity& p : {Uniform(1), Zipf(1, 0.99), histogram}) {
    EXPECT_EQ(p.keys(), 1);
    for (double requests : {1.0, 2.0, 1e9}) {
      EXPECT_NEAR(p.Unique(requests), 1, 1e-9);
      EXPECT_NEAR(p.MissProbability(requests), 0, 1e-9);
    }
    EXPECT_NEAR(p.Merge(1, 1), 1, 1e-9);
    EXPECT_TRUE(std::isfinite(p.DInterval(0.5)));
  }
}

// A bin may hold a part of a key; no probability exceeds 1 for that.
TEST(PopularityTest, PartOfAVeryPopularKey) {
  Popularity p;
  ASSERT_TRUE(Popularity::Histogram({{1.26, 0.02}, {0.002, 500}, {1e-6, 20000}}, &p).ok());
  double last = 0;
  for (double requests = 1; requests < 1e6; requests *= 3) {
    EXPECT_GE(p.Unique(requests), last) << requests;
    EXPECT_TRUE(std::isfinite(p.DInterval(p.Unique(requests) * 0.9))) << requests;
    last = p.Unique(requests);
  }
}

TEST(PopularityTest, BadInputIsRefused) {
  Popularity p;
  const double nan = std::nan("");
  for (double keys : {0.0, 0.5, -5.0, 1e16, nan, kInfinity}) {
    EXPECT_FALSE(Popularity::Uniform(keys, &p).ok()) << keys;
    EXPECT_FALSE(Popularity::Zipf(keys, 0.99, &p).ok()) << keys;
  }
  for (double skew : {-0.1, 9.0, nan, kInfinity}) EXPECT_FALSE(Popularity::Zipf(100, skew, &p).ok()) << skew;
  EXPECT_NE(Popularity::Zipf(100, -0.1, &p).message().find("-0.1"), std::string::npos);
  EXPECT_FALSE(Popularity::Histogram({}, &p).ok());
  EXPECT_FALSE(Popularity::Histogram({{1, 0.5}}, &p).ok());
  EXPECT_FALSE(Popularity::Histogram({{-1, 10}}, &p).ok());
  EXPECT_FALSE(Popularity::Histogram({{nan, 10}}, &p).ok());
  EXPECT_FALSE(Popularity::HistogramFromFile("no such file", &p).ok());

  const test::TempDir folder;
  const std::string path = folder / "histogram";
  std::ofstream(path) << "# weight keys\n10 5\n\n2\n";
  ASSERT_TRUE(Popularity::HistogramFromFile(path, &p).ok());
  EXPECT_EQ(p.keys(), 6);
  ASSERT_TRUE(Popularity::HistogramOfSample(path, 6000, &p).ok());
  EXPECT_NEAR(p.keys(), 6000, 1e-6);
  std::ofstream(path) << "10 5\n0 15\n";
  ASSERT_TRUE(Popularity::HistogramFromFile(path, &p).ok());
  EXPECT_EQ(p.keys(), 5);
  ASSERT_TRUE(Popularity::HistogramOfSample(path, 200, &p).ok());
  EXPECT_NEAR(p.keys(), 200, 1e-6);
  EXPECT_NEAR(p.Unique(1e4), 50, 1);  // the others are hardly ever written
  std::ofstream(path) << "0 15\n";
  EXPECT_FALSE(Popularity::HistogramOfSample(path, 200, &p).ok());
  EXPECT_FALSE(Popularity::HistogramOfSample("no such file", 200, &p).ok());
  for (const char* bad : {"10 5 7\n", "x\n", "3 y\n", "-1 5\n", "nan 5\n", "3x 1\n"}) {
    std::ofstream(path) << "1 100\n" << bad;
    const IndexStatus s = Popularity::HistogramFromFile(path, &p);
    EXPECT_FALSE(s.ok()) << bad;
    EXPECT_NE(s.message().find(path + ":2"), std::string::npos) << s.message();
  }
}

}  // namespace
}  // namespace cairn::msls
