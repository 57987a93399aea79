// The program `cairn`: one command a call, `cairn help` lists them.

#include <cairn/version.h>
#include <sys/resource.h>

#include <algorithm>
#include <cstdio>
#include <cstring>
#include <string>

#include "rocksdb/version.h"
#include "tools/commands.h"

namespace cairn {
namespace {

void ListCommands(FILE* out) {
  std::fprintf(out, "Usage: cairn COMMAND [FLAG ...]\n\nCommands:\n");
  size_t width = std::strlen("help [COMMAND]");
  for (const Command& command : AllCommands()) width = std::max(width, command.name.size());
  const int column = static_cast<int>(width);
  std::fprintf(out, "  %-*s  %s\n", column, "help [COMMAND]", "Prints this list, or what a command does and its flags");
  std::fprintf(out, "  %-*s  %s\n", column, "version", "Prints Cairn's version, and that of the RocksDB in it");
  for (const Command& command : AllCommands()) {
    std::fprintf(out, "  %-*s  %s\n", column, command.name.c_str(), command.summary.c_str());
  }
}

int UnknownCommand(const char* name) {
  std::fprintf(stderr, "cairn: there is no command \"%s\"; `cairn help` lists them.\n", name);
  return kExitUsage;
}

int Help(int argc, char** argv) {
  if (argc <= 1) {
    ListCommands(stdout);
    return kExitOk;
  }
  const Command* command = FindCommand(argv[1]);
  if (command == nullptr) return UnknownCommand(argv[1]);
  std::string name = command->name;
  std::string flag = "--help";
  char* arguments[] = {name.data(), flag.data(), nullptr};
  return command->run(2, arguments);
}

// RocksDB keeps every table open by default, and a trie has thousands; shells start programs with 1,024.
void AllowManyFiles() {
  struct rlimit limit = {};
  if (getrlimit(RLIMIT_NOFILE, &limit) != 0 || limit.rlim_cur == limit.rlim_max) return;
  limit.rlim_cur = limit.rlim_max;
  setrlimit(RLIMIT_NOFILE, &limit);
}

int Main(int argc, char** argv) {
  AllowManyFiles();
  if (argc < 2) {
    ListCommands(stderr);
    return kExitUsage;
  }
  const std::string name = argv[1];
  if (name == "help" || name == "--help" || name == "-h") return Help(argc - 1, argv + 1);
  if (name == "version" || name == "--version") {
    std::printf("cairn %s, RocksDB %s\n", Version(), rocksdb::GetRocksVersionAsString().c_str());
    return kExitOk;
  }
  const Command* command = FindCommand(name);
  if (command == nullptr) return UnknownCommand(argv[1]);
  return command->run(argc - 1, argv + 1);
}

}  // namespace
}  // namespace cairn

int main(int argc, char** argv) { return cairn::Main(argc, argv); }
