#include "trie_table/compaction/trie_options.h"

#include <cmath>
#include <cstddef>

#include "rocksdb/convenience.h"
#include "table/hash_order/hash_order.h"
#include "util/option_text.h"

namespace cairn {

using rocksdb::OptionType;
using rocksdb::OptionTypeInfo;
using rocksdb::Status;

const std::unordered_map<std::string, OptionTypeInfo>& TrieOptionTypes() {
  static const auto* types = new std::unordered_map<std::string, OptionTypeInfo>{
      {"order", {offsetof(TrieOptions, order), OptionType::kString}},
      {"hash", {offsetof(TrieOptions, hash), OptionType::kString}},
      {"seed", {offsetof(TrieOptions, seed), OptionType::kUInt64T}},
      {"fan_out", {offsetof(TrieOptions, fan_out), OptionType::kInt}},
      {"slots", {offsetof(TrieOptions, slots), OptionType::kInt}},
      {"trigger", {offsetof(TrieOptions, trigger), OptionType::kInt}},
      {"depth", {offsetof(TrieOptions, depth), OptionType::kInt}},
      {"root_trigger", {offsetof(TrieOptions, root_trigger), OptionType::kInt}},
      {"filter_bits", {offsetof(TrieOptions, filter_bits), OptionType::kDouble}},
      {"format", {offsetof(TrieOptions, format), OptionType::kString}},
      {"bottommost_format", {offsetof(TrieOptions, bottommost_format), OptionType::kString}},
      {"space_bound", {offsetof(TrieOptions, space_bound), OptionType::kDouble}},
      {"scan_merge", {offsetof(TrieOptions, scan_merge), OptionType::kDouble}},
      {"grow_liveness", {offsetof(TrieOptions, grow_liveness), OptionType::kDouble}},
  };
  return *types;
}

TrieOptions KeyOrderTrie() {
  TrieOptions trie;
  trie.order = kTrieOrderKey;
  trie.fan_out = 16;
  trie.filter_bits = 10;
  trie.space_bound = 1.6;
  return trie;
}

int BitsPerDepth(const TrieOptions& trie) {
  int bits = 0;
  while ((1 << bits) < trie.fan_out) ++bits;
  return bits;
}

HashPrefixMap ContainerMapOf(const TrieOptions& trie) {
  HashKind kind = HashKind::kXxh3;
  ParseHashKind(trie.hash, &kind).PermitUncheckedError();
  return HashPrefixMap(KeyHash(kind, SeedOrRandom(trie.seed)), BitsPerDepth(trie));
}

Status TrieOptionsFromString(const std::string& text, TrieOptions* options) {
  return ParseOptions(text, TrieOptionTypes(), "trie options", ValidateTrieOptions, options);
}

std::string TrieOptionsToString(const TrieOptions& options) { return PrintOptions(&options, TrieOptionTypes()); }

Status ValidateTrieOptions(const TrieOptions& trie) {
  auto bad = [](const char* field, const std::string& value, const char* allowed) {
    return Status::InvalidArgument(std::string("trie option ") + field + " is " + value, allowed);
  };
  if (trie.order != kTrieOrderHash && trie.order != kTrieOrderKey) {
    return bad("order", "\"" + trie.order + "\"", "it may be hash or key");
  }
  HashKind kind;
  Status s = ParseHashKind(trie.hash, &kind);
  if (!s.ok()) return s;
  const int fan_out = trie.fan_out;
  if (fan_out < 2 || fan_out > 64 || (fan_out & (fan_out - 1)) != 0) {
    return bad("fan_out", std::to_string(fan_out), "it may be 2, 4, 8, 16, 32 or 64");
  }
  if (trie.slots < 2 || trie.slots > 64) return bad("slots", std::to_string(trie.slots), "it may be 2 to 64");
  if (trie.trigger != 0 && (trie.trigger < 2 || trie.trigger > trie.slots)) {
    return bad("trigger", std::to_string(trie.trigger),
               "it may be 2 up to the number of slots, or 0 for three quarters of them");
  }
  if (trie.depth < 1 || TrieLevels(trie) > kMaxTrieLevels || trie.depth * BitsPerDepth(trie) > 32) {
    return bad("depth", std::to_string(trie.depth),
               "it may be 1 or more, as long as depth * slots stays below 512 and fan_out^depth within 2^32");
  }
  if (trie.root_trigger < 1 || trie.root_trigger > 1000) {
    return bad("root_trigger", std::to_string(trie.root_trigger), "it may be 1 to 1000");
  }
  if (!(trie.filter_bits >= 0 && trie.filter_bits <= 100)) {
    return bad("filter_bits", std::to_string(trie.filter_bits), "it may be 0 to 100");
  }
  if (trie.format != kTrieFormatSst && trie.format != kTrieFormatHTable) {
    return bad("format", "\"" + trie.format + "\"", "it may be sst or htable");
  }
  if (trie.bottommost_format != kTrieFormatSame && trie.bottommost_format != kTrieFormatEct) {
    return bad("bottommost_format", "\"" + trie.bottommost_format + "\"", "it may be same or ect");
  }
  if (IsInKeyOrder(trie) && trie.bottommost_format != kTrieFormatSame) {
    return bad("bottommost_format", "\"" + trie.bottommost_format + "\" with order=key",
               "ect tables are in hash order");
  }
  if (!(trie.space_bound >= 1.1 && trie.space_bound <= 1000)) {
    return bad("space_bound", std::to_string(trie.space_bound), "it may be 1.1 to 1000");
  }
  if (!(trie.scan_merge >= 0 && trie.scan_merge <= 1000)) {
    return bad("scan_merge", std::to_string(trie.scan_merge), "it may be 0 to 1000");
  }
  if (!(trie.grow_liveness >= 0 && trie.grow_liveness <= 1)) {
    return bad("grow_liveness", std::to_string(trie.grow_liveness), "it may be 0 to 1");
  }
  return Status::OK();
}

}  // namespace cairn
