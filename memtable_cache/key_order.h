// The order of a memtable's entries (user key ascending, newest first), made fast where the comparator allows: an
// 8-byte prefix of a key decides most comparisons, computed once per entry.
//
// Thread-safety: immutable.

#pragma once

#include <algorithm>
#include <cstdint>
#include <cstring>

#include "db/dbformat.h"
#include "rocksdb/memtablerep.h"
#include "table/hash_order/hash_order.h"
#include "util/coding.h"

namespace cairn {

// An internal key taken apart; `tag` is sequence and type, larger is newer.
struct EntryKey {
  rocksdb::Slice user_key;
  uint64_t tag;
};

inline EntryKey SplitInternalKey(const rocksdb::Slice& internal_key) {
  return {rocksdb::Slice(internal_key.data(), internal_key.size() - 8),
          rocksdb::DecodeFixed64(internal_key.data() + internal_key.size() - 8)};
}

// `entry` is RocksDB's memtable entry: varint32 length of the internal key, the key, the value.
inline EntryKey KeyOf(const char* entry) {
  uint32_t length = static_cast<unsigned char>(*entry);
  const char* key = entry + 1;
  if (length >= 128) key = rocksdb::GetVarint32Ptr(entry, entry + 5, &length);
  return SplitInternalKey(rocksdb::Slice(key, length));
}

class KeyOrder {
 public:
  // `comparator` must outlive this.
  explicit KeyOrder(const rocksdb::MemTableRep::KeyComparator& comparator);

  // Keys that are equal have equal bytes, and the other way round: a hash of the bytes finds them.
  bool equal_means_same_bytes() const { return equal_means_same_bytes_; }

  // A smaller prefix means a smaller key; equal prefixes mean nothing. Bytes of the key up to `depth` are skipped: the
  // caller knows them to be the same (only where can_deepen()).
  uint64_t Prefix(const rocksdb::Slice& user_key, size_t depth = 0) const {
    switch (kind_) {
      case Kind::kBytes:
        return BytesPrefix(user_key, depth);
      case Kind::kReverseBytes:
        return ~BytesPrefix(user_key, depth);
      case Kind::kHash:
        return hash_(user_key);
      case Kind::kOther:
        break;
    }
    return 0;
  }
  bool can_deepen() const { return kind_ == Kind::kBytes || kind_ == Kind::kReverseBytes; }

  // Bytes that two keys have in common at their beginning, as far as a depth may go; 0 unless can_deepen().
  size_t CommonBytes(const rocksdb::Slice& a, const rocksdb::Slice& b) const {
    if (!can_deepen()) return 0;
    return std::min(kDeepest, a.difference_offset(b));
  }
  // Of a key and all keys that begin with the same `depth` bytes as `b`; 0: it does, too.
  int CompareBeginnings(const rocksdb::Slice& a, const rocksdb::Slice& b, size_t depth) const {
    const int order = rocksdb::Slice(a.data(), std::min(a.size(), depth)).compare(rocksdb::Slice(b.data(), depth));
    return kind_ == Kind::kReverseBytes ? -order : order;
  }

  // Of two entries with the same prefix.
  int CompareRest(const char* a, const char* b) const {
    if (kind_ == Kind::kOther) return (*comparator_)(a, b);
    return CompareRest(KeyOf(a), KeyOf(b));
  }
  // Of an entry and an internal key (its parts in `key`) with the same prefix.
  int CompareRest(const char* a, const EntryKey& key, const rocksdb::Slice& internal_key) const {
    if (kind_ == Kind::kOther) return (*comparator_)(a, internal_key);
    return CompareRest(KeyOf(a), key);
  }

  // Of any two entries.
  int Compare(const char* a, const char* b) const {
    const uint64_t prefix_a = Prefix(KeyOf(a).user_key);
    const uint64_t prefix_b = Prefix(KeyOf(b).user_key);
    if (prefix_a != prefix_b) return prefix_a < prefix_b ? -1 : 1;
    return CompareRest(a, b);
  }
  // Of any entry and an internal key.
  int Compare(const char* a, const rocksdb::Slice& internal_key) const {
    const EntryKey key = SplitInternalKey(internal_key);
    const uint64_t prefix_a = Prefix(KeyOf(a).user_key);
    const uint64_t prefix_key = Prefix(key.user_key);
    if (prefix_a != prefix_key) return prefix_a < prefix_key ? -1 : 1;
    return CompareRest(a, key, internal_key);
  }

 private:
  enum class Kind { kBytes, kReverseBytes, kHash, kOther };

  static constexpr size_t kDeepest = 256;

  static uint64_t BytesPrefix(const rocksdb::Slice& key, size_t depth) {
    if (key.size() >= depth + 8) {
      uint64_t word;
      memcpy(&word, key.data() + depth, 8);
      return __builtin_bswap64(word);
    }
    uint64_t prefix = 0;
    for (size_t i = depth; i < depth + 8; ++i) {
      prefix = prefix << 8 | (i < key.size() ? static_cast<unsigned char>(key[i]) : 0);
    }
    return prefix;
  }

  int CompareRest(const EntryKey& a, const EntryKey& b) const {
    int order = a.user_key.compare(b.user_key);
    if (kind_ == Kind::kReverseBytes) order = -order;
    if (order == 0) order = a.tag > b.tag ? -1 : (a.tag < b.tag ? 1 : 0);
    return order;
  }

  const rocksdb::MemTableRep::KeyComparator* const comparator_;
  Kind kind_ = Kind::kOther;
  bool equal_means_same_bytes_ = false;
  KeyHash hash_;
};

}  // namespace cairn
