#include "result_cache/ghosts.h"

#include <gtest/gtest.h>

#include "util/mix64.h"

namespace cairn::cache {
namespace {

TEST(BucketGhostsTest, RemembersTheLastTwo) {
  const uint64_t first = SplitMix64(1);
  const uint64_t second = SplitMix64(2);
  const uint64_t third = SplitMix64(3);
  uint32_t ghosts = 0;
  EXPECT_FALSE(BucketGhosts::Has(ghosts, first));
  ghosts = BucketGhosts::Add(ghosts, first);
  EXPECT_TRUE(BucketGhosts::Has(ghosts, first));
  EXPECT_FALSE(BucketGhosts::Has(ghosts, second));
  ghosts = BucketGhosts::Add(ghosts, second);
  EXPECT_TRUE(BucketGhosts::Has(ghosts, first));
  EXPECT_TRUE(BucketGhosts::Has(ghosts, second));
  ghosts = BucketGhosts::Add(ghosts, third);
  EXPECT_FALSE(BucketGhosts::Has(ghosts, first));
  EXPECT_TRUE(BucketGhosts::Has(ghosts, second));
  EXPECT_TRUE(BucketGhosts::Has(ghosts, third));
}

TEST(BucketGhostsTest, ForgetsTheOneThatIsTaken) {
  const uint64_t first = SplitMix64(1);
  const uint64_t second = SplitMix64(2);
  const uint32_t both = BucketGhosts::Add(BucketGhosts::Add(0, first), second);
  for (const uint64_t taken : {first, second}) {
    const uint64_t other = taken == first ? second : first;
    const uint32_t left = BucketGhosts::Remove(both, taken);
    EXPECT_FALSE(BucketGhosts::Has(left, taken));
    EXPECT_TRUE(BucketGhosts::Has(left, other));
    EXPECT_EQ(BucketGhosts::Remove(left, taken), left);
    EXPECT_EQ(BucketGhosts::Remove(left, other), 0u);
  }
}

// Where the hash has no bits for it, too: 0 says that there is no ghost.
TEST(BucketGhostsTest, EveryHashHasAMark) {
  for (uint64_t bits = 0; bits <= 0xffff; ++bits) {
    const uint64_t hash = bits << 32;
    ASSERT_FALSE(BucketGhosts::Has(0, hash)) << bits;
    ASSERT_TRUE(BucketGhosts::Has(BucketGhosts::Add(0, hash), hash)) << bits;
    ASSERT_TRUE(BucketGhosts::Has(BucketGhosts::Add(0, hash) << 16, hash)) << bits;
  }
}

}  // namespace
}  // namespace cairn::cache
