// One bit of a WAL or a MANIFEST is another: whoever reads it comes to an end.

#include <filesystem>
#include <fstream>
#include <memory>
#include <string>
#include <tuple>

#include "gtest/gtest.h"
#include "rocksdb/db.h"
#include "rocksdb/port/open_into.h"
#include "test/support.h"

namespace cairn {
namespace {

using rocksdb::Status;

enum class Log { kWal, kManifest };
enum class Use { kOpening, kSecondary, kReadOnly, kRepair };

class DamagedLogsTest : public ::testing::TestWithParam<std::tuple<Log, Use>> {
 protected:
  std::string PathOf(Log log) const {
    for (const auto& file : std::filesystem::directory_iterator(path_)) {
      const std::string name = file.path().filename();
      if (log == Log::kWal ? file.path().extension() == ".log" : name.rfind("MANIFEST-", 0) == 0) return file.path();
    }
    return "";
  }
  // The kind of a record, a whole one, becomes that of a whole one in a log whose file was used before.
  static void ChangeKind(const std::string& path, std::streamoff record) {
    std::fstream file(path, std::ios::in | std::ios::out | std::ios::binary);
    file.seekg(record + 6);
    ASSERT_EQ(file.get(), 1);
    file.seekp(record + 6);
    file.put(5);
    ASSERT_TRUE(file.good());
  }
  static std::streamoff SecondRecord(const std::string& path) {
    std::ifstream file(path, std::ios::binary);
    unsigned char head[7] = {};
    file.read(reinterpret_cast<char*>(head), sizeof(head));
    return 7 + (head[4] | head[5] << 8);
  }
  void Write(Log log) {
    rocksdb::DB* opened = nullptr;
    ASSERT_OK(rocksdb::DB::Open(test::BaseOptions(), path_, port::Into(&opened)));
    const std::unique_ptr<rocksdb::DB> db(opened);
    for (const char* const key : {"first", "damaged", "behind"}) {
      ASSERT_OK(db->Put(rocksdb::WriteOptions(), key, "value"));
    }
    if (log == Log::kManifest) ASSERT_OK(db->Flush(rocksdb::FlushOptions()));
  }
  // Null where it is not opened.
  Status Open(Use use, std::unique_ptr<rocksdb::DB>* db) {
    rocksdb::Options options = test::BaseOptions();
    options.create_if_missing = false;
    options.max_open_files = -1;
    rocksdb::DB* opened = nullptr;
    Status s;
    switch (use) {
      case Use::kRepair:
        s = rocksdb::RepairDB(path_, options);
        if (!s.ok()) break;
        [[fallthrough]];
      case Use::kOpening:
        s = rocksdb::DB::Open(options, path_, port::Into(&opened));
        break;
      case Use::kSecondary:
        s = rocksdb::DB::OpenAsSecondary(options, path_, dir_ / "secondary", port::Into(&opened));
        break;
      case Use::kReadOnly:
        s = rocksdb::DB::OpenForReadOnly(options, path_, port::Into(&opened));
        break;
    }
    db->reset(s.ok() ? opened : nullptr);
    return s;
  }

  const test::TempDir dir_;
  const std::string path_ = dir_ / "db";
};
INSTANTIATE_TEST_SUITE_P(Uses, DamagedLogsTest,
                         ::testing::Combine(::testing::Values(Log::kWal, Log::kManifest),
                                            ::testing::Values(Use::kOpening, Use::kSecondary, Use::kReadOnly,
                                                              Use::kRepair)));

// It was read for ever.
TEST_P(DamagedLogsTest, ARecordOfAnotherKind) {
  const auto [log, use] = GetParam();
  ASSERT_NO_FATAL_FAILURE(Write(log));
  const std::string path = PathOf(log);
  ASSERT_NO_FATAL_FAILURE(ChangeKind(path, SecondRecord(path)));
  std::unique_ptr<rocksdb::DB> db;
  const Status s = Open(use, &db);
  const bool may_refuse = use == Use::kSecondary || (log == Log::kManifest && use != Use::kRepair);
  if (may_refuse && !s.ok()) {
    EXPECT_TRUE(s.IsCorruption()) << s.ToString();
    return;
  }
  ASSERT_OK(s);
  std::string value;
  EXPECT_OK(db->Get(rocksdb::ReadOptions(), "first", &value));
  const bool is_lost = log == Log::kWal;
  EXPECT_EQ(db->Get(rocksdb::ReadOptions(), "damaged", &value).IsNotFound(), is_lost);
}

// As if the file had been that of an older log: a secondary instance read it for ever.
TEST_P(DamagedLogsTest, TheFirstRecord) {
  const auto [log, use] = GetParam();
  ASSERT_NO_FATAL_FAILURE(Write(log));
  ASSERT_NO_FATAL_FAILURE(ChangeKind(PathOf(log), 0));
  std::unique_ptr<rocksdb::DB> db;
  const Status s = Open(use, &db);
  EXPECT_TRUE(s.ok() || s.IsCorruption()) << s.ToString();
  EXPECT_TRUE(use != Use::kSecondary || s.IsCorruption()) << s.ToString();
}

}  // namespace
}  // namespace cairn
