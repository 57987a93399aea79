#include "trie_table/bloom_cluster/bloom_block.h"

#include <algorithm>
#include <utility>

#include "cache/typed_cache.h"
#include "table/cache_counts.h"
#include "table/perf_counts.h"
#include "util/bits.h"
#include "util/checksum.h"
#include "util/format_version.h"

namespace cairn {

using rocksdb::Status;

namespace {

constexpr uint64_t kMagic = 0x544c466e72696143u;  // "CairnFLT"
constexpr uint32_t kVersion = 1;
constexpr size_t kIndexHeader = 48;
constexpr size_t kMemberBytes = 16;
constexpr size_t kChecksumBytes = 4;
// A filter of 2^32 columns has more than 10^11 keys.
constexpr uint64_t kMaxColumns = uint64_t{1} << 31;

// Of a page: checksum over what follows, first column, number of columns, end of the columns, the table's tag. Offsets
// of the headers lie at its end, last one first, before a guard that probes may read.
constexpr size_t kPageHeader = 16;
constexpr size_t kPageGuard = 8;
constexpr size_t kReadAtOnce = 256;  // pages

// Pages share the table's cache keys with its data blocks, whose offsets never have this bit.
constexpr uint64_t kPageKeyBit = uint64_t{1} << 62;

size_t RoundUp(size_t size) { return (size + kFilterPageBytes - 1) / kFilterPageBytes * kFilterPageBytes; }

uint16_t HeaderAt(const uint8_t* page, size_t i) { return LoadU16(page + kFilterPageBytes - kPageGuard - 2 * (i + 1)); }

using PageCache = rocksdb::BasicTypedCacheInterface<FilterPage>;

}  // namespace

FilterBlockWriter::FilterBlockWriter(const FilterShape& shape, std::vector<FilterMember> members)
    : shape_(shape), members_(std::move(members)) {
  page_.reserve(kFilterPageBytes);
}

bool FilterBlockWriter::Add(const uint8_t* bytes, size_t size, size_t header) {
  const auto fits = [&] {
    return std::max(page_.size(), kPageHeader) + size + 2 * (headers_.size() + 1) + kPageGuard <= kFilterPageBytes;
  };
  if (!fits()) FinishPage();
  if (!fits() || columns_ == kMaxColumns) return false;
  if (page_.empty()) {
    page_.resize(kPageHeader);
    first_columns_.push_back(static_cast<uint32_t>(columns_));
  }
  headers_.push_back(static_cast<uint16_t>(page_.size() + header));
  page_.insert(page_.end(), bytes, bytes + size);
  ++columns_;
  return true;
}

void FilterBlockWriter::FinishPage() {
  if (page_.empty()) return;
  const uint32_t tag = static_cast<uint32_t>(members_[0].table_id);
  const uint16_t count = static_cast<uint16_t>(headers_.size()), end = static_cast<uint16_t>(page_.size());
  page_.resize(kFilterPageBytes);
  memcpy(&page_[4], &first_columns_.back(), 4);
  memcpy(&page_[8], &count, 2);
  memcpy(&page_[10], &end, 2);
  memcpy(&page_[12], &tag, 4);
  for (size_t i = 0; i < headers_.size(); ++i) {
    memcpy(&page_[kFilterPageBytes - kPageGuard - 2 * (i + 1)], &headers_[i], 2);
  }
  const uint32_t checksum = Crc32c(&page_[4], kFilterPageBytes - 4);
  memcpy(page_.data(), &checksum, 4);
  pages_.append(reinterpret_cast<const char*>(page_.data()), kFilterPageBytes);
  page_.clear();
  headers_.clear();
}

void FilterBlockWriter::Finish(uint64_t pairs, std::string* out) {
  FinishPage();
  std::string index;
  PutU64(&index, kMagic);
  PutU32(&index, kVersion);
  PutU32(&index, static_cast<uint32_t>(first_columns_.size()));
  index.push_back(static_cast<char>(shape_.precision));
  index.push_back(static_cast<char>(shape_.remainder_bits));
  index.push_back(static_cast<char>(shape_.slot_bits));
  index.push_back(static_cast<char>(members_.size()));
  PutU32(&index, 0);
  PutU64(&index, shape_.low);
  PutU64(&index, shape_.columns);
  PutU64(&index, pairs);
  for (const FilterMember& member : members_) {
    PutU64(&index, member.table_id);
    PutU64(&index, member.pairs);
  }
  for (uint32_t column : first_columns_) PutU32(&index, column);
  PutU32(&index, Crc32c(index.data(), index.size()));
  index.resize(RoundUp(index.size()));
  out->append(index);
  out->append(pages_);
}

Status FilterBlock::Damaged(uint64_t offset, const std::string& what) const {
  return Status::Corruption(file_->file_name() + ": filter block at offset " + std::to_string(offset) + ": " + what,
                            "compact the file to write it anew");
}

Status FilterBlock::Decode(const std::string& index, uint64_t size) {
  const char* const p = index.data();
  const uint64_t pages = LoadU32(p + 12);
  shape_.precision = static_cast<uint8_t>(p[16]);
  shape_.remainder_bits = static_cast<uint8_t>(p[17]);
  shape_.slot_bits = static_cast<uint8_t>(p[18]);
  const size_t members = static_cast<uint8_t>(p[19]);
  shape_.low = LoadU64(p + 24);
  shape_.columns = LoadU64(p + 32);
  pairs_ = LoadU64(p + 40);
  if (!shape_.Valid() || shape_.columns > kMaxColumns) return Damaged(offset_ + 16, "impossible shape");
  // Memory is reserved by these two. A column takes more than a byte of a page, a key more than a bit.
  if (shape_.columns > pages * kFilterPageBytes) return Damaged(offset_ + 32, "impossible number of columns");
  if (pairs_ > pages * kFilterPageBytes * 8) return Damaged(offset_ + 40, "impossible number of keys");
  if (members == 0 || members > size_t{1} << shape_.slot_bits) return Damaged(offset_ + 19, "impossible members");
  for (size_t i = 0; i < members; ++i) {
    const char* const member = p + kIndexHeader + i * kMemberBytes;
    members_.push_back({LoadU64(member), LoadU64(member + 8)});
  }
  const char* const columns = p + kIndexHeader + members * kMemberBytes;
  for (uint64_t i = 0; i < pages; ++i) {
    const uint32_t column = LoadU32(columns + 4 * i);
    const bool ascends = i == 0 ? column == 0 : column > first_columns_.back();
    if (!ascends || column >= shape_.columns) return Damaged(offset_ + kIndexHeader, "impossible pages");
    first_columns_.push_back(column);
  }
  if ((pages == 0) != (shape_.columns == 0)) return Damaged(offset_ + 12, "impossible number of pages");
  pages_at_ = offset_ + RoundUp(index.size());
  if (RoundUp(index.size()) + pages * kFilterPageBytes != size) return Damaged(offset_, "its pages do not fill it");
  return Status::OK();
}

Status FilterBlock::Open(const FilterContext& context, const rocksdb::ReadOptions& read_options,
                         std::shared_ptr<rocksdb::RandomAccessFileReader> file, uint64_t offset, uint64_t size,
                         FilterCounters* counters, std::shared_ptr<const FilterBlock>* block) {
  std::shared_ptr<FilterBlock> opened(new FilterBlock());
  opened->file_ = std::move(file);
  opened->cache_ = context.block_cache;
  opened->cache_key_ = context.cache_key;
  opened->statistics_ = context.statistics;
  opened->counters_ = counters;
  opened->offset_ = offset;
  if (offset % kFilterPageBytes != 0 || size < kFilterPageBytes || size % kFilterPageBytes != 0) {
    return opened->Damaged(offset, "no whole pages");
  }
  rocksdb::IOOptions io;
  Status s = opened->file_->PrepareIOOptions(read_options, io);
  std::string index;
  size_t wanted = kFilterPageBytes;  // most indexes take one page
  while (s.ok()) {
    std::string scratch(wanted, '\0');
    port::DirectReadBuffer aligned;
    rocksdb::Slice bytes;
    s = opened->file_->Read(io, offset, wanted, &bytes, scratch.data(), aligned.get());
    if (!s.ok()) return s;
    if (bytes.size() != wanted) return opened->Damaged(offset, "the file ends in it");
    if (LoadU64(bytes.data()) != kMagic) return opened->Damaged(offset, "no magic number");
    if (LoadU32(bytes.data() + 8) != kVersion) {
      return Status::NotSupported(opened->file_->file_name(),
                                  "filter block of " + UnknownVersion(LoadU32(bytes.data() + 8), kVersion));
    }
    const uint64_t members = static_cast<uint8_t>(bytes[19]);
    const uint64_t index_bytes =
        kIndexHeader + members * kMemberBytes + uint64_t{LoadU32(bytes.data() + 12)} * 4 + kChecksumBytes;
    if (index_bytes > size) return opened->Damaged(offset, "its index does not fit into it");
    if (index_bytes > wanted) {
      wanted = RoundUp(index_bytes);
      continue;
    }
    index.assign(bytes.data(), index_bytes);
    break;
  }
  if (!s.ok()) return s;
  if (Crc32c(index.data(), index.size() - kChecksumBytes) != LoadU32(index.data() + index.size() - kChecksumBytes)) {
    return opened->Damaged(offset, "the checksum of its index does not match");
  }
  s = opened->Decode(index, size);
  if (!s.ok()) return s;
  if (opened->members_[0].table_id != context.table_id) {
    return opened->Damaged(offset + kIndexHeader, "it belongs to another table");
  }
  *block = std::move(opened);
  return Status::OK();
}

Status FilterBlock::CheckPage(size_t page, const uint8_t* bytes) const {
  const uint64_t at = PageOffset(page);
  if (LoadU32(bytes) != Crc32c(bytes + 4, kFilterPageBytes - 4)) return Damaged(at, "the checksum does not match");
  const uint64_t next = page + 1 < first_columns_.size() ? first_columns_[page + 1] : shape_.columns;
  const size_t count = LoadU16(bytes + 8), end = LoadU16(bytes + 10);
  if (LoadU32(bytes + 4) != first_columns_[page] || count != next - first_columns_[page] ||
      LoadU32(bytes + 12) != static_cast<uint32_t>(members_[0].table_id)) {
    return Damaged(at, "another page than the index says");
  }
  if (end < kPageHeader || end + 2 * count + kPageGuard > kFilterPageBytes) return Damaged(at, "impossible columns");
  size_t used = kPageHeader;
  for (size_t i = 0; i < count; ++i) {
    const size_t header = HeaderAt(bytes, i);
    if (header < used || header >= end) return Damaged(at, "impossible columns");
    const size_t size = CheckColumn(bytes + header, bytes + end, header - used, shape_);
    if (size == 0) return Damaged(at, "impossible columns");
    used += size;
  }
  return used == end ? Status::OK() : Damaged(at, "impossible columns");
}

Status FilterBlock::ReadBytes(const rocksdb::ReadOptions& read_options, size_t first, size_t count, char* scratch,
                              port::DirectReadBuffer* aligned, const uint8_t** bytes) const {
  rocksdb::IOOptions io;
  Status s = file_->PrepareIOOptions(read_options, io);
  rocksdb::Slice read;
  if (s.ok()) s = file_->Read(io, PageOffset(first), count * kFilterPageBytes, &read, scratch, aligned->get());
  if (!s.ok()) return s;
  if (read.size() != count * kFilterPageBytes) return Damaged(PageOffset(first), "the file ends in it");
  *bytes = reinterpret_cast<const uint8_t*>(read.data());
  return s;
}

Status FilterBlock::ReadPages(const rocksdb::ReadOptions& read_options, size_t first, size_t count, char* scratch,
                              port::DirectReadBuffer* aligned, const uint8_t** bytes) const {
  Status s = ReadBytes(read_options, first, count, scratch, aligned, bytes);
  for (size_t i = 0; i < count && s.ok(); ++i) s = CheckPage(first + i, *bytes + i * kFilterPageBytes);
  return s;
}

size_t FilterBlock::PageOf(uint64_t hash) const {
  const uint64_t column = OffsetOf(hash) >> shape_.column_shift();
  if (column >= shape_.columns) return kNoPage;
  return static_cast<size_t>(
      std::upper_bound(first_columns_.begin(), first_columns_.end(), static_cast<uint32_t>(column)) -
      first_columns_.begin() - 1);
}

void FilterBlock::Answer(size_t page, const uint8_t* bytes, FilterQuestion* questions, size_t count) const {
  for (size_t i = 0; i < count; ++i) {
    const uint64_t offset = OffsetOf(questions[i].hash);
    const uint64_t column = offset >> shape_.column_shift();
    questions[i].members = ProbeColumn(bytes + HeaderAt(bytes, column - first_columns_[page]), shape_, offset);
    questions[i].answered = true;
  }
}

rocksdb::CacheKey FilterBlock::PageKey(size_t page) const {
  return cache_key_.WithOffset(PageOffset(page) | kPageKeyBit);
}

bool FilterBlock::AskCache(FilterResidency residency, size_t page, FilterQuestion* questions, size_t count) const {
  if (!Caches(residency)) return false;
  PageCache cache(cache_.get());
  const rocksdb::CacheKey key = PageKey(page);
  auto guard = cache.Guard(cache.Lookup(key.AsSlice(), statistics_));
  if (guard.GetValue() == nullptr) {
    CountCacheMiss(statistics_, CachedPart::kFilter, kNoLevel);
    return false;
  }
  counters_->page_hits.fetch_add(1, std::memory_order_relaxed);
  CountCacheHit(statistics_, CachedPart::kFilter, kNoLevel, sizeof(FilterPage));
  Answer(page, guard.GetValue()->bytes(), questions, count);
  return true;
}

void FilterBlock::CountRead() const {
  counters_->page_reads.fetch_add(1, std::memory_order_relaxed);
  PERF_COUNTER_ADD(filter_block_read_count, 1);
  PERF_COUNTER_ADD(block_read_count, 1);
  PERF_COUNTER_ADD(block_read_byte, kFilterPageBytes);
}

Status FilterBlock::Admit(const rocksdb::ReadOptions& read_options, FilterResidency residency, size_t page,
                          const uint8_t* page_bytes, std::unique_ptr<FilterPage> own, FilterQuestion* questions,
                          size_t count) const {
  const Status s = CheckPage(page, page_bytes);
  if (!s.ok()) {
    CountBad();
    return s;
  }
  Answer(page, page_bytes, questions, count);
  if (!Caches(residency) || !read_options.fill_cache) return s;
  if (own == nullptr) own = std::make_unique<FilterPage>();
  if (page_bytes != own->bytes()) memcpy(own->scratch(), page_bytes, kFilterPageBytes);
  PageCache cache(cache_.get());
  const rocksdb::CacheKey key = PageKey(page);
  // The cache owns the page once it has taken it; a full one refuses, and the next lookup reads again.
  if (cache.Insert(key.AsSlice(), own.get(), sizeof(FilterPage), nullptr, rocksdb::Cache::Priority::HIGH).ok()) {
    static_cast<void>(own.release());
    CountCacheAdd(statistics_, CachedPart::kFilter, sizeof(FilterPage));
  }
  return s;
}

Status FilterBlock::Probe(const rocksdb::ReadOptions& read_options, uint64_t hash, FilterResidency residency,
                          uint64_t* members) const {
  *members = 0;
  const size_t page = PageOf(hash);
  if (page == kNoPage) return Status::OK();
  FilterQuestion question;
  question.hash = hash;
  if (AskCache(residency, page, &question, 1)) {
    *members = question.members;
    return Status::OK();
  }
  if (read_options.read_tier == rocksdb::kBlockCacheTier) return Status::Incomplete("no I/O allowed");
  auto own = std::make_unique<FilterPage>();
  port::DirectReadBuffer aligned;
  const uint8_t* bytes = nullptr;
  CountRead();
  Status s = ReadBytes(read_options, page, 1, own->scratch(), &aligned, &bytes);
  if (!s.ok()) {
    CountBad();
    return s;
  }
  s = Admit(read_options, residency, page, bytes, std::move(own), &question, 1);
  *members = question.members;
  return s;
}

// Decodes pages as it goes.
class FilterBlockCursor : public PairCursor {
 public:
  FilterBlockCursor(std::shared_ptr<const FilterBlock> block, const rocksdb::ReadOptions& read_options)
      : block_(std::move(block)), read_options_(read_options) {}

