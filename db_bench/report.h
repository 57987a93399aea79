// What the benchmark programs show and write: progress, an aligned table, and JSON.
//
// Thread-safety: none of these may be shared by threads.

#pragma once

#include <nlohmann/json.hpp>
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
class JsonWriter {  // NOLINT(bugprone-exception-escape)
 public:
  JsonWriter& BeginObject(const std::string& key = "") { return Begin(key, nlohmann::ordered_json::object()); }
  JsonWriter& EndObject() { return End(); }
  JsonWriter& BeginArray(const std::string& key) { return Begin(key, nlohmann::ordered_json::array()); }
  JsonWriter& EndArray() { return End(); }
  template <class Value>
  JsonWriter& Add(const std::string& key, const Value& value) {
    (*open_.back())[key] = value;
    return *this;
  }
  JsonWriter& Add(const std::string& key, double value);  // six digits; null when not finite
  JsonWriter& AddElement(double value);

  std::string text() const { return root_.dump(2) + "\n"; }

 private:
  JsonWriter& Begin(const std::string& key, nlohmann::ordered_json value);
  JsonWriter& End();

  nlohmann::ordered_json root_;
  std::vector<nlohmann::ordered_json*> open_;
};

// Replaces the file. "-" is standard output.
rocksdb::Status WriteTextFile(const std::string& path, const std::string& text);

}  // namespace cairn::bench
