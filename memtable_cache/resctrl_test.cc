// The reservation against a folder that looks and answers like the kernel's resctrl file system.

#include "memtable_cache/resctrl.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cstdio>
#include <filesystem>
#include <fstream>
#include <map>
#include <set>

#include "gtest/gtest.h"
#include "memtable_cache/locked_backing.h"

namespace cairn {
namespace {

namespace fs = std::filesystem;
using rocksdb::Status;

void Put(const fs::path& path, const std::string& text) { std::ofstream(path, std::ios::trunc) << text; }

std::string Take(const fs::path& path) {
  std::ifstream file(path);
  return std::string(std::istreambuf_iterator<char>(file), {});
}

struct Machine {
  int ways = 12;
  int min_ways = 2;
  int groups = 4;  // num_closids
  uint64_t way_bytes = 1 << 20;
  bool pseudo_lock = true;
  std::vector<int> domains = {0, 1};
};

// A temporary folder, with the rules of Linux 6 for who may write what: one run of ways a mask, no fewer than
// min_cbm_bits, a pseudo-locked region only of ways that belong to no other group, and so on. It outlives the trees.
class FakeKernel {
 public:
  explicit FakeKernel(const Machine& machine) : machine_(machine) {
    char pattern[] = "/tmp/cairn_resctrl.XXXXXX";
    root_ = mkdtemp(pattern);
    fs::create_directories(root_ / "info" / "L3");
    fs::create_directories(root_ / "mon_groups");
    Put(root_ / "info/L3/cbm_mask", Hex(All()) + "\n");
    Put(root_ / "info/L3/min_cbm_bits", std::to_string(machine.min_ways) + "\n");
    Put(root_ / "info/L3/num_closids", std::to_string(machine.groups) + "\n");
    Put(root_ / "info/L3/shareable_bits", "3\n");
    Put(root_ / "info/last_cmd_status", "ok\n");
    for (const int domain : machine.domains) masks_[""][domain] = All();
    modes_[""] = "shareable";
    Put(root_ / "tasks", "1\n2\n");
    Put(root_ / "cpus_list", "0-3\n");
    Refresh();
  }
  ~FakeKernel() { fs::remove_all(root_); }

  const fs::path& root() const { return root_; }
  fs::path Proc() const { return root_ / "mon_groups" / "proc"; }  // a place for a fake /proc
  uint64_t All() const { return (uint64_t{1} << machine_.ways) - 1; }
  uint64_t MaskOf(const std::string& group, int domain) { return masks_.at(group).at(domain); }
  bool Has(const std::string& group) const { return masks_.count(group) != 0; }
  std::set<std::string> Groups() const {
    std::set<std::string> names;
    for (const auto& entry : masks_) names.insert(entry.first);
    names.erase("");
    return names;
  }
  std::string ModeOf(const std::string& group) { return modes_.at(group); }
  int writes() const { return writes_; }

  Status MakeGroup(const std::string& name) {
    if (static_cast<int>(masks_.size()) >= machine_.groups) return Refuse("Out of CLOSIDs", name, ENOSPC);
    if (!fs::create_directory(root_ / name)) return Refuse("exists", name, EEXIST);
    for (const int domain : machine_.domains) masks_[name][domain] = 3;  // shareable_bits
    modes_[name] = "shareable";
    Put(root_ / name / "tasks", "");
    Put(root_ / name / "cpus_list", "\n");
    return Accept();
  }

  Status RemoveGroup(const std::string& name) {
    if (masks_.erase(name) == 0) return Refuse("none", name, ENOENT);
    modes_.erase(name);
    fs::remove_all(root_ / name);
    return Accept();
  }

