// A strict reader of Prometheus' text format, for tests.
//
// Thread-safety: a function of its argument.

#pragma once

#include <map>
#include <string>

namespace cairn {

// Fills *samples with name{labels} to value and returns the first fault of the text ("line 7: ..."), or "". Besides the
// format it checks the conventions: HELP and TYPE before the first sample, samples of one metric together and each
// once, counters that end in _total and nothing else that does, names and units in lower case.
std::string CheckMetrics(const std::string& text, std::map<std::string, double>* samples);

}  // namespace cairn
