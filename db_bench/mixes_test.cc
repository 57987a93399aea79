#include "db_bench/mixes.h"

#include <gtest/gtest.h>

#include <cmath>
#include <map>

namespace cairn::bench {
namespace {

constexpr uint64_t kItems = 20000;

ItemModel Loaded(Shape shape) {
  ItemModel model(shape, kItems);
  const uint64_t streams = StreamsOf(shape);
  for (uint64_t i = 0; i < kItems; ++i) model.Store(streams == 0 ? i : (i % streams) << 32 | i / streams);
  return model;
}

void CarryOut(const Operation& operation, ItemModel* model) {
  switch (operation.kind) {
    case OperationKind::kUpdate:
    case OperationKind::kInsert:
    case OperationKind::kReadModifyWrite:
      model->Store(operation.number);
      break;
    case OperationKind::kDelete:
      model->Remove(operation.number);
      break;
    default:
      break;
  }
}

TEST(MixesTest, SharesAreThoseOfTheTable) {
  constexpr int kDraws = 100000;
  for (const Mix& mix : Mixes()) {
    double sum = 0;
    for (const double share : mix.shares) sum += share;
    EXPECT_NEAR(sum, 100, 1e-6) << mix.name;
    ItemModel model = Loaded(mix.shape);
    MixGenerator generator(mix, &model, 301);
    int counts[kOperationKinds] = {};
    int drawn = 0;
    for (int i = 0; i < kDraws; ++i) {
      const Operation operation = generator.Next();
      CarryOut(operation, &model);
      const bool follows = mix.popularity == Popularity::kStreams && operation.kind == OperationKind::kDelete;
      drawn += follows ? 0 : 1;
      ++counts[static_cast<int>(operation.kind)];
    }
    if (mix.popularity == Popularity::kStreams) {
      const int inserts = counts[static_cast<int>(OperationKind::kInsert)];
      EXPECT_NEAR(counts[static_cast<int>(OperationKind::kDelete)], inserts, 1) << mix.name;
    }
    for (int i = 0; i < kOperationKinds; ++i) {
      if (mix.popularity == Popularity::kStreams && i == static_cast<int>(OperationKind::kDelete)) continue;
      const double p = mix.shares[i] / 100;
      EXPECT_NEAR(counts[i], drawn * p, 6 * std::sqrt(drawn * p * (1 - p)) + 1)
          << mix.name << " " << OperationName(static_cast<OperationKind>(i));
    }
  }
}

TEST(MixesTest, PopularKeysAreTheFirstOrTheLatest) {
  for (const char* name : {"ycsb_c", "ycsb_d"}) {
    const Mix& mix = *FindMix(name);
    ItemModel model = Loaded(mix.shape);
    MixGenerator generator(mix, &model, 7);
    int of_the_hundred = 0;
    int gets = 0;
    for (int i = 0; i < 100000; ++i) {
      const Operation operation = generator.Next();
      if (operation.kind == OperationKind::kGet) {
        ASSERT_LT(operation.number, model.count());
        const uint64_t rank =
            mix.popularity == Popularity::kLatest ? model.count() - 1 - operation.number : operation.number;
        of_the_hundred += rank < 100 ? 1 : 0;
        ++gets;
      }
      CarryOut(operation, &model);
    }
    double sum = 0;
    double hundred = 0;
    for (uint64_t k = 1; k <= kItems; ++k) {
      sum += std::pow(static_cast<double>(k), -0.99);
      if (k == 100) hundred = sum;
    }
    EXPECT_NEAR(of_the_hundred / static_cast<double>(gets), hundred / sum, 0.01) << name;
  }
}

TEST(MixesTest, AbsentKeysAreNeverStored) {
  const Mix& mix = *FindMix("etc");
  ItemModel model = Loaded(mix.shape);
  MixGenerator generator(mix, &model, 9);
  for (int i = 0; i < 50000; ++i) {
    const Operation operation = generator.Next();
    if (operation.kind == OperationKind::kAbsentGet) {
      ASSERT_EQ(model.Version(operation.number), 0u);
    }
    CarryOut(operation, &model);
  }
  EXPECT_LT(model.present(), kItems);
}

TEST(MixesTest, StreamsKeepTheirLengthAndScansStayInside) {
  for (const char* name : {"queue", "series"}) {
    const Mix& mix = *FindMix(name);
    ItemModel model = Loaded(mix.shape);
    MixGenerator generator(mix, &model, 5);
    const uint64_t window = kItems / model.streams();
    for (int i = 0; i < 50000; ++i) {
      const Operation operation = generator.Next();
      ItemModel::Stream& stream = model.stream(operation.number >> 32);
      const auto place = static_cast<uint32_t>(operation.number);
      if (operation.kind == OperationKind::kScan) {
        ASSERT_GE(operation.length, 1u);
        ASSERT_GE(place, stream.first);
        ASSERT_LE(place + operation.length, stream.next);
        ASSERT_TRUE(mix.shape == Shape::kQueue ? place == stream.first : place + operation.length == stream.next);
      } else if (operation.kind == OperationKind::kInsert) {
        ASSERT_EQ(place, stream.next);
      } else {
        ASSERT_EQ(operation.kind, OperationKind::kDelete);
        ASSERT_EQ(place, stream.first);
      }
      CarryOut(operation, &model);
      ASSERT_GE(stream.next - stream.first, window);
      ASSERT_LE(stream.next - stream.first, window + 1);
    }
  }
}

TEST(MixesTest, AnItemThatIsStoredAgainHasANewVersion) {
  ItemModel model(Shape::kRecord, 1);
  EXPECT_EQ(model.Store(0), 1u);
  model.Remove(0);
  EXPECT_EQ(model.Version(0), 0u);
  EXPECT_EQ(model.Store(0), 2u);
  EXPECT_EQ(model.present(), 1u);
}

TEST(MixesTest, KeysAreDecodedAndStreamsSort) {
  std::string key;
  std::string before;
  for (const Mix& mix : Mixes()) {
    for (uint64_t number = 0; number < 1000; ++number) {
      EncodeItemKey(mix.shape, number << 20 | number, &key);
      EXPECT_EQ(DecodeItemKey(mix.shape, key), number << 20 | number) << mix.name;
      EXPECT_EQ(key.size(), KeyBytes(mix.shape, number << 20 | number));
      if (mix.popularity == Popularity::kStreams && number > 0) {
        EXPECT_LT(before, key);
      }
      before = key;
    }
  }
}

TEST(MixesTest, SizesOfEtcAreThePublishedOnes) {
  constexpr uint64_t kDraws = 200000;
  double key_bytes = 0;
  int small = 0;
  int of_two = 0;
  int above_1000 = 0;
  for (uint64_t i = 0; i < kDraws; ++i) {
    key_bytes += static_cast<double>(KeyBytes(Shape::kEtc, i));
    const size_t size = ValueBytes(Shape::kEtc, i, 1, 0);
    small += size < 15 ? 1 : 0;
    of_two += size == 2 ? 1 : 0;
    above_1000 += size >= 1000 ? 1 : 0;
  }
  // mu + sigma (gamma(1 - k) - 1) / k
  EXPECT_NEAR(key_bytes / kDraws, 36.2, 1);
  EXPECT_NEAR(small / double{kDraws}, 0.4416, 0.01);
  EXPECT_NEAR(of_two / double{kDraws}, 0.1782, 0.005);
  // Of the others, (1 + k (1000 - 15) / sigma)^(-1/k).
  EXPECT_NEAR(above_1000 / double{kDraws}, 0.5584 * std::pow(1 + 0.348238 * 985 / 214.476, -1 / 0.348238), 0.005);
}

TEST(MixesTest, SizesOfTheOtherPools) {
  std::map<size_t, int> keys;
  for (uint64_t i = 0; i < 1000; ++i) {
    ++keys[KeyBytes(Shape::kUsr, i)];
    EXPECT_EQ(ValueBytes(Shape::kUsr, i, 1, 0), 2u);
    EXPECT_EQ(KeyBytes(Shape::kApp, i) + ValueBytes(Shape::kApp, i, 1, 0), 301u);
    EXPECT_LT(ValueBytes(Shape::kVar, i, 1, 0), 500u);
  }
  EXPECT_EQ(keys.size(), 2u);
  EXPECT_GT(keys[16], 400);
  EXPECT_GT(keys[21], 400);
  EXPECT_EQ(ValueBytes(Shape::kRecord, 1, 1, 0), 1000u);
  EXPECT_EQ(ValueBytes(Shape::kRecord, 1, 1, 100), 100u);
}

}  // namespace
}  // namespace cairn::bench
