// cairn model, simulate and optimize as programs: what they print, and that bad input is refused with a message that
// helps.

#include <gtest/gtest.h>

#include <algorithm>
#include <cstdio>
#include <fstream>
#include <map>
#include <nlohmann/json.hpp>
#include <sstream>

#include "cairn/engines.h"
#include "rocksdb/convenience.h"
#include "rocksdb/db.h"
#include "rocksdb/port/open_into.h"
#include "rocksdb/utilities/options_util.h"
#include "test/testutil/assert_ok.h"
#include "test/testutil/expect_contains.h"
#include "test/testutil/run_program.h"
#include "test/testutil/temp_dir.h"

namespace cairn {
namespace {

nlohmann::json CairnJson(std::vector<std::string> words) {
  words.push_back("--json");
  const ProgramResult result = Cairn(words);
  EXPECT_EQ(result.exit_code, 0) << result.err;
  return nlohmann::json::parse(result.out, nullptr, false);
}

class CairnMslsTest : public ::testing::Test {
 protected:
  // A database of an engine, of 100,000 keys that were all written twice.
  std::string MakeDatabase(const std::string& engine, const std::vector<std::string>& engine_options = {}) {
    const std::string path = folder_ / engine;
    rocksdb::Options options;
    options.create_if_missing = true;
    options.write_buffer_size = 1 << 20;
    options.compression = rocksdb::kNoCompression;
    EXPECT_OK(UseEngine(engine, engine_options, &options));
    EXPECT_OK(UseEngineInDatabase(engine, engine_options, &options));
    rocksdb::DB* db = nullptr;
    EXPECT_OK(rocksdb::DB::Open(options, path, port::Into(&db)));
    for (int i = 0; i < 200000; i++) {
      char key[20];
      snprintf(key, sizeof(key), "%016x", static_cast<unsigned>(i % 100000) * 2654435761u);
      EXPECT_OK(db->Put(rocksdb::WriteOptions(), key, std::string(84, static_cast<char>(i))));
    }
    EXPECT_OK(db->CompactRange(rocksdb::CompactRangeOptions(), nullptr, nullptr));
    delete db;
    return path;
  }

