// Databases that earlier versions of Cairn have left, with the releases of RocksDB that this one reads: each is read
// whole, written, compacted and read again. And files of a later version are refused, by their name and version.

#include <algorithm>
#include <climits>
#include <cstdio>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "cairn/db.h"
#include "gtest/gtest.h"
#include "rocksdb/port/open_into.h"
#include "rocksdb/table_properties.h"
#include "rocksdb/utilities/options_util.h"
#include "rocksdb/version.h"
#include "test/golden/golden_databases.h"
#include "test/testutil/assert_ok.h"
#include "test/testutil/expect_contains.h"
#include "test/testutil/temp_dir.h"
#include "util/bits.h"
#include "util/checksum.h"
#include "util/short_hash.h"

namespace cairn::golden {
namespace {

namespace fs = std::filesystem;

using rocksdb::ColumnFamilyDescriptor;
using rocksdb::ColumnFamilyHandle;
using rocksdb::DB;
using rocksdb::Status;

std::string GoldenFolder() {
  const char* const source = getenv("CAIRN_SOURCE_DIR");
  return (source != nullptr ? std::string(source) : ".") + "/test/golden/";
}

std::string Bytes(const std::string& path) {
  std::ifstream file(path, std::ios::binary);
  return {std::istreambuf_iterator<char>(file), std::istreambuf_iterator<char>()};
}

// What contents.txt says of one archive.
struct Golden {
  std::string release;  // of RocksDB
  std::string name;
  std::string engine;
  std::map<std::string, std::string> families;  // what Describe says of each
};

void PrintTo(const Golden& golden, std::ostream* out) { *out << golden.name << " of RocksDB " << golden.release; }

// Whether the RocksDB at hand is of this release or a later one.
bool IsRead(const std::string& release) {
  const auto number = [](const std::string& text) {
    int major = 0, minor = 0;
    return std::sscanf(text.c_str(), "%d.%d", &major, &minor) == 2 ? major * 1000 + minor : INT_MAX;
  };
  return number(release) <= number(rocksdb::GetRocksVersionAsString());
}

std::vector<Golden> ReadContents() {
  std::vector<Golden> all;
  for (const auto& folder : fs::directory_iterator(GoldenFolder())) {
    const std::string release = folder.path().filename();
    if (!folder.is_directory() || !IsRead(release)) continue;
    std::ifstream contents(folder.path() / "contents.txt");
    for (std::string word, rest; contents >> word && std::getline(contents >> std::ws, rest);) {
      if (word == "database") all.push_back({release, rest, "", {}});
      if (word == "engine") all.back().engine = rest;
      if (word == "family") all.back().families[rest.substr(0, rest.find(": "))] = rest.substr(rest.find(": ") + 2);
    }
  }
  std::sort(all.begin(), all.end(),
            [](const Golden& a, const Golden& b) { return a.release + a.name < b.release + b.name; });
  return all;
}

// A property that this version does not know, as a later one may add.
class LaterProperty : public rocksdb::TablePropertiesCollectorFactory {
 public:
  const char* Name() const override { return "cairn.Later"; }
  rocksdb::TablePropertiesCollector* CreateTablePropertiesCollector(Context /*context*/) override {
    class Collector : public rocksdb::TablePropertiesCollector {
     public:
      const char* Name() const override { return "cairn.Later"; }
      Status Finish(rocksdb::UserCollectedProperties* properties) override {
        (*properties)["cairn.later"] = std::string(100, 'l');
        return Status::OK();
      }
      rocksdb::UserCollectedProperties GetReadableProperties() const override { return {}; }
    };
    return new Collector();
  }
};

// An open database.
class Opened {
 public:
  Status Open(const rocksdb::DBOptions& options, const std::string& path,
              const std::vector<ColumnFamilyDescriptor>& families) {
    const Status s = DB::Open(options, path, families, &handles_, port::Into(&opened_));
    return Took(s);
  }
  // With what its own OPTIONS file says.
  Status OpenAsStored(const std::string& path) {
    std::vector<std::string> names;
    return Took(OpenWithStoredOptions(path, &names, &handles_, &opened_));
  }
  ~Opened() { Close(); }
  void Close() {
    for (ColumnFamilyHandle* handle : handles_) EXPECT_OK(db_->DestroyColumnFamilyHandle(handle));
    handles_.clear();
    if (db_ != nullptr) EXPECT_OK(db_->Close());
    db_.reset();
  }

