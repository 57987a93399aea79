// Says that the check has let it through. The static initialiser must not be reached when it has not.

#include <cstdio>

#include "util/processor_check.h"

namespace {

const int initialised = std::puts("initialised");

}  // namespace

int main() { return cairn_processor_check == 1 && initialised >= 0 ? 0 : 1; }
