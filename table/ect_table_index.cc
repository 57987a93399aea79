#include "table/ect_table_index.h"

#include <utility>

#include "db/dbformat.h"
#include "table/bits.h"
#include "table/ect_table.h"

namespace cairn {

namespace {

constexpr uint32_t kVersion = 1;
constexpr size_t kHeaderBytes = 16;
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
      user_key_.assign(user_key.data(), user_key.size());
      key_hash_ = hash_(user_key);
      if (filter_kind_ == EctTableFilter::kCuckoo) filter_.Add(key_hash_);
    }
    if (new_block) {
      offsets_.push_back(block_offset);
      index_.StartBlock();
    }
    index_.Add(key_hash_);
    return rocksdb::Status::OK();
  }

  void BlockAdd(uint64_t, uint64_t, uint64_t) override {}

  rocksdb::Status Finish(rocksdb::UserCollectedProperties* properties) override {
    if (offsets_.empty()) return rocksdb::Status::OK();
    std::string offsets, bytes;
    EncodeEliasFano(offsets_, offsets_.back() + 1, &offsets);
    PutU32(&bytes, kVersion);
    PutU32(&bytes, 0);
    PutU64(&bytes, offsets.size());
    bytes += offsets;
    IndexStatus status = index_.Finish(&bytes);
    if (!status.ok()) return ToStatus(status);
    properties->emplace(kEctProperty, std::move(bytes));
    if (filter_kind_ == EctTableFilter::kCuckoo) {
      std::string filter;
      status = filter_.Finish(&filter);
      if (!status.ok()) return ToStatus(status);
      properties->emplace(kCuckooProperty, std::move(filter));
    }
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
  std::string user_key_;           // of the last entry
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

rocksdb::Status EctTableIndex::Open(std::shared_ptr<const rocksdb::TableProperties> properties,
                                    std::unique_ptr<EctTableIndex>* index) {
  index->reset();
  const rocksdb::UserCollectedProperties& collected = properties->user_collected_properties;
  const auto found = collected.find(kEctProperty);
  if (found == collected.end()) return rocksdb::Status::NotFound("the table has no property cairn.ect");
  const std::string& bytes = found->second;
  const auto damaged = [](const std::string& what) {
    return rocksdb::Status::Corruption("property cairn.ect: " + what, "compact the file to write it anew");
  };
  const uint8_t* const data = reinterpret_cast<const uint8_t*>(bytes.data());
  if (bytes.size() < kHeaderBytes) return damaged("shorter than its header");
  if (LoadU32(data) != kVersion) {
    return rocksdb::Status::NotSupported("property cairn.ect: version " + std::to_string(LoadU32(data)) +
                                         "; this program reads version 1");
  }
  const uint64_t offsets_bytes = LoadU64(data + 8);
  if (offsets_bytes < kHeaderBytes || offsets_bytes > bytes.size() - kHeaderBytes) {
    return damaged("impossible size of the offsets");
  }
  std::unique_ptr<EctTableIndex> opened(new EctTableIndex());
  const uint64_t universe = LoadU64(data + kHeaderBytes + 8);
  const char* error = opened->offsets_.Open(data + kHeaderBytes, offsets_bytes, universe);
  if (error != nullptr) return damaged(std::string("the offsets are ") + error);
  const size_t index_at = kHeaderBytes + offsets_bytes;
  const IndexStatus status =
      EctIndex::Open(data + index_at, bytes.size() - index_at, EctVerify::kChecksum, &opened->index_);
  if (!status.ok()) return ToStatus(status);
  if (opened->index_.keys() == 0 || opened->index_.blocks() != opened->offsets_.count()) {
    return damaged("the index is of another number of blocks than the offsets");
  }
  const uint64_t last = opened->offsets_.Get(opened->offsets_.count() - 1);
  if (last + kBlockTrailerBytes > properties->data_size) return damaged("a block begins behind the end of the data");
  opened->data_end_ = properties->data_size;
  opened->bytes_ = bytes.size();

  const auto filter = collected.find(kCuckooProperty);
  if (filter != collected.end()) {
    const IndexStatus filter_status =
        CuckooFilter::Open(filter->second.data(), filter->second.size(), &opened->filter_);
    if (!filter_status.ok()) return ToStatus(filter_status);
    opened->has_filter_ = true;
    opened->bytes_ += filter->second.size();
  }
  opened->properties_ = std::move(properties);
  *index = std::move(opened);
  return rocksdb::Status::OK();
}

BlockRun EctTableIndex::Find(uint64_t hash) const {
  const EctMatch match = index_.Lookup(hash);
  if (match.count == 0) return {1, 0};
  const uint64_t first = index_.BlockOf(match.rank);
  // Nearly always all positions lie in one block.
  return {first, match.count == 1 ? first : index_.BlockOf(match.rank + match.count - 1)};
}

void EctTableIndex::Locate(uint64_t block, uint64_t* offset, uint64_t* size) const {
  *offset = offsets_.Get(block);
  const uint64_t next = block + 1 < offsets_.count() ? offsets_.Get(block + 1) : data_end_;
  // A block is never shorter than its trailer in a table that RocksDB wrote; a read of a wrong size fails its checksum.
  *size = next - *offset > kBlockTrailerBytes ? next - *offset - kBlockTrailerBytes : 0;
}

}  // namespace cairn
