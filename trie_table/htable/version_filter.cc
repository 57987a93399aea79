#include "trie_table/htable/version_filter.h"

#include <algorithm>
#include <array>
#include <map>
#include <optional>
#include <typeinfo>
#include <utility>

#include "db/column_family.h"
#include "db/lookup_key.h"
#include "rocksdb/port/column_family.h"
#include "rocksdb/port/read_sample.h"
#include "trie_table/bloom_cluster/bloom_directory.h"
#include "trie_table/bloom_cluster/bloom_thread.h"
#include "trie_table/compaction/trie_options.h"
#include "trie_table/compaction/trie_partitioner.h"
#include "trie_table/htable/htable_reader.h"
#include "util/bits.h"
#include "util/hazard.h"
#include "util/rocksdb_names.h"

namespace cairn {

using rocksdb::Version;

namespace {

// A depth with more containers than this for each of its tables is not described container by container.
constexpr uint64_t kMostContainersPerTable = 16;
constexpr uint64_t kFewContainers = 1024;

// Null if the column family is no trie in hash order.
const HashTrieOptions* TrieOf(Version* version) {
  const auto* partitioner = AsTriePartitioner(port::ImmutableOptionsOf(*version->cfd()).sst_partitioner_factory);
  return partitioner == nullptr || partitioner->trie().in_key_order() ? nullptr : &partitioner->trie().hash_order();
}

// As RocksDB's own way does for each table that it asks, until it finds the key in `last`. Null: it finds none.
void SampleReads(Version* version, const rocksdb::LookupKey& key, const rocksdb::FileMetaData* last, const Status& s) {
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
      rocksdb::FileMetaData* const file = files.files[i].file_metadata;
      if (!covers(files.files[i])) continue;
      port::SampleRead(file, file == last && s.ok() ? port::ReadFound::kValue : port::ReadFound::kNoValue);
      if (file == last) return;
    }
  }
}

bool IsAbsent(const VersionFilter& filter, Version* version, const rocksdb::LookupKey& key, FilterThread* thread) {
  if (filter.MayHold(key.user_key(), thread)) return false;
  if (rocksdb::should_sample_file_read()) SampleReads(version, key, nullptr, Status());
  return true;
}

}  // namespace