  DB* db() const { return db_.get(); }
  const std::vector<ColumnFamilyHandle*>& families() const { return handles_; }

 private:
  Status Took(const Status& s) {
    db_.reset(s.ok() ? opened_ : nullptr);
    return s;
  }

  DB* opened_ = nullptr;
  std::unique_ptr<DB> db_;
  std::vector<ColumnFamilyHandle*> handles_;
};

class GoldenTest : public ::testing::TestWithParam<Golden> {
 protected:
  // Anew, as the archive has it.
  void Unpack(const Golden& golden) {
    fs::remove_all(dir_ / golden.name);
    const std::string archive = GoldenFolder() + golden.release + "/" + golden.name + ".tar.gz";
    ASSERT_EQ(std::system(("tar -xzf '" + archive + "' -C '" + dir_.path() + "'").c_str()), 0) << archive;
    path_ = dir_ / golden.name;
  }

  static rocksdb::DBOptions OptionsOf(const Golden& golden, std::vector<ColumnFamilyDescriptor>* families) {
    return golden::OptionsOf({golden.name.c_str(), "", false}, golden.engine, families);
  }

  void ExpectContents(const Opened& opened) {
    ASSERT_EQ(opened.families().size(), GetParam().families.size());
    for (ColumnFamilyHandle* family : opened.families()) {
      Content content;
      ASSERT_OK(ReadAll(opened.db(), family, &content));
      EXPECT_EQ(Describe(content), GetParam().families.at(family->GetName())) << family->GetName();
      ExpectAnswers(opened.db(), family, content);
      contents_[family->GetName()] = content;
    }
  }

  static void ExpectAnswers(DB* db, ColumnFamilyHandle* family, const Content& content) {
    for (const auto& [key, value] : content) {
      std::string read;
      ASSERT_OK(db->Get(rocksdb::ReadOptions(), family, key, &read));
      ASSERT_EQ(read, value) << key;
      ASSERT_TRUE(db->Get(rocksdb::ReadOptions(), family, key + "~", &read).IsNotFound());
    }
    Content scanned;
    ASSERT_OK(ReadAll(db, family, &scanned));
    ASSERT_TRUE(scanned == content) << Describe(scanned) << " instead of " << Describe(content);
  }

  // New keys, overwritten ones, deleted ones, merged ones.
  void Write(DB* db, ColumnFamilyHandle* family) {
    Content& content = contents_.at(family->GetName());
    const Content before = content;
    int i = 0;
    for (const auto& [key, value] : before) {
      const int kind = i++ % 8;
      if (kind == 0) {
        ASSERT_OK(db->Delete(rocksdb::WriteOptions(), family, key));
        content.erase(key);
      } else if (kind == 1) {
        ASSERT_OK(db->Merge(rocksdb::WriteOptions(), family, key, "merged"));
        content[key] += ",merged";
      } else if (kind < 4) {
        const std::string written = kind == 2 ? key : key + "#new";
        ASSERT_OK(db->Put(rocksdb::WriteOptions(), family, written, "written"));
        content[written] = "written";
      }
    }
  }

  void GoOn(Opened* opened) {
    ExpectContents(*opened);
    if (HasFatalFailure()) return;
    DB* const db = opened->db();
    ASSERT_OK(db->VerifyChecksum());
    for (ColumnFamilyHandle* family : opened->families()) {
      Write(db, family);
      ASSERT_OK(db->Flush(rocksdb::FlushOptions(), family));
      ExpectAnswers(db, family, contents_.at(family->GetName()));
      ASSERT_OK(db->CompactRange(rocksdb::CompactRangeOptions(), family, nullptr, nullptr));
      ExpectAnswers(db, family, contents_.at(family->GetName()));
    }
    ASSERT_OK(db->VerifyChecksum());
    opened->Close();
  }

  // The database that another test of this kind needs.
  static Golden Find(const std::string& name) {
    for (const Golden& golden : ReadContents()) {
      if (golden.name == name) return golden;
    }
    ADD_FAILURE() << "there is no golden database " << name;
    return {};
  }

