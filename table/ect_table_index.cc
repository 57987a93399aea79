#include "table/ect_table_index.h"

#include <algorithm>
#include <utility>

#include "db/dbformat.h"
#include "table/bits.h"
#include "table/ect_table.h"

namespace cairn {

namespace {

constexpr uint32_t kVersion = 2;
constexpr uint32_t kKeysInOneBlock = 1;  // the one flag
// Every so many blocks, the position of a block's first key among the hashes of the table is kept. 16: 2 bits a block,
// and 60 items a block then lie within a quarter of a block of where they are expected.
constexpr uint32_t kSampleBlocks = 16;
constexpr size_t kHeaderBytes = 64;
constexpr uint64_t kOffsetsHeaderBytes = 24;  // of an Elias-Fano sequence

// docs/ect_table_format.md
struct Header {
  bool keys_in_one_block = false;
  uint64_t keys = 0;
  uint64_t first_hash = 0;
  uint64_t last_hash = 0;
  uint64_t offsets_bytes = 0;
  uint32_t sample_count = 0;
  uint64_t index_bytes = 0;
  uint64_t filter_bytes = 0;

  size_t offsets_at() const { return kHeaderBytes; }
  size_t samples_at() const { return kHeaderBytes + offsets_bytes; }
  size_t index_at() const { return samples_at() + 4 * size_t{sample_count}; }
  size_t total() const { return index_at() + index_bytes; }
};

void EncodeHeader(const Header& header, std::string* out) {
  PutU32(out, kVersion);
  PutU32(out, header.keys_in_one_block ? kKeysInOneBlock : 0);
  PutU64(out, header.keys);
  PutU64(out, header.first_hash);
  PutU64(out, header.last_hash);
  PutU64(out, header.offsets_bytes);
  PutU32(out, header.sample_count);
  PutU32(out, kSampleBlocks);
  PutU64(out, header.index_bytes);
  PutU64(out, header.filter_bytes);
}

rocksdb::Status Damaged(const std::string& what) {
  return rocksdb::Status::Corruption("property cairn.ect: " + what, "compact the file to write it anew");
}

rocksdb::Status DecodeHeader(const std::string& bytes, Header* header) {
  const uint8_t* const data = reinterpret_cast<const uint8_t*>(bytes.data());
  if (bytes.size() < 4) return Damaged("shorter than its header");
  if (LoadU32(data) != kVersion) {
    return rocksdb::Status::NotSupported("property cairn.ect: version " + std::to_string(LoadU32(data)) +
                                         "; this program reads version " + std::to_string(kVersion));
  }
  if (bytes.size() < kHeaderBytes) return Damaged("shorter than its header");
  if (LoadU32(data + 4) > kKeysInOneBlock) return Damaged("unknown flags");
  header->keys_in_one_block = LoadU32(data + 4) == kKeysInOneBlock;
  header->keys = LoadU64(data + 8);
  header->first_hash = LoadU64(data + 16);
  header->last_hash = LoadU64(data + 24);
  header->offsets_bytes = LoadU64(data + 32);
  header->sample_count = LoadU32(data + 40);
  header->index_bytes = LoadU64(data + 48);
  header->filter_bytes = LoadU64(data + 56);
  constexpr uint64_t kMost = uint64_t{1} << 48;
  if (LoadU32(data + 44) != kSampleBlocks || header->first_hash > header->last_hash || header->offsets_bytes > kMost ||
      header->index_bytes > kMost || header->filter_bytes > kMost || header->offsets_bytes < kOffsetsHeaderBytes) {
    return Damaged("impossible numbers in its header");
  }
  return rocksdb::Status::OK();
}

// The property and its header, checked to be as long as the header says.
rocksdb::Status FindWhole(const rocksdb::TableProperties& properties, const std::string** bytes, Header* header) {
  const auto found = properties.user_collected_properties.find(kEctProperty);
  if (found == properties.user_collected_properties.end()) {
    return rocksdb::Status::NotFound("the table has no property cairn.ect");
  }
  *bytes = &found->second;
  const rocksdb::Status status = DecodeHeader(found->second, header);
  if (status.ok() && found->second.size() != header->total()) return Damaged("not as long as its header says");
  return status;
}

// The place of a hash between the first and the last one, as a fraction of 2^32.
uint32_t Fraction(uint64_t hash, uint64_t first, uint64_t last) {
  if (hash <= first) return 0;
  if (hash >= last) return UINT32_MAX;
  return static_cast<uint32_t>((static_cast<unsigned __int128>(hash - first) << 32) / (last - first + uint64_t{1}));
}

constexpr uint64_t kBlockTrailerBytes = 5;  // of a block-based table: compression type and checksum

rocksdb::Status ToStatus(const IndexStatus& status) {
  if (status.ok()) return rocksdb::Status::OK();
  if (status.code() == IndexStatus::Code::kCorruption) return rocksdb::Status::Corruption(status.message());
  if (status.code() == IndexStatus::Code::kNotSupported) return rocksdb::Status::NotSupported(status.message());
  return rocksdb::Status::InvalidArgument(status.message());
}

EctOptions IndexOptions(const EctTableOptions& options) {
  EctOptions index_options;
  index_options.group = options.group;
  index_options.hmax = options.hmax;
  index_options.prune_at_started_blocks = true;
  return index_options;
}

class EctCollector : public rocksdb::InternalTblPropColl {
 public:
  EctCollector(const EctTableOptions& options, const KeyHash& hash, EctTableFilter filter)
      : hash_(hash),
        index_(IndexOptions(options)),
        filter_(CuckooFilterOptions{options.filter_tag_bits, 0.95}),
        filter_kind_(filter) {}

