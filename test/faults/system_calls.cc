// Must see the plain declarations: the checked ones are macros and inline functions around them.
#undef _FORTIFY_SOURCE

#include "test/faults/system_calls.h"

#include <dirent.h>
#include <dlfcn.h>
#include <execinfo.h>
#include <fcntl.h>
#include <pthread.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/uio.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstdarg>
#include <cstdio>
#include <cstring>
#include <map>
#include <mutex>

namespace cairn::faults {
namespace {

constexpr const char* kFaultNames[kFaults] = {"none", "eio",  "enospc", "short", "torn",      "full",
                                              "sync", "name", "open",   "read",  "shortread", "readonly"};
constexpr int kMaxDescriptor = 1 << 16;
constexpr uint64_t kLine = 64;
constexpr uint64_t kPage = 4096;
constexpr int kFrames = 64;
constexpr int kInnermost = 28;  // that tell sites apart
constexpr int kOwnFrames = 2;   // of the watcher
constexpr const char* kEventNames[] = {"file", "folder", "link",        "rename", "remove",
                                       "data", "sync",   "failed sync", "mark"};
constexpr char kBootId[] = "/proc/sys/kernel/random/boot_id";

// The system's own.
template <class Function>
Function Real(const char* name) {
  return reinterpret_cast<Function>(dlsym(RTLD_NEXT, name));
}
#define CAIRN_REAL(name) \
  static const auto real = ::cairn::faults::Real<decltype(&::name)>(#name)  // NOLINT(bugprone-macro-parentheses)

struct Mapping {
  int file = 0;
  int fd = -1;
  const char* base = nullptr;
  uint64_t bytes = 0;
  std::string known;
};

// What a system call asks for; one call may be several.
enum Asks : unsigned { kAsksOpen = 1, kAsksWrite = 2, kAsksSpace = 4, kAsksSync = 8, kAsksName = 16, kAsksRead = 32 };

unsigned HitBy(Fault fault) {
  switch (fault) {
    case Fault::kNone:
      return 0;
    case Fault::kEio:
      return kAsksWrite | kAsksSpace;
    case Fault::kNoSpace:
      return kAsksWrite | kAsksSpace | kAsksName;
    case Fault::kShort:
    case Fault::kTorn:
      return kAsksWrite;
    case Fault::kFull:
      return kAsksWrite | kAsksSync;
    case Fault::kSync:
      return kAsksSync;
    case Fault::kName:
      return kAsksName;
    case Fault::kOpen:
      return kAsksOpen;
    case Fault::kRead:
    case Fault::kShortRead:
      return kAsksRead;
    case Fault::kReadOnly:
      return kAsksWrite | kAsksSpace | kAsksSync | kAsksName;
  }
  return 0;
}

int ErrorOf(Fault fault) {
  if (fault == Fault::kNoSpace || fault == Fault::kFull) return ENOSPC;
  return fault == Fault::kReadOnly ? EROFS : EIO;
}

class Watcher {
 public:
  static Watcher& The() {
    static auto* const watcher = new Watcher();
    return *watcher;
  }

  std::recursive_mutex& mutex() { return mutex_; }
  bool watching() const { return watching_; }
  bool recording() const { return watching_ && options_.record; }

  void Start(const WatchOptions& options) {
    const std::lock_guard<std::recursive_mutex> lock(mutex_);
    options_ = options;
    files_.clear();
    next_file_ = 1;
    events_.clear();
    mappings_.clear();
    mapped_at_.clear();
    descriptors_.fill(-1);
    of_site_ = 0;
    left_of_site_ = 0;
    void* frames[kFrames];
    starter_ = pthread_self();
    starter_frames_ = std::max(0, backtrace(frames, kFrames) - 2);  // without this and Watch
    watching_ = true;
    if (options_.record) Scan("");
  }

  void Stop() {
    const std::lock_guard<std::recursive_mutex> lock(mutex_);
    watching_ = false;
  }

  // Whether a call that asks for this is to fail. Counts it.
  bool Hit(unsigned asks, const char* call, const std::string& path) {
    if (!watching_ || options_.counters == nullptr) return false;
    bool hit = false;
    const bool by_site = options_.site != 0 && (HitBy(options_.fault) & asks) != 0;
    const uint64_t site = options_.sites == nullptr && !by_site ? 0 : SiteOf(call, path);
    for (int i = 1; i < kFaults; ++i) {
      const auto fault = static_cast<Fault>(i);
      if ((HitBy(fault) & asks) == 0) continue;
      const uint64_t number = options_.counters->calls[i]++;
      if (options_.sites != nullptr && number < kMaxSites) options_.sites->of[i][number] = site;
      if (fault == options_.fault && !by_site) hit = IsToFail(number);
    }
    if (by_site) hit = OfSite(site);
    if (hit) {
      Counters* const counters = options_.counters;
      const uint64_t before = counters->hits++;
      if (before == 0) std::snprintf(counters->first_hit, sizeof(counters->first_hit), "%s %s", call, path.c_str());
      if (before < kMaxHitSites) counters->hit_sites[before] = SiteOf(call, path);
      AddMark(kFailedMark, path);
    }
    return hit;
  }

  Fault fault() const { return options_.fault; }
  bool forget_syncs() const { return options_.forget_syncs; }

  // The path relative to the folder, if the file is one that is watched.
  bool Watched(const char* path, std::string* relative) const {
    if (!watching_ || path == nullptr) return false;
    const size_t length = options_.folder.size();
    if (std::strncmp(path, options_.folder.c_str(), length) != 0) return false;
    if (path[length] != '/' && path[length] != '\0') return false;
    relative->clear();
    for (const char* at = path + length; *at != '\0'; ++at) {
      if (*at == '/' && (relative->empty() || relative->back() == '/')) continue;
      relative->push_back(*at);
    }
    while (!relative->empty() && relative->back() == '/') relative->pop_back();
    const size_t slash = relative->rfind('/');
    return relative->compare(slash == std::string::npos ? 0 : slash + 1, 3, "LOG") != 0;
  }

  void Opened(int fd, const std::string& path, bool made, bool emptied) {
    if (fd < 0 || fd >= kMaxDescriptor) return;
    if (made) {
      Event event;
      event.kind = EventKind::kMakeFile;
      event.path = path;
      event.file = files_[path] = next_file_++;
      Add(std::move(event));
    }
    const auto at = files_.find(path);
    descriptors_[fd] = at == files_.end() ? 0 : at->second;
    paths_[fd] = path;
    if (emptied && !made && descriptors_[fd] > 0) Changed(fd, {});
  }

  void Closed(int fd) {
    if (fd >= 0 && fd < kMaxDescriptor) descriptors_[fd] = -1;
  }

  bool Knows(int fd, std::string* path) const {
    if (!watching_ || fd < 0 || fd >= kMaxDescriptor || descriptors_[fd] < 0) return false;
    *path = paths_.at(fd);
    return true;
  }

  // Data of the file were written, or its size was set.
  void Changed(int fd, std::vector<Chunk> chunks) {
    if (!recording()) return;
    struct stat facts = {};
    if (fstat(fd, &facts) != 0) return;
    Event event;
    event.kind = EventKind::kData;
    event.file = descriptors_[fd];
    event.size = static_cast<uint64_t>(facts.st_size);
    event.chunks = std::move(chunks);
    for (Mapping& mapping : mappings_) {
      if (mapping.file != event.file) continue;
      for (const Chunk& chunk : event.chunks) {
        if (mapping.known.size() < chunk.offset + chunk.bytes.size()) {
          mapping.known.resize(chunk.offset + chunk.bytes.size());
        }
        mapping.known.replace(chunk.offset, chunk.bytes.size(), chunk.bytes);
      }
    }
    Add(std::move(event));
  }

  void Synced(int fd, bool done, uint64_t from, uint64_t bytes) {
    if (!recording()) return;
    SeeMappings();
    Event event;
    event.file = descriptors_[fd];
    event.path = paths_.at(fd);
    event.kind = done ? EventKind::kSync : EventKind::kSyncFailed;
    event.number = from;
    event.size = bytes;
    if (Forgets(event.path)) {
      event.kind = EventKind::kMark;
      event.number = UINT64_MAX;
    }
    Add(std::move(event));
  }

  void Named(EventKind kind, const std::string& path, const std::string& other) {
    if (!recording()) return;
    Event event;
    event.kind = kind;
    event.path = path;
    event.other = other;
    if (kind == EventKind::kMakeFolder) event.file = files_[path] = next_file_++;
    if (kind == EventKind::kRemove) files_.erase(path);
    if (kind == EventKind::kLink) {
      event.file = files_[path];
      files_[other] = event.file;
      std::swap(event.path, event.other);
    }
    if (kind == EventKind::kRename) Move(path, other);
    Add(std::move(event));
  }

  void Mapped(int fd, const void* at, uint64_t bytes) {
    if (!recording() || descriptors_[fd] <= 0) return;
    mapped_at_[static_cast<const char*>(at)] = {fd, bytes};
    for (const Mapping& mapping : mappings_) {
      if (mapping.file == descriptors_[fd]) return;
    }
    Mapping mapping;
    mapping.file = descriptors_[fd];
    mapping.fd = dup(fd);
    mappings_.push_back(std::move(mapping));
    SeeMappings();
  }

  void AddMark(uint64_t number, const std::string& text) {
    const std::lock_guard<std::recursive_mutex> lock(mutex_);
    if (!recording()) return;
    SeeMappings();
    Event event;
    event.number = number;
    event.other = text;
    events_.push_back(std::move(event));
  }

  // The file that is mapped there, and where in it. -1: none that is watched.
  int FileMappedAt(const void* address, uint64_t* offset) const {
    auto at = mapped_at_.upper_bound(static_cast<const char*>(address));
    if (at == mapped_at_.begin()) return -1;
    --at;
    *offset = static_cast<uint64_t>(static_cast<const char*>(address) - at->first);
    return *offset < at->second.second ? at->second.first : -1;
  }

  // Threads of the database may be at work.
  std::vector<Event> events() {
    const std::lock_guard<std::recursive_mutex> lock(mutex_);
    return events_;
  }

  std::string boot_file;  // empty: the kernel's
  bool same_files = false;

 private:
  Watcher() { descriptors_.fill(-1); }

  bool IsToFail(uint64_t number) const {
    if (number < options_.from) return false;
    const uint64_t since = number - options_.from;
    return (options_.gap == 0 ? since : since % options_.gap) < options_.to - options_.from;
  }

  bool Forgets(const std::string& path) const {
    const std::string& of = options_.forget_syncs_of;
    return options_.forget_syncs ||
           (!of.empty() && path.size() >= of.size() && path.compare(path.size() - of.size(), of.size(), of) == 0);
  }

  // Whether a call that the fault can hit, of this site, is one of those that are to fail.
  bool OfSite(uint64_t site) {
    if (left_of_site_ == 0 && site == options_.site && of_site_++ == options_.occurrence) {
      left_of_site_ = options_.to - options_.from;
    }
    if (left_of_site_ == 0) return false;
    --left_of_site_;
    return true;
  }

  static void Mix(const void* bytes, size_t size, uint64_t* hash) {
    for (size_t i = 0; i < size; ++i) *hash = (*hash ^ static_cast<const unsigned char*>(bytes)[i]) * 0x100000001b3;
  }

  // 000123.sst is of the kind sst, MANIFEST-000005 of the kind MANIFEST, a folder of its own.
  static std::string KindOfFile(const std::string& path) {
    const size_t slash = path.rfind('/');
    const std::string name = slash == std::string::npos ? path : path.substr(slash + 1);
    std::string kind;
    for (const char c : name) {
      if (c < '0' || c > '9') kind.push_back(c);
    }
    const size_t folder = path.find('/');
    return kind + (slash != folder ? "/deep" : "");
  }

  // Frames are told by where they lie in their library, which is loaded elsewhere in another run.
  uint64_t SiteOf(const char* call, const std::string& path) {
    uint64_t hash = 0xcbf29ce484222325;
    const std::string kind = KindOfFile(path);
    Mix(call, std::strlen(call), &hash);
    Mix(kind.data(), kind.size(), &hash);
    void* frames[kFrames];
    int count = backtrace(frames, kFrames);
    // What led to the script is no part of it.
    if (count < kFrames && pthread_equal(starter_, pthread_self()) != 0) count -= starter_frames_;
    for (int i = kOwnFrames; i < std::min(count, kInnermost); ++i) {
      auto at = offsets_.find(frames[i]);
      if (at == offsets_.end()) {
        Dl_info library = {};
        const bool known = dladdr(frames[i], &library) != 0;
        const auto offset = static_cast<char*>(frames[i]) - static_cast<char*>(library.dli_fbase);
        at = offsets_.emplace(frames[i], known ? static_cast<uint64_t>(offset) : 0).first;
      }
      Mix(&at->second, sizeof(at->second), &hash);
    }
    return hash;
  }

  void Add(Event event) {
    if (!recording()) return;
    event.site =
        SiteOf(kEventNames[static_cast<int>(event.kind)], event.path.empty() ? PathOf(event.file) : event.path);
    if (event.kind != EventKind::kSync && event.kind != EventKind::kSyncFailed) SeeMappings();
    event.is_call = true;
    events_.push_back(std::move(event));
  }

  std::string PathOf(int file) const {
    for (const auto& [path, number] : files_) {
      if (number == file) return path;
    }
    return "";
  }

  void Move(const std::string& path, const std::string& other) {
    std::map<std::string, int> moved;
    for (auto at = files_.begin(); at != files_.end();) {
      const bool below = at->first.compare(0, path.size() + 1, path + "/") == 0;
      if (at->first != path && !below) {
        ++at;
        continue;
      }
      moved[other + at->first.substr(path.size())] = at->second;
      at = files_.erase(at);
    }
    for (const auto& [name, file] : moved) files_[name] = file;
  }

  // What was stored into mapped files since it was asked last.
  void SeeMappings() {
    for (Mapping& mapping : mappings_) {
      struct stat facts = {};
      if (fstat(mapping.fd, &facts) != 0) continue;
      const auto bytes = static_cast<uint64_t>(facts.st_size);
      if (bytes != mapping.bytes) {
        static const auto real_map = Real<decltype(&mmap)>("mmap");
        if (mapping.base != nullptr) munmap(const_cast<char*>(mapping.base), mapping.bytes);
        mapping.base = bytes == 0
                           ? nullptr
                           : static_cast<const char*>(real_map(nullptr, bytes, PROT_READ, MAP_SHARED, mapping.fd, 0));
        mapping.bytes = bytes;
      }
      Event event;
      event.kind = EventKind::kData;
      event.mapped = true;
      event.file = mapping.file;
      event.size = bytes;
      const bool resized = mapping.known.size() != bytes;
      mapping.known.resize(bytes);
      for (uint64_t at = 0; at < bytes; at += kPage) {
        const uint64_t length = std::min(kPage, bytes - at);
        if (std::memcmp(mapping.base + at, mapping.known.data() + at, length) == 0) continue;
        for (uint64_t line = at; line < at + length; line += kLine) {
          const uint64_t part = std::min(kLine, at + length - line);
          if (std::memcmp(mapping.base + line, mapping.known.data() + line, part) == 0) continue;
          event.chunks.push_back({line, std::string(mapping.base + line, part)});
          mapping.known.replace(line, part, event.chunks.back().bytes);
        }
      }
      if (resized || !event.chunks.empty()) events_.push_back(std::move(event));
    }
  }

  // What is there already is on the disk.
  void Scan(const std::string& folder) {
    static const auto real_open = Real<int (*)(const char*, int, ...)>("open");
    static const auto real_pread = Real<decltype(&pread)>("pread");
    DIR* const entries = opendir((options_.folder + "/" + folder).c_str());
    if (entries == nullptr) return;
    std::vector<std::pair<std::string, bool>> found;
    while (const dirent* entry = readdir(entries)) {
      const std::string name = entry->d_name;
      if (name != "." && name != "..") {
        found.emplace_back(folder.empty() ? name : folder + "/" + name, entry->d_type == DT_DIR);
      }
    }
    closedir(entries);
    std::sort(found.begin(), found.end());
    for (const auto& [path, is_folder] : found) {
      std::string relative;
      const std::string full = options_.folder + "/" + path;
      if (!Watched(full.c_str(), &relative)) continue;
      Event event;
      event.kind = is_folder ? EventKind::kMakeFolder : EventKind::kMakeFile;
      event.path = path;
      event.file = files_[path] = next_file_++;
      events_.push_back(event);
      if (is_folder) {
        Scan(path);
        continue;
      }
      const int fd = real_open(full.c_str(), O_RDONLY | O_CLOEXEC);
      struct stat facts = {};
      if (fd < 0 || fstat(fd, &facts) != 0) continue;
      event.kind = EventKind::kData;
      event.size = static_cast<uint64_t>(facts.st_size);
      Chunk chunk;
      chunk.bytes.resize(event.size);
      if (real_pread(fd, chunk.bytes.data(), event.size, 0) == facts.st_size) event.chunks.push_back(std::move(chunk));
      close(fd);
      events_.push_back(event);
      event.kind = EventKind::kSync;
      event.chunks.clear();
      events_.push_back(event);
    }
    Event synced;
    synced.kind = EventKind::kSync;
    synced.path = folder;
    synced.file = folder.empty() ? 0 : files_[folder];
    events_.push_back(synced);
  }

  std::recursive_mutex mutex_;
  bool watching_ = false;
  WatchOptions options_;
  std::array<int, kMaxDescriptor> descriptors_;  // the file's number; 0: it has none; -1: not watched
  std::map<int, std::string> paths_;
  std::map<std::string, int> files_;
  std::map<void*, uint64_t> offsets_;  // of code in its library
  pthread_t starter_ = {};
  int starter_frames_ = 0;
  uint64_t of_site_ = 0;       // calls of options_.site so far
  uint64_t left_of_site_ = 0;  // that are still to fail
  int next_file_ = 1;
  std::vector<Mapping> mappings_;
  std::map<const char*, std::pair<int, uint64_t>> mapped_at_;  // descriptor and bytes, from the beginning of the file
  std::vector<Event> events_;
};

using Lock = std::lock_guard<std::recursive_mutex>;

int FailWith(int error) {
  errno = error;
  return -1;
}

void Put64(std::string* to, uint64_t value) { to->append(reinterpret_cast<const char*>(&value), sizeof(value)); }
void PutText(std::string* to, const std::string& text) {
  Put64(to, text.size());
  to->append(text);
}

struct Reader {
  const std::string& bytes;
  size_t at = 0;
  bool good = true;
  uint64_t Number() {
    uint64_t value = 0;
    if (bytes.size() - at < sizeof(value)) {
      good = false;
      return 0;
    }
    std::memcpy(&value, bytes.data() + at, sizeof(value));
    at += sizeof(value);
    return value;
  }
  std::string Text() {
    const uint64_t length = Number();
    if (!good || bytes.size() - at < length) {
      good = false;
      return "";
    }
    at += length;
    return bytes.substr(at - length, length);
  }
};

}  // namespace

const char* NameOf(Fault fault) { return kFaultNames[static_cast<int>(fault)]; }

bool FaultOf(const std::string& name, Fault* fault) {
  for (int i = 0; i < kFaults; ++i) {
    if (name != kFaultNames[i]) continue;
    *fault = static_cast<Fault>(i);
    return true;
  }
  return false;
}

void Watch(const WatchOptions& options) { Watcher::The().Start(options); }
void Unwatch() { Watcher::The().Stop(); }
void Mark(uint64_t number, const std::string& text) { Watcher::The().AddMark(number, text); }
std::vector<Event> Recorded() { return Watcher::The().events(); }

bool SaveEvents(const std::vector<Event>& events, const std::string& path) {
  std::string bytes;
  Put64(&bytes, events.size());
  for (const Event& event : events) {
    Put64(&bytes, static_cast<uint64_t>(event.kind) | (event.mapped ? 256u : 0u) | (event.is_call ? 512u : 0u));
    Put64(&bytes, static_cast<uint64_t>(event.file));
    Put64(&bytes, event.size);
    Put64(&bytes, event.number);
    Put64(&bytes, event.site);
    PutText(&bytes, event.path);
    PutText(&bytes, event.other);
    Put64(&bytes, event.chunks.size());
    for (const Chunk& chunk : event.chunks) {
      Put64(&bytes, chunk.offset);
      PutText(&bytes, chunk.bytes);
    }
  }
  FILE* const file = fopen(path.c_str(), "wb");
  if (file == nullptr) return false;
  const bool written = fwrite(bytes.data(), 1, bytes.size(), file) == bytes.size();
  return fclose(file) == 0 && written;
}

bool LoadEvents(const std::string& path, std::vector<Event>* events) {
  FILE* const file = fopen(path.c_str(), "rb");
  if (file == nullptr) return false;
  std::string bytes;
  char buffer[1 << 16];
  for (size_t got = 0; (got = fread(buffer, 1, sizeof(buffer), file)) > 0;) bytes.append(buffer, got);
  fclose(file);
  Reader reader{bytes};
  const uint64_t count = reader.Number();
  events->clear();
  for (uint64_t i = 0; i < count && reader.good; ++i) {
    Event event;
    const uint64_t kind = reader.Number();
    event.kind = static_cast<EventKind>(kind & 255);
    event.mapped = (kind & 256) != 0;
    event.is_call = (kind & 512) != 0;
    event.file = static_cast<int>(reader.Number());
    event.size = reader.Number();
    event.number = reader.Number();
    event.site = reader.Number();
    event.path = reader.Text();
    event.other = reader.Text();
    const uint64_t chunks = reader.Number();
    for (uint64_t c = 0; c < chunks && reader.good; ++c) {
      Chunk chunk;
      chunk.offset = reader.Number();
      chunk.bytes = reader.Text();
      event.chunks.push_back(std::move(chunk));
    }
    events->push_back(std::move(event));
  }
  return reader.good;
}

void PretendSameFiles() { Watcher::The().same_files = true; }

void PretendAnotherBoot(const std::string& name) {
  char path[] = "/tmp/cairn_boot.XXXXXX";
  const int fd = mkstemp(path);
  if (fd < 0) return;
  const std::string id = "another boot " + (name.empty() ? std::to_string(getpid()) : name) + "\n";
  if (::write(fd, id.data(), id.size()) == static_cast<ssize_t>(id.size())) {
    // By its descriptor: no file is left behind.
    Watcher::The().boot_file = "/proc/self/fd/" + std::to_string(fd);
  }
  unlink(path);
}

namespace {

int OpenFile(const char* path, int flags, mode_t mode) {
  static const auto real = Real<int (*)(const char*, int, ...)>("open");
  Watcher& watcher = Watcher::The();
  const Lock lock(watcher.mutex());
  if (!watcher.boot_file.empty() && std::strcmp(path, kBootId) == 0) path = watcher.boot_file.c_str();
  std::string relative;
  if (!watcher.Watched(path, &relative)) {
    const int fd = real(path, flags, mode);
    watcher.Closed(fd);
    return fd;
  }
  struct stat facts = {};
  const bool there = stat(path, &facts) == 0;
  const bool makes = !there && (flags & O_CREAT) != 0;
  if (watcher.Hit(kAsksOpen | (makes ? kAsksName : 0u), "open", relative)) return FailWith(ErrorOf(watcher.fault()));
  const int fd = real(path, flags, mode);
  if (fd >= 0) watcher.Opened(fd, relative, makes, (flags & O_TRUNC) != 0);
  return fd;
}

ssize_t WriteFile(int fd, const void* data, size_t length, const off_t* where) {
  static const auto real = Real<decltype(&::write)>("write");
  static const auto real_at = Real<decltype(&::pwrite)>("pwrite");
  const auto write_it = [&](size_t bytes) {
    return where == nullptr ? real(fd, data, bytes) : real_at(fd, data, bytes, *where);
  };
  Watcher& watcher = Watcher::The();
  std::string path;
  if (!watcher.watching()) return write_it(length);
  const Lock lock(watcher.mutex());
  if (!watcher.Knows(fd, &path)) return write_it(length);
  size_t part = length;
  const bool hit = watcher.Hit(kAsksWrite, "write", path);
  const bool fails = watcher.fault() == Fault::kTorn || watcher.fault() == Fault::kFull;
  const bool half = watcher.fault() == Fault::kShort || fails;
  if (hit && (!half || length < 2)) return FailWith(ErrorOf(watcher.fault()));
  if (hit) part = length / 2;
  const ssize_t written = write_it(part);
  if (written > 0 && watcher.recording()) {
    const off_t end = where == nullptr ? lseek(fd, 0, SEEK_CUR) : *where + written;
    std::vector<Chunk> chunks(1);
    chunks[0].offset = static_cast<uint64_t>(end - written);
    chunks[0].bytes.assign(static_cast<const char*>(data), static_cast<size_t>(written));
    watcher.Changed(fd, std::move(chunks));
  }
  return hit && fails ? FailWith(ErrorOf(watcher.fault())) : written;
}

// ReadIt(bytes) reads.
template <class ReadIt>
ssize_t ReadFile(int fd, size_t length, const ReadIt& read_it) {
  Watcher& watcher = Watcher::The();
  std::string path;
  if (!watcher.watching()) return read_it(length);
  bool hit = false;
  {
    const Lock lock(watcher.mutex());
    hit = watcher.Knows(fd, &path) && watcher.Hit(kAsksRead, "read", path);
  }
  if (!hit) return read_it(length);
  if (watcher.fault() == Fault::kShortRead && length > 1) return read_it(length / 2);
  return watcher.fault() == Fault::kShortRead ? read_it(length) : FailWith(EIO);
}

template <class SyncIt>
int SyncFile(int fd, const char* call, const SyncIt& sync_it, uint64_t from = 0, uint64_t bytes = 0) {
  Watcher& watcher = Watcher::The();
  std::string path;
  if (!watcher.watching()) return sync_it();
  const Lock lock(watcher.mutex());
  if (!watcher.Knows(fd, &path)) return sync_it();
  const bool hit = watcher.Hit(kAsksSync, call, path);
  // The memory file systems that tests run on have nothing to sync.
  watcher.Synced(fd, !hit, from, bytes);
  return hit ? FailWith(ErrorOf(watcher.fault())) : 0;
}

// Space for a file, or its size. `done` adds what became zeros.
template <class Call>
int SetSpace(int fd, const char* name, const Call& call, Chunk zeros = Chunk()) {
  Watcher& watcher = Watcher::The();
  std::string path;
  if (!watcher.watching()) return call();
  const Lock lock(watcher.mutex());
  if (!watcher.Knows(fd, &path)) return call();
  if (watcher.Hit(kAsksSpace, name, path)) return FailWith(ErrorOf(watcher.fault()));
  const int result = call();
  if (result == 0) {
    std::vector<Chunk> chunks;
    if (!zeros.bytes.empty()) chunks.push_back(std::move(zeros));
    watcher.Changed(fd, std::move(chunks));
  }
  return result;
}

template <class Call>
int ChangeName(EventKind kind, const char* name, const char* path, const char* other, const Call& call) {
  Watcher& watcher = Watcher::The();
  const Lock lock(watcher.mutex());
  std::string relative;
  std::string relative_other;
  if (!watcher.Watched(path, &relative)) return call();
  if (other != nullptr && !watcher.Watched(other, &relative_other)) return call();
  // One that would fail anyway is no position.
  struct stat facts = {};
  if ((kind == EventKind::kMakeFolder) == (lstat(path, &facts) == 0)) return call();
  if (watcher.Hit(kAsksName, name, relative)) return FailWith(ErrorOf(watcher.fault()));
  const int result = call();
  if (result == 0) watcher.Named(kind, relative, relative_other);
  return result;
}

FILE* OpenStream(const char* path, const char* mode) {
  static const auto real = Real<decltype(&::fopen)>("fopen");
  Watcher& watcher = Watcher::The();
  const Lock lock(watcher.mutex());
  if (!watcher.boot_file.empty() && std::strcmp(path, kBootId) == 0) path = watcher.boot_file.c_str();
  std::string relative;
  if (watcher.Watched(path, &relative) && watcher.Hit(kAsksOpen, "fopen", relative)) {
    errno = ErrorOf(watcher.fault());
    return nullptr;
  }
  FILE* const file = real(path, mode);
  if (file != nullptr) {
    watcher.Closed(fileno(file));
    if (!relative.empty()) watcher.Opened(fileno(file), relative, false, false);
  }
  return file;
}

void* MapFile(void* address, size_t length, int protection, int flags, int fd, off_t offset) {
  static const auto real = Real<decltype(&::mmap)>("mmap");
  void* const at = real(address, length, protection, flags, fd, offset);
  if (fd < 0 || at == MAP_FAILED || (flags & MAP_SHARED) == 0 || (protection & PROT_WRITE) == 0) return at;
  Watcher& watcher = Watcher::The();
  if (!watcher.watching()) return at;
  const Lock lock(watcher.mutex());
  std::string path;
  if (watcher.Knows(fd, &path)) watcher.Mapped(fd, at, length);
  return at;
}

// The same for a file of the same name in another folder.
uint64_t NumberByName(int fd) {
  char name[512];
  const ssize_t length = readlink(("/proc/self/fd/" + std::to_string(fd)).c_str(), name, sizeof(name));
  const std::string path(name, static_cast<size_t>(std::max<ssize_t>(length, 0)));
  uint64_t number = 0xcbf29ce484222325;
  for (size_t i = path.rfind('/') + 1; i < path.size(); ++i) {
    number = (number ^ static_cast<unsigned char>(path[i])) * 0x100000001b3;
  }
  return number >> 1;
}

}  // namespace
}  // namespace cairn::faults

// What programs and libraries call instead of the system's.
using cairn::faults::EventKind;

extern "C" {

int open(const char* path, int flags, ...) {
  va_list rest;
  va_start(rest, flags);
  const auto mode = (flags & O_CREAT) != 0 ? static_cast<mode_t>(va_arg(rest, int)) : 0;
  va_end(rest);
  return cairn::faults::OpenFile(path, flags, mode);
}
int open64(const char* path, int flags, ...) {
  va_list rest;
  va_start(rest, flags);
  const auto mode = (flags & O_CREAT) != 0 ? static_cast<mode_t>(va_arg(rest, int)) : 0;
  va_end(rest);
  return cairn::faults::OpenFile(path, flags, mode);
}
FILE* fopen(const char* path, const char* mode) { return cairn::faults::OpenStream(path, mode); }
FILE* fopen64(const char* path, const char* mode) { return cairn::faults::OpenStream(path, mode); }
int fclose(FILE* file) {
  CAIRN_REAL(fclose);
  cairn::faults::Watcher& watcher = cairn::faults::Watcher::The();
  const cairn::faults::Lock lock(watcher.mutex());
  watcher.Closed(fileno(file));
  return real(file);
}
int close(int fd) {
  CAIRN_REAL(close);
  cairn::faults::Watcher& watcher = cairn::faults::Watcher::The();
  const cairn::faults::Lock lock(watcher.mutex());
  watcher.Closed(fd);
  return real(fd);
}

ssize_t write(int fd, const void* data, size_t length) { return cairn::faults::WriteFile(fd, data, length, nullptr); }
ssize_t pwrite(int fd, const void* data, size_t length, off_t offset) {
  return cairn::faults::WriteFile(fd, data, length, &offset);
}
ssize_t pwrite64(int fd, const void* data, size_t length, off_t offset) {
  return cairn::faults::WriteFile(fd, data, length, &offset);
}
ssize_t writev(int fd, const iovec* parts, int count) {
  CAIRN_REAL(writev);
  std::string path;
  if (!cairn::faults::Watcher::The().Knows(fd, &path)) return real(fd, parts, count);
  std::string all;
  for (int i = 0; i < count; ++i) all.append(static_cast<const char*>(parts[i].iov_base), parts[i].iov_len);
  return write(fd, all.data(), all.size());
}

ssize_t read(int fd, void* to, size_t length) {
  CAIRN_REAL(read);
  return cairn::faults::ReadFile(fd, length, [&](size_t bytes) { return real(fd, to, bytes); });
}
ssize_t pread(int fd, void* to, size_t length, off_t offset) {
  CAIRN_REAL(pread);
  return cairn::faults::ReadFile(fd, length, [&](size_t bytes) { return real(fd, to, bytes, offset); });
}
ssize_t pread64(int fd, void* to, size_t length, off_t offset) { return pread(fd, to, length, offset); }
size_t fread(void* to, size_t size, size_t count, FILE* file) {
  CAIRN_REAL(fread);
  const ssize_t got = cairn::faults::ReadFile(
      fileno(file), count, [&](size_t part) { return static_cast<ssize_t>(real(to, size, part, file)); });
  return got < 0 ? 0 : static_cast<size_t>(got);
}
size_t fread_unlocked(void* to, size_t size, size_t count, FILE* file) {
  CAIRN_REAL(fread_unlocked);
  const ssize_t got = cairn::faults::ReadFile(
      fileno(file), count, [&](size_t part) { return static_cast<ssize_t>(real(to, size, part, file)); });
  return got < 0 ? 0 : static_cast<size_t>(got);
}

int fsync(int fd) {
  CAIRN_REAL(fsync);
  return cairn::faults::SyncFile(fd, "fsync", [&] { return real(fd); });
}
int fdatasync(int fd) {
  CAIRN_REAL(fdatasync);
  return cairn::faults::SyncFile(fd, "fdatasync", [&] { return real(fd); });
}

int msync(void* address, size_t length, int flags) {
  CAIRN_REAL(msync);
  uint64_t from = 0;
  const cairn::faults::Lock lock(cairn::faults::Watcher::The().mutex());
  const int fd = cairn::faults::Watcher::The().FileMappedAt(address, &from);
  return cairn::faults::SyncFile(
      fd, "msync", [&] { return real(address, length, flags); }, from, length);
}

int fstat(int fd, struct stat* facts) noexcept {
  CAIRN_REAL(fstat);
  const int result = real(fd, facts);
  if (result == 0 && cairn::faults::Watcher::The().same_files) facts->st_ino = cairn::faults::NumberByName(fd);
  return result;
}
int fstat64(int fd, struct stat64* facts) noexcept { return fstat(fd, reinterpret_cast<struct stat*>(facts)); }
int statx(int fd, const char* path, int flags, unsigned mask, struct statx* facts) noexcept {
  CAIRN_REAL(statx);
  const int result = real(fd, path, flags, mask, facts);
  if (result == 0 && cairn::faults::Watcher::The().same_files && (flags & AT_EMPTY_PATH) != 0) {
    facts->stx_btime.tv_sec = static_cast<int64_t>(cairn::faults::NumberByName(fd));
    facts->stx_btime.tv_nsec = 0;
    facts->stx_mask |= STATX_BTIME;
  }
  return result;
}
int name_to_handle_at(int fd, const char* path, struct file_handle* handle, int* mount, int flags) noexcept {
  CAIRN_REAL(name_to_handle_at);
  if (!cairn::faults::Watcher::The().same_files) return real(fd, path, handle, mount, flags);
  errno = EOPNOTSUPP;
  return -1;
}

int ftruncate(int fd, off_t length) noexcept {
  CAIRN_REAL(ftruncate);
  return cairn::faults::SetSpace(fd, "ftruncate", [&] { return real(fd, length); });
}
int ftruncate64(int fd, off_t length) noexcept { return ftruncate(fd, length); }
int fallocate(int fd, int mode, off_t offset, off_t length) {
  CAIRN_REAL(fallocate);
  cairn::faults::Chunk zeros;
  if ((mode & FALLOC_FL_PUNCH_HOLE) != 0) {
    zeros.offset = static_cast<uint64_t>(offset);
    zeros.bytes.resize(static_cast<size_t>(length));
  }
  return cairn::faults::SetSpace(
      fd, "fallocate", [&] { return real(fd, mode, offset, length); }, std::move(zeros));
}
int fallocate64(int fd, int mode, off_t offset, off_t length) { return fallocate(fd, mode, offset, length); }
int posix_fallocate(int fd, off_t offset, off_t length) {
  CAIRN_REAL(posix_fallocate);
  errno = 0;
  const int result = cairn::faults::SetSpace(fd, "posix_fallocate", [&] { return real(fd, offset, length); });
  return result < 0 ? errno : result;
}
int posix_fallocate64(int fd, off_t offset, off_t length) { return posix_fallocate(fd, offset, length); }

int rename(const char* path, const char* other) noexcept {
  CAIRN_REAL(rename);
  return cairn::faults::ChangeName(EventKind::kRename, "rename", path, other, [&] { return real(path, other); });
}
int link(const char* path, const char* other) noexcept {
  CAIRN_REAL(link);
  return cairn::faults::ChangeName(EventKind::kLink, "link", path, other, [&] { return real(path, other); });
}
int unlink(const char* path) noexcept {
  CAIRN_REAL(unlink);
  return cairn::faults::ChangeName(EventKind::kRemove, "unlink", path, nullptr, [&] { return real(path); });
}
int rmdir(const char* path) noexcept {
  CAIRN_REAL(rmdir);
  return cairn::faults::ChangeName(EventKind::kRemove, "rmdir", path, nullptr, [&] { return real(path); });
}
int mkdir(const char* path, mode_t mode) noexcept {
  CAIRN_REAL(mkdir);
  return cairn::faults::ChangeName(EventKind::kMakeFolder, "mkdir", path, nullptr, [&] { return real(path, mode); });
}

// RocksDB sleeps for a second when a flush or a compaction has failed. A script that is run for thousands of positions
// has no second.
int usleep(useconds_t micros) {
  CAIRN_REAL(usleep);
  return real(cairn::faults::Watcher::The().watching() ? std::min<useconds_t>(micros, 5000) : micros);
}

void* mmap(void* address, size_t length, int protection, int flags, int fd, off_t offset) noexcept {
  return cairn::faults::MapFile(address, length, protection, flags, fd, offset);
}
void* mmap64(void* address, size_t length, int protection, int flags, int fd, off_t offset) noexcept {
  return cairn::faults::MapFile(address, length, protection, flags, fd, offset);
}

}  // extern "C"
