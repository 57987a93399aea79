// The model of a trie in key order against its picker over a model of the files, at other numbers of keys and with key
// popularity drawn request by request.

#include "msls/key_trie_model.h"

#include <gtest/gtest.h>

#include <cmath>
#include <cstdio>
#include <string>
#include <vector>

#include "msls/workload.h"
#include "test/testutil/test_seed.h"
#include "trie_table/compaction/simulated_key_trie.h"
#include "trie_table/compaction/trie_options.h"

namespace cairn {
namespace {

using msls::Popularity;

constexpr uint64_t kItemBytes = 100, kDataBytes = 90;
constexpr uint64_t kPerFlush = 150;
constexpr double kMost = 0.05;  // that the model may be off

KeyTrieOptions Trie() {
  KeyTrieOptions trie;
  trie.space_bound = 1.5;
  return trie;
}

// The bound of the model is one on items.
KeyTrieOptions InBytes(KeyTrieOptions trie) {
  trie.space_bound = trie.space_bound * kItemBytes / kDataBytes;
  return trie;
}

double Modelled(const Popularity& popularity) {
  msls::StoreShape store = msls::StoreShape::Default(msls::Design::kTrie);
  store.log = false;
  store.item_bytes = kItemBytes;
  store.write_buffer_bytes = kPerFlush * kItemBytes;
  KeyTrieWrites writes;
  writes.popularity = popularity;
  msls::Report report;
  const IndexStatus s = ModelKeyTrie(Trie(), store, writes, &report);
  EXPECT_TRUE(s.ok()) << s.message();
  return report.write_amplification;
}

class Run {
 public:
  void Put(uint64_t key) {
    operations_.push_back({key, false});
    if (operations_.size() < kPerFlush) return;
    trie_.Flush(operations_);
    operations_.clear();
    EXPECT_TRUE(trie_.Settle(2));
  }
  double written() const { return static_cast<double>(trie_.written) / kItemBytes; }

 private:
  SimulatedKeyTrie trie_{InBytes(Trie()), kPerFlush* kItemBytes, {kDataBytes, kItemBytes}, KeyPicker::Moves::kMove};
  std::vector<SimulatedKeyTrie::Operation> operations_;
};

void CompareUpdates(uint64_t keys, double skew) {
  Popularity popularity;
  ASSERT_TRUE(Popularity::Zipf(static_cast<double>(keys), skew, &popularity).ok());
  msls::Workload workload(popularity, Seed());
  Run run;
  for (uint64_t i = 0; i < keys; ++i) run.Put(workload.Load(i));
  for (uint64_t i = 0; i < 2 * keys; ++i) run.Put(workload.Draw());
  const double before = run.written();
  for (uint64_t i = 0; i < 4 * keys; ++i) run.Put(workload.Draw());
  const double real = (run.written() - before) / (4 * static_cast<double>(keys));
  const double model = Modelled(popularity);
  printf("%zu keys, %s: run %.3f, model %.3f (%+.1f %%)\n", static_cast<size_t>(keys), popularity.name().c_str(), real,
         model, 100 * (model / real - 1));
  EXPECT_NEAR(model / real, 1, kMost);
}

TEST(KeyTrieModelTest, Uniform) {
  CompareUpdates(12000, 0);
  CompareUpdates(20000, 0);
}

TEST(KeyTrieModelTest, Zipf) {
  CompareUpdates(12000, 0.99);
  CompareUpdates(20000, 0.8);
}

// Of more write buffers than are played, the depths above pass everything on.
TEST(KeyTrieModelTest, PlaysTheDeepestDepths) {
  KeyTrieWrites writes;
  msls::Report report;
  msls::StoreShape store = msls::StoreShape::Default(msls::Design::kTrie);
  store.item_bytes = kItemBytes;
  store.log = false;
  store.write_buffer_bytes = 1e6;
  const auto model = [&](double buffers) {
    ASSERT_TRUE(Popularity::Uniform(buffers * 1e4, &writes.popularity).ok());
    const IndexStatus s = ModelKeyTrie(Trie(), store, writes, &report, 100);
    ASSERT_TRUE(s.ok()) << s.message();
  };
  model(100);
  const msls::Report played = report;
  for (double depths : {1, 2}) {
    model(200 * std::pow(Trie().fan_out, depths));
    EXPECT_NEAR(report.write_amplification, played.write_amplification + depths, 0.05);
    EXPECT_NEAR(report.space_amplification, played.space_amplification, 0.02);
    EXPECT_NEAR(report.sorted_runs, played.sorted_runs + 8 * depths, 1);
  }
  // All that is played of it.
  model(700);
  EXPECT_NEAR(report.write_amplification, played.write_amplification, 0.05);
}

double WrittenByLoad(const Popularity& popularity) {
  msls::Workload workload(popularity, Seed());
  Run run;
  for (uint64_t i = 0; i < workload.keys(); ++i) run.Put(workload.Load(i));
  return run.written() / popularity.keys();
}

// What the model of a load says is what the picker writes.
TEST(KeyTrieModelTest, Load) {
  msls::StoreShape store = msls::StoreShape::Default(msls::Design::kTrie);
  store.log = false;
  store.item_bytes = kItemBytes;
  store.write_buffer_bytes = kPerFlush * kItemBytes;
  for (uint64_t keys : {12000, 45000}) {
    KeyTrieWrites writes;
    ASSERT_TRUE(Popularity::Uniform(static_cast<double>(keys), &writes.popularity).ok());
    double model = 0;
    ASSERT_TRUE(ModelKeyTrieLoad(Trie(), store, writes, &model).ok());
    const double real = WrittenByLoad(writes.popularity);
    printf("load of %zu keys: run %.3f, model %.3f\n", static_cast<size_t>(keys), real, model);
    EXPECT_NEAR(model / real, 1, 0.1);
  }
}

TEST(KeyTrieModelTest, Refuses) {
  KeyTrieWrites writes;
  msls::Report report;
  const msls::StoreShape store = msls::StoreShape::Default(msls::Design::kTrie);
  ASSERT_TRUE(Popularity::Uniform(1e8, &writes.popularity).ok());
  writes.fill = 0;
  EXPECT_NE(ModelKeyTrie(Trie(), store, writes, &report).message().find("fill"), std::string::npos);
}

}  // namespace
}  // namespace cairn
