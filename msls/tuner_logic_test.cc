#include "msls/tuner_logic.h"

#include <gtest/gtest.h>

namespace cairn {
namespace {

constexpr double kKeys = 1e7, kItemBytes = 100, kWrites = 1e5;

TunerOptions Active() {
  TunerOptions options;
  options.advisory = false;
  options.min_seconds_between_changes = 100;
  options.settle_windows = 1;
  options.max_error = 0;
  return options;
}

// What a window of ten flushes of a workload of this skew looks like when `measured` bytes are written for each byte
// put in.
TunerWindow Window(double skew, double measured) {
  msls::Popularity popularity;
  EXPECT_TRUE(msls::Popularity::Zipf(kKeys, skew, &popularity).ok());
  TunerWindow window;
  window.flushes = 10;
  window.writes = static_cast<uint64_t>(10 * kWrites);
  window.distinct = static_cast<uint64_t>(10 * popularity.Unique(kWrites));
  window.flush_bytes = window.distinct * static_cast<uint64_t>(kItemBytes);
  const double total = measured * static_cast<double>(window.writes) * kItemBytes;
  window.compaction_bytes = static_cast<uint64_t>(std::max(0.0, total - static_cast<double>(window.flush_bytes)));
  return window;
}

LevelSizes UsersSizes() { return {100 * 1000 * 1000, 10, {}}; }

// A database with level sizes as they were set last, in the state that they give: all keys in level 2.
struct Database {
  explicit Database(const TunerOptions& options) : logic(options) {
    view.level_bytes = {0, 100e6, kKeys * kItemBytes};
    view.sizes = UsersSizes();
    view.store = msls::StoreShape::Default(msls::Design::kRocksDB);
    view.store.dynamic_level_bytes = false;
  }

  // One look 200 seconds after the one before; what it asks for fails with `error`, or is done.
  TunerAction::Kind Look(const TunerWindow& window, const std::string& error = "") {
    const TunerAction action = logic.Look(window, view, now += 200);
    if (action.kind == TunerAction::Kind::kNone) return action.kind;
    if (error.empty()) view.sizes = action.sizes;
    logic.Done(action, error, now);
    return action.kind;
  }
  // Looks until something is done, at most `looks` times.
  TunerAction::Kind LookOn(const TunerWindow& window, int looks = 5) {
    for (int i = 0; i < looks; i++) {
      const TunerAction::Kind kind = Look(window);
      if (kind != TunerAction::Kind::kNone) return kind;
    }
    return TunerAction::Kind::kNone;
  }
  const TunerReport& report() const { return logic.report(); }
  std::string last_line() const { return report().log.empty() ? "" : report().log.back(); }

