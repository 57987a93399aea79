// The bytes of a pool file (docs/design/durable_memtable.md): superblock, sequence words, header lines of segments,
// entries. One encode and one decode function a structure; nothing here knows files or threads.
//
// Thread-safety: the functions touch only what they are given.

#pragma once

#include <cstddef>
#include <cstdint>
#include <string>

#include "rocksdb/slice.h"

namespace cairn {

constexpr size_t kPoolPageBytes = 4096;
// What a disk writes as a whole or not at all.
constexpr size_t kSectorBytes = 512;
constexpr size_t kSuperblockBytes = kPoolPageBytes;
constexpr size_t kCountersOffset = 2 * kPoolPageBytes;
constexpr size_t kSegmentsOffset = 4 * kPoolPageBytes;
constexpr size_t kMaxDatabaseIdBytes = 128;
constexpr size_t kMaxDirectoryBytes = 3072;

// The counters' places in their page; a cache line each.
constexpr size_t kPublishedOffset = kCountersOffset;
constexpr size_t kPublishedAgainOffset = kCountersOffset + 64;
constexpr size_t kNewestTableOffset = kCountersOffset + 128;
constexpr size_t kReturnedSyncOffset = kCountersOffset + 192;

// The places of the two sync records: in a page each, so that one page is not both.
constexpr size_t kSyncRecordOffsets[2] = {kCountersOffset + 1024, kCountersOffset + kPoolPageBytes};

enum class PoolPhase : uint32_t { kIdle = 0, kLive = 1, kRecovering = 2 };

// The database's MANIFEST is being made anew, or has been: what it says of tables was not recorded in the order of
// flushes, and nobody but the repair may recover the pool file, nor open the database.
enum class PoolRepair : uint32_t { kNone = 0, kRebuilding = 1, kRebuilt = 2 };

// A database's directory. One that was renamed keeps device and inode, one on a file system that was mounted again its
// path; a copy has neither.
struct DatabaseDirectory {
  std::string path;  // canonical; at most kMaxDirectoryBytes; empty: unknown
  uint64_t device = 0;
  uint64_t inode = 0;
};

struct Superblock {
  uint64_t edition = 0;
  uint64_t file_bytes = 0;
  uint64_t pool = 0;     // random, at formatting
  uint64_t session = 0;  // random, one an open database
  PoolPhase phase = PoolPhase::kIdle;
  uint64_t session_wal = 0;   // number of the WAL file that stays empty while the session lasts
  uint64_t recovery_wal = 0;  // number of the WAL file that recovery makes; in phase kRecovering
  uint64_t first_sequence = 0;
  uint64_t boot = 0;     // of the machine, when the session began; 0: unknown
  std::string database;  // its id; at most kMaxDatabaseIdBytes
  PoolRepair repair = PoolRepair::kNone;
  // Of the database whose writes lie here, or of the last that took them: copies of a database have its id.
  DatabaseDirectory directory;
};

// `to` has kSuperblockBytes. Everything but the directory's path is in the first sector, its checksum as well: a
// rewrite for the same directory, torn by a loss of power, is the old or the new superblock.
void EncodeSuperblock(const Superblock& superblock, char* to);
// Of the pool file that begins with this superblock; 0: of none.
uint64_t PoolVersion(const char* superblock);
constexpr uint64_t kPoolVersion = 4;
// False when magic, version or a checksum is wrong.
bool DecodeSuperblock(const char* from, Superblock* superblock);

// A sequence or file number with a check of its own, in one word.
constexpr uint64_t kSequenceMask = (uint64_t{1} << 56) - 1;  // the bits of a checksummed word that are its number
uint64_t EncodeSequenceWord(uint64_t sequence);
bool DecodeSequenceWord(uint64_t word, uint64_t* sequence);

// What such a word says of the last sync that has returned.
uint64_t ReturnedSync(uint64_t session, uint64_t number);
// Whether `returned` is of this session and of a sync not before `number`.
bool HasReturned(uint64_t returned, uint64_t session, uint64_t number);

// What a sync that has begun will have made safe when it has returned: all entries up to `sequence`, each below the
// synced tail of its segment.
struct SyncRecord {
  uint64_t number = 0;  // counts up in a session
  uint64_t session = 0;
  uint64_t sequence = 0;
  uint64_t lines = 0;  // of segments that this sync told of
  bool asked = false;  // a client has asked for a sync in this session
};
constexpr size_t kSyncRecordBytes = 64;
void EncodeSyncRecord(const SyncRecord& record, char* to);
bool DecodeSyncRecord(const char* from, SyncRecord* record);

constexpr size_t kHeaderLineBytes = 64;
constexpr size_t kGenerationOffset = 16;  // in a header line
constexpr size_t kTailWordOffset = 2 * kHeaderLineBytes;
constexpr size_t kFlushMarkOffset = kTailWordOffset + 8;
constexpr size_t kSyncLineOffsets[2] = {kFlushMarkOffset + 8, kFlushMarkOffset + 64};
constexpr size_t kSegmentHeaderBytes = 256;

enum class SegmentKind : uint32_t { kFree = 1, kLive = 2 };

struct SegmentHeader {
  uint64_t version = 0;
  uint64_t session = 0;
  uint64_t generation = 0;  // unique in a session; never 0 for a live segment
  uint64_t memtable = 0;    // unique in a session
  uint64_t bytes = 0;       // of the segment, header included
  uint32_t column_family = 0;
  SegmentKind kind = SegmentKind::kFree;
  uint32_t ordinal = 0;
};

// `to` has kHeaderLineBytes.
void EncodeHeaderLine(const SegmentHeader& header, char* to);
bool DecodeHeaderLine(const char* from, SegmentHeader* header);

// How far a segment was when a sync began. It says all that is needed to read the entries, whatever became of the rest
// of the header.
struct SyncLine {
  uint64_t number = 0;  // of the sync
  uint64_t session = 0;
  uint64_t generation = 0;
  uint64_t memtable = 0;
  uint64_t bytes = 0;  // of the segment
  uint32_t column_family = 0;
  uint32_t tail = 0;
  uint32_t entries = 0;
};
constexpr size_t kSyncLineBytes = 56;
void EncodeSyncLine(const SyncLine& line, char* to);
bool DecodeSyncLine(const char* from, SyncLine* line);

// The valid line of the higher version; `line` says which (0 or 1). False when both are damaged.
bool DecodeSegmentHeader(const char* segment, SegmentHeader* header, int* line);

// What the flush mark of a segment holds when its memtable is in a table. Never 0.
uint64_t FlushMark(uint64_t session, uint64_t generation);

constexpr size_t kEntryHeaderBytes = 8;

// Bytes that an entry of `length` bytes takes in a segment.
constexpr size_t EntryBytes(size_t length) { return (kEntryHeaderBytes + length + 7) / 8 * 8; }

// Writes the header in front of the `length` bytes at `to + kEntryHeaderBytes`, and the zeros behind them.
void FinishEntry(uint64_t generation, uint32_t length, char* to);

// The entry at `from`, of which `limit` bytes may be looked at. False when there is no valid one.
bool DecodeEntry(uint64_t generation, const char* from, size_t limit, rocksdb::Slice* entry);

// RocksDB's memtable entry taken apart. False when it is none.
struct EntryParts {
  rocksdb::Slice user_key;
  rocksdb::Slice value;
  uint64_t sequence = 0;
  unsigned char type = 0;
};
bool SplitEntry(const rocksdb::Slice& entry, EntryParts* parts);

}  // namespace cairn
