// A library that meets a processor it was not built for says so, instead of dying with an illegal instruction.
//
// When the library is loaded, before any other of its initialisers runs, the features that the compiler was allowed to
// use are compared with those of the processor. If one is missing, a line on stderr says which, and what to build
// instead, and the process ends with exit code 70 (EX_SOFTWARE): whatever came next could not be executed.

#pragma once

// Refer to this to have the check linked from the static library.
extern "C" const int cairn_processor_check;
