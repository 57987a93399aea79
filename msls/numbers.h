// How numbers are written in messages.

#pragma once

#include <string>

namespace cairn {
namespace msls {

// At most 12 significant digits.
std::string Number(double value);

}  // namespace msls
}  // namespace cairn
