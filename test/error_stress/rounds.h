// What the programs of this folder share: rounds, one seed after the other, for at least some seconds.

#pragma once

#include <chrono>
#include <cstdint>
#include <utility>

#include "test/flags.h"

namespace cairn {
namespace errors {

struct RoundSettings {
  uint64_t seed = 1;
  uint64_t seconds = 10;
  uint64_t patience = 120;  // seconds, for what must end
  bool loses = false;       // a round that is to fail
};

// --seed, --seconds, --patience and --lose, beside those of one program.
inline test::Flags FlagsOfRounds(RoundSettings* settings, test::Flags own) {
  own.merge(test::Flags{
      {"seconds", [=](const test::FlagValue& value) { settings->seconds = value.Number(); }},
      {"seed", [=](const test::FlagValue& value) { settings->seed = value.Seed(); }},
      {"patience", [=](const test::FlagValue& value) { settings->patience = value.Number(); }},
      {"lose", [=](const test::FlagValue&) { settings->loses = true; }},
  });
  return own;
}

// How many there were; 0: one could not be run.
template <typename Round>
uint64_t RunRounds(const RoundSettings& settings, const Round& round) {
  using std::chrono::steady_clock;
  uint64_t rounds = 0;
  const auto end = steady_clock::now() + std::chrono::seconds(settings.seconds);
  do {
    if (!round(settings.seed + rounds++)) return 0;
  } while (steady_clock::now() < end);
  return rounds;
}

}  // namespace errors
}  // namespace cairn
