// What the benchmark programs show and write: a progress bar, an aligned table, and JSON.
//
// Thread-safety: none of these may be shared by threads.

#pragma once

#include <chrono>
#include <cstdint>
#include <string>
#include <vector>

#include "rocksdb/status.h"

namespace cairn {
namespace bench {

// A line on a terminal that says how far a long step has come and when it will be done. Nothing when `out` is no
// terminal: a log wants the step's result only.
class ProgressBar {
 public:
  ProgressBar(const std::string& step, uint64_t total, int fd = 2);
  ~ProgressBar();  // wipes the line
  ProgressBar(const ProgressBar&) = delete;
  ProgressBar& operator=(const ProgressBar&) = delete;

  // Cheap: looks at the clock every 4096th call, redraws every 100 ms.
  void Update(uint64_t done) {
    if (enabled_ && (++calls_ & 4095) == 0) {
      Redraw(done);
    }
  }

  // What Update shows after `seconds`.
  static std::string Line(const std::string& step, uint64_t done, uint64_t total, double seconds);

 private:
  void Redraw(uint64_t done);

  std::string step_;
  uint64_t total_;
  int fd_;
  bool enabled_;
  uint64_t calls_ = 0;
  std::chrono::steady_clock::time_point start_;
  std::chrono::steady_clock::time_point drawn_;
};

// Rows of cells, padded so that columns line up: the first to the left, the others to the right.
std::string AlignTable(const std::vector<std::vector<std::string>>& rows);

std::string HumanBytes(double bytes);    // "12.3 MB", powers of 1000
std::string HumanNumber(double number);  // "12.3 K"
std::string Fixed(double value, int digits);

// Writes an object, key by key; objects and arrays may nest. The caller closes what it opens.
class JsonWriter {
 public:
  JsonWriter& BeginObject(const std::string& key = "");
  JsonWriter& EndObject();
  JsonWriter& BeginArray(const std::string& key);
  JsonWriter& EndArray();
  JsonWriter& Add(const std::string& key, const std::string& value);
  JsonWriter& Add(const std::string& key, const char* value) { return Add(key, std::string(value)); }
  JsonWriter& Add(const std::string& key, uint64_t value);
  JsonWriter& Add(const std::string& key, int value) { return Add(key, static_cast<double>(value)); }
  JsonWriter& Add(const std::string& key, double value);  // null when not finite
  JsonWriter& AddElement(double value);

  const std::string& text() const { return text_; }

 private:
  void Key(const std::string& key);

  std::string text_;
  bool first_ = true;
  int depth_ = 0;
};

// Replaces the file. "-" is standard output.
rocksdb::Status WriteTextFile(const std::string& path, const std::string& text);

}  // namespace bench
}  // namespace cairn
