#include "db/tuner_logic.h"

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

TunerView View() {
  TunerView view;
  view.data_bytes = kKeys * kItemBytes;
  view.store.dynamic_level_bytes = false;
  view.store.level_bytes = {100e6};
  return view;
}

TEST(TunerLogicTest, SkewIsFoundAgain) {
  for (double skew : {0.0, 0.3, 0.7, 0.99, 1.3}) {
    msls::Popularity popularity;
    ASSERT_TRUE(msls::Popularity::Zipf(kKeys, skew, &popularity).ok());
    EXPECT_NEAR(EstimateSkew(kKeys, kWrites, popularity.Unique(kWrites)), skew, skew < 0.5 ? 0.1 : 0.01);
  }
}

TEST(TunerLogicTest, BelievesWhatItIsShown) {
  TunerLogic logic(Active());
  logic.Look(Window(0.99, 5), View(), 0);
  EXPECT_NEAR(logic.report().keys, kKeys, 0.001 * kKeys);
  EXPECT_NEAR(logic.report().item_bytes, kItemBytes, 0.01);
  EXPECT_NEAR(logic.report().items_per_flush, kWrites, 1);
  EXPECT_NEAR(logic.report().skew, 0.99, 0.01);
  EXPECT_NEAR(logic.report().measured, 5, 0.01);
  EXPECT_LE(logic.report().predicted_best, logic.report().predicted);
  EXPECT_NE(logic.report().ToString().find("Zipf 0.99"), std::string::npos);
}

TEST(TunerLogicTest, AdvisoryModeChangesNothing) {
  TunerOptions options = Active();
  options.advisory = true;
  TunerLogic logic(options);
  for (int i = 0; i < 20; i++) {
    EXPECT_EQ(logic.Look(Window(0, 5), View(), 1000 * i).kind, TunerAction::Kind::kNone);
  }
  EXPECT_EQ(logic.report().changes, 0u);
  EXPECT_GT(1 - logic.report().predicted_best / logic.report().predicted, 0.05);
  ASSERT_FALSE(logic.report().log.empty());
  EXPECT_NE(logic.report().log.back().find("only advising"), std::string::npos);
}

TEST(TunerLogicTest, AnObstacleIsNamed) {
  TunerLogic logic(Active());
  TunerView view = View();
  view.obstacle = "but the moon is full.";
  EXPECT_EQ(logic.Look(Window(0, 5), view, 0).kind, TunerAction::Kind::kNone);
  ASSERT_FALSE(logic.report().log.empty());
  EXPECT_NE(logic.report().log.back().find("moon"), std::string::npos);
}

TEST(TunerLogicTest, WaitsUntilTheModelDescribesWhatIsMeasured) {
  TunerOptions options = Active();
  options.max_error = 0.15;
  TunerLogic logic(options);
  EXPECT_EQ(logic.Look(Window(0, 1.5), View(), 0).kind, TunerAction::Kind::kNone);
  ASSERT_FALSE(logic.report().log.empty());
  EXPECT_NE(logic.report().log.back().find("1.50 was measured"), std::string::npos) << logic.report().ToString();
  const double predicted = logic.report().predicted;
  EXPECT_EQ(logic.Look(Window(0, 0.9 * predicted), View(), 200).kind, TunerAction::Kind::kApply);
}

TEST(TunerLogicTest, KeepsAChangeThatHelps) {
  TunerLogic logic(Active());
  const TunerAction change = logic.Look(Window(0, 5), View(), 0);
  ASSERT_EQ(change.kind, TunerAction::Kind::kApply);
  EXPECT_FALSE(change.store.level_bytes.empty());
  logic.Done(change, "", 0);
  EXPECT_EQ(logic.report().changes, 1u);
  TunerView view = View();
  view.store.level_bytes = change.store.level_bytes;
  EXPECT_EQ(logic.Look(Window(0, 9), view, 200).kind, TunerAction::Kind::kNone);  // settling: not judged
  EXPECT_EQ(logic.Look(Window(0, 4), view, 400).kind, TunerAction::Kind::kNone);  // judged
  EXPECT_NE(logic.report().log.back().find("kept"), std::string::npos);
  EXPECT_EQ(logic.Look(Window(0, 4), view, 600).kind, TunerAction::Kind::kNone);  // nothing more to gain
  EXPECT_EQ(logic.report().rollbacks, 0u);
}

