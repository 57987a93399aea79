// Which filters answer for which open tables: one FilterContainer for each container of the trie, and the
// FilterDirectory of a table factory that finds them.
//
// A container has up to 64 members, the open tables whose files lie in its slots. Readers ask it through an immutable
// snapshot; whoever opens or closes a table makes a new snapshot. Where filters are in memory a snapshot holds a few
// images that answer for all members at once; else it says for every member which block's pages answer for it: the one
// that names most of the open tables.
//
// Invariants
//   (1) A member's number does not change while it is open, and what a snapshot says about it holds for its table:
//       tables are immutable.
//   (2) A snapshot covers all members that joined before it was made; so a table's own lookups always find it covered.
//   (3) An image or block may name tables that are gone. Their bits are ignored, and a number that is given out again
//       only gets false positives from them.
//
// Thread-safety: all methods. Lookups take no lock (util/hazard.h); joining and leaving lock the container.

#pragma once

#include <array>
#include <atomic>
#include <cstdint>
#include <memory>
#include <unordered_map>
#include <vector>

#include "cache/cache_reservation_manager.h"
#include "trie_table/bloom_cluster/bloom_block.h"
#include "trie_table/bloom_cluster/bloom_filter.h"
#include "trie_table/bloom_cluster/bloom_table.h"
#include "trie_table/bloom_cluster/filter_budget.h"
#include "util/mutex.h"

namespace cairn {

class FilterContainer;
class FilterThread;
struct FilterMemo;

constexpr double kMaxBitsPerKey = 20;

class FilterDirectory : public std::enable_shared_from_this<FilterDirectory> {
 public:
  // Of all builders and readers of one table factory.
  // REQUIRES: the residency is not kAuto.
  explicit FilterDirectory(const FilterOptions& options) : options_(options), memory_share_(options.memory_share) {}

  const FilterOptions& options() const { return options_; }
  // Whether it would be made of these, but for what can be changed.
  bool IsOf(const FilterOptions& options) const {
    return options_.bits_per_key == options.bits_per_key && options_.bits_per_depth == options.bits_per_depth &&
           options_.residency == options.residency && options_.clusters == options.clusters;
  }
  FilterCounters* mutable_counters() { return &counters_; }
  const FilterCounters& counters() const { return counters_; }
  bool WritesClustersAt(int depth) const;

  // What a key at this depth of the trie gets now in a file (-1: no trie).
  double BitsAt(int depth) const;
  // And in memory; 0: the filters of this depth are asked by pages.
  double BitsInMemoryAt(int depth) const;
  // A table with so many keys at this depth is being opened (1) or closed (-1).
  void CountTable(int depth, int change, uint64_t keys, const std::shared_ptr<rocksdb::Cache>& cache);
  // Drops other filters from memory, or reads a few, as is planned since the last table. Who shares the cache drops
  // what is now too much.
  // REQUIRES: the caller holds no lock of a container.
  void FitToPlan();
  // For tables that are opened from now on.
  void SetMemoryShare(double share) { memory_share_.store(share, std::memory_order_relaxed); }
  // What each depth that has tables takes.
  std::vector<FilterDepth> Depths();
  bool HasTablesAt(int depth) const {
    return depth < kMaxDepths && tables_at_depth_[static_cast<size_t>(depth)].load(std::memory_order_relaxed) > 0;
  }

  // The container with this name; a new one, that nobody else will find, for 0.
  std::shared_ptr<FilterContainer> Find(uint64_t name);
  // The same, or null if no table of it is open.
  std::shared_ptr<FilterContainer> FindOpen(uint64_t name);

  // Keeps count of the memory, charged to the first cache that was ever given; if that has a strict limit, only while
  // half of it stays free for blocks, as of all that open tables hold (table/reader_charge.h).
  void ChangeMemory(int64_t bytes, const std::shared_ptr<rocksdb::Cache>& cache);

 private:
  static constexpr int kMaxDepths = 64;
  using Charge = rocksdb::CacheReservationManagerImpl<rocksdb::CacheEntryRole::kMisc>;

  uint64_t MostCharged() const CAIRN_REQUIRES(charge_mutex_);
  std::vector<std::shared_ptr<FilterContainer>> OpenContainers();
  std::vector<FilterNeed> Needs() const;  // down to the deepest depth that has tables
  // The deepest depth that has tables, or this one.
  int DeepestFrom(int depth) const;
  // Whether some depth gets more or less than before.
  bool Plan(const std::shared_ptr<rocksdb::Cache>& cache);
  void FitContainers(int may_grow);
  void FitIfTooMuch();

