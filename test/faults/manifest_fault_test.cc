// A database whose MANIFEST could not be synced while files were ingested opens again, with the files or without them
// (rocksdb/fixes/ingested_tables_stay.cc).

#include <memory>
#include <string>

#include "cairn/db.h"
#include "rocksdb/db.h"
#include "rocksdb/file_system.h"
#include "test/support.h"
#include "test/testutil/ingest_again.h"

namespace cairn {
namespace {

using rocksdb::FileOptions;
using rocksdb::FSWritableFile;
using rocksdb::IODebugContext;
using rocksdb::IOOptions;

// One sync of the MANIFEST fails, the n-th from now on; what was written stays.
class FailingManifest : public rocksdb::FileSystemWrapper {
 public:
  FailingManifest() : FileSystemWrapper(rocksdb::FileSystem::Default()) {}
  static const char* kClassName() { return "FailingManifest"; }
  const char* Name() const override { return kClassName(); }

  IOStatus NewWritableFile(const std::string& name, const FileOptions& options, std::unique_ptr<FSWritableFile>* file,
                           IODebugContext* debug) override {
    IOStatus s = target()->NewWritableFile(name, options, file, debug);
    if (s.ok() && name.find("MANIFEST") != std::string::npos) *file = std::make_unique<File>(std::move(*file), this);
    return s;
  }

  void FailAfter(int syncs) { left_ = syncs; }
  void Heal() { left_ = -2; }
  bool failed() const { return left_ == -1; }

 private:
  class File : public rocksdb::FSWritableFileOwnerWrapper {
   public:
    File(std::unique_ptr<FSWritableFile>&& file, FailingManifest* system)
        : FSWritableFileOwnerWrapper(std::move(file)), system_(system) {}
    IOStatus Sync(const IOOptions& options, IODebugContext* debug) override {
      return system_->Fails() ? IOStatus::IOError("the disk") : FSWritableFileOwnerWrapper::Sync(options, debug);
    }
    IOStatus Fsync(const IOOptions& options, IODebugContext* debug) override {
      return system_->Fails() ? IOStatus::IOError("the disk") : FSWritableFileOwnerWrapper::Fsync(options, debug);
    }

   private:
    FailingManifest* const system_;
  };

  bool Fails() { return left_ >= 0 && left_-- == 0; }

  int left_ = -2;  // -2: none is to fail; -1: one has failed
};

class ManifestFaultTest : public ::testing::TestWithParam<const char*> {
 protected:
  Options OptionsOn(const std::shared_ptr<FailingManifest>& system) {
    Options options = test::OptionsOf(*test::FindEngine(GetParam()));
    env_ = rocksdb::NewCompositeEnv(system);
    options.env = env_.get();
    return options;
  }

  std::unique_ptr<rocksdb::DB> Open(const Options& options, const std::string& path) {
    rocksdb::DB* db = nullptr;
    const Status s = cairn::Open(options, path, &db);
    EXPECT_TRUE(s.ok()) << s.ToString();
    return std::unique_ptr<rocksdb::DB>(db);
  }

  std::unique_ptr<rocksdb::Env> env_;
  test::TempDir dir_;
};

TEST_P(ManifestFaultTest, AnIngestionThatCouldNotBeRecorded) {
  int failed = 0;
  for (int n = 0; n < 4; ++n) {
    const std::string path = dir_ / std::to_string(n);
    const auto system = std::make_shared<FailingManifest>();
    const Options options = OptionsOn(system);
    std::unique_ptr<rocksdb::DB> db = Open(options, path);
    ASSERT_OK(db->Put(rocksdb::WriteOptions(), "before", "value"));
    ASSERT_OK(WriteTable(path + ".file", db->GetOptions(), {{"ingested", "value"}}));
    system->FailAfter(n);
    const Status ingested = db->IngestExternalFile({path + ".file"}, rocksdb::IngestExternalFileOptions());
    EXPECT_EQ(ingested.ok(), !system->failed()) << n;
    failed += system->failed() ? 1 : 0;
    system->Heal();
    db = nullptr;
    db = Open(options, path);
    ASSERT_NE(db, nullptr) << "after sync " << n;
    std::string value;
    EXPECT_OK(db->Get(rocksdb::ReadOptions(), "before", &value));
    const Status s = db->Get(rocksdb::ReadOptions(), "ingested", &value);
    EXPECT_TRUE(s.ok() || (s.IsNotFound() && !ingested.ok())) << s.ToString();
  }
  EXPECT_GE(failed, 2);
}

INSTANTIATE_TEST_SUITE_P(Engines, ManifestFaultTest, ::testing::Values("ordered", "trie_htable", "silt_pinned"));

}  // namespace
}  // namespace cairn