TEST(TunerLogicTest, NeverWorseTwice) {
  TunerLogic logic(Active());
  double now = 0;
  auto until_change = [&](double skew) {
    for (int i = 0; i < 5; i++, now += 200) {
      const TunerAction action = logic.Look(Window(skew, 5), View(), now);
      if (action.kind == TunerAction::Kind::kApply) {
        logic.Done(action, "", now);
        return true;
      }
    }
    return false;
  };
  auto fails = [&](double skew) {
    EXPECT_EQ(logic.Look(Window(skew, 6), View(), now += 200).kind, TunerAction::Kind::kNone);
    const TunerAction action = logic.Look(Window(skew, 6), View(), now += 200);
    EXPECT_EQ(action.kind, TunerAction::Kind::kRollBack);
    logic.Done(action, "", now += 200);
  };
  ASSERT_TRUE(until_change(0));
  fails(0);
  EXPECT_EQ(logic.report().rollbacks, 1u);
  EXPECT_FALSE(until_change(0));  // not under the same belief
  ASSERT_TRUE(until_change(0.6));
  fails(0.6);
  EXPECT_FALSE(until_change(0));  // not at all
  EXPECT_FALSE(until_change(0.3));
  EXPECT_EQ(logic.report().rollbacks, 2u);
}

TEST(TunerLogicTest, FailuresOfSetOptions) {
  TunerLogic logic(Active());
  TunerAction action = logic.Look(Window(0, 5), View(), 0);
  ASSERT_EQ(action.kind, TunerAction::Kind::kApply);
  logic.Done(action, "IO error: no space left", 0);
  EXPECT_EQ(logic.report().failures, 1u);
  EXPECT_EQ(logic.report().changes, 0u);
  // Too young for the next attempt, then it is made.
  EXPECT_EQ(logic.Look(Window(0, 5), View(), 50).kind, TunerAction::Kind::kNone);
  action = logic.Look(Window(0, 5), View(), 150);
  ASSERT_EQ(action.kind, TunerAction::Kind::kApply);
  logic.Done(action, "", 150);
  logic.Look(Window(0, 6), View(), 300);
  action = logic.Look(Window(0, 6), View(), 450);
  ASSERT_EQ(action.kind, TunerAction::Kind::kRollBack);
  logic.Done(action, "IO error: no space left", 450);
  EXPECT_EQ(logic.report().rollbacks, 0u);
  // Taken back at the next look.
  action = logic.Look(Window(0, 6), View(), 460);
  EXPECT_EQ(action.kind, TunerAction::Kind::kRollBack);
  logic.Done(action, "", 460);
  EXPECT_EQ(logic.report().rollbacks, 1u);
}

TEST(TunerLogicTest, AShiftOfTheWorkloadIsNoVerdict) {
  TunerLogic logic(Active());
  const TunerAction action = logic.Look(Window(0, 5), View(), 0);
  ASSERT_EQ(action.kind, TunerAction::Kind::kApply);
  logic.Done(action, "", 0);
  logic.Look(Window(0.9, 9), View(), 200);
  EXPECT_EQ(logic.Look(Window(0.9, 9), View(), 400).kind, TunerAction::Kind::kNone);
  EXPECT_EQ(logic.report().rollbacks, 0u);
}

TEST(TunerLogicTest, EmptyAndOddWindows) {
  TunerLogic logic(Active());
  EXPECT_EQ(logic.Look(TunerWindow(), View(), 0).kind, TunerAction::Kind::kNone);
  TunerWindow window = Window(0, 5);
  window.writes = 1;  // fewer writes than distinct keys
  EXPECT_EQ(logic.Look(window, View(), 0).kind, TunerAction::Kind::kNone);
  TunerView view = View();
  view.data_bytes = 0;
  EXPECT_EQ(logic.Look(Window(0, 5), view, 0).kind, TunerAction::Kind::kNone);
  for (int i = 0; i < 500; i++) logic.Look(TunerWindow(), View(), i);
  EXPECT_LE(logic.report().log.size(), 100u);
}

}  // namespace
}  // namespace cairn
