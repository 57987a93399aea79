#include "test/testutil/metrics_check.h"

#include <cstdlib>
#include <regex>
#include <set>
#include <sstream>

namespace cairn {
namespace {

bool EndsWith(const std::string& text, const std::string& end) {
  return text.size() >= end.size() && text.compare(text.size() - end.size(), end.size(), end) == 0;
}

// The metric that a sample of this name belongs to.
std::string MetricOf(const std::string& sample, const std::map<std::string, std::string>& types) {
  for (const char* suffix : {"_sum", "_count", "_bucket"}) {
    if (!EndsWith(sample, suffix)) continue;
    const std::string metric = sample.substr(0, sample.size() - std::string(suffix).size());
    const auto type = types.find(metric);
    if (type != types.end() && (type->second == "summary" || type->second == "histogram")) return metric;
  }
  return sample;
}

std::string CheckName(const std::string& name, const std::string& type) {
  static const std::regex kName("[a-zA-Z_:][a-zA-Z0-9_:]*");
  if (!std::regex_match(name, kName)) return "the name " + name;
  if (EndsWith(name, "_total") != (type == "counter")) return name + " is a " + type;
  for (const char* unit : {"micros", "nanos", "millis", "milliseconds", "_kb", "_mb", "percent"}) {
    if (name.find(unit) != std::string::npos && EndsWith(name, unit)) return name + " is not in a base unit";
  }
  return "";
}

}  // namespace

std::string CheckMetrics(const std::string& text, std::map<std::string, double>* samples) {
  static const std::regex kHelp("# HELP ([^ ]+) (.+)");
  static const std::regex kType("# TYPE ([^ ]+) (counter|gauge|summary|histogram|untyped)");
  static const std::regex kSample(
      R"re(([^ {]+)(\{[a-zA-Z_]\w*="(?:[^"\\\n]|\\[\\"n])*"(?:,[a-zA-Z_]\w*="(?:[^"\\\n]|\\[\\"n])*")*\})? ([^ ]+))re");
  std::map<std::string, std::string> types;
  std::set<std::string> helped, finished;
  std::string current;
  std::istringstream lines(text);
  std::string line;
  for (int number = 1; std::getline(lines, line); ++number) {
    const std::string place = "line " + std::to_string(number) + ": ";
    std::smatch match;
    if (std::regex_match(line, match, kHelp)) {
      if (!helped.insert(match[1]).second) return place + "a second HELP of " + match[1].str();
    } else if (std::regex_match(line, match, kType)) {
      if (helped.count(match[1]) == 0) return place + "TYPE without HELP";
      if (!types.emplace(match[1], match[2]).second) return place + "a second TYPE of " + match[1].str();
      const std::string fault = CheckName(match[1], match[2]);
      if (!fault.empty()) return place + fault;
    } else if (std::regex_match(line, match, kSample)) {
      const std::string metric = MetricOf(match[1], types);
      if (types.count(metric) == 0) return place + "no TYPE before a sample of " + metric;
      if (metric != current && !finished.insert(metric).second) return place + metric + " stands in two places";
      current = metric;
      const std::string value = match[3];
      char* end = nullptr;
      const double parsed = strtod(value.c_str(), &end);
      if (end != value.c_str() + value.size()) return place + "the value " + value;
      if (!samples->emplace(match[1].str() + match[2].str(), parsed).second) return place + "a second sample: " + line;
    } else {
      return place + "neither comment nor sample: " + line;
    }
  }
  if (text.empty() || text.back() != '\n') return "the last line has no end";
  return "";
}

}  // namespace cairn
