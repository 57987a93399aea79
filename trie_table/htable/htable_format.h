// The bytes of an HTable (docs/design/htable.md), apart from how they are read and written: units, the index of groups
// and extents, and the header. Needs nothing of RocksDB.
//
// Thread-safety: UnitView, HTableIndex and HTableHeader are immutable once decoded; UnitBuilder serves one thread.
//
// Source: LSM-trie (USENIX ATC 2015; section 4.2.4.2 of Wu's dissertation, UT Arlington 2018); groups, bounds and
// spills are ours.

#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "cairn/index_status.h"
#include "util/bits.h"

namespace cairn {

// Begins the header, and with it says that a file is an HTable.
constexpr uint64_t kHTableMagic = 0x9c41b7e25d0f8a63u;
// Ends the file: the number of RocksDB's plain table (format page, "Header, properties, footer").
constexpr uint64_t kHTableFooterMagic = 0x8242229663bf9564u;
constexpr uint32_t kHTableVersion = 2;
constexpr size_t kUnitHeaderSize = 16;
constexpr uint8_t kMaxUnitCompression = 15;
constexpr size_t kUnitPrefixSize = 8;  // base_seq
constexpr size_t kMaxUnitEntries = UINT16_MAX;
constexpr uint32_t kMinBucketSize = 4096;
constexpr uint32_t kMaxBucketSize = 32768;
constexpr size_t kExtentTarget = 32768;
// Bytes behind a payload in memory that a search may read.
constexpr size_t kUnitSlack = 32;

inline uint8_t TagOf(uint64_t hash) { return static_cast<uint8_t>(hash); }

// An entry as it is handed in and out. `key` and `value` belong to somebody else.
struct UnitEntry {
  std::string_view key;
  std::string_view value;
  uint64_t seq = 0;
  uint8_t type = 0;
};

// Bytes of an entry in a unit with narrow offsets, tag and offset included.
size_t UnitEntrySize(const UnitEntry& entry, uint64_t base_seq);

// Bytes that `size` bytes of entries (by UnitEntrySize) may take in a bucket, before compression.
constexpr size_t BucketCapacity(size_t bucket_size) { return bucket_size - kUnitHeaderSize - kUnitPrefixSize; }

// Lays out the payload of one unit, entries in order.
class UnitBuilder {
 public:
  enum class Offsets { kNarrow, kWide };

  // REQUIRES: base_seq is no larger than any entry's sequence number.
  void Start(uint64_t base_seq, Offsets offsets);
  // REQUIRES: fewer than kMaxUnitEntries so far; with narrow offsets the payload stays below 64 KiB.
  void Add(uint64_t hash, const UnitEntry& entry);
  size_t entries() const { return tags_.size(); }
  // Bytes of the payload.
  size_t size() const { return kUnitPrefixSize + tags_.size() * (1 + OffsetSize()) + data_.size(); }
  void AppendPayload(std::string* out) const;
  Offsets offsets() const { return offsets_; }

 private:
  size_t OffsetSize() const { return offsets_ == Offsets::kWide ? 4 : 2; }

  uint64_t base_seq_ = 0;
  Offsets offsets_ = Offsets::kNarrow;
  std::string tags_;
  std::vector<uint32_t> starts_;  // within data_
  std::string data_;
};

// Writes an uncompressed unit with narrow offsets where it is to lie, without a copy; the same bytes as UnitBuilder and
// AppendUnit make.
class UnitWriter {
 public:
  // The unit's `size` bytes at `unit` are zeros. REQUIRES: as UnitBuilder::Start; `entries` of them fit, by
  // UnitEntrySize.
  UnitWriter(char* unit, size_t size, uint64_t base_seq, size_t entries);
  void Add(uint64_t hash, const UnitEntry& entry);
  // When all entries are there. Returns the bytes of the payload; the unit begins at `offset` of the file.
  size_t Finish(uint64_t offset);

