#include "trie_table/compaction/space_ledger.h"

#include <gtest/gtest.h>

namespace cairn {
namespace {

// 1000 live bytes in a trie that may hold a quarter more; flushes are small beside it.
class SpaceLedgerTest : public testing::Test {
 protected:
  static constexpr uint64_t kLive = 1000;
  static constexpr double kFlush = 10;

  static HashTrieOptions Trie() {
    HashTrieOptions trie;
    trie.space_bound = 1.25;
    trie.root_trigger = 4;
    return trie;
  }

  static TrieJob Job(uint64_t input_bytes, uint64_t expected_bytes) {
    TrieJob job;
    job.kind = TrieJob::Kind::kMerge;
    job.input_bytes = input_bytes;
    job.expected_bytes = expected_bytes;
    return job;
  }

  void EstimateOf(uint64_t bytes, SpaceLedger* ledger) {
    ledger->Estimate(next_version_++, bytes, [bytes](double /*operand_share*/) {
      TrieSpace space;
      space.bytes = bytes;
      space.live = kLive;
      return space;
    });
  }

  SpaceLedger ledger_{Trie(), 0};
  uint64_t next_version_ = 1;
};

TEST_F(SpaceLedgerTest, TheNextFlushIsTheMedianOfTheRoot) {
  EXPECT_EQ(SpaceLedger::NextFlush({}), 0);
  EXPECT_EQ(SpaceLedger::NextFlush({7}), 7);
  EXPECT_EQ(SpaceLedger::NextFlush({5000, 10, 11}), 11);
}

TEST_F(SpaceLedgerTest, OutputsOfRunningCompactionsHaveRoomOfTheirOwn) {
  SpaceLedger counting(Trie(), 0, 100);
  EstimateOf(1150, &counting);
  EstimateOf(1150, &ledger_);
  EXPECT_FALSE(ledger_.Excess(kFlush).has_value());
  EXPECT_TRUE(counting.Excess(kFlush).has_value()) << "of 250 bytes of garbage, 100 are for outputs";
  const TrieJob job = Job(60, 60);
  TrieJob move = Job(1000, 1000);
  move.kind = TrieJob::Kind::kMove;
  counting.Started(move);
  EXPECT_TRUE(counting.MayStart(job, 1150)) << "a move writes nothing";
  counting.Started(job);
  EXPECT_FALSE(counting.MayStart(job, 1150));
  EXPECT_FALSE(counting.MayStart(job, 1130)) << "writers flush half as much meanwhile";
  EXPECT_TRUE(counting.MayStart(job, 1100)) << "what garbage does not take is free";
  EXPECT_TRUE(counting.MayStart(Job(40, 40), 1150));
  EXPECT_TRUE(counting.MayStart(move, 1150));
  EXPECT_TRUE(ledger_.MayStart(job, 1150));
  counting.Finished(job, true);
  EXPECT_TRUE(counting.MayStart(Job(500, 500), 1150)) << "one always has room";
}

// RocksDB deletes no table of a Version that a compaction began with, nor any that is newer.
TEST_F(SpaceLedgerTest, WhatIsReplacedTakesSpaceUntilTheCompactionsThatRanThenHaveEnded) {
  SpaceLedger counting(Trie(), 0, 100);
  EstimateOf(1100, &counting);
  const auto job = [](uint64_t number) {
    TrieJob numbered = Job(60, 40);
    numbered.number = number;
    return numbered;
  };
  for (uint64_t number : {1, 2, 3}) counting.Started(job(number));
  counting.Finished(job(1), true);
  EXPECT_EQ(counting.held_bytes(), 60);
  counting.Started(job(4));
  counting.Finished(job(2), false);
  EXPECT_EQ(counting.held_bytes(), 60) << "what failed has replaced nothing, and another one holds the tables";
  TrieJob move = Job(1000, 1000);
  move.kind = TrieJob::Kind::kMove;
  counting.Started(move);
  counting.Finished(move, true);
  EXPECT_EQ(counting.held_bytes(), 60) << "what is moved is not replaced";
  TrieJob drop = Job(10, 0);
  drop.kind = TrieJob::Kind::kDrop;
  counting.Started(drop);
  counting.Finished(drop, true);
  EXPECT_EQ(counting.held_bytes(), 70);
  counting.Finished(job(3), true);
  EXPECT_EQ(counting.held_bytes(), 10 + 60) << "the fourth began after the first had ended";
  counting.Finished(job(4), true);
  EXPECT_EQ(counting.held_bytes(), 0);
  counting.Finished(job(5), true);
  EXPECT_EQ(counting.held_bytes(), 0) << "nobody holds it";
}

TEST_F(SpaceLedgerTest, WhatRunningCompactionsHoldSlowsWritersDownAndKeepsOthersFromBeginning) {
  SpaceLedger counting(Trie(), 0, 100);
  EstimateOf(1100, &counting);
  TrieJob large = Job(60, 60);
  large.number = 1;
  TrieJob merge = Job(80, 40);
  merge.number = 2;
  counting.Started(large);
  EXPECT_TRUE(counting.MayStart(merge, 1150));
  EXPECT_EQ(counting.Pressure(1150 - 2 * kFlush, kFlush), 0);
  counting.Started(merge);
  counting.Finished(merge, true);
  EXPECT_FALSE(counting.MayStart(merge, 1150)) << "60 are being written, 80 held";
  EXPECT_FALSE(counting.MayStart(merge, 1070)) << "writers flush half of 40 meanwhile";
  EXPECT_TRUE(counting.MayStart(merge, 1050));
  EXPECT_EQ(counting.Pressure(1150 - 40, kFlush), 1);
  EXPECT_EQ(counting.Pressure(1150 - 40 - 2 * kFlush, kFlush), 0);
}

TEST_F(SpaceLedgerTest, AShapeIsEstimatedOnce) {
  int estimates = 0;
  const auto estimate = [&](double /*operand_share*/) {
    ++estimates;
    TrieSpace space;
    space.live = kLive;
    return space;
  };
  EXPECT_EQ(ledger_.Estimate(1, 6400, estimate).live, kLive);
  EXPECT_EQ(ledger_.Estimate(1, 6400, estimate).live, kLive);
  EXPECT_EQ(estimates, 1);
  EXPECT_FALSE(ledger_.HasChanged(6450));
  EXPECT_TRUE(ledger_.HasChanged(6600));
  EXPECT_TRUE(ledger_.HasChanged(6200));
  ledger_.Estimate(2, 6600, estimate);
  EXPECT_EQ(estimates, 2);
  EXPECT_FALSE(ledger_.HasChanged(6600));
}

TEST_F(SpaceLedgerTest, CompactionIsDueBeforeTheBoundIsReached) {
  EstimateOf(1200, &ledger_);
  EXPECT_FALSE(ledger_.Excess(kFlush));
  EstimateOf(1221, &ledger_);
  const std::optional<double> little = ledger_.Excess(kFlush);
  ASSERT_TRUE(little);
  EXPECT_GT(*little, 0);
  EstimateOf(2000, &ledger_);
  const std::optional<double> much = ledger_.Excess(kFlush);
  ASSERT_TRUE(much);
  EXPECT_GT(*much, *little);
}

TEST_F(SpaceLedgerTest, WhatALargeFlushMayBringDoesNotMakeLittleGarbageDue) {
  EstimateOf(1060, &ledger_);
  EXPECT_FALSE(ledger_.Excess(5000));
  EstimateOf(1064, &ledger_);
  EXPECT_TRUE(ledger_.Excess(5000));
}

TEST_F(SpaceLedgerTest, SlackIsLeftAlone) {
  SpaceLedger ledger(Trie(), 500);
  EstimateOf(1700, &ledger);
  EXPECT_FALSE(ledger.Excess(kFlush));
  EstimateOf(1750, &ledger);
  EXPECT_TRUE(ledger.Excess(kFlush));
}

TEST_F(SpaceLedgerTest, WhatRunsCountsAsFreed) {
  EstimateOf(1300, &ledger_);
  ASSERT_TRUE(ledger_.Excess(kFlush));
  ledger_.Started(Job(500, 300));
  EXPECT_FALSE(ledger_.Excess(kFlush));
  ledger_.Finished(Job(500, 300), true);
  EXPECT_TRUE(ledger_.Excess(kFlush));
}

TEST_F(SpaceLedgerTest, ThereIsSomethingToWaitForWhileACompactionRunsOrIsDue) {
  TrieJob job;
  const auto pick = [](bool found) { return [found](TrieJob* /*job*/) { return found; }; };
  EXPECT_FALSE(ledger_.Pick(kFlush, &job, pick(true))) << "before the first estimate nothing is due";
  EXPECT_FALSE(ledger_.CanFree());
  EstimateOf(1300, &ledger_);
  EXPECT_TRUE(ledger_.Pick(kFlush, &job, pick(true)));
  EXPECT_GT(job.score, 1);
  EXPECT_TRUE(ledger_.CanFree());
  EXPECT_FALSE(ledger_.Pick(kFlush, &job, pick(false)));
  EXPECT_FALSE(ledger_.CanFree());
  ledger_.Started(Job(100, 100));
  EXPECT_TRUE(ledger_.CanFree());
  ledger_.Finished(Job(100, 100), true);
  EXPECT_FALSE(ledger_.CanFree());
}

TEST_F(SpaceLedgerTest, PressureRisesOverTheLastTwoFlushesBelowTheBound) {
  EXPECT_EQ(ledger_.Pressure(1249, kFlush), 0) << "before the first estimate";
  EstimateOf(1200, &ledger_);
  EXPECT_EQ(ledger_.Pressure(1230, kFlush), 0);
  EXPECT_NEAR(ledger_.Pressure(1240, kFlush), 0.5, 1e-9);
  EXPECT_EQ(ledger_.Pressure(1250, kFlush), 1);
  EXPECT_EQ(ledger_.Pressure(5000, kFlush), 1);
}

TEST_F(SpaceLedgerTest, SmallFlushesAreSlowedDownOverTheLastPartInAHundred) {
  EstimateOf(1200, &ledger_);
  EXPECT_NEAR(ledger_.Pressure(1244, 0.01), 0.52, 1e-9);
}

// Also while the root is empty for a moment.
TEST_F(SpaceLedgerTest, ATrieOfAFewFlushesHasNoPressure) {
  EstimateOf(1200, &ledger_);
  EXPECT_EQ(ledger_.Pressure(5000, 63), 0);
  EXPECT_EQ(ledger_.Pressure(5000, 0), 0);
  EXPECT_EQ(ledger_.Pressure(5000, 62), 1);
  EXPECT_EQ(ledger_.Pressure(5000, 0), 1);
}

// Where the bound counts outputs: one and a half roots of garbage, and what compactions are writing.
TEST_F(SpaceLedgerTest, ATrieOfAFewFlushesHasPressureFromOneAndAHalfRootsOn) {
  constexpr double flush = 100;
  SpaceLedger counting(Trie(), 0, 300);
  EstimateOf(1500, &counting);
  EXPECT_EQ(counting.Pressure(1400, flush), 0);
  EXPECT_DOUBLE_EQ(counting.Pressure(1500, flush), 0.5);
  EXPECT_EQ(counting.Pressure(1600, flush), 1);
  counting.Started(Job(200, 100));
  EXPECT_DOUBLE_EQ(counting.Pressure(1400, flush), 0.5);
}

// Half of the garbage would not hold them, and keeping less garbage costs merges.
TEST_F(SpaceLedgerTest, OutputsThatAreMoreThanTheBoundAllowsHaveNoRoom) {
  SpaceLedger counting(Trie(), 0, 300);
  EstimateOf(1150, &counting);
  EXPECT_FALSE(counting.Excess(kFlush).has_value());
  SpaceLedger some(Trie(), 0, 200);
  EstimateOf(1190, &some);
  EXPECT_TRUE(some.Excess(kFlush).has_value()) << "of 250 bytes of garbage, 50 are for outputs";
}

TEST_F(SpaceLedgerTest, LearnsFromMergesOfManyOperandsWhatStaysOfThem) {
  TrieJob job = Job(1000, 400);
  job.folded_bytes = 600;
  job.operand_share = 0;
  EstimateOf(1200, &ledger_);
  EXPECT_TRUE(ledger_.Learn(job, 1000));  // all stayed
  EXPECT_DOUBLE_EQ(ledger_.operand_share(), 0.25);
  double told = 0;
  ledger_.Estimate(next_version_ - 1, 1200, [&](double operand_share) {
    told = operand_share;
    return TrieSpace();
  });
  EXPECT_DOUBLE_EQ(told, 0.25) << "the estimate of the same shape is made anew";

  TrieJob push = job;
  push.kind = TrieJob::Kind::kPush;
  EXPECT_FALSE(ledger_.Learn(push, 1000));
  job.folded_bytes = 49;
  EXPECT_FALSE(ledger_.Learn(job, 1000)) << "too few to tell";
  EXPECT_DOUBLE_EQ(ledger_.operand_share(), 0.25);
}

TEST_F(SpaceLedgerTest, AMergeFreesTooLittleBelowHalfOfWhatWasPromised) {
  EXPECT_FALSE(SpaceLedger::FreedTooLittle(Job(1000, 400), 700));
  EXPECT_TRUE(SpaceLedger::FreedTooLittle(Job(1000, 400), 701));
  EXPECT_TRUE(SpaceLedger::FreedTooLittle(Job(1000, 400), 1200));
  EXPECT_FALSE(SpaceLedger::FreedTooLittle(Job(1000, 1000), 1000));
}

}  // namespace
}  // namespace cairn
