// The reservation against a folder that looks and answers like the kernel's resctrl file system.

#include "memtable_cache/resctrl.h"

#include <sys/stat.h>
#include <unistd.h>

#include <filesystem>
#include <map>

#include "gtest/gtest.h"
#include "test/testutil/fake_resctrl.h"

namespace cairn {
namespace {

namespace fs = std::filesystem;
using test::Acquire;
using test::FakeKernel;
using test::Machine;
using test::Put;
using test::Take;

ResctrlOptions Wanting(uint64_t ways) {
  ResctrlOptions options;
  options.bytes = ways << 20;
  return options;
}

bool Says(const CacheReservation& reservation, const std::string& text) {
  return reservation.report().find(text) != std::string::npos;
}

TEST(ResctrlTest, NoneMounted) {
  ResctrlOptions options;
  options.root = "/nonexistent/resctrl";
  const auto reservation = CacheReservation::Acquire(options);
  EXPECT_EQ(reservation->bytes(), 0u);
  EXPECT_TRUE(Says(*reservation, "no resctrl file system at /nonexistent/resctrl")) << reservation->report();
}

TEST(ResctrlTest, TakesUnusedWays) {
  FakeKernel kernel((Machine()));
  ASSERT_TRUE(kernel.Write("schemata", "L3:1=3f\n").ok());
  ResctrlOptions options = Wanting(4);
  options.domain = 1;
  options.cores = "2-3";
  {
    const auto reservation = Acquire(&kernel, options);
    ASSERT_EQ(reservation->bytes(), uint64_t{4} << 20) << reservation->report();
    ASSERT_EQ(kernel.Groups().size(), 1u);
    const std::string group = *kernel.Groups().begin();
    EXPECT_EQ(kernel.MaskOf(group, 1), 0xf00u);
    EXPECT_EQ(Take(kernel.root() / group / "cpus_list"), "2-3\n");
  }
  EXPECT_TRUE(kernel.Groups().empty());
  EXPECT_EQ(kernel.MaskOf("", 1), 0x3fu);
}

TEST(ResctrlTest, LeavesFullMachinesAlone) {
  FakeKernel kernel((Machine()));
  const auto reservation = Acquire(&kernel, Wanting(3));
  EXPECT_EQ(reservation->bytes(), 0u);
  EXPECT_TRUE(Says(*reservation, "take some from the default class")) << reservation->report();
  EXPECT_EQ(kernel.writes(), 0);
  EXPECT_TRUE(kernel.Groups().empty());
}

TEST(ResctrlTest, OutOfClasses) {
  Machine machine;
  machine.groups = 2;
  FakeKernel kernel(machine);
  ASSERT_TRUE(kernel.Write("schemata", "L3:0=ff\n").ok());
  ASSERT_TRUE(kernel.MakeGroup("theirs").ok());
  const auto reservation = Acquire(&kernel, Wanting(2));
  EXPECT_EQ(reservation->bytes(), 0u);
  EXPECT_TRUE(Says(*reservation, "Out of CLOSIDs")) << reservation->report();
}

TEST(ResctrlTest, RefusedCoresUndoEverything) {
  FakeKernel kernel((Machine()));
  ASSERT_TRUE(kernel.Write("schemata", "L3:0=3ff\n").ok());
  ResctrlOptions options = Wanting(2);
  options.cores = "99";
  const auto reservation = Acquire(&kernel, options);
  EXPECT_EQ(reservation->bytes(), 0u);
  EXPECT_TRUE(Says(*reservation, "Can only assign online CPUs")) << reservation->report();
  EXPECT_EQ(kernel.MaskOf("", 0), 0x3ffu);
  EXPECT_TRUE(kernel.Groups().empty());
}

TEST(ResctrlTest, SizesAreRoundedToWhatTheProcessorTakes) {
  Machine machine;
  machine.min_ways = 4;
  FakeKernel kernel(machine);
  ASSERT_TRUE(kernel.Write("schemata", "L3:0=f\n").ok());
  ResctrlOptions options;
  options.bytes = 1;
  EXPECT_EQ(Acquire(&kernel, options)->bytes(), uint64_t{4} << 20);
  options.bytes = uint64_t{12} << 20;
  const auto all = Acquire(&kernel, options);
  EXPECT_EQ(all->bytes(), 0u);
  EXPECT_TRUE(Says(*all, "too few")) << all->report();
}

TEST(ResctrlTest, CdpIsReported) {
  FakeKernel kernel((Machine()));
  fs::rename(kernel.root() / "info/L3", kernel.root() / "info/L3CODE");
  EXPECT_TRUE(Says(*Acquire(&kernel, Wanting(2)), "cdp"));
}

// A /proc of two processes: this one, started at tick 500, and 77, started at 1000.
class StaleGroupTest : public ::testing::Test {
 protected:
  StaleGroupTest() : kernel_(Machine()) {
    proc_ = kernel_.Proc();
    for (const auto& [pid, start] : std::map<std::string, int>{{std::to_string(getpid()), 500}, {"77", 1000}}) {
      fs::create_directories(proc_ / pid);
      // The name of a program may hold brackets and spaces.
      Put(proc_ / pid / "stat",
          pid + " (a) b (c) S 1 1 1 0 -1 4194304 1 0 0 0 0 0 0 0 20 0 1 0 " + std::to_string(start) + " 3133440 409\n");
    }
    fs::create_directories(proc_ / "self/ns");
    Put(proc_ / "self/ns/pid", "");
    struct stat facts = {};
    stat((proc_ / "self/ns/pid").c_str(), &facts);
    namespace_ = std::to_string(facts.st_ino);
    options_.proc = proc_.string();
    options_.bytes = 2 << 20;
  }

