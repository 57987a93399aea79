// A folder that looks and answers like the kernel's resctrl file system.

#pragma once

#include <unistd.h>

#include <cerrno>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <map>
#include <memory>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "memtable_cache/resctrl.h"

namespace cairn::test {

namespace fs = std::filesystem;
using rocksdb::Status;

inline void Put(const fs::path& path, const std::string& text) { std::ofstream(path, std::ios::trunc) << text; }

inline std::string Take(const fs::path& path) {
  std::ifstream file(path);
  return std::string(std::istreambuf_iterator<char>(file), {});
}

struct Machine {
  int ways = 12;
  int min_ways = 2;
  int groups = 4;  // num_closids
  uint64_t way_bytes = 1 << 20;
  std::vector<int> domains = {0, 1};
};

// A temporary folder, with the rules of Linux 6 for who may write what: one run of ways a mask, no fewer than
// min_cbm_bits, and so on. It outlives the trees.
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
  int writes() const { return writes_; }

  Status MakeGroup(const std::string& name) {
    if (static_cast<int>(masks_.size()) >= machine_.groups) return Refuse("Out of CLOSIDs", name, ENOSPC);
    if (!fs::create_directory(root_ / name)) return Refuse("exists", name, EEXIST);
    for (const int domain : machine_.domains) masks_[name][domain] = 3;  // shareable_bits
    Put(root_ / name / "tasks", "");
    Put(root_ / name / "cpus_list", "\n");
    return Accept();
  }

  Status RemoveGroup(const std::string& name) {
    if (masks_.erase(name) == 0) return Refuse("none", name, ENOENT);
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
    if (file == "schemata") return SetMask(group, text);
    if (file == "cpus_list") {
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
    }
    std::string usage;
    for (const int domain : machine_.domains) {
      usage += (usage.empty() ? "" : ";") + std::to_string(domain) + "=";
      for (int way = machine_.ways - 1; way >= 0; --way) {
        char use = '0';
        for (const auto& [group, masks] : masks_) {
          if ((masks.at(domain) >> way & 1) != 0) use = way < 2 ? 'X' : 'S';
        }
        usage += use;
      }
    }
    Put(root_ / "info/L3/bit_usage", usage + "\n");
  }

  const Machine machine_;
  fs::path root_;
  std::map<std::string, std::map<int, uint64_t>> masks_;
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

inline std::unique_ptr<CacheReservation> Acquire(FakeKernel* kernel, ResctrlOptions options) {
  options.root = kernel->root().string();
  return CacheReservation::Acquire(options, std::make_unique<FakeTree>(kernel));
}

}  // namespace cairn::test
