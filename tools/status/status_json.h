// The status as JSON, for the page and for other programs. docs/guide/watch.md has the schema.
//
// Thread-safety: functions of their arguments.

#pragma once

#include <string>

#include "tools/status/snapshot.h"

namespace cairn {

// Raised when a field changes its meaning or goes; new fields may come at any time.
constexpr int kStatusSchema = 1;

std::string StatusToJson(const StatusSnapshot& snapshot, const History& history);

// The status in Prometheus' text format (version 0.0.4).
//
// Names: cairn_... are Cairn's own, and what it makes of RocksDB's properties; rocksdb_... are the tickers and
// histograms of options.statistics, by RocksDB's names with '.' and '-' as '_'. Counters end in _total, units are bytes
// and seconds; what belongs to a column family has the label column_family. What is not known is left out.
//
// Thread-safety: a function of its argument.

std::string StatusToMetrics(const StatusSnapshot& snapshot);

}  // namespace cairn
