#include "cairn/cuckoo_filter.h"

#include <cmath>
#include <memory>
#include <random>

#include "gtest/gtest.h"
#include "test/testutil/filter_damage.h"
#include "test/testutil/test_seed.h"
#include "util/checksum.h"
#include "util/format_version.h"

namespace cairn {
namespace {

std::string Build(const std::vector<uint64_t>& hashes, CuckooFilterOptions options) {
  CuckooFilterBuilder builder(options);
  for (uint64_t hash : hashes) builder.Add(hash);
  EXPECT_EQ(hashes.size(), builder.keys());
  std::string bytes;
  const IndexStatus status = builder.Finish(&bytes);
  EXPECT_TRUE(status.ok()) << status.message();
  return bytes;
}

CuckooFilter OpenGood(const std::string& bytes) {
  CuckooFilter filter;
  const IndexStatus status = CuckooFilter::Open(bytes.data(), bytes.size(), &filter);
  EXPECT_TRUE(status.ok()) << status.message();
  return filter;
}

std::vector<uint64_t> Random(std::mt19937_64* random, size_t n) {
  std::vector<uint64_t> hashes(n);
  for (uint64_t& hash : hashes) hash = (*random)();
  return hashes;
}

TEST(CuckooFilter, HasEveryKeyAtEveryTagWidth) {
  std::mt19937_64 random(Seed());
  for (uint32_t tag_bits = 4; tag_bits <= 25; ++tag_bits) {
    for (size_t n : {0, 1, 2, 3, 5, 100, 3000}) {
      const std::vector<uint64_t> hashes = Random(&random, n);
      CuckooFilterOptions options;
      options.tag_bits = tag_bits;
      const std::string bytes = Build(hashes, options);
      const CuckooFilter filter = OpenGood(bytes);
      EXPECT_EQ(tag_bits, filter.tag_bits());
      for (uint64_t hash : hashes) ASSERT_TRUE(filter.MayContain(hash)) << tag_bits << " bits, " << n << " keys";
      if (n == 0) {
        EXPECT_FALSE(filter.MayContain(random()));
      }
    }
  }
}

TEST(CuckooFilter, FalsePositivesAreAsRareAsTheTagsAllow) {
  std::mt19937_64 random(Seed());
  for (uint32_t tag_bits : {8u, 12u, 17u}) {
    CuckooFilterOptions options;
    options.tag_bits = tag_bits;
    const std::string bytes = Build(Random(&random, 100000), options);
    const CuckooFilter filter = OpenGood(bytes);
    const int questions = 400000;
    int yes = 0;
    for (int i = 0; i < questions; ++i) yes += filter.MayContain(random()) ? 1 : 0;
    const double expected = 8 * 0.95 / std::pow(2.0, tag_bits) * questions;
    EXPECT_LT(yes, expected + 6 * std::sqrt(expected) + 5) << tag_bits;
    EXPECT_GT(yes, expected - 6 * std::sqrt(expected) - 5 - expected * 0.1) << tag_bits;
  }
}

TEST(CuckooFilter, ReachesTheLoad) {
  std::mt19937_64 random(Seed());
  const std::string bytes = Build(Random(&random, 500000), CuckooFilterOptions());
  const CuckooFilter filter = OpenGood(bytes);
  EXPECT_GT(filter.load(), 0.945);
  EXPECT_LT(8.0 * static_cast<double>(filter.bytes()) / 500000, 15 / 0.945);
}

TEST(CuckooFilter, EqualHashesCountOnce) {
  std::mt19937_64 random(Seed());
  std::vector<uint64_t> hashes = Random(&random, 100);
  for (int i = 0; i < 10000; ++i) hashes.push_back(hashes[random() % 3]);
  CuckooFilterOptions options;
  options.tag_bits = 25;
  const std::string bytes = Build(hashes, options);
  EXPECT_EQ(100u, OpenGood(bytes).tags());
}

TEST(CuckooFilter, HashesOfANarrowRangeFillTheTable) {
  std::vector<uint64_t> hashes;
  for (uint64_t i = 0; i < 50000; ++i) hashes.push_back((uint64_t{1} << 63) + i);
  const std::string bytes = Build(hashes, CuckooFilterOptions());
  const CuckooFilter filter = OpenGood(bytes);
  EXPECT_GT(filter.load(), 0.94);
  for (uint64_t hash : hashes) ASSERT_TRUE(filter.MayContain(hash));
}

TEST(CuckooFilter, TooManyKeysForTheTagsStillAnswer) {
  std::mt19937_64 random(Seed());
  CuckooFilterOptions options;
  options.tag_bits = 4;
  options.load = 0.97;
  const std::vector<uint64_t> hashes = Random(&random, 20000);
  const std::string bytes = Build(hashes, options);
  const CuckooFilter filter = OpenGood(bytes);
  for (uint64_t hash : hashes) ASSERT_TRUE(filter.MayContain(hash));
}

TEST(CuckooFilter, BatchesAnswerLikeSingleQuestions) {
  std::mt19937_64 random(Seed());
  std::vector<uint64_t> hashes = Random(&random, 1000);
  const std::string bytes = Build(hashes, CuckooFilterOptions());
  const CuckooFilter filter = OpenGood(bytes);
  const std::vector<uint64_t> strangers = Random(&random, 1003);
  hashes.insert(hashes.begin() + 500, strangers.begin(), strangers.end());
  std::unique_ptr<bool[]> answers(new bool[hashes.size()]);
  filter.MayContainBatch(hashes.data(), hashes.size(), answers.get());
  for (size_t i = 0; i < hashes.size(); ++i) ASSERT_EQ(filter.MayContain(hashes[i]), answers[i]);
}

TEST(CuckooFilter, RefusesWrongArguments) {
  const auto code = [](uint32_t tag_bits, double load) {
    CuckooFilterBuilder builder(CuckooFilterOptions{tag_bits, load});
    std::string bytes;
    return builder.Finish(&bytes).code();
  };
  EXPECT_EQ(IndexStatus::Code::kInvalidArgument, code(3, 0.95));
  EXPECT_EQ(IndexStatus::Code::kInvalidArgument, code(26, 0.95));
  EXPECT_EQ(IndexStatus::Code::kInvalidArgument, code(15, 0.98));
  EXPECT_EQ(IndexStatus::Code::kInvalidArgument, code(15, 0));
  EXPECT_EQ(IndexStatus::Code::kInvalidArgument, code(15, std::nan("")));
}

// The format may not change unnoticed.
TEST(CuckooFilter, Golden) {
  std::vector<uint64_t> hashes;
  for (uint64_t i = 1; i <= 12; ++i) hashes.push_back(i * 0x9e3779b97f4a7c15u);
  CuckooFilterOptions options;
  options.tag_bits = 11;
  std::string hex;
  for (char c : Build(hashes, options)) {
    char digits[3];
    snprintf(digits, sizeof(digits), "%02x", static_cast<uint8_t>(c));
    hex += digits;
  }
  EXPECT_EQ(
      "436169726e434b46010000000b00000004000000000000000c000000000000004eb50ad101505f00000000132a1fecad32599746913f0000"
      "00000000000051725d54",
      hex);
  for (int i = 0; i < 100000; ++i) hashes.push_back(hashes.back() * 0xd6e8feb86659fd93u + 1);
  const std::string large = Build(hashes, CuckooFilterOptions());
  EXPECT_EQ(4227368778u, Crc32c(large.data(), large.size() - 4));
}

// Takes the inverse of how the filter mixes hashes.
uint64_t HashMixedTo(uint64_t mixed) {
  const auto inverse = [](uint64_t odd) {
    uint64_t result = odd;  // right in its lowest three bits; each step doubles them
    for (int i = 0; i < 5; ++i) result *= 2 - odd * result;
    return result;
  };
  mixed *= inverse(0xd6e8feb86659fd93u);
  mixed ^= mixed >> 32;
  return mixed * inverse(0x9e3779b97f4a7c15u);
}

// Somebody who knows the seed makes as many keys of one bucket as he likes: equal hashes count once, and a filter that
// others fill a thousand times as large is not built.
TEST(CuckooFilter, HashesThatCrowdAreRefused) {
  std::vector<uint64_t> hashes(100000, 42);
  EXPECT_EQ(1u, OpenGood(Build(hashes, CuckooFilterOptions())).tags());
  std::mt19937_64 random(Seed());
  for (uint64_t& hash : hashes) hash = HashMixedTo(random() >> 10);
  CuckooFilterBuilder builder{CuckooFilterOptions()};
  for (uint64_t hash : hashes) builder.Add(hash);
  std::string bytes;
  EXPECT_EQ(IndexStatus::Code::kNotSupported, builder.Finish(&bytes).code());
  EXPECT_EQ("", bytes);
  for (uint64_t& hash : hashes) hash = HashMixedTo(random());
  Build(hashes, CuckooFilterOptions());
}

TEST(CuckooFilter, ALaterVersionIsRefused) {
  std::string bytes = Build({1, 2, 3}, CuckooFilterOptions());
  ++bytes[8];
  CuckooFilter filter;
  const IndexStatus s = CuckooFilter::Open(bytes.data(), bytes.size(), &filter);
  EXPECT_EQ(IndexStatus::Code::kNotSupported, s.code());
  EXPECT_EQ(0u, s.message().find("cuckoo filter of " + UnknownVersion(2, 1)));
}

TEST(CuckooFilter, EveryDamagedByteAndTruncationIsRefused) {
  std::mt19937_64 random(Seed());
  for (size_t n : {0, 1, 300})
    ExpectDamageIsRefused<CuckooFilter>(Build(Random(&random, n), CuckooFilterOptions()), &random);
}

}  // namespace
}  // namespace cairn
