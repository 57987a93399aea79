#include "db_bench/report.h"

#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cmath>
#include <cstdio>
#include <cstring>

namespace cairn {
namespace bench {

namespace {

constexpr int kBarWidth = 24;

std::string Scaled(double value, const char* const* units, int count) {
  int unit = 0;
  while (std::fabs(value) >= 999.5 && unit + 1 < count) {
    value /= 1000;
    unit++;
  }
  char text[64];
  snprintf(text, sizeof(text), unit == 0 ? "%.0f%s" : (std::fabs(value) < 99.95 ? "%.1f%s" : "%.0f%s"), value,
           units[unit]);
  return text;
}

// Columns that a terminal takes: UTF-8 continuation bytes take none.
size_t Width(const std::string& text) {
  return static_cast<size_t>(
      std::count_if(text.begin(), text.end(), [](char c) { return (static_cast<unsigned char>(c) & 0xc0) != 0x80; }));
}

}  // namespace

ProgressBar::ProgressBar(const std::string& step, uint64_t total, int fd)
    : step_(step),
      total_(total),
      fd_(fd),
      enabled_(isatty(fd) != 0),
      start_(std::chrono::steady_clock::now()),
      drawn_(start_) {}

ProgressBar::~ProgressBar() {
  if (enabled_) {
    dprintf(fd_, "\r\033[K");
  }
}

std::string ProgressBar::Line(const std::string& step, uint64_t done, uint64_t total, double seconds) {
  double share = total == 0 ? 1 : std::min(1.0, static_cast<double>(done) / static_cast<double>(total));
  int filled = static_cast<int>(share * kBarWidth);
  std::string line = step + " [" + std::string(filled, '#') + std::string(kBarWidth - filled, '.') + "] ";
  line += std::to_string(static_cast<int>(share * 100)) + " %";
  if (share > 0 && seconds > 0) {
    line += ", " + HumanNumber(static_cast<double>(done) / seconds) + "/s, " +
            std::to_string(static_cast<int64_t>(std::ceil(seconds / share - seconds))) + " s left";
  }
  return line;
}

void ProgressBar::Redraw(uint64_t done) {
  auto now = std::chrono::steady_clock::now();
  if (now - drawn_ < std::chrono::milliseconds(100)) {
    return;
  }
  drawn_ = now;
  dprintf(fd_, "\r%s\033[K", Line(step_, done, total_, std::chrono::duration<double>(now - start_).count()).c_str());
}

std::string AlignTable(const std::vector<std::vector<std::string>>& rows) {
  std::vector<size_t> widths;
  for (const auto& row : rows) {
    widths.resize(std::max(widths.size(), row.size()));
    for (size_t i = 0; i < row.size(); i++) {
      widths[i] = std::max(widths[i], Width(row[i]));
    }
  }
  std::string text;
  for (const auto& row : rows) {
    std::string line;
    for (size_t i = 0; i < row.size(); i++) {
      std::string padding(widths[i] - Width(row[i]), ' ');
      line += i == 0 ? row[i] + padding : "  " + padding + row[i];
    }
    line.erase(line.find_last_not_of(' ') + 1);
    text += line + "\n";
  }
  return text;
}

std::string HumanBytes(double bytes) {
  static const char* const kUnits[] = {" B", " KB", " MB", " GB", " TB"};
  return Scaled(bytes, kUnits, 5);
}

std::string HumanNumber(double number) {
  static const char* const kUnits[] = {"", " K", " M", " G"};
  return Scaled(number, kUnits, 4);
}

std::string Fixed(double value, int digits) {
  char text[64];
  snprintf(text, sizeof(text), "%.*f", digits, value);
  return text;
}

namespace {
std::string Quote(const std::string& value) {
  std::string text = "\"";
  for (char c : value) {
    if (c == '"' || c == '\\') {
      text += '\\';
      text += c;
    } else if (static_cast<unsigned char>(c) < 0x20) {
      char escape[8];
      snprintf(escape, sizeof(escape), "\\u%04x", c);
      text += escape;
    } else {
      text += c;
    }
  }
  return text + "\"";
}

std::string Number(double value) {
  if (!std::isfinite(value)) {
    return "null";
  }
  char text[64];
  snprintf(text, sizeof(text), "%.6g", value);
  return text;
}
}  // namespace

void JsonWriter::Key(const std::string& key) {
  if (depth_ > 0) {
    text_ += first_ ? "\n" : ",\n";
    text_ += std::string(2 * depth_, ' ');
  }
  first_ = false;
  if (!key.empty()) {
    text_ += Quote(key) + ": ";
  }
}

JsonWriter& JsonWriter::BeginObject(const std::string& key) {
  Key(key);
  text_ += "{";
  depth_++;
  first_ = true;
  return *this;
}

JsonWriter& JsonWriter::EndObject() {
  depth_--;
  if (!first_) {
    text_ += "\n" + std::string(2 * depth_, ' ');
  }
  text_ += depth_ == 0 ? "}\n" : "}";
  first_ = false;
  return *this;
}

JsonWriter& JsonWriter::BeginArray(const std::string& key) {
  Key(key);
  text_ += "[";
  depth_++;
  first_ = true;
  return *this;
}

JsonWriter& JsonWriter::EndArray() {
  depth_--;
  if (!first_) {
    text_ += "\n" + std::string(2 * depth_, ' ');
  }
  text_ += "]";
  first_ = false;
  return *this;
}

JsonWriter& JsonWriter::Add(const std::string& key, const std::string& value) {
  Key(key);
  text_ += Quote(value);
  return *this;
}

JsonWriter& JsonWriter::Add(const std::string& key, uint64_t value) {
  Key(key);
  text_ += std::to_string(value);
  return *this;
}

JsonWriter& JsonWriter::Add(const std::string& key, double value) {
  Key(key);
  text_ += Number(value);
  return *this;
}

JsonWriter& JsonWriter::AddElement(double value) {
  Key("");
  text_ += Number(value);
  return *this;
}

rocksdb::Status WriteTextFile(const std::string& path, const std::string& text) {
  if (path == "-") {
    fputs(text.c_str(), stdout);
    return rocksdb::Status::OK();
  }
  FILE* file = fopen(path.c_str(), "w");
  bool written = file != nullptr && fwrite(text.data(), 1, text.size(), file) == text.size();
  int error = errno;
  if (file != nullptr && fclose(file) != 0) {
    written = false;
    error = errno;
  }
  return written ? rocksdb::Status::OK() : rocksdb::Status::IOError("cannot write " + path, strerror(error));
}

}  // namespace bench
}  // namespace cairn
