#include "tools/arguments.h"

#include <algorithm>
#include <charconv>
#include <cmath>
#include <cstdio>
#include <cstdlib>
#include <utility>

#include "tools/commands.h"

namespace cairn {
namespace {

std::string WithDashes(std::string name) {
  std::replace(name.begin(), name.end(), '_', '-');
  return name;
}

struct Suffix {
  const char* text;
  double factor;
};

constexpr double kKi = 1024.0;
constexpr Suffix kCountSuffixes[] = {{"K", 1e3}, {"k", 1e3}, {"M", 1e6}, {"G", 1e9}, {"T", 1e12}};
constexpr Suffix kByteSuffixes[] = {
    {"KiB", kKi},
    {"MiB", kKi* kKi},
    {"GiB", kKi* kKi* kKi},
    {"TiB", kKi* kKi* kKi* kKi},
    {"KB", 1e3},
    {"MB", 1e6},
    {"GB", 1e9},
    {"TB", 1e12},
    {"K", kKi},
    {"M", kKi* kKi},
    {"G", kKi* kKi* kKi},
    {"T", kKi* kKi* kKi* kKi},
    {"B", 1.0},
};
constexpr Suffix kSecondSuffixes[] = {{"us", 1e-6}, {"ms", 1e-3}, {"s", 1}, {"m", 60}, {"h", 3600}};

// Takes the longest matching suffix off *text; the first match wins, so longer ones stand first in the tables.
template <size_t kN>
double TakeSuffix(const Suffix (&suffixes)[kN], std::string* text) {
  for (const Suffix& suffix : suffixes) {
    const std::string tail = suffix.text;
    if (text->size() > tail.size() && text->compare(text->size() - tail.size(), tail.size(), tail) == 0) {
      text->resize(text->size() - tail.size());
      return suffix.factor;
    }
  }
  return 1;
}

bool ParseScaled(std::string text, double factor, uint64_t* value) {
  uint64_t whole = 0;
  const char* end = text.data() + text.size();
  auto [stop, error] = std::from_chars(text.data(), end, whole);
  if (error == std::errc() && stop == end) {
    const auto scale = static_cast<uint64_t>(factor);
    if (whole > std::numeric_limits<uint64_t>::max() / scale) return false;
    *value = whole * scale;
    return true;
  }
  // "1.5G": exact enough, and what is not whole in the end ("1.5" items) is no count.
  double number = 0;
  if (!ParseNumber(text, &number)) return false;
  number *= factor;
  if (number < 0 || number != std::floor(number) || number >= 18446744073709551616.0) return false;
  *value = static_cast<uint64_t>(number);
  return true;
}

std::string WholeText(uint64_t value) { return std::to_string(value); }
std::string IntegerText(int value) { return std::to_string(value); }

std::string NumberText(double value) {
  char buffer[40];
  std::snprintf(buffer, sizeof(buffer), "%.10g", value);
  return buffer;
}

std::string SecondsText(double value) { return NumberText(value) + "s"; }

std::string ExactBytesText(uint64_t value) {
  const std::pair<uint64_t, const char*> units[] = {
      {1ull << 40, "TiB"}, {1ull << 30, "GiB"}, {1 << 20, "MiB"}, {1 << 10, "KiB"}};
  for (const auto& [unit, name] : units) {
    if (value >= unit && value % unit == 0) return std::to_string(value / unit) + name;
  }
  return std::to_string(value) + "B";
}

bool ParseInteger(const std::string& text, int* value) {
  const char* const end = text.data() + text.size();
  const auto [stop, error] = std::from_chars(text.data(), end, *value);
  return error == std::errc() && stop == end;
}

// The help text's right column: what is longer continues on the next line.
std::string Wrapped(const std::string& text, size_t indent) {
  constexpr size_t kLineWidth = 100;
  std::string result;
  size_t column = indent;
  size_t start = 0;
  while (start < text.size()) {
    size_t stop = text.find(' ', start);
    if (stop == std::string::npos) stop = text.size();
    if (column > indent && column + 1 + (stop - start) > kLineWidth) {
      result += "\n" + std::string(indent, ' ');
      column = indent;
    } else if (column > indent) {
      result += ' ';
      column++;
    }
    result.append(text, start, stop - start);
    column += stop - start;
    start = stop + 1;
  }
  return result;
}

}  // namespace

bool ParseNumber(const std::string& text, double* value) {
  // strtod skips white space and reads hexadecimal, infinity and NaN; none of them is meant by a flag.
  if (text.empty() || text.find_first_not_of("0123456789+-.eE") != std::string::npos) return false;
  char* end = nullptr;
  const double number = std::strtod(text.c_str(), &end);
  if (*end != '\0' || !std::isfinite(number)) return false;
  *value = number;
  return true;
}

bool ParseCount(const std::string& text, uint64_t* value) {
  std::string number = text;
  const double factor = TakeSuffix(kCountSuffixes, &number);
  return ParseScaled(std::move(number), factor, value);
}

bool ParseBytes(const std::string& text, uint64_t* value) {
  std::string number = text;
  const double factor = TakeSuffix(kByteSuffixes, &number);
  return ParseScaled(std::move(number), factor, value);
}

bool ParseSeconds(const std::string& text, double* value) {
  std::string number = text;
  const double factor = TakeSuffix(kSecondSuffixes, &number);
  double seconds = 0;
  if (!ParseNumber(number, &seconds) || seconds < 0 || !std::isfinite(seconds * factor)) return false;
  *value = seconds * factor;
  return true;
}

Arguments::Arguments(const std::string& command, const std::string& description)
    : command_(command), description_(description) {}

void Arguments::Positional(const std::string& name, std::string* value, const std::string& help) {
  places_.push_back(Place{name, help, value});
}

Arguments::Flag* Arguments::Add(const std::string& name, const std::string& placeholder, const std::string& help) {
  Flag flag;
  flag.name = WithDashes(name);
  flag.placeholder = placeholder;
  flag.help = help;
  flags_.push_back(std::move(flag));
  return &flags_.back();
}

Arguments::Flag* Arguments::Find(const std::string& name) {
  const std::string wanted = WithDashes(name);
  for (Flag& flag : flags_) {
    if (flag.name == wanted) return &flag;
  }
  return nullptr;
}

void Arguments::Text(const std::string& name, std::string* value, const std::string& placeholder,
                     const std::string& help) {
  Flag* flag = Add(name, placeholder, help);
  flag->default_text = *value;
  flag->store = [value](const std::string& text) {
    *value = text;
    return std::string();
  };
}

void Arguments::Texts(const std::string& name, std::vector<std::string>* values, const std::string& placeholder,
                      const std::string& help) {
  Flag* flag = Add(name, placeholder, help);
  flag->repeats = true;
  flag->store = [values](const std::string& text) {
    values->push_back(text);
    return std::string();
  };
}

void Arguments::Choice(const std::string& name, std::string* value, const std::vector<std::string>& choices,
                       const std::string& help) {
  std::string list;
  for (const std::string& choice : choices) list += (list.empty() ? "" : "|") + choice;
  Flag* flag = Add(name, list, help);
  flag->default_text = *value;
  flag->store = [value, choices, list](const std::string& text) {
    if (std::find(choices.begin(), choices.end(), text) == choices.end()) return "one of " + list;
    *value = text;
    return std::string();
  };
}

void Arguments::Switch(const std::string& name, bool* value, const std::string& help) {
  Flag* flag = Add(name, "", help);
  flag->is_switch = true;
  if (*value) flag->default_text = "true";
  flag->store = [value](const std::string& text) {
    if (text != "true" && text != "false") return std::string("true or false");
    *value = text == "true";
    return std::string();
  };
}

template <typename T>
void Arguments::AddNumber(const std::string& name, T* value, const std::string& help, T low, T high,
                          const NumberKind<T>& kind) {
  Flag* flag = Add(name, kind.placeholder, help);
  flag->default_text = kind.print(*value);
  flag->store = [value, low, high, kind](const std::string& text) {
    T number = 0;
    if (kind.parse(text, &number) && number >= low && number <= high) {
      *value = number;
      return std::string();
    }
    const bool open = high == std::numeric_limits<T>::max();
    return kind.what + (open ? kind.print(low) + " or more" : "from " + kind.print(low) + " to " + kind.print(high)) +
           kind.examples;
  };
}

void Arguments::Count(const std::string& name, uint64_t* value, const std::string& help, uint64_t low, uint64_t high) {
  AddNumber<uint64_t>(name, value, help, low, high, {"N", "a whole number, ", " (10, 20K, 5M)", ParseCount, WholeText});
}

void Arguments::Integer(const std::string& name, int* value, const std::string& help, int low, int high) {
  AddNumber<int>(name, value, help, low, high, {"N", "a whole number, ", "", ParseInteger, IntegerText});
}

void Arguments::Bytes(const std::string& name, uint64_t* value, const std::string& help, uint64_t low, uint64_t high) {
  AddNumber<uint64_t>(name, value, help, low, high,
                      {"BYTES", "bytes, ", " (4096, 64K, 1.5GiB, 2GB)", ParseBytes, ExactBytesText});
}

void Arguments::Number(const std::string& name, double* value, const std::string& help, double low, double high) {
  AddNumber<double>(name, value, help, low, high, {"X", "a number, ", "", ParseNumber, NumberText});
}

void Arguments::Seconds(const std::string& name, double* value, const std::string& help) {
  AddNumber<double>(name, value, help, 0, std::numeric_limits<double>::max(),
                    {"TIME", "a time, ", " (90, 1.5h, 10m, 250ms)", ParseSeconds, SecondsText});
}

bool Arguments::Fail(const std::string& message) {
  error_ = message;
  exit_code_ = UsageError(message);
  return false;
}

int Arguments::UsageError(const std::string& message) const {
  std::fprintf(stderr, "cairn %s: %s (`cairn help %s` explains)\n", command_.c_str(), message.c_str(),
               command_.c_str());
  return kExitUsage;
}

bool Arguments::Given(const std::string& name) const {
  const std::string wanted = WithDashes(name);
  return std::any_of(flags_.begin(), flags_.end(), [&](const Flag& flag) { return flag.given && flag.name == wanted; });
}

bool Arguments::Parse(int argc, char** argv) {
  for (int i = 1; i < argc; i++) {
    const std::string argument = argv[i];
    if (argument == "--") break;
    if (argument == "--help" || argument == "-h") {
      std::fputs(HelpText().c_str(), stdout);
      exit_code_ = kExitOk;
      return false;
    }
  }
  return ParseAll(argc, argv);
}

bool Arguments::ParseAll(int argc, char** argv) {
  bool flags_end = false;
  size_t place = 0;
  for (int i = 1; i < argc; i++) {
    const std::string argument = argv[i];
    if (!flags_end && argument == "--") {
      flags_end = true;
      continue;
    }
    if (flags_end || argument.size() < 2 || argument[0] != '-') {
      if (place == places_.size()) return Fail("\"" + argument + "\" is one argument too many");
      *places_[place++].value = argument;
      continue;
    }
    if (argument.compare(0, 2, "--") != 0) return Fail("there is no flag " + argument + "; flags begin with --");
    const size_t equals = argument.find('=');
    const bool has_value = equals != std::string::npos;
    const std::string name = argument.substr(2, has_value ? equals - 2 : std::string::npos);
    Flag* flag = Find(name);
    if (flag == nullptr) return Fail("there is no flag --" + name);
    if (flag->given && !flag->repeats) return Fail("--" + flag->name + " is given twice");
    flag->given = true;
    std::string value;
    if (has_value) {
      value = argument.substr(equals + 1);
    } else if (flag->is_switch) {
      value = "true";
    } else if (i + 1 < argc) {
      value = argv[++i];
    } else {
      return Fail("--" + flag->name + " needs a value");
    }
    const std::string expected = flag->store(value);
    if (!expected.empty()) return Fail("--" + flag->name + " is \"" + value + "\"; it must be " + expected);
  }
  if (place < places_.size()) {
    return Fail(places_[place].name + " is missing: " + places_[place].help);
  }
  return true;
}

std::string Arguments::HelpText() const {
  std::string usage = "Usage: cairn " + command_;
  std::vector<std::pair<std::string, std::string>> rows;
  for (const Place& place : places_) {
    usage += " " + place.name;
    rows.emplace_back("  " + place.name, place.help);
  }
  if (!flags_.empty()) usage += " [FLAG ...]";
  for (const Flag& flag : flags_) {
    std::string left = "  --" + flag.name;
    if (!flag.is_switch) left += " " + flag.placeholder;
    std::string right = flag.help;
    if (!flag.default_text.empty()) right += " (default: " + flag.default_text + ")";
    if (flag.repeats) right += " (may be repeated)";
    rows.emplace_back(std::move(left), std::move(right));
  }
  rows.emplace_back("  --help", "prints this text");
  size_t width = 0;
  for (const auto& row : rows) width = std::max(width, std::min<size_t>(row.first.size(), 30));
  width += 2;
  std::string text = usage + "\n\n" + description_ + "\n\n";
  for (const auto& [left, right] : rows) {
    text += left;
    text += left.size() + 2 > width ? "\n" + std::string(width, ' ') : std::string(width - left.size(), ' ');
    text += Wrapped(right, width) + "\n";
  }
  return text;
}

}  // namespace cairn
