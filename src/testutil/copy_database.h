// A copy of a database that is open, as a crash would leave it.

#pragma once

#include <filesystem>
#include <string>
#include <system_error>

#include "gtest/gtest.h"
#include "rocksdb/db.h"
#include "src/testutil/assert_ok.h"
#include "src/testutil/await.h"

namespace cairn {
namespace test {

// What was there before is gone. Files that are not needed any more may be removed meanwhile.
inline void CopyDatabase(rocksdb::DB* db, const std::string& to) {
  EXPECT_OK(db->DisableFileDeletions());
  EXPECT_TRUE(Await([&] {
    std::error_code error;
    std::filesystem::remove_all(to);
    std::filesystem::copy(db->GetName(), to, std::filesystem::copy_options::recursive, error);
    return !error;
  }));
  EXPECT_OK(db->EnableFileDeletions());
}

}  // namespace test
}  // namespace cairn
