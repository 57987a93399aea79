#include "db/unread_wals.h"

#include <algorithm>
#include <cinttypes>
#include <filesystem>
#include <memory>
#include <string>
#include <system_error>

#include "db/wal_entries.h"
#include "file/filename.h"
#include "rocksdb/env.h"

namespace cairn {
namespace {

constexpr uint64_t kMostCopiedAtOnce = 1 << 20;

// What is to be erased of a WAL.
struct Unread {
  const ReadWal* wal;
  uint64_t end;  // of what was read
};

// All at once, whatever happens meanwhile. Not every file system does what it says OK to.
rocksdb::IOStatus Cut(rocksdb::FileSystem* fs, const std::string& path, uint64_t end) {
  const rocksdb::IOOptions options;
  std::unique_ptr<rocksdb::FSWritableFile> file;
  rocksdb::IOStatus s = fs->ReopenWritableFile(path, rocksdb::FileOptions(), &file, nullptr);
  if (s.ok()) s = file->Truncate(end, options, nullptr);
  if (s.ok()) s = file->Fsync(options, nullptr);
  if (s.ok()) s = file->Close(options, nullptr);
  uint64_t size = 0;
  if (s.ok()) s = fs->GetFileSize(path, options, &size, nullptr);
  return s.ok() && size != end ? rocksdb::IOStatus::NotSupported() : s;
}

// Its bytes until `end`, and zeros until `stop`, which are synced.
rocksdb::IOStatus CopyBegin(rocksdb::FileSystem* fs, const std::string& from, const std::string& to, uint64_t end,
                            uint64_t stop) {
  const rocksdb::IOOptions options;
  std::unique_ptr<rocksdb::FSSequentialFile> source;
  std::unique_ptr<rocksdb::FSWritableFile> copy;
  rocksdb::IOStatus s = fs->NewSequentialFile(from, rocksdb::FileOptions(), &source, nullptr);
  if (s.ok()) s = fs->NewWritableFile(to, rocksdb::FileOptions(), &copy, nullptr);
  std::string buffer(std::min(kMostCopiedAtOnce, std::max(end, stop - end)), '\0');
  for (uint64_t at = 0; s.ok() && at < end;) {
    rocksdb::Slice read;
    s = source->Read(std::min<uint64_t>(buffer.size(), end - at), options, &read, buffer.data(), nullptr);
    if (s.ok() && read.empty()) s = rocksdb::IOStatus::Corruption("The file is shorter than it was", from);
    if (s.ok()) s = copy->Append(read, options, nullptr);
    at += read.size();
  }
  std::fill(buffer.begin(), buffer.end(), '\0');
  for (uint64_t at = end; s.ok() && at < stop; at += buffer.size()) {
    s = copy->Append(rocksdb::Slice(buffer.data(), std::min<uint64_t>(buffer.size(), stop - at)), options, nullptr);
  }
  if (s.ok()) s = copy->Fsync(options, nullptr);
  if (s.ok()) s = copy->Close(options, nullptr);
  return s;
}

std::string FolderOf(const ReadWal& wal) { return wal.path.substr(0, wal.path.rfind('/')); }

std::string CopyOf(const ReadWal& wal) { return rocksdb::TempFileName(FolderOf(wal), wal.number); }

// All at once, too. What a process leaves that dies meanwhile, the next opening removes.
rocksdb::IOStatus Replace(rocksdb::FileSystem* fs, const ReadWal& wal, uint64_t end, uint64_t stop) {
  const rocksdb::IOOptions options;
  const std::string folder = FolderOf(wal);
  const std::string copy = CopyOf(wal);
  std::unique_ptr<rocksdb::FSDirectory> directory;
  rocksdb::IOStatus s = fs->NewDirectory(folder, options, &directory, nullptr);
  if (s.ok()) s = CopyBegin(fs, wal.path, copy, end, stop);
  if (s.ok()) s = fs->RenameFile(copy, wal.path, options, nullptr);
  if (!s.ok()) fs->DeleteFile(copy, options, nullptr).PermitUncheckedError();
  if (s.ok()) s = directory->FsyncWithDirOptions(options, nullptr, rocksdb::DirFsyncOptions(wal.path));
  return s;
}

// Not of symbolic ones either. Other file systems than the operating system's have none that RocksDB knows.
bool HasOneLink(rocksdb::FileSystem* fs, const std::string& path) {
  std::error_code error;
  if (std::filesystem::is_symlink(path, error)) return false;
  uint64_t links = 0;
  return fs->NumFileLinks(path, rocksdb::IOOptions(), &links, nullptr).ok() && links == 1;
}

rocksdb::IOStatus EraseOf(rocksdb::FileSystem* fs, const Unread& unread, rocksdb::Logger* log) {
  const ReadWal& wal = *unread.wal;
  uint64_t size = 0;
  rocksdb::IOStatus s = fs->GetFileSize(wal.path, rocksdb::IOOptions(), &size, nullptr);
  if (!s.ok() || unread.end >= size) return s;
  fs->DeleteFile(CopyOf(wal), rocksdb::IOOptions(), nullptr).PermitUncheckedError();
  const bool may_cut = !wal.keep_size && HasOneLink(fs, wal.path);
  s = may_cut ? Cut(fs, wal.path, unread.end) : rocksdb::IOStatus::NotSupported();
  // Its owner may be another user.
  if (!s.ok()) s = Replace(fs, wal, unread.end, wal.keep_size ? EndOfZeros(unread.end, size) : unread.end);
  if (s.ok()) {
    Warn(log, "%s: what lies behind %" PRIu64 " entries, %" PRIu64 " bytes at %" PRIu64 ", is not read: erased",
         wal.path.c_str(), wal.entries, size - unread.end, unread.end);
  } else if (s.IsNotSupported()) {
    Warn(log, "%s: what lies behind %" PRIu64 " entries, at %" PRIu64 ", is not read, and cannot be erased here",
         wal.path.c_str(), wal.entries, unread.end);
    return rocksdb::IOStatus::OK();
  }
  return s;
}

// What is to be erased, in that order. Nothing where the WALs do not explain what was read of them.
rocksdb::IOStatus FindUnread(rocksdb::FileSystem* fs, const std::vector<ReadWal>& wals, rocksdb::Logger* log,
                             std::vector<Unread>* unread) {
  std::vector<Unread> found;
  const ReadWal* last_damaged = nullptr;
  bool stops = false;  // what comes next is behind something damaged
  for (const ReadWal& wal : wals) {
    uint64_t entries = 0;
    uint64_t end = 0;
    bool damaged = false;
    const rocksdb::IOStatus s = ReadWalEntries(fs, wal.path, wal.number, log, &damaged, [&](const WalEntry& entry) {
      if (entries++ < wal.entries) end = entry.end;
      return true;
    });
    if (!s.ok()) return s;
    const bool passed_over = wal.entries == 0 && entries > 0 && stops;
    if (wal.entries != entries && !passed_over) {
      Warn(log, "%s has %" PRIu64 " entries, of which %" PRIu64 " were read: it stays as it is", wal.path.c_str(),
           entries, wal.entries);
      return rocksdb::IOStatus::OK();
    }
    if (passed_over || damaged) found.push_back({&wal, end});
    if (passed_over) continue;
    if (damaged) last_damaged = &wal;
    stops = damaged || (stops && entries == 0);
  }
  for (auto next = found.rbegin(); next != found.rend(); ++next) {
    if (next->wal != last_damaged) unread->push_back(*next);
  }
  for (const Unread& last : found) {
    if (last.wal == last_damaged) unread->push_back(last);
  }
  return rocksdb::IOStatus::OK();
}

}  // namespace

rocksdb::IOStatus EraseUnread(rocksdb::FileSystem* fs, const std::vector<ReadWal>& wals, rocksdb::Logger* log) {
  std::vector<Unread> unread;
  rocksdb::IOStatus s = FindUnread(fs, wals, log, &unread);
  for (const Unread& next : unread) {
    if (s.ok()) s = EraseOf(fs, next, log);
  }
  return s;
}

}  // namespace cairn
