#include "src/db/failed_writes.h"

#include <algorithm>
#include <cinttypes>
#include <memory>
#include <utility>

#include "db/log_format.h"
#include "db/log_reader.h"
#include "db/write_batch_internal.h"
#include "file/filename.h"
#include "file/sequence_file_reader.h"
#include "util/coding.h"

namespace cairn {
namespace {

constexpr uint64_t kMostAtOnce = 1 << 20;

// Zeros from `end` to here are skipped. In the last block they must be a header at least, or the reader takes them for one
// that is cut off.
uint64_t EndOfZeros(uint64_t end, uint64_t size) {
  constexpr uint64_t kBlock = rocksdb::log::kBlockSize;
  constexpr uint64_t kHeader = rocksdb::log::kHeaderSize;
  const uint64_t at = std::max(size, end + kHeader);
  const uint64_t begin = std::max(end, (at - 1) / kBlock * kBlock);
  return at % kBlock == 0 ? at : std::max(at, begin + kHeader);
}

// Whether it is a batch that begins beyond `last`. One of no keys takes no sequence number.
bool IsBeyond(const rocksdb::Slice& entry, rocksdb::SequenceNumber last) {
  if (entry.size() < rocksdb::WriteBatchInternal::kHeader) return false;
  const uint64_t sequence = rocksdb::DecodeFixed64(entry.data());
  return sequence > last && rocksdb::DecodeFixed32(entry.data() + sizeof(sequence)) > 0;
}

// Keeps why it cannot be read. RocksDB's reader tells of that as of damage.
class ErrorKeepingFile : public rocksdb::FSSequentialFileOwnerWrapper {
 public:
  ErrorKeepingFile(std::unique_ptr<rocksdb::FSSequentialFile> file, rocksdb::IOStatus* error)
      : FSSequentialFileOwnerWrapper(std::move(file)), error_(error) {}
  rocksdb::IOStatus Read(size_t n, const rocksdb::IOOptions& options, rocksdb::Slice* result, char* scratch,
                         rocksdb::IODebugContext* context) override {
    rocksdb::IOStatus s = FSSequentialFileOwnerWrapper::Read(n, options, result, scratch, context);
    if (!s.ok()) *error_ = s;
    return s;
  }

