// A copy of a database that is open, as a crash would leave it.

#pragma once

#include <filesystem>
#include <string>
#include <system_error>

#include "gtest/gtest.h"
#include "rocksdb/db.h"
#include "test/testutil/assert_ok.h"
#include "test/testutil/await.h"

namespace cairn::test {

// What was there before is gone. Tables may be made meanwhile: no MANIFEST names what was copied before it was there as
// a whole. Files that are not needed any more may be removed. REQUIRES: nobody writes.
inline void CopyDatabase(rocksdb::DB* db, const std::string& to) {
  namespace fs = std::filesystem;
  EXPECT_OK(db->DisableFileDeletions());
  EXPECT_TRUE(Await([&] {
    std::error_code error;
    fs::remove_all(to, error);
    fs::create_directory(to, error);
    for (const char* first : {"CURRENT", "MANIFEST-"}) {
      for (const auto& file : fs::directory_iterator(db->GetName())) {
        const std::string name = file.path().filename();
        if (name.rfind(first, 0) == 0) fs::copy_file(file.path(), to + "/" + name, error);
        if (error) return false;
      }
    }
    fs::copy(db->GetName(), to, fs::copy_options::recursive | fs::copy_options::skip_existing, error);
    return !error;
  }));
  EXPECT_OK(db->EnableFileDeletions());
}

}  // namespace cairn::test
