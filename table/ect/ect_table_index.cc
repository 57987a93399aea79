#include "table/ect/ect_table_index.h"

#include <utility>

#include "db/dbformat.h"
#include "table/ect/ect_table.h"
#include "table/table_facts.h"
#include "util/bits.h"

namespace cairn {

namespace {

rocksdb::Status FindProperty(const rocksdb::TableProperties& properties, const std::string** bytes) {
  const auto found = properties.user_collected_properties.find(kEctProperty);
  if (found == properties.user_collected_properties.end()) {
    return rocksdb::Status::NotFound("the table has no property cairn.ect");
  }
  *bytes = &found->second;
  return rocksdb::Status::OK();
}

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

std::unique_ptr<const rocksdb::FilterPolicy> RibbonPolicy(uint32_t bits) {
  // RocksDB wants to know how many bits per key its Bloom filter would take for as many errors.
  constexpr double kBloomBits = 1.55;
  constexpr int kNeverBloom = -1;
  return std::unique_ptr<const rocksdb::FilterPolicy>(rocksdb::NewRibbonFilterPolicy(kBloomBits * bits, kNeverBloom));
}

std::unique_ptr<rocksdb::FilterBitsBuilder> NewRibbonBuilder(uint32_t bits) {
  // A builder that rounds for an allocator adds up in its policy, which does not outlive this function.
  static const auto* const options = [] {
    auto* const made = new rocksdb::BlockBasedTableOptions();
    made->optimize_filters_for_memory = false;
    return made;
  }();
  return std::unique_ptr<rocksdb::FilterBitsBuilder>(
      RibbonPolicy(bits)->GetBuilderWithContext(rocksdb::FilterBuildingContext(*options)));
}

class EctCollector : public rocksdb::InternalTblPropColl {
 public:
  EctCollector(const EctTableOptions& options, const KeyHash& hash, EctTableFilter filter, bool compact)
      : hash_(hash),
        index_(IndexOptions(options)),
        cuckoo_(CuckooFilterOptions{options.filter_tag_bits, 0.95}),
        has_cuckoo_(filter == EctTableFilter::kCuckoo && options.filter_tag_bits != 0),
        compact_(compact) {
    const uint32_t bits = options.last_level_filter_bits;
    if (filter == EctTableFilter::kRibbon && bits != 0) ribbon_ = NewRibbonBuilder(bits);
  }

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
      if (has_cuckoo_) cuckoo_.Add(key_hash_);
      if (ribbon_ != nullptr) ribbon_->AddKey(RibbonKey(key_hash_));
    }
    if (new_block) {
      if (offsets_.size() % kEctSampleBlocks == 0) samples_.push_back(key_hash_);
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
    EctPropertyHeader header;
    // The index has a position for every block that a key has entries in.
    header.keys_in_one_block = index_.keys() == keys_;
    header.keys = keys_;
    header.first_hash = samples_.front();
    header.last_hash = key_hash_;
    header.offsets_bytes = offsets.size();
    header.sample_count = static_cast<uint32_t>(samples_.size());
    IndexStatus status = index_.Finish(&index);
    if (status.ok() && has_cuckoo_) {
      status = cuckoo_.Finish(&filter);
      // Hashes that somebody chose must not fail a flush: the table has no filter then.
      if (status.code() == IndexStatus::Code::kNotSupported) status = IndexStatus::OK();
    }
    if (!status.ok()) return ToStatus(status);
    if (ribbon_ != nullptr) {
      std::unique_ptr<const char[]> bits;
      filter = ribbon_->Finish(&bits).ToString();
    }
    header.index_bytes = index.size();
    header.filter_bytes = filter.size();
    std::string bytes;
    header.EncodeTo(&bytes);
    bytes += offsets;
    for (const uint64_t hash : samples_) PutU32(&bytes, EctFraction(hash, header.first_hash, header.last_hash));
    bytes += index;
    properties->emplace(kEctProperty, std::move(bytes));
    if (!filter.empty()) properties->emplace(ribbon_ != nullptr ? kRibbonProperty : kCuckooProperty, std::move(filter));
    return rocksdb::Status::OK();
  }

