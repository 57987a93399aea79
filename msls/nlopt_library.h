// The distribution's NLopt, loaded when the optimizer first searches: only `cairn msls` and databases with a tuner need
// it.
//
// Thread-safety: safe.

#pragma once

#include <nlopt.h>

#include "cairn/msls.h"

namespace cairn::msls {

struct NloptLibrary {
  decltype(&nlopt_create) create;
  decltype(&nlopt_destroy) destroy;
  decltype(&nlopt_set_min_objective) set_min_objective;
  decltype(&nlopt_set_lower_bounds1) set_lower_bounds;
  decltype(&nlopt_set_upper_bounds1) set_upper_bounds;
  decltype(&nlopt_set_initial_step1) set_initial_step;
  decltype(&nlopt_set_ftol_rel) set_ftol_rel;
  decltype(&nlopt_set_xtol_rel) set_xtol_rel;
  decltype(&nlopt_set_maxeval) set_maxeval;
  decltype(&nlopt_optimize) optimize;
};

// Not ok, with the library's name and what to install, if it cannot be loaded. Never unloaded.
IndexStatus LoadNlopt(const NloptLibrary** library);

}  // namespace cairn::msls
