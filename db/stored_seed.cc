#include "db/stored_seed.h"

#include <algorithm>
#include <map>
#include <memory>
#include <utility>

#include "cairn/hash_seed.h"
#include "db/log_reader.h"
#include "db/version_edit.h"
#include "file/filename.h"
#include "file/sequence_file_reader.h"
#include "rocksdb/env.h"
#include "rocksdb/file_system.h"
#include "table/hash_order.h"
#include "trie_table/trie_partitioner.h"

namespace cairn {

using rocksdb::ColumnFamilyDescriptor;
using rocksdb::ColumnFamilyOptions;
using rocksdb::Status;

namespace {

struct Stop : rocksdb::log::Reader::Reporter {
  void Corruption(size_t /*bytes*/, const Status& s) override {
    if (status.ok()) status = s;
  }
  Status status;
};

// The names of the comparators, by column family.
using Comparators = std::map<std::string, std::string>;

Status ReadComparators(const rocksdb::DBOptions& options, const std::string& path, Comparators* comparators) {
  const auto& fs = options.env->GetFileSystem();
  std::string current;
  Status s = rocksdb::ReadFileToString(fs.get(), rocksdb::CurrentFileName(path), &current);
  if (!s.ok()) return s;
  while (!current.empty() && current.back() == '\n') current.pop_back();
  std::unique_ptr<rocksdb::SequentialFileReader> file;
  s = rocksdb::SequentialFileReader::Create(fs, path + "/" + current, rocksdb::FileOptions(), &file, nullptr, nullptr);
  if (!s.ok()) return s;
  Stop stop;
  rocksdb::log::Reader reader(nullptr, std::move(file), &stop, true, 0);
  std::map<uint32_t, std::string> names = {{0, rocksdb::kDefaultColumnFamilyName}};
  std::map<uint32_t, std::string> by_id;
  rocksdb::Slice record;
  std::string scratch;
  while (stop.status.ok() && reader.ReadRecord(&record, &scratch)) {
    rocksdb::VersionEdit edit;
    s = edit.DecodeFrom(record);
    if (!s.ok()) return s;
    const uint32_t id = edit.GetColumnFamily();
    if (edit.IsColumnFamilyAdd()) names[id] = edit.GetColumnFamilyName();
    if (edit.IsColumnFamilyDrop()) names.erase(id);
    if (edit.HasComparatorName()) by_id[id] = edit.GetComparatorName();
  }
  for (const auto& [id, name] : names) {
    const auto found = by_id.find(id);
    if (found != by_id.end()) (*comparators)[name] = found->second;
  }
  return stop.status;
}

const TriePartitionerFactory* PartitionerOf(const ColumnFamilyOptions& options) {
  return options.sst_partitioner_factory == nullptr
             ? nullptr
             : options.sst_partitioner_factory->CheckedCast<TriePartitionerFactory>();
}

bool LeavesSeedOpen(const ColumnFamilyOptions& options) {
  const auto* partitioner = PartitionerOf(options);
  return SeedIsOpen(options.comparator) || (partitioner != nullptr && partitioner->seed_is_open());
}

void SetComparator(const rocksdb::Comparator* comparator, ColumnFamilyOptions* options) {
  options->comparator = comparator;
  const auto* partitioner = PartitionerOf(*options);
  const KeyHash* const hash = HashOfComparator(comparator);
  if (partitioner == nullptr || !partitioner->seed_is_open() || hash == nullptr) return;
  TrieOptions trie = partitioner->trie();
  trie.seed = hash->seed();
  options->sst_partitioner_factory = std::make_shared<TriePartitionerFactory>(trie);
}

}  // namespace

Status GetHashSeed(const ColumnFamilyOptions& options, uint64_t* seed) {
  const KeyHash* const hash = HashOfComparator(options.comparator);
  if (hash == nullptr) {
    return Status::NotSupported(
        "the comparator is " + std::string(options.comparator == nullptr ? "none" : options.comparator->Name()),
        "only column families in hash order have a seed");
  }
  *seed = hash->seed();
  return Status::OK();
}

bool HasOpenSeed(const std::vector<ColumnFamilyDescriptor>& families) {
  return std::any_of(families.begin(), families.end(),
                     [](const auto& family) { return LeavesSeedOpen(family.options); });
}

void DrawSeed(ColumnFamilyOptions* options) {
  const rocksdb::Comparator* comparator = options->comparator;
  if (SeedIsOpen(comparator)) comparator = HashOrderComparator(HashOfComparator(comparator)->kind(), DrawRandomSeed());
  SetComparator(comparator, options);
}

void AdoptSeed(const std::string& comparator, ColumnFamilyOptions* options) {
  const rocksdb::Comparator* adopted = options->comparator;
  const rocksdb::Comparator* stored = nullptr;
  // Another hash, or no hash order at all, is for RocksDB to refuse.
  if (SeedIsOpen(adopted) && HashOrderComparatorFromName(comparator, &stored).ok() &&
      HashOfComparator(stored)->kind() == HashOfComparator(adopted)->kind()) {
    adopted = stored;
  }
  SetComparator(adopted, options);
}

void ResolveSeeds(const rocksdb::DBOptions& options, const std::string& path,
                  std::vector<ColumnFamilyDescriptor>* families) {
  if (!HasOpenSeed(*families)) return;
  Comparators stored;
  const Status s = ReadComparators(options, path, &stored);
  // What cannot be read, RocksDB cannot open either, and says so better.
  if (!s.ok() && !s.IsNotFound() && !s.IsPathNotFound()) return;
  for (ColumnFamilyDescriptor& family : *families) {
    if (!LeavesSeedOpen(family.options)) continue;
    const auto found = stored.find(family.name);
    if (found != stored.end()) {
      AdoptSeed(found->second, &family.options);
    } else {
      DrawSeed(&family.options);
    }
  }
}

std::vector<ColumnFamilyDescriptor> WithSeeds(const rocksdb::DBOptions& options, const std::string& path,
                                              const std::vector<ColumnFamilyDescriptor>& families) {
  std::vector<ColumnFamilyDescriptor> resolved = families;
  ResolveSeeds(options, path, &resolved);
  return resolved;
}

}  // namespace cairn
