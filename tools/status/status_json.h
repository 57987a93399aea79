// The status as JSON, for the page and for other programs. docs/guide/watch.md has the schema.
//
// Thread-safety: functions of their arguments.

#pragma once

#include <string>

#include "tools/status/history.h"
#include "tools/status/snapshot.h"

namespace cairn {

// Raised when a field changes its meaning or goes; new fields may come at any time.
constexpr int kStatusSchema = 1;

std::string StatusToJson(const StatusSnapshot& snapshot, const History& history);

}  // namespace cairn
