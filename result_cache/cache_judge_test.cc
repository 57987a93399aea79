#include "result_cache/cache_judge.h"

#include "gtest/gtest.h"

namespace cairn {
namespace {

using Gauge = CacheJudge::Gauge;
using Mode = CacheJudge::Mode;
using Verdict = CacheJudge::Verdict;
using Window = CacheJudge::Window;

constexpr double kTree = 1000;
constexpr uint64_t kAWindow = 1 << 14;

Window Full(double saved, uint64_t reads = 1 << 20) {
  Window window;
  window.saved = saved;
  window.tree = kTree;
  window.held = 0.8;
  window.is_full = true;
  window.reads = reads;
  return window;
}

// Of a cache that fills up while keys are asked for that are all equally popular, or of which a few are popular.
Window Filling(double saved, double hits, double held, uint64_t reads) {
  Window window = Full(saved, reads);
  window.hits = static_cast<uint64_t>(hits * kAWindow);
  window.misses = kAWindow - window.hits;
  window.held = held;
  window.is_full = false;
  return window;
}

// Windows until it turns itself off; 0: it does not.
int WindowsToTurnOff(CacheJudge* judge, const Window& window, int most = 100) {
  for (int i = 1; i <= most; ++i) {
    if (judge->Judge(window) == Verdict::kTurnOff) return i;
  }
  return 0;
}

TEST(CacheJudgeTest, LossesTurnItOffGainsDoNot) {
  CacheJudge judge;
  judge.Begin(Mode::kOn);
  EXPECT_EQ(WindowsToTurnOff(&judge, Full(-100)), 3);
  judge.Begin(Mode::kOn);
  EXPECT_EQ(WindowsToTurnOff(&judge, Full(500)), 0);
  EXPECT_EQ(judge.gauge(), Gauge::kSeldom);
  // What saves nothing by now is measured more closely again.
  EXPECT_EQ(judge.Judge(Full(-100)), Verdict::kGoOn);
  EXPECT_EQ(judge.gauge(), Gauge::kOften);
  EXPECT_EQ(judge.Judge(Full(500)), Verdict::kGoOn);
  EXPECT_EQ(WindowsToTurnOff(&judge, Full(-100)), 3);
}

TEST(CacheJudgeTest, ASmallGainIsMeasuredWithALongRun) {
  CacheJudge judge;
  judge.Begin(Mode::kOn);
  for (int i = 0; i < 4; ++i) EXPECT_EQ(judge.Judge(Full(100)), Verdict::kGoOn);
  EXPECT_EQ(judge.gauge(), Gauge::kLong);
  const uint32_t number = judge.gauge_number();
  EXPECT_EQ(judge.Judge(Full(100)), Verdict::kGoOn);
  EXPECT_EQ(judge.gauge(), Gauge::kSeldom) << "it is one";
  for (int i = 0; i < 15; ++i) judge.Judge(Full(100));
  EXPECT_EQ(judge.gauge(), Gauge::kSeldom);
  judge.Judge(Full(100));
  EXPECT_EQ(judge.gauge(), Gauge::kLong);
  EXPECT_GT(judge.gauge_number(), number);
  EXPECT_EQ(WindowsToTurnOff(&judge, Full(-300)), 1) << "it was none";
  judge.Begin(Mode::kOn);
  for (int i = 0; i < 4; ++i) judge.Judge(Full(100));
  EXPECT_EQ(judge.Judge(Full(-10)), Verdict::kGoOn) << "about nothing";
  EXPECT_EQ(judge.gauge(), Gauge::kLong);
}

// A tenth of the keys has room, so one hit in ten is all that may come.
TEST(CacheJudgeTest, UniformReadsAreKnownLongBeforeTheCacheIsFull) {
  CacheJudge judge;
  judge.Begin(Mode::kOn);
  int windows = 0;
  for (double held = 0.001; held < 0.8; held += 0.01) {
    ++windows;
    if (judge.Judge(Filling(-150, held / 10, held, 0)) == Verdict::kTurnOff) break;
  }
  EXPECT_EQ(windows, 3);
}

TEST(CacheJudgeTest, WhatMayFillUpIsGivenTime) {
  CacheJudge judge;
  judge.Begin(Mode::kOn);
  // All keys have room.
  EXPECT_EQ(WindowsToTurnOff(&judge, Filling(-150, 0.03, 0.03, kAWindow)), 0);
  // One key in three, and the tree takes much more than what the cache costs.
  EXPECT_EQ(WindowsToTurnOff(&judge, Filling(-150, 0.01, 0.03, kAWindow)), 0);
  // Popular keys are there soon.
  EXPECT_EQ(WindowsToTurnOff(&judge, Filling(-10, 0.3, 0.05, kAWindow)), 0);
  // It has had all the time that it needs.
  EXPECT_EQ(WindowsToTurnOff(&judge, Filling(-150, 0.03, 0.03, 1 << 24)), 3);
  // Nothing was asked of it.
  judge.Begin(Mode::kOn);
  EXPECT_EQ(WindowsToTurnOff(&judge, Filling(-150, 0, 0.01, kAWindow)), 3);
  Window nothing = Filling(-150, 0, 0, kAWindow);
  nothing.misses = 0;
  EXPECT_EQ(WindowsToTurnOff(&judge, nothing), 0);
}

TEST(CacheJudgeTest, PausesGrowAndTrialsAreAPartOfThem) {
  CacheJudge judge;
  judge.Begin(Mode::kOn);
  uint64_t pause = judge.BeginPause(0);
  EXPECT_EQ(pause, uint64_t{1} << 20);
  for (int i = 0; i < 10; ++i) {
    judge.Begin(Mode::kTrial);
    EXPECT_EQ(WindowsToTurnOff(&judge, Full(-100)), 3);
    const uint64_t next = judge.BeginPause(100000);
    EXPECT_GE(next, pause);
    pause = next;
  }
  EXPECT_EQ(pause, uint64_t{1} << 27);
  EXPECT_GE(judge.MostOfATrial(), pause);
  // A trial of a large cache takes long; so does the pause.
  CacheJudge slow;
  slow.Begin(Mode::kTrial);
  EXPECT_EQ(slow.BeginPause(1 << 22), uint64_t{1} << 25);
}

TEST(CacheJudgeTest, ATrialIsWonByAGainThatCounts) {
  CacheJudge judge;
  judge.Begin(Mode::kTrial);
  EXPECT_EQ(judge.Judge(Full(500)), Verdict::kGoOn);
  EXPECT_EQ(judge.Judge(Full(500)), Verdict::kTurnOn);
  judge.Begin(Mode::kTrial);
  EXPECT_EQ(WindowsToTurnOff(&judge, Full(20)), 3) << "too little to be sure of it";
}

TEST(CacheJudgeTest, AbsentKeysAreJudgedApart) {
  CacheJudge judge;
  judge.Begin(Mode::kOn);
  Window window = Full(500);
  window.tree_absent = 200;
  window.saved_absent = 50;
  for (int i = 0; i < 20; ++i) EXPECT_EQ(judge.Judge(window), Verdict::kGoOn);
  EXPECT_TRUE(judge.keeps_absent());
  window.saved_absent = -50;
  window.is_full = false;
  for (int i = 0; i < 20; ++i) EXPECT_EQ(judge.Judge(window), Verdict::kGoOn);
  EXPECT_TRUE(judge.keeps_absent()) << "while memory is free";
  window.is_full = true;
  int kept = 0;
  for (int i = 0; i < 1000; ++i) {
    EXPECT_EQ(judge.Judge(window), Verdict::kGoOn) << "values are worth it";
    kept += judge.keeps_absent() ? 1 : 0;
  }
  EXPECT_GT(kept, 2);
  EXPECT_LT(kept, 100) << "it tries again, ever more seldom";
  // Few were asked for: that says nothing.
  window.saved_absent = window.tree_absent = 0;
  for (int i = 0; i < 2000; ++i) judge.Judge(window);
  EXPECT_TRUE(judge.keeps_absent());
}

// Reads that go round keys which all have room: the first hit comes when all have been read.
TEST(CacheJudgeTest, ATrialWaitsForAScanThatBeginsAnew) {
  CacheJudge judge;
  judge.Begin(Mode::kOn);
  judge.BeginPause(0);
  int trials = 0;
  for (bool won = false; !won && trials < 10; ++trials) {
    judge.Begin(Mode::kTrial);
    uint64_t reads = 0;
    for (Verdict verdict = Verdict::kGoOn; verdict == Verdict::kGoOn;) {
      reads += kAWindow;
      const bool again = reads > 1000000;
      verdict = judge.Judge(Filling(again ? 800 : -150, again ? 1 : 0, 0.4, reads));
      won = verdict == Verdict::kTurnOn;
    }
    if (!won) judge.BeginPause(reads);
  }
  EXPECT_LT(trials, 6);
}

}  // namespace
}  // namespace cairn
