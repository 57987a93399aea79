// The version of Cairn, which is not that of the RocksDB inside: `cairn version` prints both.
//
// Stateless; thread-safe.

#pragma once

namespace cairn {

// Of the library that the program runs with: "MAJOR.MINOR.PATCH".
const char* Version();

}  // namespace cairn
