// How a column family of the engine round_robin is known, and the tuner that serves such column families alone.
//
// Thread-safety: the factory is immutable once a database uses it; the listener is safe.

#pragma once

#include <memory>
#include <string>

#include "cairn/round_robin.h"
#include "msls/tuner.h"
#include "rocksdb/sst_partitioner.h"

namespace cairn {

// Carries the options of the engine into OPTIONS files and back, and cuts nothing. (A collector of table properties
// could carry them as well, but RocksJava's parser takes no list of objects.)
//
// Option string: {id=cairn.RoundRobin;keys=...;...}, the fields of RoundRobinOptions.
class RoundRobinPartitionerFactory : public rocksdb::SstPartitionerFactory {
 public:
  static const char* kClassName() { return "cairn.RoundRobin"; }

  // REQUIRES: ValidateRoundRobinOptions(options).ok().
  explicit RoundRobinPartitionerFactory(const RoundRobinOptions& options = RoundRobinOptions());

  const char* Name() const override { return kClassName(); }
  rocksdb::Status PrepareOptions(const rocksdb::ConfigOptions& config) override;
  // None, which RocksDB takes for a column family without a partitioner.
  std::unique_ptr<rocksdb::SstPartitioner> CreatePartitioner(
      const rocksdb::SstPartitioner::Context& context) const override;

  const RoundRobinOptions& options() const { return options_; }

 private:
  RoundRobinOptions options_;
};

// Option string: cairn.RoundRobinTuner
class RoundRobinTuner : public TunerListener {
 public:
  RoundRobinTuner();
  static const char* kClassName() { return "cairn.RoundRobinTuner"; }
  const char* Name() const override { return kClassName(); }
  // Not in OPTIONS files: every opening adds it (db/opening.cc).
  std::string GetId() const override { return std::string(); }
};

// Whether the column family wants to be tuned.
bool WantsRoundRobinTuner(const rocksdb::ColumnFamilyOptions& options);

// What an opening adds to the options of a column family of the engine: the collectors that sample keys and mark
// tombstones, which are in no OPTIONS file either. It does nothing to any other.
void AddRoundRobinCollectors(rocksdb::ColumnFamilyOptions* options);

// What `cairn stats` says of such a column family, as text or as a JSON object: level sizes, and what the tuner knows.
// Empty for any other.
std::string RoundRobinStatsText(rocksdb::DB* db, rocksdb::ColumnFamilyHandle* family, bool table);

}  // namespace cairn