class VersionFilter::Maker {
 public:
  Maker(Version* version, const HashTrieOptions& trie, const KeyHash& hash)
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
      for (size_t i = 0; i < files.num_files; ++i) Add(files.files[i], level);
    }
    if (!FinishDepth() || 2 * tables_to_read_ > filter_->tables_) return nullptr;
    if (tables_to_read_ == 0 && !too_many_parts_ && port::ImmutableOptionsOf(*version_->cfd()).row_cache == nullptr) {
      filter_->by_number_ = std::move(by_number_);
    }
    return std::move(filter_);
  }

 private:
  // A table, and the containers that it touches.
  struct Table {
    uint64_t first = 0, last = 0;
    uint32_t number = 0;
    const FilterContainer* container = nullptr;  // null: it cannot be asked
    unsigned member = 0;
  };
  void Add(const rocksdb::FdWithKeyRange& file, int level) {
    Table table;
    table.first = ContainerOf(file.smallest_key);
    table.last = ContainerOf(file.largest_key);
    table.number = static_cast<uint32_t>(filter_->tables_++);
    by_number_.push_back({nullptr, file.file_metadata, level});
    FindMembership(file.fd, &table);
    if (table.container == nullptr) ++tables_to_read_;
    tables_.push_back(table);
  }

  uint64_t ContainerOf(const Slice& internal_key) const {
    return filter_->map_.ContainerAt(filter_->hash_(rocksdb::ExtractUserKey(internal_key)), depth_);
  }

  // Not if it cannot be asked.
  void FindMembership(const rocksdb::FileDescriptor& fd, Table* table) {
    const rocksdb::TableReader* const reader = port::PinnedReaderOf(fd);
    // Readers of HTables are all made by this library, so their one type_info tells.
    if (reader == nullptr || typeid(*reader) != typeid(HTableReader)) return;
    const auto* const htable = static_cast<const HTableReader*>(reader);
    const bool same_hash =
        htable->hash().kind() == filter_->hash_.kind() && htable->hash().seed() == filter_->hash_.seed();
    if (!same_hash || htable->filter() == nullptr) return;
    const TableFilter::Membership membership = htable->filter()->FindMembership();
    filter_->in_memory_ &= membership.in_memory;
    Keep(membership);
    table->container = membership.container.get();
    table->member = membership.member;
    by_number_.back().reader = htable;
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
    uint64_t described = 0;
    for (const Table& table : tables_) {
      // Every key's way begins at the root.
      if (depth_ == 0 && table.container == nullptr) return false;
      described += table.last - table.first + 1;
      if (described > most) return false;
    }
    // The tables of each container: those of container c are at ends[c] ... ends[c + 1] - 1, once all are there.
    std::vector<uint32_t> ends(containers + 1);
    for (const Table& table : tables_) {
      for (uint64_t c = table.first; c <= table.last; ++c) ++ends[c + 1];
    }
    for (uint64_t c = 1; c <= containers; ++c) ends[c] += ends[c - 1];
    std::vector<uint32_t> next(ends.begin(), ends.end() - 1);
    std::vector<uint32_t> of_containers(described);
    for (uint32_t i = 0; i < tables_.size(); ++i) {
      for (uint64_t c = tables_[i].first; c <= tables_[i].last; ++c) of_containers[next[c]++] = i;
    }
    Depth depth;
    depth.depth = depth_;
    depth.containers.reserve(containers + 1);
    depth.members.reserve(described);
    for (uint64_t c = 0; c < containers; ++c) {
      depth.containers.push_back(EndOf(depth));
      for (uint32_t i = ends[c]; i < ends[c + 1]; ++i) AddTo(tables_[of_containers[i]], &depth);
      too_many_parts_ |= depth.parts.size() - depth.containers.back().part > kMostParts;
    }
    depth.containers.push_back(EndOf(depth));
    depth.parts.shrink_to_fit();
    filter_->depths_.push_back(std::move(depth));
    tables_.clear();
    return true;
  }

  static Container EndOf(const Depth& depth) {
    return {static_cast<uint32_t>(depth.parts.size()), static_cast<uint32_t>(depth.members.size())};
  }

  // To the depth's last container. Tables come newest first.
  static void AddTo(const Table& table, Depth* depth) {
    const size_t first = depth->containers.back().part;
    size_t part = first;
    while (part < depth->parts.size() && depth->parts[part].container != table.container) ++part;
    if (part == depth->parts.size()) depth->parts.push_back({table.container, 0});
    depth->parts[part].members |= uint64_t{1} << table.member;
    depth->members.push_back({table.number, static_cast<uint16_t>(part - first), static_cast<uint16_t>(table.member)});
  }

  Version* const version_;
  const HashTrieOptions& trie_;
  std::unique_ptr<VersionFilter> filter_;
  int depth_ = 0;
  std::vector<Table> tables_;    // of depth_
  uint64_t tables_to_read_ = 0;  // by (3)
  bool too_many_parts_ = false;
  std::vector<VersionTable> by_number_;
  std::map<const FilterContainer*, bool> kept_;
};

std::unique_ptr<const VersionFilter> VersionFilter::Make(Version* version) {
  const HashTrieOptions* const trie = TrieOf(version);
  const KeyHash* const hash = HashOfComparator(version->cfd()->user_comparator());
  if (trie == nullptr || hash == nullptr) return nullptr;
  return Maker(version, *trie, *hash).Make();
}

VersionFilter::VersionFilter(const Version* version, const KeyHash& hash, const HashPrefixMap& map)
    : OfVersion(version), hash_(hash), map_(map), statistics_(port::ImmutableOptionsOf(*version->cfd()).stats) {}

