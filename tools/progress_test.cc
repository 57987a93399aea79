#include "tools/progress.h"

#include <gtest/gtest.h>

#include <cstdio>
#include <string>

namespace cairn {
namespace {

TEST(Progress, Lines) {
  const Progress known("copy", "records", 1000, 100);
  EXPECT_EQ("copy [############............] 50 %  500 records, 40/s, 13 s left", known.Line(500, 10, ""));
  EXPECT_EQ("copy [########################] 100 %  2.00 K records, 190/s, more", known.Line(2000, 10, "more"));
  EXPECT_EQ("copy [##......................] 10 %  100 records", known.Line(100, 0, ""));
  const Progress unknown("copy", "records", 0);
  EXPECT_EQ("copy  500 records, 50/s", unknown.Line(500, 10, ""));
  const Progress notes("compact", "", 0);
  EXPECT_EQ("compact  3 MiB", notes.Line(0, 10, "3 MiB"));
}

TEST(Progress, Units) {
  EXPECT_EQ("999", ShortCount(999));
  EXPECT_EQ("1.00 K", ShortCount(1000));
  EXPECT_EQ("12.3 M", ShortCount(12345678));
  EXPECT_EQ("512 B", ShortBytes(512));
  EXPECT_EQ("1.50 MiB", ShortBytes(1572864));
  EXPECT_EQ("59 s", ShortTime(59));
  EXPECT_EQ("1 min 0 s", ShortTime(59.6));
  EXPECT_EQ("2 h 5 min", ShortTime(7515));
}

// A file in place of the terminal.
class ProgressInAFile : public testing::Test {
 protected:
  ProgressInAFile() : file_(std::tmpfile()) { EXPECT_NE(nullptr, file_); }
  ~ProgressInAFile() override { std::fclose(file_); }

  // The first of what was written; *lines are counted.
  std::string FirstLine(int* lines) {
    std::rewind(file_);
    char line[200] = "";
    std::string first;
    for (*lines = 0; std::fgets(line, sizeof(line), file_) != nullptr; ++*lines) {
      if (*lines == 0) first = line;
    }
    return first;
  }

  FILE* const file_;
};

TEST_F(ProgressInAFile, HoldsTheLastState) {
  {
    Progress progress("copy", "records", 10, 0, file_);
    for (int i = 0; i <= 10; i++) progress.Update(i);
  }
  int lines = 0;
  EXPECT_EQ(0u, FirstLine(&lines).find("copy [########################] 100 %  10 records"));
  EXPECT_EQ(1, lines);
}

TEST_F(ProgressInAFile, HoldsNothingIfToldSo) {
  {
    Progress progress("load", "puts", 100000, 0, file_, Progress::Elsewhere::kNothing);
    for (int i = 0; i <= 100000; i++) progress.Step(i);
    progress.Update(100000);
  }
  int lines = 0;
  EXPECT_EQ("", FirstLine(&lines));
  EXPECT_EQ(0, lines);
}

TEST_F(ProgressInAFile, HoldsTheLastMultipleOfAStep) {
  {
    Progress progress("load", "puts", 10000, 0, file_);
    for (int i = 1; i <= 10000; i++) progress.Step(i);
  }
  int lines = 0;
  EXPECT_NE(std::string::npos, FirstLine(&lines).find("81 %  8.19 K puts"));
}

}  // namespace
}  // namespace cairn
