// A database is written by several threads, flushed, synced, resumed, ingested into, while its disk is slow by chance in every
// call and fails one call now and then. At many moments it is copied as a crash, or a loss of power, would leave it, or by a
// checkpoint. Every copy opens and holds what was acknowledged, each batch as a whole in all families, and nothing that has
// failed before; and after every fault all writers go on.
//
//   cairn_copy_stress [--seconds=N] [--seed=X] [--way=NAME] [--patience=S]
//
// It is rounds of eight faults, one seed after the other, for at least N seconds. --way: how the program writes (plain,
// pipelined, two_queues, unordered, transactions, pipelined_transactions, two_queues_transactions, write_prepared,
// unordered_write_prepared); else each seed has its own. --patience is what a wait for all writers may take. --lose spoils
// the first round, to show that it is seen.
//
// A failure prints the line that replays it: the same choices, not the same moments. The copy stays where it says.

#include <cinttypes>
#include <cstdio>

#include "test/error_stress/copied_database.h"
#include "test/flags.h"
#include "test/support.h"

namespace cairn {
namespace errors {
namespace {

using std::chrono::steady_clock;

struct Settings {
  uint64_t seed = 1;
  uint64_t seconds = 10;
  uint64_t patience = 120;
  std::string way;
  bool loses = false;
};

constexpr int kFaultsOfARound = 8;

// Null if there is none of that name.
const Way* WayOf(const Settings& settings, uint64_t seed) {
  if (settings.way.empty()) return &kWays[test::Random(seed).Uniform(kWays.size())];
  for (const Way& way : kWays) {
    if (way.name == settings.way) return &way;
  }
  return nullptr;
}

bool RunRound(const Settings& settings, uint64_t seed, CopyCounts* counts) {
  const Way* const way = WayOf(settings, seed);
  if (way == nullptr) {
    std::fprintf(stderr, "There is no way %s\n", settings.way.c_str());
    return false;
  }
  const std::string replay =
      "cairn_copy_stress --seed=" + std::to_string(seed) + " --way=" + way->name + " --seconds=1";
  const Verdict verdict(replay);
  const test::TempDir folder;
  CopiedDatabase database(*way, seed, folder.path(), std::chrono::seconds(settings.patience), counts, &verdict);
  std::printf("%s: %s\n", replay.c_str(), database.text().c_str());
  std::fflush(stdout);
  database.Begin();
  for (int i = 0; i < kFaultsOfARound; ++i) database.FailOnce();
  if (settings.loses) database.PretendOneMore();
  database.End();
  return true;
}

int Run(const Settings& settings) {
  CopyCounts counts;
  uint64_t rounds = 0;
  const auto end = steady_clock::now() + std::chrono::seconds(settings.seconds);
  do {
    if (!RunRound(settings, settings.seed + rounds++, &counts)) return 2;
  } while (steady_clock::now() < end);
  std::printf("%" PRIu64 " rounds: %" PRIu64 " writes acknowledged, %" PRIu64 " failed; %" PRIu64 " faults, %" PRIu64
              " errors that stopped the database; %" PRIu64 " copies and %" PRIu64 " checkpoints, all good\n",
              rounds, counts.acknowledged.load(), counts.failed.load(), counts.faults.load(), counts.errors.load(),
              counts.copies.load(), counts.checkpoints.load());
  return 0;
}

}  // namespace
}  // namespace errors
}  // namespace cairn

int main(int argc, char** argv) {
  cairn::errors::Settings settings;
  using Value = cairn::test::FlagValue;
  const bool understood =
      cairn::test::ParseFlags(argc, argv, "cairn_copy_stress",
                              {{"seconds", [&](const Value& value) { settings.seconds = value.Number(); }},
                               {"seed", [&](const Value& value) { settings.seed = value.Seed(); }},
                               {"patience", [&](const Value& value) { settings.patience = value.Number(); }},
                               {"way", [&](const Value& value) { settings.way = value.Text(); }},
                               {"lose", [&](const Value&) { settings.loses = true; }}});
  return understood ? cairn::errors::Run(settings) : 2;
}
