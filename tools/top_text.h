// The status of a database as lines for a terminal, for `cairn top`.
//
// Thread-safety: functions of their arguments.

#pragma once

#include <cstddef>
#include <string>
#include <vector>

#include "tools/status/snapshot.h"

namespace cairn {

// At most `width` columns each; no control characters, whatever the names of column families hold.
std::vector<std::string> StatusToLines(const StatusSnapshot& snapshot, const History& history, size_t width);

}  // namespace cairn