  Status Write(const std::string& path, const std::string& text) {
    ++writes_;
    const size_t slash = path.rfind('/');
    const std::string group = slash == std::string::npos ? "" : path.substr(0, slash);
    const std::string file = slash == std::string::npos ? path : path.substr(slash + 1);
    if (masks_.count(group) == 0 || file == "size" || file == "bit_usage") {
      return Refuse("Permission denied", path, EACCES);
    }
    if (text.empty() || text.back() != '\n') return Refuse("no newline", path, EINVAL);
    if (file == "mode") return SetMode(group, text.substr(0, text.size() - 1));
    if (file == "schemata") return SetMask(group, text);
    if (file == "cpus_list" && modes_[group] == "shareable") {
      if (text.find("99") != std::string::npos) return Refuse("Can only assign online CPUs", path, EINVAL);
      Put(root_ / path, text);
      return Accept();
    }
    return Refuse("Invalid argument", path, EINVAL);
  }

  static std::string Hex(uint64_t v) {
    char text[32];
    snprintf(text, sizeof(text), "%llx", static_cast<unsigned long long>(v));
    return text;
  }

 private:
  Status Accept() {
    Put(root_ / "info/last_cmd_status", "ok\n");
    Refresh();
    return Status::OK();
  }
  Status Refuse(const std::string& why, const std::string& path, int error) {
    Put(root_ / "info/last_cmd_status", why + "\n");
    return Status::IOError(path, strerror(error));
  }

  uint64_t UsedByOthers(const std::string& group, int domain) {
    uint64_t used = 0;
    for (const auto& entry : masks_) {
      if (entry.first != group && modes_[entry.first] != "pseudo-locksetup") used |= entry.second.at(domain);
    }
    return used;
  }

  Status SetMode(const std::string& group, const std::string& mode) {
    if (modes_[group] == "pseudo-locked") return Refuse("Cannot change pseudo-locked group", group, EINVAL);
    if (mode == "shareable") {
      modes_[group] = mode;
      return Accept();
    }
    if (mode != "pseudo-locksetup") return Refuse("Unknown or unsupported mode", group, EINVAL);
    if (group.empty()) return Refuse("Cannot pseudo-lock default group", group, EINVAL);
    if (!machine_.pseudo_lock) return Refuse("Pseudo-locking not supported", group, EINVAL);
    modes_[group] = mode;
    return Accept();
  }

  Status SetMask(const std::string& group, const std::string& text) {
    std::vector<std::pair<int, uint64_t>> masks;
    if (!ParseL3Schemata(text, &masks)) return Refuse("Unknown resource name", group, EINVAL);
    for (const auto& [domain, mask] : masks) {
      if (masks_[group].count(domain) == 0) return Refuse("Unknown domain", group, EINVAL);
      const uint64_t run = mask >> __builtin_ctzll(mask | uint64_t{1} << 63);
      if (mask == 0 || mask > All() || (run & (run + 1)) != 0) {
        return Refuse("The mask " + Hex(mask) + " has non-consecutive 1-bits", group, EINVAL);
      }
      if (__builtin_popcountll(mask) < machine_.min_ways) return Refuse("Need at least 2 bits", group, EINVAL);
      for (const auto& entry : masks_) {
        if (entry.first != group && modes_[entry.first] == "pseudo-locked" && (entry.second.at(domain) & mask) != 0) {
          return Refuse("CBM overlaps with pseudo-locked region", group, EINVAL);
        }
      }
      if (modes_[group] == "pseudo-locksetup" && (masks.size() != 1 || (UsedByOthers(group, domain) & mask) != 0)) {
        return Refuse("Overlaps with other group", group, EINVAL);
      }
      if (modes_[group] == "pseudo-locked") return Refuse("Cannot change", group, EINVAL);
    }
    if (modes_[group] == "pseudo-locksetup") {
      for (auto& entry : masks_[group]) entry.second = 0;
      modes_[group] = "pseudo-locked";
    }
    for (const auto& [domain, mask] : masks) masks_[group][domain] = mask;
    return Accept();
  }

