#include "table/silt/silt_merges.h"

#include <algorithm>
#include <string>
#include <vector>

#include "db/db_impl/db_impl.h"
#include "rocksdb/experimental.h"
#include "table/ect/ect_table.h"
#include "table/trie_rules.h"

namespace cairn {

int MaxHashStores(const SiltOptions& silt) {
  const int most = silt.max_hash_stores != 0 ? silt.max_hash_stores : 3 * silt.merge_trigger;
  return silt.partitions == 1 ? most : std::clamp(most, 2, kMostHashStoresOfAPartition);
}

// As the trie's SpaceLedger has it: a head start, and the next flush.
double HashStoresAtTheBound(const SiltOptions& silt, double live, double hash_store) {
  const double garbage = (1 + kSpaceHeadStart * (silt.space_bound - 1)) * live - 1 - hash_store;
  return std::clamp(2 * garbage / hash_store, 1.0, static_cast<double>(MaxHashStores(silt)));
}

double WeightOfHashStores(const rocksdb::LevelMetaData& level, uint64_t write_buffer_size) {
  std::vector<const rocksdb::SstFileMetaData*> files;
  for (const rocksdb::SstFileMetaData& file : level.files) files.push_back(&file);
  std::sort(files.begin(), files.end(),
            [](const auto* a, const auto* b) { return a->largest_seqno < b->largest_seqno; });
  double weight = 0;
  // The writes of a HashStore begin where those of the one before end. Of the oldest it is not known.
  uint64_t begin = files.empty() ? 0 : files[0]->smallest_seqno;
  for (const rocksdb::SstFileMetaData* file : files) {
    const uint64_t end = file->largest_seqno + 1;
    const uint64_t writes = end - std::min({begin, file->smallest_seqno, end - 1});
    const auto entries = static_cast<double>(file->num_entries);
    const double filled = (static_cast<double>(file->size) + kMemtableBytesBeyondTable * entries) /
                          static_cast<double>(write_buffer_size);
    weight += std::min(1.0, std::max(entries / static_cast<double>(writes), filled));
    begin = end;
  }
  return weight;
}

namespace {

// RocksDB compacts marked files of level 0 with all that overlap them. While there is a SortedStore all HashStores can
// be marked at any time, as soon as a merge of them is due and none is under way; else none but the next, when it is
// made.
void MergeIfDue(rocksdb::DB* db, uint32_t family_id) {
  const auto handle = static_cast<rocksdb::DBImpl*>(db)->GetColumnFamilyHandleUnlocked(family_id);
  rocksdb::ColumnFamilyDescriptor descriptor;
  SiltOptions silt;
  if (handle == nullptr || !handle->GetDescriptor(&descriptor).ok() || !IsSilt(descriptor.options, &silt)) return;
  if (descriptor.options.disable_auto_compactions || silt.partitions > 1) return;
  std::string session;
  if (!db->GetDbSessionId(session).ok()) return;
  rocksdb::ColumnFamilyMetaData meta;
  db->GetColumnFamilyMetaData(handle.get(), &meta);
  const std::vector<rocksdb::SstFileMetaData>& stores = meta.levels[0].files;
  const bool merging = std::any_of(stores.begin(), stores.end(), [](const auto& file) { return file.being_compacted; });
  const double weight = WeightOfHashStores(meta.levels[0], descriptor.options.write_buffer_size) + 0.5;
  // A merge that was asked for may not have begun yet, so this may ask once too often: taken back when it begins.
  const bool with_next = !merging && meta.levels[1].files.empty() && weight + 1 >= silt.merge_trigger;
  descriptor.options.table_factory->CheckedCast<EctTableFactory>()->CompactNextFlush(session, family_id, with_next);
  if (merging || weight < silt.merge_trigger) return;
  // What it cannot do now is tried again after the next flush.
  rocksdb::experimental::SuggestCompactRange(db, handle.get(), nullptr, nullptr).PermitUncheckedError();
}

}  // namespace

void SiltMerges::OnFlushCompleted(rocksdb::DB* db, const rocksdb::FlushJobInfo& info) { MergeIfDue(db, info.cf_id); }

void SiltMerges::OnCompactionBegin(rocksdb::DB* db, const rocksdb::CompactionJobInfo& info) {
  MergeIfDue(db, info.cf_id);
}

// While it ran, HashStores came.
void SiltMerges::OnCompactionCompleted(rocksdb::DB* db, const rocksdb::CompactionJobInfo& info) {
  MergeIfDue(db, info.cf_id);
}

}  // namespace cairn
