#include "util/boot_number.h"
#include "util/short_hash.h"

#include <fstream>
#include <string>

namespace cairn {

uint64_t BootNumber() {
  static const uint64_t number = [] {
    std::string id;
    std::getline(std::ifstream("/proc/sys/kernel/random/boot_id"), id);
    return id.empty() ? 0 : XXH3_64bits(id.data(), id.size());
  }();
  return number;
}

}  // namespace cairn
