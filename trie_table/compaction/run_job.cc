#include "trie_table/compaction/run_job.h"

#include <algorithm>
#include <string>

#include "file/filename.h"
#include "trie_table/compaction/table_moves.h"
#include "util/rocksdb_names.h"

namespace cairn {

namespace {

// In the current Version, which comes a moment before the SuperVersion that shapes follow.
bool AreThere(rocksdb::DBImpl* db, rocksdb::ColumnFamilyHandle* handle, const std::vector<uint64_t>& tables) {
  const rocksdb::InstrumentedMutexLock lock(db->mutex());
  auto* const family = static_cast<rocksdb::ColumnFamilyHandleImpl*>(handle)->cfd();
  return std::all_of(tables.begin(), tables.end(), [&](uint64_t number) {
    return family->current()->storage_info()->GetFileLocation(number).IsValid();
  });
}

}  // namespace

Status RunJob(rocksdb::DBImpl* db, rocksdb::ColumnFamilyHandle* family, const TrieJob& job, JobOutput* output) {
  if (!job.writes()) return MoveTables(db, family, job.moves);
  std::vector<std::string> names;
  names.reserve(job.inputs.size());
  for (uint64_t number : job.inputs) names.push_back(rocksdb::MakeTableFileName(number));
  rocksdb::CompactionJobInfo info{};
  const TrieJobScope scope(db, family->GetComparator(), job);
  Status s = db->CompactFiles(rocksdb::CompactionOptions(), family, names, job.output_level, -1, nullptr, &info);
  if (s.ok()) output->bytes = info.stats.total_output_bytes;
  for (const rocksdb::CompactionFileInfo& table : info.output_file_infos) output->tables.push_back(table.file_number);
  if (scope.is_told && !s.IsShutdownInProgress()) {
    info.status = s;  // RocksDB leaves it at OK
    for (const auto& listener : db->immutable_db_options().listeners) listener->OnCompactionCompleted(db, info);
  }
  // Others have compacted or deleted them; the plan may not know it yet.
  if (s.IsInvalidArgument() && !AreThere(db, family, job.inputs)) return Status::Aborted("its tables are gone");
  return s;
}

rocksdb::Temperature OutputTemperature(const rocksdb::MutableCFOptions& options, rocksdb::VersionStorageInfo* storage,
                                       const rocksdb::InternalKey& smallest, const rocksdb::InternalKey& largest,
                                       int output_level) {
  const bool is_last = output_level > 0 && !storage->RangeMightExistAfterSortedRun(
                                               smallest.user_key(), largest.user_key(), output_level, -1);
  return is_last ? options.last_level_temperature : rocksdb::Temperature::kUnknown;
}

uint64_t OldestSnapshot(rocksdb::DB* db) {
  uint64_t snapshots = 0, sequence = 0;
  db->GetIntProperty(rocksdb::DB::Properties::kNumSnapshots, &snapshots);
  db->GetIntProperty(rocksdb::DB::Properties::kOldestSnapshotSequence, &sequence);
  return snapshots == 0 ? 0 : sequence + 1;
}

namespace {
thread_local TrieJobScope* current = nullptr;
}  // namespace

TrieJobScope::TrieJobScope(rocksdb::DBImpl* db, const rocksdb::Comparator* comparator, const TrieJob& job)
    : db_(db),
      comparator_(comparator),
      job_(job),
      deletion_cuts_(job.cuts == nullptr ? std::vector<std::string>() : job.cuts->DeletionCuts()),
      outer_(current) {
  current = this;
}

TrieJobScope::~TrieJobScope() { current = outer_; }

TrieJobScope* TrieJobScope::Current() { return current; }

std::unique_ptr<KeyCutter> TrieJobScope::NewCutter() {
  if (current == nullptr || current->job_.cuts == nullptr) return nullptr;
  return std::make_unique<KeyCutter>(current->comparator_, current->job_.cuts);
}

}  // namespace cairn
