// Copies a database into another engine, in a new directory, and proves that nothing was lost.
//
//   copy     every column family in the source's order, without WAL; the state file follows the flushes
//   settle   flush, and wait until no compaction is due
//   verify   each record of the source is looked up in the destination and compared; then the destination is read from
//            end to end, and number and fingerprint of its records must be those of the source
//   whole    the destination gets its final options
//
// Each step can be killed at any point and is gone on with by the next Run. Both databases may hold wide columns; merge
// operands and range deletions arrive resolved.
//
// Not thread-safe, except for `stop`.

#pragma once

#include <atomic>
#include <memory>
#include <string>
#include <vector>

#include "rocksdb/db.h"
#include "rocksdb/write_batch.h"
#include "tools/convert_source.h"
#include "tools/convert_state.h"
#include "tools/convert_target.h"

namespace cairn {

struct ConvertOptions {
  std::string source;
  std::string destination;
  std::string engine;
  std::vector<std::string> engine_options;
  std::vector<std::string> column_families;  // to convert; empty: all
  bool compact = false;                      // also merge until each key lies in one table
  bool check_space = true;
  uint64_t reserve_bytes = 0;               // of the destination's file system, to be left free
  const std::atomic<bool>* stop = nullptr;  // set: Run returns Incomplete soon
};

struct ConvertReport {
  bool was_whole_before = false;
  uint64_t records = 0;
  uint64_t column_families = 0;
  uint64_t source_bytes = 0;
  uint64_t destination_bytes = 0;
  std::vector<std::string> notes;
};

class Converter {
 public:
  explicit Converter(ConvertOptions options);
  ~Converter();

  // Incomplete: stopped, go on by running again. Corruption: source and destination differ.
  rocksdb::Status Run(ConvertReport* report);

 private:
  struct Session;  // the destination, open for writing

  rocksdb::Status CheckPaths();
  rocksdb::Status LoadOrBegin();
  rocksdb::Status CheckUnchanged() const;
  rocksdb::Status CheckSpace() const;
  rocksdb::Status OpenSession();
  void CloseSession();
  rocksdb::Status Copy();
  rocksdb::Status CopyFamily(size_t index);
  rocksdb::Status Settle();
  rocksdb::Status Verify();
  rocksdb::Status CompareFamily(size_t index);
  rocksdb::Status CountFamily(size_t index);
  rocksdb::Status Finish();
  rocksdb::Status Save();
  rocksdb::Status Write(rocksdb::WriteBatch* batch);
  rocksdb::Status WhyNotGoOn() const;
  rocksdb::Status WithRemedy(const rocksdb::Status& s) const;
  bool Stopped() const { return options_.stop != nullptr && options_.stop->load(std::memory_order_relaxed); }
  rocksdb::Status StoppedStatus() const;

  ConvertOptions options_;
  std::unique_ptr<ConvertSource> source_;
  ConvertTarget target_;
  ConvertState state_;
  std::unique_ptr<Session> session_;
};

// Bytes that must be free where the destination is to lie, for a source of `source_bytes`, of which `present_bytes` are
// already there.
uint64_t ConvertSpaceNeeded(uint64_t source_bytes, uint64_t present_bytes);

}  // namespace cairn