bool VersionFilter::MayHold(const Slice& user_key, FilterThread* thread) const {
  static const auto* const in_memory = [] {
    auto* options = new rocksdb::ReadOptions();
    options->read_tier = rocksdb::kBlockCacheTier;
    return options;
  }();
  const uint64_t hash = hash_(user_key);
  uint64_t kept_from = 0;
  for (const Depth& depth : depths_) {
    const uint64_t number = map_.ContainerAt(hash, depth.depth);
    const Container& container = depth.containers[number];
    const Container& next = depth.containers[number + 1];
    for (uint32_t part = container.part; part < next.part; ++part) {
      const Part& asked = depth.parts[part];
      if (asked.container == nullptr) return true;
      if (asked.container->MayHold(*in_memory, asked.members, depth.depth, hash, thread) != 0) return true;
    }
    kept_from += next.member - container.member;
  }
  thread->CountKeptFrom(statistics_, kept_from);
  return false;
}

bool VersionFilter::NextTable(const rocksdb::ReadOptions& options, uint64_t hash, FilterThread* thread, Way* way,
                              uint64_t* kept_from) const {
  for (; way->depth < depths_.size(); ++way->depth, way->next = 0) {
    const Depth& depth = depths_[way->depth];
    const uint64_t number = map_.ContainerAt(hash, depth.depth);
    const Container& container = depth.containers[number];
    const Container& next = depth.containers[number + 1];
    uint64_t may_hold[kMostParts];
    uint64_t any = 0;
    for (uint32_t part = container.part; part < next.part; ++part) {
      const Part& asked = depth.parts[part];
      const uint64_t may = asked.container->MayHold(options, asked.members, depth.depth, hash, thread);
      any |= may_hold[part - container.part] = may;
    }
    const uint32_t members = next.member - container.member;
    const uint32_t first = way->next;
    while (any != 0 && way->next < members) {
      const Member& asked = depth.members[container.member + way->next++];
      if ((may_hold[asked.part] >> asked.number & 1) == 0) continue;
      *kept_from += way->next - 1 - first;
      way->table = asked.table;
      return true;
    }
    *kept_from += members - first;
  }
  return false;
}

void VersionFilter::Get(Version* version, const VersionRequest& request, FilterThread* thread) const {
  const uint64_t hash = hash_(request.key.user_key());
  uint64_t kept_from = 0;
  const rocksdb::FileMetaData* found_in = nullptr;
  std::optional<VersionLookup> lookup;  // from the first table on that may hold the key
  Way way;
  while (found_in == nullptr && NextTable(request.options, hash, thread, &way, &kept_from)) {
    if (!lookup.has_value()) lookup.emplace(version, request);
    thread->CountPassed(statistics_);
    const VersionTable& table = by_number_[way.table];
    const Status s = table.reader->Find(request.options, request.key.internal_key(), hash, lookup->context());
    if (lookup->Take(s, table.level) == VersionLookup::Next::kNothing) found_in = table.file;
  }
  thread->CountKeptFrom(statistics_, kept_from);
  const bool sampled = lookup.has_value() ? lookup->sampled() : rocksdb::should_sample_file_read();
  if (sampled) SampleReads(version, request.key, found_in, *request.status);
  if (found_in == nullptr) FinishLookup(version, request, &lookup);
}

