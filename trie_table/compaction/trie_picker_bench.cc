// Choosing a compaction, and estimating liveness, at 1,000 and at 20,000 files.

#include <benchmark/benchmark.h>

#include <memory>
#include <random>

#include "trie_table/compaction/trie_options.h"
#include "trie_table/compaction/trie_picker.h"
#include "trie_table/compaction/trie_shape.h"

namespace cairn {
namespace {

// Full-size sketches of 500,000 keys per table.
void Fill(uint64_t files, TrieShape* shape) {
  std::mt19937_64 random(1);
  const TrieOptions& trie = shape->trie();
  const int depth = 4;
  const uint64_t containers = std::min<uint64_t>(4096, files);
  for (uint64_t i = 0; i < files; ++i) {
    TrieFile file;
    file.number = i + 1;
    file.container = i % containers;
    file.level = LastLevelOfDepth(trie, depth) - static_cast<int>(i / containers);
    file.bytes = 50 << 20;
    auto sketch = std::make_shared<KeySketch>();
    for (int key = 0; key < 500000; key += 8) {
      sketch->Add(file.container << (64 - 12) | (random() >> 12), KeySketch::Entry::kValue);
    }
    sketch->Sort();
    file.sketch = sketch;
    shape->Add(file);
  }
}

void BM_PickNothingDue(benchmark::State& state) {
  TrieOptions trie;
  TrieShape shape(trie);
  Fill(static_cast<uint64_t>(state.range(0)), &shape);
  TriePicker picker(&shape, 0);
  TrieJob job;
  picker.Pick(&job);  // makes the estimate
  for (auto _ : state) benchmark::DoNotOptimize(picker.Pick(&job));
}
BENCHMARK(BM_PickNothingDue)->Arg(1000)->Arg(20000)->Unit(benchmark::kMicrosecond);

void BM_EstimateSpace(benchmark::State& state) {
  TrieOptions trie;
  TrieShape shape(trie);
  Fill(static_cast<uint64_t>(state.range(0)), &shape);
  for (auto _ : state) benchmark::DoNotOptimize(EstimateSpace(shape, 0, SnapshotLedger()).live);
}
BENCHMARK(BM_EstimateSpace)->Arg(1000)->Arg(20000)->Unit(benchmark::kMillisecond);

void BM_MergedShareOfAContainer(benchmark::State& state) {
  TrieOptions trie;
  TrieShape shape(trie);
  Fill(4096, &shape);
  const Container& container = *shape.Find({4, 7});
  for (auto _ : state) benchmark::DoNotOptimize(MergedShare(container, true, 0, SnapshotLedger()));
}
BENCHMARK(BM_MergedShareOfAContainer)->Unit(benchmark::kMicrosecond);

}  // namespace
}  // namespace cairn
