#include "memtable_cache/pool_format.h"

#include <algorithm>
#include <string>

#include "gtest/gtest.h"
#include "memtable_cache/pool_note.h"
#include "test/testutil/expect_contains.h"
#include "test/testutil/golden_file.h"
#include "util/coding.h"

namespace cairn {
namespace {

Superblock SampleSuperblock() {
  Superblock superblock;
  superblock.edition = 3;
  superblock.file_bytes = 4 << 20;
  superblock.pool = 0x0102030405060708;
  superblock.session = 0x1112131415161718;
  superblock.phase = PoolPhase::kLive;
  superblock.session_wal = 12;
  superblock.recovery_wal = 13;
  superblock.first_sequence = 1001;
  superblock.boot = 0x2122232425262728;
  superblock.database = "an id of a database";
  superblock.repair = PoolRepair::kRebuilt;
  superblock.directory = {"/a/directory", 0x3132, 0x4142};
  return superblock;
}

PoolNote SampleNote() {
  PoolNote note;
  note.pool = "CAIRN_POOL";
  note.session = 0x1112131415161718;
  note.live = true;
  note.families = {{0, "default"}, {7, "of another name"}};
  return note;
}

// After a wanted change, with a new version number: CAIRN_UPDATE_GOLDEN=1 build/test/pool_format_test.
TEST(PoolFormatTest, GoldenFiles) {
  char superblock[kSuperblockBytes];
  EncodeSuperblock(SampleSuperblock(), superblock);
  ExpectGolden("pool_superblock", std::string(superblock, 256), "memtable_cache");

  char lines[kSyncRecordBytes + kHeaderLineBytes + kSyncLineBytes + 8 + 24] = {};
  char* at = lines;
  EncodeSyncRecord({5, 0x1112131415161718, 1234, 2, true}, at);
  at += kSyncRecordBytes;
  SegmentHeader header;
  header.version = 9;
  header.session = 0x1112131415161718;
  header.generation = 0x5152535455565758;
  header.memtable = 4;
  header.bytes = 65536;
  header.column_family = 7;
  header.kind = SegmentKind::kLive;
  header.ordinal = 2;
  EncodeHeaderLine(header, at);
  at += kHeaderLineBytes;
  EncodeSyncLine({5, header.session, header.generation, header.memtable, header.bytes, 7, 4096, 31}, at);
  at += kSyncLineBytes;
  rocksdb::EncodeFixed64(at, EncodeSequenceWord(1234));
  at += 8;
  std::copy_n("entry bytes", 11, at + kEntryHeaderBytes);
  FinishEntry(header.generation, 11, at);
  ExpectGolden("pool_lines", std::string(lines, sizeof(lines)), "memtable_cache");

  ExpectGolden("pool_note", EncodePoolNote(SampleNote()), "memtable_cache");
}

TEST(PoolFormatTest, KnowsLaterVersions) {
  char superblock[kSuperblockBytes];
  EncodeSuperblock(SampleSuperblock(), superblock);
  EXPECT_EQ(PoolVersion(superblock), kPoolVersion);
  ++superblock[7];
  EXPECT_EQ(PoolVersion(superblock), kPoolVersion + 1);
  Superblock decoded;
  EXPECT_FALSE(DecodeSuperblock(superblock, &decoded));
  ++superblock[0];
  EXPECT_EQ(PoolVersion(superblock), 0u);

  std::string text = EncodePoolNote(SampleNote());
  ++text[text.find('\n') - 1];
  PoolNote note;
  const rocksdb::Status s = DecodePoolNote(text, &note);
  EXPECT_TRUE(s.IsNotSupported());
  EXPECT_CONTAINS(s.ToString(), "format version 3; Cairn ");
}

}  // namespace
}  // namespace cairn
