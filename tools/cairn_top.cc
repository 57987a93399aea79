// cairn top: what a database does, in a terminal, from its files.

#include <sys/ioctl.h>
#include <unistd.h>

#include <cstdio>
#include <ctime>

#include "tools/arguments.h"
#include "tools/commands.h"
#include "tools/status/reader.h"
#include "tools/top_text.h"
#include "util/rocksdb_names.h"

namespace cairn {
namespace {

constexpr size_t kPlainWidth = 200;

struct Terminal {
  bool is_one = isatty(STDOUT_FILENO) == 1;
  size_t width = kPlainWidth;
  size_t height = SIZE_MAX;

  void Measure() {
    struct winsize size = {};
    if (!is_one || ioctl(STDOUT_FILENO, TIOCGWINSZ, &size) != 0 || size.ws_col == 0) return;
    // A line that ends in the last column would lose its last character to the erasing of the rest.
    width = static_cast<size_t>(size.ws_col) - 1;
    height = size.ws_row;
  }
};

void Print(const std::vector<std::string>& lines, Terminal* terminal) {
  terminal->Measure();
  std::string text = terminal->is_one ? "\033[H" : "";
  size_t shown = 0;
  for (const std::string& line : lines) {
    // The last line of a terminal stays empty: a line feed there would scroll.
    if (++shown >= terminal->height) break;
    text += line.substr(0, terminal->width) + (terminal->is_one ? "\033[K\n" : "\n");
  }
  if (terminal->is_one) text += "\033[J";
  std::fputs(text.c_str(), stdout);
  std::fflush(stdout);
}

int RunTop(int argc, char** argv) {
  std::string path;
  double every = 2;
  uint64_t rounds = 0;
  Arguments arguments(
      "top",
      "Shows in a terminal what `cairn serve` shows in a browser, again and again; where stdout is no\n"
      "terminal, once. Reads MANIFEST, OPTIONS, LOG and tables only: it takes no lock and writes nothing.");
  arguments.Positional("DB", &path, "the database's directory");
  arguments.Seconds("every", &every, "time between two looks");
  arguments.Count("count", &rounds, "looks; 0: until Ctrl-C, or 1 where stdout is no terminal");
  if (!arguments.Parse(argc, argv)) return arguments.exit_code();
  if (!(every >= 0.1 && every <= 3600)) return arguments.UsageError("--every must be from 0.1 to 3600 s");

  Terminal terminal;
  if (rounds == 0 && !terminal.is_one) rounds = 1;
  std::unique_ptr<StatusReader> reader;
  Status s = OpenFilesReader(path, &reader);
  if (!s.ok()) return Fail("top", s);
  const sigset_t stop = BlockStopSignals();
  timespec pause = {};
  pause.tv_sec = static_cast<time_t>(every);
  pause.tv_nsec = static_cast<long>((every - static_cast<double>(pause.tv_sec)) * 1e9);
  History history(every);
  if (terminal.is_one) std::fputs("\033[2J", stdout);
  for (uint64_t round = 1;; ++round) {
    StatusSnapshot snapshot;
    s = reader->Read(&snapshot);
    if (!s.ok()) return Fail("top", s);
    for (const StatusSample& sample : reader->TakePast()) history.Add(sample);
    history.Add(SampleOf(snapshot));
    Print(StatusToLines(snapshot, history, terminal.width == 0 ? kPlainWidth : terminal.width), &terminal);
    if (round == rounds || sigtimedwait(&stop, nullptr, &pause) > 0) return kExitOk;
  }
}

const CommandRegistration kTop("top", "Shows in a terminal what a database does", RunTop);

}  // namespace
}  // namespace cairn
