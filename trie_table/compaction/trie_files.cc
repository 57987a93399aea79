#include "trie_table/compaction/trie_files.h"

#include <algorithm>
#include <utility>

#include "db/column_family.h"
#include "db/job_context.h"
#include "db/range_del_aggregator.h"
#include "db/table_cache.h"
#include "rocksdb/port/column_family.h"
#include "table/ect/ect_table_index.h"
#include "table/hash_order/hash_order.h"
#include "table/hash_order/hash_order_options.h"
#include "table/table_facts.h"
#include "table/ttl_stamps.h"
#include "trie_table/compaction/trie_options.h"
#include "trie_table/compaction/trie_plan.h"
#include "util/rocksdb_names.h"

namespace cairn {

void DescribeFile(const rocksdb::TableProperties& properties, TrieFile* file) {
  file->data_bytes = std::min(file->bytes, KeyAndValueBytes(properties));
  file->deletes = properties.num_deletions > 0;
  const auto stamps = properties.user_collected_properties.find(kTtlStampsProperty);
  if (stamps != properties.user_collected_properties.end()) {
    file->ttl_stamps = std::make_shared<std::vector<uint32_t>>(DecodeTtlStamps(stamps->second));
  }
  const auto found = properties.user_collected_properties.find(kSketchProperty);
  if (found == properties.user_collected_properties.end()) return;
  auto sketch = std::make_shared<KeySketch>();
  if (!KeySketch::Decode(found->second, sketch.get()).ok()) return;
  file->only_live = properties.num_entries == sketch->keys() && properties.num_deletions == 0;
  // Operands of one key may be as many as they like.
  const uint64_t counted = sketch->keys() + properties.num_merge_operands + properties.num_range_deletions;
  if (counted < properties.num_entries) {
    file->newest = static_cast<double>(counted) / static_cast<double>(properties.num_entries);
  }
  file->sketch = std::move(sketch);
}

bool IsTrie(rocksdb::ColumnFamilyHandle* handle) {
  rocksdb::ColumnFamilyDescriptor descriptor;
  return handle->GetDescriptor(&descriptor).ok() && IsTrie(descriptor.options);
}

namespace {

Status CheckLevels(const rocksdb::ColumnFamilyOptions& options, const TrieOptions& trie) {
  if (options.num_levels != TrieLevels(trie)) {
    return Status::InvalidArgument(
        "num_levels is " + std::to_string(options.num_levels),
        "the trie's depth and slots want 1 + depth * slots = " + std::to_string(TrieLevels(trie)));
  }
  if (options.compaction_style != rocksdb::kCompactionStyleNone) {
    return Status::InvalidArgument("compaction_style", "a trie wants kCompactionStyleNone; cairn::UseTrie sets it");
  }
  rocksdb::ColumnFamilyOptions checked = options;
  return ObeyAges("a trie", &checked);
}

Status CheckKeyOrder(const rocksdb::ColumnFamilyOptions& options, const KeyTrieOptions& trie) {
  const rocksdb::Comparator* const order = options.comparator;
  if (HashOfComparator(order) != nullptr) {
    return Status::InvalidArgument("the comparator is " + std::string(order->Name()),
                                   "a trie with order=key wants one that orders keys, not hashes");
  }
  if (order->timestamp_size() != 0) {
    return Status::NotSupported("a trie with order=key and the comparator " + std::string(order->Name()),
                                "it takes comparators without timestamps");
  }
  return CheckLevels(options, trie);
}

Status CheckHashOrder(const rocksdb::ColumnFamilyOptions& options, const HashTrieOptions& trie) {
  const KeyHash* hash = HashOfComparator(options.comparator);
  const std::string wanted =
      std::string(kHashOrderName) + ":" + trie.hash + ":" + std::to_string(SeedOrRandom(trie.seed));
  if (hash == nullptr || HashKindName(hash->kind()) != trie.hash || hash->seed() != SeedOrRandom(trie.seed)) {
    return Status::InvalidArgument("the comparator is " + std::string(options.comparator->Name()),
                                   "the trie's partitioner wants " + wanted);
  }
  const Status s = CheckLevels(options, trie);
  if (!s.ok()) return s;
  if (options.table_factory != nullptr && options.table_factory->IsDeleteRangeSupported()) {
    return Status::InvalidArgument("table_factory is " + std::string(options.table_factory->Name()),
                                   "a trie wants cairn.HashOrderTable around it; cairn::UseTrie sets it");
  }
  return s;
}

}  // namespace

Status CheckTrieOptions(const rocksdb::ColumnFamilyOptions& options) {
  TrieOptionText trie;
  if (!IsTrie(options, &trie)) {
    return Status::InvalidArgument("no trie: sst_partitioner_factory is not cairn.TriePartitioner");
  }
  const Status s = ValidateTrieOptions(trie);
  if (!s.ok()) return s;
  return trie.in_key_order() ? CheckKeyOrder(options, trie.key_order()) : CheckHashOrder(options, trie.hash_order());
}

std::unique_ptr<HeldVersion> HeldVersion::Current(rocksdb::DBImpl* db, uint32_t column_family_id) {
  // The handle keeps the column family alive until its SuperVersion is held.
  const auto handle = db->GetColumnFamilyHandleUnlocked(column_family_id);
  if (handle == nullptr) return nullptr;
  auto* family = static_cast<rocksdb::ColumnFamilyHandleImpl*>(handle.get())->cfd();
  return std::unique_ptr<HeldVersion>(new HeldVersion(db, family->GetReferencedSuperVersion(db)));
}

// Whoever lets go of a Version last removes the files that only it had, as RocksDB's iterators do: a compaction that
// ended meanwhile has left them.
HeldVersion::~HeldVersion() {
  if (!super_version_->Unref()) return;
  rocksdb::JobContext job(0);
  {
    rocksdb::InstrumentedMutexLock lock(db_->mutex());
    super_version_->Cleanup();
    db_->FindObsoleteFiles(&job, false, true);
  }
  delete super_version_;
  if (job.HaveSomethingToDelete()) db_->PurgeObsoleteFiles(job);
  job.Clean();
}

uint64_t HeldVersion::number() const { return super_version_->current->GetVersionNumber(); }

uint64_t HeldVersion::write_buffer_bytes() const { return super_version_->mutable_cf_options.write_buffer_size; }

std::vector<uint64_t> HeldVersion::TablesOfBlobGarbage() const {
  std::vector<uint64_t> numbers;
  if (!super_version_->mutable_cf_options.enable_blob_garbage_collection) return numbers;
  const rocksdb::InstrumentedMutexLock lock(db_->mutex());
  for (const auto& [level, meta] : super_version_->current->storage_info()->FilesMarkedForForcedBlobGC()) {
    numbers.push_back(meta->fd.GetNumber());
  }
  return numbers;
}

const int32_t* HeldVersion::entry_ttl() const { return TtlOf(port::ImmutableOptionsOf(*super_version_->cfd)); }

TableAges HeldVersion::table_ages() const {
  const rocksdb::MutableCFOptions& options = super_version_->mutable_cf_options;
  return {AgeOf(options.ttl), AgeOf(options.periodic_compaction_seconds)};
}

void HeldVersion::TablesOlderThan(const TableAges& ages, uint64_t now, std::vector<uint64_t>* to_push,
                                  std::vector<uint64_t>* to_rewrite) const {
  if (ages.push == 0 && ages.rewrite == 0) return;
  const auto passed = [now](uint64_t age, uint64_t since) {
    return age != 0 && since != 0 && age < now && since < now - age;
  };
  for (const File& file : Files()) {
    if (passed(ages.push, file.meta->oldest_ancester_time)) to_push->push_back(file.number());
    if (passed(ages.rewrite, file.meta->file_creation_time)) to_rewrite->push_back(file.number());
  }
}

std::vector<HeldVersion::File> HeldVersion::Files() const {
  const rocksdb::VersionStorageInfo* storage = super_version_->current->storage_info();
  std::vector<File> files;
  for (int level = 0; level < storage->num_levels(); ++level) {
    for (const rocksdb::FileMetaData* meta : storage->LevelFiles(level)) files.push_back({level, meta});
  }
  return files;
}

TrieFile HeldVersion::MetadataOf(const File& file) {
  TrieFile described;
  described.number = file.number();
  described.epoch = file.meta->epoch_number;
  described.level = file.level;
  described.bytes = described.data_bytes = file.meta->fd.GetFileSize();
  described.smallest = file.meta->smallest.user_key().ToString();
  described.largest = file.meta->largest.user_key().ToString();
  described.largest_excluded =
      rocksdb::ExtractInternalKeyFooter(file.meta->largest.Encode()) == rocksdb::kRangeTombstoneSentinel;
  described.largest_sequence = file.meta->fd.largest_seqno;
  described.marked = file.meta->marked_for_compaction;
  described.has_blobs = file.meta->oldest_blob_file_number != rocksdb::kInvalidBlobFileNumber;
  return described;
}

Status HeldVersion::Describe(const File& file, TrieFile* described, WrittenTotalsReader* written) const {
  *described = MetadataOf(file);
  std::shared_ptr<const rocksdb::TableProperties> properties;
  Status s = super_version_->current->GetTableProperties(rocksdb::ReadOptions(), &properties, file.meta);
  if (!s.ok()) return s;
  DescribeFile(*properties, described);
  if (written != nullptr) written->Add(properties->user_collected_properties, described->bytes, file.level == 0);
  return properties->num_range_deletions > 0 ? ReadDeletions(file, described) : s;
}

// As far as the table has them: what lies beyond its ends is other tables', whatever is written in it.
Status HeldVersion::ReadDeletions(const File& file, TrieFile* described) const {
  rocksdb::ColumnFamilyData* const family = super_version_->cfd;
  std::unique_ptr<rocksdb::FragmentedRangeTombstoneIterator> parts;
  const Status s = family->table_cache()->GetRangeTombstoneIterator(
      rocksdb::ReadOptions(), family->internal_comparator(), *file.meta, super_version_->mutable_cf_options, &parts);
  if (!s.ok() || parts == nullptr) return s;
  rocksdb::TruncatedRangeDelIterator within(std::move(parts), &family->internal_comparator(), &file.meta->smallest,
                                            &file.meta->largest);
  auto deleted = std::make_shared<std::vector<DeletedKeys>>();
  for (within.SeekToFirst(); within.Valid(); within.Next()) {
    deleted->push_back({within.start_key().user_key.ToString(), within.end_key().user_key.ToString(), within.seq()});
  }
  if (!deleted->empty()) described->deleted = std::move(deleted);
  return s;
}

Status AddEctTables(rocksdb::DB* db, rocksdb::ColumnFamilyHandle* handle, TrieStats* stats) {
  rocksdb::ColumnFamilyDescriptor descriptor;
  HashTrieOptions trie;
  Status s = handle->GetDescriptor(&descriptor);
  if (!s.ok() || !IsHashTrie(descriptor.options, &trie) || trie.bottommost_format == kTrieFormatSame) return s;
  rocksdb::TablePropertiesCollection tables;
  s = db->GetPropertiesOfAllTables(handle, &tables);
  for (const auto& [file, properties] : tables) {
    EctTableFacts facts;
    if (!ReadEctTableFacts(*properties, &facts).ok()) continue;
    ++stats->ect_files;
    stats->ect_keys += facts.keys;
    stats->ect_bytes += properties->data_size + properties->index_size;
    stats->ect_memory_bytes += facts.layout_bytes + facts.index_bytes;
  }
  return s;
}

Status ReadTrieStats(rocksdb::DB* db, rocksdb::ColumnFamilyHandle* handle, TrieStats* stats) {
  rocksdb::ColumnFamilyDescriptor descriptor;
  Status s = handle->GetDescriptor(&descriptor);
  if (!s.ok()) return s;
  TrieOptionText trie;
  if (!IsTrie(descriptor.options, &trie)) {
    return Status::NotFound("column family " + handle->GetName(), "is no trie");
  }
  s = CheckTrieOptions(descriptor.options);
  if (!s.ok()) return s;
  const auto version = HeldVersion::Current(static_cast<rocksdb::DBImpl*>(db->GetRootDB()), handle->GetID());
  if (version == nullptr) return Status::ColumnFamilyDropped(handle->GetName());
  const std::unique_ptr<TriePlan> plan = NewTriePlan(
      trie,
      {handle->GetName(), descriptor.options.comparator, descriptor.options.write_buffer_size, LastOfAll::kUsed, ""});
  WrittenTotalsReader written;
  for (const HeldVersion::File& file : version->Files()) {
    TrieFile described;
    s = version->Describe(file, &described, &written);
    if (!s.ok()) return s;
    plan->Add(std::move(described));
  }
  WrittenTotals totals;
  written.RaiseTotals(&totals);
  *stats = TrieStats();
  stats->column_family = handle->GetName();
  plan->FillStats(totals, stats);
  return Status::OK();
}

}  // namespace cairn
