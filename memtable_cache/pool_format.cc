#include "memtable_cache/pool_format.h"

#include <algorithm>
#include <array>
#include <cstring>

#include "db/dbformat.h"
#include "util/coding.h"
#include "util/crc32c.h"
#include "util/xxhash.h"

namespace cairn {

using rocksdb::DecodeFixed32;
using rocksdb::DecodeFixed64;
using rocksdb::EncodeFixed32;
using rocksdb::EncodeFixed64;
using rocksdb::Slice;

namespace {

constexpr char kMagic[] = "CairnPL4";  // the last character is the version
constexpr char kSyncMagic[] = "CairnSY1";
constexpr size_t kMagicBytes = 8;
constexpr size_t kDatabaseOffset = 80;
constexpr size_t kDirectoryOffset = kDatabaseOffset + kMaxDatabaseIdBytes;
constexpr size_t kPathCrcOffset = kDirectoryOffset + 24;
constexpr size_t kSuperblockCrcOffset = kPathCrcOffset + 4;
constexpr size_t kDirectoryPathOffset = kSuperblockCrcOffset + 4;
static_assert(kDirectoryPathOffset <= kSectorBytes, "all but the path is in the first sector");
static_assert(kDirectoryPathOffset + kMaxDirectoryBytes <= kSuperblockBytes, "the path is last");
constexpr uint64_t kSessionPart = (uint64_t{1} << 24) - 1;

// CRC-8, polynomial x^8 + x^2 + x + 1.
constexpr std::array<uint8_t, 256> Crc8Table() {
  std::array<uint8_t, 256> table{};
  for (unsigned byte = 0; byte < 256; ++byte) {
    unsigned crc = byte;
    for (int bit = 0; bit < 8; ++bit) crc = (crc << 1) ^ ((crc & 0x80) != 0 ? 0x107u : 0);
    table[byte] = static_cast<uint8_t>(crc);
  }
  return table;
}
constexpr std::array<uint8_t, 256> kCrc8 = Crc8Table();

uint8_t CheckOfSequence(uint64_t sequence) {
  uint8_t crc = 0;
  const uint64_t inverted = ~sequence;
  for (int shift = 48; shift >= 0; shift -= 8) crc = kCrc8[crc ^ static_cast<uint8_t>(inverted >> shift)];
  return crc;
}

uint32_t EntryCrc(uint64_t generation, uint32_t length, const char* bytes) {
  char seed[12];
  EncodeFixed64(seed, generation);
  EncodeFixed32(seed + 8, length);
  return rocksdb::crc32c::Extend(rocksdb::crc32c::Value(seed, sizeof(seed)), bytes, length);
}

}  // namespace

void EncodeSuperblock(const Superblock& superblock, char* to) {
  memset(to, 0, kSuperblockBytes);
  memcpy(to, kMagic, kMagicBytes);
  EncodeFixed64(to + 8, superblock.edition);
  EncodeFixed64(to + 16, superblock.file_bytes);
  EncodeFixed64(to + 24, superblock.pool);
  EncodeFixed64(to + 32, superblock.session);
  EncodeFixed32(to + 40, static_cast<uint32_t>(superblock.phase));
  const size_t database_bytes = std::min(superblock.database.size(), kMaxDatabaseIdBytes);
  EncodeFixed32(to + 44, static_cast<uint32_t>(database_bytes));
  EncodeFixed64(to + 48, superblock.session_wal);
  EncodeFixed64(to + 56, superblock.recovery_wal);
  EncodeFixed64(to + 64, superblock.first_sequence);
  EncodeFixed64(to + 72, superblock.boot);
  std::copy_n(superblock.database.data(), database_bytes, to + kDatabaseOffset);
  const DatabaseDirectory& directory = superblock.directory;
  const size_t path_bytes = std::min(directory.path.size(), kMaxDirectoryBytes);
  EncodeFixed64(to + kDirectoryOffset, directory.device);
  EncodeFixed64(to + kDirectoryOffset + 8, directory.inode);
  EncodeFixed32(to + kDirectoryOffset + 16, static_cast<uint32_t>(path_bytes));
  EncodeFixed32(to + kDirectoryOffset + 20, static_cast<uint32_t>(superblock.repair));
  std::copy_n(directory.path.data(), path_bytes, to + kDirectoryPathOffset);
  EncodeFixed32(to + kPathCrcOffset, rocksdb::crc32c::Value(to + kDirectoryPathOffset, path_bytes));
  EncodeFixed32(to + kSuperblockCrcOffset, rocksdb::crc32c::Value(to, kSuperblockCrcOffset));
}

uint64_t PoolVersion(const char* superblock) {
  const unsigned char last = static_cast<unsigned char>(superblock[kMagicBytes - 1]);
  return memcmp(superblock, kMagic, kMagicBytes - 1) == 0 && last > '0' ? last - '0' : 0;
}

bool DecodeSuperblock(const char* from, Superblock* superblock) {
  if (memcmp(from, kMagic, kMagicBytes) != 0) return false;
  if (DecodeFixed32(from + kSuperblockCrcOffset) != rocksdb::crc32c::Value(from, kSuperblockCrcOffset)) return false;
  const uint32_t phase = DecodeFixed32(from + 40);
  const uint32_t database_bytes = DecodeFixed32(from + 44);
  const uint32_t path_bytes = DecodeFixed32(from + kDirectoryOffset + 16);
  const uint32_t repair = DecodeFixed32(from + kDirectoryOffset + 20);
  if (phase > static_cast<uint32_t>(PoolPhase::kRecovering) || database_bytes > kMaxDatabaseIdBytes ||
      path_bytes > kMaxDirectoryBytes || repair > static_cast<uint32_t>(PoolRepair::kRebuilt)) {
    return false;
  }
  if (DecodeFixed32(from + kPathCrcOffset) != rocksdb::crc32c::Value(from + kDirectoryPathOffset, path_bytes)) {
    return false;
  }
  superblock->edition = DecodeFixed64(from + 8);
  superblock->file_bytes = DecodeFixed64(from + 16);
  superblock->pool = DecodeFixed64(from + 24);
  superblock->session = DecodeFixed64(from + 32);
  superblock->phase = static_cast<PoolPhase>(phase);
  superblock->session_wal = DecodeFixed64(from + 48);
  superblock->recovery_wal = DecodeFixed64(from + 56);
  superblock->first_sequence = DecodeFixed64(from + 64);
  superblock->boot = DecodeFixed64(from + 72);
  superblock->database.assign(from + kDatabaseOffset, database_bytes);
  superblock->repair = static_cast<PoolRepair>(repair);
  superblock->directory.device = DecodeFixed64(from + kDirectoryOffset);
  superblock->directory.inode = DecodeFixed64(from + kDirectoryOffset + 8);
  superblock->directory.path.assign(from + kDirectoryPathOffset, path_bytes);
  return true;
}

uint64_t EncodeSequenceWord(uint64_t sequence) {
  sequence &= kSequenceMask;
  return sequence | uint64_t{CheckOfSequence(sequence)} << 56;
}

bool DecodeSequenceWord(uint64_t word, uint64_t* sequence) {
  *sequence = word & kSequenceMask;
  return word == EncodeSequenceWord(*sequence);
}

uint64_t ReturnedSync(uint64_t session, uint64_t number) {
  return (session & kSessionPart) << 32 | static_cast<uint32_t>(number);
}

bool HasReturned(uint64_t returned, uint64_t session, uint64_t number) {
  if (returned >> 32 != (session & kSessionPart)) return false;
  return static_cast<uint32_t>(returned) - static_cast<uint32_t>(number) < 1U << 31;
}

void EncodeSyncRecord(const SyncRecord& record, char* to) {
  memset(to, 0, kSyncRecordBytes);
  memcpy(to, kSyncMagic, kMagicBytes);
  EncodeFixed64(to + 8, record.number);
  EncodeFixed64(to + 16, record.session);
  EncodeFixed64(to + 24, record.sequence);
  EncodeFixed64(to + 32, record.lines);
  EncodeFixed32(to + 40, record.asked ? 1 : 0);
  EncodeFixed32(to + kSyncRecordBytes - 4, rocksdb::crc32c::Value(to, kSyncRecordBytes - 4));
}

bool DecodeSyncRecord(const char* from, SyncRecord* record) {
  if (memcmp(from, kSyncMagic, kMagicBytes) != 0) return false;
  if (DecodeFixed32(from + kSyncRecordBytes - 4) != rocksdb::crc32c::Value(from, kSyncRecordBytes - 4)) return false;
  record->number = DecodeFixed64(from + 8);
  record->session = DecodeFixed64(from + 16);
  record->sequence = DecodeFixed64(from + 24);
  record->lines = DecodeFixed64(from + 32);
  record->asked = DecodeFixed32(from + 40) != 0;
  return true;
}

void EncodeSyncLine(const SyncLine& line, char* to) {
  EncodeFixed64(to, line.number);
  EncodeFixed64(to + 8, line.session);
  EncodeFixed64(to + 16, line.generation);
  EncodeFixed64(to + 24, line.memtable);
  EncodeFixed32(to + 32, static_cast<uint32_t>(line.bytes / kPoolPageBytes));
  EncodeFixed32(to + 36, line.column_family);
  EncodeFixed32(to + 40, line.tail);
  EncodeFixed32(to + 44, line.entries);
  EncodeFixed32(to + 48, 0);
  EncodeFixed32(to + 52, rocksdb::crc32c::Value(to, kSyncLineBytes - 4));
}

bool DecodeSyncLine(const char* from, SyncLine* line) {
  if (DecodeFixed32(from + 52) != rocksdb::crc32c::Value(from, kSyncLineBytes - 4)) return false;
  line->number = DecodeFixed64(from);
  line->session = DecodeFixed64(from + 8);
  line->generation = DecodeFixed64(from + 16);
  line->memtable = DecodeFixed64(from + 24);
  line->bytes = uint64_t{DecodeFixed32(from + 32)} * kPoolPageBytes;
  line->column_family = DecodeFixed32(from + 36);
  line->tail = DecodeFixed32(from + 40);
  line->entries = DecodeFixed32(from + 44);
  return line->number != 0;
}

void EncodeHeaderLine(const SegmentHeader& header, char* to) {
  EncodeFixed64(to, header.version);
  EncodeFixed64(to + 8, header.session);
  EncodeFixed64(to + 16, header.generation);
  EncodeFixed64(to + 24, header.memtable);
  EncodeFixed64(to + 32, header.bytes);
  EncodeFixed32(to + 40, header.column_family);
  EncodeFixed32(to + 44, static_cast<uint32_t>(header.kind));
  EncodeFixed32(to + 48, header.ordinal);
  EncodeFixed64(to + 52, 0);
  EncodeFixed32(to + 60, rocksdb::crc32c::Value(to, 60));
}

bool DecodeHeaderLine(const char* from, SegmentHeader* header) {
  if (DecodeFixed32(from + 60) != rocksdb::crc32c::Value(from, 60)) return false;
  const uint32_t kind = DecodeFixed32(from + 44);
  if (kind != static_cast<uint32_t>(SegmentKind::kFree) && kind != static_cast<uint32_t>(SegmentKind::kLive))
    return false;
  header->version = DecodeFixed64(from);
  header->session = DecodeFixed64(from + 8);
  header->generation = DecodeFixed64(from + 16);
  header->memtable = DecodeFixed64(from + 24);
  header->bytes = DecodeFixed64(from + 32);
  header->column_family = DecodeFixed32(from + 40);
  header->kind = static_cast<SegmentKind>(kind);
  header->ordinal = DecodeFixed32(from + 48);
  return true;
}

bool DecodeSegmentHeader(const char* segment, SegmentHeader* header, int* line) {
  SegmentHeader lines[2];
  const bool valid[2] = {DecodeHeaderLine(segment, &lines[0]), DecodeHeaderLine(segment + kHeaderLineBytes, &lines[1])};
  if (!valid[0] && !valid[1]) return false;
  *line = !valid[0] || (valid[1] && lines[1].version > lines[0].version) ? 1 : 0;
  *header = lines[*line];
  return true;
}

uint64_t FlushMark(uint64_t session, uint64_t generation) {
  char bytes[16];
  EncodeFixed64(bytes, session);
  EncodeFixed64(bytes + 8, generation);
  const uint64_t mark = XXH3_64bits(bytes, sizeof(bytes));
  return mark != 0 ? mark : 1;
}

void FinishEntry(uint64_t generation, uint32_t length, char* to) {
  char* const bytes = to + kEntryHeaderBytes;
  memset(bytes + length, 0, EntryBytes(length) - kEntryHeaderBytes - length);
  EncodeFixed32(to, length);
  EncodeFixed32(to + 4, EntryCrc(generation, length, bytes));
}

bool DecodeEntry(uint64_t generation, const char* from, size_t limit, Slice* entry) {
  if (limit < kEntryHeaderBytes) return false;
  const uint32_t length = DecodeFixed32(from);
  if (length == 0 || EntryBytes(length) > limit) return false;
  const char* const bytes = from + kEntryHeaderBytes;
  if (DecodeFixed32(from + 4) != EntryCrc(generation, length, bytes)) return false;
  for (const char* padding = bytes + length; padding != from + EntryBytes(length); ++padding) {
    if (*padding != 0) return false;
  }
  *entry = Slice(bytes, length);
  return true;
}

bool SplitEntry(const Slice& entry, EntryParts* parts) {
  Slice rest = entry;
  Slice internal_key;
  if (!rocksdb::GetLengthPrefixedSlice(&rest, &internal_key) || internal_key.size() < rocksdb::kNumInternalBytes) {
    return false;
  }
  if (!rocksdb::GetLengthPrefixedSlice(&rest, &parts->value)) return false;
  parts->user_key = rocksdb::ExtractUserKey(internal_key);
  const uint64_t tag = rocksdb::ExtractInternalKeyFooter(internal_key);
  parts->sequence = tag >> 8;
  parts->type = static_cast<unsigned char>(tag & 0xff);
  return true;
}

}  // namespace cairn
