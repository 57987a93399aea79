// The filters of a column of slots: one merged filter, and RocksDB's Bloom filters.
//
//   CAIRN_BENCH_KEYS=1000000 build/bench/bloom_cluster_bench
//
// Keys a slot: CAIRN_BENCH_KEYS. `strange` asks for hashes that no slot has; otherwise for one in a random slot.
// Counters: bits_per_key, and per_slot: what part of strange hashes per slot lets through.

#include <benchmark/benchmark.h>

#include <algorithm>
#include <cstdlib>
#include <map>
#include <memory>
#include <random>
#include <vector>

#include "rocksdb/filter_policy.h"
#include "table/block_based/filter_policy_internal.h"
#include "trie_table/bloom_cluster/bloom_filter.h"

namespace cairn {
namespace {

constexpr size_t kQuestions = 1 << 20;

struct Column {
  std::vector<std::vector<uint64_t>> hashes;
  std::vector<uint64_t> strange;
  std::vector<uint64_t> present;
};

size_t KeysOfSlot() {
  const char* given = getenv("CAIRN_BENCH_KEYS");
  return given != nullptr ? strtoull(given, nullptr, 10) : 200000;
}

const Column& ColumnOf(size_t slots) {
  static auto* columns = new std::map<size_t, Column>();
  Column& column = (*columns)[slots];
  if (!column.hashes.empty()) return column;
  std::mt19937_64 random(slots);
  for (size_t i = 0; i < slots; ++i) {
    std::vector<uint64_t> hashes(KeysOfSlot());
    for (uint64_t& hash : hashes) hash = random() >> 6;
    std::sort(hashes.begin(), hashes.end());
    column.hashes.push_back(std::move(hashes));
  }
  for (size_t i = 0; i < kQuestions; ++i) {
    column.strange.push_back(random() >> 6);
    const std::vector<uint64_t>& slot = column.hashes[random() % slots];
    column.present.push_back(slot[random() % slot.size()]);
  }
  return column;
}

std::vector<std::shared_ptr<const FilterImage>> ImagesOf(const Column& column, double bits) {
  std::vector<std::shared_ptr<const FilterImage>> images;
  for (const auto& hashes : column.hashes) images.push_back(BuildFilterImage(hashes, bits));
  return images;
}

std::shared_ptr<const FilterImage> Merge(const std::vector<std::shared_ptr<const FilterImage>>& images, double bits) {
  std::vector<std::unique_ptr<PairCursor>> cursors;
  std::vector<MergeInput> inputs;
  uint64_t pairs = 0;
  unsigned precision = kMaxPrecision;
  for (const auto& image : images) {
    MergeInput input;
    cursors.push_back(image->NewCursor());
    input.cursor = cursors.back().get();
    input.precision = image->shape().precision;
    input.slots[0] = static_cast<uint8_t>(inputs.size());
    inputs.push_back(input);
    pairs += image->pairs();
    precision = std::min(precision, input.precision);
  }
  const unsigned slot_bits = images.size() > 1 ? BitWidth(images.size() - 1) : 0;
  const FilterShape shape = ChooseFilterShape(pairs, 0, ~uint64_t{0} >> 6, slot_bits, bits, precision);
  FilterImage::Builder builder(shape, pairs);
  ColumnWriter writer(shape, &builder);
  return MergePairs(inputs, shape, &writer) ? builder.Finish(writer.pairs()) : nullptr;
}

// Times `probe`, which returns a set of slots, and reports what it lets through.
template <class Probe>
void Run(benchmark::State& state, double bytes, const Probe& probe) {
  const size_t slots = static_cast<size_t>(state.range(0));
  const Column& column = ColumnOf(slots);
  const std::vector<uint64_t>& questions = state.range(2) != 0 ? column.strange : column.present;
  size_t i = 0;
  for (auto _ : state) {
    // As in a lookup, what comes after waits for the answer.
    uint64_t found = probe(questions[i]);
    benchmark::DoNotOptimize(found);
    i = (i + 1 + (found >> 63)) & (kQuestions - 1);
  }
  uint64_t through = 0;
  for (size_t j = 0; j < kQuestions; ++j)
    through += static_cast<uint64_t>(__builtin_popcountll(probe(column.strange[j])));
  state.counters["bits_per_key"] = 8 * bytes / static_cast<double>(slots * KeysOfSlot());
  state.counters["per_slot"] = static_cast<double>(through) / static_cast<double>(kQuestions * slots);
}

void BM_Clustered(benchmark::State& state) {
  const auto image = Merge(ImagesOf(ColumnOf(static_cast<size_t>(state.range(0))), static_cast<double>(state.range(1))),
                           static_cast<double>(state.range(1)));
  Run(state, static_cast<double>(image->bytes()), [&](uint64_t hash) { return image->Probe(hash); });
}

struct RocksFilter {
  std::unique_ptr<const char[]> owner;
  std::unique_ptr<rocksdb::FilterBitsReader> reader;
  size_t bytes = 0;
};

// RocksDB's own, asked with the eight bytes of the hash as the key.
void BM_RocksDbBloom(benchmark::State& state) {
  const Column& column = ColumnOf(static_cast<size_t>(state.range(0)));
  rocksdb::BloomFilterPolicy policy(static_cast<double>(state.range(1)));
  rocksdb::BlockBasedTableOptions table;
  std::vector<RocksFilter> filters;
  double bytes = 0;
  for (const auto& hashes : column.hashes) {
    rocksdb::FilterBuildingContext context(table);
    std::unique_ptr<rocksdb::FilterBitsBuilder> builder(policy.GetBuilderWithContext(context));
    for (const uint64_t& hash : hashes) {
      builder->AddKey(rocksdb::Slice(reinterpret_cast<const char*>(&hash), sizeof(hash)));
    }
    RocksFilter filter;
    const rocksdb::Slice content = builder->Finish(&filter.owner);
    filter.reader.reset(policy.GetFilterBitsReader(content));
    bytes += static_cast<double>(content.size());
    filters.push_back(std::move(filter));
  }
  Run(state, bytes, [&](uint64_t hash) {
    uint64_t found = 0;
    const rocksdb::Slice key(reinterpret_cast<const char*>(&hash), sizeof(hash));
    for (size_t i = 0; i < filters.size(); ++i) found |= uint64_t{filters[i].reader->MayMatch(key)} << i;
    return found;
  });
}

void Sizes(benchmark::internal::Benchmark* benchmark) {
  benchmark->ArgNames({"slots", "bits", "strange"});
  for (int strange : {1, 0}) {
    for (int slots : {12, 24, 48}) benchmark->Args({slots, 16, strange});
  }
  benchmark->Args({12, 10, 1});
}
BENCHMARK(BM_Clustered)->Apply(Sizes);
BENCHMARK(BM_RocksDbBloom)->Apply(Sizes);

}  // namespace
}  // namespace cairn
