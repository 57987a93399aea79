// What sampling costs a flush for each key, to be held against the time of a put (engine_bench).

#include <benchmark/benchmark.h>

#include <cstdio>

#include <memory>
#include <string>
#include <vector>

#include "msls/key_sample.h"
#include "util/coding.h"

namespace cairn {
namespace {

// A table of `keys` keys of 16 bytes, in order, as a flush shows them to the collector.
void BM_SampleTable(benchmark::State& state) {
  std::vector<std::string> keys;
  for (int64_t i = 0; i < state.range(0); i++) {
    char key[17];
    snprintf(key, sizeof(key), "%016llx", static_cast<unsigned long long>(i) << 16);
    keys.emplace_back(key, 16);
  }
  KeySampleFactory factory;
  for (auto _ : state) {
    std::unique_ptr<rocksdb::TablePropertiesCollector> collector(
        factory.CreateTablePropertiesCollector(rocksdb::TablePropertiesCollectorFactory::Context(0, 0, 7, 0)));
    for (const std::string& key : keys) {
      benchmark::DoNotOptimize(collector->AddUserKey(key, rocksdb::Slice(), rocksdb::kEntryPut, 0, 0));
    }
    rocksdb::UserCollectedProperties properties;
    benchmark::DoNotOptimize(collector->Finish(&properties));
  }
  state.SetItemsProcessed(state.iterations() * state.range(0));
}
BENCHMARK(BM_SampleTable)->Arg(10000)->Arg(500000);

}  // namespace
}  // namespace cairn
