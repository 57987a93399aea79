#include "test/error_stress/slow_disk.h"

#include <algorithm>
#include <chrono>
#include <filesystem>
#include <system_error>
#include <thread>
#include <utility>

#include "db/log_format.h"
#include "test/testutil/faulty_disk.h"

namespace cairn {
namespace errors {

using rocksdb::FileOptions;
using rocksdb::IODebugContext;
using rocksdb::IOOptions;
using rocksdb::IOStatus;
using rocksdb::Slice;
using std::chrono::microseconds;

namespace {

uint64_t SizeOf(const std::string& name) {
  std::error_code error;
  const uint64_t size = std::filesystem::file_size(name, error);
  return error ? 0 : size;
}

}  // namespace

const char* NameOf(Fault fault) {
  constexpr const char* kNames[] = {"none",         "WAL append",      "WAL torn",      "WAL sync",   "WAL creation",
                                    "table append", "MANIFEST append", "MANIFEST sync", "folder sync"};
  return kNames[static_cast<int>(fault)];
}

class SlowDisk::File : public rocksdb::FSWritableFileOwnerWrapper {
 public:
  File(std::unique_ptr<rocksdb::FSWritableFile>&& file, std::string name, SlowDisk* disk)
      : FSWritableFileOwnerWrapper(std::move(file)), name_(std::move(name)), kind_(test::KindOf(name_)), disk_(disk) {}

  IOStatus Append(const Slice& data, const IOOptions& options, IODebugContext* context) override {
    disk_->BeSlow();
    if (IsTaken(Fault::kWalAppend, Fault::kManifestAppend, Fault::kTableAppend)) return disk_->Error();
    const auto change = disk_->Change();
    if (kind_ != test::kWal || !disk_->Takes(Fault::kWalTorn)) return target()->Append(data, options, context);
    // Of less than a head the database may not open (docs/guide/faults.md); POSIX's file system cuts that off.
    const size_t head = std::min<size_t>(data.size(), rocksdb::log::kHeaderSize);
    const Slice part(data.data(), head + disk_->Uniform(data.size() - head + 1));
    target()->Append(part, options, context).PermitUncheckedError();
    return disk_->Error();
  }
  IOStatus Append(const Slice& data, const IOOptions& options, const rocksdb::DataVerificationInfo& /*info*/,
                  IODebugContext* context) override {
    return Append(data, options, context);
  }
  IOStatus Sync(const IOOptions& /*options*/, IODebugContext* /*context*/) override {
    if (kind_ == test::kWal && disk_->Uniform(4) == 0) disk_->BeVerySlow();
    disk_->BeSlow();
    if (IsTaken(Fault::kWalSync, Fault::kManifestSync, Fault::kNone)) return disk_->Error();
    const uint64_t size = SizeOf(name_);
    disk_->BeSlow();
    disk_->NoteSynced(name_, size);
    return IOStatus::OK();
  }
  IOStatus Fsync(const IOOptions& options, IODebugContext* context) override { return Sync(options, context); }
  IOStatus RangeSync(uint64_t /*offset*/, uint64_t /*size*/, const IOOptions& /*options*/,
                     IODebugContext* /*context*/) override {
    return IOStatus::OK();
  }
  IOStatus Truncate(uint64_t size, const IOOptions& options, IODebugContext* context) override {
    const auto change = disk_->Change();
    return target()->Truncate(size, options, context);
  }
  IOStatus Close(const IOOptions& options, IODebugContext* context) override {
    disk_->BeSlow();
    const auto change = disk_->Change();
    return target()->Close(options, context);
  }

 private:
  bool IsTaken(Fault of_wals, Fault of_manifests, Fault of_tables) {
    switch (kind_) {
      case test::kWal:
        return disk_->Takes(of_wals);
      case test::kManifest:
        return disk_->Takes(of_manifests);
      case test::kTable:
        return disk_->Takes(of_tables);
      default:
        return false;
    }
  }

