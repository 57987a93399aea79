// The order of keys that trie and SILT stores share: by a 64-bit hash of the key, ties broken by the key's bytes.
//
// Thread-safety: everything here is immutable.
//
// The comparator's name is "cairn.HashOrder:HASH:SEED" and RocksDB stores it in the MANIFEST and in every table, so a
// database can never be read in another order than it was written in.

#pragma once

#include <cstdint>
#include <string>

#include "cairn/hash_seed.h"
#include "rocksdb/comparator.h"
#include "rocksdb/slice.h"
#include "rocksdb/status.h"

namespace cairn {

// A new one also takes a place in kHashKinds and a case in each `switch` over it, or hash_order.cc does not compile.
enum class HashKind { kXxh3, kSha1 };
constexpr HashKind kHashKinds[] = {HashKind::kXxh3, HashKind::kSha1};

const char* HashKindName(HashKind kind);
rocksdb::Status ParseHashKind(const std::string& name, HashKind* kind);

// Maps a key to its position: a uniformly distributed 64-bit number that decides order and container.
class KeyHash {
 public:
  KeyHash() = default;
  KeyHash(HashKind kind, uint64_t seed) : kind_(kind), seed_(seed) {}

  uint64_t operator()(const rocksdb::Slice& user_key) const;

  HashKind kind() const { return kind_; }
  uint64_t seed() const { return seed_; }

 private:
  HashKind kind_ = HashKind::kXxh3;
  uint64_t seed_ = 0;
};

// The one comparator of this hash and seed; lives until the process ends, as RocksDB wants it.
const rocksdb::Comparator* HashOrderComparator(HashKind kind, uint64_t seed);

// The comparator of this hash whose seed is left open: it adopts the database's own when that is opened
// (db/stored_seed.h). By itself it is a comparator like any other, of a random seed that the process keeps and that no
// database gets, so no table or index in its order is taken for one of a database. In option text it has no seed, so
// that another process leaves it open, too.
const rocksdb::Comparator* OpenSeedComparator(HashKind kind);
bool SeedIsOpen(const rocksdb::Comparator* comparator);

// `seed`, or for kRandomSeed that of OpenSeedComparator.
uint64_t SeedOrRandom(uint64_t seed);
// A new one, never kRandomSeed.
uint64_t DrawRandomSeed();

constexpr char kHashOrderName[] = "cairn.HashOrder";

// The comparator that a name of the form above describes, or one without a seed, which leaves it open; InvalidArgument
// for any other name.
rocksdb::Status HashOrderComparatorFromName(const std::string& name, const rocksdb::Comparator** comparator);

// Whether this thread has compared keys by an OpenSeedComparator since it was asked last.
bool TakeComparedByOpenSeed();
// Whether this process has ever made such a comparator.
bool HasOpenSeeds();

// Null unless `comparator` is (or wraps) one of the above.
const KeyHash* HashOfComparator(const rocksdb::Comparator* comparator);

}  // namespace cairn
