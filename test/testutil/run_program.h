// Runs a program of the build tree and hands back what it said. For tests.

#pragma once

#include <sys/types.h>

#include <string>
#include <vector>

#include "gtest/gtest.h"
namespace cairn {

struct ProgramResult {
  int exit_code = -1;  // 128 + signal when a signal ended it
  std::string out;
  std::string err;
};

// build/bin/NAME, by the environment variable CAIRN_BUILD_DIR.
std::string ProgramPath(const std::string& name);

// Whether the program has ended so and has said each of these: where it should (0) on its output, else on stderr.
inline ::testing::AssertionResult Says(int exit_code, const ProgramResult& result,
                                       const std::vector<std::string>& parts = {}) {
  const std::string& said = exit_code == 0 ? result.out : result.err;
  std::string wrong = result.exit_code == exit_code ? "" : "exit code " + std::to_string(result.exit_code) + "; ";
  for (const std::string& part : parts) {
    if (said.find(part) == std::string::npos) wrong += "\"" + part + "\" is missing; ";
  }
  if (wrong.empty()) return ::testing::AssertionSuccess();
  return ::testing::AssertionFailure() << wrong << "it said " << result.out << result.err;
}

// `words[0]` is the program's path.
ProgramResult RunProgram(const std::vector<std::string>& words);

// build/bin/NAME with these arguments.
ProgramResult RunBuilt(const std::string& name, std::vector<std::string> arguments);
inline ProgramResult Cairn(const std::vector<std::string>& arguments) { return RunBuilt("cairn", arguments); }

// Starts it and returns at once; its output goes to nowhere.
pid_t StartProgram(const std::vector<std::string>& words);
bool HasEnded(pid_t pid);
// Waits for its end; the exit code as above.
int WaitForProgram(pid_t pid);

}  // namespace cairn
