#include "table/key_sketch.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <set>
#include <vector>

#include "table/hash_order/hash_order.h"
#include "table/written_totals.h"
#include "test/testutil/golden_file.h"

namespace cairn {
namespace {

using Entry = KeySketch::Entry;

KeySketch SketchOf(uint64_t first, uint64_t count, Entry entry = Entry::kValue) {
  std::vector<uint64_t> positions;
  const KeyHash hash;
  for (uint64_t i = first; i < first + count; ++i) positions.push_back(hash(std::to_string(i)));
  std::sort(positions.begin(), positions.end());
  KeySketch sketch;
  for (uint64_t position : positions) sketch.Add(position, entry);
  sketch.Sort();
  return sketch;
}

double Estimate(const KeySketch& sketch) {
  return static_cast<double>(sketch.samples().size()) * static_cast<double>(KeySketch::kRange) /
         static_cast<double>(sketch.threshold());
}

TEST(KeySketchTest, KeepsOneOfFourKeysOfASmallTable) {
  const KeySketch sketch = SketchOf(0, KeySketch::kCapacity);
  EXPECT_EQ(sketch.threshold(), KeySketch::kMaxThreshold);
  EXPECT_EQ(sketch.keys(), KeySketch::kCapacity);
  EXPECT_NEAR(static_cast<double>(sketch.samples().size()), KeySketch::kCapacity / 4.0, 150.0);
}

TEST(KeySketchTest, EstimatesWithinFivePercent) {
  for (uint64_t count : {10000u, 100000u, 1000000u}) {
    const KeySketch sketch = SketchOf(count, count);
    EXPECT_EQ(sketch.keys(), count);
    EXPECT_LE(sketch.samples().size(), KeySketch::kCapacity);
    EXPECT_GE(sketch.samples().size(), KeySketch::kCapacity / 2 - 8);
    EXPECT_NEAR(Estimate(sketch) / static_cast<double>(count), 1.0, 0.07) << count;
  }
}

TEST(KeySketchTest, KeepsExactlyWhatLiesBelowTheThreshold) {
  const uint64_t count = 50000;
  for (Entry entry : {Entry::kValue, Entry::kDeletion, Entry::kOperands}) {
    const KeySketch sketch = SketchOf(0, count, entry);
    const KeyHash hash;
    std::set<uint64_t> expected;
    for (uint64_t i = 0; i < count; ++i) {
      const uint64_t position = hash(std::to_string(i));
      const uint64_t sample = (position & ~uint64_t{3}) | static_cast<uint64_t>(entry);
      if ((sample & UINT32_MAX & ~uint64_t{3}) < sketch.threshold()) expected.insert(sample);
    }
    EXPECT_EQ(std::set<uint64_t>(sketch.samples().begin(), sketch.samples().end()), expected);
    for (uint64_t sample : sketch.samples()) EXPECT_EQ(KeySketch::EntryOf(sample), entry);
  }
}

// After a wanted change, with a new version number: CAIRN_UPDATE_GOLDEN=1 build/test/key_sketch_test.
TEST(KeySketchTest, GoldenFiles) {
  std::string bytes;
  SketchOf(0, 20, Entry::kOperands).EncodeTo(&bytes);
  ExpectGolden("key_sketch", bytes, "table");
  WrittenTotals totals;
  totals.RaiseTo(300, uint64_t{1} << 40);
  ExpectGolden("written_totals", EncodeWrittenTotals(totals), "table");
}

// So the table counts as live, as one without a sketch does.
TEST(KeySketchTest, ALaterVersionIsNotRead) {
  std::string bytes;
  SketchOf(0, 20).EncodeTo(&bytes);
  ++bytes[0];
  KeySketch sketch;
  EXPECT_TRUE(KeySketch::Decode(bytes, &sketch).IsCorruption());
}

// A later Cairn may write more behind them.
TEST(WrittenTotalsTest, WhatFollowsIsPassedOver) {
  WrittenTotals totals;
  totals.RaiseTo(300, 7);
  uint64_t flushed = 0, compacted = 0;
  EXPECT_TRUE(DecodeWrittenTotals({{kWrittenProperty, EncodeWrittenTotals(totals) + "more"}}, &flushed, &compacted));
  EXPECT_EQ(flushed, 300u);
  EXPECT_EQ(compacted, 7u);
}

TEST(KeySketchTest, RoundTripsAndRefusesEveryTruncation) {
  for (uint64_t count : {0u, 1u, 5u, 20000u}) {
    const KeySketch sketch = SketchOf(3, count);
    std::string encoded;
    sketch.EncodeTo(&encoded);
    KeySketch decoded;
    ASSERT_TRUE(KeySketch::Decode(encoded, &decoded).ok());
    EXPECT_EQ(decoded.samples(), sketch.samples());
    EXPECT_EQ(decoded.threshold(), sketch.threshold());
    EXPECT_EQ(decoded.keys(), sketch.keys());
    EXPECT_EQ(decoded.first(), sketch.first());
    EXPECT_EQ(decoded.last(), sketch.last());
    for (size_t size = 0; size < encoded.size(); size += 1 + encoded.size() / 97) {
      EXPECT_TRUE(KeySketch::Decode(rocksdb::Slice(encoded.data(), size), &decoded).IsCorruption()) << size;
    }
    EXPECT_TRUE(KeySketch::Decode(encoded + "x", &decoded).IsCorruption());
  }
}

}  // namespace
}  // namespace cairn
