#include "table/hash_order/hash_order.h"

#include <sha1.h>

#include "util/short_hash.h"

#include <algorithm>
#include <array>
#include <atomic>
#include <cstring>
#include <iterator>
#include <map>
#include <random>
#include <unordered_map>
#include <utility>

#include "util/mutex.h"

namespace cairn {

namespace {

// RFC 3174's digest, its first eight bytes as a big-endian number, so that prefix bits are the digest's first bits.
__attribute__((noinline)) uint64_t Sha1Position(const rocksdb::Slice& key, uint64_t seed) {
  SHA1_CTX context;
  SHA1Init(&context);
  if (seed != 0) {
    uint8_t bytes[8];
    for (int i = 0; i < 8; ++i) bytes[i] = static_cast<uint8_t>(seed >> (8 * i));
    SHA1Update(&context, bytes, sizeof(bytes));
  }
  SHA1Update(&context, reinterpret_cast<const uint8_t*>(key.data()), key.size());
  uint8_t digest[SHA1_DIGEST_LENGTH];
  SHA1Final(digest, &context);
  uint64_t position = 0;
  for (int i = 0; i < 8; ++i) position = position << 8 | digest[i];
  return position;
}

__attribute__((noinline)) uint64_t Xxh3PositionOfAny(const rocksdb::Slice& key, uint64_t seed) {
  return XXH3_64bits_withSeed(key.data(), key.size(), seed);
}

// RocksDB compares a key with both ends of every table that may have it, so the common sizes are hashed without a call:
// callers are compiled with "flatten".
inline uint64_t Xxh3Position(const rocksdb::Slice& key, uint64_t seed) {
  const size_t size = key.size();
  if (__builtin_expect(size < 9 || size > 16, 0)) return Xxh3PositionOfAny(key, seed);
  return XXH3_64bits_withSeed(key.data(), size, seed);
}

inline uint64_t Position(HashKind kind, const rocksdb::Slice& key, uint64_t seed) {
  switch (kind) {
    case HashKind::kXxh3:
      return Xxh3Position(key, seed);
    case HashKind::kSha1:
      return Sha1Position(key, seed);
  }
  __builtin_unreachable();
}

std::string NameWithoutSeed(HashKind kind) { return std::string(kHashOrderName) + ":" + HashKindName(kind); }

class HashComparator : public rocksdb::Comparator {
 public:
  HashComparator(HashKind kind, uint64_t seed)
      : hash_(kind, seed), name_(NameWithoutSeed(kind) + ":" + std::to_string(seed)) {}

  const char* Name() const override { return name_.c_str(); }

  // Options that leave the seed open fit a database of any seed.
  bool AreEquivalent(const rocksdb::ConfigOptions& config, const rocksdb::Configurable* other,
                     std::string* mismatch) const override;

  __attribute__((flatten)) int Compare(const rocksdb::Slice& a, const rocksdb::Slice& b) const override {
    const uint64_t hash_a = Position(hash_.kind(), a, hash_.seed());
    const uint64_t hash_b = Position(hash_.kind(), b, hash_.seed());
    if (hash_a != hash_b) return hash_a < hash_b ? -1 : 1;
    return a.compare(b);
  }

  // Hash order has no timestamps. What RocksDB calls for each table of a lookup and each entry that it finds.
  using rocksdb::Comparator::CompareWithoutTimestamp;
  int CompareWithoutTimestamp(const rocksdb::Slice& a, bool /*a_has_ts*/, const rocksdb::Slice& b,
                              bool /*b_has_ts*/) const override {
    return Compare(a, b);
  }

  bool Equal(const rocksdb::Slice& a, const rocksdb::Slice& b) const override { return a == b; }
  bool EqualWithoutTimestamp(const rocksdb::Slice& a, const rocksdb::Slice& b) const override { return a == b; }

  // A shorter key has another hash: no key can stand for a range of others.
  void FindShortestSeparator(std::string* /*start*/, const rocksdb::Slice& /*limit*/) const override {}
  void FindShortSuccessor(std::string* /*key*/) const override {}

  bool CanKeysWithDifferentByteContentsBeEqual() const override { return false; }

  const KeyHash& hash() const { return hash_; }

 private:
  const KeyHash hash_;
  const std::string name_;
};

thread_local bool compared_by_open_seed = false;
std::atomic<bool> open_seeds_made{false};

class OpenSeed final : public HashComparator {
 public:
  explicit OpenSeed(HashKind kind) : HashComparator(kind, SeedOrRandom(kRandomSeed)) {}

  std::string GetId() const override { return NameWithoutSeed(hash().kind()); }

