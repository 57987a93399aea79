#include "tools/progress.h"

#include <unistd.h>

#include <algorithm>
#include <cmath>

namespace cairn {
namespace {

constexpr std::chrono::milliseconds kTerminalInterval(200);
constexpr std::chrono::seconds kLogInterval(10);
constexpr int kBarWidth = 24;

std::string Scaled(double value, double base, const char* const* units, int unit_count) {
  int unit = 0;
  while (value >= base && unit + 1 < unit_count) {
    value /= base;
    unit++;
  }
  char text[48];
  const int digits = unit == 0 || value >= 100 ? 0 : value >= 10 ? 1 : 2;
  std::snprintf(text, sizeof(text), "%.*f%s", digits, value, units[unit]);
  return text;
}

}  // namespace

std::string ShortCount(double count) {
  static const char* const kUnits[] = {"", " K", " M", " G"};
  return Scaled(count, 1000, kUnits, 4);
}

std::string ShortBytes(double bytes) {
  static const char* const kUnits[] = {" B", " KiB", " MiB", " GiB", " TiB"};
  return Scaled(bytes, 1024, kUnits, 5);
}

std::string ShortTime(double seconds) {
  const auto whole = static_cast<uint64_t>(std::llround(std::min(seconds, 1e12)));
  if (whole < 60) return std::to_string(whole) + " s";
  if (whole < 3600) return std::to_string(whole / 60) + " min " + std::to_string(whole % 60) + " s";
  return std::to_string(whole / 3600) + " h " + std::to_string(whole % 3600 / 60) + " min";
}

Progress::Progress(const std::string& title, const std::string& unit, uint64_t expected, uint64_t done_before,
                   FILE* out, Elsewhere elsewhere)
    : title_(title),
      unit_(unit),
      expected_(expected),
      done_before_(done_before),
      out_(out),
      on_terminal_(isatty(fileno(out)) != 0),
      shown_(on_terminal_ || elsewhere == Elsewhere::kLines),
      begin_(Clock::now()),
      drawn_(on_terminal_ ? begin_ - kTerminalInterval : begin_),
      done_(done_before) {}

Progress::~Progress() { Finish(); }

std::string Progress::Line(uint64_t done, double seconds, const std::string& note) const {
  std::string line = title_;
  const double rate = seconds > 0 && done > done_before_ ? static_cast<double>(done - done_before_) / seconds : 0;
  if (expected_ > 0) {
    const double share = std::min(1.0, static_cast<double>(done) / static_cast<double>(expected_));
    const int filled = static_cast<int>(share * kBarWidth);
    line += " [" + std::string(filled, '#') + std::string(kBarWidth - filled, '.') + "] ";
    line += std::to_string(static_cast<int>(share * 100)) + " %";
  }
  if (unit_.empty()) return note.empty() ? line : line + "  " + note;
  line += "  " + ShortCount(static_cast<double>(done)) + " " + unit_;
  if (rate > 0) {
    line += ", " + ShortCount(rate) + "/s";
    if (expected_ > done) line += ", " + ShortTime(static_cast<double>(expected_ - done) / rate) + " left";
  }
  if (!note.empty()) line += ", " + note;
  return line;
}

void Progress::Draw() {
  drawn_ = Clock::now();
  redraw_ = false;
  const std::string line = Line(done_, std::chrono::duration<double>(drawn_ - begin_).count(), note_);
  if (on_terminal_) {
    const size_t blanks = width_ > line.size() ? width_ - line.size() : 0;
    std::fprintf(out_, "\r%s%*s", line.c_str(), static_cast<int>(blanks), "");
    width_ = line.size();
  } else {
    std::fprintf(out_, "%s\n", line.c_str());
  }
  std::fflush(out_);
}

void Progress::Update(uint64_t done, const std::string& note) {
  if (!shown_) return;
  done_ = done;
  note_ = note;
  redraw_ = true;
  const Clock::duration interval = on_terminal_ ? Clock::duration(kTerminalInterval) : Clock::duration(kLogInterval);
  if (!finished_ && Clock::now() - drawn_ >= interval) Draw();
}

void Progress::Finish() {
  if (finished_) return;
  finished_ = true;
  if (redraw_) Draw();
  if (on_terminal_ && width_ > 0) std::fprintf(out_, "\n");
}

}  // namespace cairn