  TunerLogic logic;
  TunerView view;
  double now = 0;
};

constexpr TunerAction::Kind kNone = TunerAction::Kind::kNone, kApply = TunerAction::Kind::kApply,
                            kRollBack = TunerAction::Kind::kRollBack, kReturn = TunerAction::Kind::kReturn,
                            kAdopt = TunerAction::Kind::kAdopt;

TEST(TunerLogicTest, SkewIsFoundAgain) {
  for (double skew : {0.0, 0.3, 0.7, 0.99, 1.3}) {
    msls::Popularity popularity;
    ASSERT_TRUE(msls::Popularity::Zipf(kKeys, skew, &popularity).ok());
    EXPECT_NEAR(EstimateSkew(kKeys, kWrites, popularity.Unique(kWrites)), skew, skew < 0.5 ? 0.1 : 0.01);
  }
}

TEST(TunerLogicTest, BelievesWhatItIsShown) {
  Database db(Active());
  db.Look(Window(0.99, 5));
  EXPECT_NEAR(db.report().keys, kKeys, 0.001 * kKeys);
  EXPECT_NEAR(db.report().item_bytes, kItemBytes, 0.01);
  EXPECT_NEAR(db.report().items_per_flush, kWrites, 1);
  EXPECT_NEAR(db.report().skew, 0.99, 0.01);
  EXPECT_NEAR(db.report().measured, 5, 0.01);
  EXPECT_LE(db.report().predicted_best, db.report().predicted);
  EXPECT_EQ(db.report().predicted_untuned, db.report().predicted);
  EXPECT_NE(db.report().ToString().find("Zipf 0.99"), std::string::npos);
}

TEST(TunerLogicTest, AdvisoryModeChangesNothing) {
  TunerOptions options = Active();
  options.advisory = true;
  Database db(options);
  EXPECT_EQ(db.LookOn(Window(0, 5), 20), kNone);
  EXPECT_EQ(db.report().changes, 0u);
  EXPECT_GT(1 - db.report().predicted_best / db.report().predicted, 0.05);
  EXPECT_NE(db.last_line().find("only advising"), std::string::npos);
}

TEST(TunerLogicTest, AnObstacleIsNamed) {
  Database db(Active());
  db.view.obstacle = "but the moon is full.";
  EXPECT_EQ(db.LookOn(Window(0, 5)), kNone);
  EXPECT_NE(db.last_line().find("moon"), std::string::npos);
}

TEST(TunerLogicTest, WaitsUntilTheModelDescribesWhatIsMeasured) {
  TunerOptions options = Active();
  options.max_error = 0.15;
  Database db(options);
  EXPECT_EQ(db.LookOn(Window(0, 1.5)), kNone);
  EXPECT_NE(db.last_line().find("1.50 was measured"), std::string::npos) << db.report().ToString();
  EXPECT_EQ(db.Look(Window(0, 0.9 * db.report().predicted)), kApply);
}

TEST(TunerLogicTest, WaitsForASecondLookAtTheSameWorkload) {
  Database db(Active());
  EXPECT_EQ(db.Look(Window(0, 5)), kNone);
  EXPECT_EQ(db.Look(Window(0.5, 5)), kNone);
  EXPECT_EQ(db.Look(Window(0.5, 5)), kApply);
}

TEST(TunerLogicTest, KeepsAChangeThatHelps) {
  Database db(Active());
  ASSERT_EQ(db.LookOn(Window(0, 5)), kApply);
  EXPECT_EQ(db.report().changes, 1u);
  EXPECT_EQ(db.Look(Window(0, 9)), kNone);  // settling: not judged
  EXPECT_EQ(db.Look(Window(0, 4)), kNone);  // judged
  EXPECT_NE(db.last_line().find("kept"), std::string::npos);
  EXPECT_EQ(db.Look(Window(0, 4)), kNone);  // nothing more to gain
  EXPECT_EQ(db.report().rollbacks, 0u);
}

TEST(TunerLogicTest, NeverWorseTwice) {
  Database db(Active());
  ASSERT_EQ(db.LookOn(Window(0, 5)), kApply);
  EXPECT_EQ(db.Look(Window(0, 6)), kNone);
  EXPECT_EQ(db.Look(Window(0, 6)), kRollBack);
  EXPECT_EQ(db.view.sizes, UsersSizes());
  EXPECT_EQ(db.report().rollbacks, 1u);
  EXPECT_EQ(db.LookOn(Window(0, 5)), kNone);  // not under the same belief
  ASSERT_EQ(db.LookOn(Window(0.6, 5)), kApply);
  EXPECT_EQ(db.Look(Window(0.6, 6)), kNone);
  EXPECT_EQ(db.Look(Window(0.6, 6)), kRollBack);
  EXPECT_EQ(db.view.sizes, UsersSizes());
  EXPECT_EQ(db.LookOn(Window(0, 5)), kNone);  // not at all
  EXPECT_EQ(db.LookOn(Window(0.3, 5)), kNone);
  EXPECT_EQ(db.report().rollbacks, 2u);
}

// A change that costs a little, every time, is taken back as well as one that costs much at once.
TEST(TunerLogicTest, SmallLossesAddUp) {
  Database db(Active());
  ASSERT_EQ(db.LookOn(Window(0, 5)), kApply);
  EXPECT_EQ(db.Look(Window(0, 5.15)), kNone);  // settling
  int looks = 0;
  while (db.Look(Window(0, 5.15)) == kNone) ASSERT_LT(looks++, 5);
  EXPECT_GT(looks, 0);
  EXPECT_EQ(db.report().rollbacks, 1u);
}

// What is measured is compared with what the sizes before would have written for the data of now.
TEST(TunerLogicTest, GrownDataIsNoLoss) {
  TunerOptions options = Active();
  options.min_seconds_between_changes = 1e9;
  Database db(options);
  const double before = 5;
  ASSERT_EQ(db.LookOn(Window(0, before)), kApply);
  const double predicted = db.report().predicted_untuned;
  db.view.level_bytes.back() *= 1.1;
  db.Look(Window(0, before));
  db.view.level_bytes.back() *= 1.1;
  db.logic.Look(Window(0, before), db.view, db.now);
  const double grown = before * db.report().predicted_untuned / predicted;
  ASSERT_GT(grown, 1.03 * before);
  EXPECT_EQ(db.Look(Window(0, grown)), kNone);
  EXPECT_EQ(db.report().rollbacks, 0u) << db.report().ToString();
}

TEST(TunerLogicTest, FailuresOfSetOptions) {
  Database db(Active());
  EXPECT_EQ(db.Look(Window(0, 5)), kNone);
  EXPECT_EQ(db.Look(Window(0, 5), "IO error: no space left"), kApply);
  EXPECT_EQ(db.report().failures, 1u);
  EXPECT_EQ(db.report().changes, 0u);
  // Too young for the next attempt, then it is made.
  EXPECT_EQ(db.logic.Look(Window(0, 5), db.view, db.now + 50).kind, kNone);
  ASSERT_EQ(db.Look(Window(0, 5)), kApply);
  db.Look(Window(0, 6));
  EXPECT_EQ(db.Look(Window(0, 6), "IO error: no space left"), kRollBack);
  EXPECT_EQ(db.report().rollbacks, 0u);
  // Taken back at the next look.
  EXPECT_EQ(db.Look(Window(0, 6)), kRollBack);
  EXPECT_EQ(db.report().rollbacks, 1u);
  EXPECT_EQ(db.view.sizes, UsersSizes());
}

TEST(TunerLogicTest, AnActionThatWasGivenUpIsAskedForAgain) {
  Database db(Active());
  db.Look(Window(0, 5));
  ASSERT_EQ(db.logic.Look(Window(0, 5), db.view, db.now).kind, kApply);
  ASSERT_EQ(db.logic.Look(Window(0, 5), db.view, db.now).kind, kApply);
  EXPECT_EQ(db.report().changes, 0u);
}

TEST(TunerLogicTest, AShiftOfTheWorkloadIsNoVerdict) {
  Database db(Active());
  ASSERT_EQ(db.LookOn(Window(0, 5)), kApply);
  db.Look(Window(0.9, 9));
  db.Look(Window(0.9, 9));
  EXPECT_EQ(db.report().rollbacks, 0u);
}

TEST(TunerLogicTest, SizesLeaveRoomForLevelsToCome) {
  Database db(Active());
  ASSERT_EQ(db.LookOn(Window(0, 5)), kApply);
  const std::vector<double> targets = LevelTargets(db.view.sizes, 11);  // more levels than the database has
  EXPECT_GT(targets[1], kKeys * kItemBytes);
  for (size_t i = 2; i < targets.size(); i++) EXPECT_NEAR(targets[i] / targets[i - 1], 10, 0.2) << i;
}

// Data that outgrows the last level goes to one that the user's sizes have, too.
TEST(TunerLogicTest, UsersSizesComeBackWhenTheyAreBetter) {
  TunerOptions options = Active();
  options.min_seconds_between_changes = 1e9;  // or it finds better ones
  options.max_space_amplification = 0;
  Database db(options);
  ASSERT_EQ(db.LookOn(Window(0, 5)), kApply);
  TunerAction::Kind kind = kNone;
  for (int i = 0; i < 20 && kind == kNone; i++) {
    for (double& bytes : db.view.level_bytes) bytes *= 1.5;
    kind = db.Look(Window(0, 5));
  }
  EXPECT_EQ(kind, kReturn) << db.report().ToString();
  EXPECT_EQ(db.view.sizes, UsersSizes());
  EXPECT_EQ(db.report().returns, 1u);
  EXPECT_EQ(db.report().rollbacks, 0u);
}

TEST(TunerLogicTest, WhatTheUserSetsIsTheNewBaseline) {
  Database db(Active());
  ASSERT_EQ(db.LookOn(Window(0, 5)), kApply);
  const LevelSizes users = {200 * 1000 * 1000, 7, {1, 2}};
  db.view.sizes = users;
  EXPECT_EQ(db.logic.Look(Window(0, 9), db.view, db.now + 1).kind, kNone);  // though worse than before
  EXPECT_NE(db.last_line().find("SetOptions"), std::string::npos);
  db.Look(Window(0, 9));
  EXPECT_EQ(db.report().rollbacks, 0u);
  EXPECT_EQ(db.report().predicted, db.report().predicted_untuned);
  // Not touched for as long as one of the tuner's changes would be.
  Database other(Active());
  other.Look(Window(0, 5));
  other.view.sizes.base += 1000;
  other.logic.Look(Window(0, 5), other.view, other.now + 1);
  EXPECT_EQ(other.logic.Look(Window(0, 5), other.view, other.now + 90).kind, kNone);
  EXPECT_NE(other.last_line().find("too young"), std::string::npos) << other.report().ToString();
}

TEST(TunerLogicTest, APartThatTheUserSetsDropsTheTunersOtherParts) {
  Database db(Active());
  ASSERT_EQ(db.LookOn(Window(0, 5)), kApply);
  ASSERT_NE(db.view.sizes.multiplier, 10);
  db.view.sizes.base = 300 * 1000 * 1000;
  EXPECT_EQ(db.Look(Window(0, 5)), kAdopt);
  EXPECT_EQ(db.view.sizes, (LevelSizes{300 * 1000 * 1000, 10, {}}));
  db.Look(Window(0, 9));
  EXPECT_EQ(db.report().rollbacks, 0u);
}

TEST(TunerLogicTest, EmptyAndOddWindows) {
  Database db(Active());
  EXPECT_EQ(db.Look(TunerWindow()), kNone);
  TunerWindow window = Window(0, 5);
  window.writes = 1;  // fewer writes than distinct keys
  EXPECT_EQ(db.Look(window), kNone);
  db.view.level_bytes = {};
  EXPECT_EQ(db.LookOn(Window(0, 5)), kNone);
  db.view.level_bytes = {1e9, 0, 0};
  EXPECT_EQ(db.LookOn(Window(0, 5)), kNone);
  for (int i = 0; i < 500; i++) db.Look(TunerWindow());
  EXPECT_LE(db.report().log.size(), 100u);
}

TEST(TunerLogicTest, LevelsThatDoNotGrow) {
  for (const LevelSizes& sizes : {LevelSizes{100, 0.5, {}}, LevelSizes{1000 * 1000, 1, {}},
                                  LevelSizes{UINT64_MAX, 10, {}}, LevelSizes{1, 10, {}}, LevelSizes{0, 0, {0, 0}}}) {
    Database db(Active());
    db.view.sizes = sizes;
    db.LookOn(Window(0, 5));
    db.LookOn(Window(0, 6));
    EXPECT_EQ(db.report().failures, 0u);
  }
}

}  // namespace
}  // namespace cairn
