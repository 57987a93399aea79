#include "src/htable/version_filter.h"

#include <algorithm>
#include <map>
#include <typeinfo>
#include <utility>

#include "db/column_family.h"
#include "db/lookup_key.h"
#include "monitoring/file_read_sample.h"
#include "src/bloom_cluster/bloom_directory.h"
#include "src/bloom_cluster/bloom_hazard.h"
#include "src/bloom_cluster/bloom_thread.h"
#include "src/htable/htable_reader.h"
#include "src/port/column_family.h"
#include "src/trie/trie_options.h"
#include "src/trie/trie_partitioner.h"

namespace cairn {

using rocksdb::Slice;
using rocksdb::Status;
using rocksdb::Version;

namespace {

// A depth with more containers than this for each of its tables is not described container by container.
constexpr uint64_t kMostContainersPerTable = 16;
constexpr uint64_t kFewContainers = 1024;
// A lookup without a filter costs about as much more as describing this many tables. So no more is spent on filters
// than lookups have lost without them.
constexpr uint64_t kTablesPerLookup = 8;
constexpr uint64_t kFirstLookups = 32;

// Null if the column family is no trie in hash order.
const TrieOptions* TrieOf(Version* version) {
  const auto& partitioner = port::ImmutableOptionsOf(*version->cfd()).sst_partitioner_factory;
  const auto* of_trie = partitioner == nullptr ? nullptr : partitioner->CheckedCast<TriePartitionerFactory>();
  return of_trie == nullptr || IsInKeyOrder(of_trie->trie()) ? nullptr : &of_trie->trie();
}

uint64_t Count(uint64_t bits) { return static_cast<uint64_t>(__builtin_popcountll(bits)); }

// As RocksDB's own way does for each table that it asks.
void SampleReads(Version* version, const rocksdb::LookupKey& key) {
  const rocksdb::VersionStorageInfo& storage = *version->storage_info();
  const rocksdb::InternalKeyComparator& order = version->cfd()->internal_comparator();
  const auto covers = [&](const rocksdb::FdWithKeyRange& file) {
    return order.user_comparator()->Compare(rocksdb::ExtractUserKey(file.smallest_key), key.user_key()) <= 0 &&
           order.user_comparator()->Compare(rocksdb::ExtractUserKey(file.largest_key), key.user_key()) >= 0;
  };
  for (int level = 0; level < storage.num_non_empty_levels(); ++level) {
    const rocksdb::LevelFilesBrief& files = storage.LevelFilesBrief(level);
    if (files.num_files == 0) continue;
    size_t i = level == 0 ? 0 : static_cast<size_t>(rocksdb::FindFile(order, files, key.internal_key()));
    const size_t end = level == 0 ? files.num_files : std::min(i + 1, files.num_files);
    for (; i < end; ++i) {
      if (covers(files.files[i])) rocksdb::sample_file_read_inc(files.files[i].file_metadata);
    }
  }
}

}  // namespace

class VersionFilter::Maker {
 public:
  Maker(Version* version, const TrieOptions& trie, const KeyHash& hash)
      : version_(version), trie_(trie), filter_(new VersionFilter(version, hash, ContainerMapOf(trie))) {}

  std::unique_ptr<const VersionFilter> Make() {
    const rocksdb::VersionStorageInfo& storage = *version_->storage_info();
    for (int level = 0; level < storage.num_non_empty_levels(); ++level) {
      const rocksdb::LevelFilesBrief& files = storage.LevelFilesBrief(level);
      if (files.num_files == 0) continue;
      const int depth = DepthOfLevel(trie_, level);
      if (depth > trie_.depth) return nullptr;
      if (tables_.empty() || depth != depth_) {
        if (!FinishDepth()) return nullptr;
        depth_ = depth;
      }
      for (size_t i = 0; i < files.num_files; ++i) Add(files.files[i]);
      filter_->tables_ += files.num_files;
    }
    if (!FinishDepth() || 2 * tables_to_read_ > filter_->tables_) return nullptr;
    return std::move(filter_);
  }