  const std::string name_;
  const test::Kind kind_;
  SlowDisk* const disk_;
};

class SlowDisk::RandomFile : public rocksdb::FSRandomRWFileOwnerWrapper {
 public:
  RandomFile(std::unique_ptr<rocksdb::FSRandomRWFile>&& file, std::string name, SlowDisk* disk)
      : FSRandomRWFileOwnerWrapper(std::move(file)), name_(std::move(name)), disk_(disk) {}
  IOStatus Write(uint64_t offset, const Slice& data, const IOOptions& options, IODebugContext* context) override {
    disk_->BeSlow();
    const auto change = disk_->Change();
    return target()->Write(offset, data, options, context);
  }
  IOStatus Sync(const IOOptions& /*options*/, IODebugContext* /*context*/) override {
    const uint64_t size = SizeOf(name_);
    disk_->BeVerySlow();
    disk_->NoteSynced(name_, size);
    return IOStatus::OK();
  }
  IOStatus Fsync(const IOOptions& options, IODebugContext* context) override { return Sync(options, context); }

 private:
  const std::string name_;
  SlowDisk* const disk_;
};

class SlowDisk::Folder : public rocksdb::FSDirectoryWrapper {
 public:
  Folder(std::unique_ptr<rocksdb::FSDirectory>&& folder, SlowDisk* disk)
      : FSDirectoryWrapper(std::move(folder)), disk_(disk) {}
  IOStatus Fsync(const IOOptions& /*options*/, IODebugContext* /*context*/) override {
    const std::set<std::string> names = disk_->NamesToSync();
    disk_->BeSlow();
    if (disk_->Takes(Fault::kFolderSync)) return disk_->Error();
    disk_->NoteNamesSynced(names);
    return IOStatus::OK();
  }
  IOStatus FsyncWithDirOptions(const IOOptions& options, IODebugContext* context,
                               const rocksdb::DirFsyncOptions& /*how*/) override {
    return Fsync(options, context);
  }

