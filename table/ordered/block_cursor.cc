#include "table/ordered/block_cursor.h"

#include <algorithm>
#include <cstring>

#include "db/pinned_iterators_manager.h"
#include "monitoring/statistics_impl.h"
#include "rocksdb/port/block_based.h"
#include "table/block_based/block_cache.h"
#include "table/perf_counts.h"
#include "test_util/sync_point.h"
#include "trace_replay/block_cache_tracer.h"
#include "util/coding.h"
#include "util/prefetch.h"
#include "util/rocksdb_names.h"

namespace cairn {

using rocksdb::BlockBasedTable;
using rocksdb::BlockBasedTableOptions;
using rocksdb::Cache;

namespace {

constexpr uint32_t kMostPrefetched = 2048;                // more than most restart intervals have
constexpr size_t kTagBytes = rocksdb::kNumInternalBytes;  // sequence number and type behind the user key

void ReleaseBlock(void* cache, void* handle) {
  static_cast<Cache*>(cache)->Release(static_cast<Cache::Handle*>(handle));
}

bool IsSimple(const BlockBasedTable::Rep& rep) {
  const BlockBasedTableOptions& options = rep.table_options;
  return options.block_cache != nullptr && options.read_amp_bytes_per_bit == 0 &&
         rep.create_context.protection_bytes_per_key == 0 && !rep.index_has_first_key &&
         rep.index_type != BlockBasedTableOptions::kHashSearch &&
         rep.internal_comparator.user_comparator()->timestamp_size() == 0 && port::HasPlainEntries(rep);
}

uint64_t BigEndian64(const char* bytes) {
  uint64_t v;
  memcpy(&v, bytes, sizeof(v));
  return __builtin_bswap64(v);
}

// Bytes that both begin with.
size_t CommonBytes(const char* a, const char* b, size_t size) {
  size_t i = 0;
  for (; i + 8 <= size; i += 8) {
    const uint64_t differ = BigEndian64(a + i) ^ BigEndian64(b + i);
    if (differ != 0) return i + static_cast<size_t>(__builtin_clzll(differ)) / 8;
  }
  while (i < size && a[i] == b[i]) ++i;
  return i;
}

// Asks the memory for a block's restart array, and for the entries that a search begins with.
void PrefetchEnds(const char* block, size_t size) {
  __builtin_prefetch(block + size - sizeof(uint32_t));
  __builtin_prefetch(block + size / 2);
  __builtin_prefetch(block);
}

// A target of a search, taken apart once.
struct Target {
  explicit Target(const Slice& internal_key)
      : user_key(internal_key.data()),
        size(internal_key.size() - kTagBytes),
        tag(rocksdb::DecodeFixed64(internal_key.data() + size)) {}

  // Whether the entry lies before it. *common: how many bytes of the user keys are alike.
  bool IsAbove(const char* key, size_t key_size, uint64_t key_tag, size_t* common) const {
    const size_t least = std::min(size, key_size);
    *common = CommonBytes(key, user_key, least);
    if (*common < least) return static_cast<uint8_t>(key[*common]) < static_cast<uint8_t>(user_key[*common]);
    if (key_size != size) return key_size < size;
    return key_tag > tag;
  }

