// How numbers are written in messages.

#pragma once

#include <string>

namespace cairn::msls {

// At most 12 significant digits.
std::string Number(double value);

}  // namespace cairn::msls
