// The flags of programs that developers and CTest run: --name=value, or --name.

#pragma once

#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <functional>
#include <map>
#include <sstream>
#include <string>
#include <vector>

#include "test/support.h"

namespace cairn::test {

// What a flag was given.
class FlagValue {
 public:
  explicit FlagValue(std::string text) : text_(std::move(text)) {}

  const std::string& Text() const { return text_; }
  uint64_t Number() const { return std::strtoull(text_.c_str(), nullptr, 0); }
  double Fraction() const { return std::strtod(text_.c_str(), nullptr); }
  // A number, or "random".
  uint64_t Seed() const { return text_ == "random" ? SeedFromEnvironment() : Number(); }
  // Parts between commas, or between what is given.
  std::vector<std::string> List(char separator = ',') const {
    std::vector<std::string> parts;
    std::istringstream stream(text_);
    for (std::string part; std::getline(stream, part, separator);) parts.push_back(part);
    return parts;
  }

 private:
  std::string text_;
};

using Flags = std::map<std::string, std::function<void(const FlagValue&)>>;

// Hands each argument to its flag. An argument that is none is named on stderr, with the source file that lists them,
// and ends this with false.
inline bool ParseFlags(int argc, char** argv, const char* program, const Flags& flags) {
  for (int i = 1; i < argc; ++i) {
    const std::string argument = argv[i];
    const size_t equals = argument.find('=');
    const std::string name = argument.substr(0, equals);
    const auto found = name.rfind("--", 0) == 0 ? flags.find(name.substr(2)) : flags.end();
    if (found == flags.end()) {
      std::fprintf(stderr, "%s: what is %s? The head of %s.cc lists the flags.\n", program, argv[i], program);
      return false;
    }
    found->second(FlagValue(equals == std::string::npos ? "" : argument.substr(equals + 1)));
  }
  return true;
}

}  // namespace cairn::test