  // The status of opening it, or of reading all of it.
  Status OpenAndRead(const Golden& golden) {
    std::vector<ColumnFamilyDescriptor> families;
    const rocksdb::DBOptions options = OptionsOf(golden, &families);
    Opened opened;
    Status s = opened.Open(options, path_, families);
    Content content;
    for (ColumnFamilyHandle* family : opened.families()) {
      if (s.ok()) s = ReadAll(opened.db(), family, &content);
    }
    return s;
  }

  // Lets `change` do what it does with the files of that suffix; returns how many it has changed.
  template <class Change>
  int ChangeFiles(const std::string& suffix, const Change& change) {
    int changed = 0;
    for (const auto& file : fs::directory_iterator(path_)) {
      const std::string name = file.path();
      if (name.size() < suffix.size() || name.compare(name.size() - suffix.size(), suffix.size(), suffix) != 0)
        continue;
      std::string bytes = Bytes(name);
      if (!change(&bytes)) continue;
      std::ofstream(name, std::ios::binary) << bytes;
      ++changed;
    }
    return changed;
  }

  // Raises the version behind `mark` in every table that has one; `repair` does what else it takes.
  template <class Repair>
  void RaiseVersions(const std::string& mark, const Repair& repair) {
    const auto raise = [&](std::string* bytes) {
      const size_t at = bytes->rfind(mark);
      if (at == std::string::npos) return false;
      ++(*bytes)[at + 8];
      repair(bytes, at);
      return true;
    };
    EXPECT_GT(ChangeFiles(".sst", raise), 0);
  }

  static void ExpectRefused(const Status& s, const std::string& file, int version) {
    EXPECT_TRUE(s.IsNotSupported()) << s.ToString();
    EXPECT_CONTAINS(s.ToString(), file);
    EXPECT_CONTAINS(s.ToString(), "format version " + std::to_string(version) + "; Cairn ");
    EXPECT_CONTAINS(s.ToString(), ": use a later Cairn");
  }

