// How many bytes a column family has written since it was created, so that its write amplification survives a restart
// without a file of its own: every table carries the totals of the time when it was made ("cairn.written"), without
// itself, and the largest totals among the live tables are where a new process goes on from. Of the last compactions
// before a restart, those that began at the same total count as far as their tables are still there.
//
// Where no scheduler of ours sees whole files (SILT stores), a table counts its own data blocks when it is finished,
// and carries totals with itself.
//
// Thread-safety: safe.

#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <map>
#include <memory>
#include <string>

#include "rocksdb/slice.h"
#include "rocksdb/table_properties.h"

namespace cairn {

enum class WrittenBy { kFlush, kCompaction, kCountedElsewhere };

struct WrittenTotals {
  std::atomic<uint64_t> flushed_bytes{0};    // by flushes and ingestion: what entered the column family
  std::atomic<uint64_t> compacted_bytes{0};  // by compactions

  void Add(WrittenBy by, uint64_t bytes);

  // Raises both to at least what the live tables record.
  void RaiseTo(uint64_t flushed, uint64_t compacted);
};

// The totals of one column family of one open database; made at first use, kept until they are forgotten.
std::shared_ptr<WrittenTotals> WrittenTotalsOf(const std::string& db_session_id, uint32_t column_family_id);

// For a database that is being closed. Whoever still has totals may go on with them.
void ForgetWrittenTotals(const std::string& db_session_id);

// What a table carries; false if it carries nothing readable.
bool DecodeWrittenTotals(const rocksdb::UserCollectedProperties& properties, uint64_t* flushed, uint64_t* compacted);

// Gathers what live tables record. Tables of one compaction were made with the same totals: all that are left of them
// count.
class WrittenTotalsReader {
 public:
  // A table without a record changes nothing.
  void Add(const rocksdb::UserCollectedProperties& properties, uint64_t file_size, bool flushed);
  void RaiseTotals(WrittenTotals* totals) const;

 private:
  uint64_t flushed_ = 0;
  std::map<uint64_t, uint64_t> compacted_since_;  // by the total when they were made: bytes of those tables
};

std::string EncodeWrittenTotals(const WrittenTotals& totals);

constexpr char kWrittenProperty[] = "cairn.written";
constexpr char kSketchProperty[] = "cairn.sketch";

}  // namespace cairn
