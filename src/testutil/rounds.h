// How often a test repeats what chance decides.

#pragma once

#include <algorithm>
#include <cstdlib>

namespace cairn::test {

// `usual` times CAIRN_ROUNDS, which is 1 where the environment has none.
inline int Rounds(int usual) {
  const char* const times = std::getenv("CAIRN_ROUNDS");
  return times == nullptr ? usual : std::max(1, static_cast<int>(usual * std::strtod(times, nullptr)));
}

}  // namespace cairn::test
