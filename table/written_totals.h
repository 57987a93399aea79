// How many bytes a column family has written since it was created, so that its write amplification survives a restart
// without a file of its own: every table carries the totals at its birth ("cairn.written"), without itself, and the
// largest totals among the live tables are where a new process goes on from. What the last compaction before a crash
// wrote besides one table is forgotten; nothing else is.
//
// Thread-safety: safe.

#pragma once

#include <atomic>
#include <cstdint>
#include <memory>
#include <string>

#include "rocksdb/slice.h"
#include "rocksdb/table_properties.h"

namespace cairn {

struct WrittenTotals {
  std::atomic<uint64_t> flushed_bytes{0};    // by flushes and ingestion: what entered the column family
  std::atomic<uint64_t> compacted_bytes{0};  // by compactions

  // Raises both to at least what a live table records, itself included; a table without a record changes nothing.
  void RaiseTo(const rocksdb::UserCollectedProperties& properties, uint64_t file_size, bool flushed);
};

// The totals of one column family of one open database; made at first use, kept while the process lives.
std::shared_ptr<WrittenTotals> WrittenTotalsOf(const std::string& db_session_id, uint32_t column_family_id);

std::string EncodeWrittenTotals(const WrittenTotals& totals);

constexpr char kWrittenProperty[] = "cairn.written";
constexpr char kSketchProperty[] = "cairn.sketch";

}  // namespace cairn
