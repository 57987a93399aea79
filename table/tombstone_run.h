// Marks tables that a scan would pass over for long: where so many tombstones lie in a row, the table is compacted
// further once nothing else is due, down to where the tombstones end.
//
// Invariants
//   (1) A table is marked if some part of it has `wanted` more deleted keys than kTombstonesPerKey for each other key.
//       Deletes that are scattered among puts mark nothing, unless these are less than one of 17 keys.
//   (2) In level 0 that must be an eighth of the table's keys as well. Such a table mostly lies over all others, and
//       what is below is written with it: for a queue of one write in 50, ordered wrote three fifths more.
//   (3) A table at the last level is not marked. So a marked table is written once per level at most: what is written
//       for it lies deeper, whether a snapshot has kept its tombstones or not. (Whoever knows that there is nothing
//       older below marks nothing either; what is kept there waits for a snapshot, not for a compaction.)
//
// Thread-safety: a TombstoneRun is for one thread; the factory is safe.

#pragma once

#include <cstdint>
#include <string>

#include "rocksdb/slice.h"
#include "rocksdb/table_properties.h"

namespace cairn {

// By (1) and (2), of keys that come in order.
class TombstoneRun {
 public:
  enum class Share { kAny, kEighth };

  TombstoneRun(uint32_t wanted, Share share) : wanted_(wanted), share_(share) {}

  // The versions of a key come one after the other, the newest first.
  void Add(const rocksdb::Slice& user_key, bool deleted);
  bool found() const { return most_ >= wanted_ && (share_ == Share::kAny || most_ >= keys_ / 8); }

 private:
  static constexpr uint64_t kTombstonesPerKey = 16;

  const uint64_t wanted_;
  const Share share_;
  uint64_t keys_ = 0;    // older versions may count as well
  uint64_t excess_ = 0;  // of deleted keys over kTombstonesPerKey per other key, up to here, since it was last 0
  uint64_t most_ = 0;    // that excess_ was
  std::string deleted_;  // the last deleted key, if excess_ is not 0
};

class TombstoneMarkerFactory : public rocksdb::TablePropertiesCollectorFactory {
 public:
  // REQUIRES: wanted > 0.
  explicit TombstoneMarkerFactory(uint32_t wanted) : wanted_(wanted) {}
  static const char* kClassName() { return "cairn.TombstoneMarker"; }
  const char* Name() const override { return kClassName(); }
  // In no OPTIONS file: the options that hold `wanted` are.
  std::string GetId() const override { return std::string(); }
  // Null for tables of the last level.
  rocksdb::TablePropertiesCollector* CreateTablePropertiesCollector(Context context) override;

 private:
  const uint32_t wanted_;
};

}  // namespace cairn
