#include "tools/commands.h"

#include <algorithm>

namespace cairn {
namespace {

std::vector<Command>& Registry() {
  static std::vector<Command> commands;
  return commands;
}

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

}  // namespace cairn
