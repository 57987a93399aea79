// cairn dump: shows and verifies one HTable.

#include "tools/arguments.h"
#include "tools/commands.h"
#include "tools/htable_text.h"

namespace cairn {
namespace {

int RunDump(int argc, char** argv) {
  std::string path;
  HTableText what;
  Arguments arguments(
      "dump",
      "Prints header, fill and properties of an HTable (docs/design/htable.md). Tables of other formats\n"
      "are shown by sst_dump.");
  arguments.Positional("FILE", &path, "an .sst file of a trie over HTables");
  arguments.Switch("entries", &what.entries, "print every entry, too: hash, key, sequence number, type, value");
  arguments.Switch("verify", &what.verify, "read everything and check it against checksums and counts");
  if (!arguments.Parse(argc, argv)) return arguments.exit_code();
  const rocksdb::Status s = PrintHTable(path, what);
  return s.ok() ? kExitOk : Fail("dump", s);
}

const CommandRegistration kDump("dump", "Shows and verifies a table of a trie over HTables", RunDump);

}  // namespace
}  // namespace cairn
