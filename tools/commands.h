// The commands of the program `cairn`. A command is a function in a file of its own that registers itself:
//
//   static int RunModel(int argc, char** argv) { ... }
//   static const cairn::CommandRegistration kModel("model", "Computes the write amplification of ...", RunModel);
//
// and the file is added to the program in tools/CMakeLists.txt. Commands read their flags with tools/arguments.h.

#pragma once

#include <signal.h>

#include <atomic>
#include <string>
#include <vector>

#include "rocksdb/status.h"

namespace cairn {

// What a command returns, and with it the program.
enum ExitCode {
  kExitOk = 0,
  kExitFailure = 1,  // the work could not be done; one line on stderr says why and what to do
  kExitUsage = 2,    // the command line is wrong
};

struct Command {
  std::string name;
  std::string summary;                          // one line, a sentence without a full stop
  int (*run)(int argc, char** argv) = nullptr;  // argv[0] is the command's name; --help must print its help
};

// Registers a command during static initialisation. Names are unique.
class CommandRegistration {
 public:
  CommandRegistration(const char* name, const char* summary, int (*run)(int argc, char** argv));
};

// All commands, sorted by name.
const std::vector<Command>& AllCommands();

// The error as people read it: without the kind when the message says it all.
std::string ErrorText(const rocksdb::Status& status);

// Prints "cairn COMMAND: error" on stderr and returns kExitFailure.
int Fail(const std::string& command, const rocksdb::Status& status);

// Blocks SIGINT and SIGTERM in this thread and in those that it starts from now on, so that sigwait gets them.
sigset_t BlockStopSignals();

// True once SIGINT or SIGTERM has come. A second one ends the program at once, as a crash would.
const std::atomic<bool>* CatchStopSignals();

// Null when there is none.
const Command* FindCommand(const std::string& name);

}  // namespace cairn
