#include "db_bench/report.h"

#include <algorithm>
#include <cerrno>
#include <cmath>
#include <cstdio>
#include <cstring>
#include <utility>

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
nlohmann::ordered_json Number(double value) {
  if (!std::isfinite(value)) return nullptr;
  char text[64];
  snprintf(text, sizeof(text), "%.6g", value);
  return nlohmann::ordered_json::parse(text);
}
}  // namespace

JsonWriter& JsonWriter::Begin(const std::string& key, nlohmann::ordered_json value) {
  nlohmann::ordered_json& at = open_.empty() ? root_ : (*open_.back())[key];
  at = std::move(value);
  open_.push_back(&at);
  return *this;
}

JsonWriter& JsonWriter::End() {
  open_.pop_back();
  return *this;
}

JsonWriter& JsonWriter::Add(const std::string& key, double value) {
  (*open_.back())[key] = Number(value);
  return *this;
}

JsonWriter& JsonWriter::AddElement(double value) {
  open_.back()->push_back(Number(value));
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
