#include "trie_table/htable/htable_iterator.h"

#include <algorithm>
#include <cstring>

#include "db/dbformat.h"
#include "table/perf_counts.h"
#include "util/rocksdb_names.h"
#include "util/stop_watch.h"

namespace cairn {

// What RocksDB's macros for its counters refer to.

namespace {

constexpr int kBucketsBeforeReadahead = 2;
constexpr size_t kFirstReadahead = 16 << 10;
constexpr uint32_t kUnknown = UINT32_MAX;  // an extent's number of entries before it is loaded

std::string_view View(const Slice& slice) { return std::string_view(slice.data(), slice.size()); }

}  // namespace

HTableIterator::HTableIterator(const HTableFile* file, const KeyHash& hash, const rocksdb::ReadOptions& read_options,
                               const ScanOptions& scan)
    : file_(file), hash_(hash), read_options_(read_options), scan_(scan), readahead_(scan.readahead) {
  status_.PermitUncheckedError();
}

bool HTableIterator::Fail(const Status& status) {
  status_ = status;
  valid_ = false;
  return false;
}

void HTableIterator::Release(UnitRef* unit) {
  if (*unit && pinned_ != nullptr && pinned_->PinningEnabled()) {
    pinned_->PinPtr(new UnitRef(std::move(*unit)), [](void* pinned) { delete static_cast<UnitRef*>(pinned); });
  } else {
    unit->Reset();
  }
}

void HTableIterator::ReleaseSpills() {
  for (auto& [offset, unit] : spills_) Release(&unit);
  spills_.clear();
}

bool HTableIterator::IsValuePinned() const {
  if (pinned_ == nullptr || !pinned_->PinningEnabled()) return false;
  // A unit in the buffer of bytes read ahead goes when that is filled anew.
  return segments_[segment_].source != Source::kHome || home_ref_;
}

HTableIterator::~HTableIterator() {
  Release(&home_ref_);
  Release(&extent_);
  ReleaseSpills();
}

void HTableIterator::Clear() {
  valid_ = false;
  status_ = Status::OK();
}

const UnitView& HTableIterator::ViewOf(const Segment& segment) const {
  switch (segment.source) {
    case Source::kSpill:
      return spills_[segment.index].second.view();
    case Source::kExtent:
      return extent_.view();
    default:
      return home_;
  }
}

bool HTableIterator::FillBuffer(const UnitPlace& place) {
  const size_t size = std::max(place.size, std::min<uint64_t>(readahead_, file_->data_end() - place.offset));
  if (size > buffer_size_) {
    buffer_.reset(new char[size + kUnitSlack]);
    buffer_size_ = size;
  }
  ahead_ = Slice();
  const rocksdb::StopWatch watch(
      file_->clock(), file_->statistics(),
      scan_.use_cache ? rocksdb::READ_BLOCK_GET_MICROS : rocksdb::READ_BLOCK_COMPACTION_MICROS);
  const Status s = file_->ReadBytes(read_options_, place.offset, size, buffer_.get(), &ahead_);
  if (!s.ok()) return Fail(s);
  ahead_offset_ = place.offset;
  readahead_ = std::min(std::max(readahead_ * 2, kFirstReadahead), std::max(scan_.max_readahead, scan_.readahead));
  return true;
}

bool HTableIterator::LoadHome(const UnitPlace& place) {
  const bool in_a_row = place.offset == expected_offset_;
  expected_offset_ = place.offset + place.size;
  in_a_row_ = in_a_row ? in_a_row_ + 1 : 0;
  Release(&home_ref_);
  const bool mapped = scan_.use_cache && file_->is_mapped();
  if (!mapped && scan_.use_cache && file_->FindCached(place, nullptr, &home_ref_)) {
    home_ = home_ref_.view();
    return true;
  }
  if (read_options_.read_tier == rocksdb::kBlockCacheTier) return Fail(Status::Incomplete("no blocking io"));
  bool buffered = IsAhead(place);
  if (!mapped && !buffered &&
      (scan_.readahead > 0 || (scan_.max_readahead > 0 && in_a_row_ >= kBucketsBeforeReadahead))) {
    if (readahead_ == 0) readahead_ = kFirstReadahead;
    if (!FillBuffer(place)) return false;
    buffered = true;
  }
  if (!buffered) {
    const Status s = file_->Read(read_options_, place, nullptr, &home_ref_);
    if (!s.ok()) return Fail(s);
    home_ = home_ref_.view();
    return true;
  }
  const char* const bytes = ahead_.data() + (place.offset - ahead_offset_);
  if (scan_.use_cache) {
    std::unique_ptr<HTableUnit> unit = HTableUnit::New(place.size);
    memcpy(unit->bytes(), bytes, place.size);
    const Status s = file_->Admit(read_options_, place, std::move(unit), nullptr, &home_ref_);
    if (!s.ok()) return Fail(s);
    home_ = home_ref_.view();
    return true;
  }
  PERF_COUNTER_ADD(block_read_count, 1);
  PERF_COUNTER_ADD(block_read_byte, place.size);
  std::unique_ptr<HTableUnit> unit;
  const Status s = file_->View(read_options_, place, bytes, &unit, &home_);
  if (!s.ok()) return Fail(s);
  if (unit != nullptr) home_ref_.SetOwned(std::move(unit));
  return true;
}

bool HTableIterator::LoadSpill(uint64_t offset, uint32_t* index) {
  for (*index = 0; *index < spills_.size(); ++*index) {
    if (spills_[*index].first == offset) return true;
  }
  const UnitPlace place{offset, file_->index().bucket_size()};
  UnitRef ref;
  Status s;
  if (IsAhead(place)) {
    // It follows the group's home buckets.
    std::unique_ptr<HTableUnit> unit = HTableUnit::New(place.size);
    memcpy(unit->bytes(), ahead_.data() + (offset - ahead_offset_), place.size);
    s = file_->Admit(read_options_, place, std::move(unit), nullptr, &ref);
  } else {
    s = file_->Read(read_options_, place, nullptr, &ref);
  }
  if (!s.ok()) return Fail(s);
  spills_.emplace_back(offset, std::move(ref));
  return true;
}

bool HTableIterator::LoadBucket(const HTableIndex::Place& place) {
  valid_ = false;
  place_ = place;
  segments_.clear();
  if (spill_group_ != place.group) {
    ReleaseSpills();
    spill_group_ = place.group;
  }
  return LoadHome({place.offset, index().bucket_size()}) && FindSegments();
}

bool HTableIterator::FindSegments() {
  uint32_t first_spill = 0, last_spill = 0, first_extent = 0, last_extent = 0;
  if (index().HasSpills(place_.group)) index().SpillsOf(place_, &first_spill, &last_spill);
  if (!index().extents().empty()) index().ExtentsOf(place_, &first_extent, &last_extent);
  if (first_spill == last_spill && first_extent == last_extent) {
    segments_.push_back({Source::kHome, 0, 0, home_.entries(), 0, 0});
    return true;
  }
  // What lies elsewhere, by hash, and then between the home bucket's entries.
  elsewhere_.clear();
  for (uint32_t i = first_spill; i < last_spill; ++i) {
    if (!AddSpill(index().SpillAt(place_.group, i))) return false;
  }
  while (first_extent < last_extent) {
    const uint64_t hash = index().extents()[first_extent].hash;
    uint32_t begin = 0, end = 0;
    index().ExtentsOf(hash, &begin, &end);
    elsewhere_.emplace_back(hash, Segment{Source::kExtent, begin, 0, kUnknown, begin, end});
    first_extent = end;
  }
  std::stable_sort(elsewhere_.begin(), elsewhere_.end(),
                   [](const auto& a, const auto& b) { return a.first < b.first; });
  uint32_t from = 0;
  for (const auto& [hash, segment] : elsewhere_) {
    uint32_t low = from, high = home_.entries();
    while (low < high) {
      const uint32_t middle = low + (high - low) / 2;
      if (HashOf(home_, middle) < hash) {
        low = middle + 1;
      } else {
        high = middle;
      }
    }
    if (low > from) segments_.push_back({Source::kHome, 0, from, low, 0, 0});
    segments_.push_back(segment);
    from = low;
  }
  if (from < home_.entries()) segments_.push_back({Source::kHome, 0, from, home_.entries(), 0, 0});
  return true;
}

bool HTableIterator::AddSpill(const HTableIndex::Spill& spill) {
  uint32_t source = 0;
  if (!LoadSpill(spill.offset, &source)) return false;
  const UnitView& view = spills_[source].second.view();
  const uint64_t tag = spill.tag;
  for (uint32_t i = view.FindTag(tag, 0); i < view.entries(); i = view.FindTag(tag, i + 1)) {
    const uint64_t hash = HashOf(view, i);
    if (index().StepIn(place_.group, hash) != spill.step) continue;
    // Versions of one key, side by side.
    if (!elsewhere_.empty()) {
      auto& [last_hash, last] = elsewhere_.back();
      if (last_hash == hash && last.source == Source::kSpill && last.index == source && last.last == i) {
        ++last.last;
        continue;
      }
    }
    elsewhere_.emplace_back(hash, Segment{Source::kSpill, source, i, i + 1, 0, 0});
  }
  return true;
}

bool HTableIterator::EnterSegment(uint32_t segment) {
  segment_ = segment;
  Segment& entered = segments_[segment];
  if (entered.source != Source::kExtent) return true;
  if (extent_index_ != entered.index) {
    const ExtentPlan& extent = index().extents()[entered.index];
    extent_index_ = UINT64_MAX;
    Release(&extent_);
    const Status s = file_->Read(read_options_, {extent.offset, extent.size}, nullptr, &extent_);
    if (!s.ok()) return Fail(s);
    extent_index_ = entered.index;
  }
  entered.last = extent_.view().entries();
  return true;
}

void HTableIterator::SetEntry(uint32_t entry) {
  entry_ = entry;
  const UnitEntry read = ViewOf(segments_[segment_]).Entry(entry);
  key_.Assign({read.key.data(), read.key.size()});
  const uint64_t packed = rocksdb::PackSequenceAndType(SeqOf(read), static_cast<rocksdb::ValueType>(read.type));
  key_.Replace(read.key.size(), reinterpret_cast<const char*>(&packed), sizeof(packed));
  value_ = Slice(read.value.data(), read.value.size());
  valid_ = true;
}

void HTableIterator::SettleForward(uint32_t segment) {
  valid_ = false;
  for (;; ++segment) {
    while (segment >= segments_.size()) {
      if (place_.bucket + 1 >= index().homes() || !LoadBucket(index().After(place_))) return;
      segment = 0;
    }
    Segment& entered = segments_[segment];
    entered.index = entered.source == Source::kExtent ? entered.begin : entered.index;
    do {
      if (!EnterSegment(segment)) return;
      if (entered.first < entered.last) return SetEntry(entered.first);
    } while (NextExtent(&entered));
  }
}

void HTableIterator::SettleBackward(int64_t segment) {
  valid_ = false;
  for (;; --segment) {
    while (segment < 0) {
      if (place_.bucket == 0 || !LoadBucket(index().PlaceOf(place_.bucket - 1))) return;
      segment = static_cast<int64_t>(segments_.size()) - 1;
    }
    Segment& entered = segments_[static_cast<size_t>(segment)];
    entered.index = entered.source == Source::kExtent ? entered.end - 1 : entered.index;
    do {
      if (!EnterSegment(static_cast<uint32_t>(segment))) return;
      if (entered.first < entered.last) return SetEntry(entered.last - 1);
    } while (PreviousExtent(&entered));
  }
}

void HTableIterator::SeekToFirst() {
  Clear();
  if (index().empty() || !LoadBucket(index().PlaceOf(0))) return;
  SettleForward(0);
}

void HTableIterator::SeekToLast() {
  Clear();
  if (index().empty() || !LoadBucket(index().PlaceOf(index().homes() - 1))) return;
  SettleBackward(static_cast<int64_t>(segments_.size()) - 1);
}

bool HTableIterator::IsBefore(const UnitView& view, uint32_t entry, const Target& target) const {
  const UnitEntry read = view.Entry(entry);
  const uint64_t hash = hash_(Slice(read.key.data(), read.key.size()));
  if (hash != target.hash) return hash < target.hash;
  const int order = read.key.compare(target.key);
  if (order != 0) return order < 0;
  // Newer versions come first.
  const uint64_t seq = SeqOf(read);
  return seq != target.seq ? seq > target.seq : read.type > target.type;
}

void HTableIterator::Seek(const Slice& internal_key) {
  Clear();
  if (index().empty()) return;
  const Slice user_key = rocksdb::ExtractUserKey(internal_key);
  rocksdb::SequenceNumber seq = 0;
  rocksdb::ValueType type = rocksdb::kTypeValue;
  rocksdb::UnPackSequenceAndType(rocksdb::ExtractInternalKeyFooter(internal_key), &seq, &type);
  const Target target{hash_(user_key), View(user_key), seq, static_cast<uint8_t>(type)};
  if (!LoadBucket(index().Find(target.hash))) return;
  uint32_t s = 0;
  for (; s < segments_.size(); ++s) {
    const Segment& segment = segments_[s];
    if (segment.source == Source::kExtent && index().extents()[segment.index].hash < target.hash) continue;
    if (!EnterExtentOf(s, target)) return;
    const UnitView& view = ViewOf(segment);
    uint32_t low = segment.first, high = segment.last;
    while (low < high) {
      const uint32_t middle = low + (high - low) / 2;
      if (IsBefore(view, middle, target)) {
        low = middle + 1;
      } else {
        high = middle;
      }
    }
    if (low < segment.last) return SetEntry(low);
  }
  SettleForward(s);
}

bool HTableIterator::EnterExtentOf(uint32_t segment, const Target& target) {
  Segment& entered = segments_[segment];
  if (entered.source != Source::kExtent || index().extents()[entered.begin].hash != target.hash) {
    return EnterSegment(segment);
  }
  uint32_t low = entered.begin, high = entered.end - 1;
  while (low < high) {
    entered.index = low + (high - low) / 2;
    if (!EnterSegment(segment)) return false;
    const UnitView& view = extent_.view();
    if (view.entries() > 0 && IsBefore(view, view.entries() - 1, target)) {
      low = entered.index + 1;
    } else {
      high = entered.index;
    }
  }
  entered.index = low;
  return EnterSegment(segment);
}

void HTableIterator::SeekForPrev(const Slice& internal_key) {
  Seek(internal_key);
  if (!status_.ok()) return;
  if (!valid_) return SeekToLast();
  if (key_.slice() != internal_key) Prev();
}

void HTableIterator::Next() {
  Segment& here = segments_[segment_];
  if (entry_ + 1 < here.last) return SetEntry(entry_ + 1);
  valid_ = false;
  while (NextExtent(&here)) {
    if (!EnterSegment(segment_)) return;
    if (here.first < here.last) return SetEntry(here.first);
  }
  SettleForward(segment_ + 1);
}

bool HTableIterator::NextAndGetResult(rocksdb::IterateResult* result) {
  Next();
  if (!valid_) return false;
  result->key = key_.slice();
  result->bound_check_result = rocksdb::IterBoundCheck::kUnknown;
  result->value_prepared = true;
  return true;
}

void HTableIterator::Prev() {
  Segment& here = segments_[segment_];
  if (entry_ > here.first) return SetEntry(entry_ - 1);
  valid_ = false;
  while (PreviousExtent(&here)) {
    if (!EnterSegment(segment_)) return;
    if (here.first < here.last) return SetEntry(here.last - 1);
  }
  SettleBackward(int64_t{segment_} - 1);
}

}  // namespace cairn
