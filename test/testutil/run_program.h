// Runs a program of the build tree and hands back what it said. For tests.

#pragma once

#include <sys/types.h>

#include <string>
#include <vector>

namespace cairn {

struct ProgramResult {
  int exit_code = -1;  // 128 + signal when a signal ended it
  std::string out;
  std::string err;
};

// build/bin/NAME, by the environment variable CAIRN_BUILD_DIR.
std::string ProgramPath(const std::string& name);

// `words[0]` is the program's path.
ProgramResult RunProgram(const std::vector<std::string>& words);

// Starts it and returns at once; its output goes to nowhere.
pid_t StartProgram(const std::vector<std::string>& words);
bool HasEnded(pid_t pid);
// Waits for its end; the exit code as above.
int WaitForProgram(pid_t pid);

}  // namespace cairn
