#include "memtable_cache/pmem_library.h"

#include <atomic>

#include "util/shared_library.h"

namespace cairn {

#ifdef CAIRN_HAVE_PMEM

namespace {

using Library = SharedLibrary<PmemLibrary>;

const Library& TheLibrary() {
  static const auto* const loaded = [] {
    auto* const library = new Library("libpmem.so.1");
    library->Find("pmem_map_file", &library->functions.map_file);
    library->Find("pmem_has_auto_flush", &library->functions.has_auto_flush);
    library->Find("pmem_persist", &library->functions.persist);
    library->Find("pmem_deep_flush", &library->functions.deep_flush);
    return library;
  }();
  return *loaded;
}

std::atomic<const PmemLibrary*> pretended{nullptr};

}  // namespace

const PmemLibrary* LoadPmemLibrary() {
  const PmemLibrary* const library = pretended.load();
  if (library != nullptr) return library;
  return TheLibrary().error.empty() ? &TheLibrary().functions : nullptr;
}

void PretendPmemLibrary(const PmemLibrary* library) { pretended.store(library); }

std::string WhyNoPmemLibrary() { return TheLibrary().error; }

#else

std::string WhyNoPmemLibrary() { return "this build has no libpmem"; }

#endif

}  // namespace cairn
