// Seeds of the hash that orders the keys of tries and SILT stores. Nobody who chooses keys should know one: keys of
// equal hashes would all lie in one place.
//
// With kRandomSeed a seed is drawn when a column family is created, and kept in its comparator's name. The same options
// adopt it at every later open, so options that are fixed in a program fit any database. What is no opening needs the
// database's own seed: SstFileWriter, RepairDB, a WriteBatchWithIndex over the default column family.
//
//   uint64_t seed = 0;
//   rocksdb::Status s = cairn::GetHashSeed(db->GetOptions(handle), &seed);  // files for ingestion need it explicitly:
//   trie.seed = seed;                                                       // cairn::UseTrie(&options, trie);
//   rocksdb::SstFileWriter writer(rocksdb::EnvOptions(), options);
//
// Thread-safety: safe.

#pragma once

#include <cstdint>

#include "rocksdb/options.h"
#include "rocksdb/status.h"

namespace cairn {

// In TrieOptions::seed and SiltOptions::seed: the database's own, or a new one.
constexpr uint64_t kRandomSeed = UINT64_MAX;

// Of options that name no seed, and of the comparator "cairn.HashOrder:xxh3". Not kRandomSeed, because RepairDB would
// take the tables of such a database for damaged.
constexpr uint64_t kDefaultSeed = 0;

// The seed of a column family in hash order; NotSupported for any other. Of an open database: its own.
rocksdb::Status GetHashSeed(const rocksdb::ColumnFamilyOptions& options, uint64_t* seed);

}  // namespace cairn
