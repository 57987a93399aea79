#include "src/msls/nlopt_library.h"

#include <dlfcn.h>

#include <string>

namespace cairn {
namespace msls {

namespace {

struct Loaded {
  NloptLibrary library = {};
  std::string error;
};

template <class Function>
void Find(void* handle, const char* name, Function* function, std::string* error) {
  *function = reinterpret_cast<Function>(dlsym(handle, name));
  if (*function == nullptr && error->empty()) *error = std::string("it has no ") + name;
}

Loaded Load() {
  Loaded loaded;
  // The one that the headers belong to: CMakeLists.txt.
  void* const handle = dlopen(CAIRN_NLOPT_SONAME, RTLD_NOW | RTLD_LOCAL);
  if (handle == nullptr) {
    loaded.error = dlerror();
    return loaded;
  }
  NloptLibrary& library = loaded.library;
  Find(handle, "nlopt_create", &library.create, &loaded.error);
  Find(handle, "nlopt_destroy", &library.destroy, &loaded.error);
  Find(handle, "nlopt_set_min_objective", &library.set_min_objective, &loaded.error);
  Find(handle, "nlopt_set_lower_bounds1", &library.set_lower_bounds, &loaded.error);
  Find(handle, "nlopt_set_upper_bounds1", &library.set_upper_bounds, &loaded.error);
  Find(handle, "nlopt_set_initial_step1", &library.set_initial_step, &loaded.error);
  Find(handle, "nlopt_set_ftol_rel", &library.set_ftol_rel, &loaded.error);
  Find(handle, "nlopt_set_xtol_rel", &library.set_xtol_rel, &loaded.error);
  Find(handle, "nlopt_set_maxeval", &library.set_maxeval, &loaded.error);
  Find(handle, "nlopt_optimize", &library.optimize, &loaded.error);
  return loaded;
}

}  // namespace

Status LoadNlopt(const NloptLibrary** library) {
  static const auto* const loaded = new Loaded(Load());
  if (!loaded->error.empty()) {
    return Status::InvalidArgument("Level sizes are searched with " CAIRN_NLOPT_SONAME ", which cannot be loaded (" +
                                   loaded->error + "): install it (Debian's package libnlopt0).");
  }
  *library = &loaded->library;
  return Status::OK();
}

}  // namespace msls
}  // namespace cairn
