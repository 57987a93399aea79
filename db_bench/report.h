// What the benchmark programs show and write: progress, an aligned table, and JSON.
//
// Thread-safety: none of these may be shared by threads.

#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "rocksdb/status.h"
#include "tools/progress.h"

namespace cairn::bench {

// How benchmarks show progress: not in logs.
constexpr Progress::Elsewhere kBarOnly = Progress::Elsewhere::kNothing;

// Rows of cells, padded so that columns line up: the first to the left, the others to the right.
std::string AlignTable(const std::vector<std::vector<std::string>>& rows);

std::string HumanBytes(double bytes);  // "12.3 MB", powers of 1000
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

}  // namespace cairn::bench
