// Progress of one long step on stderr: a bar that redraws itself on a terminal, a line every ten seconds elsewhere.
//
// Not thread-safe. Costs little to call often: it draws at most five times a second.

#pragma once

#include <chrono>
#include <cstdint>
#include <cstdio>
#include <string>

namespace cairn {

class Progress {
 public:
  // Where there is no terminal. A benchmark's log wants its results alone.
  enum class Elsewhere { kLines, kNothing };

  // `unit` ("records") names what is counted; empty: nothing is, and only notes are shown. `expected` may be an
  // estimate; 0: unknown, then neither share nor time left are shown. `done_before`: what an earlier run did; it counts
  // for the share, not for the rate.
  Progress(const std::string& title, const std::string& unit, uint64_t expected, uint64_t done_before = 0,
           FILE* out = stderr, Elsewhere elsewhere = Elsewhere::kLines);
  ~Progress();  // Finishes

  Progress(const Progress&) = delete;
  Progress& operator=(const Progress&) = delete;

  // `note` is shown behind the numbers.
  void Update(uint64_t done, const std::string& note = std::string());

  // Update at every 4096th call, for steps that are cheaper than reading the clock.
  void Step(uint64_t done) {
    if (shown_ && (++steps_ & 4095) == 0) Update(done);
  }

  // Draws the last state and ends the line.
  void Finish();

  // The line for a state; for tests.
  std::string Line(uint64_t done, double seconds, const std::string& note) const;

 private:
  using Clock = std::chrono::steady_clock;
  void Draw();

  const std::string title_;
  const std::string unit_;
  const uint64_t expected_;
  const uint64_t done_before_;
  FILE* const out_;
  const bool on_terminal_;
  const bool shown_;
  const Clock::time_point begin_;
  Clock::time_point drawn_;
  uint64_t done_;
  uint64_t steps_ = 0;
  std::string note_;
  size_t width_ = 0;  // of the line on the terminal
  bool redraw_ = false;
  bool finished_ = false;
};

// "950", "12.3 K", "4.57 M".
std::string ShortCount(double count);
// "512 B", "1.5 MiB".
std::string ShortBytes(double bytes);
// "8 s", "3 min 20 s", "2 h 5 min".
std::string ShortTime(double seconds);

}  // namespace cairn
