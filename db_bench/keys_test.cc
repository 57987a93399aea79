#include "db_bench/keys.h"

#include <gtest/gtest.h>

#include <cmath>
#include <cstdlib>
#include <set>
#include <string>

namespace cairn::bench {
namespace {

uint64_t Seed() {
  const char* text = getenv("CAIRN_SEED");
  uint64_t seed = text != nullptr ? strtoull(text, nullptr, 10) : 301;
  printf("CAIRN_SEED=%llu\n", static_cast<unsigned long long>(seed));
  return seed;
}

TEST(Keys, NumbersHaveKeysOfTheirOwn) {
  std::set<std::string> keys;
  for (uint64_t i = 0; i < 20000; i++) {
    char key[kKeyBytes];
    EncodeKey(i, key);
    keys.insert(std::string(key, kKeyBytes));
  }
  EXPECT_EQ(keys.size(), 20000u);
  EXPECT_EQ(keys.begin()->find_first_not_of("0123456789abcdef"), std::string::npos);
}

TEST(Keys, NeighboursLieApart) {
  // Keys in the order of their numbers would all begin with the same digit.
  std::set<char> first_digits;
  for (uint64_t i = 0; i < 64; i++) {
    char key[kKeyBytes];
    EncodeKey(i, key);
    first_digits.insert(key[0]);
  }
  EXPECT_GT(first_digits.size(), 8u);
}

TEST(Random64Test, SameSeedSameNumbers) {
  Random64 a(5);
  Random64 b(5);
  Random64 c(6);
  uint64_t first = a.Next();
  EXPECT_EQ(first, b.Next());
  EXPECT_NE(first, c.Next());
}

TEST(UniformKeysTest, EveryTenthGetsItsShare) {
  UniformKeys keys(1000, Seed());
  int tenths[10] = {};
  for (int i = 0; i < 100000; i++) {
    uint64_t key = keys.Next();
    ASSERT_LT(key, 1000u);
    tenths[key / 100]++;
  }
  for (int count : tenths) {
    EXPECT_NEAR(count, 10000, 600);  // 6 standard deviations
  }
}

// Frequencies of single ranks and of a tail against the law itself.
void ExpectZipf(uint64_t n, double theta, uint64_t seed) {
  constexpr int kDraws = 400000;
  ZipfKeys keys(n, theta, seed);
  std::vector<int> counts(n);
  for (int i = 0; i < kDraws; i++) {
    uint64_t key = keys.Next();
    ASSERT_LT(key, n);
    counts[key]++;
  }
  double sum = 0;
  for (uint64_t k = 1; k <= n; k++) {
    sum += std::pow(static_cast<double>(k), -theta);
  }
  double tail_expected = 0;
  int tail = 0;
  for (uint64_t k = 1; k <= n; k++) {
    double p = std::pow(static_cast<double>(k), -theta) / sum;
    if (k <= 10) {
      EXPECT_NEAR(counts[k - 1], kDraws * p, 6 * std::sqrt(kDraws * p * (1 - p)) + 1) << "rank " << k;
    }
    if (k > n / 2) {
      tail_expected += p;
      tail += counts[k - 1];
    }
  }
  EXPECT_NEAR(tail, kDraws * tail_expected, 6 * std::sqrt(kDraws * tail_expected) + 1);
}

TEST(ZipfKeysTest, FollowsTheLaw) {
  uint64_t seed = Seed();
  ExpectZipf(1000, 0.99, seed);
  ExpectZipf(1000, 0.5, seed);
  ExpectZipf(1000, 1.2, seed);
  ExpectZipf(2, 0.99, seed);
}

TEST(ValueSourceTest, ValuesDependOnNumberAndSize) {
  ValueSource a(1);
  ValueSource same(1);
  EXPECT_EQ(a.Value(7, 100).ToString(), same.Value(7, 100).ToString());
  EXPECT_NE(a.Value(7, 100).ToString(), a.Value(8, 100).ToString());
  EXPECT_NE(a.Value(7, 99).ToString(), a.Value(7, 100).ToString().substr(0, 99));
  EXPECT_EQ(a.Value(7, ValueSource::kMaxValueBytes).size(), ValueSource::kMaxValueBytes);
}

}  // namespace
}  // namespace cairn::bench