  void Refresh() {
    for (const auto& [group, masks] : masks_) {
      std::string schemata = "    MB:";
      for (const auto& entry : masks)
        schemata += (schemata.back() == ':' ? "" : ";") + std::to_string(entry.first) + "=100";
      schemata += "\n    L3:";
      std::string size = "L3:";
      for (const auto& [domain, mask] : masks) {
        schemata += (schemata.back() == ':' ? "" : ";") + std::to_string(domain) + "=" + Hex(mask);
        size += (size.back() == ':' ? "" : ";") + std::to_string(domain) + "=" +
                std::to_string(__builtin_popcountll(mask) * machine_.way_bytes);
      }
      Put(root_ / group / "schemata", schemata + "\n");
      Put(root_ / group / "size", size + "\n");
      Put(root_ / group / "mode", modes_[group] + "\n");
    }
    std::string usage;
    for (const int domain : machine_.domains) {
      usage += (usage.empty() ? "" : ";") + std::to_string(domain) + "=";
      for (int way = machine_.ways - 1; way >= 0; --way) {
        char use = '0';
        for (const auto& [group, masks] : masks_) {
          if ((masks.at(domain) >> way & 1) != 0) use = modes_[group] == "pseudo-locked" ? 'P' : (way < 2 ? 'X' : 'S');
        }
        usage += use;
      }
    }
    Put(root_ / "info/L3/bit_usage", usage + "\n");
  }

  const Machine machine_;
  fs::path root_;
  std::map<std::string, std::map<int, uint64_t>> masks_;
  std::map<std::string, std::string> modes_;
  int writes_ = 0;
};

// Reads and lists the folder by the code that production uses; what changes it goes by the kernel's rules.
class FakeTree : public ResctrlTree {
 public:
  explicit FakeTree(FakeKernel* kernel) : kernel_(kernel), files_(OpenResctrlTree(kernel->root().string())) {}
  bool Exists(const std::string& path) override { return files_->Exists(path); }
  Status Read(const std::string& path, std::string* text) override { return files_->Read(path, text); }
  Status Write(const std::string& path, const std::string& text) override { return kernel_->Write(path, text); }
  Status MakeGroup(const std::string& name) override { return kernel_->MakeGroup(name); }
  Status RemoveGroup(const std::string& name) override { return kernel_->RemoveGroup(name); }
  std::vector<std::string> Groups() override { return files_->Groups(); }

