// The result cache of one open database: what a read asks first, and what every write tells. Rules D1 to D8 are those
// of docs/design/result_cache.md.
//
//   Create        before the database is opened
//   Start         once it is open; from then on
//     Get, MultiGet                a read asks here, and gives the way to the database's own read
//     WriteScope                   around every write
//     ChangeScope, ChangeAllScope  around a change that is no list of keys
//     NoteFiles                    after the database has written a new MANIFEST or OPTIONS file
//   Stop          for good, before something is written that no rule covers
//
// What it is made of, in reading order: family_spaces.h, the space of each column family; cache_times.h, what is
// counted and timed; cache_fills.h, which answers are stored and when; cache_modes.h, the state machine of on and off;
// database_cache_reads.h, how a read goes; file_binding.h, a cache in a file.
//
// Thread-safety: safe from Start on; before, only WriteScope, the ChangeScopes and NoteFiles are.

#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "cairn/cache.h"
#include "cairn/result_cache.h"
#include "result_cache/cache_fills.h"
#include "result_cache/cache_log.h"
#include "result_cache/cache_modes.h"
#include "result_cache/cache_times.h"
#include "result_cache/family_spaces.h"
#include "result_cache/file_binding.h"
#include "result_cache/wal_report.h"
#include "result_cache/writer_rounds.h"
#include "rocksdb/cache.h"
#include "rocksdb/db.h"
#include "rocksdb/env.h"
#include "rocksdb/slice.h"
#include "rocksdb/status.h"
#include "rocksdb/write_batch.h"
#include "util/autovector.h"
#include "util/mutex.h"

namespace cairn {

class DatabaseCache {
 public:
  // Before the database, at `path` of `env`, is opened. `block_cache`: what its memory is charged to, or null.
  static rocksdb::Status Create(const DatabaseCacheOptions& options, rocksdb::Env* env, const std::string& path,
                                std::shared_ptr<rocksdb::Cache> block_cache, std::unique_ptr<DatabaseCache>* cache);
  ~DatabaseCache();
  DatabaseCache(const DatabaseCache&) = delete;
  DatabaseCache& operator=(const DatabaseCache&) = delete;

  // ---- while the database is opened ----

  bool in_file() const { return binding_ != nullptr; }
  // Of a cache in a file: what the opening is to fill in.
  WalReport* wal_report() { return &wal_report_; }
  // The database is locked, and its files are still those that were found.
  void LookAtFoundFiles();
  // Why this opening cannot tell whether the file is right.
  void DistrustFile(const std::string& why) { distrust_ = why; }

  // When it is open: reads are answered from now on, or never. `log` is the database's; `families` are all that it has.
  // One of them must be called.
  void Start(rocksdb::DB* db, std::shared_ptr<rocksdb::Logger> log,
             const std::vector<rocksdb::ColumnFamilyHandle*>& families);
  void NeverStart(std::shared_ptr<rocksdb::Logger> log, const std::string& why);

  void Stop(const std::string& why) { modes_.Stop(why); }

  // ---- reads (database_cache_reads.h) ----

  enum class Fills { kYes, kNo };
  enum class From { kCache, kTree };

  // Whether the cache is on. Who does not ask it because it is off calls AskedOrPassedBy once, which counts the read.
  bool asked() const { return modes_.asked(); }
  bool AskedOrPassedBy() {
    if (asked()) return true;
    modes_.PassBy(1);
    return false;
  }

  // read_tree(PinnableSlice*) is the database's own Get at the newest state.
  template <class ReadTree>
  rocksdb::Status Get(rocksdb::ColumnFamilyHandle* handle, const rocksdb::Slice& key, Fills fills,
                      rocksdb::PinnableSlice* value, From* from, const ReadTree& read_tree);

  // read_tree(count, handles, keys, values, statuses) is the database's own MultiGet. As RocksDB's, all values are of
  // one state of the database. *answers, which is empty: what the cache has answered to each key; it stays empty if all
  // were read from the tree.
  template <class ReadTree>
  void MultiGet(size_t count, rocksdb::ColumnFamilyHandle** handles, const rocksdb::Slice* keys, Fills fills,
                rocksdb::PinnableSlice* values, rocksdb::Status* statuses, std::vector<ResultCache::Answer>* answers,
                const ReadTree& read_tree);

