// Starts the merges of SILT stores by what the HashStores hold, where RocksDB by itself only counts them. Skewed
// updates leave few different keys of a write buffer, and a merge costs the whole SortedStore however few keys it
// brings.
//
// A merge is due when the HashStores weigh SiltOptions::merge_trigger or are SiltOptions::max_hash_stores; without this
// listener, only then.
//
// Option string: cairn.SiltMerges
// Thread-safety: safe. It holds no state, so one may serve any number of databases.

#pragma once

#include <cstdint>

#include "cairn/silt.h"
#include "rocksdb/listener.h"
#include "rocksdb/metadata.h"

namespace cairn {

constexpr int kSiltLevels = 2;  // without partitions: HashStores and the SortedStore
// The slots of a partition (TrieOptions::slots), and how many of them fill before it is merged: the others are for
// HashStores that come meanwhile.
constexpr int kSlotsOfAPartition = 64;
constexpr int kMostHashStoresOfAPartition = 60;

// SiltOptions::max_hash_stores, or what it is by default.
int MaxHashStores(const SiltOptions& silt);

// HashStores of a partition when it is merged because the store is at its space bound: partitions are merged by turns,
// so on average they have half of them. `live`: keys and values by the bytes of their tables. `hash_store`: keys of a
// HashStore by those of its partition.
double HashStoresAtTheBound(const SiltOptions& silt, double live, double hash_store);

// What an entry takes in a memtable of skip lists beyond what it takes in a HashStore, bytes.
constexpr double kMemtableBytesBeyondTable = 20;

// Write buffers full of different keys that would hold as much as the HashStores of this level: each counts with the
// part of its writes that were of different keys, or with the part of a write buffer that its entries fill, if that is
// more. Writes are counted by sequence numbers, so those to other column families in between make the first less;
// compression, and a write buffer that was not full, the second. A table that no flush wrote counts as one.
double WeightOfHashStores(const rocksdb::LevelMetaData& level, uint64_t write_buffer_size);

class SiltMerges : public rocksdb::EventListener {
 public:
  static const char* kClassName() { return "cairn.SiltMerges"; }
  const char* Name() const override { return kClassName(); }
  // Not in OPTIONS files and option strings: every opening of a SILT store adds it (db/opening.cc), and RocksJava's
  // parser takes no list of listeners.
  std::string GetId() const override { return std::string(); }

  void OnFlushCompleted(rocksdb::DB* db, const rocksdb::FlushJobInfo& info) override;
  void OnCompactionBegin(rocksdb::DB* db, const rocksdb::CompactionJobInfo& info) override;
  void OnCompactionCompleted(rocksdb::DB* db, const rocksdb::CompactionJobInfo& info) override;
};

}  // namespace cairn
