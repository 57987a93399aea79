// What is said of bytes on disk whose format has another version than the ones that this library reads.
//
// Stateless; thread-safe.

#pragma once

#include <cstdint>
#include <string>

namespace cairn {

// "format version 3; Cairn 0.1.0 reads 2: use a later Cairn". A version before `known` is that of a Cairn before its
// first release.
std::string UnknownVersion(uint64_t version, uint64_t known);

}  // namespace cairn