  int Compare(const rocksdb::Slice& a, const rocksdb::Slice& b) const override {
    compared_by_open_seed = true;
    return HashComparator::Compare(a, b);
  }
};

// All that were made; none is ever destroyed.
struct Comparators {
  CheckedMutex mutex;
  std::map<std::pair<HashKind, uint64_t>, const HashComparator*> made CAIRN_GUARDED_BY(mutex);  // by hash and seed
  std::unordered_map<const rocksdb::Comparator*, const HashComparator*> all CAIRN_GUARDED_BY(mutex);
};

Comparators& TheComparators() {
  static auto* const comparators = new Comparators();
  return *comparators;
}

const HashComparator* FindComparator(const rocksdb::Comparator* comparator) {
  Comparators& comparators = TheComparators();
  const MutexLock lock(&comparators.mutex);
  const auto found = comparators.all.find(comparator);
  return found == comparators.all.end() ? nullptr : found->second;
}

bool HashComparator::AreEquivalent(const rocksdb::ConfigOptions& config, const rocksdb::Configurable* other,
                                   std::string* mismatch) const {
  // What is compared with a comparator is one.
  const HashComparator* const ours = FindComparator(static_cast<const rocksdb::Comparator*>(other));
  if (ours != nullptr && ours->hash().kind() == hash().kind() && (SeedIsOpen(this) || SeedIsOpen(ours))) return true;
  return rocksdb::Comparator::AreEquivalent(config, other, mismatch);
}

}  // namespace

const char* HashKindName(HashKind kind) {
  switch (kind) {
    case HashKind::kXxh3:
      return "xxh3";
    case HashKind::kSha1:
      return "sha1";
  }
  __builtin_unreachable();
}

rocksdb::Status ParseHashKind(const std::string& name, HashKind* kind) {
  std::string known;
  for (HashKind candidate : kHashKinds) {
    if (name == HashKindName(candidate)) {
      *kind = candidate;
      return rocksdb::Status::OK();
    }
    known += (known.empty() ? "" : " or ") + std::string(HashKindName(candidate));
  }
  return rocksdb::Status::InvalidArgument("hash is \"" + name + "\"", "it may be " + known);
}

__attribute__((flatten)) uint64_t KeyHash::operator()(const rocksdb::Slice& user_key) const {
  return Position(kind_, user_key, seed_);
}

const rocksdb::Comparator* HashOrderComparator(HashKind kind, uint64_t seed) {
  Comparators& comparators = TheComparators();
  const MutexLock lock(&comparators.mutex);
  const HashComparator*& comparator = comparators.made[{kind, seed}];
  if (comparator == nullptr) {
    comparator = new HashComparator(kind, seed);
    comparators.all[comparator] = comparator;
  }
  return comparator;
}

const rocksdb::Comparator* OpenSeedComparator(HashKind kind) {
  static const auto* const made = [] {
    auto* const of_kind = new std::array<const HashComparator*, std::size(kHashKinds)>();
    Comparators& comparators = TheComparators();
    const MutexLock lock(&comparators.mutex);
    for (size_t i = 0; i < of_kind->size(); ++i) {
      static_assert(kHashKinds[0] == HashKind{0} && kHashKinds[std::size(kHashKinds) - 1] == HashKind::kSha1,
                    "a kind is its place in kHashKinds");
      const HashComparator* const comparator = new OpenSeed(kHashKinds[i]);
      comparators.all[comparator] = comparator;
      (*of_kind)[i] = comparator;
    }
    // Whoever has the comparator from another thread sees it, too.
    open_seeds_made.store(true, std::memory_order_relaxed);
    return of_kind;
  }();
  return (*made)[static_cast<size_t>(kind)];
}

uint64_t DrawRandomSeed() {
  std::random_device source;
  for (;;) {
    const uint64_t seed = static_cast<uint64_t>(source()) << 32 | source();
    if (seed != kRandomSeed) return seed;
  }
}

uint64_t SeedOrRandom(uint64_t seed) {
  static const uint64_t random = DrawRandomSeed();
  return seed == kRandomSeed ? random : seed;
}

rocksdb::Status HashOrderComparatorFromName(const std::string& name, const rocksdb::Comparator** comparator) {
  const rocksdb::Status malformed = rocksdb::Status::InvalidArgument(
      "comparator \"" + name + "\"",
      "the hash order is written cairn.HashOrder:HASH:SEED, as cairn.HashOrder:xxh3:42, or "
      "cairn.HashOrder:HASH for the seed that the database has");
  std::string rest = name;
  HashKind kind = HashKind::kXxh3;
  uint64_t seed = kDefaultSeed;
  bool open = true;
  const std::string prefix(kHashOrderName);
  if (rest.compare(0, prefix.size(), prefix) != 0) return malformed;
  rest.erase(0, prefix.size());
  if (!rest.empty()) {
    if (rest[0] != ':') return malformed;
    rest.erase(0, 1);
    const size_t colon = rest.find(':');
    rocksdb::Status s = ParseHashKind(rest.substr(0, colon), &kind);
    if (!s.ok()) return s;
    if (colon != std::string::npos) {
      const std::string digits = rest.substr(colon + 1);
      if (digits.empty() || digits.size() > 20 || digits.find_first_not_of("0123456789") != std::string::npos) {
        return malformed;
      }
      unsigned __int128 value = 0;
      for (char digit : digits) value = value * 10 + static_cast<unsigned>(digit - '0');
      if (value > UINT64_MAX) return malformed;
      seed = static_cast<uint64_t>(value);
      open = false;
    }
  }
  *comparator = open ? OpenSeedComparator(kind) : HashOrderComparator(kind, seed);
  return rocksdb::Status::OK();
}

const KeyHash* HashOfComparator(const rocksdb::Comparator* comparator) {
  if (comparator == nullptr) return nullptr;
  const rocksdb::Comparator* const root = comparator->GetRootComparator();
  // Most others are told by their names. An application's may have any name, and no type information.
  if (strncmp(root->Name(), kHashOrderName, strlen(kHashOrderName)) != 0) return nullptr;
  const HashComparator* const ours = FindComparator(root);
  return ours == nullptr ? nullptr : &ours->hash();
}

bool TakeComparedByOpenSeed() { return std::exchange(compared_by_open_seed, false); }

bool HasOpenSeeds() { return open_seeds_made.load(std::memory_order_relaxed); }

bool SeedIsOpen(const rocksdb::Comparator* comparator) {
  return HasOpenSeeds() && std::any_of(std::begin(kHashKinds), std::end(kHashKinds),
                                       [comparator](HashKind kind) { return comparator == OpenSeedComparator(kind); });
}

}  // namespace cairn
