// A new folder below $TMPDIR, or in memory where that is not set, removed with the object unless the test has failed.

#pragma once

#include <unistd.h>

#include <cstdio>
#include <cstdlib>
#include <filesystem>
#include <string>
#include <system_error>

#include "gtest/gtest.h"

namespace cairn::test {

class TempDir {
 public:
  TempDir() {
    // Memory is ten times as fast as a disk for a test that opens a database hundreds of times, each with its fsyncs.
    std::error_code none;
    std::string base = std::filesystem::temp_directory_path().string();
    if (std::getenv("TMPDIR") == nullptr && access("/dev/shm", W_OK) == 0 &&
        std::filesystem::space("/dev/shm", none).available > (uint64_t{1} << 30) && !none) {
      base = "/dev/shm";
    }
    std::string pattern = base + "/cairn_test.XXXXXX";
    path_ = mkdtemp(pattern.data()) != nullptr ? pattern : std::string();
    EXPECT_FALSE(path_.empty()) << "no temporary folder at " << pattern;
  }
  ~TempDir() {
    if (::testing::Test::HasFailure()) {
      std::fprintf(stderr, "The failed test's files are in %s\n", path_.c_str());
      return;
    }
    std::error_code ignored;
    std::filesystem::remove_all(path_, ignored);
  }
  TempDir(const TempDir&) = delete;
  TempDir& operator=(const TempDir&) = delete;

  const std::string& path() const { return path_; }
  std::string operator/(const std::string& name) const { return path_ + "/" + name; }

 private:
  std::string path_;
};

}  // namespace cairn::test