  FakeKernel kernel_;
  fs::path proc_;
  std::string namespace_;
  ResctrlOptions options_;
};

TEST_F(StaleGroupTest, RemovesThoseOfDeadProcessesOnly) {
  const std::string living = "cairn." + namespace_ + ".77.1000.0";
  const std::string reused = "cairn." + namespace_ + ".77.999.0";  // an earlier process of the same number
  const std::string elsewhere = "cairn.1.78.1000.0";               // another PID namespace
  ASSERT_TRUE(kernel_.Write("schemata", "L3:0=ff\n").ok());
  for (const auto& name : {living, reused, elsewhere}) ASSERT_TRUE(kernel_.MakeGroup(name).ok());
  const auto reservation = Acquire(&kernel_, options_);
  EXPECT_TRUE(Says(*reservation, "removed the cache class " + reused)) << reservation->report();
  EXPECT_FALSE(kernel_.Has(reused));
  EXPECT_TRUE(kernel_.Has(living));
  EXPECT_TRUE(kernel_.Has(elsewhere));
}

TEST_F(StaleGroupTest, NamesThatOnlyLookLikeOursStay) {
  ASSERT_TRUE(kernel_.Write("schemata", "L3:0=ff\n").ok());
  for (const char* name : {"cairn.mine", "cairn.1.2.3.4x"}) ASSERT_TRUE(kernel_.MakeGroup(name).ok());
  Acquire(&kernel_, options_);
  EXPECT_EQ(kernel_.Groups().size(), 2u);
}

TEST(ResctrlParseTest, Lines) {
  std::vector<std::pair<int, uint64_t>> masks;
  ASSERT_TRUE(ParseL3Schemata("    MB:0=100;1=100\n    L3:0=7ff;1=1\n", &masks));
  EXPECT_EQ(masks, (std::vector<std::pair<int, uint64_t>>{{0, 0x7ff}, {1, 1}}));
  EXPECT_FALSE(ParseL3Schemata("L2:0=1\n", &masks));
  EXPECT_FALSE(ParseL3Schemata("", &masks));
  EXPECT_FALSE(ParseL3Schemata("L3:zero=1\n", &masks));
  uint64_t unused = 0;
  ASSERT_TRUE(ParseUnusedWays("0=HSE0;1=0PX0\n", 1, &unused));
  EXPECT_EQ(unused, 9u);
  EXPECT_FALSE(ParseUnusedWays("0=HSE0\n", 2, &unused));
}

}  // namespace
}  // namespace cairn