 private:
  SlowDisk* const disk_;
};

void SlowDisk::Arm(Fault fault, bool full) {
  full_ = full;
  armed_ = fault;
}

bool SlowDisk::Takes(Fault fault) {
  Fault armed = fault;
  if (fault == Fault::kNone || !armed_.compare_exchange_strong(armed, Fault::kNone)) return false;
  ++felt_;
  return true;
}

IOStatus SlowDisk::Error() const {
  if (full_) return IOStatus::NoSpace("full");
  IOStatus s = IOStatus::IOError("may pass");
  s.SetRetryable(true);
  return s;
}

uint64_t SlowDisk::Uniform(uint64_t n) {
  const std::lock_guard<std::mutex> lock(mu_);
  return random_.Uniform(n);
}

void SlowDisk::BeSlow() {
  if (!slow_ || Uniform(slow_one_in_) != 0) return;
  const uint64_t chance = Uniform(400);
  if (chance < 220) return;
  std::this_thread::sleep_for(microseconds(chance == 399 ? 100000 : chance < 360 ? Uniform(1500) : Uniform(20000)));
}

void SlowDisk::BeVerySlow() {
  if (slow_ && Uniform(slow_one_in_) == 0)
    std::this_thread::sleep_for(microseconds(Uniform(10) == 0 ? 100000 : Uniform(20000)));
}

void SlowDisk::NoteSynced(const std::string& name, uint64_t size) {
  const std::lock_guard<std::mutex> lock(mu_);
  synced_[name] = std::max(synced_[name], size);
}

std::set<std::string> SlowDisk::NamesToSync() const {
  const std::lock_guard<std::mutex> lock(mu_);
  return new_names_;
}

void SlowDisk::NoteNamesSynced(const std::set<std::string>& names) {
  const std::lock_guard<std::mutex> lock(mu_);
  for (const std::string& name : names) new_names_.erase(name);
}

void SlowDisk::Copy(const std::string& from, const std::string& to, bool loses_unsynced) {
  const std::unique_lock<std::shared_mutex> no_change(changes_);
  std::filesystem::copy(from, to);
  if (!loses_unsynced) return;
  const std::lock_guard<std::mutex> lock(mu_);
  const bool loses_names = random_.OneIn(2);
  for (const auto& file : std::filesystem::directory_iterator(to)) {
    const std::string name = from + "/" + file.path().filename().string();
    if (loses_names && new_names_.count(name) > 0) {
      std::filesystem::remove(file.path());
      continue;
    }
    const auto synced = synced_.find(name);
    if (synced != synced_.end() && synced->second < file.file_size()) {
      std::filesystem::resize_file(file.path(), synced->second);
    }
  }
}

IOStatus SlowDisk::NewWritableFile(const std::string& name, const FileOptions& options,
                                   std::unique_ptr<rocksdb::FSWritableFile>* file, IODebugContext* context) {
  const test::Kind kind = test::KindOf(name);
  if (kind == test::kWal) BeVerySlow();
  if (kind == test::kWal && Takes(Fault::kWalCreation)) return Error();
  IOStatus s;
  {
    const auto change = Change();
    s = target()->NewWritableFile(name, options, file, context);
    const std::lock_guard<std::mutex> lock(mu_);
    if (s.ok() && kind != test::kOther) {
      synced_[name] = 0;
      // A MANIFEST has its name when CURRENT, which is renamed later, says it.
      if (kind != test::kManifest) new_names_.insert(name);
    }
  }
  if (s.ok()) *file = std::make_unique<File>(std::move(*file), name, this);
  if (kind == test::kWal) BeVerySlow();
  return s;
}

IOStatus SlowDisk::ReuseWritableFile(const std::string& name, const std::string& old_name, const FileOptions& options,
                                     std::unique_ptr<rocksdb::FSWritableFile>* file, IODebugContext* context) {
  BeVerySlow();
  if (test::KindOf(name) == test::kWal && Takes(Fault::kWalCreation)) return Error();
  IOStatus s;
  {
    const auto change = Change();
    s = target()->ReuseWritableFile(name, old_name, options, file, context);
  }
  if (s.ok()) *file = std::make_unique<File>(std::move(*file), name, this);
  BeVerySlow();
  return s;
}

IOStatus SlowDisk::NewRandomRWFile(const std::string& name, const FileOptions& options,
                                   std::unique_ptr<rocksdb::FSRandomRWFile>* file, IODebugContext* context) {
  BeVerySlow();
  const auto change = Change();
  const IOStatus s = target()->NewRandomRWFile(name, options, file, context);
  if (s.ok()) *file = std::make_unique<RandomFile>(std::move(*file), name, this);
  return s;
}

IOStatus SlowDisk::NewDirectory(const std::string& name, const IOOptions& options,
                                std::unique_ptr<rocksdb::FSDirectory>* folder, IODebugContext* context) {
  const IOStatus s = target()->NewDirectory(name, options, folder, context);
  if (s.ok()) *folder = std::make_unique<Folder>(std::move(*folder), this);
  return s;
}

IOStatus SlowDisk::DeleteFile(const std::string& name, const IOOptions& options, IODebugContext* context) {
  BeSlow();
  const auto change = Change();
  return target()->DeleteFile(name, options, context);
}

IOStatus SlowDisk::RenameFile(const std::string& from, const std::string& to, const IOOptions& options,
                              IODebugContext* context) {
  BeSlow();
  const auto change = Change();
  return target()->RenameFile(from, to, options, context);
}

IOStatus SlowDisk::LinkFile(const std::string& from, const std::string& to, const IOOptions& options,
                            IODebugContext* context) {
  const auto change = Change();
  return target()->LinkFile(from, to, options, context);
}

}  // namespace errors
}  // namespace cairn
