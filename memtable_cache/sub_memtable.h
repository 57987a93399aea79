// A memtable whose entries lie in pieces of a pool. A write appends to the piece of its core and does nothing else; the
// indexes follow when somebody needs them (docs/sub_memtable.md):
//   - a hash of the keys, for point lookups while the memtable is written;
//   - sorted runs, for iterators while it is written;
//   - one sorted run of all entries, once it is read-only: for the flush, iterators, and lookups if there is no hash.
//
// Invariants
//   (1) An entry that was published before a lookup or an iterator began is in the index that it uses, or it is one of
//       the few behind the hash that a lookup looks at one by one.
//   (2) Every index reaches every entry, superseded or not: a snapshot may need it, and the flush counts them.
//   (3) ApproximateMemoryUsage does not change after MarkReadOnly.
//
// Thread-safety: as RocksDB's MemTableRep: any number of writers (each its own Allocate, then Insert) and of readers.
// Lock order: hash_mutex_ or sort_mutex_ -> pieces_mutex_ -> the pool's.

#pragma once

#include <atomic>
#include <memory>
#include <mutex>
#include <string>
#include <unordered_set>
#include <vector>

#include "cairn/memtable.h"
#include "memtable_cache/arena_charge.h"
#include "memtable_cache/hash_index.h"
#include "memtable_cache/key_order.h"
#include "memtable_cache/piece.h"
#include "memtable_cache/piece_pool.h"
#include "memtable_cache/sorted_run.h"
#include "rocksdb/memtablerep.h"

namespace cairn {

// The runs that an iterator goes over: all entries that were published when it was made.
using RunSet = std::vector<std::shared_ptr<const SortedRun>>;

class SubMemTable : public rocksdb::MemTableRep {
 public:
  SubMemTable(const SubMemTableOptions& options, std::shared_ptr<PiecePool> pool, const KeyComparator& comparator,
              rocksdb::Allocator* allocator, uint32_t column_family);
  ~SubMemTable() override;

  rocksdb::KeyHandle Allocate(size_t length, char** buffer) override;
  void Insert(rocksdb::KeyHandle handle) override;
  void InsertConcurrently(rocksdb::KeyHandle handle) override { Insert(handle); }

  bool Contains(const char* entry) const override;
  void MarkReadOnly() override;
  void MarkFlushed() override;
  void Get(const rocksdb::LookupKey& key, void* argument, bool (*callback)(void*, const char*)) override;
  uint64_t ApproximateNumEntries(const rocksdb::Slice& start, const rocksdb::Slice& end) override;
  void UniqueRandomSample(uint64_t num_entries, uint64_t target_sample_size,
                          std::unordered_set<const char*>* entries) override;
  size_t ApproximateMemoryUsage() override { return charged_.load(std::memory_order_relaxed); }
  Iterator* GetIterator(rocksdb::Arena* arena = nullptr) override;

  // Brings the runs up to date.
  std::shared_ptr<const RunSet> SortedRuns() const;
  const KeyOrder& order() const { return order_; }

 private:
  // The piece of a core; another thread of the same core may be in it.
  struct alignas(64) Slot {
    std::atomic<Piece*> piece{nullptr};
  };

  Piece* ClaimForWriting(size_t entry_bytes);
  // What a slot answers to a writer: its piece is the writer's now; it has no piece; another thread is in its piece;
  // its piece has no room, but is too good to be sealed for one large entry.
  enum class Answer { kClaimed, kEmpty, kBusy, kTooLarge };
  Answer TryClaim(Slot* slot, size_t entry_bytes, Piece** claimed);
  // A new piece, claimed, for a slot that has none; null if it has got one meanwhile.
  Piece* FillSlot(Slot* slot, size_t entry_bytes);
  Piece* OversizePiece(size_t entry_bytes);
  Piece* AddPiece(size_t at_least, bool oversize);
  void SealPiece(Piece* piece);
  size_t WantedPieceBytes() const;
  void ChargeLocked(size_t bytes) const;
  void ChargeIndex(size_t bytes) const;

  // The entries of a key that were published, but are not in the hash.
  class Unhashed;

  bool UsesHash() const;
  // Calls callback(argument, entry) for the versions of the key, newest first, until it returns false.
  void GetHashed(const rocksdb::LookupKey& key, void* argument, bool (*callback)(void*, const char*));
  // After a writer's `entries`-th entry in a piece: its part of the indexing, if there are lookups.
  void HelpReaders(uint64_t entries) const;
  // Returns when the hash has every entry that was published before the call, through whomever.
  void CatchUpHash() const;
  void UpdateHash() const;
  void UpdateHashLocked() const;
  // Whether the runs lack entries that have been published.
  bool RunsAreStale() const;
  // Calls visit(entry) for every entry that is new to an index and was published before. The caller holds the index's
  // mutex. Writers may be as fast as this is: what they publish meanwhile is left to the next call.
  // finish() is called before a piece's progress is stored: from then on, readers rely on the index.
  template <class Visitor, class Finish>
  void CatchUp(Piece::Progress Piece::*progress, std::atomic<Piece*>* first, Visitor&& visit, Finish&& finish) const;
  size_t CountEntries() const;
  std::shared_ptr<const SortedRun> SortAll() const;
  void AddRun(std::shared_ptr<const SortedRun> run) const;

  const SubMemTableOptions options_;
  const std::shared_ptr<PiecePool> pool_;
  const PieceLayout layout_;
  const PieceOwner owner_;
  const KeyOrder order_;
  const size_t block_bytes_;  // of the arena: an eighth of the write buffer
  mutable ArenaCharge arena_charge_;
  mutable std::atomic<size_t> charged_{0};
  std::atomic<bool> read_only_{false};

  size_t slot_mask_;
  std::unique_ptr<Slot[]> slots_;

  std::atomic<Piece*> last_piece_{nullptr};
  mutable std::mutex pieces_mutex_;  // guards what follows, and charges
  std::vector<std::unique_ptr<Piece>> pieces_;
  size_t slots_in_use_ = 0;

  mutable std::mutex hash_mutex_;                       // of the hash's only writer
  mutable std::atomic<Piece*> first_to_hash_{nullptr};  // the list of pieces that the hash is not done with
  mutable std::atomic<HashIndex*> hash_{nullptr};       // null: nobody has looked anything up
  mutable std::unique_ptr<HashIndex> hash_owner_;
  mutable size_t hash_charged_ = 0;
  mutable std::atomic<bool> looked_up_{false};  // lately; writers reset it
  mutable std::atomic<int> readers_behind_{0};  // readers that wait for the hash or work on it

  mutable std::mutex sort_mutex_;                       // guards what follows
  mutable std::atomic<Piece*> first_to_sort_{nullptr};  // the list of pieces that the runs are not done with
  mutable std::shared_ptr<const RunSet> runs_;
  mutable bool runs_are_final_ = false;
  mutable size_t runs_charged_ = 0;
};

}  // namespace cairn
