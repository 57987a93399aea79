// Assertions on a Status that say what went wrong.

#pragma once

#include "gtest/gtest.h"
#include "util/rocksdb_names.h"

#define ASSERT_OK(expression)                                                                       \
  do {                                                                                              \
    const ::rocksdb::Status& status_of_assert_ok = (expression);                                    \
    ASSERT_TRUE(status_of_assert_ok.ok()) << #expression << ": " << status_of_assert_ok.ToString(); \
  } while (false)

#define EXPECT_OK(expression)                                                                       \
  do {                                                                                              \
    const ::rocksdb::Status& status_of_expect_ok = (expression);                                    \
    EXPECT_TRUE(status_of_expect_ok.ok()) << #expression << ": " << status_of_expect_ok.ToString(); \
  } while (false)
