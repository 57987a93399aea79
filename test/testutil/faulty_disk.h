// A disk that fails as it is told, and is well again.

#pragma once

#include <algorithm>
#include <atomic>
#include <chrono>
#include <functional>
#include <memory>
#include <string>
#include <thread>
#include <utility>

#include "gtest/gtest.h"
#include "rocksdb/file_system.h"

namespace cairn {
namespace test {

// Kinds of files, to be or-ed.
enum Kind { kTable = 1, kManifest = 2, kWal = 4, kOther = 8 };

inline Kind KindOf(const std::string& name) {
  if (name.find(".sst") != std::string::npos) return kTable;
  if (name.find("MANIFEST") != std::string::npos) return kManifest;
  return name.size() > 4 && name.compare(name.size() - 4, 4, ".log") == 0 ? kWal : kOther;
}

// Orders are of kinds of files. Outlives its files.
class FaultyDisk : public rocksdb::FileSystemWrapper {
 public:
  using FileSystemWrapper::FileSystemWrapper;
  const char* Name() const override { return "FaultyDisk"; }

  std::function<void(Kind)> appends;          // called before each append; set before files are written
  std::atomic<int> full{0};                   // appends find no space, and none is free
  std::atomic<int> torn{0};                   // the same, and all of what is appended is written but for its last byte
  std::atomic<int> broken{0};                 // appends fail for good
  std::atomic<int> retryable{0};              // appends fail in a way that may pass
  std::atomic<int> unsynced{0};               // so do syncs
  std::atomic<int> held{0};                   // appends wait
  std::atomic<int> waiting{0};                // of these, so many have come
  std::atomic<bool> held_wals{false};         // the next WALs wait before they are created
  std::atomic<int> waiting_wals{0};           // of these, so many wait
  std::atomic<int> held_syncs{0};             // syncs wait
  std::atomic<int> waiting_syncs{0};          // of these, so many have come
  std::atomic<bool> refuses_table{false};     // there is no space for the next table, and for later ones there is
  std::atomic<bool> refuses_wal{false};       // the same of a WAL
  std::atomic<bool> folders_unsynced{false};  // syncs of folders fail in a way that may pass
  std::atomic<bool> space_hangs{false};       // who asks for free space waits
  std::atomic<bool> space_unknown{false};     // nobody knows how much space is free
  std::atomic<int> space_asked{0};
  std::atomic<int> failed{0};  // so many orders were felt, but for those to wait

  rocksdb::IOStatus NewWritableFile(const std::string& name, const rocksdb::FileOptions& options,
                                    std::unique_ptr<rocksdb::FSWritableFile>* file,
                                    rocksdb::IODebugContext* context) override {
    if (KindOf(name) == kTable && refuses_table.exchange(false)) return NoSpace();
    if (KindOf(name) == kWal && held_wals) ++waiting_wals;
    WaitWhile([&] { return KindOf(name) == kWal && held_wals; });
    if (KindOf(name) == kWal && refuses_wal.exchange(false)) return NoSpace();
    const rocksdb::IOStatus s = FileSystemWrapper::NewWritableFile(name, options, file, context);
    if (s.ok()) *file = std::make_unique<File>(std::move(*file), KindOf(name), this);
    return s;
  }
  rocksdb::IOStatus ReuseWritableFile(const std::string& name, const std::string& old_name,
                                      const rocksdb::FileOptions& options,
                                      std::unique_ptr<rocksdb::FSWritableFile>* file,
                                      rocksdb::IODebugContext* context) override {
    const rocksdb::IOStatus s = FileSystemWrapper::ReuseWritableFile(name, old_name, options, file, context);
    if (s.ok()) *file = std::make_unique<File>(std::move(*file), KindOf(name), this);
    return s;
  }
  rocksdb::IOStatus NewDirectory(const std::string& name, const rocksdb::IOOptions& options,
                                 std::unique_ptr<rocksdb::FSDirectory>* folder,
                                 rocksdb::IODebugContext* context) override {
    const rocksdb::IOStatus s = FileSystemWrapper::NewDirectory(name, options, folder, context);
    if (s.ok()) *folder = std::make_unique<Folder>(std::move(*folder), this);
    return s;
  }
  rocksdb::IOStatus GetFreeSpace(const std::string& path, const rocksdb::IOOptions& options, uint64_t* free,
                                 rocksdb::IODebugContext* context) override {
    ++space_asked;
    WaitWhile([&] { return space_hangs.load(); });
    if (space_unknown) return rocksdb::IOStatus::NotSupported("free space");
    const rocksdb::IOStatus s = FileSystemWrapper::GetFreeSpace(path, options, free, context);
    if (full != 0) *free = 0;
    return s;
  }