 private:
  // A table, and the containers that it touches.
  struct Table {
    uint64_t first = 0, last = 0;
    Part part;
  };

  void Add(const rocksdb::FdWithKeyRange& file) {
    Table table;
    table.first = ContainerOf(file.smallest_key);
    table.last = ContainerOf(file.largest_key);
    table.part = PartOf(file.fd);
    if (table.part.container == nullptr) ++tables_to_read_;
    tables_.push_back(table);
  }

  uint64_t ContainerOf(const Slice& internal_key) const {
    return filter_->map_.ContainerAt(filter_->hash_(rocksdb::ExtractUserKey(internal_key)), depth_);
  }

  // By (3) it may be one without a container.
  Part PartOf(const rocksdb::FileDescriptor& fd) {
    const rocksdb::TableReader* const reader = port::PinnedReaderOf(fd);
    // Readers of HTables are all made by this library, so their one type_info tells.
    if (reader == nullptr || typeid(*reader) != typeid(HTableReader)) return Part();
    const auto* const htable = static_cast<const HTableReader*>(reader);
    const bool same_hash =
        htable->hash().kind() == filter_->hash_.kind() && htable->hash().seed() == filter_->hash_.seed();
    TableFilter::Membership membership;
    if (!same_hash || htable->filter() == nullptr || !htable->filter()->FindMembership(&membership)) return Part();
    Keep(membership);
    return {membership.container.get(), uint64_t{1} << membership.member};
  }

  void Keep(const TableFilter::Membership& membership) {
    auto& directories = filter_->directories_;
    if (std::find(directories.begin(), directories.end(), membership.directory) == directories.end()) {
      directories.push_back(membership.directory);
    }
    auto& containers = filter_->containers_;
    // Tables of one container mostly follow one another at the root, and a level's tables its containers elsewhere.
    if (kept_.emplace(membership.container.get(), true).second) containers.push_back(membership.container);
  }

  // False: too much to describe, or of no use.
  bool FinishDepth() {
    if (tables_.empty()) return true;
    const uint64_t most = kFewContainers + kMostContainersPerTable * tables_.size();
    const uint64_t containers = filter_->map_.ContainerAt(~uint64_t{0}, depth_) + 1;
    if (containers == 0 || containers > most) return false;
    std::vector<std::vector<Part>> of_container(containers);
    uint64_t parts = 0;
    for (const Table& table : tables_) {
      // Every key's way begins at the root.
      if (depth_ == 0 && table.part.container == nullptr) return false;
      for (uint64_t c = table.first; c <= table.last; ++c) parts += AddTo(table.part, &of_container[c]);
      if (parts > most) return false;
    }
    Depth depth;
    depth.depth = depth_;
    depth.first.reserve(containers + 1);
    depth.parts.reserve(parts);
    for (const std::vector<Part>& of_this : of_container) {
      depth.first.push_back(static_cast<uint32_t>(depth.parts.size()));
      depth.parts.insert(depth.parts.end(), of_this.begin(), of_this.end());
    }
    depth.first.push_back(static_cast<uint32_t>(depth.parts.size()));
    filter_->depths_.push_back(std::move(depth));
    tables_.clear();
    return true;
  }

  // How many parts that adds.
  static uint64_t AddTo(const Part& part, std::vector<Part>* parts) {
    for (Part& there : *parts) {
      if (there.container != part.container) continue;
      there.members |= part.members;
      return 0;
    }
    parts->push_back(part);
    return 1;
  }

