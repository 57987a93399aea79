#include "memtable_cache/resctrl.h"

#include "util/rocksdb_names.h"

#include <dirent.h>
#include <fcntl.h>
#include <sched.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <cerrno>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <sstream>

namespace cairn {

namespace {

constexpr char kGroupPrefix[] = "cairn.";

Status ErrorOf(const std::string& path) { return Status::IOError(path, strerror(errno)); }

class MountedTree : public ResctrlTree {
 public:
  explicit MountedTree(std::string root) : root_(std::move(root)) {}

  bool Exists(const std::string& path) override { return access(Full(path).c_str(), F_OK) == 0; }

  Status Read(const std::string& path, std::string* text) override {
    const std::string full = Full(path);
    const int fd = open(full.c_str(), O_RDONLY | O_CLOEXEC);
    if (fd < 0) return ErrorOf(full);
    text->clear();
    char buffer[4096];
    ssize_t got = 0;
    while ((got = read(fd, buffer, sizeof(buffer))) > 0) text->append(buffer, got);
    const Status s = got < 0 ? ErrorOf(full) : Status::OK();
    close(fd);
    return s;
  }

  Status Write(const std::string& path, const std::string& text) override {
    const std::string full = Full(path);
    const int fd = open(full.c_str(), O_WRONLY | O_CLOEXEC);
    if (fd < 0) return ErrorOf(full);
    const ssize_t put = write(fd, text.data(), text.size());
    const Status s = put == static_cast<ssize_t>(text.size()) ? Status::OK() : ErrorOf(full);
    close(fd);
    return s;
  }

  Status MakeGroup(const std::string& name) override {
    return mkdir(Full(name).c_str(), 0755) == 0 ? Status::OK() : ErrorOf(Full(name));
  }
  Status RemoveGroup(const std::string& name) override {
    return rmdir(Full(name).c_str()) == 0 ? Status::OK() : ErrorOf(Full(name));
  }

  std::vector<std::string> Groups() override {
    std::vector<std::string> groups;
    DIR* const folder = opendir(root_.c_str());
    if (folder == nullptr) return groups;
    while (const dirent* entry = readdir(folder)) {
      const std::string name = entry->d_name;
      if (name != "." && name != ".." && Exists(name + "/schemata")) groups.push_back(name);
    }
    closedir(folder);
    return groups;
  }

 private:
  std::string Full(const std::string& path) const { return root_ + "/" + path; }

