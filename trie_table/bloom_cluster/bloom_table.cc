#include "trie_table/bloom_cluster/bloom_table.h"

#include <algorithm>
#include <cstdlib>
#include <utility>
#include <vector>

#include "rocksdb/sst_partitioner.h"
#include "table/hash_order/hash_order.h"
#include "trie_table/bloom_cluster/bloom_block.h"
#include "trie_table/bloom_cluster/bloom_directory.h"
#include "trie_table/bloom_cluster/bloom_filter.h"
#include "trie_table/compaction/trie_options.h"
#include "trie_table/compaction/trie_partitioner.h"
#include "util/hash.h"
#include "util/option_text.h"
#include "util/rocksdb_names.h"

namespace cairn {

namespace {

constexpr size_t kKeysPerEstimate = 1024;

// 0 means unknown to our callers.
uint64_t NotZero(uint64_t v) { return v == 0 ? 1 : v; }

// 0: none.
uint64_t ContainerOf(const FilterContext& context, uint64_t position) {
  return context.container_of == nullptr ? 0 : context.container_of(position, context.depth);
}

// Sets depth and container, if the column family is a trie. Containers of other databases, sessions and column families
// have other names.
void SetContainer(const std::shared_ptr<rocksdb::SstPartitionerFactory>& partitioner, const std::string& db_session_id,
                  uint32_t column_family_id, FilterContext* context) {
  if (partitioner == nullptr || db_session_id.empty() || context->level < 0) return;
  const auto* of_trie = partitioner->CheckedCast<TriePartitionerFactory>();
  if (of_trie == nullptr) return;
  const int depth = DepthOfLevel(of_trie->trie(), context->level);
  if (depth > of_trie->trie().depth) return;
  context->depth = depth;
  context->depths = of_trie->trie().depth + 1;
  const HashPrefixMap map = ContainerMapOf(of_trie->trie());
  const uint64_t owner = rocksdb::GetSliceHash64(db_session_id + '/' + std::to_string(column_family_id));
  context->container_of = [map, owner](uint64_t position, int at_depth) {
    const uint64_t name[] = {owner, static_cast<uint64_t>(at_depth), map.ContainerAt(position, at_depth)};
    return NotZero(rocksdb::GetSliceHash64(rocksdb::Slice(reinterpret_cast<const char*>(name), sizeof(name))));
  };
}

class HashCursor : public PairCursor {
 public:
  explicit HashCursor(const std::vector<uint64_t>& hashes) : hashes_(hashes) {}

 protected:
  bool Refill(std::vector<uint64_t>* pairs) override {
    constexpr size_t kAtOnce = 1024;
    const size_t end = std::min(hashes_.size(), next_ + kAtOnce);
    if (next_ == end) return false;
    for (; next_ < end; ++next_) pairs->push_back(PackPair(hashes_[next_] >> (64 - kMaxPrecision), 0));
    return true;
  }