  bool NeedCompact() const override { return compact_; }

  rocksdb::UserCollectedProperties GetReadableProperties() const override {
    return {{kEctProperty, std::to_string(offsets_.size()) + " blocks"}};
  }

 private:
  const KeyHash hash_;
  EctBuilder index_;
  CuckooFilterBuilder cuckoo_;
  std::unique_ptr<rocksdb::FilterBitsBuilder> ribbon_;  // null: none
  const bool has_cuckoo_;
  const bool compact_;
  std::vector<uint64_t> offsets_;  // of the data blocks so far
  std::vector<uint64_t> samples_;  // hashes of the first keys of every kEctSampleBlocks-th of them
  std::string user_key_;           // of the last entry
  uint64_t keys_ = 0;
  uint64_t key_hash_ = 0;
};

}  // namespace

std::unique_ptr<rocksdb::InternalTblPropCollFactory> NewEctCollectorFactory(const EctTableOptions& options,
                                                                            const KeyHash& hash, EctTableFilter filter,
                                                                            bool compact) {
  return std::make_unique<CollectorFactory>("cairn.EctTable",
                                            [=](auto...) { return new EctCollector(options, hash, filter, compact); });
}

rocksdb::Status ReadEctTableFacts(const rocksdb::TableProperties& properties, EctTableFacts* facts) {
  const std::string* bytes = nullptr;
  rocksdb::Status status = FindProperty(properties, &bytes);
  if (!status.ok()) return status;
  EctPropertyHeader header;
  status = ToStatus(EctPropertyHeader::Decode(*bytes, &header));
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
  if (found != properties->user_collected_properties.end() && found->second.size() > EctPropertyHeader::kSize) {
    found->second = found->second.substr(0, EctPropertyHeader::kSize);
  }
  properties->user_collected_properties.erase(kCuckooProperty);
  properties->user_collected_properties.erase(kRibbonProperty);
}

rocksdb::Status OpenEctBlockLayout(const rocksdb::TableProperties& properties,
                                   std::unique_ptr<EctBlockLayout>* layout) {
  layout->reset();
  const std::string* bytes = nullptr;
  const rocksdb::Status status = FindProperty(properties, &bytes);
  return status.ok() ? ToStatus(EctBlockLayout::Open(*bytes, properties.data_size, layout)) : status;
}

rocksdb::Status EctTries::Open(const rocksdb::TableProperties& properties, std::shared_ptr<EctTableCounters> counters,
                               std::unique_ptr<EctTries>* tries) {
  tries->reset();
  const std::string* bytes = nullptr;
  rocksdb::Status status = FindProperty(properties, &bytes);
  if (!status.ok()) return status;
  EctPropertyHeader header;
  status = ToStatus(EctPropertyHeader::DecodeWhole(*bytes, &header));
  if (!status.ok()) return status;
  std::unique_ptr<EctTries> opened(new EctTries());
  opened->bytes_ = bytes->substr(header.index_at());
  const IndexStatus index_status =
      EctIndex::Open(opened->bytes_.data(), opened->bytes_.size(), EctVerify::kChecksum, &opened->index_);
  if (!index_status.ok()) return ToStatus(index_status);
  if (opened->index_.keys() == 0) return ToStatus(DamagedEctProperty("the index is empty"));
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
  const auto& all = properties.user_collected_properties;
  IndexStatus status;
  if (const auto found = all.find(kCuckooProperty); found != all.end()) {
    opened->bytes_ = found->second;
    status = CuckooFilter::Open(opened->bytes_.data(), opened->bytes_.size(), &opened->cuckoo_);
  } else if (const auto ribbon = all.find(kRibbonProperty); ribbon != all.end()) {
    opened->bytes_ = ribbon->second;
    opened->ribbon_.reset(RibbonPolicy(1)->GetFilterBitsReader(opened->bytes_));  // the bytes say how many bits
  }
  if (!status.ok()) return ToStatus(status);
  *filter = std::move(opened);
  return rocksdb::Status::OK();
}

}  // namespace cairn