  bool failed() const override { return !status_.ok(); }

 protected:
  bool Refill(std::vector<uint64_t>* pairs) override {
    if (!status_.ok() || page_ == block_->pages()) return false;
    if (page_ == begin_ + count_) {
      begin_ = page_;
      count_ = std::min(kReadAtOnce, block_->pages() - page_);
      scratch_.resize(count_ * kFilterPageBytes);
      status_ = block_->ReadPages(read_options_, begin_, count_, scratch_.data(), &aligned_, &bytes_);
      if (!status_.ok()) return false;
    }
    const uint8_t* const page = bytes_ + (page_ - begin_) * kFilterPageBytes;
    const size_t count = LoadU16(page + 8);
    for (size_t i = 0; i < count; ++i) {
      DecodeColumn(page + HeaderAt(page, i), block_->shape(), block_->first_columns_[page_] + i, pairs);
    }
    ++page_;
    return true;
  }

 private:
  const std::shared_ptr<const FilterBlock> block_;
  const rocksdb::ReadOptions read_options_;
  Status status_;
  size_t page_ = 0, begin_ = 0, count_ = 0;
  std::vector<char> scratch_;
  port::DirectReadBuffer aligned_;
  const uint8_t* bytes_ = nullptr;
};

std::unique_ptr<PairCursor> FilterBlock::NewCursor(const std::shared_ptr<const FilterBlock>& block,
                                                   const rocksdb::ReadOptions& read_options) {
  return std::make_unique<FilterBlockCursor>(block, read_options);
}

Status FilterBlock::Verify(const rocksdb::ReadOptions& read_options) const {
  std::vector<char> scratch(std::min(kReadAtOnce, pages()) * kFilterPageBytes);
  Status s;
  for (size_t page = 0; page < pages() && s.ok(); page += kReadAtOnce) {
    port::DirectReadBuffer aligned;
    const uint8_t* bytes = nullptr;
    s = ReadPages(read_options, page, std::min(kReadAtOnce, pages() - page), scratch.data(), &aligned, &bytes);
  }
  return s;
}

Status FilterBlock::LoadImage(const rocksdb::ReadOptions& read_options,
                              std::shared_ptr<const FilterImage>* image) const {
  FilterImage::Builder builder(shape_, pairs_);
  std::vector<char> scratch(std::min(kReadAtOnce, pages()) * kFilterPageBytes);
  for (size_t first = 0; first < pages(); first += kReadAtOnce) {
    port::DirectReadBuffer aligned;
    const uint8_t* bytes = nullptr;
    const size_t read = std::min(kReadAtOnce, pages() - first);
    const Status s = ReadPages(read_options, first, read, scratch.data(), &aligned, &bytes);
    if (!s.ok()) return s;
    for (const uint8_t* page = bytes; page < bytes + read * kFilterPageBytes; page += kFilterPageBytes) {
      size_t begin = kPageHeader;
      const size_t count = LoadU16(page + 8), end = LoadU16(page + 10);
      for (size_t i = 0; i < count; ++i) {
        const size_t header = HeaderAt(page, i);
        const size_t size = CheckColumn(page + header, page + end, header - begin, shape_);
        builder.Add(page + begin, size, header - begin);
        begin += size;
      }
    }
  }
  *image = builder.Finish(pairs_);
  return *image != nullptr ? Status::OK() : Status::MemoryLimit(file_->file_name() + ": its filter");
}

}  // namespace cairn
