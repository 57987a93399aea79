#include "trie_table/compaction/compaction_inputs.h"

#include <algorithm>

#include "cairn/trie.h"
#include "db/column_family.h"
#include "file/filename.h"
#include "rocksdb/port/column_family.h"
#include "trie_table/compaction/run_job.h"
#include "trie_table/compaction/trie_ingestion.h"
#include "trie_table/compaction/trie_options.h"

namespace cairn {

using rocksdb::FileMetaData;
using rocksdb::Status;

namespace {

Status CheckNamed(const rocksdb::VersionStorageInfo& storage, int output_level,
                  const std::unordered_set<uint64_t>& files) {
  const int last = storage.num_levels() - 1;
  if (output_level < 0 || output_level > last) {
    return Status::InvalidArgument("output level " + std::to_string(output_level),
                                   "the column family has levels 0 to " + std::to_string(last));
  }
  if (files.empty()) return Status::InvalidArgument("a compaction of no table");
  for (const uint64_t number : files) {
    const auto place = storage.GetFileLocation(number);
    const std::string table = "table " + std::to_string(number);
    if (!place.IsValid()) return Status::InvalidArgument(table + " is not in the column family");
    if (place.GetLevel() > output_level) {
      return Status::InvalidArgument(table + " lies at level " + std::to_string(place.GetLevel()),
                                     "the output level " + std::to_string(output_level) + " is above it");
    }
  }
  return Status::OK();
}

// The hull of tables.
class Range {
 public:
  explicit Range(const rocksdb::Comparator* comparator) : comparator_(comparator) {}
  void Widen(const FileMetaData& file) {
    if (smallest_ == nullptr || rocksdb::sstableKeyCompare(comparator_, file.smallest, *smallest_) < 0) {
      smallest_ = &file.smallest;
    }
    if (largest_ == nullptr || rocksdb::sstableKeyCompare(comparator_, file.largest, *largest_) > 0) {
      largest_ = &file.largest;
    }
  }
  const rocksdb::InternalKey* smallest() const { return smallest_; }
  const rocksdb::InternalKey* largest() const { return largest_; }

 private:
  const rocksdb::Comparator* const comparator_;
  const rocksdb::InternalKey* smallest_ = nullptr;
  const rocksdb::InternalKey* largest_ = nullptr;
};

}  // namespace

Status AddOverlappingFiles(const rocksdb::VersionStorageInfo& storage, const rocksdb::Comparator* comparator,
                           int output_level, std::unordered_set<uint64_t>* files) {
  Status s = CheckNamed(storage, output_level, *files);
  if (!s.ok()) return s;
  const auto add = [&](const FileMetaData& file) {
    if (file.being_compacted) return false;
    files->insert(file.fd.GetNumber());
    return true;
  };
  Range range(comparator);
  for (int level = 0; level <= output_level; ++level) {
    const std::vector<FileMetaData*>& all = storage.LevelFiles(level);
    size_t begin = all.size(), end = 0;
    for (size_t i = 0; i < all.size(); ++i) {
      if (files->count(all[i]->fd.GetNumber()) == 0) continue;
      begin = std::min(begin, i);
      end = i + 1;
    }
    if (begin >= end) continue;
    const auto share_a_key = [&](size_t left) {
      return rocksdb::sstableKeyCompare(comparator, all[left]->largest, all[left + 1]->smallest) >= 0;
    };
    if (level == 0 && output_level > 0) end = all.size();
    while (level > 0 && begin > 0 && share_a_key(begin - 1)) --begin;
    while (level > 0 && end < all.size() && share_a_key(end - 1)) ++end;
    for (size_t i = begin; i < end; ++i) {
      if (!add(*all[i])) return Status::Aborted("a table of level " + std::to_string(level) + " is being compacted");
      range.Widen(*all[i]);
    }
    // In this level, too: between one of its tables and one of a level above there may be others, and what is written
    // may span them.
    for (int below = std::max(level, 1); below <= output_level; ++below) {
      std::vector<FileMetaData*> overlapping;
      storage.GetOverlappingInputs(below, range.smallest(), range.largest(), &overlapping, -1, nullptr, false);
      for (const FileMetaData* file : overlapping) {
        if (!add(*file)) return Status::Aborted("a table of level " + std::to_string(below) + " is being compacted");
      }
    }
  }
  return s;
}

Status CheckCompactFiles(const rocksdb::ColumnFamilyData& family, const rocksdb::Version& version,
                         const std::vector<std::string>& names, int output_level) {
  if (TrieJobScope::Current() != nullptr || port::ImmutableOptionsOf(family).sst_partitioner_factory == nullptr)
    return Status::OK();
  const rocksdb::ColumnFamilyOptions options = family.GetLatestCFOptions();
  HashTrieOptions trie;
  if (!IsHashTrie(options, &trie)) return Status::OK();
  std::unordered_set<uint64_t> files;
  for (const std::string& name : names) files.insert(rocksdb::TableFileNameToNumber(name));
  const rocksdb::VersionStorageInfo& storage = *version.storage_info();
  if (!AddOverlappingFiles(storage, family.user_comparator(), output_level, &files).ok()) return Status::OK();
  const HashPrefixMap map = ContainerMapOf(trie);
  uint64_t bytes = 0, first = UINT64_MAX, last = 0;
  for (const uint64_t number : files) {
    const FileMetaData& file = *storage.GetFileMetaDataByNumber(number);
    bytes += file.fd.GetFileSize();
    first = std::min(first, map.Position(file.smallest.user_key()));
    last = std::max(last, map.Position(file.largest.user_key()));
  }
  const auto parts = [&](int depth) { return map.ContainerAt(last, depth) - map.ContainerAt(first, depth) + 1; };
  // No more than there were, or not small ones.
  const auto are_sensible = [&](int depth) {
    return depth == 0 || parts(depth) <= files.size() ||
           static_cast<double>(bytes) / static_cast<double>(parts(depth)) >=
               kSensiblePart * SlotBytes(trie, options.write_buffer_size, depth);
  };
  int depth = std::min(DepthOfLevel(trie, output_level), trie.depth);  // a family may have levels behind the trie
  if (are_sensible(depth)) return Status::OK();
  const std::string what = "output level " + std::to_string(output_level) + " of the trie " + family.GetName() +
                           " would cut " + std::to_string(bytes) + " bytes into up to " + std::to_string(parts(depth)) +
                           " tables";
  while (!are_sensible(depth)) --depth;
  const std::string leave = "leave its levels to the trie (CompactRange)";
  return Status::InvalidArgument(
      what,
      depth == 0 ? leave : "name level " + std::to_string(LastLevelOfDepth(trie, depth)) + " at most, or " + leave);
}

}  // namespace cairn