 private:
  const std::vector<uint64_t>& hashes_;
  size_t next_ = 0;
};

// SetOptions parses into the factory that is in use, so what is refused must not get there.
rocksdb::OptionTypeInfo MemoryShareType() {
  rocksdb::OptionTypeInfo info(offsetof(FilterOptions, memory_share), rocksdb::OptionType::kDouble,
                               rocksdb::OptionVerificationType::kNormal, rocksdb::OptionTypeFlags::kMutable);
  info.SetParseFunc(
      [](const rocksdb::ConfigOptions& /*config*/, const std::string& name, const std::string& text, void* at) {
        if (!IsNumber(text)) return Status::InvalidArgument(name + " is no number", text);
        FilterOptions parsed;
        parsed.memory_share = std::strtod(text.c_str(), nullptr);
        const Status s = ValidateFilterOptions(parsed);
        if (s.ok()) *static_cast<double*>(at) = parsed.memory_share;
        return s;
      });
  return info;
}

}  // namespace

const std::unordered_map<std::string, rocksdb::OptionTypeInfo>& FilterOptionTypes() {
  using rocksdb::OptionType;
  using rocksdb::OptionTypeInfo;
  static const auto* residencies =
      new std::unordered_map<std::string, FilterResidency>{{"auto", FilterResidency::kAuto},
                                                           {"pinned", FilterResidency::kPinned},
                                                           {"cache", FilterResidency::kCache},
                                                           {"disk", FilterResidency::kDisk}};
  static const auto* clusters = new std::unordered_map<std::string, FilterClusters>{
      {"auto", FilterClusters::kAuto}, {"never", FilterClusters::kNever}, {"always", FilterClusters::kAlways}};
  static const FilterOptions* const defaults = new FilterOptions();
  static const OptionTypes all = {
      {"filter_bits", {offsetof(FilterOptions, bits_per_key), OptionType::kDouble}},
      {"filter_bits_per_depth", {offsetof(FilterOptions, bits_per_depth), OptionType::kDouble}},
      {"filter_residency",
       OptionTypeInfo::Enum<FilterResidency>(static_cast<int>(offsetof(FilterOptions, residency)), residencies)},
      {"filter_memory_share", MemoryShareType()},
      {"filter_clusters",
       OptionTypeInfo::Enum<FilterClusters>(static_cast<int>(offsetof(FilterOptions, clusters)), clusters)},
  };
  static const auto* types = new OptionTypes(WithoutDefaults(all, defaults));
  return *types;
}

Status ValidateFilterOptions(const FilterOptions& options) {
  constexpr double kMinBits = 6, kMostBitsPerDepth = 10;
  const double bits = options.bits_per_key;
  if (bits != 0 && !(bits >= kMinBits && bits <= kMaxBitsPerKey)) {
    return Status::InvalidArgument("filter_bits is " + std::to_string(bits), "it may be 6 to 20, or 0 for no filters");
  }
  if (!(options.bits_per_depth >= 0 && options.bits_per_depth <= kMostBitsPerDepth)) {
    return Status::InvalidArgument("filter_bits_per_depth is " + std::to_string(options.bits_per_depth),
                                   "it may be 0 to 10");
  }
  if (!(options.memory_share >= 0 && options.memory_share <= 1)) {
    return Status::InvalidArgument("filter_memory_share is " + std::to_string(options.memory_share),
                                   "it may be 0 to 1: a part of the block cache");
  }
  return Status::OK();
}

uint64_t FilterTableId(const std::string& db_id, const std::string& db_session_id, uint64_t orig_file_number) {
  if (db_session_id.empty() || orig_file_number == 0) return 0;
  const std::string text = db_id + '/' + db_session_id + '/' + std::to_string(orig_file_number);
  return NotZero(rocksdb::GetSliceHash64(text));
}

FilterContext FilterContextOf(const rocksdb::TableBuilderOptions& options) {
  FilterContext context;
  context.table_id = FilterTableId(options.db_id, options.db_session_id, options.cur_file_num);
  context.level = options.level_at_creation;
  SetContainer(options.ioptions.sst_partitioner_factory, options.db_session_id, options.column_family_id, &context);
  context.statistics = options.ioptions.stats;
  return context;
}

FilterContext FilterContextOf(const rocksdb::TableReaderOptions& options, const rocksdb::TableProperties& properties) {
  FilterContext context;
  context.table_id = FilterTableId(properties.db_id, properties.db_session_id, properties.orig_file_number);
  context.level = options.level;
  context.newest = options.largest_seqno;
  SetContainer(options.ioptions.sst_partitioner_factory, options.cur_db_session_id,
               static_cast<uint32_t>(properties.column_family_id), &context);
  context.statistics = options.ioptions.stats;
  return context;
}

TableFilterBuilder::TableFilterBuilder(std::shared_ptr<FilterDirectory> directory, const FilterContext& context)
    : directory_(std::move(directory)), context_(context) {}

void TableFilterBuilder::Add(uint64_t hash) {
  if (!hashes_.empty()) {
    if (hash == hashes_.back()) return;
    sorted_ &= hash > hashes_.back();
  }
  // Asked for after each key; it changes when tables of other depths come and go.
  if (hashes_.size() % kKeysPerEstimate == 0) pages_per_key_ = bits() / 8 / kFilterPageBytes;
  hashes_.push_back(hash);
}

uint64_t TableFilterBuilder::EstimatedBytes() const {
  if (pages_per_key_ == 0) return 0;
  return (static_cast<uint64_t>(static_cast<double>(hashes_.size()) * pages_per_key_) + 2) * kFilterPageBytes;
}

Status TableFilterBuilder::Finish(std::string* block) {
  if (hashes_.empty() || bits() == 0) return Status::OK();
  if (!sorted_) {
    std::sort(hashes_.begin(), hashes_.end());
    hashes_.erase(std::unique(hashes_.begin(), hashes_.end()), hashes_.end());
    sorted_ = true;
  }
  unsigned precision = 0;
  std::vector<FilterCover> beneath;
  const uint64_t name = ContainerOf(context_, hashes_.front());
  const auto container = name == 0 ? nullptr : directory_->FindOpen(name);
  if (container != nullptr) beneath = container->Beneath(context_.level, &precision);
  if (!directory_->WritesClustersAt(context_.depth)) beneath.clear();
  // A block of a table beneath that cannot be read must not fail this one.
  if (!beneath.empty() && Write(beneath, precision, block)) return Status::OK();
  Write({}, precision, block);
  return Status::OK();
}

double TableFilterBuilder::bits() const { return directory_->BitsAt(context_.depth); }

FilterShape TableFilterBuilder::OwnShape(unsigned wanted_precision) const {
  FilterShape shape = ChooseFilterShape(hashes_.size(), hashes_.front(), hashes_.back(), 0, bits());
  if (wanted_precision <= shape.precision) return shape;
  // A small table takes up to this many more bits of precision, so that its filter merges with those of larger ones.
  constexpr unsigned kMostExtraPrecision = 8;
  wanted_precision = std::min(wanted_precision, shape.precision + kMostExtraPrecision);
  // One bit more of precision takes one bit more.
  return ChooseFilterShape(hashes_.size(), hashes_.front(), hashes_.back(), 0,
                           bits() + wanted_precision - shape.precision, wanted_precision);
}

bool TableFilterBuilder::Write(const std::vector<FilterCover>& beneath, unsigned wanted_precision, std::string* block) {
  std::vector<FilterMember> members = {{context_.table_id, hashes_.size()}};
  HashCursor own(hashes_);
  std::vector<MergeInput> inputs(1);
  inputs[0].cursor = &own;
  inputs[0].precision = kMaxPrecision;
  std::vector<std::unique_ptr<PairCursor>> cursors;
  unsigned precision = kMaxPrecision;
  uint64_t pairs = hashes_.size(), low = hashes_.front(), high = hashes_.back();
  for (const FilterCover& cover : beneath) {
    const FilterShape& shape = cover.block->shape();
    const unsigned shift = 64 - shape.precision;
    MergeInput input;
    cursors.push_back(FilterBlock::NewCursor(cover.block, rocksdb::ReadOptions()));
    input.cursor = cursors.back().get();
    input.precision = shape.precision;
    input.slots.fill(MergeInput::kDropped);
    for (size_t slot = 0; slot < cover.block->members().size(); ++slot) {
      if (cover.member_of_slot[slot] == FilterCover::kGone || members.size() == kMaxFilterSlots) continue;
      input.slots[slot] = static_cast<uint8_t>(members.size());
      members.push_back(cover.block->members()[slot]);
      pairs += members.back().pairs;
    }
    precision = std::min(precision, shape.precision);
    low = std::min(low, shape.low << shift);
    const uint64_t last = shape.low + (std::max<uint64_t>(shape.columns, 1) << shape.column_shift()) - 1;
    high = std::max(high, std::min(last, LowMask(shape.precision)) << shift | LowMask(shift));
    inputs.push_back(input);
  }
  const FilterShape shape = beneath.empty()
                                ? OwnShape(wanted_precision)
                                : ChooseFilterShape(pairs, low, high, BitWidth(members.size() - 1), bits(), precision);
  FilterBlockWriter blocks(shape, std::move(members));
  ColumnWriter writer(shape, &blocks);
  if (beneath.empty()) {
    for (const uint64_t hash : hashes_) writer.Add(shape.FingerprintOfHash(hash), 0);
    if (!writer.Finish()) return false;
  } else if (!MergePairs(inputs, shape, &writer)) {
    return false;
  }
  blocks.Finish(writer.pairs(), block);
  return true;
}

TableFilter::TableFilter(std::shared_ptr<FilterDirectory> directory, const FilterContext& context,
                         std::shared_ptr<const FilterBlock> block)
    : directory_(std::move(directory)), context_(context), block_(std::move(block)) {}

TableFilter::~TableFilter() {
  if (container_ == nullptr) return;
  directory_->CountTable(context_.depth, -1, block_->members()[0].pairs, nullptr);
  container_->Leave(member_);
  directory_->ChangeMemory(-static_cast<int64_t>(block_->bytes()), nullptr);
}

Status TableFilter::Join(const rocksdb::ReadOptions& read_options) {
  const uint64_t keys = block_->members()[0].pairs;
  directory_->CountTable(context_.depth, 1, keys, context_.block_cache);
  // The lowest fingerprint stands for all keys: a container is a prefix of hashes, and a shorter one.
  const uint64_t lowest = block_->shape().low << (64 - block_->shape().precision);
  const uint64_t name = context_.table_id == 0 ? 0 : ContainerOf(context_, lowest);
  auto container = directory_->Find(name);
  Status s = container->Join(context_, read_options, block_, &member_);
  if (s.ok() && member_ == FilterContainer::kNoMember) {
    container = directory_->Find(0);
    s = container->Join(context_, read_options, block_, &member_);
  }
  if (!s.ok()) {
    directory_->CountTable(context_.depth, -1, keys, nullptr);
    return s;
  }
  container_ = std::move(container);
  directory_->ChangeMemory(static_cast<int64_t>(block_->bytes()), context_.block_cache);
  directory_->FitToPlan();
  return s;
}

bool TableFilter::MayContain(const rocksdb::ReadOptions& read_options, uint64_t hash) const {
  return container_->MayContain(read_options, member_, context_, hash);
}

uint64_t TableFilter::MayContainBatch(const rocksdb::ReadOptions& read_options, FilterBatch* batch) const {
  return container_->MayContainBatch(read_options, member_, context_, batch);
}

bool TableFilter::FindNewest(size_t place, uint64_t hash, std::shared_ptr<const HTableFile>* table) const {
  // Lookups have been through the depths above.
  for (int depth = std::max(0, context_.depth); depth < context_.depths; ++depth) {
    if (!directory_->HasTablesAt(depth)) continue;
    const auto container = directory_->FindOpen(context_.container_of(hash, depth));
    if (container == nullptr) continue;
    const FilterContainer::Found found = container->FindNewest(place, hash, table);
    if (found != FilterContainer::Found::kNone) return found == FilterContainer::Found::kTable;
  }
  return true;
}

TableFilter::Membership TableFilter::FindMembership() const {
  return {directory_, container_, member_, container_->in_memory()};
}

Status TableFilter::Verify(const rocksdb::ReadOptions& read_options) const { return block_->Verify(read_options); }

size_t TableFilter::ApproximateMemoryUsage() const { return sizeof(*this) + container_->MemoryOf(member_); }

Status TableFilter::Open(const std::shared_ptr<FilterDirectory>& directory, const FilterContext& context,
                         const rocksdb::ReadOptions& read_options,
                         std::shared_ptr<rocksdb::RandomAccessFileReader> file, uint64_t offset, uint64_t size,
                         std::unique_ptr<TableFilter>* filter) {
  std::shared_ptr<const FilterBlock> block;
  Status s =
      FilterBlock::Open(context, read_options, std::move(file), offset, size, directory->mutable_counters(), &block);
  if (!s.ok()) return s;
  auto opened = std::make_unique<TableFilter>(directory, context, std::move(block));
  s = opened->Join(read_options);
  if (s.ok()) *filter = std::move(opened);
  return s;
}

}  // namespace cairn