 private:
  class Folder : public rocksdb::FSDirectoryWrapper {
   public:
    Folder(std::unique_ptr<rocksdb::FSDirectory>&& folder, FaultyDisk* disk)
        : FSDirectoryWrapper(std::move(folder)), disk_(disk) {}
    rocksdb::IOStatus FsyncWithDirOptions(const rocksdb::IOOptions& options, rocksdb::IODebugContext* context,
                                          const rocksdb::DirFsyncOptions& how) override {
      return disk_->folders_unsynced ? disk_->Retryable()
                                     : FSDirectoryWrapper::FsyncWithDirOptions(options, context, how);
    }

   private:
    FaultyDisk* const disk_;
  };

  class File : public rocksdb::FSWritableFileOwnerWrapper {
   public:
    File(std::unique_ptr<rocksdb::FSWritableFile>&& file, Kind kind, FaultyDisk* disk)
        : FSWritableFileOwnerWrapper(std::move(file)), kind_(kind), disk_(disk) {}
    rocksdb::IOStatus Append(const rocksdb::Slice& data, const rocksdb::IOOptions& options,
                             rocksdb::IODebugContext* context) override {
      rocksdb::IOStatus s = disk_->Append(kind_);
      if (s.ok() && (disk_->torn & kind_) != 0) {
        const rocksdb::Slice part(data.data(), std::max<size_t>(data.size(), 1) - 1);
        FSWritableFileOwnerWrapper::Append(part, options, context).PermitUncheckedError();
        s = disk_->NoSpace();
      }
      return s.ok() ? FSWritableFileOwnerWrapper::Append(data, options, context) : s;
    }
    rocksdb::IOStatus Append(const rocksdb::Slice& data, const rocksdb::IOOptions& options,
                             const rocksdb::DataVerificationInfo& info, rocksdb::IODebugContext* context) override {
      if ((disk_->torn & kind_) != 0) return Append(data, options, context);
      const rocksdb::IOStatus s = disk_->Append(kind_);
      return s.ok() ? FSWritableFileOwnerWrapper::Append(data, options, info, context) : s;
    }
    rocksdb::IOStatus Sync(const rocksdb::IOOptions& options, rocksdb::IODebugContext* context) override {
      if ((disk_->held_syncs & kind_) != 0) ++disk_->waiting_syncs;
      WaitWhile([&] { return (disk_->held_syncs & kind_) != 0; });
      if ((disk_->unsynced & kind_) != 0) return disk_->Retryable();
      return FSWritableFileOwnerWrapper::Sync(options, context);
    }

   private:
    const Kind kind_;
    FaultyDisk* const disk_;
  };

  // Not for ever: a test that has failed and lets nothing go is to end; and one that was held until then has failed.
  template <typename Holds>
  static void WaitWhile(const Holds& holds) {
    const auto end = std::chrono::steady_clock::now() + std::chrono::minutes(3);
    while (holds()) {
      std::this_thread::sleep_for(std::chrono::milliseconds(1));
      if (std::chrono::steady_clock::now() < end) continue;
      ADD_FAILURE() << "a call was held for three minutes, and goes on";
      return;
    }
  }
  rocksdb::IOStatus NoSpace() {
    ++failed;
    return rocksdb::IOStatus::NoSpace("full");
  }
  rocksdb::IOStatus Broken() {
    ++failed;
    return rocksdb::IOStatus::IOError("broken");
  }
  rocksdb::IOStatus Retryable() {
    ++failed;
    rocksdb::IOStatus s = rocksdb::IOStatus::IOError("may pass");
    s.SetRetryable(true);
    return s;
  }
  rocksdb::IOStatus Append(Kind kind) {
    if (appends != nullptr) appends(kind);
    if ((held & kind) != 0) ++waiting;
    WaitWhile([&] { return (held & kind) != 0; });
    if ((full & kind) != 0) return NoSpace();
    if ((broken & kind) != 0) return Broken();
    return (retryable & kind) != 0 ? Retryable() : rocksdb::IOStatus::OK();
  }
};

}  // namespace test
}  // namespace cairn