  const FilterOptions options_;
  FilterCounters counters_;
  std::array<std::atomic<int>, kMaxDepths> tables_at_depth_{};
  std::array<std::atomic<uint64_t>, kMaxDepths> keys_at_depth_{};
  // With kCache: bits per key in memory.
  std::array<std::atomic<uint8_t>, kMaxDepths> planned_bits_{};
  std::array<std::atomic<bool>, kMaxDepths> stays_in_memory_{};  // while it has not twice the keys
  std::atomic<double> memory_share_;
  std::atomic<bool> must_fit_{false};
  CheckedMutex plan_mutex_;
  std::shared_ptr<rocksdb::Cache> planned_cache_ CAIRN_GUARDED_BY(plan_mutex_);
  CacheShare share_ CAIRN_GUARDED_BY(plan_mutex_);
  bool is_listed_ CAIRN_GUARDED_BY(plan_mutex_) = false;
  CheckedMutex mutex_;
  std::unordered_map<uint64_t, std::weak_ptr<FilterContainer>> containers_ CAIRN_GUARDED_BY(mutex_);
  size_t sweep_at_ CAIRN_GUARDED_BY(mutex_) = 64;
  CheckedMutex charge_mutex_;
  std::shared_ptr<rocksdb::Cache> charged_cache_ CAIRN_GUARDED_BY(charge_mutex_);
  std::shared_ptr<Charge> charge_ CAIRN_GUARDED_BY(charge_mutex_);
};

// A block, the numbers of its slots' tables in the container (kGone for those that are not open), and these as a set.
struct FilterCover {
  static constexpr uint8_t kGone = 255;
  std::shared_ptr<const FilterBlock> block;
  std::array<uint8_t, kMaxFilterSlots> member_of_slot;
  uint64_t members = 0;
};

class FilterContainer {
 public:
  static constexpr unsigned kNoMember = kMaxFilterSlots;

  // may_plan: the directory finds it again when it plans its memory anew.
  FilterContainer(FilterDirectory* directory, bool may_plan);
  ~FilterContainer();
  FilterContainer(const FilterContainer&) = delete;
  FilterContainer& operator=(const FilterContainer&) = delete;

  // Makes a table a member and sets *member to its number; kNoMember if there is no room, or if a table of this
  // identity is open already: then it needs a container of its own.
  rocksdb::Status Join(const FilterContext& context, const rocksdb::ReadOptions& read_options,
                       const std::shared_ptr<const FilterBlock>& block, unsigned* member);
  void Leave(unsigned member);

  // Counts in RocksDB's perf context and statistics, for the table of `context`.
  bool MayContain(const rocksdb::ReadOptions& read_options, unsigned member, const FilterContext& context,
                  uint64_t hash) const;
  // The same for the wanted places of a batch; returns those that may be there.
  uint64_t MayContainBatch(const rocksdb::ReadOptions& read_options, unsigned member, const FilterContext& context,
                           FilterBatch* batch) const;

  // Those of `members` whose tables may hold a key. Counts nothing.
  // REQUIRES: these members stay open meanwhile.
  uint64_t MayHold(const rocksdb::ReadOptions& read_options, uint64_t members, int depth, uint64_t hash,
                   FilterThread* thread) const;

  enum class Found {
    kNone,     // no open table here has the key
    kTable,    // *table may have it, and no newer one has
    kUnknown,  // a filter is not in memory, or the table is being closed
  };
  Found FindNewest(size_t place, uint64_t hash, std::shared_ptr<const HTableFile>* table) const;

  // What a new table at `level` may carry along: the blocks of the tables beneath it, each table in one of them.
  // *precision: the most precise of them.
  std::vector<FilterCover> Beneath(int level, unsigned* precision) const;

  // A member's part of the images' memory.
  size_t MemoryOf(unsigned member) const;

  // Fits its images to what the directory has planned. Whether it has read some for that.
  bool Fit(bool may_grow);

  // Whether it answers from memory now.
  bool in_memory() const { return in_memory_.load(std::memory_order_relaxed); }
  void AddTo(std::vector<FilterDepth>* depths) const;

  // Images (or covers), for tests.
  size_t sources() const;

