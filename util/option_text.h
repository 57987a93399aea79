// How the options of Cairn's objects become text in OPTIONS files and in what DB::GetOptions is turned into: no option
// that has its default, and no character that one of RocksDB's parsers does not take. The C++ one gives a meaning to
// ";={}", the Java one takes letters, digits and "_-+.[]" in values, and ":" between them.
//
// Stateless; thread-safe.

#pragma once

#include <set>
#include <string>
#include <unordered_map>

#include "rocksdb/convenience.h"
#include "rocksdb/customizable.h"
#include "rocksdb/utilities/options_type.h"

namespace cairn {

using OptionTypes = std::unordered_map<std::string, rocksdb::OptionTypeInfo>;

// `types` of the struct that `defaults` is one of, which must live for ever: an option that is as in `defaults` has no
// text, unless it is in `always`, because files on disk depend on it and a default may change. What is no number is
// refused for one, as CheckNumbers does. Options that are objects are left to those.
OptionTypes WithoutDefaults(const OptionTypes& types, const void* defaults, const std::set<std::string>& always = {});

// A std::string that may hold anything, a path for example. In text, "[2F]" is the character of that number, for all
// that a parser might not take; text without such is taken as it is.
rocksdb::OptionTypeInfo AnyTextOption(int offset);

// Of an option of a factory whose option "table" is the factory `inner`: what it does not know itself is that one's, so
// that "table_factory.block_size" reaches the block-based table within, as it does where there is no other around it.
std::string NameWithin(const rocksdb::Configurable& outer, const rocksdb::Customizable& inner, const std::string& name);

// RocksDB's parser takes what stands before anything that belongs to no number for the number, 5 of "5e7" where it is
// to be whole, and 8 of "8abc"; and what is left of a number that has no room, 2^64 - 1 of "-1" and 1G of
// "17179869185G". Names the option that this has happened to. `options` is what `text` was parsed into.
rocksdb::Status CheckNumbers(const std::string& text, const OptionTypes& types, const void* options);

// The same of RocksDB's own options: `printed` is the option string that RocksDB prints of what `text` was parsed into.
// Of what it does not print, a cache for example, only the text can be looked at.
rocksdb::Status CheckNumbersAsPrinted(const std::string& text, const std::string& printed);

// Sets those of *options that the option string names; `what` names them to people. On failure they are as before.
template <class Options>
rocksdb::Status ParseOptions(const std::string& text, const OptionTypes& types, const char* what,
                             rocksdb::Status (*validate)(const Options&), Options* options) {
  Options parsed = *options;
  rocksdb::ConfigOptions config;
  config.ignore_unknown_options = false;
  rocksdb::Status s = rocksdb::OptionTypeInfo::ParseType(config, text, types, &parsed);
  if (s.ok()) s = CheckNumbers(text, types, &parsed);
  if (!s.ok()) return rocksdb::Status::InvalidArgument(std::string(what) + " \"" + text + "\"", s.ToString());
  if (validate != nullptr) s = validate(parsed);
  if (s.ok()) *options = parsed;
  return s;
}

// What ParseOptions reads.
std::string PrintOptions(const void* options, const OptionTypes& types);

// Whether all of it is a finite number.
bool IsNumber(const std::string& text);

std::string EncodeOptionText(const std::string& value);
std::string DecodeOptionText(const std::string& text);

}  // namespace cairn
