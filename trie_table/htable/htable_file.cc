#include "trie_table/htable/htable_file.h"

#include <algorithm>
#include <atomic>
#include <cstring>
#include <utility>

#include "db/dbformat.h"
#include "file/file_prefetch_buffer.h"
#include "monitoring/statistics_impl.h"
#include "table/block_based/block_based_table_reader.h"
#include "table/format.h"
#include "table/meta_blocks.h"
#include "table/perf_counts.h"
#include "table/sst_file_writer_collectors.h"
#include "trie_table/bloom_cluster/bloom_thread.h"
#include "util/checksum.h"
#include "util/coding.h"
#include "util/rocksdb_names.h"
#include "util/stop_watch.h"

namespace cairn {

// What RocksDB's macros for its counters refer to.

namespace {

constexpr size_t kTailGuess = 64 << 10;
constexpr size_t kVerifyChunk = 1 << 20;

uint64_t NextId() {
  static std::atomic<uint64_t> next{1};
  return next.fetch_add(1, std::memory_order_relaxed);
}

bool SamePart(const FilePart& part, const rocksdb::BlockHandle& handle) {
  return part.offset == handle.offset() && part.size == handle.size();
}

// What stands in for the sequence numbers of an ingested file; the rule is RocksDB's.
Status GlobalSequenceNumber(const rocksdb::TableProperties& properties, rocksdb::SequenceNumber largest,
                            rocksdb::SequenceNumber* number) {
  *number = rocksdb::kDisableGlobalSequenceNumber;
  const auto& collected = properties.user_collected_properties;
  const auto version = collected.find(rocksdb::ExternalSstFilePropertyNames::kVersion);
  if (version == collected.end()) return Status::OK();
  if (version->second.size() != 4 || rocksdb::DecodeFixed32(version->second.data()) != 2) {
    return Status::Corruption("an ingested file of an unknown version");
  }
  rocksdb::SequenceNumber stored = 0;
  const auto found = collected.find(rocksdb::ExternalSstFilePropertyNames::kGlobalSeqno);
  if (found != collected.end()) {
    if (found->second.size() != 8) return Status::Corruption("an ingested file with a malformed sequence number");
    stored = rocksdb::DecodeFixed64(found->second.data());
  }
  if (largest < rocksdb::kMaxSequenceNumber) {
    if (stored == 0) stored = largest;
    if (stored != largest) return Status::Corruption("an ingested file with two sequence numbers");
  }
  if (stored > rocksdb::kMaxSequenceNumber)
    return Status::Corruption("an ingested file with an impossible sequence number");
  *number = stored;
  return Status::OK();
}

// Not within their callers, where the compiler would find the thread's variables for every lookup, counted or not.
__attribute__((noinline)) void CountHitInPerfContext(uint32_t level, size_t charge) {
  PERF_COUNTER_ADD(block_cache_hit_count, 1);
  PERF_COUNTER_BY_LEVEL_ADD(block_cache_hit_count, 1, level);
  PERF_COUNTER_ADD(block_cache_read_byte, charge);
}
__attribute__((noinline)) void CountReadInPerfContext(size_t bytes) {
  PERF_COUNTER_ADD(block_read_count, 1);
  PERF_COUNTER_ADD(block_read_byte, bytes);
}
__attribute__((noinline)) void CountMissInPerfContext(uint32_t level) {
  PERF_COUNTER_BY_LEVEL_ADD(block_cache_miss_count, 1, level);
}

void CountHit(rocksdb::GetContext* get_context, rocksdb::Statistics* statistics, uint32_t level, size_t charge) {
  if (ThisFilterThread()->Counts()) CountHitInPerfContext(level, charge);
  if (get_context != nullptr) {
    ++get_context->get_context_stats_.num_cache_hit;
    ++get_context->get_context_stats_.num_cache_data_hit;
    get_context->get_context_stats_.num_cache_bytes_read += charge;
    return;
  }
  RecordTick(statistics, rocksdb::BLOCK_CACHE_HIT);
  RecordTick(statistics, rocksdb::BLOCK_CACHE_DATA_HIT);
  RecordTick(statistics, rocksdb::BLOCK_CACHE_BYTES_READ, charge);
}

void CountMiss(rocksdb::GetContext* get_context, rocksdb::Statistics* statistics, uint32_t level) {
  if (ThisFilterThread()->Counts()) CountMissInPerfContext(level);
  if (get_context != nullptr) {
    ++get_context->get_context_stats_.num_cache_miss;
    ++get_context->get_context_stats_.num_cache_data_miss;
    return;
  }
  RecordTick(statistics, rocksdb::BLOCK_CACHE_MISS);
  RecordTick(statistics, rocksdb::BLOCK_CACHE_DATA_MISS);
}

// `again`: another thread has put the same bytes there meanwhile.
void CountInsert(rocksdb::GetContext* get_context, rocksdb::Statistics* statistics, bool again, size_t charge) {
  if (get_context != nullptr) {
    ++get_context->get_context_stats_.num_cache_add;
    ++get_context->get_context_stats_.num_cache_data_add;
    get_context->get_context_stats_.num_cache_add_redundant += again ? 1 : 0;
    get_context->get_context_stats_.num_cache_data_add_redundant += again ? 1 : 0;
    get_context->get_context_stats_.num_cache_bytes_write += charge;
    get_context->get_context_stats_.num_cache_data_bytes_insert += charge;
    return;
  }
  RecordTick(statistics, rocksdb::BLOCK_CACHE_ADD);
  RecordTick(statistics, rocksdb::BLOCK_CACHE_DATA_ADD);
  if (again) {
    RecordTick(statistics, rocksdb::BLOCK_CACHE_ADD_REDUNDANT);
    RecordTick(statistics, rocksdb::BLOCK_CACHE_DATA_ADD_REDUNDANT);
  }
  RecordTick(statistics, rocksdb::BLOCK_CACHE_BYTES_WRITE, charge);
  RecordTick(statistics, rocksdb::BLOCK_CACHE_DATA_BYTES_INSERT, charge);
}

}  // namespace

HTableFile::HTableFile() : id_(NextId()) {}

Status HTableFile::Corruption(const std::string& what, uint64_t offset) const {
  return Status::Corruption("HTable: " + what, file_->file_name() + " offset " + std::to_string(offset));
}

Status HTableFile::Open(const rocksdb::ReadOptions& read_options, const rocksdb::TableReaderOptions& options,
                        std::shared_ptr<rocksdb::Cache> cache, std::unique_ptr<rocksdb::RandomAccessFileReader> file,
                        uint64_t file_size, std::shared_ptr<HTableFile>* result) {
  std::shared_ptr<HTableFile> opened(new HTableFile());
  opened->file_ = std::move(file);
  opened->file_size_ = file_size;
  opened->fs_ = options.ioptions.fs;
  opened->cache_ = std::move(cache);
  opened->statistics_ = options.ioptions.stats;
  opened->clock_ = options.ioptions.clock;
  opened->level_ = static_cast<uint32_t>(std::max(0, options.level));
  opened->lowest_cache_tier_ = options.ioptions.lowest_used_cache_tier;
  Status s = opened->ReadTail(read_options, options);
  if (!s.ok()) return s;
  rocksdb::BlockBasedTable::SetupBaseCacheKey(opened->properties_.get(), options.cur_db_session_id,
                                              options.cur_file_num, &opened->cache_key_);
  s = GlobalSequenceNumber(*opened->properties_, options.largest_seqno, &opened->global_seqno_);
  if (!s.ok()) return opened->Corruption(s.getState(), opened->header_.properties.offset);
  if (options.env_options.use_mmap_reads) {
    s = MappedTable::Find(*opened->file_, file_size, *opened->properties_, opened->header_.bucket_size,
                          &opened->mapped_);
    if (!s.ok()) return s;
  }
  *result = std::move(opened);
  return s;
}

Status HTableFile::ReadTail(const rocksdb::ReadOptions& read_options, const rocksdb::TableReaderOptions& options) {
  rocksdb::IOOptions io_options;
  Status s = file_->PrepareIOOptions(read_options, io_options);
  if (!s.ok()) return s;
  const uint64_t wanted = options.tail_size > 0 ? options.tail_size : kTailGuess;
  const uint64_t tail = std::min(wanted, file_size_);
  // A mapped file hands out its own memory and fills no buffer.
  rocksdb::FilePrefetchBuffer prefetched(rocksdb::ReadaheadParams(),
                                         !options.ioptions.allow_mmap_reads && !options.env_options.use_mmap_reads);
  s = prefetched.Prefetch(io_options, file_.get(), file_size_ - tail, tail);
  if (!s.ok() && !s.IsNotSupported()) return s;
  rocksdb::Footer footer;
  s = rocksdb::ReadFooterFromFile(io_options, file_.get(), *options.ioptions.fs, &prefetched, file_size_, &footer,
                                  kHTableFooterMagic);
  if (!s.ok()) return s;

  std::string scratch;
  const auto read = [&](uint64_t offset, uint64_t size, Slice* bytes) {
    if (size > file_size_ || offset > file_size_ - size) return Corruption("a part lies outside of the file", offset);
    Status read_status;
    if (prefetched.TryReadFromCache(io_options, file_.get(), offset, size, bytes, &read_status)) return read_status;
    if (!read_status.ok()) return read_status;
    scratch.resize(size);
    return ReadBytes(read_options, offset, size, scratch.data(), bytes);
  };
  const auto check = [&](const IndexStatus& status, uint64_t offset) {
    if (status.ok()) return Status::OK();
    return status.code() == IndexStatus::Code::kNotSupported
               ? Status::NotSupported(file_->file_name(), status.message())
               : Corruption(status.message(), offset);
  };

  Slice bytes;
  const uint64_t header_offset = footer.index_handle().offset();
  if (footer.index_handle().size() > kTailGuess) return Corruption("the footer is damaged", file_size_);
  s = read(header_offset, footer.index_handle().size(), &bytes);
  if (s.ok()) s = check(HTableHeader::Decode(bytes.ToStringView(), file_size_, &header_), header_offset);
  if (!s.ok()) return s;
  if (!SamePart(header_.metaindex, footer.metaindex_handle())) return Corruption("the footer is damaged", file_size_);

  s = read(header_.metaindex.offset, header_.metaindex.size, &bytes);
  if (!s.ok()) return s;
  if (Crc32c(bytes.data(), bytes.size()) != header_.metaindex.crc) {
    return Corruption("metaindex's checksum does not match", header_.metaindex.offset);
  }
  s = read(header_.properties.offset, header_.properties.size, &bytes);
  if (!s.ok()) return s;
  if (PropertiesChecksum(bytes.ToStringView()) != header_.properties.crc) {
    return Corruption("properties' checksum does not match", header_.properties.offset);
  }
  std::unique_ptr<rocksdb::TableProperties> properties;
  s = rocksdb::ReadTablePropertiesHelper(read_options,
                                         rocksdb::BlockHandle(header_.properties.offset, header_.properties.size),
                                         file_.get(), &prefetched, footer, options.ioptions, &properties);
  if (!s.ok()) return s;
  properties_ = std::move(properties);

  s = read(header_.group_index.offset, header_.group_index.size, &bytes);
  if (!s.ok()) return s;
  const std::string groups = bytes.ToString();
  s = read(header_.extent_index.offset, header_.extent_index.size, &bytes);
  if (s.ok()) {
    s = check(HTableIndex::Open(header_, groups, bytes.ToStringView(), &index_), header_.group_index.offset);
  }
  if (!s.ok()) return s;

  s = read(header_.dictionary.offset, header_.dictionary.size, &bytes);
  if (!s.ok()) return s;
  if (Crc32c(bytes.data(), bytes.size()) != header_.dictionary.crc) {
    return Corruption("dictionary's checksum does not match", header_.dictionary.offset);
  }
  decompressor_ = std::make_unique<UnitDecompressor>(bytes.ToString());
  return s;
}

Status HTableFile::ReadBytes(const rocksdb::ReadOptions& read_options, uint64_t offset, size_t size, char* scratch,
                             Slice* result) const {
  rocksdb::IOOptions io_options;
  rocksdb::IOStatus s = file_->PrepareIOOptions(read_options, io_options);
  if (s.ok()) s = file_->Read(io_options, offset, size, result, scratch, nullptr);
  if (!s.ok()) return s;
  return result->size() == size ? Status::OK() : Corruption("the file ends early", offset);
}

UnitPlace HTableFile::FirstUnitOf(uint64_t hash) const {
  if (!index_.extents().empty()) {
    uint32_t first = 0, last = 0;
    index_.ExtentsOf(hash, &first, &last);
    if (first != last) return {index_.extents()[first].offset, index_.extents()[first].size};
  }
  const HTableIndex::Place place = index_.Find(hash);
  uint32_t cursor = 0;
  uint64_t offset = 0;
  const bool spilled = index_.HasSpills(place.group) && index_.FindSpill(place, hash, &cursor, &offset);
  return {spilled ? offset : place.offset, index_.bucket_size()};
}

bool HTableFile::IsCached(const UnitPlace& place) const {
  if (cache_ == nullptr) return false;
  const rocksdb::CacheKey key = KeyOf(place.offset);
  rocksdb::Cache::Handle* const handle = cache_->Lookup(key.AsSlice());
  if (handle != nullptr) cache_->Release(handle);
  return handle != nullptr;
}

bool HTableFile::FindCached(const UnitPlace& place, rocksdb::GetContext* get_context, UnitRef* ref) const {
  if (cache_ == nullptr) return false;
  const rocksdb::CacheKey key = KeyOf(place.offset);
  UnitCache cache(cache_.get());
  HTableUnitContext context(place.offset);
  UnitCache::TypedHandle* const handle =
      cache.LookupFull(key.AsSlice(), &context, rocksdb::Cache::Priority::LOW, statistics_, lowest_cache_tier_);
  bool found = handle != nullptr;
  if (found && !cache.Value(handle)->whole()) {
    // Damaged in a secondary cache: the file has it.
    RecordTick(statistics_, rocksdb::BLOCK_CHECKSUM_MISMATCH_COUNT);
    cache.Release(handle);
    cache_->Erase(key.AsSlice());
    found = false;
  }
  if (!found) {
    CountMiss(get_context, statistics_, level_);
    return false;
  }
  CountHit(get_context, statistics_, level_, cache_->GetUsage(handle));
  ref->SetCached(cache_.get(), handle);
  return true;
}

Status HTableFile::Read(const rocksdb::ReadOptions& read_options, const UnitPlace& place,
                        rocksdb::GetContext* get_context, UnitRef* ref) const {
  if (is_mapped()) return ReadMapped(read_options, place, ref);
  if (FindCached(place, get_context, ref)) return Status::OK();
  if (read_options.read_tier == rocksdb::kBlockCacheTier) return Status::Incomplete("no blocking io");
  const rocksdb::StopWatch watch(clock_, statistics_, rocksdb::READ_BLOCK_GET_MICROS);
  std::unique_ptr<HTableUnit> unit = HTableUnit::New(place.size);
  {
    PERF_TIMER_GUARD(block_read_time);
    Slice bytes;
    const Status s = ReadBytes(read_options, place.offset, place.size, unit->bytes(), &bytes);
    if (!s.ok()) return s;
    if (bytes.data() != unit->bytes()) memcpy(unit->bytes(), bytes.data(), bytes.size());
  }
  return Admit(read_options, place, std::move(unit), get_context, ref);
}

Status HTableFile::ReadMapped(const rocksdb::ReadOptions& read_options, const UnitPlace& place, UnitRef* ref) const {
  // A page that is not in memory would be read.
  if (read_options.read_tier == rocksdb::kBlockCacheTier) return Status::Incomplete("no blocking io");
  if (ThisFilterThread()->Counts()) CountReadInPerfContext(place.size);
  const char* const bytes = mapped_->At(place.offset);
  UnitView view;
  UnitHeader header;
  // What a compaction writes again must be right now.
  if (read_options.fill_cache && mapped_->IsVerified(place.offset) &&
      DecodeUnitHeader(bytes, place.size, &header).ok()) {
    view = UnitView::OfChecked(bytes + kUnitHeaderSize, header.raw, header.entries, header.wide);
  } else {
    std::unique_ptr<HTableUnit> plain;
    const Status s = View(read_options, place, bytes, &plain, &view);
    if (!s.ok()) return s;
    if (plain != nullptr) {  // the table's properties are wrong about it
      ref->SetOwned(std::move(plain));
      return s;
    }
    if (read_options.verify_checksums) mapped_->SetVerified(place.offset);
  }
  ref->SetMapped(view);
  return Status::OK();
}

Status HTableFile::View(const rocksdb::ReadOptions& read_options, const UnitPlace& place, const char* bytes,
                        std::unique_ptr<HTableUnit>* unit, UnitView* view) const {
  UnitHeader header;
  IndexStatus index_status = DecodeUnitHeader(bytes, place.size, &header);
  if (read_options.verify_checksums) {
    PERF_TIMER_GUARD(block_checksum_time);
    RecordTick(statistics_, rocksdb::BLOCK_CHECKSUM_COMPUTE_COUNT);
    if (UnitChecksum(bytes, place.size, place.offset) != header.crc) {
      RecordTick(statistics_, rocksdb::BLOCK_CHECKSUM_MISMATCH_COUNT);
      return Corruption("checksum does not match", place.offset);
    }
  }
  if (!index_status.ok()) return Corruption(index_status.message(), place.offset);
  if (header.compression == 0) {
    index_status = UnitView::Open(bytes + kUnitHeaderSize, header.raw, header.entries, header.wide, view);
    return index_status.ok() ? Status::OK() : Corruption(index_status.message(), place.offset);
  }
  *unit = HTableUnit::New(kUnitHeaderSize + header.raw);
  const Status s = Decompress(header, bytes + kUnitHeaderSize, (*unit)->bytes() + kUnitHeaderSize);
  if (!s.ok()) return s.IsNotSupported() ? s : Corruption(s.getState(), place.offset);
  std::string plain;
  header.compression = 0;
  AppendUnit(header, {}, 0, 0, &plain);
  memcpy((*unit)->bytes(), plain.data(), kUnitHeaderSize);
  memcpy((*unit)->bytes() + 8, &header.raw, 4);
  index_status = (*unit)->Open();
  if (!index_status.ok()) return Corruption(index_status.message(), place.offset);
  *view = (*unit)->view();
  return Status::OK();
}

Status HTableFile::Decompress(const UnitHeader& header, const char* stored, char* raw) const {
  PERF_TIMER_GUARD(block_decompress_time);
  rocksdb::StopWatchNano timer(clock_, CountsTimesOfCodecs(statistics_));
  const Status s = decompressor_->Decompress(static_cast<rocksdb::CompressionType>(header.compression),
                                             Slice(stored, header.stored), header.raw, raw);
  if (!s.ok()) return s;
  if (CountsTimesOfCodecs(statistics_)) {
    RecordTimeToHistogram(statistics_, rocksdb::DECOMPRESSION_TIMES_NANOS, timer.ElapsedNanos());
  }
  RecordTick(statistics_, rocksdb::NUMBER_BLOCK_DECOMPRESSED);
  RecordTick(statistics_, rocksdb::BYTES_DECOMPRESSED_FROM, header.stored);
  RecordTick(statistics_, rocksdb::BYTES_DECOMPRESSED_TO, header.raw);
  return s;
}

Status HTableFile::Admit(const rocksdb::ReadOptions& read_options, const UnitPlace& place,
                         std::unique_ptr<HTableUnit> unit, rocksdb::GetContext* get_context, UnitRef* ref) const {
  CountReadInPerfContext(place.size);
  std::unique_ptr<HTableUnit> plain;
  UnitView view;
  const Status s = View(read_options, place, unit->bytes(), &plain, &view);
  if (!s.ok()) return s;
  const bool decompressed = plain != nullptr;
  if (!decompressed) {
    unit->Open();  // as View has found
    plain = std::move(unit);
  }
  if (cache_ == nullptr || !read_options.fill_cache) {
    ref->SetOwned(std::move(plain));
    return s;
  }
  // Of the bytes that a secondary cache may be given, and is to bring back.
  if (decompressed) SetUnitChecksum(plain->bytes(), plain->size(), place.offset);
  const rocksdb::CacheKey key = KeyOf(place.offset);
  UnitCache cache(cache_.get());
  UnitCache::TypedHandle* handle = nullptr;
  const size_t charge = plain->charge();
  const Status inserted =
      cache.InsertFull(key.AsSlice(), plain.get(), charge, &handle, rocksdb::Cache::Priority::LOW, lowest_cache_tier_);
  if (inserted.ok()) {
    static_cast<void>(plain.release());
    CountInsert(get_context, statistics_, inserted.IsOkOverwritten(), charge);
    ref->SetCached(cache_.get(), handle);
  } else {
    RecordTick(statistics_, rocksdb::BLOCK_CACHE_ADD_FAILURES);
    ref->SetOwned(std::move(plain));
  }
  return s;
}

Status HTableFile::VerifyUnits(const rocksdb::ReadOptions& read_options, uint64_t offset, uint64_t units) const {
  const size_t bucket_size = header_.bucket_size;
  const uint64_t chunk = kVerifyChunk / bucket_size;
  std::vector<char> scratch(std::min(chunk, units) * bucket_size + kUnitSlack);
  for (uint64_t done = 0; done < units;) {
    const uint64_t now = std::min(chunk, units - done);
    Slice bytes;
    Status s = ReadBytes(read_options, offset + done * bucket_size, now * bucket_size, scratch.data(), &bytes);
    for (uint64_t i = 0; s.ok() && i < now; ++i) {
      std::unique_ptr<HTableUnit> unit;
      UnitView view;
      s = View(read_options, {offset + (done + i) * bucket_size, bucket_size}, bytes.data() + i * bucket_size, &unit,
               &view);
    }
    if (!s.ok()) return s;
    done += now;
  }
  return Status::OK();
}

Status HTableFile::Verify(const rocksdb::ReadOptions& read_options) const {
  for (uint32_t g = 0; g < index_.groups(); ++g) {
    const Status s =
        VerifyUnits(read_options, index_.GroupOffset(g), index_.GroupHomes(g) + index_.GroupSpillBuckets(g));
    if (!s.ok()) return s;
  }
  std::string scratch;
  for (const ExtentPlan& extent : index_.extents()) {
    scratch.resize(extent.size + kUnitSlack);
    Slice bytes;
    Status s = ReadBytes(read_options, extent.offset, extent.size, scratch.data(), &bytes);
    std::unique_ptr<HTableUnit> unit;
    UnitView view;
    if (s.ok()) s = View(read_options, {extent.offset, extent.size}, bytes.data(), &unit, &view);
    if (!s.ok()) return s;
  }
  return Status::OK();
}

}  // namespace cairn
