// Keeps a part of the last-level cache for this process, through the kernel's resctrl file system: a class of service
// (CAT) for the process's cores, with ways that no other class may fill.
//
// Invariants
//   (1) Nothing that somebody else has configured changes: existing groups are read, never written. Ways must belong to
//       no class: an administrator takes them from the default class, which has all on a freshly booted machine.
//   (2) Every group made here carries the process in its name, so that one left by a dead process is known as such.
//       Groups of other names, and of processes in other PID namespaces, are never touched.
//   (3) What was made is removed when the CacheReservation dies.
//
// A machine that lacks any of this is no error: the reservation then has no bytes, and its report says what is missing.
//
// Thread-safety: a CacheReservation is immutable once acquired. Two processes may acquire at the same time.
//
// Sources: Linux Documentation/arch/x86/resctrl.rst; CacheKV (ICDE 2023), section III-A. Its pseudo-locked region is
// left out: of processors whose last-level cache has ways, Linux locks those of Broadwell servers only.

#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "rocksdb/status.h"

namespace cairn {

// How resctrl's files are reached; tests put the rules of a kernel behind it. Paths are relative to the root.
class ResctrlTree {
 public:
  virtual ~ResctrlTree() = default;
  virtual bool Exists(const std::string& path) = 0;
  virtual rocksdb::Status Read(const std::string& path, std::string* text) = 0;
  // One write(2) of the whole text, as the kernel wants it.
  virtual rocksdb::Status Write(const std::string& path, const std::string& text) = 0;
  virtual rocksdb::Status MakeGroup(const std::string& name) = 0;
  virtual rocksdb::Status RemoveGroup(const std::string& name) = 0;
  virtual std::vector<std::string> Groups() = 0;
};

// The file system mounted at `root`.
std::unique_ptr<ResctrlTree> OpenResctrlTree(const std::string& root);

struct ResctrlOptions {
  // Where the resctrl file system is mounted.
  std::string root = "/sys/fs/resctrl";
  // Where processes are looked up, to tell stale groups.
  std::string proc = "/proc";
  // Cache to keep, in bytes; rounded up to whole ways, and to the fewest that the processor accepts.
  uint64_t bytes = 12 << 20;
  // The cores for a class of service; empty: those the process may run on.
  std::string cores;
  // The cache (resctrl's domain) to use; -1: that of the first core.
  int domain = -1;
};

class CacheReservation {
 public:
  // Never null. `tree` null: OpenResctrlTree(options.root).
  static std::unique_ptr<CacheReservation> Acquire(const ResctrlOptions& options,
                                                   std::unique_ptr<ResctrlTree> tree = nullptr);
  ~CacheReservation();

  CacheReservation(const CacheReservation&) = delete;
  CacheReservation& operator=(const CacheReservation&) = delete;

  // Of the class's ways in its domain; 0: there is no class.
  uint64_t bytes() const { return bytes_; }
  // What was had and what was not, one fact a line, for the log and `cairn stats`.
  const std::string& report() const { return report_; }
  // The same in one line.
  std::string ReportLine() const;

 private:
  CacheReservation() = default;

  struct Cache {
    int ways = 0;
    int min_ways = 1;
    uint64_t unused = 0;
    uint64_t way_bytes = 0;
    int domain = 0;
  };

  void Say(const std::string& fact);
  void RemoveStaleGroups(const ResctrlOptions& options);
  bool ReadCache(const ResctrlOptions& options, Cache* cache);
  bool MakeGroup();
  bool MakeClass(const ResctrlOptions& options, const Cache& cache, int ways);
  std::string LastError();
  void Release();

  std::unique_ptr<ResctrlTree> tree_;
  uint64_t bytes_ = 0;
  std::string report_;
  std::string name_;   // of this process's group
  std::string group_;  // as made; empty: none
};

// The masks of a schemata file's L3 line ("L3:0=ff;1=ff"), by domain in `domains` order. False when there is none.
bool ParseL3Schemata(const std::string& schemata, std::vector<std::pair<int, uint64_t>>* masks);

// The unused ways of a domain in a bit_usage file ("0=SSSS0000;1=..."), as a mask. False when the domain is not in it.
bool ParseUnusedWays(const std::string& bit_usage, int domain, uint64_t* unused);

}  // namespace cairn
