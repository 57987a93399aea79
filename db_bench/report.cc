#include "db_bench/report.h"

#include <algorithm>
#include <cerrno>
#include <cmath>
#include <cstdio>
#include <cstring>

namespace cairn::bench {

namespace {

// Columns that a terminal takes: UTF-8 continuation bytes take none.
size_t Width(const std::string& text) {
  return static_cast<size_t>(
      std::count_if(text.begin(), text.end(), [](char c) { return (static_cast<unsigned char>(c) & 0xc0) != 0x80; }));
}

}  // namespace

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
  const std::string text = ShortCount(bytes);
  return text + (text.find(' ') == std::string::npos ? " B" : "B");
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

}  // namespace cairn::bench