 private:
  rocksdb::IOStatus* const error_;
};

// Calls `each` with the entries of a WAL, until it returns false or something is torn.
template <typename Each>
rocksdb::IOStatus ReadEntriesOf(rocksdb::FileSystem* fs, const std::string& path, uint64_t number, rocksdb::Logger* log,
                                const Each& each) {
  std::unique_ptr<rocksdb::FSSequentialFile> file;
  rocksdb::IOStatus s = fs->NewSequentialFile(path, rocksdb::FileOptions(), &file, nullptr);
  if (!s.ok()) return s;
  file = std::make_unique<ErrorKeepingFile>(std::move(file), &s);
  rocksdb::log::Reader reader(std::shared_ptr<rocksdb::Logger>(std::shared_ptr<rocksdb::Logger>(), log),
                              std::make_unique<rocksdb::SequentialFileReader>(std::move(file), path),
                              /*reporter=*/nullptr,  // that the end is torn is no error
                              /*checksum=*/true, number);
  std::string scratch;
  rocksdb::Slice entry;
  while (reader.ReadRecord(&entry, &scratch, rocksdb::WALRecoveryMode::kTolerateCorruptedTailRecords) &&
         each(entry, &reader)) {
  }
  return s;
}

// Where the last entry of a write ends that has succeeded.
rocksdb::IOStatus FindEnd(rocksdb::FileSystem* fs, const std::string& path, uint64_t number,
                          rocksdb::SequenceNumber last, const std::vector<uint64_t>& failed, rocksdb::Logger* log,
                          uint64_t* end) {
  *end = 0;
  auto next = failed.begin();
  return ReadEntriesOf(fs, path, number, log, [&](const rocksdb::Slice& entry, rocksdb::log::Reader* reader) {
    if (IsBeyond(entry, last)) return false;
    if (next == failed.end() || reader->LastRecordOffset() < *next) {
      *end = reader->LastRecordEnd();
    } else {
      next = std::upper_bound(next, failed.end(), reader->LastRecordOffset());
    }
    return true;
  });
}

// Where the last entry ends that was read, or kNothingErased.
rocksdb::IOStatus FindEndOf(rocksdb::FileSystem* fs, const std::string& path, uint64_t number, const ReadEntries& read,
                            rocksdb::Logger* log, uint64_t* end) {
  *end = 0;
  if (read.number == 0) return rocksdb::IOStatus::OK();
  uint64_t found = 0;
  return ReadEntriesOf(fs, path, number, log, [&](const rocksdb::Slice& entry, rocksdb::log::Reader* reader) {
    const bool is_batch = entry.size() >= rocksdb::WriteBatchInternal::kHeader;
    if (!is_batch || (found == 0 && rocksdb::DecodeFixed64(entry.data()) != read.first)) {
      *end = kNothingErased;
      return false;
    }
    *end = reader->LastRecordEnd();
    return ++found < read.number;
  });
}

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
  std::string buffer(std::min(kMostAtOnce, std::max(end, stop - end)), '\0');
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

// All at once, too, and other links to the file stay as they are. What a process leaves that dies meanwhile is removed by the next
// opening as any other temporary file.
rocksdb::IOStatus Replace(rocksdb::FileSystem* fs, const std::string& path, uint64_t number, uint64_t end,
                          uint64_t stop) {
  const rocksdb::IOOptions options;
  const std::string folder = path.substr(0, path.rfind('/'));
  const std::string copy = rocksdb::TempFileName(folder, number);
  std::unique_ptr<rocksdb::FSDirectory> directory;
  rocksdb::IOStatus s = fs->NewDirectory(folder, options, &directory, nullptr);
  if (s.ok()) s = CopyBegin(fs, path, copy, end, stop);
  if (s.ok()) s = fs->RenameFile(copy, path, options, nullptr);
  if (!s.ok()) fs->DeleteFile(copy, options, nullptr).PermitUncheckedError();
  if (s.ok()) s = directory->FsyncWithDirOptions(options, nullptr, rocksdb::DirFsyncOptions(path));
  return s;
}

bool HasOneLink(rocksdb::FileSystem* fs, const std::string& path) {
  uint64_t links = 0;
  return fs->NumFileLinks(path, rocksdb::IOOptions(), &links, nullptr).ok() && links == 1;
}

// From `end` to the file's.
rocksdb::IOStatus Erase(rocksdb::FileSystem* fs, const std::string& path, uint64_t end, uint64_t size) {
  const rocksdb::IOOptions options;
  std::unique_ptr<rocksdb::FSRandomRWFile> file;
  rocksdb::IOStatus s = fs->NewRandomRWFile(path, rocksdb::FileOptions(), &file, nullptr);
  const uint64_t stop = EndOfZeros(end, size);
  const std::string zeros(std::min(kMostAtOnce, stop - end), '\0');
  for (uint64_t at = end; s.ok() && at < stop; at += zeros.size()) {
    s = file->Write(at, rocksdb::Slice(zeros.data(), std::min<uint64_t>(zeros.size(), stop - at)), options, nullptr);
  }
  if (s.ok()) s = file->Fsync(options, nullptr);
  if (s.ok()) s = file->Close(options, nullptr);
  return s;
}

}  // namespace

thread_local const rocksdb::VersionSet* WrittenEntry::database_ = nullptr;
thread_local WalPlace WrittenEntry::place_;

rocksdb::IOStatus EraseFailedWrites(rocksdb::FileSystem* fs, const std::string& path, uint64_t number,
                                    rocksdb::SequenceNumber last, const std::vector<uint64_t>& failed,
                                    rocksdb::Logger* log, uint64_t* from) {
  *from = kNothingErased;
  uint64_t end = 0;
  uint64_t size = 0;
  rocksdb::IOStatus s = FindEnd(fs, path, number, last, failed, log, &end);
  if (s.ok()) s = fs->GetFileSize(path, rocksdb::IOOptions(), &size, nullptr);
  if (IsGone(s)) return rocksdb::IOStatus::OK();
  if (!s.ok() || end >= size) return s;
  s = Erase(fs, path, end, size);
  if (IsGone(s)) return rocksdb::IOStatus::OK();
  if (s.ok() || s.IsNotSupported()) *from = end;
  if (s.IsNotSupported()) {
    Warn(log, "%s ends with a write that has failed, at %" PRIu64 ", which cannot be erased here", path.c_str(), end);
    return rocksdb::IOStatus::OK();
  }
  if (s.ok()) Info(log, "%s ended with a write that has failed, at %" PRIu64 ": erased", path.c_str(), end);
  return s;
}

rocksdb::IOStatus EraseUnread(rocksdb::FileSystem* fs, const std::string& path, uint64_t number,
                              const ReadEntries& read, bool keep_size, rocksdb::Logger* log) {
  uint64_t end = 0;
  uint64_t size = 0;
  rocksdb::IOStatus s = FindEndOf(fs, path, number, read, log, &end);
  if (s.ok()) s = fs->GetFileSize(path, rocksdb::IOOptions(), &size, nullptr);
  if (IsGone(s)) return rocksdb::IOStatus::OK();
  if (!s.ok() || end >= size) return s;
  s = !keep_size && HasOneLink(fs, path) ? Cut(fs, path, end) : rocksdb::IOStatus::NotSupported();
  if (s.IsNotSupported()) s = Replace(fs, path, number, end, keep_size ? EndOfZeros(end, size) : end);
  if (s.ok()) {
    Warn(log, "%s: what lies behind %" PRIu64 " entries, %" PRIu64 " bytes at %" PRIu64 ", is not read: erased",
         path.c_str(), read.number, size - end, end);
  } else if (s.IsNotSupported()) {
    Warn(log, "%s: what lies behind %" PRIu64 " entries, at %" PRIu64 ", is not read, and cannot be erased here",
         path.c_str(), read.number, end);
    return rocksdb::IOStatus::OK();
  }
  return s;
}

std::vector<uint64_t> FailedWrites::Range::OffsetsIn(uint64_t wal) const {
  const auto found = offsets.find(wal);
  if (found == offsets.end()) return {};
  return {found->second.begin(), found->second.end()};
}

void FailedWrites::WalHasFailed(const rocksdb::VersionSet* database, const WalPlace& entry) {
  const std::lock_guard<std::mutex> lock(mu_);
  Range& range = failed_[database];
  range.wal_failed = true;
  if (entry.wal != 0) range.offsets[entry.wal].insert(entry.offset);
}
void FailedWrites::MayBeIn(const rocksdb::VersionSet* database, uint64_t wal) {
  const std::lock_guard<std::mutex> lock(mu_);
  Range& range = failed_[database];
  range.oldest_wal = std::min(range.oldest_wal, wal);
}
void FailedWrites::Settle(const rocksdb::VersionSet* database, rocksdb::SequenceNumber last) {
  const std::lock_guard<std::mutex> lock(mu_);
  const auto found = failed_.find(database);
  if (found == failed_.end() || found->second.oldest_wal == UINT64_MAX) return;
  found->second.last = std::min(found->second.last, last);
}
FailedWrites::Range FailedWrites::Find(const rocksdb::VersionSet* database) {
  const std::lock_guard<std::mutex> lock(mu_);
  const auto found = failed_.find(database);
  return found == failed_.end() ? Range() : found->second;
}
void FailedWrites::AreNotBefore(const rocksdb::VersionSet* database, uint64_t wal) {
  const std::lock_guard<std::mutex> lock(mu_);
  const auto found = failed_.find(database);
  if (found != failed_.end()) found->second.oldest_wal = std::max(found->second.oldest_wal, wal);
}
void FailedWrites::Clear(const rocksdb::VersionSet* database) {
  const std::lock_guard<std::mutex> lock(mu_);
  failed_.erase(database);
}

void FailedWrites::Erased(const rocksdb::VersionSet* database, uint64_t wal, uint64_t from) {
  const std::lock_guard<std::mutex> lock(mu_);
  uint64_t& begin = erased_.emplace(std::make_pair(database, wal), from).first->second;
  begin = std::min(begin, from);
  has_erased_.store(true, std::memory_order_release);
}
bool FailedWrites::IsErased(const rocksdb::VersionSet* database, uint64_t wal, uint64_t offset) {
  if (!has_erased_.load(std::memory_order_acquire)) return false;
  const std::lock_guard<std::mutex> lock(mu_);
  const auto found = erased_.find({database, wal});
  return found != erased_.end() && offset >= found->second;
}

void FailedWrites::Forget(const rocksdb::VersionSet* database) {
  const std::lock_guard<std::mutex> lock(mu_);
  failed_.erase(database);
  erased_.erase(erased_.lower_bound({database, 0}), erased_.upper_bound({database, UINT64_MAX}));
  has_erased_.store(!erased_.empty(), std::memory_order_release);
}

// Never destroyed, for threads that outlive main.
FailedWrites& AllFailedWrites() {
  static auto* const writes = new FailedWrites();
  return *writes;
}

}  // namespace cairn
