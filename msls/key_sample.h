// A bounded sample of the keys of each flushed table, for the tuner: which keys come again from flush to flush says how
// popular they are. The sample of a table are its keys with the smallest hashes, so that samples of different tables
// meet in the same keys; it is stored in the table's properties as
//
//   fixed64 limit | fixed64 hash, ascending, each at most `limit`
//
// and holds every key of the table whose hash is at most `limit`.
//
// Only tables of level 0 are sampled. Cost: one hash a key in the thread that flushes, 8 KiB a
// table.
//
// Option string of the collector: cairn.KeySample. Thread-safety: the factory is safe, the rest is for one thread.

#pragma once

#include <cstdint>
#include <string>
#include <unordered_map>
#include <vector>

#include "rocksdb/table_properties.h"

namespace cairn {

class KeySampleFactory : public rocksdb::TablePropertiesCollectorFactory {
 public:
  // The property that holds the sample.
  static const char* PropertyName() { return "cairn.keysample"; }
  static const char* kClassName() { return "cairn.KeySample"; }
  const char* Name() const override { return kClassName(); }
  // Null for tables of other levels.
  rocksdb::TablePropertiesCollector* CreateTablePropertiesCollector(Context context) override;
};

// The `most` smallest hashes of the keys shown to it.
class SmallestHashes {
 public:
  explicit SmallestHashes(size_t most) : most_(most) {}
  // Keys come in order; the versions of one key one after the other.
  void Add(const rocksdb::Slice& key);
  std::string Encode();

 private:
  const size_t most_;
  uint64_t limit_ = UINT64_MAX;  // of hashes_, once there are `most_`
  uint64_t last_ = 0;
  bool any_ = false;
  std::vector<uint64_t> hashes_;  // a heap, the largest first
};

// The samples of a window of tables: how many of the tables held each key.
class KeySampleWindow {
 public:
  // The value of the property of one table. False, and nothing is changed, if it is damaged.
  bool Add(const rocksdb::Slice& sample);

  uint64_t tables() const { return tables_; }
  uint64_t keys() const { return tables_of_key_.size(); }
  // Part of all keys, seen or not, that were looked at.
  double share() const;
  // Element c: keys that c tables held. Element 0 is 0: what was never seen is not known here.
  std::vector<double> KeysByTables() const;

 private:
  static constexpr size_t kMostKeys = 1 << 16;

  void LowerLimit(uint64_t limit);

  uint64_t tables_ = 0;
  uint64_t limit_ = UINT64_MAX;
  std::unordered_map<uint64_t, uint32_t> tables_of_key_;
};

}  // namespace cairn
