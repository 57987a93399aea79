// The costs that `cairn advise` tells of engines, against stores of these engines.

#include "tools/engine_costs.h"

#include <gtest/gtest.h>

#include <atomic>
#include <cstdio>
#include <map>
#include <memory>
#include <string>
#include <unordered_map>

#include "cairn/db.h"
#include "cairn/engines.h"
#include "msls/model_options.h"
#include "msls/workload.h"
#include "rocksdb/convenience.h"
#include "rocksdb/db.h"
#include "rocksdb/listener.h"
#include "rocksdb/statistics.h"
#include "rocksdb/table.h"
#include "test/testutil/assert_ok.h"
#include "test/testutil/temp_dir.h"

namespace cairn {
namespace {

using msls::Popularity;

constexpr double kKeys = 40000;
constexpr size_t kKeyBytes = 16, kValueBytes = 84;
// As those of tables: key, value, and eight or nine bytes.
constexpr double kItemBytes = 109;
constexpr uint64_t kWriteBuffer = 96 << 10;

EngineWorkload WorkloadOf(double zipf, double max_space) {
  EngineWorkload workload;
  EXPECT_TRUE(Popularity::Zipf(kKeys, zipf, &workload.popularity).ok());
  workload.zipf = zipf;
  workload.item_bytes = kItemBytes;
  workload.data_bytes = kKeyBytes + kValueBytes;
  workload.table_bytes = kItemBytes;
  workload.fill = kItemBytes / (kKeyBytes + kValueBytes + kMemtableEntryOverhead);
  workload.write_buffer_bytes = static_cast<double>(kWriteBuffer) * workload.fill;
  workload.file_bytes = kWriteBuffer;
  workload.level_base_bytes = 4 * kWriteBuffer;
  workload.max_space = max_space;
  return workload;
}

class Memtables : public rocksdb::EventListener {
 public:
  void OnMemTableSealed(const rocksdb::MemTableInfo&) override { sealed_++; }
  uint64_t sealed() const { return sealed_; }

