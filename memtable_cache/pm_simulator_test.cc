#include "memtable_cache/pm_simulator.h"

#include "gtest/gtest.h"

namespace cairn {
namespace {

TEST(PmSimulatorTest, WholeBlocksInOrderCostNothingMore) {
  PmSimulator pm;
  pm.StoreNonTemporal(0, 1 << 20);
  pm.Finish();
  EXPECT_EQ(pm.counts().lines, (1u << 20) / 64);
  EXPECT_EQ(pm.counts().outside_runs, 0u);
  EXPECT_EQ(pm.counts().blocks_read, 0u);
  EXPECT_DOUBLE_EQ(pm.counts().Amplification(), 1.0);
}

TEST(PmSimulatorTest, ScatteredLinesCostFourfold) {
  PmSimulator pm;
  for (uint64_t i = 0; i < 1000; ++i) pm.StoreNonTemporal(i * 4096, 64);
  pm.Finish();
  EXPECT_EQ(pm.counts().outside_runs, 1000u);
  EXPECT_EQ(pm.counts().blocks_read, 1000u);
  EXPECT_DOUBLE_EQ(pm.counts().Amplification(), 4.0);
}

TEST(PmSimulatorTest, TheBufferGathersWhatIsClose) {
  PmSimulator pm;
  for (int line = 0; line < 4; ++line) {
    for (uint64_t block = 0; block < 60; ++block) pm.StoreNonTemporal(block * 256 + line * 64, 64);
  }
  pm.Finish();
  EXPECT_EQ(pm.counts().outside_runs, 240u);  // never four in a row
  EXPECT_EQ(pm.counts().blocks_written, 60u);
}

TEST(PmSimulatorTest, TheCacheKeepsWhatIsUsedAgain) {
  PmSimulatorOptions options;
  options.cache_bytes = 64 << 10;
  PmSimulator pm(options);
  for (int round = 0; round < 100; ++round) pm.Store(0, 4096);
  EXPECT_EQ(pm.counts().lines, 0u);
  pm.Flush(0, 4096);
  EXPECT_EQ(pm.counts().lines, 64u);
  pm.Finish();
  EXPECT_EQ(pm.counts().lines, 64u);
}

TEST(PmSimulatorTest, LockedCacheIsNeverEvicted) {
  PmSimulatorOptions options;
  options.cache_bytes = 64 << 10;
  PmSimulator pm(options);
  pm.Lock(0, 1 << 20);
  pm.Store(0, 1 << 20);
  pm.Finish();
  EXPECT_EQ(pm.counts().lines, 0u);
}

TEST(PmSimulatorTest, OrdinaryMemoryEvictsButCostsNothing) {
  PmSimulatorOptions options;
  options.cache_bytes = 64 << 10;
  PmSimulator pm(options);
  pm.Store(0, 4096);
  pm.Store(PmSimulator::kMemory, 1 << 20);
  EXPECT_EQ(pm.counts().lines, 64u);
}

}  // namespace
}  // namespace cairn
