// What "cairn.stats" says of a trie's tables is what they take on the disk, once everything has let go of them that
// held more: within a percent, at rest, in either order.

#include <gtest/gtest.h>

#include <cmath>
#include <filesystem>
#include <memory>

#include "rocksdb/db.h"
#include "rocksdb/port/open_into.h"
#include "rocksdb/utilities/checkpoint.h"
#include "test/testutil/assert_ok.h"
#include "test/testutil/await.h"
#include "test/testutil/key_trie_fixture.h"

namespace cairn {
namespace {

namespace fs = std::filesystem;

class TrieDiskTest : public EitherOrderFixture {
 protected:
  static constexpr uint64_t kWritten = kKeys / 4;

  void Write(int round, rocksdb::ColumnFamilyHandle* family = nullptr) {
    if (family == nullptr) family = db_->DefaultColumnFamily();
    for (uint64_t i = 0; i < kWritten; ++i) ASSERT_OK(db_->Put({}, family, Key(i * 7 % kWritten), Value(i, round)));
    ASSERT_OK(db_->Flush({}, family));
  }

  uint64_t OnDisk() {
    uint64_t bytes = 0;
    for (const fs::directory_entry& entry : fs::recursive_directory_iterator(fs::path(dir_ / "."))) {
      std::error_code gone;
      const uint64_t size = entry.path().extension() == ".sst" ? fs::file_size(entry.path(), gone) : 0;
      if (!gone) bytes += size;
    }
    return bytes;
  }

  bool Agrees() {
    const auto said = static_cast<double>(Stats().bytes), taken = static_cast<double>(OnDisk());
    return std::abs(said - taken) <= 0.01 * taken;
  }

  // RocksDB removes files on whatever thread lets go of them last.
  void ExpectAgreement() {
    ASSERT_OK(WaitForTrieCompaction(db_.get()));
    EXPECT_TRUE(Await([&] { return Agrees(); })) << OnDisk() << " bytes on disk\n" << TrieStatsToTable(Stats());
  }
};

TEST_P(TrieDiskTest, AfterAnIterator) {
  Open();
  Write(0);
  std::unique_ptr<rocksdb::Iterator> iterator(db_->NewIterator({}));
  for (int round = 1; round < 4; ++round) Write(round);
  ASSERT_OK(db_->CompactRange({}, nullptr, nullptr));
  ASSERT_OK(WaitForTrieCompaction(db_.get()));
  EXPECT_GT(OnDisk(), Stats().bytes * 5 / 4) << "what the iterator holds";
  iterator.reset();
  ExpectAgreement();
}

TEST_P(TrieDiskTest, AfterASnapshot) {
  Open();
  Write(0);
  const rocksdb::Snapshot* const snapshot = db_->GetSnapshot();
  Write(1);
  ASSERT_OK(db_->CompactRange({}, nullptr, nullptr));
  ExpectAgreement();
  const uint64_t held = OnDisk();
  db_->ReleaseSnapshot(snapshot);
  ExpectAgreement();
  EXPECT_LT(OnDisk(), held * 3 / 4);
}

TEST_P(TrieDiskTest, AfterACheckpoint) {
  Open();
  Write(0);
  std::unique_ptr<rocksdb::Checkpoint> checkpoint;
  ASSERT_OK(rocksdb::Checkpoint::Create(db_.get(), port::Into(&checkpoint)));
  ASSERT_OK(checkpoint->CreateCheckpoint(dir_ / "checkpoint"));
  for (int round = 1; round < 4; ++round) Write(round);
  ASSERT_OK(db_->CompactRange({}, nullptr, nullptr));
  ASSERT_OK(WaitForTrieCompaction(db_.get()));
  EXPECT_GT(OnDisk(), Stats().bytes * 5 / 4) << "what the checkpoint's hard links hold";
  fs::remove_all(fs::path(dir_ / "checkpoint"));
  ExpectAgreement();
}

TEST_P(TrieDiskTest, AfterADroppedFamily) {
  Open();
  Write(0);
  rocksdb::ColumnFamilyHandle* family = nullptr;
  ASSERT_OK(db_->CreateColumnFamily(options_, "dropped", &family));
  Write(0, family);
  ASSERT_OK(WaitForTrieCompaction(db_.get()));
  ASSERT_OK(db_->DropColumnFamily(family));
  EXPECT_GT(OnDisk(), Stats().bytes * 5 / 4) << "what the handle holds";
  ASSERT_OK(db_->DestroyColumnFamilyHandle(family));
  ExpectAgreement();
}

TEST_P(TrieDiskTest, AfterAPause) {
  Open();
  Write(0);
  ASSERT_OK(WaitForTrieCompaction(db_.get()));
  ASSERT_OK(db_->PauseBackgroundWork());
  ASSERT_OK(db_->ContinueBackgroundWork());
  db_->DisableManualCompaction();
  ASSERT_OK(db_->DisableFileDeletions());
  for (int round = 1; round < 4; ++round) Write(round);
  db_->EnableManualCompaction();
  ASSERT_OK(db_->CompactRange({}, nullptr, nullptr));
  EXPECT_GT(OnDisk(), Stats().bytes * 5 / 4) << "what may not be deleted";
  ASSERT_OK(db_->EnableFileDeletions());
  ExpectAgreement();
}

INSTANTIATE_TEST_SUITE_P(Orders, TrieDiskTest, testing::Values("hash", "key"),
                         [](const auto& order) { return order.param; });

}  // namespace
}  // namespace cairn