 private:
  FakeKernel* const kernel_;
  const std::unique_ptr<ResctrlTree> files_;
};

std::unique_ptr<CacheReservation> Acquire(FakeKernel* kernel, ResctrlOptions options) {
  options.root = kernel->root().string();
  return CacheReservation::Acquire(options, std::make_unique<FakeTree>(kernel));
}

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
  EXPECT_EQ(reservation->kind(), CacheReservationKind::kNone);
  EXPECT_TRUE(Says(*reservation, "no resctrl file system at /nonexistent/resctrl")) << reservation->report();
}

TEST(ResctrlTest, PseudoLocksUnusedWays) {
  FakeKernel kernel((Machine()));
  ASSERT_TRUE(kernel.Write("schemata", "L3:0=ff\n").ok());  // the machine's owner leaves four ways to nobody
  {
    const auto reservation = Acquire(&kernel, Wanting(3));
    ASSERT_EQ(reservation->kind(), CacheReservationKind::kPseudoLocked) << reservation->report();
    EXPECT_EQ(reservation->bytes(), uint64_t{3} << 20);
    ASSERT_EQ(kernel.Groups().size(), 1u);
    const std::string group = *kernel.Groups().begin();
    EXPECT_EQ(reservation->device(), "/dev/pseudo_lock/" + group);
    EXPECT_EQ(kernel.ModeOf(group), "pseudo-locked");
    EXPECT_EQ(kernel.MaskOf(group, 0), 0xe00u);
    EXPECT_EQ(kernel.MaskOf("", 0), 0xffu);
  }
  EXPECT_TRUE(kernel.Groups().empty());
  EXPECT_EQ(kernel.MaskOf("", 0), 0xffu);
}

// The device is a file here; the pool takes its pages first, and again when they are free.
TEST(ResctrlTest, ThePoolLiesInTheLockedRegion) {
  FakeKernel kernel((Machine()));
  ASSERT_TRUE(kernel.Write("schemata", "L3:0=ff\n").ok());
  ResctrlOptions options = Wanting(4);
  options.devices = kernel.root().string();
  for (const bool device : {true, false}) {
    auto reservation = Acquire(&kernel, options);
    ASSERT_EQ(reservation->kind(), CacheReservationKind::kPseudoLocked) << reservation->report();
    const std::string path = (kernel.root() / "device").string();
    if (device) {
      Put(path, std::string(reservation->bytes(), '\0'));
      fs::remove_all(reservation->device());
      fs::create_symlink(path, reservation->device());
    }
    std::unique_ptr<Backing> rest;
    ASSERT_TRUE(NewPlainBacking(false, &rest).ok());
    const auto backing = NewLockedBacking(std::move(reservation), std::move(rest));
    EXPECT_EQ(backing->Report().find("cannot be mapped") == std::string::npos, device) << backing->Report();
    char* regions[3];
    for (char*& region : regions) {
      ASSERT_TRUE(backing->Map(Backing::kRegionBytes, &region).ok());
      region[5] = 'x';
    }
    EXPECT_EQ(Take(path)[5] == 'x' && Take(path)[Backing::kRegionBytes + 5] == 'x', true);
    backing->Unmap(regions[1], Backing::kRegionBytes);
    char* again = nullptr;
    ASSERT_TRUE(backing->Map(Backing::kRegionBytes, &again).ok());
    EXPECT_EQ(again == regions[1] || !device, true);
    for (char* region : {regions[0], again, regions[2]}) backing->Unmap(region, Backing::kRegionBytes);
  }
}

TEST(ResctrlTest, ClassWherePseudoLockingIsMissing) {
  Machine machine;
  machine.pseudo_lock = false;
  FakeKernel kernel(machine);
  ASSERT_TRUE(kernel.Write("schemata", "L3:1=3f\n").ok());
  ResctrlOptions options = Wanting(4);
  options.domain = 1;
  options.cores = "2-3";
  {
    const auto reservation = Acquire(&kernel, options);
    ASSERT_EQ(reservation->kind(), CacheReservationKind::kClass) << reservation->report();
    EXPECT_TRUE(Says(*reservation, "Pseudo-locking not supported")) << reservation->report();
    EXPECT_TRUE(reservation->device().empty());
    const std::string group = *kernel.Groups().begin();
    EXPECT_EQ(kernel.MaskOf(group, 1), 0xf00u);
    EXPECT_EQ(Take(kernel.root() / group / "cpus_list"), "2-3\n");
  }
  EXPECT_TRUE(kernel.Groups().empty());
}

TEST(ResctrlTest, LeavesFullMachinesAlone) {
  FakeKernel kernel((Machine()));
  const auto reservation = Acquire(&kernel, Wanting(3));
  EXPECT_EQ(reservation->kind(), CacheReservationKind::kNone);
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
  EXPECT_EQ(reservation->kind(), CacheReservationKind::kNone);
  EXPECT_TRUE(Says(*reservation, "Out of CLOSIDs")) << reservation->report();
}

TEST(ResctrlTest, RefusedCoresUndoEverything) {
  Machine machine;
  machine.pseudo_lock = false;
  FakeKernel kernel(machine);
  ASSERT_TRUE(kernel.Write("schemata", "L3:0=3ff\n").ok());
  ResctrlOptions options = Wanting(2);
  options.cores = "99";
  const auto reservation = Acquire(&kernel, options);
  EXPECT_EQ(reservation->kind(), CacheReservationKind::kNone);
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
  EXPECT_EQ(all->kind(), CacheReservationKind::kNone);
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