  Version* const version_;
  const TrieOptions& trie_;
  std::unique_ptr<VersionFilter> filter_;
  int depth_ = 0;
  std::vector<Table> tables_;    // of depth_
  uint64_t tables_to_read_ = 0;  // by (3)
  std::map<const FilterContainer*, bool> kept_;
};

std::unique_ptr<const VersionFilter> VersionFilter::Make(Version* version) {
  const TrieOptions* const trie = TrieOf(version);
  const KeyHash* const hash = HashOfComparator(version->cfd()->user_comparator());
  if (trie == nullptr || hash == nullptr) return nullptr;
  return Maker(version, *trie, *hash).Make();
}

VersionFilter::VersionFilter(const Version* version, const KeyHash& hash, const HashPrefixMap& map)
    : hash_(hash),
      map_(map),
      family_(version->cfd()->GetID()),
      number_(version->GetVersionNumber()),
      statistics_(port::ImmutableOptionsOf(*version->cfd()).stats) {}

bool VersionFilter::MayHold(const Slice& user_key, FilterThread* thread) const {
  const uint64_t hash = hash_(user_key);
  uint64_t kept_from = 0;
  for (const Depth& depth : depths_) {
    const uint64_t container = map_.ContainerAt(hash, depth.depth);
    const Part* const end = depth.parts.data() + depth.first[container + 1];
    for (const Part* part = depth.parts.data() + depth.first[container]; part != end; ++part) {
      if (part->container == nullptr) return true;
      if (part->container->MayHold(part->members, depth.depth, hash, thread) != 0) return true;
      kept_from += Count(part->members);
    }
  }
  thread->CountKeptFrom(statistics_, kept_from);
  return false;
}

VersionFilters::~VersionFilters() {
  for (Slot& slot : slots_) delete slot.filter.load(std::memory_order_relaxed);
}

bool VersionFilters::MayHold(Version* version, const rocksdb::LookupKey& key) {
  Slot* const slot = SlotOf(version);
  if (slot->none_for.load(std::memory_order_relaxed) == version->GetVersionNumber()) return true;
  FilterThread* const thread = ThisFilterThread();
  // RocksDB's own way counts for each table.
  if (thread->CountsByLevel()) return true;
  {
    const Protected<VersionFilter> filter(thread->lookup_hazard(), slot->filter);
    if (filter.get() != nullptr && filter->IsOf(version)) {
      if (filter->MayHold(key.user_key(), thread)) return true;
      if (rocksdb::should_sample_file_read()) SampleReads(version, key);
      return false;
    }
  }
  Miss(version, slot);
  return true;
}

void VersionFilters::FinishAbsent(Version* version, rocksdb::MultiGetContext::Range* range) {
  for (auto key = range->begin(); key != range->end(); ++key) {
    // A merge operand of a memtable is a result by itself.
    if (!key->s->ok() || key->max_covering_tombstone_seq != 0 || MayHold(version, *key->lkey)) continue;
    *key->s = Status::NotFound();
    range->MarkKeyDone(key);
  }
}

void VersionFilters::Miss(Version* version, Slot* slot) {
  const uint64_t tables = slot->tables.load(std::memory_order_relaxed);
  const uint64_t lookups = slot->lookups_without.fetch_add(1, std::memory_order_relaxed) + 1;
  if (lookups < kFirstLookups + tables / kTablesPerLookup) return;
  if (slot->being_made.exchange(true, std::memory_order_acquire)) return;
  MakeFilter(version, slot);
  slot->being_made.store(false, std::memory_order_release);
}

// One thread at a time for a slot, so what is published cannot go.
void VersionFilters::MakeFilter(Version* version, Slot* slot) {
  const VersionFilter* const before = slot->filter.load(std::memory_order_relaxed);
  // Another thread may have been faster, or have got the next Version.
  if (before != nullptr && (before->IsOf(version) || before->IsNewerThan(version))) return;
  const VersionFilter* const made = VersionFilter::Make(version).release();
  slot->lookups_without.store(0, std::memory_order_relaxed);
  if (made == nullptr) {
    slot->none_for.store(version->GetVersionNumber(), std::memory_order_relaxed);
    return;
  }
  slot->tables.store(made->tables(), std::memory_order_relaxed);
  slot->filter.store(made, std::memory_order_seq_cst);
  made_.fetch_add(1, std::memory_order_relaxed);
  if (before != nullptr) Retire(before, [before] { delete before; });
}

}  // namespace cairn