  const char* Name() const override { return "cairn.EctTable"; }

  // `block_offset` is the end of the blocks written so far: the offset at which the block that gets this entry will
  // lie.
  rocksdb::Status InternalAdd(const rocksdb::Slice& key, const rocksdb::Slice& /*value*/,
                              uint64_t block_offset) override {
    if (rocksdb::ExtractValueType(key) == rocksdb::kTypeRangeDeletion) return rocksdb::Status::OK();
    const rocksdb::Slice user_key = rocksdb::ExtractUserKey(key);
    const bool new_block = offsets_.empty() || block_offset != offsets_.back();
    const bool new_key = offsets_.empty() || user_key != rocksdb::Slice(user_key_);
    if (!new_block && !new_key) return rocksdb::Status::OK();
    if (new_key) {
      ++keys_;
      user_key_.assign(user_key.data(), user_key.size());
      key_hash_ = hash_(user_key);
      if (filter_kind_ == EctTableFilter::kCuckoo) filter_.Add(key_hash_);
    }
    if (new_block) {
      if (offsets_.size() % kSampleBlocks == 0) samples_.push_back(key_hash_);
      offsets_.push_back(block_offset);
      index_.StartBlock();
    }
    index_.Add(key_hash_);
    return rocksdb::Status::OK();
  }

  void BlockAdd(uint64_t, uint64_t, uint64_t) override {}

  rocksdb::Status Finish(rocksdb::UserCollectedProperties* properties) override {
    if (offsets_.empty()) return rocksdb::Status::OK();
    std::string offsets, index, filter;
    EncodeEliasFano(offsets_, offsets_.back() + 1, &offsets);
    Header header;
    // The index has a position for every block that a key has entries in.
    header.keys_in_one_block = index_.keys() == keys_;
    header.keys = keys_;
    header.first_hash = samples_.front();
    header.last_hash = key_hash_;
    header.offsets_bytes = offsets.size();
    header.sample_count = static_cast<uint32_t>(samples_.size());
    IndexStatus status = index_.Finish(&index);
    if (status.ok() && filter_kind_ == EctTableFilter::kCuckoo) status = filter_.Finish(&filter);
    if (!status.ok()) return ToStatus(status);
    header.index_bytes = index.size();
    header.filter_bytes = filter.size();
    std::string bytes;
    EncodeHeader(header, &bytes);
    bytes += offsets;
    for (const uint64_t hash : samples_) PutU32(&bytes, Fraction(hash, header.first_hash, header.last_hash));
    bytes += index;
    properties->emplace(kEctProperty, std::move(bytes));
    if (!filter.empty()) properties->emplace(kCuckooProperty, std::move(filter));
    return rocksdb::Status::OK();
  }

  rocksdb::UserCollectedProperties GetReadableProperties() const override {
    return {{kEctProperty, std::to_string(offsets_.size()) + " blocks"}};
  }

