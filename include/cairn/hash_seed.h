// Seeds of the hash that orders the keys of tries and SILT stores. Nobody who chooses keys should know one: keys of
// equal hashes would all lie in one place.
//
// A seed is drawn when a column family is created, and kept in its comparator's name. Options that name no seed adopt
// it at every later open, so options that are fixed in a program fit any database: each has its own, also where two
// were opened with one Options object. RepairDB takes the database's, too.
//
// SstFileWriter, SstFileReader and WriteBatchWithIndex know no database, so they need its seed, and refuse options that
// leave it open. The options of the open column family have it:
//
//   rocksdb::SstFileWriter writer(rocksdb::EnvOptions(), db->GetOptions(handle), handle);
//   rocksdb::WriteBatchWithIndex batch(handle->GetComparator());
//
//   uint64_t seed = 0;  // or, for a program that has the database not open: the seed that another has asked for
//   rocksdb::Status s = cairn::GetHashSeed(db->GetOptions(handle), &seed);
//   trie.seed = seed;  // cairn::UseTrie(&options, trie)
//
// Keys are added in the order of the handle's, or of these options', comparator.
//
// Thread-safety: safe.

#pragma once

#include <cstdint>

#include "rocksdb/options.h"
#include "rocksdb/status.h"

namespace cairn {

// In HashTrieOptions::seed and SiltOptions::seed: the database's own, or a new one.
constexpr uint64_t kRandomSeed = UINT64_MAX;

// Of options that name no seed, and of the comparator "cairn.HashOrder:xxh3".
constexpr uint64_t kDefaultSeed = kRandomSeed;

// The seed of a column family in hash order; NotSupported for any other. Of an open database (DB::GetOptions): its own.
// InvalidArgument if the options leave it open.
rocksdb::Status GetHashSeed(const rocksdb::ColumnFamilyOptions& options, uint64_t* seed);

}  // namespace cairn