  const char* user_key;
  size_t size;
  uint64_t tag;
};

}  // namespace

BlockSource::BlockSource(BlockBasedTable* table, std::unique_ptr<const MappedTable> mapped,
                         rocksdb::BlockCacheTracer* tracer)
    : table_(table),
      tracer_(tracer),
      cache_(table->get_rep()->table_options.block_cache.get()),
      is_last_level_(table->IsLastLevel()),
      mapped_(std::move(mapped)),
      simple_(IsSimple(*table->get_rep())) {
  if (simple_) index_.Open(table);
}

bool BlockSource::IsTraced() const { return tracer_ != nullptr && tracer_->is_tracing_enabled(); }

bool BlockSource::Serves(const rocksdb::ReadOptions& read_options, const rocksdb::SliceTransform* prefix_extractor,
                         bool skip_filters) const {
  if (!simple_ || IsTraced()) return false;
  // Where RocksDB's iterator asks the Bloom filter for the target's prefix.
  return prefix_extractor == nullptr || skip_filters ||
         (read_options.total_order_seek && !read_options.auto_prefix_mode && !read_options.prefix_same_as_start);
}

const char* BlockSource::Mapped(const rocksdb::BlockHandle& handle, const rocksdb::ReadOptions& read_options) const {
  // A page that is not in memory would be read.
  if (mapped_ == nullptr || read_options.read_tier == rocksdb::kBlockCacheTier) return nullptr;
  const size_t size = BlockBasedTable::BlockSizeWithTrailer(handle);
  if (handle.offset() > mapped_->size() || size > mapped_->size() - handle.offset()) return nullptr;
  const char* const block = mapped_->At(handle.offset());
  PrefetchEnds(block, handle.size());
  // Who reads past the caches wants what is right now.
  if (read_options.fill_cache && mapped_->IsVerified(handle.offset())) return block;
  if (BlockBasedTable::GetBlockCompressionType(block, handle.size()) != rocksdb::kNoCompression) return nullptr;
  if (!read_options.verify_checksums) return block;
  const Status s = port::VerifyDataBlock(rep(), block, handle.size(), handle.offset());
  RecordTick(rep().ioptions.stats, rocksdb::BLOCK_CHECKSUM_COMPUTE_COUNT);
  // RocksDB's reader finds the damage, too, and says and counts so.
  if (!s.ok()) return nullptr;
  mapped_->SetVerified(handle.offset());
  return block;
}

BlockCursor::~BlockCursor() { Release(); }

bool BlockCursor::MakeIndex() {
  if (index_ != nullptr || source_->index().usable()) return true;
  const BlockBasedTable::Rep& rep = source_->rep();
  rocksdb::BlockCacheLookupContext context{rocksdb::TableReaderCaller::kUserIterator};
  index_block_.emplace();
  auto* const made = rep.index_reader->NewIterator(*read_options_, false, &*index_block_, nullptr, &context);
  if (made != &*index_block_) index_on_heap_.reset(made);
  IGNORE_STATUS_IF_ERROR(made->status());
  if (!made->status().ok()) {
    index_on_heap_.reset();
    index_block_.reset();
    return false;
  }
  index_ = made;
  return true;
}

BlockCursor::Place BlockCursor::IndexState() const {
  if (index_ == nullptr) return index_at_ < source_->index().count() ? Place::kBlock : Place::kEnd;
  if (index_->Valid()) return Place::kBlock;
  // Of a part of the index. RocksDB's iterator or reader tries again.
  IGNORE_STATUS_IF_ERROR(index_->status());
  return index_->status().ok() ? Place::kEnd : Place::kError;
}

BlockCursor::Place BlockCursor::FindBlock(const Slice& target) {
  if (index_ != nullptr) {
    index_->Seek(target);
  } else {
    index_at_ = source_->index().Find(target);
  }
  return IndexState();
}

BlockCursor::Place BlockCursor::FirstBlock() {
  if (index_ != nullptr) index_->SeekToFirst();
  index_at_ = 0;
  return IndexState();
}

BlockCursor::Place BlockCursor::LastBlock() {
  if (index_ != nullptr) index_->SeekToLast();
  index_at_ = source_->index().count() - 1;  // no block, if there is none
  return IndexState();
}

BlockCursor::Place BlockCursor::PrecedingBlock() {
  if (index_ != nullptr) index_->Prev();
  --index_at_;
  return IndexState();
}

BlockCursor::Place BlockCursor::FollowingBlock() {
  if (index_ != nullptr) index_->Next();
  ++index_at_;
  return IndexState();
}

// Of the index: at or above all keys of its block.
Slice BlockCursor::Separator() const {
  return index_ != nullptr ? index_->user_key() : source_->index().Separator(index_at_);
}

// There is no block to go to.
BlockCursor::Result BlockCursor::Left(Place place) {
  Release();
  return place == Place::kEnd ? Result::kEnd : Result::kElsewhere;
}

void BlockCursor::Release() {
  if (!has_block_) return;
  if (IsValuePinned()) {
    rocksdb::Cleanable held;
    GiveBlock(&held);
    held.DelegateCleanupsTo(pinned_);
  } else {
    held_.Reset();
    block_ = nullptr;
  }
  has_block_ = false;
  at_entry_ = false;
}

// As RocksDB counts a hit, by its names.
void BlockCursor::Count(Cache::Handle* handle) const {
  rocksdb::Statistics* const statistics = source_->rep().ioptions.stats;
  const bool perf = perf_level >= PerfLevel::kEnableCount;
  if (statistics == nullptr && !perf) return;
  const size_t usage = source_->cache()->GetUsage(handle);
  if (perf) {
    PERF_COUNTER_ADD(block_cache_hit_count, 1);
    PERF_COUNTER_ADD(block_cache_read_byte, usage);
    PERF_COUNTER_BY_LEVEL_ADD(block_cache_hit_count, 1, static_cast<uint32_t>(source_->rep().level));
  }
  RecordTick(statistics, rocksdb::BLOCK_CACHE_HIT);
  RecordTick(statistics, rocksdb::BLOCK_CACHE_BYTES_READ, usage);
  RecordTick(statistics, rocksdb::BLOCK_CACHE_DATA_HIT);
}

// As RocksDB counts a block of a mapped file.
void BlockCursor::CountMapped(size_t bytes) const {
  PERF_COUNTER_ADD(block_read_count, 1);
  PERF_COUNTER_ADD(block_read_byte, BlockBasedTable::kBlockTrailerSize + bytes);
}

// Holds a block that is in the cache.
Cache::Handle* BlockCursor::Lookup(const rocksdb::BlockHandle& handle) {
  const rocksdb::CacheKey key = BlockBasedTable::GetCacheKey(source_->rep().base_cache_key, handle);
  Cache::Handle* const found = source_->cache()->BasicLookup(key.AsSlice(), source_->rep().ioptions.stats);
  if (found == nullptr) return nullptr;
  Count(found);
  held_.RegisterCleanup(&ReleaseBlock, source_->cache(), found);
  return found;
}

// Reads a block into the cache and holds it; null if it is not there afterwards. `reader` is null for a scan, whose
// first blocks come without readahead.
Cache::Handle* BlockCursor::Read(const rocksdb::BlockHandle& handle, rocksdb::GetContext* reader) {
  // A mapped file's blocks are cached only if they are compressed, which a block says when it has been read.
  if (!read_options_->fill_cache || read_options_->readahead_size != 0 || read_options_->async_io ||
      read_options_->read_tier == rocksdb::kBlockCacheTier || source_->rep().ioptions.allow_mmap_reads) {
    return nullptr;
  }
  rocksdb::BlockCacheLookupContext context{reader != nullptr ? rocksdb::TableReaderCaller::kUserGet
                                                             : rocksdb::TableReaderCaller::kUserIterator};
  rocksdb::DataBlockIter read;
  Status s;
  source_->table()->NewDataBlockIterator<rocksdb::DataBlockIter>(
      *read_options_, handle, &read, rocksdb::BlockType::kData, reader, &context, nullptr, false, false, s, true);
  // RocksDB's iterator or reader tries again, and what it fails in counts.
  IGNORE_STATUS_IF_ERROR(s);
  IGNORE_STATUS_IF_ERROR(read.status());
  if (!s.ok() || !read.status().ok() || read.cache_handle() == nullptr) return nullptr;
  Cache::Handle* const held = read.cache_handle();
  read.DelegateCleanupsTo(&held_);
  return held;
}

// Holds the block that the index is at.
bool BlockCursor::Load(Miss miss, For use, rocksdb::GetContext* reader) {
  const rocksdb::BlockHandle handle = HandleOfBlock();
  if (handle.IsNull()) {
    Release();
    return false;
  }
  if (has_block_) {
    if (handle.offset() == block_offset_) return true;
    Release();
  }
  if (!Hold(handle, miss, reader)) {
    Release();
    return false;
  }
  if (use == For::kScan && loaded_++ == 0) {
    useful_ = true;
    RecordTick(source_->rep().ioptions.stats,
               source_->is_last_level() ? rocksdb::LAST_LEVEL_SEEK_DATA : rocksdb::NON_LAST_LEVEL_SEEK_DATA);
  }
  return true;
}

bool BlockCursor::Hold(const rocksdb::BlockHandle& handle, Miss miss, rocksdb::GetContext* reader) {
  block_offset_ = handle.offset();
  const char* const mapped = source_->Mapped(handle, *read_options_);
  is_mapped_ = mapped != nullptr;
  if (is_mapped_) {
    CountMapped(handle.size());
    has_block_ = true;
    return Open(Slice(mapped, handle.size()));
  }
  block_ = Lookup(handle);
  if (block_ == nullptr && miss == Miss::kRead) block_ = Read(handle, reader);
  if (block_ == nullptr) return false;
  has_block_ = true;
  const auto* const block = static_cast<const rocksdb::Block_kData*>(source_->cache()->Value(block_));
  if (block == nullptr) return false;
  const Slice content = block->ContentSlice();
  PrefetchEnds(content.data(), content.size());
  return Open(content);
}

// Finds the restart array of a block's bytes.
bool BlockCursor::Open(const Slice& block) {
  uint32_t end = 0;
  if (!port::FindRestarts(block, &restart_count_, &end)) return false;
  if (restart_count_ == 0 || restart_count_ > end / sizeof(uint32_t)) return false;
  restarts_ = end - restart_count_ * static_cast<uint32_t>(sizeof(uint32_t));
  data_ = block.data();
  next_ = 0;
  return true;
}

uint32_t BlockCursor::RestartOffset(uint32_t index) const {
  return rocksdb::DecodeFixed32(data_ + restarts_ + index * sizeof(uint32_t));
}

bool BlockCursor::Decode(uint32_t offset, Entry* entry) const {
  const char* at = data_ + offset;
  const char* const limit = data_ + restarts_;
  if (offset >= restarts_ || limit - at < 3) return false;
  entry->shared = static_cast<uint8_t>(at[0]);
  entry->unshared = static_cast<uint8_t>(at[1]);
  entry->value_size = static_cast<uint8_t>(at[2]);
  if ((entry->shared | entry->unshared | entry->value_size) < 128) {
    at += 3;
  } else {
    at = rocksdb::GetVarint32Ptr(at, limit, &entry->shared);
    if (at != nullptr) at = rocksdb::GetVarint32Ptr(at, limit, &entry->unshared);
    if (at != nullptr) at = rocksdb::GetVarint32Ptr(at, limit, &entry->value_size);
    if (at == nullptr) return false;
  }
  entry->unshared_key = at;
  return uint64_t{entry->unshared} + entry->value_size <= static_cast<uint64_t>(limit - at);
}

// Goes on to the entry at next_, which shares no more than `known` bytes with the current key. False, and nothing
// changed, if there is none that makes sense.
bool BlockCursor::Parse(size_t known) {
  Entry entry;
  if (!Decode(next_, &entry) || entry.shared > known || entry.shared + entry.unshared < kTagBytes) return false;
  const bool global = global_sequence_ != rocksdb::kDisableGlobalSequenceNumber;
  offset_ = next_;
  if (global && entry.shared > 0) rocksdb::EncodeFixed64(key_.data() + key_.size() - kTagBytes, stored_tag_);
  key_.Replace(entry.shared, entry.unshared_key, entry.unshared);
  if (global) {
    char* const tag = key_.data() + key_.size() - kTagBytes;
    stored_tag_ = rocksdb::DecodeFixed64(tag);
    rocksdb::EncodeFixed64(
        tag, rocksdb::PackSequenceAndType(global_sequence_, static_cast<rocksdb::ValueType>(stored_tag_ & UINT8_MAX)));
  }
  value_ = Slice(entry.unshared_key + entry.unshared, entry.value_size);
  next_ = static_cast<uint32_t>(value_.data() + value_.size() - data_);
  return true;
}

// To the first entry of the block at or above the target; behind the last if there is none. False for a block that
// makes no sense.
bool BlockCursor::SearchBlock(const Slice& internal_key) {
  const Target target(internal_key);
  const bool global = global_sequence_ != rocksdb::kDisableGlobalSequenceNumber;
  uint32_t low = 0, high = restart_count_ - 1;
  size_t common = 0;
  // Of the restarts that lie before the target, the last.
  while (low < high) {
    const uint32_t middle = low + (high - low + 1) / 2;
    Entry entry;
    if (!Decode(RestartOffset(middle), &entry) || entry.shared != 0 || entry.unshared < kTagBytes) return false;
    const size_t size = entry.unshared - kTagBytes;
    uint64_t tag = rocksdb::DecodeFixed64(entry.unshared_key + size);
    if (global) tag = global_sequence_ << 8 | (tag & UINT8_MAX);
    if (target.IsAbove(entry.unshared_key, size, tag, &common)) {
      low = middle;
    } else {
      high = middle - 1;
    }
  }
  next_ = RestartOffset(low);
  // Where an entry begins is known from the one before, so the memory is asked for several of them now.
  const uint32_t end = low + 1 < restart_count_ ? RestartOffset(low + 1) : restarts_;
  if (next_ < end && end <= restarts_) Prefetch(data_ + next_, std::min(end - next_, kMostPrefetched));
  // Whether the entry before differs from the target within its user key, in the byte behind `common`: so does whatever
  // shares more than that with it.
  bool differs = false;
  size_t known = 0;
  while (!AtEnd()) {
    const auto shared = static_cast<uint8_t>(data_[next_]);
    if (!Parse(known)) return false;
    known = key_.size();
    if (differs && shared > common && shared < 128) continue;
    const Slice user = user_key();
    if (!target.IsAbove(user.data(), user.size(), rocksdb::DecodeFixed64(user.data() + user.size()), &common)) {
      at_entry_ = true;
      return true;
    }
    differs = common < std::min(user.size(), target.size);
  }
  at_entry_ = false;
  return true;
}

// Whether entries that begin at a restart follow one another up to an offset.
bool BlockCursor::LeadsTo(uint32_t from, uint32_t offset) const {
  size_t known = 0;
  while (from < offset) {
    Entry entry;
    if (!Decode(from, &entry) || entry.shared > known || entry.shared + entry.unshared < kTagBytes) return false;
    known = entry.shared + entry.unshared;
    from = static_cast<uint32_t>(entry.unshared_key + entry.unshared + entry.value_size - data_);
  }
  return from == offset;
}

// To the entry that ends at an offset of the block. Only its restart interval tells what its key is.
BlockCursor::Result BlockCursor::ToEntryBefore(uint32_t offset, Miss miss) {
  if (offset == 0) return PrevBlock(miss);
  uint32_t low = 0;
  for (uint32_t high = restart_count_ - 1; low < high;) {
    const uint32_t middle = low + (high - low + 1) / 2;
    if (RestartOffset(middle) < offset) {
      low = middle;
    } else {
      high = middle - 1;
    }
  }
  const uint32_t restart = RestartOffset(low);
  if (restart >= offset || !LeadsTo(restart, offset)) {
    Release();
    return Result::kElsewhere;
  }
  next_ = restart;
  for (size_t known = 0; next_ < offset; known = key_.size()) Parse(known);
  at_entry_ = true;
  return Result::kHere;
}

void BlockCursor::CheckBlockBound() {
  const Slice* const bound = read_options_->iterate_upper_bound;
  within_bound_ = bound != nullptr && Separator().compare(*bound) < 0;
}

BlockCursor::Result BlockCursor::CheckBound() const {
  const Slice* const bound = read_options_->iterate_upper_bound;
  if (bound == nullptr || within_bound_ || user_key().compare(*bound) < 0) return Result::kHere;
  return Result::kOutOfBound;
}

bool BlockCursor::IsInBlock(const Slice& target) const {
  if (!has_block_ || !at_entry_) return false;
  const Slice user = rocksdb::ExtractUserKey(target);
  const int order = user.compare(user_key());
  if (order < 0 || user.compare(Separator()) >= 0) return false;
  return order > 0 || rocksdb::ExtractInternalKeyFooter(target) <= rocksdb::ExtractInternalKeyFooter(key());
}

BlockCursor::Result BlockCursor::Seek(const Slice& target, Miss miss) {
  if (!MakeIndex()) return Result::kElsewhere;
  loaded_ = 0;
  useful_ = false;
  if (!IsInBlock(target)) {
    const Place place = FindBlock(target);
    if (place != Place::kBlock) return Left(place);
    if (!Load(miss)) return Result::kElsewhere;
  }
  CheckBlockBound();
  if (!SearchBlock(target)) {
    Release();
    return Result::kElsewhere;
  }
  return at_entry_ ? CheckBound() : NextBlock();
}

BlockCursor::Result BlockCursor::SeekForPrev(const Slice& target, Miss miss) {
  if (!MakeIndex()) return Result::kElsewhere;
  loaded_ = 0;
  useful_ = false;
  Place place = FindBlock(target);
  if (place == Place::kEnd) place = LastBlock();
  if (place != Place::kBlock) return Left(place);
  if (!Load(miss)) return Result::kElsewhere;
  CheckBlockBound();
  if (!SearchBlock(target)) {
    Release();
    return Result::kElsewhere;
  }
  if (!at_entry_) return ToEntryBefore(restarts_, miss);
  return key() == target ? Result::kHere : ToEntryBefore(offset_, miss);
}

// To the first entry of the block that the index is at.
BlockCursor::Result BlockCursor::BeginBlock(Miss miss) {
  if (!Load(miss)) return Result::kElsewhere;
  CheckBlockBound();
  next_ = 0;
  if (!Parse(0)) {
    Release();
    return Result::kElsewhere;
  }
  at_entry_ = true;
  return CheckBound();
}

BlockCursor::Result BlockCursor::SeekToFirst() {
  if (!MakeIndex()) return Result::kElsewhere;
  loaded_ = 0;
  useful_ = false;
  const Place place = FirstBlock();
  return place == Place::kBlock ? BeginBlock(Miss::kLeave) : Left(place);
}

BlockCursor::Result BlockCursor::Next() {
  if (AtEnd()) return NextBlock();
  if (Parse(key_.size())) return CheckBound();
  Release();
  return Result::kElsewhere;
}

// The block's entries are through.
BlockCursor::Result BlockCursor::NextBlock() {
  // As RocksDB's iterator: what lies behind a block that reaches the bound is beyond it.
  const bool beyond = read_options_->iterate_upper_bound != nullptr && !within_bound_;
  const Place place = FollowingBlock();
  if (place != Place::kBlock) return Left(place);
  // RocksDB reads so many blocks one by one before it reads ahead.
  const int alone = static_cast<int>(source_->rep().table_options.num_file_reads_for_auto_readahead);
  if (!beyond) return BeginBlock(loaded_ > 0 && loaded_ < alone ? Miss::kRead : Miss::kLeave);
  Release();
  return Result::kOutOfBound;
}

BlockCursor::Result BlockCursor::Prev() { return ToEntryBefore(offset_, Miss::kRead); }

// RocksDB does not read ahead on the way back.
BlockCursor::Result BlockCursor::PrevBlock(Miss miss) {
  const Place place = PrecedingBlock();
  if (place != Place::kBlock) return Left(place);
  if (!Load(miss)) return Result::kElsewhere;
  CheckBlockBound();
  return ToEntryBefore(restarts_, miss);
}

BlockCursor::Result BlockCursor::Find(const Slice& target, rocksdb::GetContext* reader) {
  const Place place = FindBlock(target);
  if (place != Place::kBlock) return Left(place);
  if (!Load(reader != nullptr ? Miss::kRead : Miss::kLeave, For::kLookup, reader)) return Result::kElsewhere;
  if (!SearchBlock(target)) {
    Release();
    return Result::kElsewhere;
  }
  if (at_entry_) return Result::kHere;
  // Entries of the block behind are above the separator.
  return Separator() == rocksdb::ExtractUserKey(target) ? FindFirstOfBlock() : Left(Place::kEnd);
}

bool BlockCursor::FindUncached(const Slice& target, rocksdb::BlockHandle* handle) {
  if (source_->is_mapped() || !MakeIndex() || FindBlock(target) != Place::kBlock) return false;
  *handle = HandleOfBlock();
  if (handle->IsNull()) return false;
  const rocksdb::CacheKey key = BlockBasedTable::GetCacheKey(source_->rep().base_cache_key, *handle);
  Cache::Handle* const found = source_->cache()->Lookup(key.AsSlice());
  if (found == nullptr) return true;
  source_->cache()->Release(found, /*useful=*/false, /*erase_if_last_ref=*/false);
  return false;
}

BlockCursor::Result BlockCursor::FindNext() {
  if (AtEnd()) return Separator() == user_key() ? FindFirstOfBlock() : Left(Place::kEnd);
  if (Parse(key_.size())) return Result::kHere;
  Release();
  return Result::kElsewhere;
}

BlockCursor::Result BlockCursor::FindFirstOfBlock() {
  const Place place = FollowingBlock();
  if (place != Place::kBlock) return Left(place);
  if (!Load(Miss::kLeave, For::kLookup)) return Result::kElsewhere;
  if (Parse(0)) {
    at_entry_ = true;
    return Result::kHere;
  }
  Release();
  return Result::kElsewhere;
}

void BlockCursor::GiveBlock(rocksdb::Cleanable* holder) {
  held_.DelegateCleanupsTo(holder);
  block_ = nullptr;
}

void BlockCursor::ShareBlock(rocksdb::Cleanable* holder) {
  if (block_ != nullptr && source_->cache()->Ref(block_)) {
    holder->RegisterCleanup(&ReleaseBlock, source_->cache(), block_);
  }
}

Slice BlockCursor::value() const {
  if (useful_) {
    useful_ = false;
    RecordTick(source_->rep().ioptions.stats, source_->is_last_level()
                                                  ? rocksdb::LAST_LEVEL_SEEK_DATA_USEFUL_NO_FILTER
                                                  : rocksdb::NON_LAST_LEVEL_SEEK_DATA_USEFUL_NO_FILTER);
  }
  return value_;
}

uint64_t BlockCursor::write_unix_time() const {
  uint64_t sequence;
  rocksdb::ValueType type;
  rocksdb::UnPackSequenceAndType(rocksdb::ExtractInternalKeyFooter(key()), &sequence, &type);
  if (sequence == rocksdb::kUnknownSeqnoBeforeAll) return rocksdb::kUnknownTimeBeforeAll;
  const rocksdb::SeqnoToTimeMapping& times = source_->rep().seqno_to_time_mapping;
  if (times.Empty()) return std::numeric_limits<uint64_t>::max();
  if (type == rocksdb::kTypeValuePreferredSeqno) sequence = rocksdb::ParsePackedValueForSeqno(value_);
  return times.GetProximalTimeBeforeSeqno(sequence);
}

}  // namespace cairn