 private:
  const KeyHash hash_;
  EctBuilder index_;
  CuckooFilterBuilder filter_;
  const EctTableFilter filter_kind_;
  std::vector<uint64_t> offsets_;  // of the data blocks so far
  std::vector<uint64_t> samples_;  // hashes of the first keys of every kSampleBlocks-th of them
  std::string user_key_;           // of the last entry
  uint64_t keys_ = 0;
  uint64_t key_hash_ = 0;
};

class EctCollectorFactory : public rocksdb::InternalTblPropCollFactory {
 public:
  EctCollectorFactory(const EctTableOptions& options, const KeyHash& hash, EctTableFilter filter)
      : options_(options), hash_(hash), filter_(filter) {}
  const char* Name() const override { return "cairn.EctTable"; }
  rocksdb::InternalTblPropColl* CreateInternalTblPropColl(uint32_t, int, int, rocksdb::SequenceNumber) override {
    return new EctCollector(options_, hash_, filter_);
  }

 private:
  const EctTableOptions options_;
  const KeyHash hash_;
  const EctTableFilter filter_;
};

}  // namespace

std::unique_ptr<rocksdb::InternalTblPropCollFactory> NewEctCollectorFactory(const EctTableOptions& options,
                                                                            const KeyHash& hash,
                                                                            EctTableFilter filter) {
  return std::make_unique<EctCollectorFactory>(options, hash, filter);
}

rocksdb::Status ReadEctTableFacts(const rocksdb::TableProperties& properties, EctTableFacts* facts) {
  const auto found = properties.user_collected_properties.find(kEctProperty);
  if (found == properties.user_collected_properties.end()) {
    return rocksdb::Status::NotFound("the table has no property cairn.ect");
  }
  Header header;
  const rocksdb::Status status = DecodeHeader(found->second, &header);
  if (!status.ok()) return status;
  facts->keys = header.keys;
  facts->blocks = properties.num_data_blocks;
  facts->layout_bytes = header.index_at();
  facts->index_bytes = header.index_bytes;
  facts->filter_bytes = header.filter_bytes;
  return status;
}

void DropEctTableBytes(rocksdb::TableProperties* properties) {
  const auto found = properties->user_collected_properties.find(kEctProperty);
  if (found != properties->user_collected_properties.end() && found->second.size() > kHeaderBytes) {
    found->second = found->second.substr(0, kHeaderBytes);
  }
  properties->user_collected_properties.erase(kCuckooProperty);
}

rocksdb::Status EctBlockLayout::Open(const rocksdb::TableProperties& properties,
                                     std::unique_ptr<EctBlockLayout>* layout) {
  layout->reset();
  const std::string* bytes = nullptr;
  Header header;
  const rocksdb::Status status = FindWhole(properties, &bytes, &header);
  if (!status.ok()) return status;
  auto opened = std::make_unique<EctBlockLayout>();
  opened->bytes_ = bytes->substr(header.offsets_at(), header.index_at() - header.offsets_at());
  const uint8_t* const data = reinterpret_cast<const uint8_t*>(opened->bytes_.data());
  const char* error = opened->offsets_.Open(data, header.offsets_bytes, LoadU64(data + 8));
  if (error != nullptr) return Damaged(std::string("the offsets are ") + error);
  const uint64_t blocks = opened->offsets_.count();
  if (header.sample_count != (blocks + kSampleBlocks - 1) / kSampleBlocks) return Damaged("wrong number of samples");
  opened->samples_ = data + header.offsets_bytes;
  opened->sample_count_ = header.sample_count;
  for (uint64_t i = 1; i < opened->sample_count_; ++i) {
    if (opened->Sample(i) < opened->Sample(i - 1)) return Damaged("samples out of order");
  }
  if (opened->offsets_.Get(blocks - 1) + kBlockTrailerBytes > properties.data_size) {
    return Damaged("a block begins behind the end of the data");
  }
  opened->first_hash_ = header.first_hash;
  opened->last_hash_ = header.last_hash;
  opened->data_end_ = properties.data_size;
  opened->keys_in_one_block_ = header.keys_in_one_block;
  *layout = std::move(opened);
  return status;
}

void EctBlockLayout::Locate(uint64_t block, uint64_t* offset, uint64_t* size) const {
  *offset = offsets_.Get(block);
  const uint64_t next = block + 1 < offsets_.count() ? offsets_.Get(block + 1) : data_end_;
  // A block is never shorter than its trailer in a table that RocksDB wrote; a read of a wrong size fails its checksum.
  *size = next - *offset > kBlockTrailerBytes ? next - *offset - kBlockTrailerBytes : 0;
}

uint32_t EctBlockLayout::Sample(uint64_t index) const { return LoadU32(samples_ + 4 * index); }

uint64_t EctBlockLayout::Guess(uint64_t hash) const {
  const uint32_t place = Fraction(hash, first_hash_, last_hash_);
  // The last sample at or below the place; sample 0 is 0 but for damage.
  uint64_t below = 0, above = sample_count_;
  while (above - below > 1) {
    const uint64_t middle = below + (above - below) / 2;
    (Sample(middle) <= place ? below : above) = middle;
  }
  const uint64_t first = below * kSampleBlocks;
  const uint64_t count = std::min<uint64_t>(kSampleBlocks, blocks() - first);
  const uint64_t from = std::min(Sample(below), place);
  const uint64_t to = above < sample_count_ ? Sample(above) : uint64_t{UINT32_MAX} + 1;
  return first + std::min(count - 1, (place - from) * count / (to - from));
}

uint64_t EctBlockLayout::BlocksWithin(uint64_t distance) const {
  const uint64_t per_block = std::max<uint64_t>(1, (last_hash_ - first_hash_) / blocks());
  return std::max<uint64_t>(1, distance / per_block);
}

rocksdb::Status EctTries::Open(const rocksdb::TableProperties& properties, std::shared_ptr<EctTableCounters> counters,
                               std::unique_ptr<EctTries>* tries) {
  tries->reset();
  const std::string* bytes = nullptr;
  Header header;
  const rocksdb::Status status = FindWhole(properties, &bytes, &header);
  if (!status.ok()) return status;
  std::unique_ptr<EctTries> opened(new EctTries());
  opened->bytes_ = bytes->substr(header.index_at());
  const IndexStatus index_status =
      EctIndex::Open(opened->bytes_.data(), opened->bytes_.size(), EctVerify::kChecksum, &opened->index_);
  if (!index_status.ok()) return ToStatus(index_status);
  if (opened->index_.keys() == 0) return Damaged("the index is empty");
  opened->counters_ = std::move(counters);
  if (opened->counters_ != nullptr) {
    opened->counters_->index_bytes.fetch_add(opened->bytes_.size(), std::memory_order_relaxed);
  }
  *tries = std::move(opened);
  return status;
}

EctTries::~EctTries() {
  if (counters_ != nullptr) counters_->index_bytes.fetch_sub(bytes_.size(), std::memory_order_relaxed);
}

BlockRun EctTries::BlocksOf(const EctMatch& match) const {
  if (match.count == 0) return {1, 0};
  const uint64_t first = index_.BlockOf(match.rank);
  // Nearly always all positions lie in one block.
  return {first, match.count == 1 ? first : index_.BlockOf(match.rank + match.count - 1)};
}

BlockRun EctTries::Find(uint64_t hash) const { return BlocksOf(index_.Lookup(hash)); }

void EctTries::FindBatch(const std::vector<uint64_t>& hashes, std::vector<BlockRun>* runs) const {
  std::vector<EctMatch> matches(hashes.size());
  index_.LookupBatch(hashes.data(), hashes.size(), matches.data());
  runs->clear();
  for (const EctMatch& match : matches) runs->push_back(BlocksOf(match));
}

rocksdb::Status EctTableFilterInMemory::Open(const rocksdb::TableProperties& properties,
                                             std::unique_ptr<EctTableFilterInMemory>* filter) {
  auto opened = std::make_unique<EctTableFilterInMemory>();
  const auto found = properties.user_collected_properties.find(kCuckooProperty);
  if (found != properties.user_collected_properties.end()) {
    opened->bytes_ = found->second;
    const IndexStatus status = CuckooFilter::Open(opened->bytes_.data(), opened->bytes_.size(), &opened->filter_);
    if (!status.ok()) return ToStatus(status);
  }
  *filter = std::move(opened);
  return rocksdb::Status::OK();
}

}  // namespace cairn
