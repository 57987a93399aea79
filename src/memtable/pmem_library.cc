#include "src/memtable/pmem_library.h"

#include <dlfcn.h>

namespace cairn {

#ifdef CAIRN_HAVE_PMEM

namespace {

struct Loaded {
  PmemLibrary library = {};
  std::string error;
};

template <class Function>
void Find(void* handle, const char* name, Function* function, std::string* error) {
  *function = reinterpret_cast<Function>(dlsym(handle, name));
  if (*function == nullptr && error->empty()) *error = std::string("libpmem.so.1 has no ") + name;
}

Loaded Load() {
  Loaded loaded;
  void* const handle = dlopen("libpmem.so.1", RTLD_NOW | RTLD_LOCAL);
  if (handle == nullptr) {
    loaded.error = dlerror();
    return loaded;
  }
  Find(handle, "pmem_map_file", &loaded.library.map_file, &loaded.error);
  Find(handle, "pmem_has_auto_flush", &loaded.library.has_auto_flush, &loaded.error);
  Find(handle, "pmem_persist", &loaded.library.persist, &loaded.error);
  Find(handle, "pmem_deep_flush", &loaded.library.deep_flush, &loaded.error);
  Find(handle, "pmem_memcpy", &loaded.library.copy, &loaded.error);
  return loaded;
}

const Loaded& TheLibrary() {
  static const auto* const loaded = new Loaded(Load());
  return *loaded;
}

}  // namespace

const PmemLibrary* LoadPmemLibrary() { return TheLibrary().error.empty() ? &TheLibrary().library : nullptr; }

std::string WhyNoPmemLibrary() { return TheLibrary().error; }

#else

std::string WhyNoPmemLibrary() { return "this build has no libpmem"; }

#endif

}  // namespace cairn
