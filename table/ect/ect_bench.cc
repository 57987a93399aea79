// The ECT index beside minimal perfect hashing libraries that a user could take instead, and the cuckoo filter. The
// libraries are compiled in where the distribution's packages libcmph-dev and libbbhash-dev are installed.
//
//   CAIRN_BENCH_KEYS=10000000 build/bench/ect_bench
//
// Counters: bits_per_key, and build_keys_per_s of one build by one thread in processor time. All of them answer
// with a position in 0 ... keys - 1. ECT's positions are in the order of the hashes; those of the others are not, so
// data must be permuted to use them.

#include <benchmark/benchmark.h>
#include <time.h>

#include <algorithm>
#include <cmath>
#include <cstdlib>
#include <memory>
#include <string>
#include <vector>

#include "cairn/cuckoo_filter.h"
#include "cairn/ect.h"
#include "util/mix64.h"

#ifdef CAIRN_HAVE_BBHASH
#include <BooPHF.h>
#endif
#ifdef CAIRN_HAVE_CMPH
#include <cmph.h>
#endif

namespace cairn {
namespace {

// Fixed, so that each structure is built once.
constexpr int64_t kLookups = 1 << 21;

const std::vector<uint64_t>& Keys() {
  static const std::vector<uint64_t> keys = [] {
    const char* given = getenv("CAIRN_BENCH_KEYS");
    std::vector<uint64_t> hashes(given != nullptr ? strtoull(given, nullptr, 10) : 1000000);
    uint64_t state = 1;
    for (uint64_t& hash : hashes) hash = NextSplitMix64(&state);
    std::sort(hashes.begin(), hashes.end());
    hashes.erase(std::unique(hashes.begin(), hashes.end()), hashes.end());
    return hashes;
  }();
  return keys;
}

// Keys in random order, as many as stay in the cache.
const std::vector<uint64_t>& Questions() {
  static const std::vector<uint64_t> questions = [] {
    std::vector<uint64_t> asked(1 << 16);
    uint64_t state = 2;
    for (uint64_t& hash : asked) hash = Keys()[NextSplitMix64(&state) % Keys().size()];
    return asked;
  }();
  return questions;
}

double ProcessorSeconds() {
  timespec now;
  clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &now);
  return static_cast<double>(now.tv_sec) + 1e-9 * static_cast<double>(now.tv_nsec);
}

// Times `ask` over the questions and reports what `build` made: its size in bits.
template <class Build, class Ask>
void Run(benchmark::State& state, const Build& build, const Ask& ask) {
  const std::vector<uint64_t>& questions = Questions();
  const double start = ProcessorSeconds();
  const double bits = build();
  const double seconds = ProcessorSeconds() - start;
  size_t i = 0;
  for (auto _ : state) {
    benchmark::DoNotOptimize(ask(questions[i]));
    i = (i + 1) & (questions.size() - 1);
  }
  const double keys = static_cast<double>(Keys().size());
  state.counters["bits_per_key"] = bits / keys;
  state.counters["build_keys_per_s"] = keys / seconds;
}

void BM_Ect(benchmark::State& state) {
  EctOptions options;
  options.block_items = static_cast<uint32_t>(state.range(0));
  options.skip_leaves = static_cast<uint32_t>(state.range(1));
  options.expected_keys = Keys().size();
  std::string bytes;
  EctIndex index;
  Run(
      state,
      [&] {
        EctBuilder builder(options);
        for (uint64_t hash : Keys()) builder.Add(hash);
        if (!builder.Finish(&bytes).ok()) abort();
        if (!EctIndex::Open(bytes.data(), bytes.size(), EctVerify::kChecksum, &index).ok()) abort();
        return 8.0 * static_cast<double>(bytes.size());
      },
      [&](uint64_t hash) { return index.Lookup(hash).rank; });
}
BENCHMARK(BM_Ect)
    ->ArgNames({"sparse", "skip"})
    ->Args({0, 160})
    ->Args({0, 32})
    ->Args({16, 160})
    ->Args({16, 32})
    ->Iterations(kLookups);

void BM_CuckooFilter(benchmark::State& state) {
  std::string bytes;
  CuckooFilter filter;
  Run(
      state,
      [&] {
        CuckooFilterOptions options;
        options.tag_bits = static_cast<uint32_t>(state.range(0));
        CuckooFilterBuilder builder(options);
        for (uint64_t hash : Keys()) builder.Add(hash);
        if (!builder.Finish(&bytes).ok()) abort();
        if (!CuckooFilter::Open(bytes.data(), bytes.size(), &filter).ok()) abort();
        return 8.0 * static_cast<double>(bytes.size());
      },
      [&](uint64_t hash) { return filter.MayContain(hash ^ 1); });
  uint64_t strangers = 3, yes = 0;
  for (int i = 0; i < 10000000; ++i) yes += filter.MayContain(NextSplitMix64(&strangers)) ? 1 : 0;
  state.counters["false_positives"] = static_cast<double>(yes) / 1e7;
}
BENCHMARK(BM_CuckooFilter)->ArgName("tag_bits")->Arg(8)->Arg(12)->Arg(15)->Iterations(kLookups);

#ifdef CAIRN_HAVE_BBHASH
// gamma * 100: bits a level may use for a key.
void BM_BBHash(benchmark::State& state) {
  using Function = boomphf::mphf<uint64_t, boomphf::SingleHashFunctor<uint64_t>>;
  std::unique_ptr<Function> function;
  Run(
      state,
      [&] {
        const double gamma = static_cast<double>(state.range(0)) / 100;
        function = std::make_unique<Function>(Keys().size(), Keys(), 1, gamma, false, false);
        return static_cast<double>(function->totalBitSize());
      },
      [&](uint64_t hash) { return function->lookup(hash); });
}
BENCHMARK(BM_BBHash)->ArgName("gamma")->Arg(100)->Arg(200)->Iterations(kLookups);
#endif

#ifdef CAIRN_HAVE_CMPH
void BM_Cmph(benchmark::State& state) {
  cmph_t* function = nullptr;
  std::vector<uint64_t> keys = Keys();
  std::string packed;
  Run(
      state,
      [&] {
        cmph_io_adapter_t* source = cmph_io_struct_vector_adapter(keys.data(), sizeof(uint64_t), 0, sizeof(uint64_t),
                                                                  static_cast<cmph_uint32>(keys.size()));
        cmph_config_t* config = cmph_config_new(source);
        cmph_config_set_algo(config, static_cast<CMPH_ALGO>(state.range(0)));
        function = cmph_new(config);
        cmph_config_destroy(config);
        cmph_io_struct_vector_adapter_destroy(source);
        if (function == nullptr) abort();
        packed.resize(cmph_packed_size(function));
        cmph_pack(function, packed.data());
        return 8.0 * static_cast<double>(packed.size());
      },
      [&](uint64_t hash) {
        return cmph_search_packed(packed.data(), reinterpret_cast<const char*>(&hash), sizeof(hash));
      });
  cmph_destroy(function);
  state.SetLabel(cmph_names[state.range(0)]);
}
BENCHMARK(BM_Cmph)->ArgName("algorithm")->Arg(CMPH_BDZ)->Arg(CMPH_CHD)->Iterations(kLookups);
#endif

}  // namespace
}  // namespace cairn
