#include "db/failed_writes.h"

#include <algorithm>
#include <cinttypes>
#include <memory>
#include <utility>

#include "db/wal_entries.h"
#include "db/write_batch_internal.h"
#include "util/coding.h"

namespace cairn {
namespace {

constexpr uint64_t kMostZerosAtOnce = 1 << 20;

// Whether it is a batch that begins beyond `last`. One of no keys takes no sequence number.
bool IsBeyond(const rocksdb::Slice& entry, rocksdb::SequenceNumber last) {
  if (entry.size() < rocksdb::WriteBatchInternal::kHeader) return false;
  const uint64_t sequence = rocksdb::DecodeFixed64(entry.data());
  return sequence > last && rocksdb::DecodeFixed32(entry.data() + sizeof(sequence)) > 0;
}

// Where the last entry of a write ends that has succeeded.
rocksdb::IOStatus FindEnd(rocksdb::FileSystem* fs, const std::string& path, uint64_t number,
                          rocksdb::SequenceNumber last, const std::vector<uint64_t>& failed, rocksdb::Logger* log,
                          uint64_t* end) {
  *end = 0;
  auto next = failed.begin();
  const auto each = [&](const WalEntry& entry) {
    if (IsBeyond(entry.batch, last)) return false;
    if (next == failed.end() || entry.begin < *next) {
      *end = entry.end;
    } else {
      next = std::upper_bound(next, failed.end(), entry.begin);
    }
    return true;
  };
  return ReadWalEntries(fs, path, number, log, /*damaged=*/nullptr, each);
}

// From `end` to the file's.
rocksdb::IOStatus Erase(rocksdb::FileSystem* fs, const std::string& path, uint64_t end, uint64_t size) {
  const rocksdb::IOOptions options;
  std::unique_ptr<rocksdb::FSRandomRWFile> file;
  rocksdb::IOStatus s = fs->NewRandomRWFile(path, rocksdb::FileOptions(), &file, nullptr);
  const uint64_t stop = EndOfZeros(end, size);
  const std::string zeros(std::min(kMostZerosAtOnce, stop - end), '\0');
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
