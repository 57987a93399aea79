#include "trie_table/bloom_cluster/bloom_filter.h"

#include <algorithm>
#include <cmath>
#include <map>
#include <random>
#include <set>

#include "gtest/gtest.h"
#include "test/testutil/golden_file.h"
#include "test/testutil/test_seed.h"
#include "trie_table/bloom_cluster/bloom_block.h"

namespace cairn {
namespace {

std::vector<uint64_t> SortedHashes(size_t count, uint64_t low, uint64_t high, std::mt19937_64* random) {
  std::uniform_int_distribution<uint64_t> uniform(low, high);
  std::vector<uint64_t> hashes(count);
  for (uint64_t& hash : hashes) hash = uniform(*random);
  std::sort(hashes.begin(), hashes.end());
  return hashes;
}

// Null as FilterImage::Builder::Finish says.
std::shared_ptr<const FilterImage> BuildFilterImage(const std::vector<uint64_t>& sorted_hashes, double bits_per_key) {
  FilterShape shape;
  if (!sorted_hashes.empty()) {
    shape = ChooseFilterShape(sorted_hashes.size(), sorted_hashes.front(), sorted_hashes.back(), 0, bits_per_key);
  }
  FilterImage::Builder builder(shape, sorted_hashes.size());
  ColumnWriter writer(shape, &builder);
  for (uint64_t hash : sorted_hashes) writer.Add(shape.FingerprintOfHash(hash), 0);
  return writer.Finish() ? builder.Finish(writer.pairs()) : nullptr;
}

std::vector<uint64_t> PairsOf(const FilterImage& image) {
  std::vector<uint64_t> pairs;
  const auto cursor = image.NewCursor();
  for (uint64_t pair; cursor->Next(&pair);) pairs.push_back(pair);
  return pairs;
}

TEST(BloomFilterTest, HoldsExactlyItsFingerprints) {
  std::mt19937_64 random(Seed());
  for (size_t count : {0, 1, 2, 3, 63, 64, 65, 500, 5000, 60000}) {
    for (double bits : {0.5, 3.0, 6.0, 10.0, 16.0, 20.0}) {
      for (unsigned prefix : {0, 9, 30}) {
        const uint64_t low = random() << 1 >> 1 >> (64 - prefix - 1) << (64 - prefix - 1);
        const auto hashes = SortedHashes(count, low, low + (~uint64_t{0} >> (prefix + 1)), &random);
        const auto image = BuildFilterImage(hashes, bits);
        ASSERT_NE(image, nullptr) << count << " keys, " << bits << " bits, prefix " << prefix;
        for (uint64_t hash : hashes) ASSERT_EQ(image->Probe(hash), 1u) << count << " keys, " << bits << " bits";
        // Lossless: a strange hash is found exactly if it shares the fingerprint of a key.
        std::set<uint64_t> fingerprints;
        for (uint64_t hash : hashes) fingerprints.insert(image->shape().FingerprintOfHash(hash));
        for (int i = 0; i < 1000; ++i) {
          uint64_t hash = random();
          if (i % 2 == 0 && count != 0) hash = hashes[hash % count] ^ (hash & 0xffffffffff) >> (i % 40);
          ASSERT_EQ(image->Probe(hash), fingerprints.count(image->shape().FingerprintOfHash(hash)));
        }
        const auto pairs = PairsOf(*image);
        ASSERT_EQ(pairs.size(), fingerprints.size());
        ASSERT_EQ(image->pairs(), fingerprints.size());
        size_t i = 0;
        for (uint64_t fingerprint : fingerprints) ASSERT_EQ(pairs[i++], PackPair(fingerprint, 0));
      }
    }
  }
}

TEST(BloomFilterTest, UnevenHashesAreFoundOrTheFilterIsRefused) {
  std::mt19937_64 random(Seed());
  for (int spread : {1, 2, 8, 16, 24}) {
    std::vector<uint64_t> hashes;
    for (int i = 0; i < 3000; ++i) hashes.push_back((random() >> (64 - spread)) + (uint64_t{1} << 40) * (i % 3));
    hashes.push_back(~uint64_t{0});
    std::sort(hashes.begin(), hashes.end());
    const auto image = BuildFilterImage(hashes, 16);
    if (image == nullptr) continue;
    for (uint64_t hash : hashes) ASSERT_EQ(image->Probe(hash), 1u);
  }
}

struct Slot {
  std::vector<uint64_t> hashes;
  std::shared_ptr<const FilterImage> image;
};

// Filters of `count` slots, each with about `keys` keys, and one that holds them all.
struct Merged {
  std::vector<Slot> slots;
  std::shared_ptr<const FilterImage> image;
};

Merged MergeOf(unsigned count, size_t keys, double bits, std::mt19937_64* random) {
  Merged merged;
  std::vector<MergeInput> inputs;
  std::vector<std::unique_ptr<PairCursor>> cursors;
  uint64_t total = 0, low = ~uint64_t{0}, high = 0;
  unsigned precision = kMaxPrecision;
  for (unsigned i = 0; i < count; ++i) {
    Slot slot;
    slot.hashes = SortedHashes(keys + (*random)() % (keys / 2 + 1), uint64_t{5} << 55, (uint64_t{6} << 55) - 1, random);
    slot.image = BuildFilterImage(slot.hashes, bits);
    total += slot.hashes.size();
    low = std::min(low, slot.hashes.front());
    high = std::max(high, slot.hashes.back());
    precision = std::min(precision, slot.image->shape().precision);
    cursors.push_back(slot.image->NewCursor());
    MergeInput input;
    input.cursor = cursors.back().get();
    input.precision = slot.image->shape().precision;
    input.slots[0] = static_cast<uint8_t>(i);
    inputs.push_back(input);
    merged.slots.push_back(std::move(slot));
  }
  const FilterShape shape = ChooseFilterShape(total, low, high, BitWidth(count - 1), bits, precision);
  FilterImage::Builder builder(shape, total);
  ColumnWriter writer(shape, &builder);
  if (MergePairs(inputs, shape, &writer)) merged.image = builder.Finish(writer.pairs());
  return merged;
}

TEST(BloomFilterTest, MergedFilterAnswersForEverySlot) {
  std::mt19937_64 random(Seed());
  for (unsigned count : {1, 2, 3, 12, 16, 17, 48, 64}) {
    const Merged merged = MergeOf(count, 2000, 16, &random);
    ASSERT_NE(merged.image, nullptr);
    std::map<uint64_t, uint64_t> wanted;  // fingerprint to slots
    for (unsigned i = 0; i < count; ++i) {
      for (uint64_t hash : merged.slots[i].hashes) {
        wanted[merged.image->shape().FingerprintOfHash(hash)] |= uint64_t{1} << i;
      }
    }
    for (unsigned i = 0; i < count; ++i) {
      for (uint64_t hash : merged.slots[i].hashes) {
        ASSERT_EQ(merged.image->Probe(hash), wanted[merged.image->shape().FingerprintOfHash(hash)]);
      }
    }
    // A table's own fingerprints are at least as precise, so merging loses no more than precision.
    for (int i = 0; i < 20000; ++i) {
      const uint64_t hash = (uint64_t{5} << 55) + (random() >> 9);
      const auto found = wanted.find(merged.image->shape().FingerprintOfHash(hash));
      ASSERT_EQ(merged.image->Probe(hash), found == wanted.end() ? 0 : found->second);
    }
  }
}

TEST(BloomFilterTest, MergingTwiceIsMergingOnce) {
  std::mt19937_64 random(Seed());
  const Merged first = MergeOf(4, 3000, 14, &random), second = MergeOf(3, 9000, 14, &random);
  const unsigned precision = std::min(first.image->shape().precision, second.image->shape().precision);
  const FilterShape shape = ChooseFilterShape(50000, uint64_t{5} << 55, (uint64_t{6} << 55) - 1, 4, 14, precision);
  const auto a = first.image->NewCursor(), b = second.image->NewCursor();
  std::vector<MergeInput> inputs(2);
  inputs[0].cursor = a.get();
  inputs[0].precision = first.image->shape().precision;
  inputs[1].cursor = b.get();
  inputs[1].precision = second.image->shape().precision;
  inputs[0].slots = {8, 9, MergeInput::kDropped, 11};
  inputs[1].slots = {0, 1, 2};
  FilterImage::Builder builder(shape, 50000);
  ColumnWriter writer(shape, &builder);
  ASSERT_TRUE(MergePairs(inputs, shape, &writer));
  const auto image = builder.Finish(writer.pairs());
  ASSERT_NE(image, nullptr);
  for (unsigned i = 0; i < 4; ++i) {
    uint64_t found = 0;
    for (uint64_t hash : first.slots[i].hashes) found += image->Probe(hash) >> (8 + i) & 1;
    if (i == 2) {
      EXPECT_EQ(found, 0u) << "dropped";
    } else {
      EXPECT_EQ(found, first.slots[i].hashes.size());
    }
  }
  for (unsigned i = 0; i < 3; ++i) {
    for (uint64_t hash : second.slots[i].hashes) ASSERT_EQ(image->Probe(hash) >> i & 1, 1u);
  }
}

// A damaged filter's pairs may lie where the merged filter has no columns.
TEST(BloomFilterTest, MergingStopsAtPairsOutsideOfTheShape) {
  class OnePair : public PairCursor {
   public:
    explicit OnePair(uint64_t fingerprint) : fingerprint_(fingerprint) {}

   protected:
    bool Refill(std::vector<uint64_t>* pairs) override {
      if (given_) return false;
      given_ = true;
      pairs->push_back(PackPair(fingerprint_, 0));
      return true;
    }

   private:
    const uint64_t fingerprint_;
    bool given_ = false;
  };
  class CountColumns : public ColumnSink {
   public:
    bool Add(const uint8_t* /*bytes*/, size_t /*size*/, size_t /*header*/) override { return ++columns < 100000; }
    uint64_t columns = 0;
  };
  FilterShape shape;
  shape.precision = 40;
  shape.remainder_bits = 5;
  shape.low = 1000000;
  shape.columns = 10;
  ASSERT_TRUE(shape.Valid());
  const uint64_t end = shape.low + (shape.columns << shape.column_shift());
  for (const auto& [fingerprint, is_inside] : std::vector<std::pair<uint64_t, bool>>{
           {0, false}, {shape.low - 1, false}, {shape.low, true}, {end - 1, true}, {end, false}, {end << 10, false}}) {
    OnePair cursor(fingerprint);
    MergeInput input;
    input.cursor = &cursor;
    input.precision = shape.precision;
    CountColumns sink;
    ColumnWriter writer(shape, &sink);
    EXPECT_EQ(MergePairs({input}, shape, &writer), is_inside) << fingerprint;
    EXPECT_LE(sink.columns, shape.columns) << fingerprint;
  }
}

// Bits a key and strange hashes let through, in one slot.
TEST(BloomFilterTest, KeepsItsBudgetAndItsRate) {
  std::mt19937_64 random(Seed());
  // 50000 keys, and 90000 to see both ends of a doubling of the number of columns.
  for (size_t count : {50000, 64000, 90000}) {
    const auto hashes = SortedHashes(count, 0, ~uint64_t{0}, &random);
    for (int bits = 8; bits <= 18; bits += 2) {
      const auto image = BuildFilterImage(hashes, bits);
      ASSERT_NE(image, nullptr);
      const double taken = 8.0 * static_cast<double>(image->bytes()) / static_cast<double>(count);
      EXPECT_LE(taken, bits + 0.65) << count;
      EXPECT_GE(taken, bits - 0.85) << count;
      uint64_t yes = 0;
      const int questions = 1000000;
      for (int i = 0; i < questions; ++i) yes += image->Probe(random());
      const double rate = static_cast<double>(yes) / questions;
      const double ideal_bloom = std::pow(0.6185, taken);
      printf("%zu keys, %d bits: %.2f bits taken, %.4f %% let through, by an ideal Bloom filter %.4f %%\n", count, bits,
             taken, 100 * rate, 100 * ideal_bloom);
      // Half of it from 14 bits on, with room for chance.
      EXPECT_LE(rate, (bits >= 14 ? 0.6 : bits >= 12 ? 0.9 : 1.7) * ideal_bloom + 3e-5);
    }
  }
}

// Table 4.1 of Wu's dissertation (UT Arlington 2018) is levels times the rate of an ideal Bloom filter.
TEST(BloomFilterTest, LetsThroughLessThanTable41) {
  std::mt19937_64 random(Seed());
  printf("%-9s %27s %27s\n", "", "paper, Bloom filters", "clusters of 16 slots");
  for (int bits = 10; bits <= 18; bits += 2) {
    const Merged merged = MergeOf(16, 8000, bits, &random);
    const int questions = 400000;
    uint64_t found = 0;
    for (int i = 0; i < questions; ++i) {
      found += static_cast<uint64_t>(__builtin_popcountll(merged.image->Probe((uint64_t{5} << 55) + (random() >> 9))));
    }
    const double slot = static_cast<double>(found) / questions / 16;
    uint64_t keys = 0;
    for (const Slot& s : merged.slots) keys += s.hashes.size();
    const double taken = 8.0 * static_cast<double>(merged.image->bytes()) / static_cast<double>(keys);
    const double paper = std::pow(0.6185, bits);
    printf("%2d bits/key", bits);
    for (int levels : {50, 100, 150}) printf(" %7.2f%%", 100 * levels * paper);
    printf(" ");
    for (int levels : {50, 100, 150}) printf(" %7.2f%%", 100 * levels * slot);
    printf("  (%.2f bits taken)\n", taken);
    EXPECT_LE(slot, (bits >= 12 ? 0.9 : 1.7) * std::pow(0.6185, taken)) << bits;
  }
}

TEST(BloomFilterTest, DamagedColumnsAreNoColumns) {
  std::mt19937_64 random(Seed());
  const auto hashes = SortedHashes(40, 0, ~uint64_t{0}, &random);
  class Keep : public ColumnSink {
   public:
    bool Add(const uint8_t* bytes, size_t size, size_t header) override {
      columns.emplace_back(bytes, bytes + size);
      headers.push_back(header);
      return true;
    }
    std::vector<std::vector<uint8_t>> columns;
    std::vector<size_t> headers;
  } keep;
  FilterShape shape = ChooseFilterShape(hashes.size(), 0, ~uint64_t{0}, 0, 16);
  ColumnWriter writer(shape, &keep);
  for (uint64_t hash : hashes) writer.Add(shape.FingerprintOfHash(hash), 0);
  ASSERT_TRUE(writer.Finish());
  for (size_t i = 0; i < keep.columns.size(); ++i) {
    std::vector<uint8_t>& column = keep.columns[i];
    const size_t header = keep.headers[i];
    const auto check = [&](size_t size) {
      return CheckColumn(column.data() + header, column.data() + size, header, shape);
    };
    ASSERT_EQ(check(column.size()), column.size());
    for (size_t size = header; size < column.size(); ++size) EXPECT_EQ(check(size), 0u);
    for (size_t bit = header * 8; bit < column.size() * 8; ++bit) {
      column[bit / 8] = static_cast<uint8_t>(column[bit / 8] ^ 1 << bit % 8);
      EXPECT_NE(check(column.size()), column.size()) << bit;
      column[bit / 8] = static_cast<uint8_t>(column[bit / 8] ^ 1 << bit % 8);
    }
  }
}

// After a wanted change, with a new version number: CAIRN_UPDATE_GOLDEN=1 trie_table/bloom_cluster/bloom_filter_test.
TEST(BloomFilterTest, GoldenBlock) {
  FilterShape shape;
  shape.precision = 20;
  shape.remainder_bits = 4;
  shape.slot_bits = 1;
  shape.low = 0x12340;
  shape.columns = 60;
  ASSERT_TRUE(shape.Valid());
  FilterBlockWriter blocks(shape, {{0x1111222233334444u, 900}, {0x5555666677778888u, 600}});
  ColumnWriter writer(shape, &blocks);
  uint64_t fingerprint = shape.low;
  for (unsigned i = 0; i < 1500; ++i) {
    fingerprint += i * i % 71;
    writer.Add(fingerprint, i % 5 < 3 ? 0 : 1);
  }
  ASSERT_TRUE(writer.Finish());
  std::string block;
  blocks.Finish(writer.pairs(), &block);
  ASSERT_EQ(2 * kFilterPageBytes, block.size());
  ExpectGolden("bloom_block_index", block.substr(0, 128), "trie_table/bloom_cluster");
  ExpectGolden("bloom_block_page", block.substr(kFilterPageBytes, 512) + block.substr(block.size() - 128),
               "trie_table/bloom_cluster");
}

}  // namespace
}  // namespace cairn
