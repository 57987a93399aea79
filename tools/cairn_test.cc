// Runs the program `cairn` as a user does. Random choices come from CAIRN_SEED when that is set.

#include <cairn/db.h>
#include <cairn/trie.h>
#include <cairn/version.h>
#include <gtest/gtest.h>
#include <signal.h>
#include <unistd.h>

#include <cerrno>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <map>
#include <memory>
#include <random>
#include <set>

#include "options/options_parser.h"
#include "rocksdb/comparator.h"
#include "rocksdb/convenience.h"
#include "rocksdb/db.h"
#include "rocksdb/merge_operator.h"
#include "rocksdb/port/open_into.h"
#include "rocksdb/slice_transform.h"
#include "rocksdb/utilities/options_util.h"
#include "rocksdb/utilities/transaction_db.h"
#include "rocksdb/version.h"
#include "test/testutil/expect_contains.h"
#include "test/testutil/run_program.h"
#include "test/testutil/temp_dir.h"
#include "test/testutil/test_seed.h"
#include "tools/convert_state.h"
#include "util/rocksdb_names.h"

namespace cairn {
namespace {

namespace fs = std::filesystem;
using rocksdb::WideColumns;

// Everything in a column family, columns and all.
using Contents = std::map<std::string, std::vector<std::pair<std::string, std::string>>>;

class CairnTest : public ::testing::Test {
 protected:
  CairnTest() {
    random_.seed(Seed());
    RecordProperty("seed", std::to_string(Seed()));
  }

  std::string Path(const std::string& name) const { return directory_ / name; }

  std::string RandomText(size_t size) {
    std::string text(size, 0);
    for (char& c : text) c = static_cast<char>(random_());
    return text;
  }

  // Opens what is stored there, all column families.
  struct Opened {
    DB* db = nullptr;
    std::vector<ColumnFamilyHandle*> handles;
    ~Opened() { Close(); }
    void Close() {
      if (db == nullptr) return;
      for (ColumnFamilyHandle* handle : handles) db->DestroyColumnFamilyHandle(handle).PermitUncheckedError();
      handles.clear();
      delete db;
      db = nullptr;
    }
    ColumnFamilyHandle* Find(const std::string& name) const {
      for (ColumnFamilyHandle* handle : handles) {
        if (handle->GetName() == name) return handle;
      }
      return nullptr;
    }
  };

  static Status Load(const std::string& path, rocksdb::DBOptions* options,
                     std::vector<ColumnFamilyDescriptor>* families) {
    rocksdb::ConfigOptions config;
    config.ignore_unsupported_options = false;
    return rocksdb::LoadLatestOptions(config, path, options, families);
  }

  static void OpenStored(const std::string& path, Opened* opened) {
    rocksdb::DBOptions options;
    std::vector<ColumnFamilyDescriptor> families;
    ASSERT_TRUE(Load(path, &options, &families).ok());
    Status s = DB::Open(options, path, families, &opened->handles, port::Into(&opened->db));
    ASSERT_TRUE(s.ok()) << s.ToString();
  }

  static Contents Read(DB* db, ColumnFamilyHandle* handle) {
    Contents contents;
    std::unique_ptr<rocksdb::Iterator> it(db->NewIterator(rocksdb::ReadOptions(), handle));
    for (it->SeekToFirst(); it->Valid(); it->Next()) {
      auto& columns = contents[it->key().ToString()];
      for (const auto& column : it->columns()) {
        columns.emplace_back(column.name().ToString(), column.value().ToString());
      }
    }
    EXPECT_TRUE(it->status().ok()) << it->status().ToString();
    return contents;
  }

  static std::map<std::string, Contents> ReadAll(const std::string& path) {
    std::map<std::string, Contents> all;
    Opened opened;
    OpenStored(path, &opened);
    for (ColumnFamilyHandle* handle : opened.handles) all[handle->GetName()] = Read(opened.db, handle);
    return all;
  }

  static std::string StateText(const std::string& path) {
    std::string text;
    rocksdb::ReadFileToString(rocksdb::Env::Default(), path + "/" + kConvertStateFile, &text).PermitUncheckedError();
    return text;
  }

  // A database of three column families: plain values with overwrites and deletions, merge operands and wide columns in
  // reverse order, and an empty one. Some of it is in the WAL only.
  void MakeStock(const std::string& path, int records) {
    rocksdb::Options options;
    options.create_if_missing = true;
    options.create_missing_column_families = true;
    options.write_buffer_size = 256 << 10;
    rocksdb::ColumnFamilyOptions plain(options);
    plain.compression = rocksdb::kNoCompression;
    rocksdb::ColumnFamilyOptions wide(options);
    wide.comparator = rocksdb::ReverseBytewiseComparator();
    wide.compaction_style = rocksdb::kCompactionStyleUniversal;
    ASSERT_TRUE(
        rocksdb::MergeOperator::CreateFromString(rocksdb::ConfigOptions(), "stringappend", &wide.merge_operator).ok());
    Opened opened;
    Status s = DB::Open(options, path, {{"default", plain}, {"wide", wide}, {"empty", plain}}, &opened.handles,
                        port::Into(&opened.db));
    ASSERT_TRUE(s.ok()) << s.ToString();
    DB* db = opened.db;
    for (int i = 0; i < records; i++) {
      const std::string key = "key" + std::to_string(random_() % (static_cast<unsigned>(records) * 2));
      if (random_() % 10 == 0) {
        ASSERT_TRUE(db->Delete(WriteOptions(), opened.handles[0], key).ok());
      } else {
        ASSERT_TRUE(db->Put(WriteOptions(), opened.handles[0], key, RandomText(random_() % 200)).ok());
      }
      if (i % 10 != 0) continue;
      ASSERT_TRUE(db->Merge(WriteOptions(), opened.handles[1], key, RandomText(5)).ok());
      const std::string name = RandomText(4);
      const std::string value = RandomText(20);
      ASSERT_TRUE(
          db->PutEntity(WriteOptions(), opened.handles[1], "e" + key, WideColumns{{"a", name}, {"b", value}}).ok());
      ASSERT_TRUE(
          db->PutEntity(WriteOptions(), opened.handles[1], "f" + key, WideColumns{{"", name}, {"c", value}}).ok());
    }
    ASSERT_TRUE(db->DeleteRange(WriteOptions(), opened.handles[0], "key1", "key15").ok());
    ASSERT_TRUE(db->Put(WriteOptions(), opened.handles[0], "", "the empty key").ok());
    ASSERT_TRUE(db->Put(WriteOptions(), opened.handles[0], std::string("\0\n", 2), "").ok());
  }

