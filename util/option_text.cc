#include "util/option_text.h"

#include <cctype>
#include <charconv>
#include <cmath>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <system_error>
#include <unordered_set>

#include "rocksdb/slice.h"

namespace cairn {

using rocksdb::ConfigOptions;
using rocksdb::OptionTypeInfo;
using rocksdb::Status;

bool IsNumber(const std::string& text) {
  char* end = nullptr;
  const double number = strtod(text.c_str(), &end);
  return !text.empty() && *end == '\0' && std::isfinite(number);
}

namespace {

// Of the Java parser's, all but the brackets, which begin and end an escape.
bool IsPlain(char c) {
  return std::isalnum(static_cast<unsigned char>(c)) != 0 || (c != 0 && strchr("_-+.", c) != nullptr);
}

// The character that an escape at `at` stands for. False: there is none.
bool DecodeEscape(const std::string& text, size_t at, char* c) {
  std::string byte;
  if (text.size() - at < 4 || text[at] != '[' || text[at + 3] != ']') return false;
  if (!rocksdb::Slice(text.data() + at + 1, 2).DecodeHex(&byte)) return false;
  *c = byte[0];
  return true;
}

bool IsWholeNumber(const std::string& text) {
  const size_t first = !text.empty() && text[0] == '-' ? 1 : 0;
  return text.size() > first && text.find_first_not_of("0123456789", first) == std::string::npos;
}

// The whole number that `text` says, with K, M, G or T behind it, as it is printed; empty: none of at most 64 bits.
std::string PrintWholeNumber(const std::string& text) {
  const size_t unit = text.empty() ? std::string::npos : std::string("kKmMgGtT").find(text.back());
  const std::string digits = unit == std::string::npos ? text : text.substr(0, text.size() - 1);
  if (!IsWholeNumber(digits)) return "";
  const size_t first = digits[0] == '-' ? 1 : 0;
  const size_t shift = unit == std::string::npos ? 0 : 10 * (unit / 2 + 1);
  uint64_t number = 0;
  const auto [end, error] = std::from_chars(digits.data() + first, digits.data() + digits.size(), number);
  if (error != std::errc() || number > UINT64_MAX >> shift) return "";
  number <<= shift;
  return (first != 0 && number != 0 ? "-" : "") + std::to_string(number);
}

// Of what was parsed into something that prints as `parsed`.
Status CheckNumber(const std::string& name, const std::string& text, const std::string& parsed) {
  if (!IsWholeNumber(parsed)) {
    if (!IsNumber(parsed) || IsNumber(text)) return Status::OK();
    return Status::InvalidArgument("option " + name + " is " + text, "it takes a number, such as 5 or 0.25");
  }
  if (PrintWholeNumber(text) == parsed) return Status::OK();
  return Status::InvalidArgument("option " + name + " is " + text,
                                 "it takes a whole number that it can hold, such as 500 or 50M");
}

}  // namespace

Status CheckNumbers(const std::string& text, const OptionTypes& types, const void* options) {
  std::unordered_map<std::string, std::string> values;
  Status s = rocksdb::StringToMap(text, &values);
  for (const auto& [name, value] : values) {
    const auto type = types.find(name);
    std::string parsed;
    if (type == types.end() || !type->second.Serialize(ConfigOptions(), name, options, &parsed).ok()) continue;
    s = CheckNumber(name, value, parsed);
    if (!s.ok()) return s;
  }
  return s;
}

namespace {

using OptionTexts = std::unordered_map<std::string, std::string>;

// RocksDB takes some options by two names, and prints one.
std::string PrintedName(const std::string& name) {
  if (name == "memtable") return "memtable_factory";
  if (name == "block_based_table_factory" || name == "plain_table_factory") return "table_factory";
  return name;
}

// False: it is not printed. Options of options have names with dots, too: compression_opts.level.
bool FindPrinted(const OptionTexts& printed, const std::string& name, std::string* text) {
  const auto whole = printed.find(PrintedName(name));
  if (whole != printed.end()) {
    *text = whole->second;
    return true;
  }
  const size_t dot = name.find('.');
  const auto outer = dot == std::string::npos ? printed.end() : printed.find(PrintedName(name.substr(0, dot)));
  OptionTexts inner;
  return outer != printed.end() && rocksdb::StringToMap(outer->second, &inner).ok() &&
         FindPrinted(inner, name.substr(dot + 1), text);
}

// Of an option that RocksDB does not print, a cache's capacity for example: what begins as a number is one.
Status CheckUnprinted(const std::string& name, const std::string& text) {
  if (text.empty() || strchr("0123456789-", text[0]) == nullptr) return Status::OK();
  const bool fraction = text.find_first_not_of("0123456789.-") == std::string::npos && IsNumber(text);
  if (fraction || !PrintWholeNumber(text).empty()) return Status::OK();
  return Status::InvalidArgument("option " + name + " is " + text, "it takes a number, such as 500, 50M or 0.25");
}

}  // namespace

Status CheckNumbersAsPrinted(const std::string& text, const std::string& printed) {
  OptionTexts values;
  OptionTexts all;
  Status s = rocksdb::StringToMap(text, &values);
  if (s.ok()) s = rocksdb::StringToMap(printed, &all);
  for (const auto& [name, value] : values) {
    std::string parsed;
    if (!s.ok()) return s;
    const bool is_printed = FindPrinted(all, name, &parsed);
    if (value.find('=') != std::string::npos) {
      // Of some objects the name is all that is printed.
      s = CheckNumbersAsPrinted(value, parsed.find('=') == std::string::npos ? "" : parsed);
    } else {
      s = is_printed ? CheckNumber(name, value, parsed) : CheckUnprinted(name, value);
    }
  }
  return s;
}

std::string PrintOptions(const void* options, const OptionTypes& types) {
  rocksdb::ConfigOptions config;
  config.delimiter = ";";
  std::string text;
  rocksdb::OptionTypeInfo::SerializeType(config, types, options, &text).PermitUncheckedError();
  return text;
}

std::string EncodeOptionText(const std::string& value) {
  std::string text;
  for (const char c : value) {
    if (IsPlain(c)) {
      text += c;
    } else {
      char escape[8];
      std::snprintf(escape, sizeof(escape), "[%02X]", static_cast<unsigned>(static_cast<unsigned char>(c)));
      text += escape;
    }
  }
  return text;
}

std::string DecodeOptionText(const std::string& text) {
  std::string value;
  for (size_t at = 0; at < text.size();) {
    char c = text[at];
    at += DecodeEscape(text, at, &c) ? 4 : 1;
    value += c;
  }
  return value;
}

OptionTypeInfo AnyTextOption(int offset) {
  OptionTypeInfo info(offset, rocksdb::OptionType::kString);
  info.SetParseFunc(
      [](const ConfigOptions& /*config*/, const std::string& /*name*/, const std::string& text, void* at) {
        *static_cast<std::string*>(at) = DecodeOptionText(text);
        return Status::OK();
      });
  info.SetSerializeFunc(
      [](const ConfigOptions& /*config*/, const std::string& /*name*/, const void* at, std::string* text) {
        *text = EncodeOptionText(*static_cast<const std::string*>(at));
        return Status::OK();
      });
  return info;
}

namespace {

// An option that is as in `defaults` has no text.
void LeaveOutDefault(const OptionTypeInfo& info, const void* defaults, ptrdiff_t offset, OptionTypeInfo* sparse) {
  sparse->SetSerializeFunc([info, defaults, offset](const ConfigOptions& config, const std::string& option,
                                                    const void* at, std::string* text) {
    std::string otherwise;
    Status s = info.Serialize(config, option, static_cast<const char*>(at) - offset, text);
    if (s.ok()) s = info.Serialize(config, option, defaults, &otherwise);
    if (s.ok() && *text == otherwise) text->clear();
    return s;
  });
}

void TakeNumbersOnly(const OptionTypeInfo& info, ptrdiff_t offset, OptionTypeInfo* strict) {
  strict->SetParseFunc(
      [info, offset](const ConfigOptions& config, const std::string& option, const std::string& text, void* at) {
        ConfigOptions plain = config;
        plain.input_strings_escaped = false;  // not any more
        void* const options = static_cast<char*>(at) - offset;
        std::string parsed;
        Status s = info.Parse(plain, option, text, options);
        if (s.ok()) s = info.Serialize(plain, option, options, &parsed);
        return s.ok() ? CheckNumber(option, text, parsed) : s;
      });
}

}  // namespace

std::string NameWithin(const rocksdb::Configurable& outer, const rocksdb::Customizable& inner,
                       const std::string& name) {
  std::unordered_set<std::string> own = {OptionTypeInfo::kIdPropName()};
  outer.GetOptionNames(ConfigOptions(), &own).PermitUncheckedError();
  return own.count(name.substr(0, name.find('.'))) > 0 ? name : "table." + inner.GetId() + "." + name;
}

OptionTypes WithoutDefaults(const OptionTypes& types, const void* defaults, const std::set<std::string>& always) {
  OptionTypes result;
  for (const auto& [name, info] : types) {
    OptionTypeInfo made = info;
    if (!info.IsConfigurable()) {
      const auto offset = static_cast<const char*>(info.GetOffset(defaults)) - static_cast<const char*>(defaults);
      if (always.count(name) == 0) LeaveOutDefault(info, defaults, offset, &made);
      std::string number;
      const bool printed = info.Serialize(ConfigOptions(), name, defaults, &number).ok();
      if (printed && IsNumber(number)) TakeNumbersOnly(info, offset, &made);
    }
    result.emplace(name, made);
  }
  return result;
}

}  // namespace cairn