void VersionFilter::MultiGet(Version* version, const rocksdb::ReadOptions& options,
                             rocksdb::MultiGetContext::Range* range, rocksdb::ReadCallback* callback,
                             FilterThread* thread) const {
  VersionBatch batch(version, options, range, callback);
  FilterHashes hashes;
  std::array<Way, FilterBatch::kMaxKeys> ways;
  uint64_t kept_from = 0, pending = 0;
  uint64_t ended = 0;  // no further table may hold them; they are finished behind all others, as in RocksDB
  const auto go_on = [&](uint64_t places) {
    ForEachBit(places, [&](size_t place) {
      if (!NextTable(options, hashes[place], thread, &ways[place], &kept_from)) ended |= uint64_t{1} << place;
    });
    pending &= ~ended;
  };
  for (auto key = range->begin(); key != range->end(); ++key) {
    hashes[key.index()] = hash_(key->lkey->user_key());
    pending |= uint64_t{1} << key.index();
  }
  go_on(pending);
  // The newest table first, so that all keys that want it ask it together.
  while (pending != 0 && !batch.IsOverLimit()) {
    uint32_t newest = ~uint32_t{0};
    ForEachBit(pending, [&](size_t place) { newest = std::min(newest, ways[place].table); });
    uint64_t places = 0;
    ForEachBit(pending, [&](size_t place) {
      if (ways[place].table != newest) return;
      places |= uint64_t{1} << place;
      thread->CountPassed(statistics_);
    });
    const VersionTable& table = by_number_[newest];
    const uint64_t older =
        batch.AskBy(table.level, places, [&] { table.reader->FindBatch(options, *range, hashes, places); });
    ForEachBit(places & ~older, [&](size_t place) {
      if (batch.IsSampled(place)) {
        SampleReads(version, *batch.KeyAt(place)->lkey, table.file, batch.StatusAt(place));
      }
    });
    pending &= ~(places & ~older);
    if (!batch.IsOverLimit()) go_on(older);
  }
  for (; ended != 0 && !batch.IsOverLimit(); ended &= ended - 1) {
    const size_t place = LowestBit(ended);
    if (batch.IsSampled(place)) SampleReads(version, *batch.KeyAt(place)->lkey, nullptr, Status());
    batch.Finish(place);
  }
  batch.Abort(pending | ended);
  thread->CountKeptFrom(statistics_, kept_from);
}

bool VersionFilters::Get(Version* version, const VersionRequest& request) {
  auto* const slot = slots_.SlotOf(version);
  if (slot->HasNoneFor(version)) return false;
  FilterThread* const thread = ThisFilterThread();
  // RocksDB's own way counts for each table. A merge operator may look up a key, too, while the thread is in here.
  if (thread->CountsByLevel() || thread->InLookup()) return false;
  {
    const Protected<VersionFilter> filter(thread->lookup_hazard(), slot->made);
    if (filter.get() != nullptr && filter->IsOf(version)) {
      if (filter->complete()) {
        filter->Get(version, request, thread);
        return true;
      }
      if (!request.status->ok() || !IsAbsent(*filter, version, request.key, thread)) return false;
      *request.status = Status::NotFound();
      return true;
    }
  }
  slots_.Miss(version, slot);
  return false;
}

bool VersionFilters::MayHold(Version* version, const rocksdb::LookupKey& key) {
  auto* const slot = slots_.SlotOf(version);
  if (slot->HasNoneFor(version)) return true;
  FilterThread* const thread = ThisFilterThread();
  if (thread->CountsByLevel() || thread->InLookup()) return true;
  {
    const Protected<VersionFilter> filter(thread->lookup_hazard(), slot->made);
    if (filter.get() != nullptr && filter->IsOf(version)) {
      return !IsAbsent(*filter, version, key, thread);
    }
  }
  slots_.Miss(version, slot);
  return true;
}

void VersionFilters::MultiGet(Version* version, const rocksdb::ReadOptions& options,
                              rocksdb::MultiGetContext::Range* range, rocksdb::ReadCallback* callback) {
  FilterThread* const thread = ThisFilterThread();
  if (!thread->CountsByLevel() && !thread->InLookup()) {
    const Protected<VersionFilter> filter(thread->lookup_hazard(), slots_.SlotOf(version)->made);
    const bool found = filter.get() != nullptr && filter->IsOf(version);
    if (found && !filter->in_memory()) return;
    if (found && filter->complete() && VersionBatch::Serves(version, *range)) {
      filter->MultiGet(version, options, range, callback, thread);
      return;
    }
  }
  FinishAbsent(version, range);
}

void VersionFilters::FinishAbsent(Version* version, rocksdb::MultiGetContext::Range* range) {
  for (auto key = range->begin(); key != range->end(); ++key) {
    // A merge operand of a memtable is a result by itself.
    if (!key->s->ok() || key->max_covering_tombstone_seq != 0 || MayHold(version, *key->lkey)) continue;
    *key->s = Status::NotFound();
    range->MarkKeyDone(key);
  }
}

}  // namespace cairn
