// A lookup of a key, or of those of a batch, in the tables of a Version that may hold them, one after the other, newest
// first: what Version::Get and MultiGet do with a table's answer, for tables that somebody else has chosen.
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

#include <array>
#include <cstdint>
#include <optional>

#include "db/lookup_key.h"
#include "db/merge_context.h"
#include "db/pinned_iterators_manager.h"
#include "db/read_callback.h"
#include "db/version_set.h"
#include "rocksdb/options.h"
#include "rocksdb/port/read_sample.h"
#include "table/get_context.h"
#include "table/multiget_context.h"

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

class VersionLookup {
 public:
  VersionLookup(rocksdb::Version* version, const VersionRequest& request);
  VersionLookup(const VersionLookup&) = delete;
  VersionLookup& operator=(const VersionLookup&) = delete;

  enum class Next { kOlderTable, kNothing };
  // After the caller has asked a table that may hold the key to hand its entries to context(): what it said, and its
  // level. kNothing: the answer is complete.
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

// Ends a lookup without an answer from a table: no table that was not asked may hold the key. *lookup: none, if no
// table was asked.
void FinishLookup(rocksdb::Version* version, const VersionRequest& request, std::optional<VersionLookup>* lookup);

class VersionBatch {
 public:
  VersionBatch(rocksdb::Version* version, const rocksdb::ReadOptions& options, rocksdb::MultiGetContext::Range* range,
               rocksdb::ReadCallback* callback);
  ~VersionBatch();
  VersionBatch(const VersionBatch&) = delete;
  VersionBatch& operator=(const VersionBatch&) = delete;

  // Whether a batch can be looked up so: what it asks for and what memtables said is not more than a value or operands,
  // and the Version has no blobs, which RocksDB fetches together.
  static bool Serves(rocksdb::Version* version, const rocksdb::MultiGetContext::Range& range);

  // Asks a table of this level, by ask(), that may hold the keys at these places; ask() sets their statuses and fills
  // their contexts. Returns those whose answers are not complete.
  template <class AskTable>
  uint64_t AskBy(int level, uint64_t places, const AskTable& ask) {
    BeginTable(level, places);
    ask();
    return EndTable(level, places);
  }
  // What AskBy does before it asks, for a caller whose filters are to find the keys' contexts, too. Tables come by
  // level.
  void BeginTable(int level, uint64_t places);
  // No older table may hold the key.
  void Finish(size_t place);
  // Of a key that is done.
  const rocksdb::Status& StatusAt(size_t place) { return *KeyAt(place)->s; }
  // Whether its values are more than the options allow; the keys that remain are then aborted.
  bool IsOverLimit() const { return over_limit_; }
  void Abort(uint64_t places);
  // Whether this key is counted in RocksDB's samples of reads.
  bool IsSampled(size_t place) const;

  rocksdb::KeyContext* KeyAt(size_t place) const { return keys_[place]; }

 private:
  bool HasContext(size_t place) const { return (has_context_ >> place & 1) != 0; }
  // REQUIRES: HasContext.
  const rocksdb::GetContext* ContextAt(size_t place) const;
  rocksdb::GetContext* ContextAt(size_t place);
  // The same; makes it.
  rocksdb::GetContext* MakeContext(size_t place);
  uint64_t EndTable(int level, uint64_t places);
  // Of a table's answer; false if older tables may know more.
  bool IsComplete(size_t place, int level);
  // Adds up what a key's context says that was read, and forgets it there.
  void TakeReads(rocksdb::GetContext* context);
  // What was read in a level goes into RocksDB's histograms.
  void EndLevel();
  void Done(size_t place);
  void Found(rocksdb::KeyContext* key, int level);
  void CountSize(const rocksdb::KeyContext& key);

  const rocksdb::ReadOptions& options_;
  const rocksdb::ImmutableOptions& immutable_;
  rocksdb::MultiGetContext::Range* const range_;
  rocksdb::ReadCallback* const callback_;
  rocksdb::PinnedIteratorsManager pinned_iterators_;
  std::optional<port::VersionBlobFetcher> blobs_;
  bool over_limit_ = false;
  // Of the level that is being asked; each table of level 0 is one by itself, as for RocksDB.
  int level_ = -1;
  uint64_t indexes_and_filters_read_ = 0, tables_read_ = 0;
  uint64_t levels_read_ = 0;
  std::array<rocksdb::KeyContext*, rocksdb::MultiGetContext::MAX_BATCH_SIZE> keys_;  // by place, those of the range
  // Of keys that a table was asked about, by place: objects that are made there. (Options of them would all be cleared
  // first, 16 KiB of them.)
  uint64_t has_context_ = 0;
  alignas(rocksdb::GetContext) char contexts_[rocksdb::MultiGetContext::MAX_BATCH_SIZE][sizeof(rocksdb::GetContext)];
};

}  // namespace cairn
