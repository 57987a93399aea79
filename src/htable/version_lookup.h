// A lookup of one key in the tables of a Version that may hold it, one after the other, newest first: what Version::Get
// does with a table's answer, for tables that somebody else has chosen.
//
// Entries, values, merge operands, blobs, visibility and counters are RocksDB's GetContext's business, as they are
// when RocksDB chooses the tables.
//
// Invariants
//   (1) Each table that may hold the key is asked, in the order of age, until an answer is complete.
//   (2) None of these tables has range deletions, and no row cache stands before them.
//
// Thread-safety: one thread. The Version is held by the caller.

#pragma once

#include <cstdint>
#include <optional>

#include "db/lookup_key.h"
#include "db/merge_context.h"
#include "db/pinned_iterators_manager.h"
#include "db/read_callback.h"
#include "db/version_set.h"
#include "rocksdb/options.h"
#include "src/htable/htable_reader.h"
#include "src/port/blob_fetcher.h"
#include "table/get_context.h"

namespace cairn {

// The parameters of Version::Get, but for those of internal reads that want more than a value.
struct VersionRequest {
  const rocksdb::ReadOptions& options;
  const rocksdb::LookupKey& key;
  rocksdb::PinnableSlice* value = nullptr;
  rocksdb::PinnableWideColumns* columns = nullptr;
  // OK, or MergeInProgress if memtables hold merge operands.
  rocksdb::Status* status = nullptr;
  rocksdb::MergeContext* merge_context = nullptr;
  rocksdb::SequenceNumber* max_covering_tombstone_seq = nullptr;
  rocksdb::PinnedIteratorsManager* pinned_iterators = nullptr;
  bool* value_found = nullptr;
  rocksdb::ReadCallback* callback = nullptr;
  bool* is_blob = nullptr;
  bool do_merge = true;
};

// A table of a Version, which keeps it open.
struct VersionTable {
  const HTableReader* reader = nullptr;
  rocksdb::FileMetaData* file = nullptr;
  int level = 0;
};

class VersionLookup {
 public:
  VersionLookup(rocksdb::Version* version, const VersionRequest& request);
  VersionLookup(const VersionLookup&) = delete;
  VersionLookup& operator=(const VersionLookup&) = delete;

  enum class Next { kOlderTable, kNothing };
  // Asks a table that may hold the key. `hash` is the key's. kNothing: the answer is complete.
  Next Ask(const VersionTable& table, uint64_t hash);
  // The same for a table that the caller asks, to hand its entries to context(): what it said, and its level.
  Next Take(const rocksdb::Status& s, int level);
  rocksdb::GetContext* context() { return &context_; }
  // No older table may hold the key.
  void Finish();
  // Whether this one is counted in RocksDB's samples of reads.
  bool sampled() const { return context_.sample(); }

 private:
  // Of a value that was found in a table of this level.
  void Found(int level);
  void ReadBlob();
  void ReportCounters() {
    if (options_.stats != nullptr) context_.ReportCounters();
  }

  rocksdb::Version* const version_;
  const VersionRequest& request_;
  const rocksdb::ImmutableOptions& options_;
  bool is_blob_ = false;
  // Only what is merged is fetched by the context.
  std::optional<port::VersionBlobFetcher> blobs_;
  rocksdb::GetContext context_;
};

}  // namespace cairn
