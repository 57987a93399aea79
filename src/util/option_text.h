// How the options of Cairn's objects become text in OPTIONS files and in what DB::GetOptions is turned into: no option
// that has its default, and no character that one of RocksDB's parsers does not take. The C++ one gives a meaning to
// ";={}", the Java one takes letters, digits and "_-+.[]" in values, and ":" between them.
//
// Stateless; thread-safe.

#pragma once

#include <set>
#include <string>
#include <unordered_map>

#include "rocksdb/utilities/options_type.h"

namespace cairn {

using OptionTypes = std::unordered_map<std::string, rocksdb::OptionTypeInfo>;

// `types` of the struct that `defaults` is one of, which must live for ever: an option that is as in `defaults` has no
// text, unless it is in `always`, because files on disk depend on it and a default may change. Options that are
// objects are left to those.
OptionTypes WithoutDefaults(const OptionTypes& types, const void* defaults, const std::set<std::string>& always = {});

// A std::string that may hold anything, a path for example. In text, "[2F]" is the character of that number, for all
// that a parser might not take; text without such is taken as it is.
rocksdb::OptionTypeInfo AnyTextOption(int offset);

std::string EncodeOptionText(const std::string& value);
std::string DecodeOptionText(const std::string& text);

}  // namespace cairn
