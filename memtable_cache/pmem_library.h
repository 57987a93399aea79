// The distribution's libpmem, loaded when a pool file is first mapped, so that only programs that keep memtables in
// files need it. It is wanted, not needed: without it no file counts as persistent memory.
//
// Thread-safety: all functions are thread-safe.

#pragma once

#include <string>

#if __has_include(<libpmem.h>)
#include <libpmem.h>
#define CAIRN_HAVE_PMEM 1
#endif

namespace cairn {

// Why no file counts as persistent memory; empty: one may.
std::string WhyNoPmemLibrary();

#ifdef CAIRN_HAVE_PMEM

struct PmemLibrary {
  decltype(&pmem_map_file) map_file;
  decltype(&pmem_has_auto_flush) has_auto_flush;
  decltype(&pmem_persist) persist;
  decltype(&pmem_deep_flush) deep_flush;
};

// Null if it cannot be loaded. Never unloaded.
const PmemLibrary* LoadPmemLibrary();

// For tests of platforms that the machine is not: LoadPmemLibrary gives `library` instead. Null: as it was.
void PretendPmemLibrary(const PmemLibrary* library);

#endif

}  // namespace cairn
