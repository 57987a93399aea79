// The model of a trie in key order against its picker over a model of the files, at other numbers of keys and with key
// popularity drawn request by request.

#include "msls/key_trie_model.h"

#include <gtest/gtest.h>

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

TEST(KeyTrieModelTest, Refuses) {
  KeyTrieWrites writes;
  msls::Report report;
  msls::StoreShape store = msls::StoreShape::Default(msls::Design::kTrie);
  ASSERT_TRUE(Popularity::Uniform(1e12, &writes.popularity).ok());
  EXPECT_NE(ModelKeyTrie(Trie(), store, writes, &report).message().find("write buffer"), std::string::npos);
  ASSERT_TRUE(Popularity::Uniform(1e8, &writes.popularity).ok());
  writes.fill = 0;
  EXPECT_NE(ModelKeyTrie(Trie(), store, writes, &report).message().find("fill"), std::string::npos);
}

}  // namespace
}  // namespace cairn
