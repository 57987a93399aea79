#include "trie_table/htable/htable_reader.h"

#include <algorithm>
#include <chrono>
#include <cstring>
#include <utility>

#include "db/dbformat.h"
#include "memory/arena.h"
#include "monitoring/statistics_impl.h"
#include "rocksdb/port/file_read.h"
#include "table/perf_counts.h"
#include "trie_table/bloom_cluster/bloom_thread.h"
#include "trie_table/htable/htable_dump.h"
#include "trie_table/htable/htable_iterator.h"
#include "trie_table/htable/htable_read_ahead.h"
#include "util/rocksdb_names.h"

namespace cairn {

namespace {

constexpr size_t kDefaultCompactionReadahead = 2 << 20;
constexpr size_t kMaxAutoReadahead = 256 << 10;
constexpr uint64_t kAnchors = 128;
// A page that takes longer was not in the operating system's cache.
constexpr std::chrono::microseconds kSlowRead(10);

static_assert(rocksdb::MultiGetContext::MAX_BATCH_SIZE <= FilterBatch::kMaxKeys);

// Not within its caller, where the compiler would find the thread's variables for every lookup, counted or not.
__attribute__((noinline)) void CountTruePositiveByLevel(uint32_t level) {
  PERF_COUNTER_BY_LEVEL_ADD(bloom_filter_full_true_positive, 1, level);
}

Slice ToSlice(std::string_view bytes) { return Slice(bytes.data(), bytes.size()); }

// Of the keys that have not been found yet; returns their places.
uint64_t HashesOf(const KeyHash& hash, const rocksdb::MultiGetContext::Range& range, FilterHashes* hashes) {
  uint64_t places = 0;
  for (auto key = range.begin(); key != range.end(); ++key) {
    (*hashes)[key.index()] = hash(rocksdb::ExtractUserKey(key->ikey));
    places |= uint64_t{1} << key.index();
  }
  return places;
}

}  // namespace

struct HTableReader::PendingRead {
  Lookup lookup;
  Status* status = nullptr;
};

HTableReader::HTableReader(std::shared_ptr<const HTableFile> file, const KeyHash& hash,
                           std::unique_ptr<TableFilter> filter)
    : file_(std::move(file)), hash_(hash), filter_(std::move(filter)) {}

rocksdb::InternalIterator* HTableReader::NewIterator(const rocksdb::ReadOptions& read_options,
                                                     const rocksdb::SliceTransform* /*prefix_extractor*/,
                                                     rocksdb::Arena* arena, bool /*skip_filters*/,
                                                     rocksdb::TableReaderCaller caller,
                                                     size_t compaction_readahead_size,
                                                     bool /*allow_unprepared_value*/) {
  ScanOptions scan;
  if (caller == rocksdb::TableReaderCaller::kCompaction) {
    scan.use_cache = false;
    scan.readahead = compaction_readahead_size > 0 ? compaction_readahead_size : kDefaultCompactionReadahead;
  } else {
    scan.readahead = read_options.readahead_size;
    scan.max_readahead = kMaxAutoReadahead;
  }
  if (arena == nullptr) return new HTableIterator(file_.get(), hash_, read_options, scan);
  return new (arena->AllocateAligned(sizeof(HTableIterator))) HTableIterator(file_.get(), hash_, read_options, scan);
}

HTableReader::Lookup HTableReader::StartLookup(const Slice& internal_key, uint64_t hash,
                                               rocksdb::GetContext* get_context) const {
  Lookup lookup;
  lookup.user_key = rocksdb::ExtractUserKey(internal_key);
  lookup.seq = rocksdb::GetInternalKeySeqno(internal_key);
  lookup.hash = hash;
  lookup.get_context = get_context;
  return lookup;
}

void HTableReader::CountTruePositive(const Lookup& lookup) const {
  if (filter_ == nullptr || !lookup.matched) return;
  RecordTick(file_->statistics(), rocksdb::BLOOM_FILTER_FULL_TRUE_POSITIVE);
  if (ThisFilterThread()->CountsByLevel()) CountTruePositiveByLevel(file_->level());
}

Status HTableReader::SearchUnit(UnitRef unit, Lookup* lookup) const {
  const UnitView view = unit.view();
  rocksdb::Cleanable held;
  rocksdb::Cleanable* const pinner = unit.MoveTo(&held);
  for (uint32_t i = view.FindTag(lookup->hash, 0); i < view.entries() && !lookup->done;
       i = view.FindTag(lookup->hash, i + 1)) {
    const UnitEntry entry = view.Entry(i);
    if (ToSlice(entry.key) != lookup->user_key || SeqOf(entry) > lookup->seq) continue;
    const Status s = Offer(entry, lookup, pinner);
    if (!s.ok()) return s;
  }
  return Status::OK();
}

Status HTableReader::Offer(const UnitEntry& entry, Lookup* lookup, rocksdb::Cleanable* pinner) const {
  const rocksdb::ParsedInternalKey parsed(lookup->user_key, SeqOf(entry), static_cast<rocksdb::ValueType>(entry.type));
  Status merge_status;
  lookup->done = !lookup->get_context->SaveValue(parsed, ToSlice(entry.value), &lookup->matched, &merge_status, pinner);
  return merge_status;
}

bool HTableReader::IsBefore(const UnitView& view, uint32_t i, const Lookup& lookup) const {
  const UnitEntry entry = view.Entry(i);
  const int order = ToSlice(entry.key).compare(lookup.user_key);
  return order != 0 ? order < 0 : SeqOf(entry) > lookup.seq;
}

Status HTableReader::ReadUnit(const rocksdb::ReadOptions& read_options, const UnitPlace& place, const Lookup& lookup,
                              UnitRef* unit) const {
  const Status s = file_->Read(read_options, place, lookup.get_context, unit);
  // Without I/O nobody can say that the key is absent.
  if (s.IsIncomplete()) lookup.get_context->MarkKeyMayExist();
  return s;
}

// All entries of one hash, in the order of keys, newest first.
Status HTableReader::SearchExtents(const rocksdb::ReadOptions& read_options, uint32_t first, uint32_t last,
                                   Lookup* lookup) const {
  const std::vector<ExtentPlan>& extents = file_->index().extents();
  const auto read = [&](uint32_t e, UnitRef* unit) {
    return ReadUnit(read_options, {extents[e].offset, extents[e].size}, *lookup, unit);
  };
  // Most hashes have one key. What is newer than the lookup's snapshot is passed over unread then.
  while (first < last && extents[first].min_seq > lookup->seq) ++first;
  // To the first extent that does not end before the key: in growing steps, then by halves.
  UnitRef unit;
  uint32_t high = last, unit_of = last;
  for (uint32_t step = 1, probe = first; first < high;) {
    UnitRef probed;
    const Status s = read(probe, &probed);
    if (!s.ok()) return s;
    const UnitView view = probed.view();
    if (view.entries() > 0 && IsBefore(view, view.entries() - 1, *lookup)) {
      first = probe + 1;
      step *= 2;
    } else {
      high = probe;
      unit_of = probe;
      unit = std::move(probed);
    }
    probe = high < last ? first + (high - first) / 2 : std::min(last - 1, first + step - 1);
  }
  for (bool past = false; first < last && !past && !lookup->done; ++first) {
    UnitRef found;
    Status s;
    if (first == unit_of) {
      std::swap(found, unit);
    } else {
      s = read(first, &found);
    }
    if (s.ok()) s = SearchExtent(std::move(found), lookup, &past);
    if (!s.ok()) return s;
  }
  return Status::OK();
}

Status HTableReader::SearchExtent(UnitRef unit, Lookup* lookup, bool* past) const {
  const UnitView view = unit.view();
  rocksdb::Cleanable held;
  rocksdb::Cleanable* const pinner = unit.MoveTo(&held);
  uint32_t low = 0, high = view.entries();
  while (low < high) {
    const uint32_t middle = low + (high - low) / 2;
    if (IsBefore(view, middle, *lookup)) {
      low = middle + 1;
    } else {
      high = middle;
    }
  }
  for (; low < view.entries() && !lookup->done; ++low) {
    const UnitEntry entry = view.Entry(low);
    *past = ToSlice(entry.key) != lookup->user_key;
    if (*past) break;
    const Status s = Offer(entry, lookup, pinner);
    if (!s.ok()) return s;
  }
  return Status::OK();
}

Status HTableReader::SearchAt(const rocksdb::ReadOptions& read_options, const UnitPlace& place, Lookup* lookup) const {
  UnitRef unit;
  const Status s = ReadUnit(read_options, place, *lookup, &unit);
  return s.ok() ? SearchUnit(std::move(unit), lookup) : s;
}

Status HTableReader::SearchElsewhere(const rocksdb::ReadOptions& read_options, Lookup* lookup, bool* home) const {
  *home = true;
  const HTableIndex& index = file_->index();
  if (!index.extents().empty()) {
    uint32_t first = 0, last = 0;
    index.ExtentsOf(lookup->hash, &first, &last);
    *home = first == last;
    if (!*home) return SearchExtents(read_options, first, last, lookup);
  }
  if (!index.HasSpills(lookup->place.group)) return Status::OK();
  uint32_t cursor = 0;
  uint64_t offset = 0;
  while (index.FindSpill(lookup->place, lookup->hash, &cursor, &offset)) {
    const Status s = SearchAt(read_options, {offset, index.bucket_size()}, lookup);
    if (!s.ok()) return s;
    if (lookup->matched) {
      *home = false;
      break;
    }
  }
  return Status::OK();
}

Status HTableReader::Get(const rocksdb::ReadOptions& read_options, const Slice& key, rocksdb::GetContext* get_context,
                         const rocksdb::SliceTransform* /*prefix_extractor*/, bool skip_filters) {
  const uint64_t hash = hash_(rocksdb::ExtractUserKey(key));
  if (filter_ != nullptr && !skip_filters && !filter_->MayContain(read_options, hash)) return Status::OK();
  return Find(read_options, key, hash, get_context);
}

Status HTableReader::Find(const rocksdb::ReadOptions& read_options, const Slice& internal_key, uint64_t hash,
                          rocksdb::GetContext* get_context) const {
  if (file_->index().empty()) return Status::OK();
  Lookup lookup = StartLookup(internal_key, hash, get_context);
  lookup.place = file_->index().Find(lookup.hash);
  bool home = true;
  Status s = SearchElsewhere(read_options, &lookup, &home);
  if (s.ok() && home) s = SearchAt(read_options, HomeOf(lookup), &lookup);
  CountTruePositive(lookup);
  return s;
}

void HTableReader::MultiGet(const rocksdb::ReadOptions& read_options, const rocksdb::MultiGetContext::Range* range,
                            const rocksdb::SliceTransform* /*prefix_extractor*/, bool skip_filters) {
  if (file_->index().empty()) return;
  FilterBatch asked;
  asked.wanted = HashesOf(hash_, *range, &asked.hashes);
  uint64_t may_contain = asked.wanted;
  if (filter_ != nullptr && !skip_filters) {
    asked.add_others = [&](FilterHashes* hashes) {
      return HashesOf(hash_, range->context()->GetMultiGetRange(), hashes);
    };
    if (CanReadBatch(*file_, read_options)) asked.async_reads = file_->fs().get();
    may_contain = filter_->MayContainBatch(read_options, &asked);
  }
  FindBatch(read_options, *range, asked.hashes, may_contain);
}

void HTableReader::FindBatch(const rocksdb::ReadOptions& read_options, const rocksdb::MultiGetContext::Range& range,
                             const FilterHashes& hashes, uint64_t places) const {
  if (file_->index().empty()) return;
  std::vector<PendingRead> reads;
  rocksdb::GetContext* of_mapped = nullptr;
  for (auto key = range.begin(); key != range.end(); ++key) {
    if ((places >> key.index() & 1) == 0) continue;
    Lookup lookup = StartLookup(key->ikey, hashes[key.index()], key->get_context);
    lookup.place = file_->index().Find(lookup.hash);
    bool home = true;
    *key->s = SearchElsewhere(read_options, &lookup, &home);
    if (!key->s->ok() || !home) continue;
    UnitRef unit;
    if (file_->is_mapped()) {
      of_mapped = lookup.get_context;
      *key->s = SearchAt(read_options, HomeOf(lookup), &lookup);
    } else if (file_->FindCached(HomeOf(lookup), lookup.get_context, &unit)) {
      *key->s = SearchUnit(std::move(unit), &lookup);
    } else if (read_options.read_tier == rocksdb::kBlockCacheTier) {
      key->get_context->MarkKeyMayExist();
      *key->s = Status::Incomplete("no blocking io");
    } else {
      reads.push_back({lookup, key->s});
    }
  }
  // As RocksDB counts tables that a batch reads blocks of: with one of its keys.
  if (of_mapped != nullptr) ++of_mapped->get_context_stats_.num_sst_read;
  if (reads.empty()) return;
  ++reads.front().lookup.get_context->get_context_stats_.num_sst_read;
  SearchReadAhead(read_options, &reads);
  if (reads.empty()) return;
  const BatchOfTable batch{file_.get(), filter_.get(), &hash_, &read_options, &range};
  if (filter_ == nullptr) {
    ReadTogether(read_options, &reads);
  } else if (CanReadBatch(*file_, read_options)) {
    ReadBatch(batch);
    SearchReadAhead(read_options, &reads);
    ReadTogether(read_options, &reads);
  } else {
    const size_t pages = reads.size();
    const auto start = std::chrono::steady_clock::now();
    ReadTogether(read_options, &reads);
    if (std::chrono::steady_clock::now() - start > pages * kSlowRead) HintBatch(batch);
  }
}

void HTableReader::SearchReadAhead(const rocksdb::ReadOptions& read_options, std::vector<PendingRead>* reads) const {
  const auto found = [&](PendingRead& read) {
    const UnitPlace place = HomeOf(read.lookup);
    std::unique_ptr<HTableUnit> unit = CopyReadAhead(*file_, place);
    if (unit == nullptr) return false;
    UnitRef ref;
    // Another key of the batch may have put the page into the cache.
    if (!file_->IsCached(place) || !file_->FindCached(place, read.lookup.get_context, &ref)) {
      // A damaged page is read once more, and reported then.
      if (!file_->Admit(read_options, place, std::move(unit), read.lookup.get_context, &ref).ok()) return false;
    }
    *read.status = SearchUnit(std::move(ref), &read.lookup);
    return true;
  };
  reads->erase(std::remove_if(reads->begin(), reads->end(), found), reads->end());
}

void HTableReader::ReadTogether(const rocksdb::ReadOptions& read_options, std::vector<PendingRead>* reads) const {
  if (reads->empty()) return;
  std::sort(reads->begin(), reads->end(),
            [](const PendingRead& a, const PendingRead& b) { return a.lookup.place.offset < b.lookup.place.offset; });
  // One request for each page.
  std::vector<rocksdb::FSReadRequest> requests;
  std::vector<std::unique_ptr<HTableUnit>> units;
  const size_t size = file_->index().bucket_size();
  const bool direct = file_->file()->use_direct_io();
  for (const PendingRead& read : *reads) {
    const uint64_t offset = read.lookup.place.offset;
    if (!requests.empty() && requests.back().offset == offset) continue;
    units.push_back(HTableUnit::New(size));
    rocksdb::FSReadRequest request;
    request.offset = offset;
    request.len = size;
    request.scratch = direct ? nullptr : units.back()->bytes();
    requests.push_back(std::move(request));
  }
  rocksdb::IOOptions io_options;
  rocksdb::IOStatus io_status = file_->file()->PrepareIOOptions(read_options, io_options);
  port::DirectReadBuffer aligned;
  if (io_status.ok()) {
    PERF_TIMER_GUARD(block_read_time);
    io_status =
        file_->file()->MultiRead(io_options, requests.data(), requests.size(), direct ? aligned.get() : nullptr);
  }
  size_t read = 0;
  for (size_t r = 0; r < requests.size(); ++r) {
    const rocksdb::FSReadRequest& request = requests[r];
    Status s = io_status.ok() ? request.status : io_status;
    if (s.ok() && request.result.size() != size) s = file_->Corruption("the file ends early", request.offset);
    if (s.ok() && request.result.data() != units[r]->bytes()) {
      memcpy(units[r]->bytes(), request.result.data(), size);
    }
    for (bool first = true; read < reads->size() && (*reads)[read].lookup.place.offset == request.offset; ++read) {
      PendingRead& pending = (*reads)[read];
      UnitRef unit;
      if (s.ok()) {
        // Others that want the page find it in the cache, or read it again where there is none.
        s = first ? file_->Admit(read_options, {request.offset, size}, std::move(units[r]), pending.lookup.get_context,
                                 &unit)
                  : file_->Read(read_options, {request.offset, size}, pending.lookup.get_context, &unit);
      }
      first = false;
      *pending.status = s.ok() ? SearchUnit(std::move(unit), &pending.lookup) : s;
    }
  }
}

uint64_t HTableReader::ApproximateOffsetOf(const rocksdb::ReadOptions& /*read_options*/, const Slice& key,
                                           rocksdb::TableReaderCaller /*caller*/) {
  if (file_->index().empty()) return 0;
  const uint64_t hash = hash_(rocksdb::ExtractUserKey(key));
  if (hash > file_->header().last_hash) return file_->data_end();
  return file_->index().Find(hash).offset;
}

uint64_t HTableReader::ApproximateSize(const rocksdb::ReadOptions& read_options, const Slice& start, const Slice& end,
                                       rocksdb::TableReaderCaller caller) {
  const uint64_t from = start.data() == nullptr ? 0 : ApproximateOffsetOf(read_options, start, caller);
  const uint64_t to = end.data() == nullptr ? file_->data_end() : ApproximateOffsetOf(read_options, end, caller);
  return to > from ? to - from : 0;
}

Status HTableReader::ApproximateKeyAnchors(const rocksdb::ReadOptions& read_options, std::vector<Anchor>& anchors) {
  const HTableIndex& index = file_->index();
  const uint64_t count = std::min<uint64_t>(kAnchors, index.homes());
  uint64_t covered = 0;
  for (uint64_t i = 1; i <= count; ++i) {
    const HTableIndex::Place place = index.PlaceOf(static_cast<uint32_t>(i * index.homes() / count - 1));
    UnitRef unit;
    const Status s = file_->Read(read_options, {place.offset, index.bucket_size()}, nullptr, &unit);
    if (!s.ok()) return s;
    if (unit.view().entries() == 0) continue;
    const uint64_t end = i == count ? file_->data_end() : place.offset + index.bucket_size();
    anchors.emplace_back(ToSlice(unit.view().Key(unit.view().entries() - 1)), end - covered);
    covered = end;
  }
  return Status::OK();
}

Status HTableReader::Verify(const rocksdb::ReadOptions& read_options, rocksdb::TableReaderCaller /*caller*/,
                            port::Verified verified) {
  // Opening the file has verified its index, its properties and its marks.
  const Status s = verified == port::Verified::kAllBlocks ? file_->Verify(read_options) : Status::OK();
  return s.ok() && filter_ != nullptr ? filter_->Verify(read_options) : s;
}

Status HTableReader::Dump(rocksdb::WritableFile* out, port::DumpKeys /*keys*/) {
  return DumpHTable(*file_, hash_, out);
}

}  // namespace cairn
