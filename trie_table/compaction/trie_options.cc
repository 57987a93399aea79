#include "trie_table/compaction/trie_options.h"

#include "rocksdb/convenience.h"
#include "table/hash_order/hash_order.h"

namespace cairn {

using rocksdb::OptionType;
using rocksdb::OptionTypeInfo;
using rocksdb::Status;

namespace {

constexpr char kWhat[] = "trie options";

// offsetof is not for structs with a base.
template <class Field>
int OffsetOf(Field TrieOptionText::*field) {
  static const TrieOptionText text;
  return static_cast<int>(reinterpret_cast<const char*>(&(text.*field)) - reinterpret_cast<const char*>(&text));
}

template <class Field>
OptionTypeInfo TypeOf(Field TrieOptionText::*field, OptionType type) {
  return {OffsetOf(field), type};
}

Status Bad(const char* field, const std::string& value, const char* allowed) {
  return Status::InvalidArgument(std::string("trie option ") + field + " is " + value, allowed);
}

Status ValidateShape(const TrieOptions& trie) {
  const int fan_out = trie.fan_out;
  if (fan_out < 2 || fan_out > 64 || (fan_out & (fan_out - 1)) != 0) {
    return Bad("fan_out", std::to_string(fan_out), "it may be 2, 4, 8, 16, 32 or 64");
  }
  if (trie.slots < 2 || trie.slots > 64) return Bad("slots", std::to_string(trie.slots), "it may be 2 to 64");
  if (trie.trigger != 0 && (trie.trigger < 2 || trie.trigger > trie.slots)) {
    return Bad("trigger", std::to_string(trie.trigger),
               "it may be 2 up to the number of slots, or 0 for three quarters of them");
  }
  if (trie.depth < 1 || TrieLevels(trie) > kMaxTrieLevels || trie.depth * BitsPerDepth(trie) > 32) {
    return Bad("depth", std::to_string(trie.depth),
               "it may be 1 or more, as long as depth * slots stays below 512 and fan_out^depth within 2^32");
  }
  if (trie.root_trigger < 1 || trie.root_trigger > 1000) {
    return Bad("root_trigger", std::to_string(trie.root_trigger), "it may be 1 to 1000");
  }
  if (!(trie.filter_bits >= 0 && trie.filter_bits <= 100)) {
    return Bad("filter_bits", std::to_string(trie.filter_bits), "it may be 0 to 100");
  }
  if (!(trie.space_bound >= 1.1 && trie.space_bound <= 1000)) {
    return Bad("space_bound", std::to_string(trie.space_bound), "it may be 1.1 to 1000");
  }
  return Status::OK();
}

// Lays the text over what *options says. `order` is theirs.
template <class Options>
Status FromString(const std::string& text, const char* order, Options* options) {
  TrieOptionText parsed(*options);
  Status s = TrieOptionsFromString(text, &parsed);
  if (s.ok() && parsed.order != order) {
    s = Bad("order", parsed.order, "these are the options of a trie in the other order");
  }
  if (!s.ok()) return s;
  if constexpr (std::is_same_v<Options, KeyTrieOptions>) {
    *options = parsed.key_order();
  } else {
    *options = parsed.hash_order();
  }
  return s;
}

}  // namespace

const OptionTypes& TrieOptionTypes() {
  using Text = TrieOptionText;
  static const auto* types = new OptionTypes{
      {"order", TypeOf(&Text::order, OptionType::kString)},
      {"hash", TypeOf<std::string>(&Text::hash, OptionType::kString)},
      {"seed", TypeOf<uint64_t>(&Text::seed, OptionType::kUInt64T)},
      {"fan_out", TypeOf<int>(&Text::fan_out, OptionType::kInt)},
      {"slots", TypeOf<int>(&Text::slots, OptionType::kInt)},
      {"trigger", TypeOf<int>(&Text::trigger, OptionType::kInt)},
      {"depth", TypeOf<int>(&Text::depth, OptionType::kInt)},
      {"root_trigger", TypeOf<int>(&Text::root_trigger, OptionType::kInt)},
      {"filter_bits", TypeOf<double>(&Text::filter_bits, OptionType::kDouble)},
      {"format", TypeOf<std::string>(&Text::format, OptionType::kString)},
      {"bottommost_format", TypeOf<std::string>(&Text::bottommost_format, OptionType::kString)},
      {"space_bound", TypeOf<double>(&Text::space_bound, OptionType::kDouble)},
      {"scan_merge", TypeOf(&Text::scan_merge, OptionType::kDouble)},
      {"grow_liveness", TypeOf<double>(&Text::grow_liveness, OptionType::kDouble)},
  };
  return *types;
}

TrieOptionText::TrieOptionText(const KeyTrieOptions& trie) : order(kKey), scan_merge(trie.scan_merge) {
  static_cast<TrieOptions&>(*this) = trie;
}

KeyTrieOptions TrieOptionText::key_order() const {
  KeyTrieOptions trie;
  static_cast<TrieOptions&>(trie) = *this;
  trie.scan_merge = scan_merge;
  return trie;
}

int BitsPerDepth(const TrieOptions& trie) {
  int bits = 0;
  while ((1 << bits) < trie.fan_out) ++bits;
  return bits;
}

HashPrefixMap ContainerMapOf(const HashTrieOptions& trie) {
  HashKind kind = HashKind::kXxh3;
  ParseHashKind(trie.hash, &kind).PermitUncheckedError();
  return HashPrefixMap(KeyHash(kind, SeedOrRandom(trie.seed)), BitsPerDepth(trie));
}

Status TrieOptionsFromString(const std::string& text, HashTrieOptions* options) {
  return FromString(text, TrieOptionText::kHash, options);
}

Status TrieOptionsFromString(const std::string& text, KeyTrieOptions* options) {
  return FromString(text, TrieOptionText::kKey, options);
}

Status TrieOptionsFromString(const std::string& text, TrieOptionText* options) {
  return ParseOptions<TrieOptionText>(text, TrieOptionTypes(), kWhat, ValidateTrieOptions, options);
}

namespace {

std::string ToString(const TrieOptionText& options) { return PrintOptions(&options, TrieOptionTypes()); }

}  // namespace

std::string TrieOptionsToString(const HashTrieOptions& options) { return ToString(options); }
std::string TrieOptionsToString(const KeyTrieOptions& options) { return ToString(options); }

Status ValidateTrieOptions(const HashTrieOptions& trie) {
  HashKind kind;
  Status s = ParseHashKind(trie.hash, &kind);
  if (s.ok()) s = ValidateShape(trie);
  if (!s.ok()) return s;
  if (trie.format != kTrieFormatSst && trie.format != kTrieFormatHTable) {
    return Bad("format", "\"" + trie.format + "\"", "it may be sst or htable");
  }
  if (trie.bottommost_format != kTrieFormatSame && trie.bottommost_format != kTrieFormatEct) {
    return Bad("bottommost_format", "\"" + trie.bottommost_format + "\"", "it may be same or ect");
  }
  if (!(trie.grow_liveness >= 0 && trie.grow_liveness <= 1)) {
    return Bad("grow_liveness", std::to_string(trie.grow_liveness), "it may be 0 to 1");
  }
  return s;
}

Status ValidateTrieOptions(const KeyTrieOptions& trie) {
  const Status s = ValidateShape(trie);
  if (!s.ok()) return s;
  if (!(trie.scan_merge >= 0 && trie.scan_merge <= 1000)) {
    return Bad("scan_merge", std::to_string(trie.scan_merge), "it may be 0 to 1000");
  }
  return s;
}

Status ValidateTrieOptions(const TrieOptionText& trie) {
  if (trie.order != TrieOptionText::kHash && trie.order != TrieOptionText::kKey) {
    return Bad("order", "\"" + trie.order + "\"", "it may be hash or key");
  }
  Status s = ValidateTrieOptions(trie.hash_order());
  if (s.ok()) s = ValidateTrieOptions(trie.key_order());
  if (s.ok() && trie.in_key_order() && trie.bottommost_format != kTrieFormatSame) {
    return Bad("bottommost_format", "\"" + trie.bottommost_format + "\" with order=key",
               "ect tables are in hash order");
  }
  return s;
}

}  // namespace cairn
