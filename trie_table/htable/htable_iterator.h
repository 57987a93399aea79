// Iterates over an HTable in hash order, both ways. A position is a home bucket, a segment of what belongs to it (its
// entries, with spilled cells and extents between them), and an entry.
//
// Thread-safety: as rocksdb::Iterator.

#pragma once

#include <memory>
#include <utility>
#include <vector>

#include "db/pinned_iterators_manager.h"
#include "rocksdb/options.h"
#include "table/hash_order/hash_order.h"
#include "table/internal_iterator.h"
#include "trie_table/htable/htable_file.h"
#include "util/key_buffer.h"

namespace cairn {

// What of readahead an iterator does by itself.
struct ScanOptions {
  bool use_cache = true;
  size_t readahead = 0;      // bytes from the first bucket on; 0: begins small after two buckets in a row, and grows
  size_t max_readahead = 0;  // that it grows to
};

class HTableIterator : public rocksdb::InternalIterator {
 public:
  // `file` must outlive it. A copy of read_options is kept.
  HTableIterator(const HTableFile* file, const KeyHash& hash, const rocksdb::ReadOptions& read_options,
                 const ScanOptions& scan);

  ~HTableIterator() override;

  bool Valid() const override { return valid_; }
  rocksdb::Status status() const override { return status_; }
  rocksdb::Slice key() const override { return key_.slice(); }
  rocksdb::Slice user_key() const override { return rocksdb::ExtractUserKey(key_.slice()); }
  rocksdb::Slice value() const override { return value_; }
  void SeekToFirst() override;
  void SeekToLast() override;
  void Seek(const rocksdb::Slice& target) override;
  void SeekForPrev(const rocksdb::Slice& target) override;
  void Next() override;
  bool NextAndGetResult(rocksdb::IterateResult* result) override;
  void Prev() override;
  void SetPinnedItersMgr(rocksdb::PinnedIteratorsManager* manager) override { pinned_ = manager; }
  bool IsValuePinned() const override;

 private:
  // Entries [first, last) of a unit: of the home bucket, of spills_[index] or, loaded when it is entered, of the extent
  // `index`, one of those of a hash, [begin, end).
  enum class Source : uint8_t { kHome, kSpill, kExtent };
  struct Segment {
    Source source = Source::kHome;
    uint32_t index = 0;
    uint32_t first = 0;
    uint32_t last = 0;
    uint32_t begin = 0;
    uint32_t end = 0;
  };
  struct Target {
    uint64_t hash;
    std::string_view key;
    uint64_t seq;
    uint8_t type;
  };

  const HTableIndex& index() const { return file_->index(); }
  bool Fail(const rocksdb::Status& status);
  // Lets a unit go, or leaves it to the manager of pinned units.
  void Release(UnitRef* unit);
  void Clear();
  // These return false on failure, with status_ set.
  bool LoadBucket(const HTableIndex::Place& place);
  bool LoadHome(const UnitPlace& place);
  bool FillBuffer(const UnitPlace& place);
  bool IsAhead(const UnitPlace& place) const {
    return ahead_offset_ <= place.offset && place.offset + place.size <= ahead_offset_ + ahead_.size();
  }
  bool FindSegments();
  bool LoadSpill(uint64_t offset, uint32_t* index);
  bool AddSpill(const HTableIndex::Spill& spill);
  bool EnterSegment(uint32_t segment);
  // To the next or previous extent of the same hash. False: there is none.
  static bool NextExtent(Segment* segment) {
    if (segment->source != Source::kExtent || segment->index + 1 >= segment->end) return false;
    ++segment->index;
    return true;
  }
  static bool PreviousExtent(Segment* segment) {
    if (segment->source != Source::kExtent || segment->index == segment->begin) return false;
    --segment->index;
    return true;
  }
  // Of the extents of the target's hash, enters the first that does not end before the target, or the last.
  bool EnterExtentOf(uint32_t segment, const Target& target);
  uint64_t HashOf(const UnitView& view, uint32_t entry) const {
    const std::string_view user_key = view.Key(entry);
    return hash_(rocksdb::Slice(user_key.data(), user_key.size()));
  }

  void ReleaseSpills();
  const UnitView& ViewOf(const Segment& segment) const;
  // Moves to the first or last entry of this segment, or of those that follow or precede, over buckets.
  void SettleForward(uint32_t segment);
  void SettleBackward(int64_t segment);
  void SetEntry(uint32_t entry);
  // Whether an entry is before the target.
  bool IsBefore(const UnitView& view, uint32_t entry, const Target& target) const;
  uint64_t SeqOf(const UnitEntry& entry) const {
    return file_->global_seqno() == rocksdb::kDisableGlobalSequenceNumber ? entry.seq : file_->global_seqno();
  }

  const HTableFile* const file_;
  const KeyHash hash_;
  const rocksdb::ReadOptions read_options_;
  const ScanOptions scan_;

  rocksdb::PinnedIteratorsManager* pinned_ = nullptr;
  bool valid_ = false;
  rocksdb::Status status_;
  HTableIndex::Place place_;
  std::vector<Segment> segments_;
  std::vector<std::pair<uint64_t, Segment>> elsewhere_;  // of LoadBucket
  uint32_t segment_ = 0;
  uint32_t entry_ = 0;
  KeyBuffer key_;
  rocksdb::Slice value_;

  UnitView home_;
  UnitRef home_ref_;
  std::vector<std::pair<uint64_t, UnitRef>> spills_;  // of the group, by offset
  uint32_t spill_group_ = UINT32_MAX;
  UnitRef extent_;
  uint64_t extent_index_ = UINT64_MAX;  // that extent_ holds

  // Bytes read ahead, and what leads to it.
  std::unique_ptr<char[]> buffer_;
  size_t buffer_size_ = 0;
  rocksdb::Slice ahead_;
  uint64_t ahead_offset_ = 0;
  size_t readahead_ = 0;
  uint64_t expected_offset_ = UINT64_MAX;
  int in_a_row_ = 0;
};

}  // namespace cairn
