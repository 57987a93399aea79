// Seeds that options leave open: drawn once, adopted ever after.

#include "db/stored_seed.h"

#include <algorithm>
#include <functional>
#include <memory>
#include <set>
#include <string>
#include <vector>

#include "cairn/db.h"
#include "cairn/hash_seed.h"
#include "cairn/silt.h"
#include "cairn/trie.h"
#include "gtest/gtest.h"
#include "rocksdb/convenience.h"
#include "rocksdb/sst_file_writer.h"
#include "rocksdb/utilities/checkpoint.h"
#include "rocksdb/utilities/options_util.h"
#include "table/hash_order.h"
#include "test/support.h"

namespace cairn {
namespace {

using rocksdb::ColumnFamilyDescriptor;
using rocksdb::ColumnFamilyHandle;
using rocksdb::Options;
using rocksdb::Status;
using test::TempDir;

Options UnsetTrie(uint64_t seed = kRandomSeed) {
  Options options = test::BaseOptions();
  options.create_missing_column_families = true;
  TrieOptions trie;
  trie.seed = seed;
  EXPECT_OK(UseTrie(&options, trie));
  return options;
}

Options UnsetSilt() {
  Options options = test::BaseOptions();
  SiltOptions silt;
  silt.seed = kRandomSeed;
  EXPECT_OK(UseSilt(&options, silt));
  return options;
}

uint64_t SeedOf(const rocksdb::ColumnFamilyOptions& options) {
  uint64_t seed = 0;
  EXPECT_OK(GetHashSeed(options, &seed));
  return seed;
}

struct Opened {
  std::unique_ptr<rocksdb::DB> db;
  std::vector<ColumnFamilyHandle*> handles;
  ~Opened() {
    for (ColumnFamilyHandle* handle : handles) db->DestroyColumnFamilyHandle(handle).PermitUncheckedError();
  }
  Status Open(const std::string& path, const std::vector<ColumnFamilyDescriptor>& families, const Options& options) {
    rocksdb::DB* opened = nullptr;
    const Status s = cairn::Open(options, path, families, &handles, &opened);
    db.reset(opened);
    return s;
  }
  uint64_t seed(size_t family) const { return SeedOf(db->GetOptions(handles[family])); }
};

TEST(StoredSeedTest, EveryTrieHasItsOwnAndKeepsIt) {
  TempDir dir;
  std::set<uint64_t> seeds;
  for (const char* name : {"a", "b"}) {
    std::vector<uint64_t> first;
    for (int opening = 0; opening < 3; ++opening) {
      // Options as a program has them, made anew each time.
      Opened opened;
      ASSERT_OK(opened.Open(dir / name, {{"default", UnsetTrie()}, {"two", UnsetTrie()}, {"silt", UnsetSilt()}},
                            UnsetTrie()));
      const std::vector<uint64_t> now = {opened.seed(0), opened.seed(1), opened.seed(2)};
      if (opening == 0) first = now;
      EXPECT_EQ(now, first);
      std::string value;
      if (opening > 0) {
        for (ColumnFamilyHandle* handle : opened.handles) {
          ASSERT_OK(opened.db->Get(rocksdb::ReadOptions(), handle, "key", &value));
        }
      }
      for (ColumnFamilyHandle* handle : opened.handles) {
        ASSERT_OK(opened.db->Put(rocksdb::WriteOptions(), handle, "key", "value"));
        ASSERT_OK(opened.db->Flush(rocksdb::FlushOptions(), handle));
      }
    }
    seeds.insert(first.begin(), first.end());
  }
  EXPECT_EQ(seeds.size(), 6u);
  // What the database wrote of its options fits it.
  rocksdb::DBOptions options;
  std::vector<ColumnFamilyDescriptor> families;
  ASSERT_OK(rocksdb::LoadLatestOptions(rocksdb::ConfigOptions(), dir / "a", &options, &families));
  EXPECT_FALSE(HasOpenSeed(families));
  Opened opened;
  ASSERT_OK(opened.Open(dir / "a", families, Options(options, families[0].options)));
}

TEST(StoredSeedTest, ASeedThatIsSetMustBeTheDatabases) {
  TempDir dir;
  {
    Opened opened;
    ASSERT_OK(opened.Open(dir / "db", {{"default", UnsetTrie(5)}}, UnsetTrie(5)));
    EXPECT_EQ(opened.seed(0), 5u);
  }
  {
    Opened opened;
    EXPECT_TRUE(opened.Open(dir / "db", {{"default", UnsetTrie(6)}}, UnsetTrie(6)).IsInvalidArgument());
  }
  Opened opened;
  ASSERT_OK(opened.Open(dir / "db", {{"default", UnsetTrie()}}, UnsetTrie()));
  EXPECT_EQ(opened.seed(0), 5u);
}

// Comparator and partitioner from text, with and without a seed.
TEST(StoredSeedTest, TextLeavesItOpenToo) {
  if (kDefaultSeed != kRandomSeed) GTEST_SKIP() << "options that name no seed have one";
  TempDir dir;
  uint64_t seed = 0;
  for (const char* text :
       {"comparator=cairn.HashOrder;sst_partitioner_factory={id=cairn.TriePartitioner;slots=20}",
        "comparator=cairn.HashOrder:xxh3;sst_partitioner_factory={id=cairn.TriePartitioner;slots=20}"}) {
    rocksdb::ColumnFamilyOptions family;
    ASSERT_OK(rocksdb::GetColumnFamilyOptionsFromString(rocksdb::ConfigOptions(), UnsetTrie(), text, &family));
    Opened opened;
    ASSERT_OK(opened.Open(dir / "db", {{"default", family}}, UnsetTrie()));
    if (seed == 0) seed = opened.seed(0);
    EXPECT_EQ(opened.seed(0), seed);
  }
  // The partitioner follows the comparator.
  rocksdb::ColumnFamilyOptions family;
  ASSERT_OK(rocksdb::GetColumnFamilyOptionsFromString(
      rocksdb::ConfigOptions(), UnsetTrie(),
      "comparator=cairn.HashOrder:xxh3:9;sst_partitioner_factory={id=cairn.TriePartitioner;slots=20}", &family));
  Opened opened;
  ASSERT_OK(opened.Open(dir / "nine", {{"default", family}}, UnsetTrie()));
  EXPECT_EQ(opened.seed(0), 9u);
}

TEST(StoredSeedTest, ResolvesForAnyOpening) {
  TempDir dir;
  uint64_t seed = 0;
  {
    Opened opened;
    ASSERT_OK(opened.Open(dir / "db", {{"default", UnsetTrie()}}, UnsetTrie()));
    seed = opened.seed(0);
    ASSERT_OK(opened.db->Put(rocksdb::WriteOptions(), "key", "value"));
    ASSERT_OK(opened.db->Flush(rocksdb::FlushOptions()));
  }
  std::vector<ColumnFamilyDescriptor> families = {{"default", UnsetTrie()}};
  ASSERT_TRUE(HasOpenSeed(families));
  ResolveSeeds(UnsetTrie(), dir / "db", &families);
  EXPECT_EQ(SeedOf(families[0].options), seed);
  EXPECT_FALSE(HasOpenSeed(families));
  families = {{"default", UnsetTrie()}};
  const auto read = [&](const std::function<Status(std::vector<ColumnFamilyHandle*>*, rocksdb::DB**)>& open) {
    std::vector<ColumnFamilyHandle*> handles;
    rocksdb::DB* db = nullptr;
    ASSERT_OK(open(&handles, &db));
    std::string value;
    EXPECT_OK(db->Get(rocksdb::ReadOptions(), "key", &value));
    for (ColumnFamilyHandle* handle : handles) ASSERT_OK(db->DestroyColumnFamilyHandle(handle));
    delete db;
  };
  read([&](auto* handles, auto** db) {
    return rocksdb::DB::OpenForReadOnly(UnsetTrie(), dir / "db", families, handles, db);
  });
  read([&](auto*, auto** db) { return rocksdb::DB::OpenForReadOnly(UnsetTrie(), dir / "db", db); });
  read([&](auto* handles, auto** db) {
    return rocksdb::DB::OpenAsSecondary(UnsetTrie(), dir / "db", dir / "secondary", families, handles, db);
  });
  read([&](auto*, auto** db) { return rocksdb::DB::OpenAsSecondary(UnsetTrie(), dir / "db", dir / "secondary", db); });
  read([&](auto*, auto** db) { return rocksdb::DB::Open(UnsetTrie(), dir / "db", db); });
  read([&](auto* handles, auto** db) {
    Status s = rocksdb::DB::Open(UnsetTrie(), dir / "db", families, handles, db);
    for (int i = 0; s.ok() && i < 2; ++i) {
      handles->push_back(nullptr);
      s = (*db)->CreateColumnFamily(UnsetTrie(), "new" + std::to_string(i), &handles->back());
    }
    EXPECT_NE(SeedOf((*db)->GetOptions((*handles)[1])), SeedOf((*db)->GetOptions((*handles)[2])));
    return s;
  });
  // Files to import say which order they are in.
  rocksdb::ColumnFamilyOptions import = UnsetTrie();
  AdoptSeed("cairn.HashOrder:xxh3:77", &import);
  EXPECT_EQ(SeedOf(import), 77u);
  rocksdb::ColumnFamilyOptions create = UnsetTrie();
  DrawSeed(&create);
  EXPECT_NE(SeedOf(create), seed);
  TrieOptions trie;
  ASSERT_TRUE(IsTrie(create, &trie));
  EXPECT_EQ(trie.seed, SeedOf(create));
}

TEST(StoredSeedTest, AnImportTakesTheSeedOfItsFiles) {
  TempDir dir;
  Opened from;
  ASSERT_OK(from.Open(dir / "from", {{"default", UnsetTrie()}}, UnsetTrie()));
  ASSERT_OK(from.db->Put(rocksdb::WriteOptions(), "key", "value"));
  rocksdb::Checkpoint* raw = nullptr;
  ASSERT_OK(rocksdb::Checkpoint::Create(from.db.get(), &raw));
  const std::unique_ptr<rocksdb::Checkpoint> checkpoint(raw);
  rocksdb::ExportImportFilesMetaData* files = nullptr;
  ASSERT_OK(checkpoint->ExportColumnFamily(from.handles[0], dir / "exported", &files));
  const std::unique_ptr<rocksdb::ExportImportFilesMetaData> owned(files);
  Opened to;
  ASSERT_OK(to.Open(dir / "to", {{"default", UnsetTrie()}}, UnsetTrie()));
  ColumnFamilyHandle* handle = nullptr;
  EXPECT_FALSE(to.db
                   ->CreateColumnFamilyWithImport(UnsetTrie(from.seed(0) + 1), "refused",
                                                  rocksdb::ImportColumnFamilyOptions(), *files, &handle)
                   .ok());
  ASSERT_OK(to.db->CreateColumnFamilyWithImport(UnsetTrie(), "imported", rocksdb::ImportColumnFamilyOptions(), *files,
                                                &handle));
  to.handles.push_back(handle);
  EXPECT_EQ(to.seed(1), from.seed(0));
  std::string value;
  EXPECT_OK(to.db->Get(rocksdb::ReadOptions(), handle, "key", &value));
}

TEST(StoredSeedTest, FilesOfAnotherSeedAreRefused) {
  TempDir dir;
  Opened opened;
  ASSERT_OK(opened.Open(dir / "db", {{"default", UnsetTrie()}}, UnsetTrie()));
  const uint64_t own = opened.seed(0);
  for (const uint64_t seed : {own + 1, kRandomSeed, own}) {
    const std::string file = dir / "file.sst";
    const Options options = UnsetTrie(seed);
    rocksdb::SstFileWriter writer(rocksdb::EnvOptions(), options);
    ASSERT_OK(writer.Open(file));
    std::vector<std::string> keys;
    for (int i = 0; i < 100; ++i) keys.push_back(std::to_string(i));
    std::sort(keys.begin(), keys.end(),
              [&](const auto& a, const auto& b) { return options.comparator->Compare(a, b) < 0; });
    for (const std::string& key : keys) ASSERT_OK(writer.Put(key, "v"));
    ASSERT_OK(writer.Finish());
    const Status s = opened.db->IngestExternalFile({file}, rocksdb::IngestExternalFileOptions());
    if (seed == own) {
      EXPECT_OK(s);
    } else {
      EXPECT_TRUE(s.IsInvalidArgument()) << s.ToString();
      EXPECT_NE(s.ToString().find(std::to_string(own)), std::string::npos) << s.ToString();
    }
  }
  std::string value;
  EXPECT_OK(opened.db->Get(rocksdb::ReadOptions(), "42", &value));
}

}  // namespace
}  // namespace cairn
