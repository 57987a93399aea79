// What a program has said is to hold a text.

#pragma once

#include <string>

#include "gtest/gtest.h"

namespace cairn {

inline bool Contains(const std::string& text, const std::string& part) { return text.find(part) != std::string::npos; }

#define EXPECT_CONTAINS(text, part) EXPECT_TRUE(::cairn::Contains(text, part)) << (text)

}  // namespace cairn
