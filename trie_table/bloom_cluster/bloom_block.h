// The filter block of a table file: an index and pages of columns. docs/design/bloom_cluster.md has the bytes.
//
// A block holds pairs of one or more members: member 0 is the table that the block lies in, the others, if any, lay in
// the slots beneath it when it was written. Slot i of its pairs is member i.
//
// Thread-safety: immutable once open.

#pragma once

#include <atomic>
#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "rocksdb/port/file_read.h"
#include "trie_table/bloom_cluster/bloom_filter.h"
#include "trie_table/bloom_cluster/bloom_table.h"

namespace cairn {

// What a directory counts, over all its filters.
struct FilterCounters {
  std::atomic<uint64_t> memory{0};      // bytes of images and indexes
  std::atomic<uint64_t> page_reads{0};  // pages read from files to answer lookups
  std::atomic<uint64_t> page_hits{0};   // pages found in the block cache
  std::atomic<uint64_t> probes{0};      // lookups that were not answered from memory of the previous one
  std::atomic<uint64_t> bad_pages{0};   // pages that could not be read or did not match their checksum
};

struct FilterMember {
  uint64_t table_id = 0;
  uint64_t pairs = 0;  // of this member
};

// Writes the columns of a block. Bytes are complete after Finish.
class FilterBlockWriter : public ColumnSink {
 public:
  FilterBlockWriter(const FilterShape& shape, std::vector<FilterMember> members);
  // False if the column does not fit into a page: hashes too uneven for a filter.
  bool Add(const uint8_t* bytes, size_t size, size_t header) override;
  // Appends index and pages.
  void Finish(uint64_t pairs, std::string* out);

 private:
  void FinishPage();

  const FilterShape shape_;
  const std::vector<FilterMember> members_;
  std::string pages_;
  std::vector<uint8_t> page_;  // what is used of the current page
  std::vector<uint16_t> headers_;
  std::vector<uint32_t> first_columns_;
  uint64_t columns_ = 0;
};

// A page that has been checked.
class FilterPage {
 public:
  static constexpr auto kCacheEntryRole = rocksdb::CacheEntryRole::kFilterBlock;
  const uint8_t* bytes() const { return bytes_; }
  char* scratch() { return reinterpret_cast<char*>(bytes_); }

 private:
  alignas(64) uint8_t bytes_[kFilterPageBytes];
};

class FilterBlock;

// A hash that a block is asked about.
struct FilterQuestion {
  std::shared_ptr<const FilterBlock> block;
  uint64_t hash = 0;
  size_t page = 0;        // of the block, that has the answer
  bool answered = false;  // otherwise any member may have such a key
  uint64_t members = 0;   // that may have one
  size_t number = 0;      // whoever asks knows the question by it
};

class FilterBlock {
 public:
  static constexpr size_t kNoPage = ~size_t{0};

  // Reads the index. Corruption names file and offset.
  static rocksdb::Status Open(const FilterContext& context, const rocksdb::ReadOptions& read_options,
                              std::shared_ptr<rocksdb::RandomAccessFileReader> file, uint64_t offset, uint64_t size,
                              FilterCounters* counters, std::shared_ptr<const FilterBlock>* block);

  const FilterShape& shape() const { return shape_; }
  const std::vector<FilterMember>& members() const { return members_; }
  uint64_t pairs() const { return pairs_; }
  size_t pages() const { return first_columns_.size(); }
  double BitsPerPair() const {
    return 8.0 * kFilterPageBytes * static_cast<double>(pages()) / static_cast<double>(pairs_ == 0 ? 1 : pairs_);
  }
  // Of memory.
  size_t bytes() const { return first_columns_.capacity() * 4 + members_.capacity() * sizeof(FilterMember); }

  // The set of members that may have a key with this hash, by at most one page read. Incomplete if the block cache has
  // not got the page and kBlockCacheTier forbids to read it.
  rocksdb::Status Probe(const rocksdb::ReadOptions& read_options, uint64_t hash, FilterResidency residency,
                        uint64_t* members) const;

  // The steps of Probe, for several hashes (bloom_batch.h).
  //
  // The page that knows of a hash; kNoPage: no member has such a key.
  size_t PageOf(uint64_t hash) const;
  // Answers questions about one page by the block cache. False: it has not got the page, which is then to be read.
  bool AskCache(FilterResidency residency, size_t page, FilterQuestion* questions, size_t count) const;
  // Counts that a page is read for a lookup.
  void CountRead() const;
  // Answers questions about one page by its bytes as read, and puts it into the block cache. `page_bytes` lie in
  // *own if that is not null. Not if they are damaged, which is counted.
  rocksdb::Status Admit(const rocksdb::ReadOptions& read_options, FilterResidency residency, size_t page,
                        const uint8_t* page_bytes, std::unique_ptr<FilterPage> own, FilterQuestion* questions,
                        size_t count) const;
  // A page could not be read.
  void CountBad() const { counters_->bad_pages.fetch_add(1, std::memory_order_relaxed); }
  uint64_t PageOffset(size_t page) const { return pages_at_ + page * kFilterPageBytes; }
  const std::shared_ptr<rocksdb::RandomAccessFileReader>& file() const { return file_; }

  rocksdb::Status Verify(const rocksdb::ReadOptions& read_options) const;

  // Reads all pages. Null if memory is short.
  rocksdb::Status LoadImage(const rocksdb::ReadOptions& read_options, std::shared_ptr<const FilterImage>* image) const;

  // All pairs, read by a megabyte; the cursor keeps the block. It fails where a page cannot be read or is damaged.
  static std::unique_ptr<PairCursor> NewCursor(const std::shared_ptr<const FilterBlock>& block,
                                               const rocksdb::ReadOptions& read_options);

 private:
  friend class FilterBlockCursor;

  FilterBlock() = default;
  rocksdb::Status Decode(const std::string& index, uint64_t size);
  // Reads pages [first, first + count) one after the other; *bytes is set to them.
  rocksdb::Status ReadBytes(const rocksdb::ReadOptions& read_options, size_t first, size_t count, char* scratch,
                            port::DirectReadBuffer* aligned, const uint8_t** bytes) const;
  // The same, and checks them.
  rocksdb::Status ReadPages(const rocksdb::ReadOptions& read_options, size_t first, size_t count, char* scratch,
                            port::DirectReadBuffer* aligned, const uint8_t** bytes) const;
  rocksdb::Status CheckPage(size_t page, const uint8_t* bytes) const;
  rocksdb::Status Damaged(uint64_t offset, const std::string& what) const;
  void Answer(size_t page, const uint8_t* bytes, FilterQuestion* questions, size_t count) const;
  uint64_t OffsetOf(uint64_t hash) const { return shape_.FingerprintOfHash(hash) - shape_.low; }
  // Pages are looked up in the block cache and put there.
  bool Caches(FilterResidency residency) const {
    return residency == FilterResidency::kCache && cache_ != nullptr && !cache_key_.IsEmpty();
  }
  rocksdb::CacheKey PageKey(size_t page) const;

  std::shared_ptr<rocksdb::RandomAccessFileReader> file_;
  std::shared_ptr<rocksdb::Cache> cache_;
  rocksdb::OffsetableCacheKey cache_key_;
  rocksdb::Statistics* statistics_ = nullptr;
  FilterCounters* counters_ = nullptr;
  uint64_t offset_ = 0;
  uint64_t pages_at_ = 0;  // in the file
  FilterShape shape_;
  uint64_t pairs_ = 0;
  std::vector<FilterMember> members_;
  std::vector<uint32_t> first_columns_;  // of each page
};

}  // namespace cairn
