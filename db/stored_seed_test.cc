// Seeds that options leave open: drawn once, adopted ever after.

#include "db/stored_seed.h"

#include <algorithm>
#include <filesystem>
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
#include "rocksdb/port/open_into.h"
#include "rocksdb/sst_file_reader.h"
#include "rocksdb/sst_file_writer.h"
#include "rocksdb/utilities/checkpoint.h"
#include "rocksdb/utilities/options_util.h"
#include "rocksdb/utilities/write_batch_with_index.h"
#include "table/hash_order/hash_order.h"
#include "test/support.h"
#include "test/testutil/expect_contains.h"

namespace cairn {
namespace {

using test::TempDir;

Options UnsetTrie(uint64_t seed = kRandomSeed) {
  Options options = test::BaseOptions();
  options.create_missing_column_families = true;
  HashTrieOptions trie;
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
    return cairn::Open(options, path, families, &handles, port::Into(&db));
  }
  uint64_t seed(size_t family) const { return SeedOf(db->GetOptions(handles[family])); }
};

constexpr int kKeys = 300;

void Fill(rocksdb::DB* db, ColumnFamilyHandle* handle) {
  for (int i = 0; i < kKeys; ++i) ASSERT_OK(db->Put(rocksdb::WriteOptions(), handle, std::to_string(i), "v"));
}

void ExpectFull(rocksdb::DB* db, ColumnFamilyHandle* handle) {
  std::string value;
  for (int i = 0; i < kKeys; ++i) EXPECT_OK(db->Get(rocksdb::ReadOptions(), handle, std::to_string(i), &value));
}

// A trie that has all keys in tables; its seed.
uint64_t MakeFull(const std::string& path, uint64_t seed = kRandomSeed) {
  Opened opened;
  EXPECT_OK(opened.Open(path, {{"default", UnsetTrie(seed)}}, UnsetTrie(seed)));
  Fill(opened.db.get(), opened.handles[0]);
  EXPECT_OK(opened.db->Flush(rocksdb::FlushOptions()));
  return opened.seed(0);
}

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
  // And comes back from the text that options become.
  for (const Options& options : {UnsetTrie(), UnsetSilt()}) {
    std::string text;
    ASSERT_OK(rocksdb::GetStringFromColumnFamilyOptions(rocksdb::ConfigOptions(), options, &text));
    rocksdb::ColumnFamilyOptions family;
    ASSERT_OK(rocksdb::GetColumnFamilyOptionsFromString(rocksdb::ConfigOptions(), {}, text, &family));
    EXPECT_EQ(family.comparator, options.comparator) << text;
    HashTrieOptions trie;
    if (IsHashTrie(family, &trie)) {
      EXPECT_EQ(trie.seed, kRandomSeed);
    }
    SiltOptions silt;
    if (IsSilt(family, &silt)) {
      EXPECT_EQ(silt.seed, kRandomSeed);
    }
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
  const uint64_t seed = MakeFull(dir / "db");
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
    EXPECT_OK(db->Get(rocksdb::ReadOptions(), "7", &value));
    for (ColumnFamilyHandle* handle : handles) ASSERT_OK(db->DestroyColumnFamilyHandle(handle));
    delete db;
  };
  read([&](auto* handles, auto** db) {
    return rocksdb::DB::OpenForReadOnly(UnsetTrie(), dir / "db", families, handles, port::Into(db));
  });
  read([&](auto*, auto** db) { return rocksdb::DB::OpenForReadOnly(UnsetTrie(), dir / "db", port::Into(db)); });
  read([&](auto* handles, auto** db) {
    return rocksdb::DB::OpenAsSecondary(UnsetTrie(), dir / "db", dir / "secondary", families, handles, port::Into(db));
  });
  read([&](auto*, auto** db) {
    return rocksdb::DB::OpenAsSecondary(UnsetTrie(), dir / "db", dir / "secondary", port::Into(db));
  });
  read([&](auto*, auto** db) { return rocksdb::DB::Open(UnsetTrie(), dir / "db", port::Into(db)); });
  read([&](auto* handles, auto** db) {
    Status s = rocksdb::DB::Open(UnsetTrie(), dir / "db", families, handles, port::Into(db));
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
  HashTrieOptions trie;
  ASSERT_TRUE(IsHashTrie(create, &trie));
  EXPECT_EQ(trie.seed, SeedOf(create));
}

TEST(StoredSeedTest, AnImportTakesTheSeedOfItsFiles) {
  TempDir dir;
  Opened from;
  ASSERT_OK(from.Open(dir / "from", {{"default", UnsetTrie()}}, UnsetTrie()));
  ASSERT_OK(from.db->Put(rocksdb::WriteOptions(), "key", "value"));
  std::unique_ptr<rocksdb::Checkpoint> checkpoint;
  ASSERT_OK(rocksdb::Checkpoint::Create(from.db.get(), port::Into(&checkpoint)));
  std::unique_ptr<rocksdb::ExportImportFilesMetaData> files;
  ASSERT_OK(checkpoint->ExportColumnFamily(from.handles[0], dir / "exported", port::Into(&files)));
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
  std::vector<std::string> keys;
  for (int i = 0; i < 100; ++i) keys.push_back(std::to_string(i));
  const auto write = [&](rocksdb::SstFileWriter* writer, const rocksdb::Comparator* order, const std::string& file) {
    ASSERT_OK(writer->Open(file));
    std::sort(keys.begin(), keys.end(), [&](const auto& a, const auto& b) { return order->Compare(a, b) < 0; });
    for (const std::string& key : keys) ASSERT_OK(writer->Put(key, "v"));
    ASSERT_OK(writer->Finish());
  };
  const auto ingest = [&](const std::string& file) {
    return opened.db->IngestExternalFile({file}, rocksdb::IngestExternalFileOptions());
  };
  for (const uint64_t seed : {own + 1, own}) {
    const std::string file = dir / ("set" + std::to_string(seed));
    const Options options = UnsetTrie(seed);
    rocksdb::SstFileWriter writer(rocksdb::EnvOptions(), options);
    write(&writer, options.comparator, file);
    const Status s = ingest(file);
    if (seed == own) {
      EXPECT_OK(s);
    } else {
      EXPECT_TRUE(s.IsInvalidArgument()) << s.ToString();
      EXPECT_NE(s.ToString().find(std::to_string(own)), std::string::npos) << s.ToString();
    }
  }
  // The column family's options have its seed.
  const rocksdb::Comparator* const order = opened.handles[0]->GetComparator();
  {
    const Options options = opened.db->GetOptions(opened.handles[0]);
    rocksdb::SstFileWriter writer(rocksdb::EnvOptions(), options, opened.handles[0]);
    write(&writer, order, dir / "handle");
    EXPECT_OK(ingest(dir / "handle"));
    rocksdb::SstFileReader reader(options);
    ASSERT_OK(reader.Open(dir / "handle"));
    ASSERT_OK(reader.VerifyChecksum());
    const std::unique_ptr<rocksdb::Iterator> iterator(reader.NewIterator(rocksdb::ReadOptions()));
    size_t found = 0;
    for (iterator->SeekToFirst(); iterator->Valid(); iterator->Next(), ++found) EXPECT_EQ(iterator->key(), keys[found]);
    EXPECT_OK(iterator->status());
    EXPECT_EQ(found, keys.size());
    for (const std::string& key : keys) {
      iterator->Seek(key);
      ASSERT_TRUE(iterator->Valid());
      EXPECT_EQ(iterator->key(), key);
    }
  }
  // Others do not, whatever handle or comparator comes with them: the file would have another order than it says.
  const auto refused = [&](rocksdb::SstFileWriter* writer) {
    ASSERT_OK(writer->Open(dir / "open"));
    for (const Status& s : {writer->Put("key", "value"), writer->Put("other", "value")}) {
      EXPECT_TRUE(s.IsInvalidArgument()) << s.ToString();
      EXPECT_NE(s.ToString().find("GetHashSeed"), std::string::npos) << s.ToString();
    }
    EXPECT_FALSE(writer->Finish().ok());
    EXPECT_FALSE(ingest(dir / "open").ok());
  };
  for (const Options& options : {UnsetTrie(), UnsetSilt(), UnsetTrie(own + 1)}) {
    rocksdb::SstFileWriter by_comparator(rocksdb::EnvOptions(), options, order);
    refused(&by_comparator);
    rocksdb::SstFileReader reader(options);
    EXPECT_TRUE(Says(reader.Open(dir / "handle"), &Status::IsInvalidArgument, std::to_string(own)));
    if (options.comparator->Name() == UnsetTrie(own + 1).comparator->Name()) continue;
    rocksdb::SstFileWriter alone(rocksdb::EnvOptions(), options);
    refused(&alone);
    rocksdb::SstFileWriter with_handle(rocksdb::EnvOptions(), options, opened.handles[0]);
    refused(&with_handle);
  }
  std::string value;
  EXPECT_OK(opened.db->Get(rocksdb::ReadOptions(), "42", &value));
}

// Each family's own seed comes back, whatever is left of the database.
TEST(StoredSeedTest, RepairsWithWhatIsLeft) {
  enum class Overload { kOptions, kFamilies, kUnknown };
  for (const Overload overload : {Overload::kOptions, Overload::kFamilies, Overload::kUnknown}) {
    for (const std::string lost : {"OPTIONS", "MANIFEST", "MANIFEST OPTIONS", "CURRENT OPTIONS", "damage OPTIONS"}) {
      SCOPED_TRACE(std::to_string(static_cast<int>(overload)) + " without " + lost);
      TempDir dir;
      const std::string path = dir / "db";
      std::vector<uint64_t> seeds;
      {
        Opened opened;
        ASSERT_OK(opened.Open(path, {{"default", UnsetTrie()}, {"two", UnsetTrie()}}, UnsetTrie()));
        for (size_t i = 0; i < 2; ++i) {
          seeds.push_back(opened.seed(i));
          Fill(opened.db.get(), opened.handles[i]);
          ASSERT_OK(opened.db->Flush(rocksdb::FlushOptions(), opened.handles[i]));
          // And something in the WAL.
          ASSERT_OK(opened.db->Put(rocksdb::WriteOptions(), opened.handles[i], "7", "newer"));
        }
      }
      for (const auto& entry : std::filesystem::directory_iterator(path)) {
        const std::string name = entry.path().filename().string();
        const std::string kind = name.substr(0, name.find('-'));
        if (lost.find(kind) != std::string::npos) std::filesystem::remove(entry.path());
        if (kind == "MANIFEST" && lost.find("damage") != std::string::npos)
          std::filesystem::resize_file(entry.path(), 9);
      }
      const std::vector<ColumnFamilyDescriptor> both = {{"default", UnsetTrie()}, {"two", UnsetTrie()}};
      switch (overload) {
        case Overload::kOptions:
          ASSERT_OK(rocksdb::RepairDB(path, UnsetTrie()));
          break;
        case Overload::kFamilies:
          ASSERT_OK(rocksdb::RepairDB(path, UnsetTrie(), both));
          break;
        case Overload::kUnknown:
          ASSERT_OK(rocksdb::RepairDB(path, UnsetTrie(), {{"default", UnsetTrie()}}, UnsetTrie()));
          break;
      }
      Opened opened;
      ASSERT_OK(opened.Open(path, both, UnsetTrie()));
      for (size_t i = 0; i < 2; ++i) {
        EXPECT_EQ(opened.seed(i), seeds[i]);
        ExpectFull(opened.db.get(), opened.handles[i]);
        std::string value;
        ASSERT_OK(opened.db->Get(rocksdb::ReadOptions(), opened.handles[i], "7", &value));
        EXPECT_EQ(value, "newer");
      }
    }
  }
}

TEST(StoredSeedTest, RepairRefusesAnotherSeedWithoutOptionsFile) {
  TempDir dir;
  MakeFull(dir / "db", 5);
  for (const auto& entry : std::filesystem::directory_iterator(dir / "db")) {
    const std::string name = entry.path().filename().string();
    if (name.rfind("OPTIONS", 0) == 0 || name.rfind("MANIFEST", 0) == 0) std::filesystem::remove(entry.path());
  }
  EXPECT_TRUE(Says(rocksdb::RepairDB(dir / "db", UnsetTrie(6)), &Status::IsInvalidArgument, "xxh3:5"));
  ASSERT_OK(rocksdb::RepairDB(dir / "db", UnsetTrie()));
}

TEST(StoredSeedTest, RecoversWithoutCurrent) {
  TempDir dir;
  const uint64_t seed = MakeFull(dir / "db");
  std::filesystem::remove(dir / "db/CURRENT");
  Options options = UnsetTrie();
  options.best_efforts_recovery = true;
  Opened opened;
  ASSERT_OK(opened.Open(dir / "db", {{"default", options}}, options));
  EXPECT_EQ(opened.seed(0), seed);
  ExpectFull(opened.db.get(), opened.handles[0]);
}

TEST(StoredSeedTest, OneOptionsObjectServesAnyDatabase) {
  TempDir dir;
  const Options options = UnsetTrie();
  std::set<uint64_t> seeds;
  Opened a, b;
  ASSERT_OK(a.Open(dir / "a", {{"default", options}}, options));
  ASSERT_OK(b.Open(dir / "b", {{"default", options}}, options));
  EXPECT_NE(a.seed(0), b.seed(0));
  EXPECT_EQ(options.comparator, OpenSeedComparator(HashKind::kXxh3));
  uint64_t seed = 0;
  const Status s = GetHashSeed(options, &seed);
  EXPECT_TRUE(s.IsInvalidArgument()) << s.ToString();
  // A family that is dropped and made again has the seed of the first: the MANIFEST names both.
  ColumnFamilyHandle* handle = nullptr;
  for (int i = 0; i < 3; ++i) {
    ASSERT_OK(a.db->CreateColumnFamily(options, "again", &handle));
    seeds.insert(SeedOf(a.db->GetOptions(handle)));
    Fill(a.db.get(), handle);
    ASSERT_OK(a.db->Flush(rocksdb::FlushOptions(), handle));
    if (i < 2) ASSERT_OK(a.db->DropColumnFamily(handle));
    ASSERT_OK(a.db->DestroyColumnFamilyHandle(handle));
  }
  ASSERT_OK(a.db->CreateColumnFamily(options, "dropped", &handle));
  const uint64_t dropped = SeedOf(a.db->GetOptions(handle));
  ASSERT_OK(a.db->DropColumnFamily(handle));
  ASSERT_OK(a.db->DestroyColumnFamilyHandle(handle));
  handle = nullptr;
  EXPECT_TRUE(Says(a.db->CreateColumnFamily(UnsetTrie(dropped + 1), "dropped", &handle), &Status::IsInvalidArgument,
                   "MANIFEST"));
  EXPECT_EQ(seeds.size(), 1u);
  EXPECT_EQ(seeds.count(a.seed(0)), 0u);
  Fill(a.db.get(), a.handles[0]);
  std::unique_ptr<rocksdb::Checkpoint> checkpoint;
  ASSERT_OK(rocksdb::Checkpoint::Create(a.db.get(), port::Into(&checkpoint)));
  ASSERT_OK(checkpoint->CreateCheckpoint(dir / "copy"));
  Opened copy;
  ASSERT_OK(copy.Open(dir / "copy", {{"default", options}, {"again", options}}, options));
  EXPECT_EQ(copy.seed(0), a.seed(0));
  for (ColumnFamilyHandle* each : copy.handles) ExpectFull(copy.db.get(), each);
  // What opening creates follows the same rule.
  ASSERT_OK(checkpoint->CreateCheckpoint(dir / "more"));
  Opened more;
  ASSERT_OK(more.Open(dir / "more", {{"default", options}, {"again", options}, {"dropped", options}}, options));
  EXPECT_EQ(more.seed(2), dropped);
  rocksdb::DBOptions stored;
  std::vector<ColumnFamilyDescriptor> families;
  ASSERT_OK(rocksdb::LoadLatestOptions(rocksdb::ConfigOptions(), dir / "b", &stored, &families));
  const auto fits = [&](const Options& with) {
    std::vector<ColumnFamilyDescriptor> own = families;
    own[0].options.comparator = with.comparator;
    return rocksdb::CheckOptionsCompatibility(rocksdb::ConfigOptions(), dir / "b", stored, own);
  };
  EXPECT_OK(fits(options));
  EXPECT_OK(fits(UnsetTrie(b.seed(0))));
  EXPECT_FALSE(fits(UnsetTrie(b.seed(0) + 1)).ok());
}

// An index of updates joined with a database has the database's order, or says that it has not.
TEST(StoredSeedTest, IndexedBatches) {
  TempDir dir;
  const Options options = UnsetTrie();
  const auto join = [&](Opened* opened, rocksdb::WriteBatchWithIndex* batch, ColumnFamilyHandle* handle, int* found) {
    rocksdb::Iterator* const base = opened->db->NewIterator(rocksdb::ReadOptions());
    const std::unique_ptr<rocksdb::Iterator> joined(handle == nullptr ? batch->NewIteratorWithBase(base)
                                                                      : batch->NewIteratorWithBase(handle, base));
    *found = 0;
    for (joined->SeekToFirst(); joined->Valid(); joined->Next()) ++*found;
    return joined->status();
  };
  const auto fill = [](rocksdb::WriteBatchWithIndex* batch) {
    for (int i = kKeys / 2; i < 2 * kKeys; ++i) ASSERT_OK(batch->Put(std::to_string(i), "newer"));
  };
  Opened a;
  ASSERT_OK(a.Open(dir / "a", {{"default", options}}, options));
  Fill(a.db.get(), a.handles[0]);
  int found = 0;
  {
    rocksdb::WriteBatchWithIndex batch(a.handles[0]->GetComparator(), 0, true);
    fill(&batch);
    ASSERT_OK(join(&a, &batch, a.handles[0], &found));
    EXPECT_EQ(found, 2 * kKeys);
    ASSERT_OK(join(&a, &batch, nullptr, &found));
    EXPECT_EQ(found, 2 * kKeys);
  }
  {
    // By bytes.
    rocksdb::WriteBatchWithIndex batch;
    fill(&batch);
    EXPECT_TRUE(Says(join(&a, &batch, a.handles[0], &found), &Status::IsInvalidArgument, "GetComparator"));
  }
  Opened b;
  ASSERT_OK(b.Open(dir / "b", {{"default", options}}, options));
  {
    // Whose seed?
    rocksdb::WriteBatchWithIndex batch(options.comparator, 0, true);
    fill(&batch);
    for (ColumnFamilyHandle* handle : {b.handles[0], static_cast<ColumnFamilyHandle*>(nullptr)}) {
      EXPECT_TRUE(join(&b, &batch, handle, &found).IsInvalidArgument());
    }
    rocksdb::WriteBatchWithIndex of_one_key(options.comparator, 0, true);
    ASSERT_OK(of_one_key.Put("key", "value"));
    EXPECT_TRUE(join(&b, &of_one_key, nullptr, &found).IsInvalidArgument());
    rocksdb::WriteBatchWithIndex own(b.handles[0]->GetComparator(), 0, true);
    fill(&own);
    ASSERT_OK(join(&b, &own, b.handles[0], &found));
    EXPECT_EQ(found, 2 * kKeys - kKeys / 2);
    rocksdb::WriteBatchWithIndex by_handle;
    for (int i = 0; i < kKeys; ++i) ASSERT_OK(by_handle.Put(b.handles[0], std::to_string(i), "v"));
    ASSERT_OK(join(&b, &by_handle, b.handles[0], &found));
    EXPECT_EQ(found, kKeys);
  }
}

}  // namespace
}  // namespace cairn
