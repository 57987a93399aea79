// Choosing a compaction of a trie in key order after each change of its files, as the scheduler does, at 1,000 to 50,000
// tables. `compares` are comparisons of keys per choice.

#include <benchmark/benchmark.h>

#include <cstdint>
#include <string>

#include "test/testutil/counting_comparator.h"
#include "trie_table/compaction/key_picker.h"
#include "trie_table/compaction/key_shape.h"

namespace cairn {
namespace {

constexpr uint64_t kWriteBuffer = 64 << 20;
constexpr uint64_t kTable = 64 << 20;

TrieOptions KeyTrie() {
  TrieOptions trie;
  trie.order = "key";
  trie.fan_out = 16;
  return trie;
}

std::string KeyOf(uint64_t n) {
  std::string key = "tenant:table:0000000000000000";
  for (size_t i = key.size(); n > 0; n /= 10) key[--i] = static_cast<char>('0' + n % 10);
  return key;
}

TrieFile Table(uint64_t number, int level, uint64_t first, uint64_t last) {
  TrieFile file;
  file.number = number;
  file.level = level;
  file.bytes = file.data_bytes = kTable;
  file.smallest = KeyOf(first);
  file.largest = KeyOf(last);
  return file;
}

// Three of four tables lie in the last level, the others over them in a depth above.
void FillDepths(uint64_t tables, KeyShape* shape) {
  const int deepest = shape->trie().depth;
  for (uint64_t i = 0; i < tables; ++i) {
    const bool above = i % 4 == 3;
    const int level = shape->LastLevel(above ? deepest - 1 : deepest);
    shape->Add(Table(i + 1, level, above ? (i - 3) * 1000 : i * 1000, i * 1000 + (above ? 500 : 999)));
  }
}

struct Case {
  test::CountingComparator comparator;
  KeyShape shape{KeyTrie(), &comparator};
  KeyPicker picker{&shape, 0, kWriteBuffer, KeyPicker::Moves::kMove};
  uint64_t begin = 0;
  void Begin() { begin = comparator.compares; }
  void Report(benchmark::State* state) const {
    state->counters["compares"] =
        benchmark::Counter(static_cast<double>(comparator.compares - begin), benchmark::Counter::kAvgIterations);
  }
};

// A flush, and a look whether anything is due.
void BM_AfterAFlush(benchmark::State& state) {
  Case with;
  const auto tables = static_cast<uint64_t>(state.range(0));
  FillDepths(tables, &with.shape);
  TrieJob job;
  with.picker.Pick(&job);
  with.Begin();
  uint64_t number = tables;
  for (auto _ : state) {
    with.shape.Remove(number);
    with.shape.Add(Table(++number, 0, 0, tables * 1000));
    benchmark::DoNotOptimize(with.picker.Pick(&job));
  }
  with.Report(&state);
}
BENCHMARK(BM_AfterAFlush)->Arg(1000)->Arg(10000)->Arg(50000)->Unit(benchmark::kMicrosecond);

// The next choice beside a compaction that has begun, and the one after its end.
void BM_BesideACompaction(benchmark::State& state) {
  Case with;
  const auto tables = static_cast<uint64_t>(state.range(0));
  FillDepths(tables, &with.shape);
  TrieJob job;
  with.picker.Pick(&job);
  const KeyShape::Run run{{KeyOf(0), KeyOf(16000)},
                          with.shape.LastLevel(with.shape.trie().depth - 1),
                          with.shape.LastLevel(with.shape.trie().depth)};
  with.Begin();
  for (auto _ : state) {
    with.shape.Begin(1, {run}, {1, 2, 3, 4});
    benchmark::DoNotOptimize(with.picker.Pick(&job));
    with.shape.End(1);
    benchmark::DoNotOptimize(with.picker.Pick(&job));
  }
  with.Report(&state);
}
BENCHMARK(BM_BesideACompaction)->Arg(1000)->Arg(10000)->Arg(50000)->Unit(benchmark::kMicrosecond);

// All tables in level 0, as after a repair, or where compaction was switched off: disjoint or over one another.
void PickOfRoot(benchmark::State& state, uint64_t width) {
  Case with;
  const auto tables = static_cast<uint64_t>(state.range(0));
  for (uint64_t i = 0; i < tables; ++i) with.shape.Add(Table(i + 1, 0, i * 1000, i * 1000 + width));
  TrieJob job;
  uint64_t number = tables;
  with.Begin();
  for (auto _ : state) {
    ++number;
    with.shape.Add(Table(number, 0, number * 1000, number * 1000 + width));
    benchmark::DoNotOptimize(with.picker.Pick(&job));
  }
  with.Report(&state);
}
void BM_RootOfDisjointTables(benchmark::State& state) { PickOfRoot(state, 999); }
BENCHMARK(BM_RootOfDisjointTables)->Arg(1000)->Arg(10000)->Unit(benchmark::kMicrosecond);
void BM_RootOfOverlappingTables(benchmark::State& state) { PickOfRoot(state, 1000000000); }
BENCHMARK(BM_RootOfOverlappingTables)->Arg(1000)->Arg(10000)->Unit(benchmark::kMicrosecond);

}  // namespace
}  // namespace cairn
