// Reads of WALs and MANIFESTs that are damaged: the definitions that take the place of RocksDB's own (rocksdb/port/rocksdb_own.h).

#include "db/log_format.h"
#include "db/log_reader.h"
#include "rocksdb/port/rocksdb_own.h"

extern "C" {
extern const int cairn_damaged_logs;
const int cairn_damaged_logs = 1;
}

namespace cairn {
namespace {

// Whether the next record's kind is one that only logs have whose files were used before.
bool IsRecycledKind(const rocksdb::Slice& records) {
  if (records.size() < rocksdb::log::kHeaderSize) return false;
  constexpr unsigned char kRecyclePredecessorWalInfo = 131;  // of RocksDB 10 and later
  const auto kind = static_cast<unsigned char>(records[6]);
  return kind == kRecyclePredecessorWalInfo ||
         (kind >= rocksdb::log::kRecyclableFullType && kind <= rocksdb::log::kRecyclableLastType) ||
         kind == rocksdb::log::kRecyclableUserDefinedTimestampSizeType;
}

}  // namespace
}  // namespace cairn

namespace rocksdb {
namespace log {

namespace own = cairn::rocksdb_own;

// Where one of those kinds is found in a log that has not begun so (one bit makes it of another kind), RocksDB says that it is bad, and
// stays there: whoever reads the log does so for ever. What follows it is given up, as where a checksum is wrong.
CAIRN_RECORD_KIND Reader::ReadPhysicalRecord(Slice* record, size_t* dropped, uint64_t* checksum) {
  const CAIRN_RECORD_KIND kind = own::ReadPhysicalRecord(this, record, dropped, checksum);
  if (kind != kBadRecord || !first_record_read_ || recycled_ || !cairn::IsRecycledKind(buffer_)) return kind;
  *dropped = buffer_.size();
  buffer_.clear();
  return kBadRecordChecksum;
}

// That of a secondary instance stays also where such a record is of another log.
bool FragmentBufferedReader::TryReadFragment(Slice* fragment, size_t* dropped, CAIRN_RECORD_KIND* kind) {
  const bool read = own::TryReadFragment(this, fragment, dropped, kind);
  if (read && *kind == kOldRecord) {
    ReportCorruption(buffer_.size(), "a record of an older log");
    buffer_.clear();
    return false;
  }
  if (!read || *kind != kBadRecord || !first_record_read_ || recycled_ || !cairn::IsRecycledKind(buffer_)) return read;
  *dropped = buffer_.size();
  buffer_.clear();
  *kind = kBadRecordChecksum;
  return true;
}

}  // namespace log
}  // namespace rocksdb
