#include "cairn/version.h"

#include "util/format_version.h"

namespace cairn {

const char* Version() { return CAIRN_VERSION; }

std::string UnknownVersion(uint64_t version, uint64_t known) {
  return "format version " + std::to_string(version) + "; Cairn " + Version() + " reads " + std::to_string(known) +
         (version > known ? ": use a later Cairn" : ": it was made before Cairn's first release");
}

}  // namespace cairn
