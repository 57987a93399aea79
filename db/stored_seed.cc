#include "db/stored_seed.h"

#include <algorithm>
#include <memory>
#include <set>
#include <utility>

#include "cairn/hash_seed.h"
#include "db/version_edit.h"
#include "file/filename.h"
#include "file/random_access_file_reader.h"
#include "file/sequence_file_reader.h"
#include "options/cf_options.h"
#include "rocksdb/env.h"
#include "rocksdb/file_system.h"
#include "rocksdb/port/log_reporter.h"
#include "rocksdb/utilities/options_util.h"
#include "table/hash_order/hash_order.h"
#include "table/meta_blocks.h"
#include "trie_table/compaction/trie_partitioner.h"
#include "util/rocksdb_names.h"

namespace cairn {

namespace {

// Adds what the MANIFEST says, as far as it can be read. *former (may be null): of column families that were dropped,
// too.
Status ReadManifest(const std::shared_ptr<rocksdb::FileSystem>& fs, const std::string& manifest, StoredOrders* orders,
                    StoredOrders* former) {
  std::unique_ptr<rocksdb::SequentialFileReader> file;
  Status s = rocksdb::SequentialFileReader::Create(fs, manifest, rocksdb::FileOptions(), &file, nullptr, nullptr);
  if (!s.ok()) return s;
  port::FirstFault stop;
  rocksdb::log::Reader reader(nullptr, std::move(file), &stop, true, 0);
  std::map<uint32_t, std::string> names = {{0, rocksdb::kDefaultColumnFamilyName}};
  std::map<uint32_t, std::string> by_id;
  std::set<uint32_t> dropped;
  rocksdb::Slice record;
  std::string scratch;
  while (s.ok() && stop.status.ok() && reader.ReadRecord(&record, &scratch)) {
    rocksdb::VersionEdit edit;
    s = edit.DecodeFrom(record);
    if (!s.ok()) break;
    const uint32_t id = edit.GetColumnFamily();
    if (edit.IsColumnFamilyAdd()) names[id] = edit.GetColumnFamilyName();
    if (edit.IsColumnFamilyDrop()) dropped.insert(id);
    if (edit.HasComparatorName()) by_id[id] = edit.GetComparatorName();
  }
  for (const auto& [id, name] : names) {
    const auto found = by_id.find(id);
    if (found == by_id.end()) continue;
    if (former != nullptr) (*former)[name] = found->second;
    if (dropped.count(id) == 0) (*orders)[name] = found->second;
  }
  return s.ok() ? stop.status : s;
}

// The MANIFEST that CURRENT names.
Status ReadCurrentManifest(const std::shared_ptr<rocksdb::FileSystem>& fs, const std::string& path,
                           StoredOrders* orders, StoredOrders* former) {
  std::string current;
  const Status s = rocksdb::ReadFileToString(fs.get(), rocksdb::CurrentFileName(path), &current);
  if (!s.ok()) return s;
  while (!current.empty() && current.back() == '\n') current.pop_back();
  return ReadManifest(fs, path + "/" + current, orders, former);
}

// The paths of files of a type in a folder, by number.
std::map<uint64_t, std::string> FilesOfType(rocksdb::FileSystem* fs, const std::string& folder,
                                            rocksdb::FileType type) {
  std::map<uint64_t, std::string> files;
  std::vector<std::string> names;
  fs->GetChildren(folder, rocksdb::IOOptions(), &names, nullptr).PermitUncheckedError();
  for (const std::string& name : names) {
    uint64_t number = 0;
    rocksdb::FileType found = rocksdb::kTempFile;
    if (rocksdb::ParseFileName(name, &number, &found) && found == type) files[number] = folder + "/" + name;
  }
  return files;
}

// All MANIFESTs, newer ones over older ones.
void ReadAllManifests(const std::shared_ptr<rocksdb::FileSystem>& fs, const std::string& path, StoredOrders* orders) {
  for (const auto& [number, manifest] : FilesOfType(fs.get(), path, rocksdb::kDescriptorFile)) {
    ReadManifest(fs, manifest, orders, nullptr).PermitUncheckedError();
  }
}

void ReadLatestOptions(const rocksdb::DBOptions& options, const std::string& path, StoredOrders* orders) {
  rocksdb::ConfigOptions config;
  config.env = options.env;
  config.ignore_unknown_options = true;
  rocksdb::DBOptions ignored;
  std::vector<ColumnFamilyDescriptor> families;
  if (!rocksdb::LoadLatestOptions(config, path, &ignored, &families).ok()) return;
  for (const ColumnFamilyDescriptor& family : families) {
    const rocksdb::Comparator* const comparator = family.options.comparator;
    if (comparator != nullptr && !SeedIsOpen(comparator)) (*orders)[family.name] = comparator->Name();
  }
}

// By the newest table of each column family.
void ReadTables(const rocksdb::DBOptions& options, const std::string& path,
                const std::vector<ColumnFamilyDescriptor>& families, StoredOrders* orders) {
  std::set<std::string> folders = {path};
  for (const rocksdb::DbPath& folder : options.db_paths) folders.insert(folder.path);
  for (const ColumnFamilyDescriptor& family : families) {
    for (const rocksdb::DbPath& folder : family.options.cf_paths) folders.insert(folder.path);
  }
  const auto& fs = options.env->GetFileSystem();
  std::map<uint64_t, std::string> tables;
  for (const std::string& folder : folders) {
    for (auto& [number, table] : FilesOfType(fs.get(), folder, rocksdb::kTableFile)) tables[number] = table;
  }
  const rocksdb::ImmutableOptions immutable{rocksdb::Options(options, ColumnFamilyOptions())};
  for (const auto& [number, table] : tables) {
    constexpr uint64_t kAnyMagicNumber = 0;
    uint64_t size = 0;
    std::unique_ptr<rocksdb::RandomAccessFileReader> file;
    std::unique_ptr<rocksdb::TableProperties> properties;
    Status s = fs->GetFileSize(table, rocksdb::IOOptions(), &size, nullptr);
    if (s.ok()) s = rocksdb::RandomAccessFileReader::Create(fs, table, rocksdb::FileOptions(), &file, nullptr);
    if (s.ok()) {
      s = rocksdb::ReadTableProperties(file.get(), size, kAnyMagicNumber, immutable, rocksdb::ReadOptions(),
                                       &properties);
    }
    if (!s.ok() || properties->comparator_name.empty() || properties->column_family_name.empty()) continue;
    (*orders)[properties->column_family_name] = properties->comparator_name;
  }
}

void SetComparator(const rocksdb::Comparator* comparator, ColumnFamilyOptions* options) {
  options->comparator = comparator;
  const auto* partitioner = AsTriePartitioner(options->sst_partitioner_factory);
  const KeyHash* const hash = HashOfComparator(comparator);
  if (partitioner == nullptr || partitioner->trie().seed != kRandomSeed || hash == nullptr) return;
  TrieOptionText trie = partitioner->trie();
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
  if (SeedIsOpen(options.comparator)) {
    return Status::InvalidArgument("the options leave the seed of the hash order open",
                                   "each database has its own: ask the options of an open one "
                                   "(DB::GetOptions of the column family)");
  }
  *seed = hash->seed();
  return Status::OK();
}

bool LeavesSeedOpen(const ColumnFamilyOptions& options) {
  const auto* partitioner = AsTriePartitioner(options.sst_partitioner_factory);
  return SeedIsOpen(options.comparator) || (partitioner != nullptr && partitioner->trie().seed == kRandomSeed);
}

bool HasOpenSeed(const std::vector<ColumnFamilyDescriptor>& families) {
  return std::any_of(families.begin(), families.end(),
                     [](const auto& family) { return LeavesSeedOpen(family.options); });
}

Status SeedNewFamily(const rocksdb::DBOptions& options, const std::string& path, const std::string& name,
                     ColumnFamilyOptions* family) {
  if (HashOfComparator(family->comparator) == nullptr && !LeavesSeedOpen(*family)) return Status::OK();
  StoredOrders present, former;
  const Status s = ReadCurrentManifest(options.env->GetFileSystem(), path, &present, &former);
  if (!s.ok()) return s;
  const auto found = former.find(name);
  if (found == former.end()) {
    DrawSeed(family);
    return s;
  }
  AdoptSeed(found->second, family);
  if (present.count(name) > 0 || found->second == family->comparator->Name()) return s;
  return Status::InvalidArgument(
      "column family " + name + " would be in the order " + family->comparator->Name(),
      "one of this name was dropped that was in the order " + found->second +
          ", and the MANIFEST still has both: close and open the database first, or choose another name");
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
  const auto& fs = options.env->GetFileSystem();
  StoredOrders present, stored;
  const Status s = ReadCurrentManifest(fs, path, &present, &stored);
  // It takes any of them.
  if (!s.ok() && options.best_efforts_recovery) ReadAllManifests(fs, path, &stored);
  // What cannot be read, RocksDB cannot open either, and says so better.
  ResolveSeeds(stored, nullptr, families);
}

StoredOrders FindStoredOrders(const rocksdb::DBOptions& options, const std::string& path,
                              const std::vector<ColumnFamilyDescriptor>& families) {
  const auto& fs = options.env->GetFileSystem();
  StoredOrders orders;
  if (ReadCurrentManifest(fs, path, &orders, nullptr).ok() && !orders.empty()) return orders;
  ReadAllManifests(fs, path, &orders);
  ReadLatestOptions(options, path, &orders);
  ReadTables(options, path, families, &orders);
  return orders;
}

void ResolveSeeds(const StoredOrders& orders, const ColumnFamilyOptions* unknown,
                  std::vector<ColumnFamilyDescriptor>* families) {
  for (ColumnFamilyDescriptor& family : *families) {
    if (!LeavesSeedOpen(family.options)) continue;
    const auto found = orders.find(family.name);
    if (found != orders.end()) {
      AdoptSeed(found->second, &family.options);
    } else {
      DrawSeed(&family.options);
    }
  }
  if (unknown == nullptr || !LeavesSeedOpen(*unknown)) return;
  for (const auto& [name, order] : orders) {
    const bool given = std::any_of(families->begin(), families->end(),
                                   [&name = name](const auto& family) { return family.name == name; });
    if (given) continue;
    ColumnFamilyDescriptor family(name, *unknown);
    AdoptSeed(order, &family.options);
    if (family.options.comparator->Name() == order) families->push_back(std::move(family));
  }
}

std::vector<ColumnFamilyDescriptor> WithSeeds(const rocksdb::DBOptions& options, const std::string& path,
                                              const std::vector<ColumnFamilyDescriptor>& families) {
  std::vector<ColumnFamilyDescriptor> resolved = families;
  ResolveSeeds(options, path, &resolved);
  return resolved;
}

}  // namespace cairn