 private:
  char* const unit_;
  const size_t size_;
  const uint64_t base_seq_;
  const size_t entries_;
  char* tag_;
  char* start_;
  char* end_;
};

// The fixed part of a unit.
struct UnitHeader {
  uint32_t crc = 0;
  uint8_t compression = 0;  // at most kMaxUnitCompression
  bool wide = false;
  uint16_t entries = 0;
  uint32_t stored = 0;
  uint32_t raw = 0;
};

// Appends a unit that begins at `offset` of the file and takes `size` bytes there (0: as many as it needs).
void AppendUnit(const UnitHeader& fields, std::string_view stored_payload, uint64_t offset, size_t size,
                std::string* out);
// Fields that fit into `size` bytes, or Corruption; looks at no checksum.
IndexStatus DecodeUnitHeader(const char* unit, size_t size, UnitHeader* header);
// What AppendUnit stored as crc, computed from the bytes.
uint32_t UnitChecksum(const char* unit, size_t size, uint64_t offset);
// Stores it where AppendUnit does.
void SetUnitChecksum(char* unit, size_t size, uint64_t offset);

// A payload that is laid out in memory. kUnitSlack bytes behind it must be readable.
class UnitView {
 public:
  UnitView() = default;

  // Checks every entry once, so that the rest need not.
  static IndexStatus Open(const char* payload, size_t size, uint16_t entries, bool wide, UnitView* view);
  // Of a payload that Open has found right.
  static UnitView OfChecked(const char* payload, size_t size, uint16_t entries, bool wide) {
    UnitView view;
    view.payload_ = payload;
    view.offsets_ = payload + kUnitPrefixSize + entries;
    view.size_ = static_cast<uint32_t>(size);
    view.entries_ = entries;
    view.wide_ = wide;
    return view;
  }

  uint32_t entries() const { return entries_; }
  UnitEntry Entry(uint32_t i) const;
  std::string_view Key(uint32_t i) const;

  // The first entry at or behind `from` whose tag is that of `hash`; entries() if there is none.
  uint32_t FindTag(uint64_t hash, uint32_t from) const;

 private:
  uint32_t Start(uint32_t i) const {
    return wide_ ? LoadU32(offsets_ + size_t{4} * i) : LoadU16(offsets_ + size_t{2} * i);
  }
  uint32_t End(uint32_t i) const { return i + 1 == entries_ ? size_ : Start(i + 1); }

  const char* payload_ = nullptr;
  const char* offsets_ = nullptr;
  uint32_t size_ = 0;
  uint32_t entries_ = 0;
  bool wide_ = false;
};

// Where a part of the file lies.
struct FilePart {
  uint64_t offset = 0;
  uint64_t size = 0;
  uint32_t crc = 0;
};

// The checksum of a properties block, in which a global sequence number counts as zeros: RocksDB may write it into the
// file of an ingested table.
uint32_t PropertiesChecksum(std::string_view properties);

struct HTableHeader {
  static constexpr size_t kSize = 16 + 10 * 8 + 6 * 20 + 4;

  uint32_t bucket_size = 0;
  uint64_t entries = 0;
  uint64_t cells = 0;
  uint64_t first_hash = 0;
  uint64_t last_hash = 0;
  uint64_t groups = 0;
  uint64_t homes = 0;
  uint64_t spill_buckets = 0;
  uint64_t spills = 0;
  uint64_t extents = 0;
  uint64_t used_bytes = 0;
  FilePart group_index;
  FilePart extent_index;
  FilePart dictionary;
  FilePart filter;  // trie_table/bloom_cluster/bloom_table.h; size 0: none
  FilePart metaindex;
  FilePart properties;

  void AppendTo(std::string* out) const;
  // `file_size`: all parts must lie within it.
  static IndexStatus Decode(std::string_view bytes, uint64_t file_size, HTableHeader* header);
};

// One group as it is written.
struct GroupPlan {
  uint64_t first = 0;         // hash
  uint32_t first_bucket = 0;  // of the file's, counted from its begin
  uint16_t spill_buckets = 0;
  uint8_t shift = 0;
  std::vector<uint16_t> bounds;
  std::vector<uint32_t> spills;
};

struct ExtentPlan {
  uint64_t hash = 0;
  uint64_t offset = 0;
  uint64_t min_seq = 0;
  uint32_t size = 0;
};

// The step of a hash in a group (format page, "Group index").
inline uint32_t StepOf(uint64_t hash, uint64_t first, unsigned shift) {
  if (hash <= first) return 0;
  const uint64_t step = (hash - first) >> shift;
  return step > UINT16_MAX ? UINT16_MAX : static_cast<uint32_t>(step);
}
// The smallest shift that keeps the steps of hashes first ... last within 16 bits.
inline uint8_t ShiftFor(uint64_t first, uint64_t last) {
  const unsigned width = BitWidth(last - first);
  return static_cast<uint8_t>(width > 16 ? width - 16 : 0);
}

void AppendGroupIndex(const std::vector<GroupPlan>& groups, std::string* out);
void AppendExtentIndex(const std::vector<ExtentPlan>& extents, std::string* out);

// What a reader keeps in memory.
class HTableIndex {
 public:
  // A home bucket and what belongs to it.
  struct Place {
    uint32_t group = 0;
    uint32_t bucket = 0;  // of all home buckets of the table
    uint64_t offset = 0;  // in the file
    uint32_t step = 0;    // of the hash asked for
  };

