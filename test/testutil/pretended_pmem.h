// A platform with persistent memory: every file that is mapped lies on it, as long as this object lives.

#pragma once

#include <fcntl.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include <atomic>

#include "memtable_cache/pmem_library.h"

#ifdef CAIRN_HAVE_PMEM

namespace cairn::test {

enum class PowerLoss { kKeepsTheCache, kLosesTheCache };  // eADR or not

class PretendedPmem {
 public:
  explicit PretendedPmem(PowerLoss power) {
    flushes() = 0;
    library_.map_file = &Map;
    library_.has_auto_flush = power == PowerLoss::kKeepsTheCache ? +[] { return 1; } : +[] { return 0; };
    library_.persist = +[](const void*, size_t) { ++flushes(); };
    library_.deep_flush = +[](const void*, size_t) { ++flushes(); };
    PretendPmemLibrary(&library_);
  }
  ~PretendedPmem() { PretendPmemLibrary(nullptr); }
  PretendedPmem(const PretendedPmem&) = delete;
  PretendedPmem& operator=(const PretendedPmem&) = delete;

  // Of ranges, out of the cache.
  static std::atomic<int>& flushes() {
    static std::atomic<int> count{0};
    return count;
  }

 private:
  static void* Map(const char* path, size_t, int, mode_t, size_t* mapped, int* is_pmem) {
    const int fd = open(path, O_RDWR | O_CLOEXEC);
    struct stat facts = {};
    void* at = fd < 0 || fstat(fd, &facts) != 0
                   ? MAP_FAILED
                   : mmap(nullptr, static_cast<size_t>(facts.st_size), PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
    if (fd >= 0) close(fd);
    *mapped = static_cast<size_t>(facts.st_size);
    *is_pmem = 1;
    return at == MAP_FAILED ? nullptr : at;
  }

  PmemLibrary library_{};
};

}  // namespace cairn::test

#endif
