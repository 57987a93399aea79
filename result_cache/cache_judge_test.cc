#include "result_cache/cache_judge.h"

#include <algorithm>

#include "gtest/gtest.h"

namespace cairn {
namespace {

using Gauge = CacheJudge::Gauge;
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
  judge.Begin();
  EXPECT_EQ(WindowsToTurnOff(&judge, Full(-100)), 3);
  judge.Begin();
  EXPECT_EQ(WindowsToTurnOff(&judge, Full(500)), 0);
  EXPECT_EQ(judge.gauge(), Gauge::kSeldom);
  // What saves nothing by now is measured more closely again.
  EXPECT_EQ(judge.Judge(Full(-100)), Verdict::kGoOn);
  EXPECT_EQ(judge.gauge(), Gauge::kOften);
  EXPECT_EQ(judge.Judge(Full(500)), Verdict::kGoOn);
  EXPECT_EQ(WindowsToTurnOff(&judge, Full(-100)), 3);
}

// A tenth of the keys has room, so one hit in ten is all that may come.
TEST(CacheJudgeTest, UniformReadsAreKnownLongBeforeTheCacheIsFull) {
  CacheJudge judge;
  judge.Begin();
  int windows = 0;
  for (double held = 0.001; held < 0.8; held += 0.01) {
    ++windows;
    if (judge.Judge(Filling(-150, held / 10, held, 0)) == Verdict::kTurnOff) break;
  }
  EXPECT_EQ(windows, 3);
}

TEST(CacheJudgeTest, WhatMayFillUpIsGivenTime) {
  CacheJudge judge;
  judge.Begin();
  // All keys have room.
  EXPECT_EQ(WindowsToTurnOff(&judge, Filling(-150, 0.03, 0.03, kAWindow)), 0);
  // One key in three, and the tree takes much more than what the cache costs.
  EXPECT_EQ(WindowsToTurnOff(&judge, Filling(-150, 0.01, 0.03, kAWindow)), 0);
  // Popular keys are there soon.
  EXPECT_EQ(WindowsToTurnOff(&judge, Filling(-10, 0.3, 0.05, kAWindow)), 0);
  // It has had all the time that it needs.
  EXPECT_EQ(WindowsToTurnOff(&judge, Filling(-150, 0.03, 0.03, 1 << 24)), 3);
  // Nothing was asked of it.
  judge.Begin();
  EXPECT_EQ(WindowsToTurnOff(&judge, Filling(-150, 0, 0.01, kAWindow)), 3);
  Window nothing = Filling(-150, 0, 0, kAWindow);
  nothing.misses = 0;
  EXPECT_EQ(WindowsToTurnOff(&judge, nothing), 0);
}

TEST(CacheJudgeTest, PausesGrowAndTriesAreAPartOfThem) {
  CacheJudge judge;
  judge.Begin();
  uint64_t pause = judge.BeginPause(5000000);
  EXPECT_EQ(pause, uint64_t{1} << 20);
  for (int i = 0; i < 10; ++i) {
    judge.Begin();
    EXPECT_EQ(WindowsToTurnOff(&judge, Full(-100)), 3);
    const uint64_t next = judge.BeginPause(100000);
    EXPECT_GE(next, pause);
    pause = next;
  }
  EXPECT_EQ(pause, uint64_t{1} << 27);
  // To fill a large cache takes long; so does the pause.
  CacheJudge slow;
  slow.BeginPause(1 << 22);
  EXPECT_EQ(slow.BeginPause(1 << 22), uint64_t{1} << 26);
  for (int i = 0; i < 4; ++i) slow.Judge(Full(500));
  EXPECT_EQ(slow.BeginPause(1 << 22), uint64_t{1} << 20) << "it has paid since";
}

// Windows as a thread's reads make them: after so many it is off, and tries take a small part of what follows.
TEST(CacheJudgeTest, FewReadsPassWhereNothingIsGained) {
  CacheJudge judge;
  uint64_t all = 0, on = 0;
  for (int tries = 0; all < uint64_t{9} << 20; ++tries) {
    judge.Begin();
    uint64_t reads = 0;
    for (Verdict verdict = Verdict::kGoOn; verdict == Verdict::kGoOn;) {
      reads += judge.gauge() == Gauge::kFirst ? 1 << 12 : 1 << 14;
      const double held = std::min(0.8, static_cast<double>(reads) / (1 << 17));
      verdict = judge.Judge(Filling(-150, held / 10, held, reads));
    }
    if (tries == 0) {
      EXPECT_EQ(reads, 3u << 12);
    }
    on += reads;
    all += reads + judge.BeginPause(reads);
  }
  EXPECT_LT(on, all / 16);
  // Popular keys bring it back for good.
  judge.Begin();
  EXPECT_EQ(WindowsToTurnOff(&judge, Filling(500, 0.6, 0.3, 1 << 14)), 0);
  EXPECT_EQ(judge.gauge(), Gauge::kSeldom);
}

// Reads that go round keys which all have room: the first hit comes when all have been read.
TEST(CacheJudgeTest, ItWaitsForAScanThatBeginsAnew) {
  CacheJudge judge;
  judge.Begin();
  judge.BeginPause(0);
  int tries = 0;
  for (bool won = false; !won && tries < 10; ++tries) {
    judge.Begin();
    uint64_t reads = 0;
    for (Verdict verdict = Verdict::kGoOn; verdict == Verdict::kGoOn && !won;) {
      reads += kAWindow;
      const bool again = reads > 1000000;
      verdict = judge.Judge(Filling(again ? 800 : -150, again ? 1 : 0, 0.4, reads));
      won = again && judge.gauge() == Gauge::kSeldom;
    }
    if (!won) judge.BeginPause(reads);
  }
  EXPECT_LT(tries, 6);
}

}  // namespace
}  // namespace cairn
