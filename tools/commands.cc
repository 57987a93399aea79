#include "tools/commands.h"

#include <algorithm>
#include <cstdio>

namespace cairn {
namespace {

std::vector<Command>& Registry() {
  static std::vector<Command> commands;
  return commands;
}

std::atomic<bool> stop_requested{false};

void RequestStop(int) { stop_requested.store(true, std::memory_order_relaxed); }

}  // namespace

CommandRegistration::CommandRegistration(const char* name, const char* summary, int (*run)(int argc, char** argv)) {
  std::vector<Command>& commands = Registry();
  Command command{name, summary, run};
  auto place = std::lower_bound(commands.begin(), commands.end(), command,
                                [](const Command& a, const Command& b) { return a.name < b.name; });
  commands.insert(place, std::move(command));
}

const std::vector<Command>& AllCommands() { return Registry(); }

const Command* FindCommand(const std::string& name) {
  for (const Command& command : Registry()) {
    if (command.name == name) return &command;
  }
  return nullptr;
}

std::string ErrorText(const rocksdb::Status& status) {
  const bool kind_is_clear = status.IsInvalidArgument() || status.IsNotSupported() || status.IsNotFound() ||
                             status.IsBusy() || status.IsIncomplete();
  const char* message = status.getState();
  return kind_is_clear && message != nullptr && message[0] != '\0' ? message : status.ToString();
}

int Fail(const std::string& command, const rocksdb::Status& status) {
  std::fprintf(stderr, "cairn %s: %s\n", command.c_str(), ErrorText(status).c_str());
  return kExitFailure;
}

sigset_t BlockStopSignals() {
  sigset_t stop;
  sigemptyset(&stop);
  sigaddset(&stop, SIGINT);
  sigaddset(&stop, SIGTERM);
  pthread_sigmask(SIG_BLOCK, &stop, nullptr);
  return stop;
}

const std::atomic<bool>* CatchStopSignals() {
  struct sigaction action = {};
  action.sa_handler = RequestStop;
  action.sa_flags = static_cast<int>(SA_RESETHAND);
  sigaction(SIGINT, &action, nullptr);
  sigaction(SIGTERM, &action, nullptr);
  return &stop_requested;
}

}  // namespace cairn