  const test::TempDir folder_;
};

TEST_F(CairnMslsTest, ModelPrintsTheTableOfTheThesis) {
  const nlohmann::json json = CairnJson({"model", "--design=leveldb", "--keys=100M", "--item-bytes=1000"});
  EXPECT_NEAR(json["write_amplification"], 25.82, 0.02);
  EXPECT_EQ(json["breakdown"].size(), 7u);
  EXPECT_EQ(json["breakdown"][2]["name"], "level-0 to 1");
  EXPECT_NEAR(json["breakdown"][2]["value"], 1.62, 0.01);
  EXPECT_EQ(json["level_sizes"][0], 10485760);
  EXPECT_TRUE(json["seconds"].is_number());
}

TEST_F(CairnMslsTest, EveryDesignAndAHistogram) {
  const std::string path = folder_ / "histogram";
  std::ofstream(path) << "1000 100\n10 100000\n1 1000000\n";
  for (const char* design : {"leveldb", "rocksdb", "universal", "cola", "samt", "silt", "trie"}) {
    const std::string flag = std::string("--design=") + design;
    EXPECT_GT(CairnJson({"model", flag, "--histogram", path})["write_amplification"], 1) << design;
    const nlohmann::json json = CairnJson({"simulate", flag, "--keys=100K", "--zipf=0.9", "--write-buffer=500K",
                                           "--hash-store-slots=1000", "--requests=300K"});
    EXPECT_GT(json["write_amplification"], 1) << design;
    EXPECT_EQ(json["keys"], 100000);
  }
}

TEST_F(CairnMslsTest, TheTrieInKeyOrder) {
  const std::string design = "--design=ordered_trie";
  const nlohmann::json uniform = CairnJson({"model", design, "--keys=1M", "--write-buffer=2M", "--log=false"});
  EXPECT_EQ(uniform["design"], "ordered_trie");
  EXPECT_NEAR(uniform["write_amplification"], 4, 1.5);
  EXPECT_LE(uniform["space_amplification"], 1.6);
  EXPECT_NE(Cairn({"simulate", design, "--keys=100M"}).err.find("20000000 keys"), std::string::npos);
  EXPECT_NE(Cairn({"model", "--design=trie", "--fill=0.5"}).err.find("ordered_trie"), std::string::npos);
}

TEST_F(CairnMslsTest, TheTrieInKeyOrderIsSimulatedAndOptimized) {
  // Three write buffers: sixty shapes of a larger trie take a minute of a busy machine.
  const std::vector<std::string> store = {"--design=ordered_trie", "--keys=3K", "--write-buffer=100K", "--log=false"};
  const auto with = [&store](std::vector<std::string> arguments) {
    arguments.insert(arguments.end(), store.begin(), store.end());
    return arguments;
  };
  const nlohmann::json simulated = CairnJson(with({"simulate", "--zipf=0.99"}));
  EXPECT_EQ(simulated["design"], "ordered_trie");
  const double written = simulated["write_amplification"];
  EXPECT_NEAR(simulated["model_write_amplification"].get<double>() / written, 1, 0.25);
  EXPECT_GT(simulated["most_space_amplification"], simulated["space_amplification"]);

  const ProgramResult text = Cairn(with({"optimize", "--max-space=1.6"}));
  EXPECT_CONTAINS(text.out, "root_trigger=");
  const nlohmann::json best = CairnJson(with({"optimize", "--max-space=1.6"}));
  EXPECT_LE(best["space_amplification"], 1.6);
  EXPECT_LE(best["write_amplification"], best["before"]["write_amplification"]);
}

// As a store grows, each engine writes as much or more, and the order of engines is the known one.
TEST_F(CairnMslsTest, CurveOverTheSize) {
  const std::string engines = "trie,universal,leveled,silt";
  const nlohmann::json points = CairnJson({"model", "--sizes=10G,1T,10T", "--engines", engines});
  ASSERT_EQ(points.size(), 12u);
  std::map<std::string, std::vector<double>> written;
  for (const nlohmann::json& point : points) {
    written[point["engine"]].push_back(point["write_amplification"]);
    EXPECT_GT(point["load_write_amplification"], 1) << point;
    EXPECT_GE(point["peak_space_amplification"], point["space_amplification"]) << point;
    EXPECT_GE(point["reads_of_present"], 1) << point;
    EXPECT_GT(point["memory_bytes_per_key"], 0.1) << point;
    if (!point.contains("upper")) continue;
    EXPECT_LT(point["upper"]["memory_bytes_per_key"], point["memory_bytes_per_key"]) << point;
    EXPECT_GE(point["upper"]["reads_of_present"], point["reads_of_present"].get<double>() + 1) << point;
  }
  for (const auto& [engine, by_size] : written) EXPECT_TRUE(std::is_sorted(by_size.begin(), by_size.end())) << engine;
  EXPECT_LT(written["trie"][2], 10);
  EXPECT_GT(written["leveled"][2], 3 * written["trie"][2]);
  EXPECT_GT(written["silt"][2], 100 * written["trie"][2]);
  EXPECT_NE(Cairn({"model", "--sizes=1G", "--engines=ordered_trie"}).out.find("ordered_trie"), std::string::npos);
  EXPECT_NE(Cairn({"model", "--sizes=1G,x"}).err.find("--sizes"), std::string::npos);
  EXPECT_NE(Cairn({"model", "--sizes=1G", "--engines=btree"}).err.find("btree"), std::string::npos);
  EXPECT_NE(Cairn({"model", "--engines=trie"}).err.find("--sizes"), std::string::npos);
}

TEST_F(CairnMslsTest, UnusualButLegal) {
  for (const char* keys : {"1", "2", "1000000000000", "1T"}) {
    const nlohmann::json json = CairnJson({"model", std::string("--keys=") + keys});
    EXPECT_GE(json["write_amplification"], 1) << keys;
  }
  EXPECT_EQ(CairnJson({"model", "--keys=1T"})["keys"], 1e12);
  double last = 100;
  for (const char* skew : {"0.999999", "1", "1.000001", "1.5", "8"}) {
    const double now = CairnJson({"model", std::string("--zipf=") + skew})["write_amplification"];
    EXPECT_LE(now, last + 1e-6) << skew;
    last = now;
  }
  const std::string path = folder_ / "one_bin";
  std::ofstream(path) << "# one bin\n7 1000000\n";
  EXPECT_NEAR(CairnJson({"model", "--histogram", path})["write_amplification"].get<double>(),
              CairnJson({"model", "--keys=1M"})["write_amplification"].get<double>(), 1e-6);
}

TEST_F(CairnMslsTest, RocksDBTakesTheOptions) {
  const nlohmann::json json = CairnJson({"optimize", "--keys=50M"});
  EXPECT_LT(json["write_amplification"], json["before"]["write_amplification"]);
  rocksdb::ColumnFamilyOptions options;
  const rocksdb::Status s =
      rocksdb::GetColumnFamilyOptionsFromMap(rocksdb::ConfigOptions(), options, json["rocksdb_options"], &options);
  ASSERT_TRUE(s.ok()) << s.ToString();
  EXPECT_FALSE(options.level_compaction_dynamic_level_bytes);
  EXPECT_EQ(options.max_bytes_for_level_base, json["level_sizes"][0]);
  EXPECT_EQ(options.compaction_pri, rocksdb::kMinOverlappingRatio);

  // And opens a database with them.
  rocksdb::Options all(rocksdb::DBOptions(), options);
  all.create_if_missing = true;
  const std::string db_path = folder_ / "db";
  rocksdb::DB* db = nullptr;
  const rocksdb::Status opened = rocksdb::DB::Open(all, db_path, port::Into(&db));
  ASSERT_TRUE(opened.ok()) << opened.ToString();
  // The part that is dynamic can also be set on a live database.
  std::unordered_map<std::string, std::string> live;
  for (const char* name :
       {"max_bytes_for_level_base", "max_bytes_for_level_multiplier", "max_bytes_for_level_multiplier_additional"}) {
    live[name] = json["rocksdb_options"][name];
  }
  const rocksdb::Status set = db->SetOptions(live);
  EXPECT_TRUE(set.ok()) << set.ToString();
  delete db;
  ASSERT_TRUE(rocksdb::DestroyDB(db_path, all).ok());
}

TEST_F(CairnMslsTest, AdviseReadsADatabase) {
  const std::string path = folder_ / "advise";
  rocksdb::Options options;
  options.create_if_missing = true;
  options.write_buffer_size = 1 << 20;
  options.max_bytes_for_level_base = 4 << 20;
  options.target_file_size_base = 1 << 20;
  options.compression = rocksdb::kNoCompression;
  EXPECT_EQ(Cairn({"advise", path}).exit_code, 1);
  rocksdb::DB* db = nullptr;
  ASSERT_TRUE(rocksdb::DB::Open(options, path, port::Into(&db)).ok());
  const int kKeys = 400000;
  for (int i = 0; i < kKeys; i++) {
    char key[20];
    snprintf(key, sizeof(key), "%016x", static_cast<unsigned>(i) * 2654435761u);
    ASSERT_TRUE(db->Put(rocksdb::WriteOptions(), key, std::string(84, static_cast<char>(i))).ok());
  }
  ASSERT_TRUE(db->CompactRange(rocksdb::CompactRangeOptions(), nullptr, nullptr).ok());
  delete db;
  const nlohmann::json json = CairnJson({"advise", path});
  EXPECT_EQ(json["design"], "rocksdb");
  EXPECT_NEAR(json["keys"].get<double>(), kKeys, 0.01 * kKeys);
  EXPECT_NEAR(json["item_bytes"].get<double>(), 100, 10);
  EXPECT_LE(json["advised_write_amplification"], json["write_amplification"]);
  EXPECT_LE(json["advised_space_amplification"], 1.2501);
  EXPECT_LT(CairnJson({"advise", path, "--zipf=0.99"})["write_amplification"], json["write_amplification"]);
  double sum = 0;
  for (const auto& step : json["breakdown"]) sum += step["value"].get<double>();
  EXPECT_NEAR(sum, json["write_amplification"].get<double>(), 1e-6);
  EXPECT_FALSE(json["level_sizes"].empty());
  EXPECT_GE(json["seconds"].get<double>(), 0);
  EXPECT_EQ(json["popularity_source"], "assumed");  // level 0 is empty
  ASSERT_EQ(json["engines"].size(), 8u);
  EXPECT_EQ(json["engines"][0]["name"], "leveled");
  EXPECT_NEAR(json["engines"][0]["write_amplification"], json["write_amplification"], 0.5);
  double least = 1e9, least_in_order = 1e9;
  std::string best, best_in_order;
  for (const nlohmann::json& engine : json["engines"]) {
    ASSERT_FALSE(engine.contains("no_model")) << engine;
    if (!engine["within_limits"]) continue;
    const double written = engine["write_amplification"];
    EXPECT_LE(engine["space_amplification"], 1.51);
    EXPECT_LE(engine["space_amplification"], engine["peak_space"]);
    if (written < least) least = written, best = engine["name"];
    if (engine["key_order"] && written < least_in_order) least_in_order = written, best_in_order = engine["name"];
    // Its options are some that it takes.
    const std::string command = engine["options"];
    EXPECT_EQ(RunProgram({"/bin/sh", "-c", ProgramPath("cairn") + command.substr(5)}).exit_code, 0) << command;
  }
  EXPECT_EQ(json["best"], best);
  EXPECT_EQ(json["best_in_key_order"], best_in_order);
  EXPECT_EQ(CairnJson({"advise", path, "--max-runs-to-hit=0.5"})["best"], "");
  const std::string text = Cairn({"advise", path}).out;
  EXPECT_NE(text.find(best + " writes least"), std::string::npos) << text;
  EXPECT_EQ(CairnJson({"advise", path, "--zipf=0.5"})["popularity_source"], "given");
  EXPECT_EQ(Cairn({"advise", path}).exit_code, 0);
  for (const char* bad : {"--zipf=nan", "--zipf=-1", "--max-space=nan", "--min-levels=-1"}) {
    EXPECT_TRUE(Says(2, Cairn({"advise", path, bad}), {std::string(bad).substr(2, 4)}));
  }
  const ProgramResult no_file = Cairn({"advise", path, "--histogram=/no/such/file"});
  EXPECT_NE(no_file.exit_code, 0);
  EXPECT_CONTAINS(no_file.err, "/no/such/file");

  // In use, by this process, with updates of few keys lying in level 0: they are seen to be popular.
  options.level0_file_num_compaction_trigger = 100;
  ASSERT_TRUE(rocksdb::DB::Open(options, path, port::Into(&db)).ok());
  for (int i = 0; i < 60000; i++) {
    char key[20];
    snprintf(key, sizeof(key), "%016x", static_cast<unsigned>(i % 1000) * 2654435761u);
    ASSERT_TRUE(db->Put(rocksdb::WriteOptions(), key, std::string(84, static_cast<char>(i))).ok());
  }
  ASSERT_TRUE(db->Flush(rocksdb::FlushOptions()).ok());
  const nlohmann::json live = CairnJson({"advise", path});
  EXPECT_EQ(live["popularity_source"], "level 0");
  EXPECT_NE(live["popularity"], "uniform");
  EXPECT_LT(live["write_amplification"], json["write_amplification"]);
  delete db;
  EXPECT_EQ(Cairn({"advise", path, "--column-family=none"}).exit_code, 1);
  ASSERT_TRUE(rocksdb::DestroyDB(path, options).ok());
}

// What a store of an engine of Cairn writes is what the engine's own model says.
TEST_F(CairnMslsTest, AdviseKnowsEveryEngine) {
  for (const std::string engine : {"silt", "trie", "ordered_trie", "ordered", "round_robin"}) {
    SCOPED_TRACE(engine);
    const std::string path = MakeDatabase(engine);
    const nlohmann::json json = CairnJson({"advise", path, "--zipf=0"});
    double written = 0;
    for (const nlohmann::json& each : json["engines"]) {
      if (each["name"] == engine) written = each["write_amplification"];
    }
    // With its defaults, but for the trie, which is held to 1.5, and round_robin, which has not got its sizes.
    if (engine != "round_robin") {
      EXPECT_NEAR(json["write_amplification"], written, 0.1 * written);
    }
    if (engine == "silt" || engine == "ordered_trie") {
      EXPECT_EQ(json["design"], engine);
      const std::string advice = engine == "silt" ? "Leave it as it is" : "--options=ordered_trie";
      EXPECT_NE(Cairn({"advise", path}).out.find(advice), std::string::npos);
    }
    rocksdb::Options options;
    EXPECT_OK(UseEngine(engine, {}, &options));
    EXPECT_OK(rocksdb::DestroyDB(path, options));
  }
}

// The options of a fragment, by the parsers that take them: Cairn's, and RocksDB's of option strings and of files.
rocksdb::Options ParseFragment(const std::string& fragment, const std::string& folder) {
  rocksdb::Options options;
  options.create_if_missing = true;
  std::istringstream lines(fragment);
  std::string line,
      file = "[Version]\nrocksdb_version=9.10.0\noptions_file_version=1.1\n[DBOptions]\n[CFOptions \"default\"]\n";
  rocksdb::ColumnFamilyOptions family = options;
  while (std::getline(lines, line)) {
    if (line.compare(0, 7, "engine=") == 0) {
      EXPECT_OK(UseEngineFromString(line, &options, &options));
      family = options;
      continue;
    }
    const rocksdb::ColumnFamilyOptions base = family;
    EXPECT_OK(rocksdb::GetColumnFamilyOptionsFromString(rocksdb::ConfigOptions(), base, line, &family));
    file += line + "\n";
  }
  const std::string path = folder + "/OPTIONS";
  std::ofstream(path) << file << "[TableOptions/BlockBasedTable \"default\"]\n";
  rocksdb::DBOptions db_options;
  std::vector<rocksdb::ColumnFamilyDescriptor> families;
  EXPECT_OK(rocksdb::LoadOptionsFromFile(rocksdb::ConfigOptions(), path, &db_options, &families));
  return rocksdb::Options(options, family);
}

TEST_F(CairnMslsTest, AdviseTellsOptionsThatOpenADatabase) {
  const std::string path = MakeDatabase("stock");
  const std::string space = "--max-space=1.6", runs = "--max-runs-to-hit=12";
  size_t fragments = 0;
  for (std::vector<std::string> words : std::vector<std::vector<std::string>>{
           {"--options=all"}, {"--options=all", space, runs}, {"--options=ordered_trie", space, runs}}) {
    const bool all = words[0] == "--options=all", limits = words.size() > 1;
    words.insert(words.begin(), {"advise", path, "--zipf=0"});
    const std::string text = all ? Cairn(words).out : "";
    const nlohmann::json json = CairnJson(words);
    ASSERT_EQ(json["engines"].size(), 8u);
    for (const nlohmann::json& told : json["engines"]) {
      const std::string name = told["name"], fragment = told["fragment"];
      SCOPED_TRACE(name + "\n" + fragment + text);
      const nlohmann::json& before = told["before"];
      // Options that break a limit are to keep it, which may take writes.
      if (!limits || before["space_amplification"] <= 1.6) {
        EXPECT_LE(told["write_amplification"], before["write_amplification"]);
      }
      for (const char* figure : {"space_amplification", "runs_to_hit", "sorted_runs"}) {
        const double limit = !limits ? 0 : figure == std::string("space_amplification") ? 1.61 : 13;
        EXPECT_LE(told[figure], std::max(limit, 1.001 * before[figure].get<double>())) << figure;
      }
      if (fragment.empty()) continue;
      fragments++;
      EXPECT_TRUE(!all || text.find("\n" + fragment) != std::string::npos);
      const rocksdb::Options options = ParseFragment(fragment, folder_ / "");
      const std::string small = folder_ / "small";
      rocksdb::DB* db = nullptr;
      ASSERT_OK(rocksdb::DB::Open(options, small, port::Into(&db)));
      EXPECT_OK(db->Put(rocksdb::WriteOptions(), "key", "value"));
      EXPECT_OK(db->Flush(rocksdb::FlushOptions()));
      std::string value;
      EXPECT_OK(db->Get(rocksdb::ReadOptions(), "key", &value));
      delete db;
      EXPECT_OK(rocksdb::DestroyDB(small, options));
    }
    EXPECT_TRUE(!all || text.find("Leave its options as they are.") != std::string::npos) << text;
  }
  EXPECT_GE(fragments, 6u);
  EXPECT_EQ(Cairn({"advise", path, "--options=none"}).exit_code, 2);
  EXPECT_EQ(Cairn({"advise", path, "--min-levels=3", "--max-levels=2"}).exit_code, 2);
  EXPECT_OK(rocksdb::DestroyDB(path, rocksdb::Options()));
}

// A database of an engine begins with the options that it has, and those that are told have the figures that are told.
TEST_F(CairnMslsTest, AdviseTellsOptionsOfADatabase) {
  const std::map<std::string, std::string> engines = {{"silt", "partitions=1;merge_trigger=4;filter_tag_bits=13"},
                                                      {"trie", "root_trigger=16;slots=4;trigger=2"}};
  for (const auto& each : engines) {
    const std::string engine = each.first;
    SCOPED_TRACE(engine);
    const auto told = [&](const std::string& options, std::string* fragment) {
      const std::string path = MakeDatabase(engine, {options});
      const nlohmann::json json =
          CairnJson({"advise", path, "--zipf=0", "--options=" + engine, "--max-space=1.6", "--max-runs-to-hit=10"});
      rocksdb::Options used;
      EXPECT_OK(UseEngine(engine, {}, &used));
      EXPECT_OK(rocksdb::DestroyDB(path, used));
      for (const nlohmann::json& row : json["engines"]) {
        if (row["name"] != engine) continue;
        *fragment = row["fragment"];
        return row;
      }
      return nlohmann::json();
    };
    std::string fragment, again;
    const nlohmann::json before = told(each.second, &fragment);
    ASSERT_EQ(fragment.compare(0, engine.size() + 8, "engine=" + engine + ";"), 0) << fragment;
    const nlohmann::json after = told(fragment.substr(engine.size() + 8, fragment.size() - engine.size() - 9), &again);
    EXPECT_LT(before["write_amplification"], before["before"]["write_amplification"]);
    // Tables of a trie have another size then.
    EXPECT_NEAR(after["before"]["write_amplification"], before["write_amplification"], engine == "silt" ? 0.3 : 1.5);
    EXPECT_LT(after["before"]["write_amplification"], before["before"]["write_amplification"]);
    EXPECT_TRUE(engine != "silt" || again.empty()) << fragment << again;
  }
}

TEST_F(CairnMslsTest, AdviseTakesAHistogramForASample) {
  const std::string path = MakeDatabase("stock"), file = folder_ / "weights";
  // All alike, and a part of them.
  std::ofstream(file) << "7 500\n";
  const nlohmann::json uniform = CairnJson({"advise", path, "--zipf=0"});
  nlohmann::json json = CairnJson({"advise", path, "--histogram=" + file});
  EXPECT_EQ(json["histogram_keys"], 500);
  for (size_t i = 0; i < uniform["engines"].size(); i++) {
    const double written = uniform["engines"][i]["write_amplification"];
    EXPECT_NEAR(json["engines"][i]["write_amplification"], written, 0.02 * written) << uniform["engines"][i]["name"];
  }
  EXPECT_NE(Cairn({"advise", path, "--histogram=" + file}).out.find("500 keys of the histogram"), std::string::npos);
  // A tenth of the keys gets most of the writes, the rest few or none: no zipf= could say so.
  for (const char* rest : {"1 9000\n", "0 9000\n"}) {
    SCOPED_TRACE(rest);
    std::ofstream(file) << "100 1000\n" << rest;
    json = CairnJson({"advise", path, "--histogram=" + file});
    EXPECT_LT(json["write_amplification"], uniform["write_amplification"]);
    for (const nlohmann::json& engine : json["engines"]) {
      const std::string command = engine["options"];
      EXPECT_EQ(command.find("zipf="), std::string::npos) << command;
      EXPECT_EQ(RunProgram({"/bin/sh", "-c", ProgramPath("cairn") + command.substr(5)}).exit_code, 0) << command;
      if (engine["name"] == "round_robin") {
        EXPECT_NE(command.find("max_bytes_for_level_base="), std::string::npos) << command;
      }
    }
  }
  EXPECT_TRUE(Says(2, Cairn({"advise", path, "--zipf=1", "--histogram=" + file}), {"--zipf"}));
  // One key gets all writes: every engine writes a byte for a byte, and none is better than another.
  std::ofstream(file) << "1e12 1e-9\n1 1\n";
  EXPECT_NE(Cairn({"advise", path, "--histogram=" + file}).out.find("engines"), 0u);
  EXPECT_OK(rocksdb::DestroyDB(path, rocksdb::Options()));
}

// Limits that the database's own engine cannot keep are no reason not to look at the others.
TEST_F(CairnMslsTest, AdviseGoesOnBeyondTheLimitsOfAnEngine) {
  const std::string path = MakeDatabase("ordered");
  for (const char* limit : {"--max-space=1.08", "--max-space=0.5", "--min-levels=20"}) {
    SCOPED_TRACE(limit);
    EXPECT_TRUE(Says(0, Cairn({"advise", path, limit}), {"Engines, for this workload"}));
  }
  nlohmann::json json = CairnJson({"advise", path, "--max-space=1.08"});
  EXPECT_NE(json.value("no_sizes", "").find("No shape"), std::string::npos);
  EXPECT_EQ(json["engines"].size(), 8u);
  json = CairnJson({"advise", path, "--max-space=0.5"});
  EXPECT_NE(json.value("no_sizes", "").find("No shape"), std::string::npos);
  EXPECT_EQ(json["best"], "");
  // A limit that takes another shape, which writes more.
  EXPECT_NE(Cairn({"advise", path, "--max-space=1.15"}).out.find("% more) and keep"), std::string::npos);
  EXPECT_OK(rocksdb::DestroyDB(path, rocksdb::Options()));
}

TEST_F(CairnMslsTest, BadInputIsRefused) {
  const std::vector<std::pair<std::vector<std::string>, std::string>> cases = {
      {{"--keys=0"}, "keys"},
      {{"--keys=nan"}, "keys"},
      {{"--keys=-3"}, "keys"},
      {{"--keys=10^12"}, "keys"},
      {{"--item-bytes=nan"}, "item-bytes"},
      {{"--item-bytes=1e300"}, "item-bytes"},
      {{"--zipf=inf"}, "zipf"},
      {{"--level-sizes=nan"}, "level-sizes"},
      {{"--level-sizes=256M,256M"}, "level 2"},
      {{"--histogram=/"}, "Histogram file /"},
      {{"--zipf=-0.5"}, "zipf"},
      {{"--zipf=nan"}, "zipf"},
      {{"--item-bytes=0"}, "item-bytes"},
      {{"--design=btree"}, "design"},
      {{"--level-sizes=256M,128M"}, "level 2"},
      {{"--level-sizes=256M,,"}, "level-sizes"},
      {{"--level-sizes=1G", "--dynamic-level-bytes"}, "dynamic_level_bytes"},
      {{"--level-sizes=100T"}, "smaller than the data"},
      {{"--histogram=/no/such/file"}, "/no/such/file"},
      {{"--write-buffer=0"}, "write-buffer"},
      {{"--compaction-pri=kBest"}, "compaction-pri"},
  };
  for (const char* command : {"model", "simulate", "optimize"}) {
    for (const auto& one : cases) {
      std::vector<std::string> words = {command};
      words.insert(words.end(), one.first.begin(), one.first.end());
      EXPECT_TRUE(Says(2, Cairn(words), {one.second}));
    }
  }
  EXPECT_EQ(Cairn({"simulate", "--keys=10G"}).exit_code, 2);
  EXPECT_EQ(Cairn({"optimize", "--max-space=1.0001"}).exit_code, 2);
}

}  // namespace
}  // namespace cairn
