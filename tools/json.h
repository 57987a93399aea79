// Just enough JSON for what commands print.

#pragma once

#include <string>

namespace cairn {

// `text` as a JSON string, with its quotation marks. Bytes that are no UTF-8 are passed on as they are.
std::string JsonText(const std::string& text);

}  // namespace cairn