  // Checks all invariants. The bytes are copied.
  static IndexStatus Open(const HTableHeader& header, std::string_view group_index, std::string_view extent_index,
                          HTableIndex* index);

  uint32_t bucket_size() const { return bucket_size_; }
  uint32_t homes() const { return static_cast<uint32_t>(bounds_.size()); }
  bool empty() const { return groups_.empty(); }
  size_t groups() const { return groups_.size(); }

  // REQUIRES: !empty().
  Place Find(uint64_t hash) const;
  uint32_t StepIn(uint32_t group, uint64_t hash) const {
    return StepOf(hash, groups_[group].first, groups_[group].shift);
  }
  // The place of home bucket `bucket`; step is its bound.
  Place PlaceOf(uint32_t bucket) const;
  // The next home bucket's. REQUIRES: there is one.
  Place After(const Place& place) const;
  // Smallest hash of the bucket behind `place`'s; false if it is the last one.
  bool NextFirstHash(const Place& place, uint64_t* hash) const;

  bool HasSpills(uint32_t group) const { return groups_[group].spills > 0; }
  // The spill bucket that may hold a cell of this hash, from entry *cursor of the group's spills on; *cursor starts at
  // 0. False: no more.
  bool FindSpill(const Place& place, uint64_t hash, uint32_t* cursor, uint64_t* offset) const;
  // The group's spills with steps from those of `place`'s bucket: first ... last, exclusive, for SpillAt.
  void SpillsOf(const Place& place, uint32_t* first, uint32_t* last) const;
  struct Spill {
    uint32_t step;
    uint8_t tag;
    uint64_t offset;
  };
  Spill SpillAt(uint32_t group, uint32_t i) const;

  const std::vector<ExtentPlan>& extents() const { return extents_; }
  // The extents of one hash: first ... last, exclusive.
  void ExtentsOf(uint64_t hash, uint32_t* first, uint32_t* last) const;
  // The extents whose hashes belong to a home bucket.
  void ExtentsOf(const Place& place, uint32_t* first, uint32_t* last) const;

  uint64_t GroupOffset(uint32_t group) const { return uint64_t{groups_[group].first_bucket} * bucket_size_; }
  uint32_t GroupHomes(uint32_t group) const { return groups_[group].homes; }
  uint32_t GroupSpillBuckets(uint32_t group) const { return groups_[group].spill_buckets; }
  uint64_t GroupFirst(uint32_t group) const { return groups_[group].first; }

  // Bytes in memory.
  size_t bytes() const {
    return group_guess_.capacity() * sizeof(uint32_t) + groups_.capacity() * sizeof(Group) +
           bounds_.capacity() * sizeof(uint16_t) + spills_.capacity() * sizeof(uint32_t) +
           extents_.capacity() * sizeof(ExtentPlan);
  }

 private:
  struct Group {
    uint64_t first;
    uint32_t first_bucket;
    uint32_t first_bound;
    uint32_t first_spill;
    uint32_t guess;  // home buckets per step, in 1 / 2^20
    uint16_t homes;
    uint16_t spill_buckets;
    uint16_t spills;
    uint8_t shift;
  };

  uint32_t GroupOf(uint64_t hash) const;
  // The bound of a bucket as a hash.
  uint64_t FirstHash(uint32_t group, uint32_t bucket) const;

  uint32_t bucket_size_ = 0;
  unsigned group_shift_ = 0;  // of hashes, to positions in group_guess_
  uint64_t first_hash_ = 0;
  std::vector<uint32_t> group_guess_;  // the group that holds the first hash of each of a row of equal ranges
  std::vector<Group> groups_;
  std::vector<uint16_t> bounds_;
  std::vector<uint32_t> spills_;
  std::vector<ExtentPlan> extents_;
};

}  // namespace cairn