  std::mt19937_64 random_;
  const test::TempDir directory_;
};

std::map<std::string, uintmax_t> FilesOf(const std::string& path) {
  std::map<std::string, uintmax_t> files;
  for (const auto& entry : fs::directory_iterator(path)) {
    files[entry.path().filename().string()] =
        entry.file_size() * 1000003 + static_cast<uintmax_t>(entry.last_write_time().time_since_epoch().count());
  }
  return files;
}

TEST_F(CairnTest, HelpAndUnknownCommands) {
  ProgramResult result = Cairn({"help"});
  EXPECT_EQ(0, result.exit_code);
  for (const char* command : {"compact", "convert", "options", "repair", "stats"}) {
    EXPECT_CONTAINS(result.out, std::string("  ") + command);
    EXPECT_EQ(0, Cairn({"help", command}).exit_code);
    EXPECT_CONTAINS(Cairn({command, "--help"}).out, std::string("Usage: cairn ") + command);
    EXPECT_EQ(2, Cairn({command, "--nonsense"}).exit_code);
  }
  const std::string versions = std::string("cairn ") + Version() + ", RocksDB " + rocksdb::GetRocksVersionAsString();
  EXPECT_EQ(versions + "\n", Cairn({"version"}).out);
  EXPECT_EQ(versions + "\n", Cairn({"--version"}).out);
  EXPECT_EQ(2, Cairn({}).exit_code);
  result = Cairn({"nonsense"});
  EXPECT_EQ(2, result.exit_code);
  EXPECT_EQ("cairn: there is no command \"nonsense\"; `cairn help` lists them.\n", result.err);
  EXPECT_EQ("", result.out);
}

TEST_F(CairnTest, OptionsAreACompleteOptionsFile) {
  ProgramResult result = Cairn({"options", "trie_sst", "--option", "fan_out=4;slots=10", "--option", "trigger=5",
                                "--rocksdb-option", "write_buffer_size=1048576;max_background_jobs=3"});
  ASSERT_EQ(0, result.exit_code) << result.err;
  const std::string file = Path("OPTIONS");
  ASSERT_TRUE(rocksdb::WriteStringToFile(rocksdb::Env::Default(), result.out, file).ok());
  rocksdb::ConfigOptions config;
  config.ignore_unknown_options = false;
  config.ignore_unsupported_options = false;
  rocksdb::DBOptions options;
  std::vector<ColumnFamilyDescriptor> families;
  Status s = rocksdb::LoadOptionsFromFile(config, file, &options, &families);
  ASSERT_TRUE(s.ok()) << s.ToString();
  ASSERT_EQ(1u, families.size());
  HashTrieOptions trie;
  ASSERT_TRUE(IsHashTrie(families[0].options, &trie));
  EXPECT_EQ(4, trie.fan_out);
  EXPECT_EQ(10, trie.slots);
  EXPECT_EQ(5, trie.trigger);
  EXPECT_EQ(1048576u, families[0].options.write_buffer_size);
  EXPECT_EQ(3, options.max_background_jobs);
  EXPECT_TRUE(options.listeners.empty());
  std::vector<ColumnFamilyHandle*> handles;
  DB* db = nullptr;
  s = DB::Open(options, Path("db"), families, &handles, port::Into(&db));
  ASSERT_TRUE(s.ok()) << s.ToString();
  delete handles[0];
  delete db;
}

// C, Rust and Go load options from a folder only.
TEST_F(CairnTest, OptionsIntoAFolder) {
  for (const char* engine : {"trie", "trie_sst", "silt", "stock"}) {
    const std::string folder = Path(engine);
    ProgramResult result = Cairn({"options", engine, "--into", folder, "--rocksdb-option", "write_buffer_size=1M"});
    ASSERT_EQ(0, result.exit_code) << result.err;
    EXPECT_EQ("", result.out);
    ASSERT_TRUE(fs::exists(folder + "/OPTIONS-000005"));
    rocksdb::DBOptions options;
    std::vector<ColumnFamilyDescriptor> families;
    ASSERT_TRUE(Load(folder, &options, &families).ok());
    ASSERT_EQ(1u, families.size());
    EXPECT_EQ(uint64_t{1} << 20, families[0].options.write_buffer_size);
    EXPECT_TRUE(Says(1, Cairn({"options", engine, "--into", folder}), {"holds OPTIONS-000005 already"}));
    // A database in the same folder replaces it by its own.
    for (int i = 0; i < 2; i++) {
      std::vector<ColumnFamilyHandle*> handles;
      DB* db = nullptr;
      const Status s = cairn::Open(options, folder, families, &handles, &db);
      ASSERT_TRUE(s.ok()) << s.ToString();
      ASSERT_TRUE(db->Put(WriteOptions(), "key", "value").ok());
      delete handles[0];
      delete db;
      ASSERT_TRUE(Load(folder, &options, &families).ok());
      EXPECT_EQ(uint64_t{1} << 20, families[0].options.write_buffer_size);
    }
    EXPECT_EQ(1, Cairn({"options", engine, "--into", folder}).exit_code);
  }
  EXPECT_EQ(1, Cairn({"options", "trie", "--into", Path("no/such/place")}).exit_code);
}

// The engines' memtables are sub-MemTables, unless the user names others; a way back to stock has none.
TEST_F(CairnTest, MemtablesOfTheEngines) {
  for (const char* engine : {"trie", "trie_sst", "silt", "ordered", "ordered_trie"}) {
    ASSERT_TRUE(Says(0, Cairn({"options", engine}), {"cairn.SubMemTable"}));
    for (const char* name : {"skip_list", "vector"}) {
      const ProgramResult result = Cairn({"options", engine, "--rocksdb-option", std::string("memtable=") + name});
      ASSERT_EQ(0, result.exit_code) << result.err;
      EXPECT_EQ(std::string::npos, result.out.find("cairn.SubMemTable")) << name;
    }
  }
  MakeStock(Path("stock"), 100);
  ASSERT_TRUE(Says(0, Cairn({"convert", Path("stock"), Path("trie"), "--to", "trie"})));
  ASSERT_TRUE(Says(0, Cairn({"convert", Path("trie"), Path("back"), "--to", "stock"})));
  ASSERT_TRUE(Says(0, Cairn({"stats", Path("trie")}), {"memtables: ", "plain memory, sealed in place"}));
  for (const auto& [place, memtable] : {std::make_pair("trie", "cairn.SubMemTable"), {"back", "SkipListFactory"}}) {
    rocksdb::DBOptions options;
    std::vector<ColumnFamilyDescriptor> families;
    ASSERT_TRUE(Load(Path(place), &options, &families).ok());
    for (const auto& family : families) EXPECT_STREQ(memtable, family.options.memtable_factory->Name());
  }
}

// RocksDB's parser takes the first digits, or what is left of a number that has no room.
TEST_F(CairnTest, OptionsOfRocksdbAreWholeNumbers) {
  for (const char* option :
       {"write_buffer_size=1.5M", "write_buffer_size=5e7", "write_buffer_size=64Q", "write_buffer_size=0x10",
        "write_buffer_size=-1", "max_background_jobs=4;write_buffer_size=64 M", "max_background_jobs=3.5",
        "max_bytes_for_level_multiplier=8x", "compression_opts={level=3x}", "compression_opts.level=3x",
        "table_factory={id=BlockBasedTable;block_size=4e3}", "block_based_table_factory={block_size=-1}",
        "block_based_table_factory={block_cache=64Q}", "block_based_table_factory={block_cache={capacity=5e7}}"}) {
    EXPECT_TRUE(Says(2, Cairn({"options", "stock", "--rocksdb-option", option}), {"number"}));
  }
  for (const char* option :
       {"write_buffer_size=64M;max_background_jobs=4", "write_buffer_size=2g", "max_open_files=-1", "compression=kZSTD",
        "max_bytes_for_level_multiplier=8", "max_bytes_for_level_multiplier=7.5", "compression_opts={level=-3}",
        "compression_opts=4:5:6:7", "paranoid_checks=true", "ttl=18446744073709551614", "enable_blob_files=1",
        "block_based_table_factory={block_size=16K;filter_policy=bloomfilter:10:false;block_cache=64M}",
        "block_based_table_factory={block_cache={capacity=64M;num_shard_bits=-1;high_pri_pool_ratio=0.25}}",
        "memtable=skip_list", "memtable_factory={id=cairn.SubMemTable;durable=true}", "prefix_extractor=fixed:8",
        "compression_per_level=kNoCompression:kZSTD", "max_bytes_for_level_multiplier_additional=1:2:3"}) {
    EXPECT_TRUE(Says(0, Cairn({"options", "stock", "--rocksdb-option", option})));
  }
}

TEST_F(CairnTest, OptionsErrors) {
  const struct {
    std::vector<std::string> words;
    const char* message;
  } cases[] = {
      {{"options", "nonsense"}, "there is no engine \"nonsense\"; there are stock, sub_memtables, leveled_ordered"},
      {{"options", "stock", "--option", "fan_out=8"}, "has no options of its own"},
      {{"options", "trie_sst", "--option", "fan_out=3"}, "fan_out"},
      {{"options", "trie_sst", "--option", "colour=3"}, "colour"},
      {{"options", "trie_sst", "--rocksdb-option", "colour=3"}, "colour"},
      {{"options", "trie_sst", "--rocksdb-option", "num_levels=3"}, "sets num_levels"},
      {{"options"}, "ENGINE is missing"},
  };
  for (const auto& c : cases) {
    const ProgramResult result = Cairn(c.words);
    EXPECT_EQ(2, result.exit_code) << c.message;
    EXPECT_CONTAINS(result.err, c.message);
    EXPECT_EQ("", result.out);
  }
}

TEST_F(CairnTest, RoundRobinByOptionsAndConversion) {
  ASSERT_TRUE(Says(0, Cairn({"options", "round_robin", "--option", "keys=50000000;zipf=0.99"}),
                   {"sst_partitioner_factory={id=cairn.RoundRobin;", "compaction_pri=kRoundRobin",
                    "level_compaction_dynamic_level_bytes=false", "max_bytes_for_level_multiplier=0.01"}));
  EXPECT_TRUE(Says(2, Cairn({"options", "round_robin", "--option", "pick=worst"}), {"it may be round_robin or best"}));
  EXPECT_TRUE(Says(2, Cairn({"options", "round_robin", "--rocksdb-option", "compaction_pri=kByCompensatedSize"}),
                   {"sets compaction_pri"}));

  MakeStock(Path("stock"), 20000);
  const auto expected = ReadAll(Path("stock"));
  for (const auto& [from, to, engine] :
       {std::make_tuple("stock", "turns", "round_robin"), std::make_tuple("turns", "back", "stock"),
        std::make_tuple("turns", "trie", "ordered_trie")}) {
    ASSERT_TRUE(Says(0, Cairn({"convert", Path(from), Path(to), "--to", engine, "--column-family", "default"})));
    EXPECT_TRUE(expected == ReadAll(Path(to))) << to;
    rocksdb::DBOptions options;
    std::vector<ColumnFamilyDescriptor> families;
    ASSERT_TRUE(Load(Path(to), &options, &families).ok());
    for (const auto& family : families) {
      if (family.name != rocksdb::kDefaultColumnFamilyName) continue;
      const bool in_turns = family.options.compaction_pri == rocksdb::kRoundRobin;
      EXPECT_EQ(in_turns, std::string(engine) == "round_robin") << to;
      const auto& partitioner = family.options.sst_partitioner_factory;
      EXPECT_EQ(partitioner == nullptr, std::string(engine) == "stock") << to;
    }
  }
}

// The number behind "name": in JSON text, at its last occurrence.
double NumberIn(const std::string& json, const std::string& name) {
  const size_t at = json.rfind("\"" + name + "\":");
  return at == std::string::npos ? -1 : std::strtod(json.c_str() + at + name.size() + 3, nullptr);
}

TEST_F(CairnTest, SiltByOptionsAndConversion) {
  ASSERT_TRUE(Says(0,
                   Cairn({"options", "silt", "--option", "partitions=1;merge_trigger=5;merge_threads=3;seed=7",
                          "--rocksdb-option", "write_buffer_size=1000000"}),
                   {"cairn.EctTable", "cairn.HashOrder:xxh3:7", "level0_file_num_compaction_trigger=15",
                    "max_subcompactions=3", "write_buffer_size=1000000"}));
  EXPECT_TRUE(Says(2, Cairn({"options", "silt", "--rocksdb-option", "num_levels=3"}), {"sets num_levels"}));

  MakeStock(Path("stock"), 20000);
  const auto expected = ReadAll(Path("stock"));
  const std::string steps[][2] = {
      {"stock", "silt"}, {"silt", "trie_sst"}, {"trie_sst", "silt_again"}, {"silt_again", "stock_again"}};
  for (const auto& [from, to] : steps) {
    const std::string engine = to.substr(0, to.find("_again"));
    ASSERT_TRUE(Says(0, Cairn({"convert", Path(from), Path(to), "--to", engine, "--compact"})));
    EXPECT_TRUE(expected == ReadAll(Path(to))) << to;
  }
  ProgramResult result = Cairn({"stats", Path("silt"), "--column-family", "default"});
  EXPECT_CONTAINS(result.out, "SortedStore");
  EXPECT_CONTAINS(result.out, "block reads per lookup");
  result = Cairn({"stats", Path("silt"), "--json", "--column-family", "default"});
  EXPECT_GT(NumberIn(result.out, "memory_bytes_per_key"), 0);
  EXPECT_CONTAINS(result.out, "\"predicted\"");
  std::vector<std::string> texts;
  for (const char* name : {"stock", "stock_again"}) {
    rocksdb::DBOptions options;
    std::vector<ColumnFamilyDescriptor> families;
    ASSERT_TRUE(Load(Path(name), &options, &families).ok());
    texts.emplace_back();
    ASSERT_TRUE(rocksdb::GetStringFromColumnFamilyOptions(&texts.back(), families[0].options).ok());
  }
  EXPECT_EQ(texts[0], texts[1]);
}

TEST_F(CairnTest, OrderedByOptionsAndConversion) {
  ASSERT_TRUE(Says(0, Cairn({"options", "ordered", "--option", "runs=12;order_bits=7"}),
                   {"cairn.OrderedTable", "cairn.SubMemTable", "kCompactionStyleUniversal",
                    "level0_file_num_compaction_trigger=12"}));
  ASSERT_TRUE(Says(0, Cairn({"options", "leveled_ordered", "--rocksdb-option", "num_levels=5"}),
                   {"cairn.OrderedTable", "kCompactionStyleLevel"}));
  ASSERT_TRUE(Says(0, Cairn({"options", "ordered_trie", "--option", "fan_out=8"}),
                   {"cairn.OrderedTable", "kCompactionStyleNone", "order=key"}));
  EXPECT_TRUE(Says(2, Cairn({"options", "ordered_trie", "--option", "order=hash"}), {"it may be key"}));
  EXPECT_TRUE(Says(2, Cairn({"options", "ordered", "--option", "order_bits=1"}), {"it may be 2.5 to 20"}));

  MakeStock(Path("stock"), 20000);
  const auto expected = ReadAll(Path("stock"));
  // One of its column families is in reverse order.
  EXPECT_TRUE(Says(1, Cairn({"convert", Path("stock"), Path("ordered"), "--to", "ordered"}),
                   {"rocksdb.ReverseBytewiseComparator"}));
  const std::string steps[][2] = {{"stock", "ordered"},
                                  {"ordered", "leveled_ordered"},
                                  {"leveled_ordered", "trie_sst"},
                                  {"trie_sst", "ordered_trie"},
                                  {"ordered_trie", "ordered_again"},
                                  {"ordered_again", "ordered_trie_again"},
                                  {"ordered_trie_again", "stock_again"}};
  for (const auto& [from, to] : steps) {
    const std::string engine = to.substr(0, to.find("_again"));
    ASSERT_TRUE(
        Says(0, Cairn({"convert", Path(from), Path(to), "--to", engine, "--compact", "--column-family", "default"})));
    EXPECT_TRUE(expected == ReadAll(Path(to))) << to;
    // What the engine has set of universal compaction's options goes with it.
    rocksdb::DBOptions options;
    std::vector<ColumnFamilyDescriptor> families;
    ASSERT_TRUE(Load(Path(to), &options, &families).ok());
    const unsigned ratio = families[0].options.compaction_options_universal.size_ratio;
    EXPECT_EQ(engine == "ordered" ? 100u : 1u, ratio) << to;
  }
  ASSERT_TRUE(Says(0, Cairn({"stats", Path("ordered_trie"), "--column-family", "default"}), {"depth", "bits per key"}));
  // A trie takes any order of keys, so all column families come with it.
  ASSERT_TRUE(Says(
      0, Cairn({"convert", Path("stock"), Path("all"), "--to", "ordered_trie", "--option", "fan_out=8", "--compact"})));
  EXPECT_TRUE(expected == ReadAll(Path("all")));
  ASSERT_TRUE(Says(0, Cairn({"convert", Path("all"), Path("all_back"), "--to", "stock"})));
  EXPECT_TRUE(expected == ReadAll(Path("all_back")));
  ProgramResult result = Cairn({"stats", Path("ordered"), "--column-family", "default"});
  EXPECT_CONTAINS(result.out, "sorted runs");
  EXPECT_CONTAINS(result.out, "bits per key");
  result = Cairn({"stats", Path("ordered"), "--json", "--column-family", "default"});
  EXPECT_GT(NumberIn(result.out, "filter_bytes"), 0);
  EXPECT_CONTAINS(result.out, "\"deferred\"");
}

TEST_F(CairnTest, StatsAndCompact) {
  MakeStock(Path("stock"), 20000);
  ASSERT_EQ(
      0, Cairn({"convert", Path("stock"), Path("db"), "--to", "trie_sst", "--option",
                "fan_out=2;slots=4;trigger=2;root_trigger=2", "--column-family", "default", "--column-family", "wide"})
             .exit_code);
  const auto expected = ReadAll(Path("db"));
  ASSERT_TRUE(Says(0, Cairn({"stats", Path("db")}),
                   {"default", "write amplification", "column family empty: no trie; 0 files"}));
  const auto files = FilesOf(Path("db"));
  ProgramResult result = Cairn({"stats", Path("db"), "--json", "--column-family", "default"});
  ASSERT_EQ(0, result.exit_code) << result.err;
  EXPECT_EQ(files, FilesOf(Path("db"))) << "stats wrote";
  const double bytes = NumberIn(result.out, "bytes");
  EXPECT_GT(bytes, 100000);
  EXPECT_GT(NumberIn(result.out, "files"), 0);
  EXPECT_GE(NumberIn(result.out, "write_amplification"), 1);

  EXPECT_TRUE(Says(0, Cairn({"compact", Path("db"), "--column-family", "default", "--key", "key1", "--depth-of", "2"}),
                   {", container "}));
  EXPECT_EQ(0, Cairn({"compact", Path("db"), "--container", "1/0", "--column-family", "wide"}).exit_code);
  EXPECT_EQ(0, Cairn({"compact", Path("db"), "--depth", "0"}).exit_code);
  result = Cairn({"compact", Path("db")});
  EXPECT_EQ(0, result.exit_code) << result.err;
  EXPECT_CONTAINS(result.out, "column family wide: ");
  EXPECT_CONTAINS(result.out, " before, ");
  EXPECT_CONTAINS(result.err, "compactions");
  EXPECT_TRUE(expected == ReadAll(Path("db")));
  const auto tables = [&] {
    std::set<std::string> names;
    for (const auto& entry : fs::directory_iterator(Path("db"))) {
      if (entry.path().extension() == ".sst") names.insert(entry.path().filename().string());
    }
    return names;
  };
  const std::set<std::string> merged = tables();
  EXPECT_EQ(0, Cairn({"compact", Path("db")}).exit_code);
  EXPECT_EQ(merged, tables());
  EXPECT_EQ(0, Cairn({"compact", Path("db"), "--rewrite"}).exit_code);
  for (const std::string& name : tables()) EXPECT_EQ(merged.count(name), 0u) << name;
  EXPECT_TRUE(expected == ReadAll(Path("db")));

  // Where another process has it open, there is reading and no writing.
  Opened opened;
  OpenStored(Path("db"), &opened);
  EXPECT_EQ(0, Cairn({"stats", Path("db")}).exit_code);
  EXPECT_TRUE(Says(1, Cairn({"compact", Path("db")}), {"is open in another process"}));

  // Nobody has it open, and it cannot be locked all the same, as on a file system that is read-only.
  opened.Close();
  std::filesystem::remove(Path("db/LOCK"));
  std::filesystem::create_directory(Path("db/LOCK"));
  for (const char* const command : {"compact", "recover"}) {
    EXPECT_TRUE(Says(1, Cairn({command, Path("db")}), {strerror(EISDIR)}));
  }
}

TEST_F(CairnTest, StatsAndCompactErrors) {
  MakeStock(Path("stock"), 100);
  const struct {
    std::vector<std::string> words;
    int exit_code;
    const char* message;
  } cases[] = {
      {{"stats", Path("nowhere")}, 1, "is no RocksDB database"},
      {{"stats", Path("stock"), "--column-family", "nonsense"}, 1, "there is no column family \"nonsense\""},
      {{"repair", Path("nowhere")}, 1, "has no OPTIONS file"},
      {{"compact", Path("nowhere")}, 1, "is no RocksDB database"},
      {{"compact", Path("stock")}, 1, "there is no trie in this database"},
      {{"compact", Path("stock"), "--column-family", "wide"}, 1, "is no trie"},
      {{"compact", Path("stock"), "--key", "a", "--container", "1"}, 2, "exclude each other"},
      {{"compact", Path("stock"), "--hex"}, 2, "belong to --key"},
      {{"compact", Path("stock"), "--container", "1//2"}, 2, "it must be like 3 or 3/0"},
      {{"compact", Path("stock"), "--key", "xyz", "--hex"}, 2, "must be hexadecimal"},
  };
  for (const auto& c : cases) {
    const ProgramResult result = Cairn(c.words);
    EXPECT_EQ(c.exit_code, result.exit_code) << c.message;
    EXPECT_CONTAINS(result.err, c.message);
    EXPECT_EQ("", result.out);
  }
  EXPECT_EQ(0, Cairn({"stats", Path("stock")}).exit_code);
}

TEST_F(CairnTest, ConvertThereAndBack) {
  MakeStock(Path("stock"), 20000);
  const auto expected = ReadAll(Path("stock"));
  ASSERT_EQ(3u, expected.size());
  ASSERT_GT(expected.at("wide").size(), 1000u);
  const auto files = FilesOf(Path("stock"));

  ASSERT_TRUE(Says(0, Cairn({"convert", Path("stock"), Path("trie"), "--to", "trie_sst", "--option", "fan_out=4"}),
                   {"is whole: "}));
  EXPECT_EQ(files, FilesOf(Path("stock"))) << "the source was touched";
  EXPECT_TRUE(expected == ReadAll(Path("trie")));
  rocksdb::DBOptions options;
  std::vector<ColumnFamilyDescriptor> families;
  ASSERT_TRUE(Load(Path("trie"), &options, &families).ok());
  for (const auto& family : families) {
    HashTrieOptions trie;
    EXPECT_TRUE(IsHashTrie(family.options, &trie)) << family.name;
    EXPECT_EQ(4, trie.fan_out);
    EXPECT_EQ(family.name == "wide", family.options.merge_operator != nullptr);
    EXPECT_STREQ("cairn.SubMemTable", family.options.memtable_factory->Name());
  }

  ASSERT_TRUE(Says(0, Cairn({"convert", Path("trie"), Path("back"), "--to", "stock"})));
  EXPECT_TRUE(expected == ReadAll(Path("back")));
  ASSERT_TRUE(Load(Path("back"), &options, &families).ok());
  ASSERT_EQ(3u, families.size());
  for (const auto& family : families) {
    EXPECT_FALSE(IsTrie(family.options));
    const bool wide = family.name == "wide";
    EXPECT_EQ(wide ? rocksdb::ReverseBytewiseComparator() : rocksdb::BytewiseComparator(), family.options.comparator);
    EXPECT_EQ(wide ? rocksdb::kCompactionStyleUniversal : rocksdb::kCompactionStyleLevel,
              family.options.compaction_style);
    EXPECT_EQ(7, family.options.num_levels);
    EXPECT_EQ(nullptr, family.options.sst_partitioner_factory);
    EXPECT_STREQ("BlockBasedTable", family.options.table_factory->Name());
  }
  EXPECT_TRUE(options.listeners.empty());
}

// A trie in key order takes any, and nobody remembers what a database was before that has always been one.
TEST_F(CairnTest, ConvertKeepsAnOrderThatIsNotTheEngines) {
  rocksdb::Options options;
  options.create_if_missing = true;
  options.comparator = rocksdb::ReverseBytewiseComparator();
  ASSERT_TRUE(UseTrie(&options, KeyTrieOptions()).ok());
  DB* db = nullptr;
  ASSERT_TRUE(DB::Open(options, Path("reverse"), port::Into(&db)).ok());
  for (int i = 0; i < 100; ++i) ASSERT_TRUE(db->Put(WriteOptions(), std::to_string(i), "v").ok());
  delete db;
  for (const char* engine : {"ordered_trie", "stock"}) {
    SCOPED_TRACE(engine);
    ASSERT_TRUE(Says(0, Cairn({"convert", Path("reverse"), Path(engine), "--to", engine})));
    rocksdb::DBOptions stored;
    std::vector<ColumnFamilyDescriptor> families;
    ASSERT_TRUE(Load(Path(engine), &stored, &families).ok());
    EXPECT_EQ(rocksdb::ReverseBytewiseComparator(), families[0].options.comparator);
    EXPECT_EQ(100u, ReadAll(Path(engine))["default"].size());
  }
  EXPECT_TRUE(Says(1, Cairn({"convert", Path("reverse"), Path("ordered"), "--to", "ordered"}),
                   {"rocksdb.ReverseBytewiseComparator"}));
}

TEST_F(CairnTest, ConvertTwiceDoesNothingTwice) {
  MakeStock(Path("stock"), 2000);
  const std::vector<std::string> words = {"convert", Path("stock"), Path("trie"), "--to", "trie_sst"};
  ASSERT_EQ(0, Cairn(words).exit_code);
  const auto files = FilesOf(Path("trie"));
  EXPECT_TRUE(Says(0, Cairn(words), {"nothing to do"}));
  EXPECT_EQ(files, FilesOf(Path("trie")));
}

TEST_F(CairnTest, ConvertOneColumnFamilyOnly) {
  MakeStock(Path("stock"), 2000);
  const auto expected = ReadAll(Path("stock"));
  ASSERT_TRUE(Says(0, Cairn({"convert", Path("stock"), Path("mixed"), "--to", "trie_sst", "--column-family", "default",
                             "--compact"})));
  rocksdb::DBOptions options;
  std::vector<ColumnFamilyDescriptor> families;
  ASSERT_TRUE(Load(Path("mixed"), &options, &families).ok());
  for (const auto& family : families) EXPECT_EQ(family.name == "default", IsTrie(family.options));
  EXPECT_TRUE(expected == ReadAll(Path("mixed")));
  EXPECT_TRUE(Says(1,
                   Cairn({"convert", Path("stock"), Path("other"), "--to", "trie_sst", "--column-family", "nonsense"}),
                   {"has no column family \"nonsense\""}));
}

TEST_F(CairnTest, ConvertRefusesWrongPlaces) {
  MakeStock(Path("stock"), 100);
  MakeStock(Path("other"), 100);
  fs::create_directory(Path("full"));
  ASSERT_TRUE(rocksdb::WriteStringToFile(rocksdb::Env::Default(), "x", Path("full/letter")).ok());
  fs::create_directory_symlink(Path("stock"), Path("link"));
  const struct {
    std::vector<std::string> words;
    const char* message;
  } cases[] = {
      {{Path("nowhere"), Path("new")}, "cannot be opened"},
      {{Path("full"), Path("new")}, "is no RocksDB database"},
      {{Path("stock"), Path("stock")}, "the same directory"},
      {{Path("stock"), Path("link") + "/"}, "the same directory"},
      {{Path("stock"), Path("stock/inside")}, "lies inside the source"},
      {{Path("stock"), Path("link/inside")}, "lies inside the source"},
      {{Path("stock"), directory_.path()}, "contains the source"},
      {{Path("stock"), Path("full")}, "is not a conversion (it contains letter)"},
      {{Path("stock"), Path("full/letter")}, "is not a directory"},
      {{Path("stock"), Path("other")}, "is not a conversion"},
      {{Path("stock"), Path("missing/new")}, "does not exist"},
      {{Path("stock"), Path("new"), "--reserve", "1000T"}, "free"},
  };
  for (const auto& c : cases) {
    std::vector<std::string> words = c.words;
    words.insert(words.begin(), "convert");
    words.insert(words.end(), {"--to", "trie_sst"});
    EXPECT_TRUE(Says(1, Cairn(words), {c.message}));
    EXPECT_FALSE(fs::exists(Path("new")));
  }
  EXPECT_EQ(2, Cairn({"convert", Path("stock"), Path("new")}).exit_code);
}

TEST_F(CairnTest, ConvertRefusesWhatItCannotCarry) {
  struct Case {
    const char* name;
    rocksdb::Options options;
    const char* message;
  };
  std::vector<Case> cases(3);
  cases[0] = {"timestamps", {}, "user-defined timestamps"};
  cases[0].options.comparator = rocksdb::BytewiseComparatorWithU64Ts();
  cases[1] = {"fifo", {}, "FIFO"};
  cases[1].options.compaction_style = rocksdb::kCompactionStyleFIFO;
  class Unknown : public rocksdb::Comparator {
   public:
    const char* Name() const override { return "test.Unknown"; }
    int Compare(const Slice& a, const Slice& b) const override { return a.compare(b); }
    void FindShortestSeparator(std::string*, const Slice&) const override {}
    void FindShortSuccessor(std::string*) const override {}
  };
  static const Unknown unknown;
  cases[2] = {"comparator", {}, "comparator test.Unknown"};
  cases[2].options.comparator = &unknown;
  for (Case& c : cases) {
    c.options.create_if_missing = true;
    DB* db = nullptr;
    Status s = DB::Open(c.options, Path(c.name), port::Into(&db));
    ASSERT_TRUE(s.ok()) << s.ToString();
    delete db;
    EXPECT_TRUE(Says(1, Cairn({"convert", Path(c.name), Path("new"), "--to", "trie_sst"}), {c.message}));
    EXPECT_FALSE(fs::exists(Path("new")));
  }
}

class UnknownMerge : public rocksdb::AssociativeMergeOperator {
 public:
  const char* Name() const override { return "test.UnknownMerge"; }
  bool Merge(const Slice&, const Slice* existing, const Slice& value, std::string* result,
             rocksdb::Logger*) const override {
    *result = (existing == nullptr ? "" : existing->ToString()) + value.ToString();
    return true;
  }
};

TEST_F(CairnTest, ConvertRefusesUnresolvedOperandsOfAnUnknownMergeOperator) {
  rocksdb::Options options;
  options.create_if_missing = true;
  options.merge_operator = std::make_shared<UnknownMerge>();
  DB* db = nullptr;
  ASSERT_TRUE(DB::Open(options, Path("db"), port::Into(&db)).ok());
  ASSERT_TRUE(db->Put(WriteOptions(), "k", "v").ok());
  ASSERT_TRUE(db->Flush(rocksdb::FlushOptions()).ok());
  delete db;
  ProgramResult result = Cairn({"convert", Path("db"), Path("fine"), "--to", "trie_sst"});
  EXPECT_EQ(0, result.exit_code) << result.err;
  EXPECT_CONTAINS(result.err, "merge_operator test.UnknownMerge is not known");
  ASSERT_TRUE(DB::Open(options, Path("db"), port::Into(&db)).ok());
  ASSERT_TRUE(db->Merge(WriteOptions(), "k", "w").ok());
  ASSERT_TRUE(db->Flush(rocksdb::FlushOptions()).ok());
  delete db;
  EXPECT_TRUE(Says(1, Cairn({"convert", Path("db"), Path("new"), "--to", "trie_sst"}),
                   {"holds merge operands of the merge operator test.UnknownMerge"}));
}

TEST_F(CairnTest, ConvertRefusesPreparedTransactions) {
  rocksdb::Options options;
  options.create_if_missing = true;
  rocksdb::TransactionDB* db = nullptr;
  ASSERT_TRUE(rocksdb::TransactionDB::Open(options, rocksdb::TransactionDBOptions(), Path("db"), &db).ok());
  rocksdb::Transaction* transaction = db->BeginTransaction(WriteOptions());
  ASSERT_TRUE(transaction->SetName("a").ok());
  ASSERT_TRUE(transaction->Put("k", "v").ok());
  ASSERT_TRUE(transaction->Prepare().ok());
  delete transaction;
  delete db;
  EXPECT_TRUE(Says(1, Cairn({"convert", Path("db"), Path("new"), "--to", "trie_sst"}), {"prepared transactions (1)"}));
}

TEST_F(CairnTest, ConvertCarriesBlobsAndTakesLeaveOfPrefixes) {
  rocksdb::Options options;
  options.create_if_missing = true;
  options.enable_blob_files = true;
  options.min_blob_size = 100;
  options.ttl = 3600;
  options.prefix_extractor.reset(rocksdb::NewFixedPrefixTransform(2));
  DB* db = nullptr;
  ASSERT_TRUE(DB::Open(options, Path("blobs"), port::Into(&db)).ok());
  for (int i = 0; i < 1000; i++) {
    const size_t size = i % 3 == 0 ? 5000 : 10;
    ASSERT_TRUE(db->Put(WriteOptions(), "key" + std::to_string(i), RandomText(size)).ok());
    if (i % 300 == 299) {
      ASSERT_TRUE(db->Flush(rocksdb::FlushOptions()).ok());
    }
  }
  delete db;
  const auto expected = ReadAll(Path("blobs"));
  ProgramResult result = Cairn({"convert", Path("blobs"), Path("trie"), "--to", "trie_sst", "--compact"});
  ASSERT_EQ(0, result.exit_code) << result.err;
  EXPECT_CONTAINS(result.err, "prefix_extractor rocksdb.FixedPrefix.2 is left behind");
  EXPECT_TRUE(expected == ReadAll(Path("trie")));
  ASSERT_TRUE(Says(0, Cairn({"convert", Path("trie"), Path("back"), "--to", "stock", "--compact"})));
  EXPECT_TRUE(expected == ReadAll(Path("back")));
  for (const char* name : {"trie", "back"}) {
    rocksdb::DBOptions db_options;
    std::vector<ColumnFamilyDescriptor> families;
    ASSERT_TRUE(Load(Path(name), &db_options, &families).ok());
    EXPECT_TRUE(families[0].options.enable_blob_files);
    EXPECT_EQ(100u, families[0].options.min_blob_size);
    const bool back = std::string(name) == "back";
    EXPECT_EQ(back, families[0].options.prefix_extractor != nullptr);
    EXPECT_EQ(3600u, families[0].options.ttl);
    bool has_blobs = false;
    for (const auto& entry : fs::directory_iterator(Path(name))) has_blobs |= entry.path().extension() == ".blob";
    EXPECT_TRUE(has_blobs) << name;
  }
}

TEST_F(CairnTest, ConvertNeedsTheSourceForItself) {
  MakeStock(Path("stock"), 100);
  Opened opened;
  OpenStored(Path("stock"), &opened);
  EXPECT_TRUE(
      Says(1, Cairn({"convert", Path("stock"), Path("new"), "--to", "trie_sst"}), {"is open in another process"}));
}

TEST_F(CairnTest, ConvertGoesOnAfterKill) {
  MakeStock(Path("stock"), 60000);
  const auto expected = ReadAll(Path("stock"));
  for (const std::string engine : {"trie_sst", "stock"}) {
    const std::string source = Path(engine == "stock" ? "trie_sst" : "stock");
    const std::vector<std::string> words = {ProgramPath("cairn"), "convert", source, Path(engine), "--to", engine};
    const std::vector<std::string> target =
        engine == "stock"
            ? std::vector<std::string>{ProgramPath("cairn"), "convert", source, Path("back"), "--to", engine}
            : words;
    int kills = 0;
    int kills_within_a_family = 0;
    int exit_code = -1;
    for (int attempt = 0; attempt < 200; attempt++) {
      const pid_t pid = StartProgram(target);
      ASSERT_GT(pid, 0);
      if (attempt % 2 == 0) {
        // Until it has got somewhere.
        const std::string before = StateText(target[3]);
        while (StateText(target[3]) == before && !HasEnded(pid)) usleep(500);
        usleep(static_cast<useconds_t>(random_() % 5000));
      } else {
        // Longer with every attempt, so that the work ends on any machine.
        usleep(static_cast<useconds_t>(random_() % (20000 + 20000 * static_cast<unsigned>(attempt))));
      }
      kill(pid, SIGKILL);
      exit_code = WaitForProgram(pid);
      if (exit_code == 0) break;
      ASSERT_EQ(128 + SIGKILL, exit_code);
      kills++;
      ConvertState state;
      if (!LoadConvertState(rocksdb::Env::Default(), target[3], &state).ok()) continue;
      for (const ConvertFamily& family : state.families) {
        if (!family.copied.finished && family.copied.records > 0) kills_within_a_family++;
      }
    }
    EXPECT_EQ(0, exit_code);
    EXPECT_GT(kills, 3);
    std::printf("%s: killed %d times, %d within a copy\n", engine.c_str(), kills, kills_within_a_family);
    EXPECT_TRUE(expected == ReadAll(target[3]));
  }
}

TEST_F(CairnTest, ConvertStopsOnRequest) {
  MakeStock(Path("stock"), 60000);
  const std::vector<std::string> words = {ProgramPath("cairn"), "convert", Path("stock"),
                                          Path("trie"),         "--to",    "trie_sst"};
  const pid_t pid = StartProgram(words);
  while (!fs::exists(Path("trie/CURRENT"))) usleep(1000);
  kill(pid, SIGTERM);
  const int exit_code = WaitForProgram(pid);
  ConvertState state;
  ASSERT_TRUE(LoadConvertState(rocksdb::Env::Default(), Path("trie"), &state).ok());
  EXPECT_EQ(state.step == ConvertStep::kWhole ? 0 : 1, exit_code);
  EXPECT_EQ(0, RunProgram(words).exit_code);
}

TEST_F(CairnTest, ConvertNoticesDifferences) {
  MakeStock(Path("stock"), 2000);
  const std::vector<std::string> words = {"convert", Path("stock"), Path("trie"), "--to", "trie_sst"};
  ASSERT_EQ(0, Cairn(words).exit_code);
  auto forget_verification = [this]() {
    ConvertState state;
    ASSERT_TRUE(LoadConvertState(rocksdb::Env::Default(), Path("trie"), &state).ok());
    state.step = ConvertStep::kVerify;
    for (ConvertFamily& family : state.families) family.compared = family.counted = ConvertPosition();
    ASSERT_TRUE(SaveConvertState(rocksdb::Env::Default(), Path("trie"), state).ok());
  };
  auto change = [this](const std::function<Status(DB*)>& edit) {
    Opened opened;
    OpenStored(Path("trie"), &opened);
    ASSERT_TRUE(edit(opened.db).ok());
  };
  const std::string empty_key;
  const struct {
    std::function<Status(DB*)> edit;
    const char* message;  // null: no difference
  } cases[] = {
      {[&](DB* db) { return db->Put(WriteOptions(), empty_key, "changed"); },
       "key 0x: has another value in the destination"},
      {[&](DB* db) { return db->Delete(WriteOptions(), empty_key); }, "key 0x: is not in the destination"},
      {[&](DB* db) { return db->Put(WriteOptions(), empty_key, "the empty key"); }, nullptr},
      {[&](DB* db) { return db->Put(WriteOptions(), "more", ""); }, "records, the source "},
  };
  for (const auto& c : cases) {
    forget_verification();
    change(c.edit);
    const ProgramResult result = Cairn(words);
    EXPECT_EQ(c.message == nullptr ? 0 : 1, result.exit_code) << result.err;
    if (c.message != nullptr) {
      EXPECT_CONTAINS(result.err, c.message);
    }
  }
}

TEST_F(CairnTest, ConvertNoticesAChangedSourceAndOtherArguments) {
  MakeStock(Path("stock"), 2000);
  ASSERT_EQ(0, Cairn({"convert", Path("stock"), Path("trie"), "--to", "trie_sst"}).exit_code);
  EXPECT_TRUE(Says(1, Cairn({"convert", Path("stock"), Path("trie"), "--to", "trie_sst", "--option", "slots=14"}),
                   {"with other options"}));
  MakeStock(Path("other"), 100);
  EXPECT_TRUE(Says(1, Cairn({"convert", Path("other"), Path("trie"), "--to", "trie_sst"}), {"of another database"}));
  {
    Opened opened;
    OpenStored(Path("stock"), &opened);
    ASSERT_TRUE(opened.db->Put(WriteOptions(), "new", "new").ok());
  }
  EXPECT_TRUE(Says(1, Cairn({"convert", Path("stock"), Path("trie"), "--to", "trie_sst"}), {"was written to since"}));
}

}  // namespace
}  // namespace cairn
