#include "result_cache/file_binding.h"

#include <dirent.h>
#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cstdlib>
#include <utility>
#include <vector>

#include "util/short_hash.h"

namespace cairn {

using cache::LoadWord;
using cache::StoreWord;
using cache::Word;

namespace {

constexpr Word kSure = 0x5eed0fa11717e5a1;

// Stores stay in the order in which they are written here (result_cache/cache_file.h).
void KeepOrder() { __atomic_signal_fence(__ATOMIC_SEQ_CST); }

Word ChecksumOf(const Word* words, size_t count) { return XXH3_64bits(words, count * sizeof(Word)); }

}  // namespace

FileBinding::FileBinding(cache::CacheFile* file, std::string path) : file_(file), path_(std::move(path)) {
  recorded_ = Recorded(&recorded_right_);
  found_point_ = FoundPoint();
}

void FileBinding::LookAtFound() {
  if (file_->found() && recorded_right_) before_ = DatabaseMark::Of(path_, recorded_.prefix_bytes);
}

DatabaseMark FileBinding::Recorded(bool* right) const {
  Word there[kChecksumAt];
  for (size_t i = 0; i < kChecksumAt; ++i) there[i] = LoadWord(words() + i);
  *right = LoadWord(words() + kChecksumAt) == ChecksumOf(there, kChecksumAt) && there[kOwnFileAt] != 0 &&
           there[kOwnFileAt] == MarkOfFile(file_->fd());
  return {there[0], there[1], there[2], there[3], there[4], there[5], there[6], there[7], there[8]};
}

void FileBinding::Record(const DatabaseMark& mark) {
  const Word all[kChecksumAt] = {mark.database, mark.manifest, mark.inode,        mark.birth,  mark.handle,
                                 mark.options,  mark.bytes,    mark.prefix_bytes, mark.prefix, MarkOfFile(file_->fd())};
  Word* const checksum = words() + kChecksumAt;
  StoreWord(checksum, ~ChecksumOf(all, kChecksumAt));
  KeepOrder();
  for (size_t i = 0; i < kChecksumAt; ++i) StoreWord(words() + i, all[i]);
  KeepOrder();
  StoreWord(checksum, ChecksumOf(all, kChecksumAt));
  KeepOrder();
}

std::string FileBinding::WhyNot(const WalReport& report) const {
  if (!file_->found()) return "it is new, of another size, or was not closed before the system went down";
  if (!recorded_right_ || !before_.Continues(recorded_)) {
    return "the database was opened, copied or restored by somebody else since, or it is another one, or the file is a "
           "copy";
  }
  if (LoadWord(sure()) != kSure) return "something was written without the WAL, by pipelined writes or in two phases";
  if (file_->lost_power()) return WhyNotAfterLossOfPower(report);
  bool any = false;
  for (uint32_t i = 0; i < kWals; ++i) {
    const uint64_t number = LoadWord(WalAt(i));
    const uint64_t sequence = LoadWord(WalAt(i) + 1);
    if (number == 0 || sequence == 0) continue;
    any = true;
    if (number < report.first_needed) continue;
    const auto read = report.last.find(number);
    if (read == report.last.end() || read->second < sequence) {
      return "WAL " + std::to_string(number) + " lacks writes that had been acknowledged";
    }
  }
  if (any && !report.any_file) return "there is no WAL";
  if (LoadWord(words() + kForgottenAt) >= std::max<uint64_t>(report.first_needed, 1)) return "there are too many WALs";
  for (const auto& [number, sequence] : report.last) {
    bool known = false;
    for (uint32_t i = 0; i < kWals; ++i) known = known || LoadWord(WalAt(i)) == number;
    if (!known) return "WAL " + std::to_string(number) + " is not known";
  }
  return "";
}

// The point is right whatever has become of the file since. What came after it is in the WALs, if they are all there.
std::string FileBinding::WhyNotAfterLossOfPower(const WalReport& report) const {
  const WalReport::Since& since = report.since;
  if (found_point_.sequence == WalReport::kNobodyAsks) return "the system went down before its first point was on disk";
  if (!report.any_file) return "there is no WAL";
  if (since.last_needed > found_point_.wal) return "memtables were flushed after its last point";
  if (since.doubtful) return "the WAL lacks writes, or has some in two phases";
  const bool any = found_point_.wal_has_writes || !report.last.empty();
  if (any && since.newest < found_point_.sequence) return "the WAL lacks writes that had been synced";
  return "";
}

bool FileBinding::Begin() {
  if (!file_->Begin().ok()) return false;
  for (size_t i = 0; i < cache::CacheFile::kOwnerWords; ++i) StoreWord(words() + i, 0);
  KeepOrder();
  StoreWord(sure(), kSure);
  return true;
}

void FileBinding::Bind(const WalReport& report) {
  // Of what has lost power, it may have entries for what is lost.
  for (uint32_t i = 0; file_->lost_power() && i < kWals; ++i) StoreWord(WalAt(i), 0);
  for (const auto& [number, sequence] : report.last) NoteWrite(number, sequence);
  const MutexLock lock(&mutex_);
  bound_ = DatabaseMark::Of(path_, UINT64_MAX);
  Record(bound_);
  is_bound_ = true;
}

void FileBinding::Refresh() {
  const MutexLock lock(&mutex_);
  RefreshLocked();
}

void FileBinding::BeginClose() {
  const MutexLock lock(&mutex_);
  RefreshLocked();
  is_closing_ = true;
}

void FileBinding::CancelClose() {
  const MutexLock lock(&mutex_);
  is_closing_ = false;
}

void FileBinding::RefreshLocked() {
  if (!is_bound_ || is_closing_) return;
  DatabaseMark now = DatabaseMark::Of(path_, 0);
  if (now.manifest != bound_.manifest) {
    now = DatabaseMark::Of(path_, UINT64_MAX);
  } else {
    now.prefix_bytes = bound_.prefix_bytes;
    now.prefix = bound_.prefix;
  }
  bound_ = now;
  Record(bound_);
}

// ---- points ----

FileBinding::Point FileBinding::FoundPoint() const {
  Point found{WalReport::kNobodyAsks, 0, false};
  for (size_t i = 0; file_->lost_power() && i < 2; ++i) {
    const Word there[3] = {LoadWord(PointAt(i)), LoadWord(PointAt(i) + 1), file_->opening() - 1};
    if (LoadWord(PointAt(i) + 2) != (ChecksumOf(there, 3) | 1)) continue;
    const Point point{there[0], there[1] >> 1, (there[1] & 1) != 0};
    const bool is_later = found.sequence == WalReport::kNobodyAsks || point.sequence > found.sequence ||
                          (point.sequence == found.sequence && point.wal >= found.wal);
    if (is_later) found = point;
  }
  return found;
}

void FileBinding::NotePoint(const Point& point) {
  if (!file_->Sync(cache::CacheFile::Part::kAll).ok()) return;
  const Word all[3] = {point.sequence, point.wal << 1 | (point.wal_has_writes ? 1 : 0), file_->opening()};
  Word* const words = PointAt(next_point_);
  StoreWord(words + 2, 0);
  KeepOrder();
  StoreWord(words, all[0]);
  StoreWord(words + 1, all[1]);
  KeepOrder();
  StoreWord(words + 2, ChecksumOf(all, 3) | 1);
  if (!file_->Sync(cache::CacheFile::Part::kOwner).ok()) return;
  next_point_ ^= 1;
  // What is wrong of what power had left is gone from the disk.
  if (file_->lost_power()) file_->Outlived();
}

// ---- spaces ----

Word FileBinding::SpaceChecksum(Word word, uint64_t options) {
  const Word both[2] = {word, options};
  return ChecksumOf(both, 2) | 1;
}

uint32_t FileBinding::FamilyAt(uint32_t i) const {
  return LoadWord(SpaceAt(i) + 1) == 0 ? kNoFamily : static_cast<uint32_t>(LoadWord(SpaceAt(i)) >> 32);
}

void FileBinding::ClearSpaceAt(uint32_t i) {
  StoreWord(SpaceAt(i) + 1, 0);
  KeepOrder();
}

uint32_t FileBinding::SpaceOf(uint32_t family, uint64_t options) const {
  for (uint32_t i = 0; i < kSpaces; ++i) {
    const Word word = LoadWord(SpaceAt(i));
    if (FamilyAt(i) == family && LoadWord(SpaceAt(i) + 1) == SpaceChecksum(word, options)) {
      return static_cast<uint32_t>(word);
    }
  }
  return kNoSpace;
}

void FileBinding::DropSpace(uint32_t family) {
  for (uint32_t i = 0; i < kSpaces; ++i) {
    if (FamilyAt(i) == family) ClearSpaceAt(i);
  }
}

// Families for which there is no room are forgotten when the database is closed.
void FileBinding::SetSpace(uint32_t family, uint32_t space, uint64_t options) {
  DropSpace(family);
  for (uint32_t i = 0; i < kSpaces; ++i) {
    if (FamilyAt(i) != kNoFamily) continue;
    const Word word = Word{family} << 32 | space;
    StoreWord(SpaceAt(i), word);
    KeepOrder();
    StoreWord(SpaceAt(i) + 1, SpaceChecksum(word, options));
    KeepOrder();
    return;
  }
}

// ---- WALs ----

void FileBinding::Raise(Word* word, uint64_t least) {
  Word now = LoadWord(word);
  while (now < least && !__atomic_compare_exchange_n(word, &now, least, true, __ATOMIC_RELAXED, __ATOMIC_RELAXED)) {
  }
}

// That of the WAL; of a new one in the place of the oldest. A late writer may have one that is not the newest.
Word* FileBinding::EntryOf(uint64_t wal) {
  const MutexLock lock(&mutex_);
  Word* const current = current_.load(std::memory_order_relaxed);
  Word* oldest = WalAt(0);
  for (uint32_t i = 0; i < kWals; ++i) {
    Word* const entry = WalAt(i);
    if (LoadWord(entry) == wal) {
      if (current == nullptr || LoadWord(current) < wal) current_.store(entry, std::memory_order_release);
      return entry;
    }
    if (LoadWord(entry) < LoadWord(oldest)) oldest = entry;
  }
  if (LoadWord(oldest) > wal) {
    Doubt();
    return oldest;
  }
  Raise(words() + kForgottenAt, LoadWord(oldest));
  KeepOrder();
  StoreWord(oldest + 1, 0);
  KeepOrder();
  StoreWord(oldest, wal);
  KeepOrder();
  current_.store(oldest, std::memory_order_release);
  return oldest;
}

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
