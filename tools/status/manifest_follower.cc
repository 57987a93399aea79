#include "tools/status/manifest_follower.h"

#include <utility>

#include "db/version_edit.h"
#include "file/sequence_file_reader.h"
#include "rocksdb/env.h"
#include "rocksdb/file_system.h"
#include "util/rocksdb_names.h"

namespace cairn {

namespace {

// The MANIFEST that CURRENT names, "MANIFEST-000005".
Status CurrentManifest(const std::string& path, std::string* name) {
  Status s = rocksdb::ReadFileToString(rocksdb::Env::Default(), path + "/CURRENT", name);
  if (s.IsPathNotFound() || s.IsNotFound())
    return Status::NotFound(path, "is no RocksDB database (it has no file CURRENT)");
  if (!s.ok()) return s;
  if (!name->empty() && name->back() == '\n') name->pop_back();
  if (name->compare(0, 9, "MANIFEST-") != 0 || name->find('/') != std::string::npos) {
    return Status::Corruption(path + "/CURRENT", "does not name a MANIFEST; `cairn repair` may help");
  }
  return s;
}

}  // namespace

Status ManifestFollower::OpenManifest(const std::string& name) {
  std::unique_ptr<rocksdb::FSSequentialFile> file;
  Status s =
      rocksdb::FileSystem::Default()->NewSequentialFile(path_ + "/" + name, rocksdb::FileOptions(), &file, nullptr);
  if (s.IsPathNotFound()) return Status::TryAgain(path_ + "/" + name, "was replaced meanwhile");
  if (!s.ok()) return s;
  families_.clear();
  reporter_.status = Status::OK();
  reader_ = std::make_unique<rocksdb::log::FragmentBufferedReader>(
      nullptr, std::make_unique<rocksdb::SequentialFileReader>(std::move(file), name), &reporter_, true, 0);
  manifest_ = name;
  return s;
}

Status ManifestFollower::Follow() {
  std::string name;
  Status s = CurrentManifest(path_, &name);
  if (!s.ok()) return s;
  if (name != manifest_ || reader_ == nullptr) s = OpenManifest(name);
  if (!s.ok()) return s;
  Slice record;
  std::string scratch;
  while (s.ok() && reader_->ReadRecord(&record, &scratch)) s = Apply(record);
  if (s.ok()) s = reporter_.status;
  // From the beginning next time.
  if (!s.ok()) reader_.reset();
  return s;
}

Status ManifestFollower::Apply(const Slice& record) {
  rocksdb::VersionEdit edit;
  const Status s = edit.DecodeFrom(record);
  if (!s.ok()) return s;
  const uint32_t id = edit.GetColumnFamily();
  if (edit.IsColumnFamilyDrop()) {
    families_.erase(id);
    return s;
  }
  // The default family is there without being added.
  if (edit.IsColumnFamilyAdd()) families_[id].name = edit.GetColumnFamilyName();
  if (id == 0 && families_[0].name.empty()) families_[0].name = rocksdb::kDefaultColumnFamilyName;
  const auto found = families_.find(id);
  if (found == families_.end()) return s;  // of a family that was dropped
  ManifestFamily& family = found->second;
  if (edit.HasComparatorName()) family.comparator = edit.GetComparatorName();
  for (const auto& [level, number] : edit.GetDeletedFiles()) family.tables.erase(number);
  for (const auto& [level, meta] : edit.GetNewFiles()) {
    ManifestTable& table = family.tables[meta.fd.GetNumber()];
    table.level = level;
    table.bytes = meta.fd.GetFileSize();
    table.smallest = meta.smallest.user_key().ToString();
    table.largest = meta.largest.user_key().ToString();
    table.largest_excluded =
        rocksdb::ExtractInternalKeyFooter(meta.largest.Encode()) == rocksdb::kRangeTombstoneSentinel;
    table.epoch = meta.epoch_number;
  }
  if (!edit.GetDeletedFiles().empty() || !edit.GetNewFiles().empty()) ++family.version;
  return s;
}

}  // namespace cairn