  // ---- writes; a null cache does nothing ----

  // Rule D1: while it lives, no fill of a key that the batch writes succeeds, and the answers are gone. A null batch
  // writes nothing.
  class WriteScope {
   public:
    WriteScope(DatabaseCache* cache, const rocksdb::WriteBatch* batch);
    // Of a write of one key.
    WriteScope(DatabaseCache* cache, uint32_t family, const rocksdb::Slice& key);
    ~WriteScope();
    WriteScope(const WriteScope&) = delete;
    WriteScope& operator=(const WriteScope&) = delete;

    // Of a cache in a file, when the write is over: it is in that WAL (0: in none) with that sequence number
    // (kMaxSequenceNumber: it never got one).
    void Written(const rocksdb::Status& s, uint64_t wal, uint64_t sequence);

   private:
    class Collector;

    void BarKey(uint32_t family, const rocksdb::Slice& key);

    DatabaseCache* const cache_;
    const bool writes_;
    WriterRounds::Place place_ = nullptr;
    rocksdb::autovector<uint32_t, 16> stripes_;
    std::vector<uint32_t> families_;  // that change as a whole
    bool everything_ = false;
  };

  // Rule D4: while it lives, reads of the column families bypass the cache; what it held of them before is gone.
  class ChangeScope {
   public:
    ChangeScope(DatabaseCache* cache, std::vector<uint32_t> families);
    ~ChangeScope();
    ChangeScope(const ChangeScope&) = delete;
    ChangeScope& operator=(const ChangeScope&) = delete;

   private:
    DatabaseCache* const cache_;
    const std::vector<uint32_t> families_;
  };

  // The same of all column families.
  class ChangeAllScope {
   public:
    explicit ChangeAllScope(DatabaseCache* cache);
    ~ChangeAllScope();
    ChangeAllScope(const ChangeAllScope&) = delete;
    ChangeAllScope& operator=(const ChangeAllScope&) = delete;

   private:
    DatabaseCache* const cache_;
  };

  // ---- its file, and statistics ----

  // The database has other files than before, and not by a write: another MANIFEST or OPTIONS file perhaps.
  void NoteFiles();
  // Before the WAL of what is written now may be needed no more, and now and then: a loss of power leaves what the
  // cache holds now. Of a cache that does not survive one, and before Start, nothing.
  void TakePoint();
  // The same for the last time, while the database is still locked; unless it goes on.
  void BeginClose();
  void CancelClose();

  DatabaseCacheStats GetStats();

  // For tests: decides at once, by numbers of the test's, whether the cache pays.
  void TEST_Judge(double saved_per_read) { modes_.TEST_Judge(saved_per_read); }

 private:
  friend class CacheReader;

  DatabaseCache(const DatabaseCacheOptions& options, std::unique_ptr<ResultCache> cache,
                std::unique_ptr<FileBinding> binding);
  // Before the database's user has it. False: the file cannot be used.
  bool AdoptFile(const std::vector<rocksdb::ColumnFamilyHandle*>& families);
  // Before a change of whole families that no WAL tells of.
  void SettleFile();

  CacheTimes times_;  // first: every hit counts in it
  const DatabaseCacheOptions options_;
  const std::unique_ptr<ResultCache> cache_;
  const std::unique_ptr<FileBinding> binding_;  // null: it is in memory
  WalReport wal_report_;
  std::string distrust_;
  std::atomic<rocksdb::DB*> db_{nullptr};  // from Start on, of a cache whose items have stamps
  CheckedMutex point_mutex_;               // who takes a point
  CacheLog log_;
  FamilySpaces spaces_;
  CacheFills fills_;
  CacheModes modes_;
  std::atomic<uint64_t> checked_{0};
  std::atomic<uint64_t> wrong_{0};
};

// Deletes files of databases' caches that lie in the folder and are not in use.
void RemoveDatabaseCacheFiles(const std::string& folder);

}  // namespace cairn
