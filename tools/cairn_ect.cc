// cairn ect: builds an ECT index over random hashes, checks every answer, and times it.

#include <algorithm>
#include <cinttypes>
#include <cstdio>
#include <vector>

#include "cairn/ect.h"
#include "tools/arguments.h"
#include "tools/commands.h"
#include "util/mix64.h"
#include "util/thread_seconds.h"

namespace cairn {
namespace {

constexpr char kDescription[] =
    "Builds an ECT index (entropy-coded tries) over random 64-bit hashes in memory, checks that every key is found,\n"
    "and times building and looking up. Times are processor time of the one thread that works.";

// Random hashes in growing order: dealt out by their first 16 bits, then sorted in pieces that fit into the cache.
std::vector<uint64_t> SortedHashes(uint64_t n, uint64_t seed) {
  constexpr size_t kPieces = 1 << 16;
  std::vector<uint64_t> ends(kPieces + 1, 0);
  uint64_t state = seed;
  for (uint64_t i = 0; i < n; ++i) ++ends[(NextSplitMix64(&state) >> 48) + 1];
  for (size_t piece = 1; piece <= kPieces; ++piece) ends[piece] += ends[piece - 1];
  std::vector<uint64_t> hashes(n), next(ends.begin(), ends.end() - 1);
  state = seed;
  for (uint64_t i = 0; i < n; ++i) {
    const uint64_t hash = NextSplitMix64(&state);
    hashes[next[hash >> 48]++] = hash;
  }
  for (size_t piece = 0; piece < kPieces; ++piece) {
    std::sort(hashes.begin() + static_cast<ptrdiff_t>(ends[piece]),
              hashes.begin() + static_cast<ptrdiff_t>(ends[piece + 1]));
  }
  return hashes;
}

// Whether the match holds position i of the hash, and no more than it may.
bool IsRight(const EctMatch& match, uint64_t i, uint64_t items) {
  if (match.count == 0 || i - match.rank >= match.count) return false;
  if (items == 0) return match.count == 1;
  return match.rank / items == (match.rank + match.count - 1) / items;
}

double Median(std::vector<double> values) {
  std::sort(values.begin(), values.end());
  return values[values.size() / 2];
}

int RunEct(int argc, char** argv) {
  uint64_t keys = 10000000, group = 256, hmax = 64, items = 0, skip = 160, lookups = 1000000, seed = 1;
  bool uncounted = false, json = false;
  Arguments arguments("ect", kDescription);
  arguments.Count("keys", &keys, "random hashes to index", 1, uint64_t{1} << 36);
  arguments.Count("group", &group, "mean keys in a virtual bucket", 16, 65536);
  arguments.Count("hmax", &hmax, "largest trie with a Huffman code; Elias-gamma above", 2, 120);
  arguments.Count("sparse", &items, "items a block that need not be told apart; 0: every position is told apart", 0,
                  1000000);
  arguments.Count("skip", &skip, "smallest trie that stores the length of its left part", 3, UINT32_MAX);
  arguments.Count("lookups", &lookups, "lookups in each of five timed rounds", 1, uint64_t{1} << 32);
  arguments.Count("seed", &seed, "of the hashes");
  arguments.Switch("uncounted", &uncounted,
                   "leave it to the builder to count the keys: it keeps all hashes until the end");
  arguments.Switch("json", &json, "print one JSON object");
  if (!arguments.Parse(argc, argv)) return arguments.exit_code();
  if (items == 1) return arguments.UsageError("--sparse=1 is a dense index; leave it out");

  const std::vector<uint64_t> hashes = SortedHashes(keys, seed);
  EctOptions options;
  options.group = static_cast<uint32_t>(group);
  options.hmax = static_cast<uint32_t>(hmax);
  options.block_items = static_cast<uint32_t>(items);
  options.skip_leaves = static_cast<uint32_t>(skip);
  if (!uncounted) options.expected_keys = keys;

  std::string bytes;
  const double build_start = ThreadSeconds();
  EctBuilder builder(options);
  for (uint64_t hash : hashes) builder.Add(hash);
  IndexStatus status = builder.Finish(&bytes);
  const double build_seconds = ThreadSeconds() - build_start;
  if (!status.ok()) {
    fprintf(stderr, "cairn ect: %s\n", status.message().c_str());
    return kExitFailure;
  }

  EctIndex index;
  const double open_start = ThreadSeconds();
  status = EctIndex::Open(bytes.data(), bytes.size(), EctVerify::kChecksum, &index);
  const double open_seconds = ThreadSeconds() - open_start;
  if (!status.ok()) {
    fprintf(stderr, "cairn ect: the index just built does not open: %s\n", status.message().c_str());
    return kExitFailure;
  }
  for (uint64_t i = 0; i < keys; ++i) {
    if (i > 0 && hashes[i] == hashes[i - 1]) continue;
    if (i + 1 < keys && hashes[i] == hashes[i + 1]) continue;  // equal hashes share an answer
    const EctMatch match = index.Lookup(hashes[i]);
    if (IsRight(match, i, items)) continue;
    fprintf(stderr,
            "cairn ect: hash %016" PRIx64 " at position %" PRIu64 " is looked up as %" PRIu64 " + %" PRIu64
            "; this is a fault of the index, please report it with seed %" PRIu64 "\n",
            hashes[i], i, match.rank, match.count, seed);
    return kExitFailure;
  }

  std::vector<double> single, batch;
  std::vector<uint64_t> questions(lookups);
  std::vector<EctMatch> matches(lookups);
  uint64_t state = ~seed, sum = 0;
  for (int round = 0; round < 5; ++round) {
    for (uint64_t& question : questions) question = hashes[NextSplitMix64(&state) % keys];
    double start = ThreadSeconds();
    for (uint64_t question : questions) sum += index.Lookup(question).rank;
    single.push_back(1e9 * (ThreadSeconds() - start) / static_cast<double>(lookups));
    for (uint64_t& question : questions) question = hashes[NextSplitMix64(&state) % keys];
    start = ThreadSeconds();
    index.LookupBatch(questions.data(), lookups, matches.data());
    batch.push_back(1e9 * (ThreadSeconds() - start) / static_cast<double>(lookups));
    sum += matches.back().rank;
  }

  const double keys_per_second = static_cast<double>(keys) / build_seconds;
  if (json) {
    printf("{\"keys\": %" PRIu64 ", \"group\": %" PRIu64 ", \"hmax\": %" PRIu64 ", \"sparse\": %" PRIu64
           ", \"skip\": %" PRIu64
           ", \"bytes\": %zu, \"bits_per_key\": %.4f, \"lookup_ns\": %.1f, \"batch_lookup_ns\": %.1f, "
           "\"build_keys_per_s\": %.0f, \"open_s\": %.6f, \"rank_sum\": %" PRIu64 "}\n",
           keys, group, hmax, items, skip, bytes.size(), index.BitsPerKey(), Median(single), Median(batch),
           keys_per_second, open_seconds, sum);
    return kExitOk;
  }
  printf("%" PRIu64 " keys in %zu bytes, every one found\n", keys, bytes.size());
  printf("  bits per key       %8.3f\n", index.BitsPerKey());
  printf("  lookup             %8.0f ns, %.0f ns in batches (medians of 5 rounds of %" PRIu64 ")\n", Median(single),
         Median(batch), lookups);
  printf("  build              %8.1f million keys/s\n", keys_per_second / 1e6);
  printf("  open with checksum %8.2f ms\n", open_seconds * 1e3);
  return kExitOk;
}

const CommandRegistration kEct("ect", "Builds, checks and times an ECT index over random hashes", RunEct);

}  // namespace
}  // namespace cairn