  const std::string root_;
};

std::string Hex(uint64_t v) {
  char text[32];
  snprintf(text, sizeof(text), "%llx", static_cast<unsigned long long>(v));
  return text;
}

// Tells a process from a later one with its number: the clock tick it was started at.
uint64_t StartOf(const std::string& proc, long pid) {
  FILE* const file = fopen((proc + "/" + std::to_string(pid) + "/stat").c_str(), "re");
  if (file == nullptr) return 0;
  char text[2048];
  const size_t got = fread(text, 1, sizeof(text) - 1, file);
  fclose(file);
  text[got] = '\0';
  // The program's name is in brackets and may hold anything; the start is the 20th number behind it.
  const char* at = strrchr(text, ')');
  for (int field = 0; at != nullptr && field < 20; ++field) at = strchr(at + 1, ' ');
  return at == nullptr ? 0 : strtoull(at + 1, nullptr, 10);
}

uint64_t PidNamespace(const std::string& proc) {
  struct stat facts = {};
  return stat((proc + "/self/ns/pid").c_str(), &facts) == 0 ? facts.st_ino : 0;
}

// cairn.NAMESPACE.PID.START.COUNT
struct GroupName {
  uint64_t pid_namespace = 0;
  long pid = 0;
  uint64_t start = 0;
};

bool ParseGroupName(const std::string& name, GroupName* parts) {
  unsigned long long pid_namespace = 0;
  unsigned long long start = 0;
  unsigned count = 0;
  int used = 0;
  if (sscanf(name.c_str(), "cairn.%llu.%ld.%llu.%u%n", &pid_namespace, &parts->pid, &start, &count, &used) != 4) {
    return false;
  }
  parts->pid_namespace = pid_namespace;
  parts->start = start;
  return name[used] == '\0';
}

std::string AllowedCores() {
  cpu_set_t set;
  if (sched_getaffinity(0, sizeof(set), &set) != 0) return "";
  std::string list;
  for (int cpu = 0; cpu < CPU_SETSIZE; ++cpu) {
    if (!CPU_ISSET(cpu, &set)) continue;
    list += list.empty() ? "" : ",";
    list += std::to_string(cpu);
  }
  return list;
}

// The highest run of `ways` ones in `mask`; 0 when there is none. High ways, because devices write into the low ones on
// many processors.
uint64_t ContiguousWays(uint64_t mask, int ways) {
  const uint64_t run = ways >= 64 ? ~uint64_t{0} : (uint64_t{1} << ways) - 1;
  for (int shift = 64 - ways; shift >= 0; --shift) {
    if ((mask & run << shift) == run << shift) return run << shift;
  }
  return 0;
}

std::string TrimmedLine(std::string text) {
  while (!text.empty() && (text.back() == '\n' || text.back() == ' ')) text.pop_back();
  return text;
}

}  // namespace

std::unique_ptr<ResctrlTree> OpenResctrlTree(const std::string& root) { return std::make_unique<MountedTree>(root); }

bool ParseL3Schemata(const std::string& schemata, std::vector<std::pair<int, uint64_t>>* masks) {
  masks->clear();
  std::istringstream lines(schemata);
  std::string line;
  while (std::getline(lines, line)) {
    const size_t begin = line.find_first_not_of(' ');
    if (begin == std::string::npos || line.compare(begin, 3, "L3:") != 0) continue;
    std::istringstream entries(line.substr(begin + 3));
    std::string entry;
    while (std::getline(entries, entry, ';')) {
      int domain = 0;
      unsigned long long mask = 0;
      if (sscanf(entry.c_str(), " %d = %llx", &domain, &mask) != 2) return false;
      masks->emplace_back(domain, mask);
    }
  }
  return !masks->empty();
}

bool ParseUnusedWays(const std::string& bit_usage, int domain, uint64_t* unused) {
  std::istringstream entries(TrimmedLine(bit_usage));
  std::string entry;
  while (std::getline(entries, entry, ';')) {
    const size_t equals = entry.find('=');
    if (equals == std::string::npos || atoi(entry.c_str()) != domain) continue;
    *unused = 0;
    for (const char use : entry.substr(equals + 1)) *unused = *unused << 1 | (use == '0' ? 1 : 0);
    return true;
  }
  return false;
}

std::string CacheReservation::ReportLine() const {
  std::string line = report_;
  std::replace(line.begin(), line.end(), '\n', ';');
  return line;
}

void CacheReservation::Say(const std::string& fact) { report_ += fact + "\n"; }

std::string CacheReservation::LastError() {
  std::string text;
  if (!tree_->Read("info/last_cmd_status", &text).ok()) return "";
  text = TrimmedLine(text);
  return text.empty() || text == "ok" ? "" : " (" + text + ")";
}

void CacheReservation::RemoveStaleGroups(const ResctrlOptions& options) {
  const uint64_t pid_namespace = PidNamespace(options.proc);
  for (const std::string& group : tree_->Groups()) {
    GroupName parts;
    if (group.compare(0, strlen(kGroupPrefix), kGroupPrefix) != 0 || !ParseGroupName(group, &parts)) continue;
    if (parts.pid_namespace != pid_namespace || StartOf(options.proc, parts.pid) == parts.start) continue;
    if (!tree_->RemoveGroup(group).ok()) continue;
    Say("removed the cache class " + group + " of a dead process");
  }
}

bool CacheReservation::ReadCache(const ResctrlOptions& options, Cache* cache) {
  std::string text;
  if (!tree_->Exists("schemata")) {
    Say("no resctrl file system at " + options.root + ": the cache is shared with everything else");
    return false;
  }
  if (!tree_->Read("info/L3/cbm_mask", &text).ok()) {
    Say(tree_->Exists("info/L3CODE") ? "resctrl is mounted with cdp, which splits the cache's ways; not used"
                                     : "the processor cannot divide its last-level cache (no info/L3)");
    return false;
  }
  cache->ways = __builtin_popcountll(strtoull(text.c_str(), nullptr, 16));
  if (tree_->Read("info/L3/min_cbm_bits", &text).ok()) cache->min_ways = std::max(1, atoi(text.c_str()));
  std::string schemata;
  std::vector<std::pair<int, uint64_t>> masks;
  if (!tree_->Read("schemata", &schemata).ok() || !ParseL3Schemata(schemata, &masks) || cache->ways == 0) {
    Say("the default class has no L3 line in its schemata");
    return false;
  }
  cache->domain = options.domain >= 0 ? options.domain : masks[0].first;
  if (!tree_->Read("info/L3/bit_usage", &text).ok() || !ParseUnusedWays(text, cache->domain, &cache->unused)) {
    Say("resctrl does not tell which ways are in use (no bit_usage for cache " + std::to_string(cache->domain) + ")");
    return false;
  }
  // The size of the default class tells that of a way.
  std::vector<std::pair<int, uint64_t>> sizes;
  std::string size_text;
  uint64_t default_mask = 0;
  for (const auto& mask : masks) {
    if (mask.first == cache->domain) default_mask = mask.second;
  }
  if (!tree_->Read("size", &size_text).ok() || default_mask == 0) {
    Say("there is no cache " + std::to_string(cache->domain) + " in the default class");
    return false;
  }
  const std::string wanted = std::to_string(cache->domain) + "=";
  size_t at = size_text.find("L3:");
  at = at == std::string::npos ? at : size_text.find(wanted, at);
  cache->way_bytes = at == std::string::npos ? 0
                                             : strtoull(size_text.c_str() + at + wanted.size(), nullptr, 10) /
                                                   __builtin_popcountll(default_mask);
  if (cache->way_bytes == 0) Say("resctrl does not tell the size of a way");
  return cache->way_bytes != 0;
}

bool CacheReservation::MakeGroup() {
  const Status s = tree_->MakeGroup(name_);
  if (s.ok()) {
    group_ = name_;
    return true;
  }
  Say("no cache class could be made: " + s.ToString() + LastError());
  return false;
}

bool CacheReservation::MakeClass(const ResctrlOptions& options, const Cache& cache, int ways) {
  const std::string ours = "L3:" + std::to_string(cache.domain) + "=" + Hex(ContiguousWays(cache.unused, ways)) + "\n";
  Status s = tree_->Write(group_ + "/schemata", ours);
  const std::string cores = options.cores.empty() ? AllowedCores() : options.cores;
  if (s.ok()) s = tree_->Write(group_ + "/cpus_list", cores + "\n");
  if (!s.ok()) {
    Say("no cache class: " + s.ToString() + LastError());
    return false;
  }
  bytes_ = ways * cache.way_bytes;
  Say("cores " + cores + " have " + std::to_string(bytes_) + " bytes of cache " + std::to_string(cache.domain) +
      " to themselves (" + std::to_string(ways) + " ways)");
  return true;
}

std::unique_ptr<CacheReservation> CacheReservation::Acquire(const ResctrlOptions& options,
                                                            std::unique_ptr<ResctrlTree> tree) {
  static std::atomic<unsigned> count{0};
  std::unique_ptr<CacheReservation> result(new CacheReservation());
  result->tree_ = tree != nullptr ? std::move(tree) : OpenResctrlTree(options.root);
  result->name_ = kGroupPrefix + std::to_string(PidNamespace(options.proc)) + "." + std::to_string(getpid()) + "." +
                  std::to_string(StartOf(options.proc, getpid())) + "." + std::to_string(count.fetch_add(1));
  result->RemoveStaleGroups(options);
  Cache cache;
  if (!result->ReadCache(options, &cache)) return result;
  const int ways =
      std::max<int>(cache.min_ways, static_cast<int>((options.bytes + cache.way_bytes - 1) / cache.way_bytes));
  if (ways >= cache.ways) {
    result->Say("the cache has " + std::to_string(cache.ways * cache.way_bytes) + " bytes, too few to keep " +
                std::to_string(options.bytes) + " apart");
    return result;
  }
  if (ContiguousWays(cache.unused, ways) == 0) {
    result->Say("every run of " + std::to_string(ways) +
                " ways of the cache belongs to a class already; take some from the default class (its schemata file)");
    return result;
  }
  if (!result->MakeGroup() || !result->MakeClass(options, cache, ways)) result->Release();
  return result;
}

void CacheReservation::Release() {
  if (!group_.empty() && tree_->RemoveGroup(group_).ok()) group_.clear();
}

CacheReservation::~CacheReservation() { Release(); }

}  // namespace cairn
