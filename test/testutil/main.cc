// The main() of the test programs that hold the tests of several files. Build folders have a link x_test to the program
// for each file x_test.cc (cairn_test of cmake/CairnModules.cmake): called by that name, the program runs the tests of
// this file alone.

#include <filesystem>
#include <string>

#include "gtest/gtest.h"

namespace {

// FILTER, but without the tests of files of another name than STEM.
std::string Restricted(const std::string& filter, const std::string& stem) {
  const testing::UnitTest& all = *testing::UnitTest::GetInstance();
  std::string own;
  std::string others;
  for (int i = 0; i < all.total_test_suite_count(); ++i) {
    const testing::TestSuite& suite = *all.GetTestSuite(i);
    // A suite whose fixture several files share is listed test by test.
    std::string own_tests;
    std::string other_tests;
    for (int j = 0; j < suite.total_test_count(); ++j) {
      const testing::TestInfo& test = *suite.GetTestInfo(j);
      (std::filesystem::path(test.file()).stem() == stem ? own_tests : other_tests) +=
          std::string(":") + suite.name() + "." + test.name();
    }
    const std::string whole = std::string(":") + suite.name() + ".*";
    own += other_tests.empty() ? whole : own_tests;
    others += own_tests.empty() ? whole : other_tests;
  }
  // A link to a program that has no such file: another main() would have it run everything.
  if (own.empty()) return filter;
  if (filter == "*") return own.substr(1);
  return filter + (filter.find('-') == std::string::npos ? "-" + others.substr(others.empty() ? 0 : 1) : others);
}

}  // namespace

int main(int argc, char** argv) {
  const std::string called = std::filesystem::path(argv[0]).filename();
  testing::InitGoogleTest(&argc, argv);
  testing::GTEST_FLAG(filter) = Restricted(testing::GTEST_FLAG(filter), called);
  return RUN_ALL_TESTS();
}
