// cairn repair: brings back a database that does not open, with the options stored in it. (ldb repair gives every
// column family the default comparator, with which no trie opens.)

#include <unistd.h>

#include <cstdio>
#include <cstring>
#include <string>

#include "tools/arguments.h"
#include "tools/commands.h"
#include "tools/repair.h"

namespace cairn {
namespace {

// Whether a person, or --yes, agrees.
bool Agreed(bool yes) {
  if (yes) return true;
  if (isatty(STDIN_FILENO) == 0) {
    std::fprintf(stderr, "Nothing was changed; --yes does this.\n");
    return false;
  }
  std::fprintf(stderr, "Type \"yes\" to do this: ");
  char answer[8] = {};
  if (std::fgets(answer, sizeof(answer), stdin) != nullptr && std::strcmp(answer, "yes\n") == 0) return true;
  std::fprintf(stderr, "Nothing was changed.\n");
  return false;
}

int RunRepair(int argc, char** argv) {
  std::string path;
  bool yes = false;
  Arguments arguments(
      "repair",
      "Brings back a database that does not open, with the options stored in it. Mends only what is\n"
      "damaged: CURRENT, single tables, records of the WAL, or the MANIFEST, which is then rebuilt from\n"
      "the tables and the WAL, and followed by the writes of a pool file. Says first what is damaged and\n"
      "what would be lost, and asks. Damaged files go to the folder \"lost\". What is no damage is reported\n"
      "and left alone.");
  arguments.Positional("DB", &path, "the database's directory; no other process may have it open");
  arguments.Switch("yes", &yes, "does it without asking");
  if (!arguments.Parse(argc, argv)) return arguments.exit_code();
  std::string what_was_done;
  const rocksdb::Status s = RepairDatabase(
      path, [](const std::string& line) { std::fprintf(stderr, "%s\n", line.c_str()); },
      [yes](RepairStep) { return Agreed(yes); }, &what_was_done);
  if (!s.ok()) return Fail("repair", s);
  if (what_was_done.empty()) return kExitFailure;
  std::printf("%s %s.\n", path.c_str(), what_was_done.c_str());
  return kExitOk;
}

const CommandRegistration kRepair("repair", "Brings back a database that does not open, a trie or not", RunRepair);

}  // namespace
}  // namespace cairn