 private:
  std::atomic<uint64_t> sealed_{0};
};

rocksdb::Options OptionsOf(const EngineCosts& costs, std::shared_ptr<Memtables> memtables) {
  rocksdb::Options options;
  options.create_if_missing = true;
  options.compression = rocksdb::kNoCompression;
  options.write_buffer_size = kWriteBuffer;
  options.target_file_size_base = kWriteBuffer;
  options.max_bytes_for_level_base = 4 * kWriteBuffer;
  options.statistics = rocksdb::CreateDBStatistics();
  options.listeners.push_back(std::move(memtables));
  const auto memtable = options.memtable_factory;
  const std::vector<std::string> text =
      costs.engine_options.empty() ? std::vector<std::string>() : std::vector<std::string>{costs.engine_options};
  EXPECT_OK(UseEngine(costs.engine, text, &options));
  EXPECT_OK(UseEngineInDatabase(costs.engine, text, &options));
  options.memtable_factory = memtable;  // so that all flush as many items
  const std::unordered_map<std::string, std::string> map(costs.rocksdb.begin(), costs.rocksdb.end());
  rocksdb::ColumnFamilyOptions family(options);
  EXPECT_OK(rocksdb::GetColumnFamilyOptionsFromMap(rocksdb::ConfigOptions(), options, map, &family));
  return rocksdb::Options(options, family);
}

// Bytes written by flushes and compactions for each byte of an item as it lies in the store's tables, the log left out,
// and items kept for each live one.
struct Measured {
  double written = 0, space = 0;
  double item_bytes = 0;  // as it lies in the tables
};

void Measure(const EngineCosts& costs, const Popularity& popularity, Measured* measured) {
  const test::TempDir dir;
  const auto memtables = std::make_shared<Memtables>();
  const rocksdb::Options options = OptionsOf(costs, memtables);
  rocksdb::DB* raw = nullptr;
  ASSERT_OK(Open(options, dir / "db", &raw));
  const std::unique_ptr<rocksdb::DB> db(raw);
  msls::Workload workload(popularity, 1);
  rocksdb::WriteOptions write;
  write.disableWAL = true;
  uint64_t seen = 0;
  double kept = 0, samples = 0;
  const auto put = [&](uint32_t key) {
    char text[kKeyBytes + 1];
    snprintf(text, sizeof(text), "%016llx", static_cast<unsigned long long>(key) << 16);
    ASSERT_OK(db->Put(write, rocksdb::Slice(text, kKeyBytes), std::string(kValueBytes, static_cast<char>(key))));
    if (memtables->sealed() == seen) return;
    // As the models have it: compactions keep up.
    seen = memtables->sealed();
    ASSERT_OK(db->WaitForCompact(rocksdb::WaitForCompactOptions()));
    ASSERT_OK(WaitForTrieCompaction(db.get()));
    uint64_t bytes = 0;
    ASSERT_TRUE(db->GetIntProperty("rocksdb.total-sst-files-size", &bytes));
    kept += static_cast<double>(bytes);
    samples++;
  };
  for (uint64_t i = 0; i < workload.keys(); i++) put(workload.Load(i));
  for (int i = 0; i < 2 * kKeys; i++) put(workload.Draw());
  const auto written = [&] {
    return static_cast<double>(options.statistics->getTickerCount(rocksdb::FLUSH_WRITE_BYTES) +
                               options.statistics->getTickerCount(rocksdb::COMPACT_WRITE_BYTES));
  };
  const double before = written();
  kept = samples = 0;
  constexpr double kRequests = 5 * kKeys;
  for (int i = 0; i < kRequests; i++) put(workload.Draw());
  rocksdb::TablePropertiesCollection tables;
  ASSERT_OK(db->GetPropertiesOfAllTables(&tables));
  double entries = 0, bytes = 0;
  uint64_t size = 0;
  for (const auto& table : tables) entries += static_cast<double>(table.second->num_entries);
  ASSERT_TRUE(db->GetIntProperty("rocksdb.live-sst-files-size", &size));
  bytes = static_cast<double>(size) / entries;
  measured->item_bytes = bytes;
  measured->written = (written() - before) / (kRequests * bytes);
  measured->space = kept / samples / (kKeys * bytes);
}

class EngineCostsTest : public ::testing::TestWithParam<double> {};

// Every engine writes what is said of it, and the engine that is named writes least of all that keep the limits.
TEST_P(EngineCostsTest, StoresKeepWhatIsSaid) {
  const EngineWorkload workload = WorkloadOf(GetParam(), 1.5);
  const std::vector<EngineCosts> engines = CompareEngines(workload);
  ASSERT_EQ(engines.size(), 8u);
  std::map<std::string, double> written;
  for (const EngineCosts& costs : engines) {
    ASSERT_EQ(costs.no_model, "") << costs.name;
    const double told = costs.report.write_amplification - 1;  // without the log
    Measured measured;
    ASSERT_NO_FATAL_FAILURE(Measure(costs, workload.popularity, &measured));
    printf("%-20s written %.2f, told %.2f (%+.1f %%); space %.2f, told %.2f; items of %.0f B%s\n", costs.name.c_str(),
           measured.written, told, 100 * (told / measured.written - 1), measured.space,
           costs.report.space_amplification, measured.item_bytes, costs.within_limits ? "" : ", above the limits");
    // Of a trie of so few roots the model does not know what it keeps free for the outputs of compactions; and which
    // compactions for space it takes depends on when its threads run: on a busy machine it was 28 and 14 % off.
    const double near = costs.name == "ordered_trie" ? 0.35 : costs.name == "trie" ? 0.2 : 0.15;
    EXPECT_NEAR(told / measured.written, 1, near) << costs.name;
    EXPECT_NEAR(costs.report.space_amplification / measured.space, 1, 0.2) << costs.name;
    written[costs.name] = measured.written;
  }
  for (const EngineNeeds needs : {EngineNeeds::kNothing, EngineNeeds::kKeyOrder}) {
    const EngineCosts* const best = BestEngine(engines, workload, needs);
    ASSERT_NE(best, nullptr);
    for (const EngineCosts& costs : engines) {
      if (!costs.within_limits || (needs == EngineNeeds::kKeyOrder && !costs.key_order)) continue;
      EXPECT_LE(written[best->name], 1.08 * written[costs.name]) << best->name << " " << costs.name;
    }
  }
}

INSTANTIATE_TEST_SUITE_P(Skews, EngineCostsTest, ::testing::Values(0.0, 0.99),
                         [](const auto& skew) { return skew.param == 0 ? "Uniform" : "Zipf"; });

TEST(EngineCostsLimitsTest, Keep) {
  const std::vector<EngineCosts> tight = CompareEngines(WorkloadOf(0, 1.12));
  for (const EngineCosts& costs : tight) {
    EXPECT_TRUE(!costs.within_limits || costs.report.space_amplification <= 1.13) << costs.name;
  }
  EngineWorkload few_runs = WorkloadOf(0, 0);
  few_runs.max_runs_to_hit = 4.5;
  std::vector<EngineCosts> engines = CompareEngines(few_runs);
  const EngineCosts* const best = BestEngine(engines, few_runs, EngineNeeds::kNothing);
  ASSERT_NE(best, nullptr);
  EXPECT_LE(best->report.runs_to_hit, 4.53);
  few_runs.max_runs_to_hit = 0.5;
  engines = CompareEngines(few_runs);
  EXPECT_EQ(BestEngine(engines, few_runs, EngineNeeds::kNothing), nullptr);
  // A store of 10 GB has no room for a second one: neither universal nor silt.
  EngineWorkload large = WorkloadOf(0, 1.6);
  ASSERT_TRUE(Popularity::Uniform(1e8, &large.popularity).ok());
  large.write_buffer_bytes *= 512;
  large.file_bytes *= 512;
  large.level_base_bytes *= 512;
  engines = CompareEngines(large);
  const EngineCosts* const steady = BestEngine(engines, large, EngineNeeds::kNoPeaks);
  ASSERT_NE(steady, nullptr);
  EXPECT_LE(steady->peak_space, 1.61);
  EXPECT_NE(steady->name, BestEngine(engines, large, EngineNeeds::kNothing)->name);
  // In a store of 60 write buffers, each filled to three quarters, a root is five of them in key order, 16 in hash
  // order.
  for (const EngineCosts& costs : CompareEngines(WorkloadOf(0, 0))) {
    const double largest = costs.peak_space - costs.report.space_amplification;
    if (costs.name == "ordered_trie") {
      EXPECT_LE(largest, 0.1);
    } else if (costs.name == "trie") {
      EXPECT_GT(largest, 0.2);
    }
  }
  // Hardly any data: a store of a write buffer has no compactions to model.
  EngineWorkload tiny = WorkloadOf(0, 0);
  ASSERT_TRUE(Popularity::Uniform(200, &tiny.popularity).ok());
  for (const EngineCosts& costs : CompareEngines(tiny)) {
    EXPECT_TRUE(!costs.no_model.empty() || costs.report.write_amplification >= 1) << costs.name;
  }
}

}  // namespace
}  // namespace cairn
