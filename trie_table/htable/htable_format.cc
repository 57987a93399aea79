#include "trie_table/htable/htable_format.h"

#include <algorithm>
#include <cstring>

#include "util/checksum.h"
#include "util/format_version.h"

#if defined(__AVX2__)
#include <immintrin.h>
#elif defined(__SSE2__)
#include <emmintrin.h>
#elif defined(__aarch64__)
#include <arm_neon.h>
#endif

namespace cairn {

namespace {

constexpr size_t kGroupSize = 20;
constexpr size_t kExtentSize = 28;
// A unit begins with kUnitMark and a byte of 0x40 to 0x5f: no key of RocksDB's plain table (format page, "Unit").
constexpr uint8_t kUnitMark = 0;
constexpr uint8_t kUnitFlag = 0x40;
constexpr uint8_t kUnitFlagMask = 0xe0;
static_assert((kUnitFlagMask & (kMaxUnitCompression << 1 | 1)) == 0, "a compression type has no room");
constexpr uint8_t kWideFlag = 1;
constexpr size_t kUnitCrcOffset = 4;
constexpr unsigned kGuessBits = 20;

IndexStatus Bad(const char* what) { return IndexStatus::Corruption(what); }

void PutVarint(std::string* out, uint64_t v) {
  while (v >= 0x80) {
    out->push_back(static_cast<char>(v | 0x80));
    v >>= 7;
  }
  out->push_back(static_cast<char>(v));
}

size_t VarintSize(uint64_t v) { return v == 0 ? 1 : (BitWidth(v) + 6) / 7; }

// Reads a number of at most 32 bits from bytes before `end`; null if it does not end there.
const char* GetVarint32(const char* p, const char* end, uint32_t* v) {
  if (p < end && static_cast<uint8_t>(*p) < 0x80) {
    *v = static_cast<uint8_t>(*p);
    return p + 1;
  }
  uint64_t value = 0;
  for (unsigned shift = 0; p < end && shift < 35; shift += 7) {
    const uint8_t byte = static_cast<uint8_t>(*p++);
    value |= uint64_t{byte & 0x7fu} << shift;
    if (byte < 0x80) {
      if (value > UINT32_MAX) return nullptr;
      *v = static_cast<uint32_t>(value);
      return p;
    }
  }
  return nullptr;
}

unsigned SeqBytes(uint64_t delta) { return (BitWidth(delta) + 7) / 8; }

// All of it but the checksum, which is 0.
void EncodeUnitHeader(const UnitHeader& fields, char* unit) {
  const uint32_t no_crc = 0;
  unit[0] = static_cast<char>(kUnitMark);
  unit[1] = static_cast<char>(kUnitFlag | fields.compression << 1 | (fields.wide ? kWideFlag : 0));
  memcpy(unit + 2, &fields.entries, sizeof(fields.entries));
  memcpy(unit + kUnitCrcOffset, &no_crc, sizeof(no_crc));
  memcpy(unit + 8, &fields.stored, sizeof(fields.stored));
  memcpy(unit + 12, &fields.raw, sizeof(fields.raw));
}

void PutPart(std::string* out, const FilePart& part) {
  PutU64(out, part.offset);
  PutU64(out, part.size);
  PutU32(out, part.crc);
}

}  // namespace

size_t UnitEntrySize(const UnitEntry& entry, uint64_t base_seq) {
  return 1 + 2 + 1 + VarintSize(entry.key.size()) + SeqBytes(entry.seq - base_seq) + entry.key.size() +
         entry.value.size();
}

void UnitBuilder::Start(uint64_t base_seq, Offsets offsets) {
  base_seq_ = base_seq;
  offsets_ = offsets;
  tags_.clear();
  starts_.clear();
  data_.clear();
}

void UnitBuilder::Add(uint64_t hash, const UnitEntry& entry) {
  tags_.push_back(static_cast<char>(TagOf(hash)));
  starts_.push_back(static_cast<uint32_t>(data_.size()));
  const uint64_t delta = entry.seq - base_seq_;
  const unsigned width = SeqBytes(delta);
  data_.push_back(static_cast<char>(entry.type | width << 5));
  PutVarint(&data_, entry.key.size());
  data_.append(reinterpret_cast<const char*>(&delta), width);
  data_.append(entry.key);
  data_.append(entry.value);
}

void UnitBuilder::AppendPayload(std::string* out) const {
  PutU64(out, base_seq_);
  out->append(tags_);
  const uint32_t base = static_cast<uint32_t>(kUnitPrefixSize + tags_.size() * (1 + OffsetSize()));
  for (uint32_t start : starts_) {
    if (offsets_ == Offsets::kWide) {
      PutU32(out, base + start);
    } else {
      PutU16(out, static_cast<uint16_t>(base + start));
    }
  }
  out->append(data_);
}

uint32_t UnitChecksum(const char* unit, size_t size, uint64_t offset) {
  const uint32_t before_crc = Crc32c(unit, kUnitCrcOffset);
  const size_t behind_crc = kUnitCrcOffset + sizeof(uint32_t);
  return Crc32c(unit + behind_crc, size - behind_crc, before_crc) ^
         (static_cast<uint32_t>(offset / kMinBucketSize) * 0x9e3779b1u);
}

void SetUnitChecksum(char* unit, size_t size, uint64_t offset) {
  const uint32_t crc = UnitChecksum(unit, size, offset);
  memcpy(unit + kUnitCrcOffset, &crc, sizeof(crc));
}

void AppendUnit(const UnitHeader& fields, std::string_view stored_payload, uint64_t offset, size_t size,
                std::string* out) {
  const size_t start = out->size();
  UnitHeader header = fields;
  header.stored = static_cast<uint32_t>(stored_payload.size());
  char encoded[kUnitHeaderSize];
  EncodeUnitHeader(header, encoded);
  out->append(encoded, sizeof(encoded));
  out->append(stored_payload);
  if (size != 0) out->resize(start + size, '\0');
  SetUnitChecksum(&(*out)[start], out->size() - start, offset);
}

UnitWriter::UnitWriter(char* unit, size_t size, uint64_t base_seq, size_t entries)
    : unit_(unit), size_(size), base_seq_(base_seq), entries_(entries) {
  tag_ = unit + kUnitHeaderSize + kUnitPrefixSize;
  start_ = tag_ + entries;
  end_ = start_ + entries * sizeof(uint16_t);
}

void UnitWriter::Add(uint64_t hash, const UnitEntry& entry) {
  *tag_++ = static_cast<char>(TagOf(hash));
  const auto start = static_cast<uint16_t>(end_ - unit_ - static_cast<ptrdiff_t>(kUnitHeaderSize));
  memcpy(start_, &start, sizeof(start));
  start_ += sizeof(start);
  const uint64_t delta = entry.seq - base_seq_;
  const unsigned width = SeqBytes(delta);
  char* p = end_;
  *p++ = static_cast<char>(entry.type | width << 5);
  uint64_t key_size = entry.key.size();
  for (; key_size >= 0x80; key_size >>= 7) *p++ = static_cast<char>(key_size | 0x80);
  *p++ = static_cast<char>(key_size);
  for (unsigned i = 0; i < width; ++i) *p++ = static_cast<char>(delta >> (8 * i));
  if (!entry.key.empty()) memcpy(p, entry.key.data(), entry.key.size());
  p += entry.key.size();
  if (!entry.value.empty()) memcpy(p, entry.value.data(), entry.value.size());
  end_ = p + entry.value.size();
}

size_t UnitWriter::Finish(uint64_t offset) {
  const auto payload = static_cast<uint32_t>(end_ - unit_) - static_cast<uint32_t>(kUnitHeaderSize);
  UnitHeader fields;
  fields.entries = static_cast<uint16_t>(entries_);
  fields.stored = fields.raw = payload;
  EncodeUnitHeader(fields, unit_);
  memcpy(unit_ + kUnitHeaderSize, &base_seq_, sizeof(base_seq_));
  SetUnitChecksum(unit_, size_, offset);
  return payload;
}

IndexStatus DecodeUnitHeader(const char* unit, size_t size, UnitHeader* header) {
  if (size < kUnitHeaderSize) return Bad("unit is shorter than its header");
  const uint8_t flags = static_cast<uint8_t>(unit[1]);
  header->compression = (flags & ~kUnitFlagMask) >> 1;
  header->wide = (flags & kWideFlag) != 0;
  header->entries = LoadU16(unit + 2);
  header->crc = LoadU32(unit + kUnitCrcOffset);
  header->stored = LoadU32(unit + 8);
  header->raw = LoadU32(unit + 12);
  if (static_cast<uint8_t>(unit[0]) != kUnitMark || (flags & kUnitFlagMask) != kUnitFlag) {
    return Bad("no unit begins here");
  }
  if (header->stored > size - kUnitHeaderSize) return Bad("unit's payload is longer than the unit");
  if (header->compression == 0 && header->stored != header->raw) return Bad("unit's sizes contradict each other");
  if (!header->wide && header->raw > UINT16_MAX) return Bad("unit is too large for its offsets");
  return IndexStatus::OK();
}

IndexStatus UnitView::Open(const char* payload, size_t size, uint16_t entries, bool wide, UnitView* view) {
  const size_t offset_size = wide ? 4 : 2;
  const size_t data = kUnitPrefixSize + entries * (1 + offset_size);
  if (size > UINT32_MAX || size < data) return Bad("unit is too short for its entries");
  if (entries == 0 && size != data) return Bad("unit has bytes but no entries");
  const UnitView opened = OfChecked(payload, size, entries, wide);
  if (entries > 0 && opened.Start(0) != data) return Bad("unit's first entry is out of place");
  const uint64_t base_seq = LoadU64(payload);
  for (uint32_t i = 0; i < entries; ++i) {
    const uint32_t start = opened.Start(i);
    const uint32_t end = opened.End(i);
    if (start >= end || end > size) return Bad("unit's offsets do not grow");
    const unsigned width = static_cast<uint8_t>(payload[start]) >> 5;
    uint32_t key_size = 0;
    const char* p = GetVarint32(payload + start + 1, payload + end, &key_size);
    if (p == nullptr || static_cast<size_t>(payload + end - p) < size_t{width} + key_size) {
      return Bad("entry is shorter than its key");
    }
    uint64_t delta = 0;
    memcpy(&delta, p, width);
    constexpr uint64_t kMaxSeq = (uint64_t{1} << 56) - 1;
    if (base_seq > kMaxSeq || delta > kMaxSeq - base_seq) return Bad("entry has an impossible sequence number");
  }
  *view = opened;
  return IndexStatus::OK();
}

UnitEntry UnitView::Entry(uint32_t i) const {
  const char* p = payload_ + Start(i);
  const char* const end = payload_ + End(i);
  UnitEntry entry;
  const uint8_t first = static_cast<uint8_t>(*p);
  entry.type = first & 31;
  const unsigned width = first >> 5;
  uint32_t key_size = 0;
  p = GetVarint32(p + 1, end, &key_size);
  entry.seq = LoadU64(payload_) + (LoadU64(p) & LowMask(8 * width));
  p += width;
  entry.key = std::string_view(p, key_size);
  entry.value = std::string_view(p + key_size, static_cast<size_t>(end - p) - key_size);
  return entry;
}

std::string_view UnitView::Key(uint32_t i) const {
  const char* p = payload_ + Start(i);
  const unsigned width = static_cast<uint8_t>(*p) >> 5;
  uint32_t key_size = 0;
  p = GetVarint32(p + 1, payload_ + End(i), &key_size);
  return std::string_view(p + width, key_size);
}

uint32_t UnitView::FindTag(uint64_t hash, uint32_t from) const {
  const char* const tags = payload_ + kUnitPrefixSize;
#if defined(__AVX2__)
  const __m256i wanted = _mm256_set1_epi8(static_cast<char>(TagOf(hash)));
  for (uint32_t i = from; i < entries_; i += 32) {
    const __m256i there = _mm256_loadu_si256(reinterpret_cast<const __m256i*>(tags + i));
    const uint32_t equal = static_cast<uint32_t>(_mm256_movemask_epi8(_mm256_cmpeq_epi8(there, wanted)));
    if (equal != 0) return std::min(entries_, i + static_cast<uint32_t>(__builtin_ctz(equal)));
  }
#elif defined(__SSE2__)
  const __m128i wanted = _mm_set1_epi8(static_cast<char>(TagOf(hash)));
  for (uint32_t i = from; i < entries_; i += 16) {
    const __m128i there = _mm_loadu_si128(reinterpret_cast<const __m128i*>(tags + i));
    const uint32_t equal = static_cast<uint32_t>(_mm_movemask_epi8(_mm_cmpeq_epi8(there, wanted)));
    if (equal != 0) return std::min(entries_, i + static_cast<uint32_t>(__builtin_ctz(equal)));
  }
#elif defined(__aarch64__)
  const uint8x16_t wanted = vdupq_n_u8(TagOf(hash));
  for (uint32_t i = from; i < entries_; i += 16) {
    const uint8x16_t equal = vceqq_u8(vld1q_u8(reinterpret_cast<const uint8_t*>(tags + i)), wanted);
    // Four bits for each of the sixteen.
    const uint64_t bits = vget_lane_u64(vreinterpret_u64_u8(vshrn_n_u16(vreinterpretq_u16_u8(equal), 4)), 0);
    if (bits != 0) return std::min(entries_, i + LowestBit(bits) / 4);
  }
#else
  for (uint32_t i = from; i < entries_; ++i) {
    if (static_cast<uint8_t>(tags[i]) == TagOf(hash)) return i;
  }
#endif
  return entries_;
}

uint32_t PropertiesChecksum(std::string_view properties) {
  // What RocksDB's name "rocksdb.external_sst_file.global_seqno" does not share with that of the property before it.
  // The value follows.
  constexpr std::string_view kName = "global_seqno";
  const size_t at = properties.find(kName);
  std::string copy(properties);
  if (at != std::string_view::npos && at + kName.size() + 8 <= copy.size()) copy.replace(at + kName.size(), 8, 8, '\0');
  return Crc32c(copy.data(), copy.size());
}

void HTableHeader::AppendTo(std::string* out) const {
  const size_t start = out->size();
  PutU64(out, kHTableMagic);
  PutU32(out, kHTableVersion);
  PutU32(out, bucket_size);
  for (uint64_t v :
       {entries, cells, first_hash, last_hash, groups, homes, spill_buckets, spills, extents, used_bytes}) {
    PutU64(out, v);
  }
  for (const FilePart& part : {group_index, extent_index, dictionary, filter, metaindex, properties})
    PutPart(out, part);
  PutU32(out, Crc32c(out->data() + start, out->size() - start));
}

IndexStatus HTableHeader::Decode(std::string_view bytes, uint64_t file_size, HTableHeader* header) {
  // Every version begins with magic number and version, and ends with the checksum.
  if (bytes.size() < 16) return Bad("header has a wrong size");
  const char* p = bytes.data();
  if (Crc32c(p, bytes.size() - 4) != LoadU32(p + bytes.size() - 4)) return Bad("header's checksum does not match");
  if (LoadU64(p) != kHTableMagic) return Bad("no HTable");
  p += 8;
  if (LoadU32(p) != kHTableVersion) {
    return IndexStatus::NotSupported("HTable of " + UnknownVersion(LoadU32(p), kHTableVersion));
  }
  if (bytes.size() != kSize) return Bad("header has a wrong size");
  HTableHeader read;
  read.bucket_size = LoadU32(p + 4);
  p += 8;
  for (uint64_t* v : {&read.entries, &read.cells, &read.first_hash, &read.last_hash, &read.groups, &read.homes,
                      &read.spill_buckets, &read.spills, &read.extents, &read.used_bytes}) {
    *v = LoadU64(p);
    p += 8;
  }
  for (FilePart* part :
       {&read.group_index, &read.extent_index, &read.dictionary, &read.filter, &read.metaindex, &read.properties}) {
    part->offset = LoadU64(p);
    part->size = LoadU64(p + 8);
    part->crc = LoadU32(p + 16);
    p += 20;
    if (part->size > file_size || part->offset > file_size - part->size) return Bad("a part lies outside of the file");
  }
  const uint32_t bucket_size = read.bucket_size;
  if (bucket_size < kMinBucketSize || bucket_size > kMaxBucketSize || (bucket_size & (bucket_size - 1)) != 0) {
    return Bad("header has an impossible bucket size");
  }
  *header = read;
  return IndexStatus::OK();
}

void AppendGroupIndex(const std::vector<GroupPlan>& groups, std::string* out) {
  const size_t start = out->size();
  for (const GroupPlan& group : groups) {
    PutU64(out, group.first);
    PutU32(out, group.first_bucket);
    PutU16(out, static_cast<uint16_t>(group.bounds.size()));
    PutU16(out, group.spill_buckets);
    PutU16(out, static_cast<uint16_t>(group.spills.size()));
    out->push_back(static_cast<char>(group.shift));
    out->push_back(0);
  }
  for (const GroupPlan& group : groups) {
    for (uint16_t bound : group.bounds) PutU16(out, bound);
  }
  for (const GroupPlan& group : groups) {
    for (uint32_t spill : group.spills) PutU32(out, spill);
  }
  PutU32(out, Crc32c(out->data() + start, out->size() - start));
}

void AppendExtentIndex(const std::vector<ExtentPlan>& extents, std::string* out) {
  const size_t start = out->size();
  for (const ExtentPlan& extent : extents) {
    PutU64(out, extent.hash);
    PutU64(out, extent.offset);
    PutU64(out, extent.min_seq);
    PutU32(out, extent.size);
  }
  PutU32(out, Crc32c(out->data() + start, out->size() - start));
}

IndexStatus HTableIndex::Open(const HTableHeader& header, std::string_view group_index, std::string_view extent_index,
                              HTableIndex* index) {
  if (group_index.size() < 4 || extent_index.size() < 4) return Bad("an index is too short");
  if (Crc32c(group_index.data(), group_index.size() - 4) != LoadU32(group_index.data() + group_index.size() - 4)) {
    return Bad("group index's checksum does not match");
  }
  if (Crc32c(extent_index.data(), extent_index.size() - 4) != LoadU32(extent_index.data() + extent_index.size() - 4)) {
    return Bad("extent index's checksum does not match");
  }
  const uint64_t groups = header.groups;
  if (groups > group_index.size() / kGroupSize || header.homes > group_index.size() / 2 ||
      header.spills > group_index.size() / 4 ||
      groups * kGroupSize + header.homes * 2 + header.spills * 4 + 4 != group_index.size()) {
    return Bad("group index has a wrong size");
  }
  if (header.extents > extent_index.size() / kExtentSize || header.extents * kExtentSize + 4 != extent_index.size()) {
    return Bad("extent index has a wrong size");
  }

  HTableIndex opened;
  opened.bucket_size_ = header.bucket_size;
  opened.first_hash_ = header.first_hash;
  const uint64_t data_end = header.group_index.offset;
  uint64_t homes = 0, spills = 0, spill_buckets = 0, next_bucket = 0;
  const char* p = group_index.data();
  const char* bounds = p + groups * kGroupSize;
  const char* spill_bytes = bounds + header.homes * 2;
  opened.groups_.reserve(groups);
  for (uint64_t g = 0; g < groups; ++g, p += kGroupSize) {
    Group group{};
    group.first = LoadU64(p);
    group.first_bucket = LoadU32(p + 8);
    group.homes = LoadU16(p + 12);
    group.spill_buckets = LoadU16(p + 14);
    group.spills = LoadU16(p + 16);
    group.shift = static_cast<uint8_t>(p[18]);
    group.first_bound = static_cast<uint32_t>(homes);
    group.first_spill = static_cast<uint32_t>(spills);
    homes += group.homes;
    spills += group.spills;
    spill_buckets += group.spill_buckets;
    if (group.homes == 0 || group.shift > 48 || homes > header.homes || spills > header.spills || p[19] != 0) {
      return Bad("group index has an impossible group");
    }
    if (g > 0 && group.first <= opened.groups_.back().first) return Bad("groups are out of order");
    if (group.first_bucket < next_bucket) return Bad("groups overlap");
    next_bucket = uint64_t{group.first_bucket} + group.homes + group.spill_buckets;
    if (next_bucket * header.bucket_size > data_end) return Bad("a group lies outside of the data");
    uint32_t previous = 0;
    for (uint32_t i = 0; i < group.homes; ++i) {
      const uint16_t bound = LoadU16(bounds + 2 * (group.first_bound + i));
      if (i == 0 ? bound != 0 : bound <= previous) return Bad("bounds do not grow");
      previous = bound;
    }
    for (uint32_t i = 0; i < group.spills; ++i) {
      const char* at = spill_bytes + 4 * (group.first_spill + i);
      const uint32_t spill = LoadU32(at);
      if ((i > 0 && spill <= LoadU32(at - 4)) || (spill & 0xff) >= group.spill_buckets) {
        return Bad("spills are out of order");
      }
    }
    const uint32_t last_bound = std::max<uint32_t>(previous, 1);
    group.guess =
        static_cast<uint32_t>((uint64_t{group.homes} << kGuessBits) / (last_bound + last_bound / group.homes + 1));
    opened.groups_.push_back(group);
  }
  if (homes != header.homes || spills != header.spills || spill_buckets != header.spill_buckets) {
    return Bad("group index does not add up");
  }
  opened.bounds_.resize(homes);
  if (homes > 0) memcpy(opened.bounds_.data(), bounds, homes * 2);
  opened.spills_.resize(spills);
  if (spills > 0) memcpy(opened.spills_.data(), spill_bytes, spills * 4);

  const char* e = extent_index.data();
  const auto end_of = [&opened](const Group& group) {
    return (uint64_t{group.first_bucket} + group.homes + group.spill_buckets) * opened.bucket_size_;
  };
  uint32_t next_group = 0;  // the first that does not end before the extent
  opened.extents_.reserve(header.extents);
  for (uint64_t i = 0; i < header.extents; ++i, e += kExtentSize) {
    ExtentPlan extent;
    extent.hash = LoadU64(e);
    extent.offset = LoadU64(e + 8);
    extent.min_seq = LoadU64(e + 16);
    extent.size = LoadU32(e + 24);
    if (extent.size < kUnitHeaderSize || extent.size > data_end || extent.offset > data_end - extent.size) {
      return Bad("an extent lies outside of the data");
    }
    if (i > 0) {
      const ExtentPlan& previous = opened.extents_.back();
      if (extent.hash < previous.hash || extent.offset < previous.offset + previous.size) {
        return Bad("extents are out of order");
      }
    }
    while (next_group < groups && end_of(opened.groups_[next_group]) <= extent.offset) ++next_group;
    if (next_group < groups && extent.offset + extent.size > opened.GroupOffset(next_group)) {
      return Bad("an extent overlaps a bucket");
    }
    opened.extents_.push_back(extent);
  }
  if (!opened.extents_.empty() && opened.groups_.empty()) return Bad("extents without a group");

  // Equal ranges of hashes, two for each group, so that a hash leads to its group or its neighbour.
  if (!opened.groups_.empty()) {
    const uint64_t first = opened.groups_.front().first;
    const uint64_t span = opened.groups_.back().first - first;
    const unsigned wanted = BitWidth(groups) + 1;
    opened.first_hash_ = first;
    opened.group_shift_ = BitWidth(span) > wanted ? BitWidth(span) - wanted : 0;
    opened.group_guess_.reserve((span >> opened.group_shift_) + 2);
    uint32_t g = 0;
    for (uint64_t slot = 0; slot <= span >> opened.group_shift_; ++slot) {
      while (g + 1 < groups && opened.groups_[g + 1].first - first <= slot << opened.group_shift_) ++g;
      opened.group_guess_.push_back(g);
    }
  }
  *index = std::move(opened);
  return IndexStatus::OK();
}

uint32_t HTableIndex::GroupOf(uint64_t hash) const {
  if (hash <= first_hash_) return 0;
  const uint64_t slot = (hash - first_hash_) >> group_shift_;
  if (slot >= group_guess_.size()) return static_cast<uint32_t>(groups_.size() - 1);
  uint32_t low = group_guess_[slot];
  uint32_t high = slot + 1 < group_guess_.size() ? group_guess_[slot + 1] : static_cast<uint32_t>(groups_.size() - 1);
  while (low < high) {
    const uint32_t middle = low + (high - low + 1) / 2;
    if (groups_[middle].first <= hash) {
      low = middle;
    } else {
      high = middle - 1;
    }
  }
  return low;
}

HTableIndex::Place HTableIndex::Find(uint64_t hash) const {
  Place place;
  place.group = GroupOf(hash);
  const Group& group = groups_[place.group];
  place.step = StepOf(hash, group.first, group.shift);
  const uint16_t* const bounds = bounds_.data() + group.first_bound;
  uint32_t bucket = static_cast<uint32_t>((uint64_t{place.step} * group.guess) >> kGuessBits);
  if (bucket >= group.homes) bucket = group.homes - 1u;
  while (bounds[bucket] > place.step) --bucket;
  while (bucket + 1 < group.homes && bounds[bucket + 1] <= place.step) ++bucket;
  place.bucket = group.first_bound + bucket;
  place.offset = (uint64_t{group.first_bucket} + bucket) * bucket_size_;
  return place;
}

HTableIndex::Place HTableIndex::PlaceOf(uint32_t bucket) const {
  const auto group = std::upper_bound(groups_.begin(), groups_.end(), bucket,
                                      [](uint32_t b, const Group& g) { return b < g.first_bound; }) -
                     1;
  Place place;
  place.group = static_cast<uint32_t>(group - groups_.begin());
  place.bucket = bucket;
  place.step = bounds_[bucket];
  place.offset = (uint64_t{group->first_bucket} + (bucket - group->first_bound)) * bucket_size_;
  return place;
}

HTableIndex::Place HTableIndex::After(const Place& place) const {
  Place next = place;
  ++next.bucket;
  if (next.bucket == groups_[place.group].first_bound + groups_[place.group].homes) ++next.group;
  const Group& group = groups_[next.group];
  next.step = bounds_[next.bucket];
  next.offset = (uint64_t{group.first_bucket} + (next.bucket - group.first_bound)) * bucket_size_;
  return next;
}

uint64_t HTableIndex::FirstHash(uint32_t group, uint32_t bucket) const {
  return groups_[group].first + (uint64_t{bounds_[bucket]} << groups_[group].shift);
}

bool HTableIndex::NextFirstHash(const Place& place, uint64_t* hash) const {
  const uint32_t next = place.bucket + 1;
  if (next == bounds_.size()) return false;
  const Group& group = groups_[place.group];
  const bool same_group = next < group.first_bound + group.homes;
  *hash = same_group ? FirstHash(place.group, next) : groups_[place.group + 1].first;
  return true;
}

bool HTableIndex::FindSpill(const Place& place, uint64_t hash, uint32_t* cursor, uint64_t* offset) const {
  const Group& group = groups_[place.group];
  const uint32_t wanted = place.step << 8 | TagOf(hash);
  const uint32_t* const spills = spills_.data() + group.first_spill;
  uint32_t i = *cursor;
  if (i == 0) {
    i = static_cast<uint32_t>(std::lower_bound(spills, spills + group.spills, wanted << 8) - spills);
  }
  if (i >= group.spills || spills[i] >> 8 != wanted) return false;
  *cursor = i + 1;
  *offset = (uint64_t{group.first_bucket} + group.homes + (spills[i] & 0xff)) * bucket_size_;
  return true;
}

void HTableIndex::SpillsOf(const Place& place, uint32_t* first, uint32_t* last) const {
  const Group& group = groups_[place.group];
  const uint32_t* const spills = spills_.data() + group.first_spill;
  const uint32_t local = place.bucket - group.first_bound;
  const uint32_t low = bounds_[place.bucket];
  *first = static_cast<uint32_t>(std::lower_bound(spills, spills + group.spills, low << 16) - spills);
  *last = group.spills;
  if (local + 1u < group.homes) {
    const uint32_t high = bounds_[place.bucket + 1];
    *last = static_cast<uint32_t>(std::lower_bound(spills, spills + group.spills, high << 16) - spills);
  }
}

HTableIndex::Spill HTableIndex::SpillAt(uint32_t group, uint32_t i) const {
  const Group& g = groups_[group];
  const uint32_t spill = spills_[g.first_spill + i];
  return {spill >> 16, static_cast<uint8_t>(spill >> 8),
          (uint64_t{g.first_bucket} + g.homes + (spill & 0xff)) * bucket_size_};
}

void HTableIndex::ExtentsOf(uint64_t hash, uint32_t* first, uint32_t* last) const {
  const auto range = std::equal_range(extents_.begin(), extents_.end(), ExtentPlan{hash, 0, 0, 0},
                                      [](const ExtentPlan& a, const ExtentPlan& b) { return a.hash < b.hash; });
  *first = static_cast<uint32_t>(range.first - extents_.begin());
  *last = static_cast<uint32_t>(range.second - extents_.begin());
}

void HTableIndex::ExtentsOf(const Place& place, uint32_t* first, uint32_t* last) const {
  const auto at = [this](uint64_t hash) {
    return static_cast<uint32_t>(std::lower_bound(extents_.begin(), extents_.end(), hash,
                                                  [](const ExtentPlan& e, uint64_t h) { return e.hash < h; }) -
                                 extents_.begin());
  };
  *first = place.bucket == 0 ? 0 : at(FirstHash(place.group, place.bucket));
  uint64_t next = 0;
  *last = NextFirstHash(place, &next) ? std::max(*first, at(next)) : static_cast<uint32_t>(extents_.size());
}

}  // namespace cairn
