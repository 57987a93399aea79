#include "table/hash_order/prefix_order.h"

#include <algorithm>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <map>
#include <optional>
#include <utility>

#include "table/hash_order/hash_order.h"
#include "util/mutex.h"
#include "util/rocksdb_names.h"

namespace cairn {

namespace {

enum class PrefixKind { kFixed, kUntil };

// Of a fixed prefix; more is of no use, and a name has room for it.
constexpr size_t kMostPrefixBytes = 1 << 20;

std::string NameOf(PrefixKind kind, size_t argument) {
  char text[64];
  snprintf(text, sizeof(text), kind == PrefixKind::kFixed ? "%s:fixed:%zu" : "%s:until:%02zx", kPrefixOrderName,
           argument);
  return text;
}

class PrefixComparator final : public rocksdb::Comparator {
 public:
  // argument: the bytes of a prefix, or the delimiter.
  PrefixComparator(PrefixKind kind, size_t argument)
      : kind_(kind), argument_(argument), name_(NameOf(kind, argument)), hash_(HashKind::kXxh3, 0) {}

  const char* Name() const override { return name_.c_str(); }

  int Compare(const Slice& a, const Slice& b) const override {
    const size_t a_size = PrefixSize(a), b_size = PrefixSize(b);
    const int prefixes = Slice(a.data(), a_size).compare(Slice(b.data(), b_size));
    if (prefixes != 0) return prefixes;
    const Slice a_rest(a.data() + a_size, a.size() - a_size), b_rest(b.data() + b_size, b.size() - b_size);
    if (a_rest.empty() || b_rest.empty()) return static_cast<int>(b_rest.empty()) - static_cast<int>(a_rest.empty());
    // Keys that are close in a table have equal bytes more often than equal hashes.
    if (a_rest == b_rest) return 0;
    const uint64_t a_hash = hash_(a_rest), b_hash = hash_(b_rest);
    if (a_hash != b_hash) return a_hash < b_hash ? -1 : 1;
    return a_rest.compare(b_rest);
  }

  bool Equal(const Slice& a, const Slice& b) const override { return a == b; }
  bool CanKeysWithDifferentByteContentsBeEqual() const override { return false; }

  // Nothing if a delimiter ends the prefix.
  std::optional<size_t> fixed_bytes() const {
    return kind_ == PrefixKind::kFixed ? std::optional<size_t>(argument_) : std::nullopt;
  }

  // No shorter key is known to lie between two, since its rest has another hash.
  void FindShortestSeparator(std::string* /*start*/, const Slice& /*limit*/) const override {}
  void FindShortSuccessor(std::string* /*key*/) const override {}

 private:
  size_t PrefixSize(const Slice& key) const {
    if (kind_ == PrefixKind::kFixed) return std::min(key.size(), argument_);
    const void* const found = memchr(key.data(), static_cast<int>(argument_), key.size());
    return found == nullptr ? key.size() : static_cast<size_t>(static_cast<const char*>(found) - key.data()) + 1;
  }

  const PrefixKind kind_;
  const size_t argument_;
  const std::string name_;
  const KeyHash hash_;
};

// Made once; none is ever destroyed.
struct PrefixComparators {
  CheckedMutex mutex;
  std::map<std::pair<PrefixKind, size_t>, const PrefixComparator*> made CAIRN_GUARDED_BY(mutex);
};

const rocksdb::Comparator* ComparatorOf(PrefixKind kind, size_t argument) {
  static auto* const comparators = new PrefixComparators();
  const MutexLock lock(&comparators->mutex);
  const PrefixComparator*& comparator = comparators->made[{kind, argument}];
  if (comparator == nullptr) comparator = new PrefixComparator(kind, argument);
  return comparator;
}

}  // namespace

const rocksdb::Comparator* PrefixOrder(size_t bytes) { return ComparatorOf(PrefixKind::kFixed, bytes); }

const rocksdb::Comparator* PrefixOrderUntil(char delimiter) {
  return ComparatorOf(PrefixKind::kUntil, static_cast<unsigned char>(delimiter));
}

rocksdb::Status PrefixOrderFromName(const std::string& name, const rocksdb::Comparator** comparator) {
  for (PrefixKind kind : {PrefixKind::kFixed, PrefixKind::kUntil}) {
    const bool fixed = kind == PrefixKind::kFixed;
    const std::string start = std::string(kPrefixOrderName) + (fixed ? ":fixed:" : ":until:");
    if (name.compare(0, start.size(), start) != 0) continue;
    const size_t argument = std::strtoul(name.c_str() + start.size(), nullptr, fixed ? 10 : 16);
    // It must be written as Name does: a database has one name for its order.
    if (NameOf(kind, argument) != name || argument > (fixed ? kMostPrefixBytes : UINT8_MAX)) break;
    *comparator = ComparatorOf(kind, argument);
    return rocksdb::Status::OK();
  }
  return rocksdb::Status::InvalidArgument(
      "comparator \"" + name + "\"",
      "the order by prefix is written cairn.PrefixOrder:fixed:8, for the first 8 bytes (up to " +
          std::to_string(kMostPrefixBytes) + "), or cairn.PrefixOrder:until:2f, for those up to the first '/'");
}

bool IsPrefixOrder(const rocksdb::Comparator* comparator) {
  const rocksdb::Comparator* named = nullptr;
  return PrefixOrderFromName(comparator->Name(), &named).ok() && named == comparator;
}

bool SplitsPrefixes(const rocksdb::Comparator* order, const rocksdb::SliceTransform& extractor) {
  if (!IsPrefixOrder(order)) return false;
  const std::optional<size_t> bytes = static_cast<const PrefixComparator*>(order)->fixed_bytes();
  if (!bytes.has_value()) return false;
  const std::string id = extractor.GetId();
  for (const char* const start : {"rocksdb.FixedPrefix.", "rocksdb.CappedPrefix."}) {
    if (id.compare(0, strlen(start), start) == 0) return std::strtoul(id.c_str() + strlen(start), nullptr, 10) > *bytes;
  }
  return false;
}

}  // namespace cairn
