#include "util/elias_fano.h"

#include <algorithm>
#include <memory>
#include <random>

#include "gtest/gtest.h"
#include "test/testutil/bytes_at_the_end.h"
#include "test/testutil/test_seed.h"
#include "util/bits.h"

namespace cairn {
namespace {

std::vector<uint64_t> Sequence(std::mt19937_64* random, size_t n, uint64_t mean_gap) {
  std::vector<uint64_t> values = {0};
  while (values.size() < n) values.push_back(values.back() + 1 + (*random)() % (2 * mean_gap - 1));
  return values;
}

TEST(EliasFano, AgreesWithTheVector) {
  std::mt19937_64 random(Seed());
  for (size_t n : {1, 2, 255, 256, 257, 5000}) {
    for (uint64_t gap : {1, 2, 16, 1000, 1000000}) {
      const std::vector<uint64_t> values = Sequence(&random, n, gap);
      // The last universe has long runs of zeros behind the values.
      for (uint64_t universe : {values.back() + 1, values.back() * 50 + 7}) {
        std::string bytes;
        EncodeEliasFano(values, universe, &bytes);
        EliasFano sequence;
        ASSERT_EQ(nullptr, sequence.Open(reinterpret_cast<const uint8_t*>(bytes.data()), bytes.size(), universe));
        ASSERT_EQ(n, sequence.count());
        EliasFano::Iterator it(sequence, 0);
        for (size_t i = 0; i < n; ++i, it.Next()) {
          ASSERT_EQ(values[i], sequence.Get(i));
          ASSERT_TRUE(it.Valid());
          ASSERT_EQ(values[i], it.value());
          ASSERT_EQ(i, sequence.Predecessor(values[i]));
          if (i > 0) {
            ASSERT_EQ(i - 1, sequence.Predecessor(values[i] - 1));
          }
        }
        EXPECT_FALSE(it.Valid());
        for (int i = 0; i < 1000; ++i) {
          const uint64_t value = random() % universe;
          const auto next = std::upper_bound(values.begin(), values.end(), value);
          ASSERT_EQ(static_cast<uint64_t>(next - values.begin() - 1), sequence.Predecessor(value));
        }
      }
    }
  }
}

TEST(EliasFano, DamagedBytesAreRefusedOrStillASequence) {
  std::mt19937_64 random(Seed());
  const std::vector<uint64_t> values = Sequence(&random, 700, 9);
  const uint64_t universe = values.back() + 30;
  std::string bytes;
  EncodeEliasFano(values, universe, &bytes);
  for (size_t at = 0; at < bytes.size(); ++at) {
    for (uint8_t flip : {0x01, 0x10, 0xff}) {
      std::unique_ptr<uint8_t[]> damaged(new uint8_t[bytes.size()]);
      memcpy(damaged.get(), bytes.data(), bytes.size());
      damaged[at] ^= flip;
      EliasFano sequence;
      if (sequence.Open(damaged.get(), bytes.size(), universe) != nullptr) continue;
      for (uint64_t value = 0; value < universe; value += 13) {
        ASSERT_LT(sequence.Predecessor(value), sequence.count());
      }
    }
  }
  for (size_t size = 0; size < bytes.size(); ++size) {
    EliasFano sequence;
    ASSERT_NE(nullptr, sequence.Open(reinterpret_cast<const uint8_t*>(bytes.data()), size, universe));
  }
}

// Values that are gone from the unary part behind the last sample leave more zeros than there are samples for.
TEST(EliasFano, ReadsNoSampleThatIsNotThere) {
  const uint64_t count = 600;
  std::vector<uint64_t> values(count);
  for (uint64_t universe = count + 1; universe < 4 * count; ++universe) {
    for (uint64_t i = 0; i < count; ++i) values[i] = i * universe / count;
    std::string bytes;
    EncodeEliasFano(values, universe, &bytes);
    const unsigned low_bits = static_cast<unsigned char>(bytes[16]);
    const uint64_t zeros = (universe >> low_bits) + 1;
    const size_t zero_samples = bytes.size() - 8 * ((zeros + 255) / 256);
    const size_t one_samples = zero_samples - 8 * ((count + 255) / 256);
    const size_t high = one_samples - 8 * ((count + zeros + 63) / 64);
    const uint64_t last_sample = LoadU64(bytes.data() + bytes.size() - 8);
    const std::string whole = bytes;
    for (size_t at = high + last_sample / 8 + 1; at < one_samples; ++at) bytes[at] = 0;
    if (bytes == whole) continue;
    const test::BytesAtTheEnd damaged(bytes);
    ASSERT_NE(nullptr, damaged.data());
    EliasFano sequence;
    ASSERT_STREQ("too few values", sequence.Open(damaged.data(), bytes.size(), universe)) << universe;
  }
}

TEST(BitWriter, AgreesWithAVectorOfBits) {
  std::mt19937_64 random(Seed());
  std::vector<bool> bits;
  BitWriter writer, part;
  std::string drained;
  for (int round = 0; round < 2000; ++round) {
    const unsigned width = random() % 65;
    const uint64_t value = random() & LowMask(width);
    writer.Put(value, width);
    for (unsigned i = 0; i < width; ++i) bits.push_back((value >> i & 1) != 0);
    part.Clear();
    std::vector<bool> part_bits;
    for (int i = random() % 4; i > 0; --i) {
      const uint64_t more = random() & LowMask(61);
      part.Put(more, 61);
      for (unsigned j = 0; j < 61; ++j) part_bits.push_back((more >> j & 1) != 0);
    }
    if (round % 2 == 0) {
      writer.Append(part);
      bits.insert(bits.end(), part_bits.begin(), part_bits.end());
    } else {
      writer.AppendReversed(part);
      bits.insert(bits.end(), part_bits.rbegin(), part_bits.rend());
    }
    if (random() % 50 == 0) writer.Drain(&drained);
  }
  writer.AppendBytes(&drained);
  ASSERT_EQ((bits.size() + 7) / 8, drained.size());
  for (size_t i = 0; i < bits.size(); ++i) {
    ASSERT_EQ(bits[i], (static_cast<uint8_t>(drained[i / 8]) >> (i % 8) & 1) != 0) << i;
  }
}

}  // namespace
}  // namespace cairn
