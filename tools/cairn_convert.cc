// cairn convert: a database from one engine into another, in a new directory.

#include <cstdio>

#include "cairn/engines.h"
#include "tools/arguments.h"
#include "tools/commands.h"
#include "tools/converter.h"
#include "tools/progress.h"

namespace cairn {
namespace {

int RunConvert(int argc, char** argv) {
  ConvertOptions options;
  Arguments arguments(
      "convert",
      "Copies a database into another engine, in a new directory, and compares every record. The source\n"
      "is only read. Killed or stopped at any point, the same command goes on where it was.");
  arguments.Positional("SRC", &options.source, "the database's directory; no other process may have it open");
  arguments.Positional("DST", &options.destination, "the new directory");
  arguments.Choice("to", &options.engine, EngineNames(), "the engine of DST");
  arguments.Texts("option", &options.engine_options, "TEXT", "options of the engine, \"fan_out=8;slots=12\"");
  arguments.Texts("column-family", &options.column_families, "NAME",
                  "converts this column family and copies the others as they are; without: all");
  arguments.Switch("compact", &options.compact, "merges until each key lies in one table, before it compares");
  arguments.Switch("check-space", &options.check_space, "refuses to begin when DST's file system seems too small");
  arguments.Bytes("reserve", &options.reserve_bytes, "bytes of DST's file system to leave free");
  if (!arguments.Parse(argc, argv)) return arguments.exit_code();
  if (options.engine.empty()) return arguments.UsageError("--to is missing");

  options.stop = CatchStopSignals();
  signal(SIGXFSZ, SIG_IGN);  // a write beyond `ulimit -f` fails, and is told, instead of ending the program
  ConvertReport report;
  const rocksdb::Status s = Convert(options, &report);
  for (const std::string& note : report.notes) std::fprintf(stderr, "Note: %s.\n", note.c_str());
  if (!s.ok()) {
    return Fail("convert", s);
  }
  std::printf("%s is whole%s: %llu records in %llu column families, each compared; %s from %s.\n",
              options.destination.c_str(), report.was_whole_before ? ", nothing to do" : "",
              static_cast<unsigned long long>(report.records), static_cast<unsigned long long>(report.column_families),
              ShortBytes(static_cast<double>(report.destination_bytes)).c_str(),
              ShortBytes(static_cast<double>(report.source_bytes)).c_str());
  return kExitOk;
}

const CommandRegistration kConvert("convert", "Copies a database into another engine and compares every record",
                                   RunConvert);

}  // namespace
}  // namespace cairn
