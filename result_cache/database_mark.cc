#include "result_cache/database_mark.h"

#include <dirent.h>
#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cstdlib>
#include <vector>

#include "util/short_hash.h"

namespace cairn {

namespace {

constexpr size_t kBlock = size_t{1} << 20;

// A file that is open; -1: it is not there.
class OpenFile {
 public:
  explicit OpenFile(const std::string& path) : fd_(open(path.c_str(), O_RDONLY | O_CLOEXEC)) {}
  ~OpenFile() {
    if (fd_ >= 0) close(fd_);
  }
  OpenFile(const OpenFile&) = delete;
  OpenFile& operator=(const OpenFile&) = delete;
  int fd() const { return fd_; }

 private:
  const int fd_;
};

// Up to `most` bytes; as many as there are.
std::string ReadBeginning(int fd, uint64_t most) {
  std::string bytes;
  while (bytes.size() < most) {
    const size_t at = bytes.size();
    bytes.resize(std::min<uint64_t>(most, at + kBlock));
    const ssize_t n = pread(fd, bytes.data() + at, bytes.size() - at, static_cast<off_t>(at));
    bytes.resize(at + static_cast<size_t>(std::max<ssize_t>(n, 0)));
    if (n <= 0) break;
  }
  return bytes;
}

uint64_t HashOf(const std::string& bytes) { return bytes.empty() ? 0 : XXH3_64bits(bytes.data(), bytes.size()); }

// The number at the end of a name that begins with `kind`; 0: it is none.
uint64_t NumberOf(const std::string& name, const std::string& kind) {
  if (name.compare(0, kind.size(), kind) != 0) return 0;
  const std::string digits = name.substr(kind.size());
  const bool number = !digits.empty() && digits.find_first_not_of("0123456789") == std::string::npos;
  return number ? std::strtoull(digits.c_str(), nullptr, 10) : 0;
}

uint64_t NewestOptions(const std::string& path) {
  uint64_t newest = 0;
  DIR* const folder = opendir(path.c_str());
  if (folder == nullptr) return 0;
  while (const dirent* const entry = readdir(folder)) newest = std::max(newest, NumberOf(entry->d_name, "OPTIONS-"));
  closedir(folder);
  return newest;
}

uint64_t BirthOf([[maybe_unused]] int fd) {
#ifdef STATX_BTIME
  struct statx now {};
  if (statx(fd, "", AT_EMPTY_PATH, STATX_BTIME, &now) == 0 && (now.stx_mask & STATX_BTIME) != 0) {
    return static_cast<uint64_t>(now.stx_btime.tv_sec) * 1000000000 + now.stx_btime.tv_nsec;
  }
#endif
  return 0;
}

uint64_t HandleOf([[maybe_unused]] int fd) {
#ifdef MAX_HANDLE_SZ
  std::vector<uint64_t> memory((sizeof(file_handle) + MAX_HANDLE_SZ + 7) / 8);
  auto* const handle = reinterpret_cast<file_handle*>(memory.data());
  handle->handle_bytes = MAX_HANDLE_SZ;
  int mount = 0;
  if (name_to_handle_at(fd, "", handle, &mount, AT_EMPTY_PATH) == 0) {
    return XXH3_64bits(handle->f_handle, handle->handle_bytes);
  }
#endif
  return 0;
}

}  // namespace

uint64_t MarkOfFile(int fd) {
  struct stat now {};
  if (fstat(fd, &now) != 0) return 0;
  const uint64_t words[] = {static_cast<uint64_t>(now.st_ino), BirthOf(fd), HandleOf(fd)};
  // A number of an inode alone is used again at once.
  return words[1] == 0 && words[2] == 0 ? 0 : XXH3_64bits(words, sizeof(words)) | 1;
}

DatabaseMark DatabaseMark::Of(const std::string& path, uint64_t prefix_bytes) {
  DatabaseMark mark;
  const OpenFile current(path + "/CURRENT");
  std::string name = ReadBeginning(current.fd(), 256);
  if (!name.empty() && name.back() == '\n') name.pop_back();
  const OpenFile manifest(path + "/" + name);
  struct stat now {};
  if (name.empty() || manifest.fd() < 0 || fstat(manifest.fd(), &now) != 0) return mark;
  mark.database = HashOf(ReadBeginning(OpenFile(path + "/IDENTITY").fd(), 256));
  mark.inode = now.st_ino;
  mark.birth = BirthOf(manifest.fd());
  mark.handle = HandleOf(manifest.fd());
  mark.options = NewestOptions(path);
  mark.bytes = static_cast<uint64_t>(now.st_size);
  const std::string beginning = ReadBeginning(manifest.fd(), std::min(prefix_bytes, mark.bytes));
  mark.prefix_bytes = beginning.size();
  mark.prefix = HashOf(beginning);
  // A number of an inode alone is used again at once.
  if (mark.birth != 0 || mark.handle != 0) mark.manifest = NumberOf(name, "MANIFEST-");
  return mark;
}

bool DatabaseMark::Continues(const DatabaseMark& recorded) const {
  return manifest != 0 && database == recorded.database && manifest == recorded.manifest && inode == recorded.inode &&
         birth == recorded.birth && handle == recorded.handle && options == recorded.options &&
         bytes >= recorded.bytes && prefix_bytes == recorded.prefix_bytes && prefix == recorded.prefix;
}

}  // namespace cairn
