// Tests as data: a text file of blocks, each with commands and what they must print.
//
//   # Why that is so.
//   command arguments
//   command arguments
//   ----
//   what they print
//
// An empty line ends a block, and a block may begin without a command's output. Lines that begin with # are comments.
// With CAIRN_UPDATE_GOLDEN set, what was printed becomes what must be; look at the difference before it is committed.
//
// Source: the data-driven tests of Pebble and CockroachDB.

#pragma once

#include <cstdlib>
#include <fstream>
#include <functional>
#include <string>
#include <vector>

#include "gtest/gtest.h"

namespace cairn {

// `run` carries out one command and returns what it prints, lines that end in '\n'. `name` is a path in the source
// tree.
inline void RunDataFile(const std::string& name, const std::function<std::string(const std::string& command)>& run) {
  const char* source = getenv("CAIRN_SOURCE_DIR");
  const std::string path = (source != nullptr ? std::string(source) : ".") + "/" + name;
  std::ifstream file(path);
  ASSERT_TRUE(file.good()) << path << " is missing; run ctest, or set CAIRN_SOURCE_DIR to the source tree";
  std::vector<std::string> lines;
  for (std::string line; std::getline(file, line);) lines.push_back(line);

  std::string rewritten;
  std::string printed;
  for (size_t i = 0; i < lines.size(); ++i) {
    rewritten += lines[i] + "\n";
    if (lines[i] == "----") {
      const size_t block = i + 1;
      std::string expected;
      while (i + 1 < lines.size() && !lines[i + 1].empty()) expected += lines[++i] + "\n";
      EXPECT_EQ(expected, printed) << name << ":" << block;
      rewritten += printed;
      printed.clear();
    } else if (!lines[i].empty() && lines[i][0] != '#') {
      printed += run(lines[i]);
    } else if (lines[i].empty()) {
      EXPECT_EQ(printed, "") << name << ":" << i << ": printed, and nothing says what is expected";
      printed.clear();
    }
  }
  EXPECT_EQ(printed, "") << name << ": printed at the end, and nothing says what is expected";
  if (getenv("CAIRN_UPDATE_GOLDEN") != nullptr) std::ofstream(path) << rewritten;
}

}  // namespace cairn
