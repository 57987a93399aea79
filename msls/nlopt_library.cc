#include "msls/nlopt_library.h"

#include <string>

#include "util/shared_library.h"

namespace cairn::msls {

namespace {

using Library = SharedLibrary<NloptLibrary>;

const Library& TheLibrary() {
  static const auto* const loaded = [] {
    auto* const library = new Library(CAIRN_NLOPT_SONAME);  // the one that the headers belong to: CMakeLists.txt
    library->Find("nlopt_create", &library->functions.create);
    library->Find("nlopt_destroy", &library->functions.destroy);
    library->Find("nlopt_set_min_objective", &library->functions.set_min_objective);
    library->Find("nlopt_set_lower_bounds1", &library->functions.set_lower_bounds);
    library->Find("nlopt_set_upper_bounds1", &library->functions.set_upper_bounds);
    library->Find("nlopt_set_initial_step1", &library->functions.set_initial_step);
    library->Find("nlopt_set_ftol_rel", &library->functions.set_ftol_rel);
    library->Find("nlopt_set_xtol_rel", &library->functions.set_xtol_rel);
    library->Find("nlopt_set_maxeval", &library->functions.set_maxeval);
    library->Find("nlopt_optimize", &library->functions.optimize);
    return library;
  }();
  return *loaded;
}

}  // namespace

IndexStatus LoadNlopt(const NloptLibrary** library) {
  const std::string& error = TheLibrary().error;
  if (!error.empty()) {
    return IndexStatus::InvalidArgument("Level sizes are searched with " CAIRN_NLOPT_SONAME
                                        ", which cannot be loaded (" +
                                        error + "): install it (Debian's package libnlopt0).");
  }
  *library = &TheLibrary().functions;
  return IndexStatus::OK();
}

}  // namespace cairn::msls
