// What a program or a status has said is to hold a text.

#pragma once

#include <string>

#include "gtest/gtest.h"
#include "rocksdb/status.h"

namespace cairn {

inline bool Contains(const std::string& text, const std::string& part) { return text.find(part) != std::string::npos; }

// Whether the status is of the kind and says so.
inline ::testing::AssertionResult Says(const rocksdb::Status& status, bool (rocksdb::Status::*is_of_kind)() const,
                                       const std::string& part) {
  if ((status.*is_of_kind)() && Contains(status.ToString(), part)) return ::testing::AssertionSuccess();
  return ::testing::AssertionFailure() << "no \"" << part << "\", or another kind: " << status.ToString();
}

#define EXPECT_CONTAINS(text, part) EXPECT_TRUE(::cairn::Contains(text, part)) << (text)

}  // namespace cairn
