// The result cache of one open database: what a read asks first, and what every write tells (docs/design/result_cache.md,
// rules D1 to D7).
//
// Each column family has a space of the cache, or none (ResultCache::kNoSpace): then its reads pass by. A family gets
// its first space when it is read first, because only then are its options at hand; writers bar the keys of families
// that nobody has read as well, so no space can begin with an old answer.
//
// Modes
//   opening  no spaces, writers bar
//   on       families have spaces, writers bar
//   trial    the same of one key in eight, with an eighth of the memory, after it was off
//   off      nothing was gained: no spaces, writers do not bar
//   waking   writers bar again; spaces come when those that began before have ended (WriterRounds)
//   stopped  for good: an answer was wrong, or something was written that no rule covers
//
// Thread-safety: safe.

#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "cairn/cache.h"
#include "cairn/result_cache.h"
#include "result_cache/cache_benefit.h"
#include "result_cache/cache_judge.h"
#include "result_cache/file_binding.h"
#include "result_cache/get_or_begin.h"
#include "result_cache/per_thread.h"
#include "result_cache/staged_fills.h"
#include "result_cache/wal_report.h"
#include "result_cache/writer_rounds.h"
#include "rocksdb/cache.h"
#include "rocksdb/db.h"
#include "rocksdb/env.h"
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

  bool in_file() const { return binding_ != nullptr; }
  // Of a cache in a file: what is to be filled in while the database is opened.
  WalReport* wal_report() { return &wal_report_; }
  // While the database is opened: it is locked, and its files are still those that were found.
  void LookAtFoundFiles();
  // Why the opening does not tell whether the file is right.
  void DistrustFile(const std::string& why) { distrust_ = why; }

  // When it is open: reads are answered from now on, or never. `log` is the database's; `families` are all that it has.
  // One of them must be called.
  void Start(std::shared_ptr<rocksdb::Logger> log, const std::vector<rocksdb::ColumnFamilyHandle*>& families);
  void NeverStart(std::shared_ptr<rocksdb::Logger> log, const std::string& why);

  // For good: something is about to be written that no rule covers.
  void Stop(const std::string& why);

  enum class Fills { kYes, kNo };
  enum class From { kCache, kTree };

  // read_tree(PinnableSlice*) is the database's own Get at the newest state. What every hit runs through is here, all
  // else in functions of its own.
  template <class ReadTree>
  rocksdb::Status Get(rocksdb::ColumnFamilyHandle* handle, const rocksdb::Slice& key, Fills fills,
                      rocksdb::PinnableSlice* value, From* from, const ReadTree& read_tree) {
    *from = From::kTree;
    const Asked asked = asked_.load(std::memory_order_relaxed);
    if (__builtin_expect(asked != Asked::kForAll, 0))
      return GetOfSample(asked, handle, key, fills, value, from, read_tree);
    const size_t place = cache::ThreadCell();
    const uint64_t number = cache::AddInCell(place, &cells_[place].reads, 1);
    const Family* const family = Find(handle->GetID());
    const uint32_t space = SpaceOf(family);
    if (__builtin_expect(space == ResultCache::kNoSpace || IsWatched(cells_[place], asked, number, 1), 0)) {
      return GetWatched(asked, place, number, handle, key, fills, value, from, read_tree);
    }
    uint64_t hash = 0;
    const ResultCache::Answer answer =
        cache::GetIn(place, cache_.get(), {key.data(), key.size()}, value->GetSelf(), space, &hash);
    // Else the space may be another family's by now.
    if (__builtin_expect(answer == ResultCache::Answer::kMiss || SpaceOf(family) != space, 0)) {
      Read read{family, space, {key.data(), key.size()}, {}};
      return GetMissed(place, &read, hash, fills, value, from, read_tree);
    }
    return Hit(place, answer, value, from);
  }

  // read_tree(count, handles, keys, values, statuses) is the database's own MultiGet. As RocksDB's, all values are of
  // one state of the database. *answers, which is empty: what the cache has answered to each key; it stays empty if all
  // were read from the tree.
  template <class ReadTree>
  void MultiGet(size_t count, rocksdb::ColumnFamilyHandle** handles, const rocksdb::Slice* keys, Fills fills,
                rocksdb::PinnableSlice* values, rocksdb::Status* statuses, std::vector<ResultCache::Answer>* answers,
                const ReadTree& read_tree) {
    // All its keys belong to the sample if the first one does.
    const Asked asked = asked_.load(std::memory_order_relaxed);
    if (asked == Asked::kForNone) {
      PassBy(count);
      read_tree(count, handles, keys, values, statuses);
      return;
    }
    if (asked == Asked::kForSample && !InSample(keys[0])) {
      Beside beside(this, handles[0], count);
      read_tree(count, handles, keys, values, statuses);
      beside.Found(statuses[0]);
      return;
    }
    const size_t place = cache::ThreadCell();
    Cell* const cell = &cells_[place];
    const uint64_t number = cache::AddInCell(place, &cell->reads, count);
    Watch watch(this, cell, asked, number, count);
    ReadMany many;
    if (watch.by_tree() || !ProbeMany(count, handles, keys, values, &many)) {
      read_tree(count, handles, keys, values, statuses);
      watch.Found(statuses[0]);
      return;
    }
    const size_t misses = many.misses.size();
    if (misses > 0) {
      many.SetTree(handles, keys);
      read_tree(misses, many.tree_handles.data(), many.tree_keys.data(), many.tree_values.data(),
                many.tree_statuses.data());
    }
    if (misses < count && !StillRight(many)) {
      read_tree(count, handles, keys, values, statuses);
      return;
    }
    Deliver(&many, fills, values, statuses);
    watch.Found(statuses[0]);
    if (misses < count) *answers = std::move(many.answers);
  }

  // Rule D1: while it lives, no fill of a key that the batch writes succeeds, and the answers are gone. A null batch
  // writes nothing.
  class WriteScope {
   public:
    WriteScope(DatabaseCache* cache, const rocksdb::WriteBatch* batch);
    ~WriteScope();
    WriteScope(const WriteScope&) = delete;
    WriteScope& operator=(const WriteScope&) = delete;

    // Of a cache in a file, when the write is over: it is in that WAL (0: in none) with that sequence number
    // (kMaxSequenceNumber: it never got one).
    void Written(const rocksdb::Status& s, uint64_t wal, uint64_t sequence);

   private:
    class Collector;

    DatabaseCache* const cache_;
    const bool writes_;
    WriterRounds::Place place_ = nullptr;
    rocksdb::autovector<uint32_t, 16> stripes_;
    std::vector<uint32_t> families_;  // that change as a whole
    bool everything_ = false;
  };

  // Rule D4: while it lives, the column families' reads pass by; what was known of them before is gone.
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

  // The database has other files than before, and not by a write: another MANIFEST or OPTIONS file perhaps.
  void NoteFiles();
  // The same for the last time, while the database is still locked; unless it goes on.
  void BeginClose();
  void CancelClose();

  DatabaseCacheStats GetStats();

  // For tests: decides at once, by numbers of the test's, whether the cache pays.
  void TEST_Judge(double saved_per_read);

 private:
  enum class Mode { kOpening, kOn, kTrial, kOff, kWaking, kStopped };

  struct Family {
    std::atomic<uint32_t> space{ResultCache::kNoSpace};
    std::atomic<bool> known{false};  // whether `allowed` is known
    std::atomic<bool> allowed{true};
    int changes = 0;  // under way; guarded by DatabaseCache::mutex_, as what follows
    uint32_t id = 0;
    uint64_t options = 0;  // hash of those that make answers what they are
  };
  // Families by id; the second level is made when it is needed.
  static constexpr uint64_t kPassed = 256;  // counted together
  static constexpr size_t kFamiliesAPage = 256;
  static constexpr size_t kPages = 1024;
  static constexpr uint32_t kMaxFamilies = kPages * kFamiliesAPage;
  struct Page {
    std::atomic<Family*> families[kFamiliesAPage] = {};
  };

  struct Read {
    const Family* family;
    uint32_t space;
    std::string_view key;
    ResultCache::FillTicket ticket;
  };

  struct ReadMany {
    std::vector<const Family*> families;
    std::vector<std::string_view> keys;
    std::vector<uint32_t> spaces;
    std::vector<std::string*> strings;
    std::vector<ResultCache::Answer> answers;
    std::vector<ResultCache::FillTicket> tickets;
    std::vector<size_t> misses;
    std::vector<rocksdb::ColumnFamilyHandle*> tree_handles;
    std::vector<rocksdb::Slice> tree_keys;
    std::vector<rocksdb::PinnableSlice> tree_values;
    std::vector<rocksdb::Status> tree_statuses;

    void SetCount(size_t count);
    void SetTree(rocksdb::ColumnFamilyHandle** handles, const rocksdb::Slice* all_keys);
  };

  static constexpr size_t kCells = cache::kThreadCells;
  // Of a thread. A run of its reads that ask the tree only ends before read `run_end`; the next one begins at
  // `next_run`, or at once if another gauge holds.
  struct alignas(64) Cell {
    std::atomic<uint64_t> reads{0};
    std::atomic<uint64_t> barred{0};
    std::atomic<uint64_t> writes{0};
    std::atomic<uint64_t> run_end{0};
    std::atomic<uint64_t> next_run{0};
    std::atomic<uint32_t> gauge{0};
  };

  // Whose reads ask the cache.
  enum class Asked : uint32_t { kForNone, kForSample, kForAll };

  // One read in so many asks cache and tree, and compares.
  static constexpr uint64_t kSampleMask = 1023;
  // One in so many of the reads is timed: of those that ask the cache, and during a trial of the sample's and of the
  // others'.
  static constexpr uint64_t kTimedMask = 31;
  static constexpr uint64_t kTimedInTrialMask = 3;
  static constexpr uint64_t kTimedBeside = 32;
  // Keys of which one is in the sample of a trial, and the memory's part.
  static constexpr uint64_t kTrialPart = 8;

  // To know what the cache saves, some reads of a thread in a row, of each so many, ask the tree only, and of their
  // second half one in so many is timed. During the first half the processor's caches lack what the tree needs for
  // popular keys; if the gain is small, that matters, and only a long run tells what a tree without a cache takes.
  struct Gauge {
    uint64_t period;
    uint64_t run;
    uint64_t timed_mask;
  };
  static constexpr uint32_t kGaugeNames = 4;
  static constexpr Gauge kGauges[] = {  // in the order of CacheJudge::Gauge
      {uint64_t{1} << 14, uint64_t{1} << 11, 1},
      {uint64_t{1} << 20, uint64_t{1} << 12, 3},
      {uint64_t{1} << 18, uint64_t{1} << 14, 15}};

  // Of `count` reads from that number on.
  static bool IsWatched(const Cell& cell, Asked asked, uint64_t number, uint64_t count) {
    const uint64_t mask = asked == Asked::kForAll ? kTimedMask : kTimedInTrialMask;
    return (number & mask) < count || number < cell.run_end.load(std::memory_order_relaxed);
  }
  const Gauge& BeginRun(Cell* cell, uint64_t number) const {
    const uint32_t name = gauge_.load(std::memory_order_relaxed);
    const Gauge& gauge = kGauges[name % kGaugeNames];
    if (cell->gauge.load(std::memory_order_relaxed) != name) {
      cell->gauge.store(name, std::memory_order_relaxed);
      const bool at_once = name % kGaugeNames == static_cast<uint32_t>(CacheJudge::Gauge::kLong);
      cell->run_end.store(0, std::memory_order_relaxed);
      cell->next_run.store(at_once ? number : number + gauge.period - gauge.run, std::memory_order_relaxed);
    }
    if (number >= cell->next_run.load(std::memory_order_relaxed)) {
      cell->run_end.store(number + gauge.run, std::memory_order_relaxed);
      cell->next_run.store(number + gauge.period, std::memory_order_relaxed);
    }
    return gauge;
  }

  // Times reads, and looks now and then at what was found.
  class Watch {
   public:
    Watch(DatabaseCache* cache, Cell* cell, Asked asked, uint64_t number, uint64_t count)
        : cache_(cache), count_(count), looks_((number & kSampleMask) < count) {
      // Reads that are compared ask both, and are no measure.
      bool timed = !looks_ && (number & (asked == Asked::kForAll ? kTimedMask : kTimedInTrialMask)) < count;
      if (asked == Asked::kForAll) {
        const Gauge& gauge = cache->BeginRun(cell, number);
        const uint64_t end = cell->run_end.load(std::memory_order_relaxed);
        by_tree_ = number < end;
        if (by_tree_) timed = end - number <= gauge.run / 2 && (number & gauge.timed_mask) < count;
      }
      begin_ = timed ? Nanoseconds() : 0;
    }
    ~Watch() {
      if (begin_ != 0) {
        cache_->benefit_.AddRead(by_tree_ ? CacheBenefit::kByTree : CacheBenefit::kByCache, found_,
                                 (Nanoseconds() - begin_) / count_);
      }
      if (looks_) cache_->Look();
    }
    Watch(const Watch&) = delete;
    Watch& operator=(const Watch&) = delete;
    bool by_tree() const { return by_tree_; }
    bool looks() const { return looks_; }
    void Found(const rocksdb::Status& s) { found_ = KindOf(s); }

   private:
    DatabaseCache* const cache_;
    const uint64_t count_;
    const bool looks_;
    bool by_tree_ = false;
    CacheBenefit::Found found_ = CacheBenefit::kValue;
    uint64_t begin_ = 0;
  };
  // During a trial, reads of keys that are not in the sample: what a tree without a cache takes.
  class Beside {
   public:
    Beside(DatabaseCache* cache, rocksdb::ColumnFamilyHandle* handle, uint64_t count) : cache_(cache), count_(count) {
      const bool timed = cache->PassBy(count) % kTimedBeside < count;
      if (timed && SpaceOf(cache->FamilyOf(handle)) != ResultCache::kNoSpace) begin_ = Nanoseconds();
    }
    ~Beside() {
      if (begin_ != 0) cache_->benefit_.AddRead(CacheBenefit::kByTree, found_, (Nanoseconds() - begin_) / count_);
    }
    Beside(const Beside&) = delete;
    Beside& operator=(const Beside&) = delete;
    void Found(const rocksdb::Status& s) { found_ = KindOf(s); }

   private:
    DatabaseCache* const cache_;
    const uint64_t count_;
    CacheBenefit::Found found_ = CacheBenefit::kValue;
    uint64_t begin_ = 0;
  };
  static CacheBenefit::Found KindOf(const rocksdb::Status& s) {
    return s.IsNotFound() ? CacheBenefit::kAbsent : CacheBenefit::kValue;
  }

  DatabaseCache(const DatabaseCacheOptions& options, std::unique_ptr<ResultCache> cache,
                std::unique_ptr<FileBinding> binding);

  struct Opened;
  static rocksdb::Status OpenFile(ResultCacheOptions* own, rocksdb::Env* env, const std::string& path, Opened* opened);

  static uint64_t Nanoseconds();
  static uint32_t SpaceOf(const Family* family) {
    return family == nullptr ? ResultCache::kNoSpace : family->space.load(std::memory_order_seq_cst);
  }
  static rocksdb::Status ToStatus(ResultCache::Answer answer, rocksdb::PinnableSlice* value) {
    if (answer == ResultCache::Answer::kAbsent) return rocksdb::Status::NotFound();
    value->PinSelf();
    return rocksdb::Status::OK();
  }

  // The cache's answer, if the family still has the space: else it may be another's by now. *hash: of the key.
  ResultCache::Answer Probe(size_t place, const Read& read, std::string* value, uint64_t* hash) {
    const ResultCache::Answer answer = cache::GetIn(place, cache_.get(), read.key, value, read.space, hash);
    return SpaceOf(read.family) == read.space ? answer : ResultCache::Answer::kMiss;
  }
  // After a miss: whether what the tree answers from now on is to be filled in. Then the family still has the space.
  bool BeginFill(size_t place, Read* read, uint64_t hash) {
    return cache::BeginFillOf(place, cache_.get(), hash, read->space, &read->ticket) &&
           SpaceOf(read->family) == read->space;
  }
  // With a ticket whatever the answer is, so that it can be told whether a writer came.
  ResultCache::Answer ProbeWithTicket(Read* read, std::string* value) {
    read->ticket = cache_->BeginFill(read->key);
    const ResultCache::Answer answer = cache_->Get(read->key, value, read->space);
    return SpaceOf(read->family) == read->space ? answer : Refuse(read);
  }
  static ResultCache::Answer Refuse(Read* read) {
    read->ticket = ResultCache::FillTicket();
    return ResultCache::Answer::kMiss;
  }
  bool keeps_absent() const { return keeps_absent_.load(std::memory_order_relaxed); }
  // Whether it is there now.
  bool Fill(const Read& read, const rocksdb::Status& s, const rocksdb::Slice& value);

  // What is admitted: now, or when a read has time for it.
  void FillLater(const Read& read, StagedFills* staged, const rocksdb::Status& s, const rocksdb::Slice& value);
  void FillOne(StagedFills* staged);
  void FillAll(StagedFills* staged);
  void FillAll();

  rocksdb::Status Hit(size_t place, ResultCache::Answer answer, rocksdb::PinnableSlice* value, From* from) {
    *from = From::kCache;
    if (__builtin_expect(!staged_[place].empty(), 0)) FillOne(&staged_[place]);
    return ToStatus(answer, value);
  }

  template <class ReadTree>
  rocksdb::Status GetByCache(size_t place, Read* read, Fills fills, rocksdb::PinnableSlice* value, From* from,
                             const ReadTree& read_tree) {
    uint64_t hash = 0;
    const ResultCache::Answer answer = Probe(place, *read, value->GetSelf(), &hash);
    return answer == ResultCache::Answer::kMiss ? GetMissed(place, read, hash, fills, value, from, read_tree)
                                                : Hit(place, answer, value, from);
  }

  // `hash`: of the key.
  template <class ReadTree>
  __attribute__((noinline)) rocksdb::Status GetMissed(size_t place, Read* read, uint64_t hash, Fills fills,
                                                      rocksdb::PinnableSlice* value, From* from,
                                                      const ReadTree& read_tree) {
    StagedFills* const staged = &staged_[place];
    if (staged->Holds(read->key, read->space)) {
      FillAll(staged);
      const ResultCache::Answer answer = Probe(place, *read, value->GetSelf(), &hash);
      if (answer != ResultCache::Answer::kMiss) return Hit(place, answer, value, from);
    }
    const bool fill = fills == Fills::kYes && BeginFill(place, read, hash);
    rocksdb::Status s = read_tree(value);
    if (fill) FillLater(*read, staged, s, *value);
    return s;
  }

  // A read that is to be timed or compared, or of a family without a space.
  template <class ReadTree>
  __attribute__((noinline)) rocksdb::Status GetWatched(Asked asked, size_t place, uint64_t number,
                                                       rocksdb::ColumnFamilyHandle* handle, const rocksdb::Slice& key,
                                                       Fills fills, rocksdb::PinnableSlice* value, From* from,
                                                       const ReadTree& read_tree) {
    const Family* const family = FamilyOf(handle);
    Read read{family, SpaceOf(family), {key.data(), key.size()}, {}};
    if (read.space == ResultCache::kNoSpace) return read_tree(value);
    if (!IsWatched(cells_[place], asked, number, 1)) {
      return GetByCache(place, &read, fills, value, from, read_tree);
    }
    Watch watch(this, &cells_[place], asked, number, 1);
    rocksdb::Status s = watch.by_tree() ? read_tree(value)
                        : watch.looks() ? GetChecked(&read, fills, value, read_tree)
                                        : GetByCache(place, &read, fills, value, from, read_tree);
    watch.Found(s);
    return s;
  }

  // While the cache answers reads of a sample only, or none.
  template <class ReadTree>
  __attribute__((noinline)) rocksdb::Status GetOfSample(Asked asked, rocksdb::ColumnFamilyHandle* handle,
                                                        const rocksdb::Slice& key, Fills fills,
                                                        rocksdb::PinnableSlice* value, From* from,
                                                        const ReadTree& read_tree) {
    if (asked == Asked::kForNone) {
      PassBy(1);
      return read_tree(value);
    }
    if (!InSample(key)) {
      Beside beside(this, handle, 1);
      rocksdb::Status s = read_tree(value);
      beside.Found(s);
      return s;
    }
    const size_t place = cache::ThreadCell();
    const uint64_t number = cache::AddInCell(place, &cells_[place].reads, 1);
    return GetWatched(asked, place, number, handle, key, fills, value, from, read_tree);
  }

  // With the tree's answer beside the cache's.
  template <class ReadTree>
  rocksdb::Status GetChecked(Read* read, Fills fills, rocksdb::PinnableSlice* value, const ReadTree& read_tree) {
    std::string cached;
    const ResultCache::Answer answer = ProbeWithTicket(read, &cached);
    rocksdb::Status s = read_tree(value);
    if (answer != ResultCache::Answer::kMiss) {
      Check(*read, answer, cached, s, *value);
    } else if (fills == Fills::kYes) {
      Fill(*read, s, *value);
    }
    return s;
  }
  void Check(const Read& read, ResultCache::Answer answer, const std::string& cached, const rocksdb::Status& s,
             const rocksdb::Slice& value);

  bool InSample(const rocksdb::Slice& key) const;

  bool ProbeMany(size_t count, rocksdb::ColumnFamilyHandle** handles, const rocksdb::Slice* keys,
                 rocksdb::PinnableSlice* values, ReadMany* many);
  bool StillRight(const ReadMany& many) const;
  void Deliver(ReadMany* many, Fills fills, rocksdb::PinnableSlice* values, rocksdb::Status* statuses);

  const Family* FamilyOf(rocksdb::ColumnFamilyHandle* handle) {
    const Family* const family = Find(handle->GetID());
    return family != nullptr && family->known.load(std::memory_order_acquire) ? family : Meet(handle);
  }
  // Null: nobody has asked for it yet.
  Family* Find(uint32_t id) const {
    if (id >= kMaxFamilies) return nullptr;
    const Page* const page = pages_[id / kFamiliesAPage].load(std::memory_order_seq_cst);
    return page == nullptr ? nullptr : page->families[id % kFamiliesAPage].load(std::memory_order_seq_cst);
  }
  const Family* Meet(rocksdb::ColumnFamilyHandle* handle);
  // What is known of it now; with no space. Null: there is no place for it.
  Family* Examine(rocksdb::ColumnFamilyHandle* handle, const rocksdb::ColumnFamilyDescriptor& descriptor)
      CAIRN_REQUIRES(mutex_);
  void AdoptFile(const std::vector<rocksdb::ColumnFamilyHandle*>& families) CAIRN_REQUIRES(mutex_);
  void AdoptSpaces(const std::vector<rocksdb::ColumnFamilyHandle*>& families) CAIRN_REQUIRES(mutex_);
  // Empty: nothing is against it.
  std::string WhyNot(const rocksdb::ColumnFamilyDescriptor& family) const;

  Family* Make(uint32_t id) CAIRN_REQUIRES(mutex_);
  void RenewSpace(Family* family) CAIRN_REQUIRES(mutex_);
  void RenewSpaces() CAIRN_REQUIRES(mutex_);
  uint32_t FreshSpace() CAIRN_REQUIRES(mutex_);
  void SetMode(Mode mode) CAIRN_REQUIRES(mutex_);
  void Judge(const CacheJudge::Window& window) CAIRN_REQUIRES(mutex_);
  void TurnOff(const std::string& why) CAIRN_REQUIRES(mutex_);
  void SetGauge() CAIRN_REQUIRES(mutex_);

  void CountChanges(const std::vector<uint32_t>& families, int by);

  // Now and then: whether the cache pays.
  void Look();
  void LookLocked() CAIRN_REQUIRES(mutex_);
  // What a window is compared with.
  struct Seen {
    CacheBenefit::Counts counts;
    uint64_t hits = 0;
    uint64_t misses = 0;
    uint64_t item_bytes = 0;
  };
  Seen SeenNow(const ResultCache::Statistics& cache) const;
  // Reads that do not ask the cache. Returns how many the thread has counted of late.
  uint64_t PassBy(uint64_t count) {
    thread_local uint64_t passed = 0;
    passed += count;
    const uint64_t now = passed;
    if (passed >= kPassed) CountPassed(&passed);
    return now;
  }
  void CountPassed(uint64_t* passed);
  void TryToWake();
  void TryToWakeLocked() CAIRN_REQUIRES(mutex_);
  uint64_t Reads() const;
  uint64_t Barred() const;
  bool HasSpaces() const CAIRN_REQUIRES(mutex_) { return mode_ == Mode::kOn || mode_ == Mode::kTrial; }
  void LogLine(const std::string& line) const CAIRN_REQUIRES(mutex_);
  void WarnOfStrangeNames(const std::vector<rocksdb::ColumnFamilyHandle*>& families) const CAIRN_REQUIRES(mutex_);

  const DatabaseCacheOptions options_;
  const uint64_t max_item_bytes_;
  const std::unique_ptr<ResultCache> cache_;
  const std::unique_ptr<FileBinding> binding_;  // null: it is in memory
  WalReport wal_report_;
  std::string distrust_;
  std::atomic<bool> closing_{false};
  std::atomic<bool> keeps_absent_;  // what is to be stored; what is there stays
  CacheBenefit benefit_;
  WriterRounds rounds_;
  std::atomic<bool> barring_{true};
  std::atomic<Asked> asked_{Asked::kForNone};  // but for none, families may have spaces
  std::atomic<uint64_t> sample_{0};            // which of kTrialPart
  std::atomic<uint32_t> gauge_{0};             // the judge's, and how often it was set times kGaugeNames
  std::atomic<Page*> pages_[kPages] = {};
  Cell cells_[kCells];
  StagedFills staged_[kCells];  // memory is touched by who reads first
  std::atomic<uint64_t> checked_{0};
  std::atomic<uint64_t> wrong_{0};
  std::atomic<uint64_t> changes_{0};
  std::atomic<uint64_t> wake_at_{UINT64_MAX};  // reads, after which a pause or a trial ends

  mutable CheckedMutex mutex_;
  Mode mode_ CAIRN_GUARDED_BY(mutex_) = Mode::kOpening;
  std::shared_ptr<rocksdb::Logger> log_ CAIRN_GUARDED_BY(mutex_);
  std::vector<std::unique_ptr<Page>> all_pages_ CAIRN_GUARDED_BY(mutex_);
  std::vector<std::unique_ptr<Family>> all_families_ CAIRN_GUARDED_BY(mutex_);
  uint32_t next_space_ CAIRN_GUARDED_BY(mutex_) = 0;
  CacheJudge judge_ CAIRN_GUARDED_BY(mutex_);
  Seen seen_ CAIRN_GUARDED_BY(mutex_);
  uint64_t files_noted_at_ CAIRN_GUARDED_BY(mutex_) = 0;  // reads
  double saved_ CAIRN_GUARDED_BY(mutex_) = 0;
  uint64_t mode_began_ CAIRN_GUARDED_BY(mutex_) = 0;  // reads
  uint64_t times_off_ CAIRN_GUARDED_BY(mutex_) = 0;
};

// Deletes files of databases' caches that lie in the folder and are not in use.
void RemoveDatabaseCacheFiles(const std::string& folder);

}  // namespace cairn
