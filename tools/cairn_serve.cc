// cairn serve: a web page about a database, from its files.

#include <cairn/status.h>

#include <cstdio>

#include "tools/arguments.h"
#include "tools/commands.h"
#include "tools/status/reader.h"
#include "tools/status/service.h"
#include "util/rocksdb_names.h"

namespace cairn {
namespace {

int RunServe(int argc, char** argv) {
  std::string path;
  StatusOptions options;
  options.port = 8910;
  Arguments arguments(
      "serve",
      "Shows a database in a browser: the picture of its tree, what is compacted now, rates and amplification over\n"
      "time, the tuner's reasons; for programs /status.json, for Prometheus /metrics. Reads MANIFEST, OPTIONS, LOG\n"
      "and tables only: it takes no lock and writes nothing, so another process may have the database open. What only\n"
      "that process knows (memory, reads, writes in the memtables) it shows itself: cairn::ServeStatus.");
  arguments.Positional("DB", &path, "the database's directory");
  arguments.Integer("port", &options.port, "where to listen; 0: any port that is free", 0, 65535);
  arguments.Text("listen", &options.listen, "ADDRESS",
                 "the IP address to listen at; 0.0.0.0 shows the page to everybody who reaches this machine");
  arguments.Seconds("every", &options.seconds_between_samples, "time between two points of the curves");
  if (!arguments.Parse(argc, argv)) return arguments.exit_code();

  // Before the server's thread starts, which inherits this: sigwait below gets the signals.
  const sigset_t stop = BlockStopSignals();
  std::unique_ptr<StatusReader> reader;
  std::unique_ptr<StatusServer> server;
  Status s = OpenFilesReader(path, &reader);
  if (s.ok()) s = ServeReader(std::move(reader), options, &server);
  if (!s.ok()) return Fail("serve", s);
  std::printf("%s is shown at %s (Ctrl-C ends it)\n", path.c_str(), server->url().c_str());
  std::fflush(stdout);
  int signal = 0;
  sigwait(&stop, &signal);
  return kExitOk;
}

const CommandRegistration kServe("serve", "Shows a database in a browser and to Prometheus", RunServe);

}  // namespace
}  // namespace cairn