  test::TempDir dir_;
  std::string path_;
  std::map<std::string, Content> contents_;
};

TEST_P(GoldenTest, WithItsOwnOptionsFile) {
  Unpack(GetParam());
  Opened opened;
  ASSERT_OK(opened.OpenAsStored(path_));
  GoOn(&opened);
  ASSERT_OK(opened.OpenAsStored(path_));
  for (ColumnFamilyHandle* family : opened.families()) {
    ExpectAnswers(opened.db(), family, contents_.at(family->GetName()));
  }
}

// And with tables that have a property which this version does not know.
TEST_P(GoldenTest, WithTheEngineAsAnOptionString) {
  Unpack(GetParam());
  std::vector<ColumnFamilyDescriptor> families;
  rocksdb::DBOptions options = OptionsOf(GetParam(), &families);
  for (ColumnFamilyDescriptor& family : families) {
    family.options.table_properties_collector_factories.push_back(std::make_shared<LaterProperty>());
  }
  Opened opened;
  ASSERT_OK(opened.Open(options, path_, families));
  GoOn(&opened);
  options = OptionsOf(GetParam(), &families);
  ASSERT_OK(opened.Open(options, path_, families));
  for (ColumnFamilyHandle* family : opened.families()) {
    ExpectAnswers(opened.db(), family, contents_.at(family->GetName()));
    rocksdb::TablePropertiesCollection properties;
    ASSERT_OK(opened.db()->GetPropertiesOfAllTables(family, &properties));
    EXPECT_TRUE(std::any_of(properties.begin(), properties.end(), [](const auto& file) {
      return file.second->user_collected_properties.count("cairn.later") > 0;
    }));
  }
}

INSTANTIATE_TEST_SUITE_P(Databases, GoldenTest, ::testing::ValuesIn(ReadContents()),
                         [](const ::testing::TestParamInfo<Golden>& golden) {
                           std::string name = golden.param.name + "_" + golden.param.release;
                           std::replace(name.begin(), name.end(), '.', '_');
                           return name;
                         });

// A cache of its own finds its answers; the one above the database begins empty, because a copy may be older than they.
using GoldenCacheTest = GoldenTest;
TEST_F(GoldenCacheTest, HasItsAnswers) {
  Unpack(Find(kCached));
  std::unique_ptr<ResultCache> cache;
  const IndexStatus s = ResultCache::Create(CacheOptions(path_), &cache);
  ASSERT_TRUE(s.ok()) << s.message();
  EXPECT_EQ(cache->GetStatistics().recovered, uint64_t{kCachedAnswers});
  for (int i = 0; i < kCachedAnswers; ++i) {
    std::string value;
    ASSERT_EQ(cache->Get(CachedKey(i), &value), ResultCache::Answer::kValue);
    EXPECT_EQ(value, "value of " + CachedKey(i));
  }
}

using LaterVersionTest = GoldenTest;
TEST_F(LaterVersionTest, OfAnHTable) {
  const Golden golden = Find("trie");
  Unpack(golden);
  constexpr uint64_t kMagic = 0x9c41b7e25d0f8a63u;
  const std::string magic(reinterpret_cast<const char*>(&kMagic), sizeof(kMagic));
  constexpr size_t kHeaderBytes = 220;
  RaiseVersions(magic, [](std::string* bytes, size_t at) {
    std::string sum;
    PutU32(&sum, Crc32c(bytes->data() + at, kHeaderBytes - 4));
    bytes->replace(at + kHeaderBytes - 4, 4, sum);
  });
  ExpectRefused(OpenAndRead(golden), ".sst", 3);
}

TEST_F(LaterVersionTest, OfAFilterBlock) {
  const Golden golden = Find("trie");
  Unpack(golden);
  RaiseVersions("CairnFLT", [](std::string*, size_t) {});
  ExpectRefused(OpenAndRead(golden), ".sst", 2);
}

TEST_F(LaterVersionTest, OfAPoolFile) {
  const Golden golden = Find("durable");
  Unpack(golden);
  EXPECT_EQ(ChangeFiles("CAIRN_POOL",
                        [](std::string* bytes) {
                          ++(*bytes)[7];
                          ++(*bytes)[4096 + 7];
                          return true;
                        }),
            1);
  const std::string before = Bytes(path_ + "/CAIRN_POOL");
  ExpectRefused(OpenAndRead(golden), path_ + "/CAIRN_POOL", 5);
  DB* db = nullptr;
  ExpectRefused(DB::OpenForReadOnly(rocksdb::Options(), path_, port::Into(&db)), path_ + "/CAIRN_POOL", 5);
  EXPECT_TRUE(Bytes(path_ + "/CAIRN_POOL") == before);
}

TEST_F(LaterVersionTest, OfAPoolNote) {
  const Golden golden = Find("durable");
  Unpack(golden);
  EXPECT_EQ(ChangeFiles("CAIRN_POOL_NOTE",
                        [](std::string* bytes) {
                          ++(*bytes)[bytes->find('\n') - 1];
                          return true;
                        }),
            1);
  ExpectRefused(OpenAndRead(golden), path_ + "/CAIRN_POOL_NOTE", 3);
}

// The database opens, with its cache in memory.
TEST_F(LaterVersionTest, OfAResultCacheFile) {
  const Golden golden = Find(kCached);
  Unpack(golden);
  EXPECT_EQ(ChangeFiles(kAnswers,
                        [](std::string* bytes) {
                          constexpr size_t kChecksumAt = 56;
                          (*bytes)[8] = 4;  // 3 is that of survive_power_loss
                          const uint64_t sum = XXH3_64bits(bytes->data(), kChecksumAt);
                          bytes->replace(kChecksumAt, sizeof(sum), reinterpret_cast<const char*>(&sum), sizeof(sum));
                          return true;
                        }),
            1);
  const std::string before = Bytes(path_ + "/" + kAnswers);
  EXPECT_OK(OpenAndRead(golden));
  EXPECT_TRUE(Bytes(path_ + "/" + kAnswers) == before);
  const std::string log = Bytes(path_ + "/LOG");
  EXPECT_CONTAINS(log, "it is in memory only: result cache file " + path_ + "/" + kAnswers + " has format version 4; ");
}

}  // namespace
}  // namespace cairn::golden