 private:
  struct Image {
    std::shared_ptr<const FilterImage> image;
    unsigned shift = 0;    // member of slot 0
    uint64_t members = 0;  // that it knows of, open or not
  };
  struct Peer {
    int level = -1;
    uint64_t newest = 0;
    // Weak: a snapshot that is out of date must not keep a file open.
    std::weak_ptr<const HTableFile> table;
    bool IsNewerThan(const Peer& other) const {
      return level < other.level || (level == other.level && newest > other.newest);
    }
  };
  struct Snapshot {
    uint64_t version = 0;
    bool in_memory = false;
    std::vector<Image> images;        // if it is
    std::vector<FilterCover> covers;  // if it is not
    std::array<uint8_t, kMaxFilterSlots> cover_of_member{};
    uint64_t live = 0;
    std::vector<Peer> peers;  // by member
    unsigned first = 0;       // the newest member
    unsigned last = 0;        // the oldest one

    // What the images say, by member.
    uint64_t ProbeImages(uint64_t hash) const;
    const FilterCover& CoverOf(unsigned member) const { return covers[cover_of_member[member]]; }
  };
  struct Member {
    uint64_t table_id = 0;
    Peer peer;
    std::shared_ptr<const FilterBlock> block;
  };

  // What is known of `hash` and `member`, valid until the thread's next question.
  const FilterMemo* FindOut(const rocksdb::ReadOptions& read_options, unsigned member, int depth, uint64_t hash,
                            FilterThread* thread) const;
  // Answers for `member`, and for all others that the same pages know of: sets *known and, where a key may be, *may.
  void Ask(const rocksdb::ReadOptions& read_options, unsigned member, uint64_t hash, const Snapshot& snapshot,
           uint64_t* known, uint64_t* may) const;
  // MayHold, where filters are not in memory.
  uint64_t AskPages(const rocksdb::ReadOptions& read_options, uint64_t members, uint64_t hash, const Snapshot& snapshot,
                    FilterMemo* memo) const;
  // Overlaps the cache misses of the lookups that follow.
  void Prefetch(const uint64_t* hashes, size_t count) const;
  // The batch's questions to members of this container and others that are to be asked together.
  struct BatchQuestions;
  // Answers from memory. `places` are those that the batch's memos do not know.
  void ProbeBatch(const FilterBatch& batch, uint64_t places, FilterThread* thread) const;
  void ReadBatch(const rocksdb::ReadOptions& read_options, unsigned member, const FilterContext& context,
                 FilterBatch* batch, uint64_t places, FilterThread* thread) const;
  // Adds the questions that the memos do not answer; for the newest member if it is kNoMember.
  void AddQuestions(unsigned member, const FilterBatch& batch, uint64_t places, FilterThread* thread,
                    BatchQuestions* questions) const;
  rocksdb::Status AddImage(const rocksdb::ReadOptions& read_options, const std::shared_ptr<const FilterBlock>& block,
                           unsigned member) CAIRN_REQUIRES(mutex_);
  // Images of all members again, or none.
  void Reload(const rocksdb::ReadOptions& read_options, double bits) CAIRN_REQUIRES(mutex_);
  // For a new member: as many as are planned.
  rocksdb::Status AddImages(const rocksdb::ReadOptions& read_options, const std::shared_ptr<const FilterBlock>& block,
                            unsigned member) CAIRN_REQUIRES(mutex_);
  void DropImages() CAIRN_REQUIRES(mutex_);
  // At least so many of them.
  void MergeImages(size_t at_least) CAIRN_REQUIRES(mutex_);
  std::vector<FilterCover> ChooseCovers(uint64_t members) const CAIRN_REQUIRES(mutex_);
  void Publish() CAIRN_REQUIRES(mutex_);

  FilterDirectory* const directory_;
  const bool may_plan_;
  std::atomic<bool> in_memory_{false};  // the last snapshot's
  // The version of the snapshot, so that lookups need not touch it. Acquire and release with the snapshot.
  std::atomic<uint64_t> version_{0};
  std::atomic<const Snapshot*> snapshot_{nullptr};

  mutable CheckedMutex mutex_;
  uint64_t live_ CAIRN_GUARDED_BY(mutex_) = 0;
  std::array<Member, kMaxFilterSlots> members_ CAIRN_GUARDED_BY(mutex_);
  double image_bits_ CAIRN_GUARDED_BY(mutex_) = 0;  // per key; 0: there are no images
  std::vector<Image> images_ CAIRN_GUARDED_BY(mutex_);
  std::shared_ptr<rocksdb::Cache> cache_ CAIRN_GUARDED_BY(mutex_);
  int depth_ CAIRN_GUARDED_BY(mutex_) = -1;
};

}  // namespace cairn
