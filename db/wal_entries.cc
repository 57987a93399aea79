#include "db/wal_entries.h"

#include <algorithm>
#include <memory>
#include <utility>

#include "db/log_format.h"
#include "db/log_reader.h"
#include "db/write_batch_internal.h"
#include "file/sequence_file_reader.h"
#include "rocksdb/options.h"
#include "rocksdb/port/damage_reporter.h"

namespace cairn {
namespace {

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

}  // namespace

rocksdb::IOStatus ReadWalEntries(rocksdb::FileSystem* fs, const std::string& path, uint64_t number,
                                 rocksdb::Logger* log, bool* damaged,
                                 const std::function<bool(const WalEntry& entry)>& each) {
  std::unique_ptr<rocksdb::FSSequentialFile> file;
  rocksdb::IOStatus s = fs->NewSequentialFile(path, rocksdb::FileOptions(), &file, nullptr);
  if (!s.ok()) return s;
  file = std::make_unique<ErrorKeepingFile>(std::move(file), &s);
  port::DamageReporter reporter;
  rocksdb::log::Reader reader(std::shared_ptr<rocksdb::Logger>(std::shared_ptr<rocksdb::Logger>(), log),
                              std::make_unique<rocksdb::SequentialFileReader>(std::move(file), path),
                              damaged == nullptr ? nullptr : &reporter, /*checksum=*/true, number);
  const auto mode = damaged == nullptr ? rocksdb::WALRecoveryMode::kTolerateCorruptedTailRecords
                                       : rocksdb::WALRecoveryMode::kPointInTimeRecovery;
  std::string scratch;
  WalEntry entry;
  while (reader.ReadRecord(&entry.batch, &scratch, mode) && !reporter.damaged) {
    entry.begin = reader.LastRecordOffset();
    entry.end = reader.LastRecordEnd();
    reporter.damaged = damaged != nullptr && entry.batch.size() < rocksdb::WriteBatchInternal::kHeader;
    if (reporter.damaged || !each(entry)) break;
  }
  if (damaged != nullptr) *damaged = reporter.damaged;
  return s;
}

uint64_t EndOfZeros(uint64_t end, uint64_t size) {
  constexpr uint64_t kBlock = rocksdb::log::kBlockSize;
  constexpr uint64_t kHeader = rocksdb::log::kHeaderSize;
  const uint64_t at = std::max(size, end + kHeader);
  const uint64_t begin = std::max(end, (at - 1) / kBlock * kBlock);
  return at % kBlock == 0 ? at : std::max(at, begin + kHeader);
}

}  // namespace cairn
