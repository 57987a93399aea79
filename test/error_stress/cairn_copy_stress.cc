// A database is written by several threads, flushed, synced, resumed, ingested into, while its disk is slow by chance in every
// call and fails one call now and then. At many moments it is copied as a crash, or a loss of power, would leave it, or by a
// checkpoint. Every copy opens and holds what was acknowledged, each batch as a whole in all families, what was prepared, and nothing
// that has failed before, half of them when they were written to and closed twice besides; snapshots show the same, read
// twice; and after every fault all writers go on.
//
//   cairn_copy_stress [--seconds=N] [--seed=X] [--way=NAME] [--patience=S]
//
// It is rounds of eight faults, one seed after the other, for at least N seconds. --way: how the program writes (plain,
// pipelined, two_queues, unordered, transactions, pipelined_transactions, two_queues_transactions, write_prepared,
// unordered_write_prepared, one_queue_write_prepared, write_unprepared, one_queue_write_unprepared); else each seed has its own. --patience is what a wait for all writers may take. --lose spoils
// the first round, to show that it is seen.
//
// A failure prints the line that replays it: the same choices, not the same moments. The copy stays where it says.

#include <cinttypes>
#include <cstdio>

#include "test/error_stress/copied_database.h"
#include "test/error_stress/rounds.h"
#include "test/support.h"

namespace cairn {
namespace errors {
namespace {

struct Settings : RoundSettings {
  std::string way;
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
  const uint64_t rounds = RunRounds(settings, [&](uint64_t seed) { return RunRound(settings, seed, &counts); });
  if (rounds == 0) return 2;
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
  const cairn::test::Flags flags = cairn::errors::FlagsOfRounds(
      &settings, {{"way", [&](const cairn::test::FlagValue& value) { settings.way = value.Text(); }}});
  return cairn::test::ParseFlags(argc, argv, "cairn_copy_stress", flags) ? cairn::errors::Run(settings) : 2;
}
