#include "cairn/version.h"

#include <cstdlib>
#include <fstream>
#include <iterator>
#include <string>

#include "gtest/gtest.h"
#include "test/testutil/expect_contains.h"
#include "util/format_version.h"

namespace cairn {
namespace {

std::string Source(const std::string& name) {
  const char* const folder = getenv("CAIRN_SOURCE_DIR");
  std::ifstream file((folder != nullptr ? std::string(folder) : ".") + "/" + name);
  EXPECT_TRUE(file.good()) << name << " is missing; run ctest, or set CAIRN_SOURCE_DIR to the source tree";
  return {std::istreambuf_iterator<char>(file), std::istreambuf_iterator<char>()};
}

// CMakeLists.txt has it; what other tools read must follow.
TEST(VersionTest, PackagesHaveTheSame) {
  const std::string version = Version();
  EXPECT_CONTAINS(Source("java/pom.xml"), "<artifactId>cairn-java</artifactId>\n  <version>" + version + "</version>");
  EXPECT_EQ(Source("packaging/debian/changelog").rfind("cairn-rocksdb (" + version + ")", 0), 0u);
  const std::string changes = Source("CHANGELOG.md");
  const size_t newest = changes.find("\n## ");
  EXPECT_EQ(changes.find("\n## " + version + " "), newest) << version << " is not the newest of CHANGELOG.md";
}

TEST(VersionTest, WhatIsSaidOfOtherVersions) {
  EXPECT_EQ(UnknownVersion(4, 3), std::string("format version 4; Cairn ") + Version() + " reads 3: use a later Cairn");
  EXPECT_CONTAINS(UnknownVersion(2, 3), "before Cairn's first release");
}

}  // namespace
}  // namespace cairn
