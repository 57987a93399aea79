#include "result_cache/cache_file.h"

#include <fcntl.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <utility>
#include <vector>

#include "util/boot_number.h"
#include "util/format_version.h"
#include "util/mapped_blocks.h"
#include "util/mix64.h"
#include "util/short_hash.h"

namespace cairn::cache {
namespace {

constexpr uint64_t kMagic = 0x6568636143b1a543;
constexpr uint64_t kUnfinished = 0x6568636143b1a500;  // of a file that begins, until its directory is empty
constexpr uint64_t kVersion = 2;
constexpr uint64_t kVersionWithStamps = 3;
constexpr size_t kEntryWords = 2;
// What a reader of overwritten words may read behind the last chunk.
constexpr size_t kTailChunks = 1;

// Stores stay in the order in which they are written here; the processor keeps the order of one thread's stores as far
// as anybody can tell who looks when the thread is gone.
void Order() { __atomic_signal_fence(__ATOMIC_SEQ_CST); }

}  // namespace

struct CacheFile::Header {
  uint64_t magic;
  uint64_t version;
  uint64_t chunk_bytes;
  uint64_t chunks;
  uint64_t partitions;
  uint64_t seed;
  uint64_t identity;  // its hash
  uint64_t checksum;  // of what stands above
  uint64_t boot;      // under which it was opened last; 0: it has lost power, and it is not known yet what is right
  uint64_t closed;    // ClosedWord: by Close
  uint64_t opening;   // with stamps: how often it was opened

  uint64_t Checksum() const { return XXH3_64bits(this, offsetof(Header, checksum)); }
  // With stamps, no single bit makes it.
  uint64_t ClosedWord() const { return version == kVersionWithStamps ? SplitMix64(opening) : 1; }
  bool IsClosed() const { return closed == ClosedWord(); }
};

IndexStatus CacheFile::Error(const char* what) const {
  return IndexStatus::IoError("result cache file " + path_ + ": " + what + ": " + std::strerror(errno));
}

IndexStatus CacheFile::Open(const std::string& path, const Shape& shape, const std::string& identity, uint64_t seed,
                            std::unique_ptr<CacheFile>* file) {
  std::unique_ptr<CacheFile> opened(new CacheFile(path, shape));
  IndexStatus s = opened->OpenAndLock();
  if (s.ok()) s = opened->Map();
  if (!s.ok()) return s;
  opened->found_ = opened->IsUsable(identity);
  if (!opened->found_) s = opened->Begin(XXH3_64bits(identity.data(), identity.size()), seed, 0);
  if (!s.ok()) return s;
  Header* const header = opened->header();
  opened->same_boot_ = header->boot != 0 && header->boot == BootNumber();
  opened->lost_power_ = opened->found_ && !opened->same_boot_ && !header->IsClosed();
  // From here on the file is that of a killed process, and the disk knows before anything in it changes.
  header->closed = 0;
  header->boot = opened->lost_power_ ? 0 : BootNumber();
  if (shape.stamps) ++header->opening;
  s = opened->Sync(Part::kOwner);
  if (!s.ok()) return s;
  *file = std::move(opened);
  return IndexStatus::OK();
}

IndexStatus CacheFile::OpenAndLock() {
  fd_ = open(path_.c_str(), O_RDWR | O_CREAT | O_CLOEXEC, 0600);
  if (fd_ < 0) return Error("cannot be opened");
  const rocksdb::Status s = lock_.Acquire(path_, ProcessLock::Kind::kExclusive);
  if (s.ok()) return IndexStatus::OK();
  if (!s.IsBusy()) return IndexStatus::IoError("result cache file " + path_ + ": " + s.ToString());
  return IndexStatus::InvalidArgument("result cache file " + path_ +
                                      " is used by another cache, of this process or another one; give each its own");
}

// A path that was mistyped must not cost what lies there. What begins with the number of a cache's file is one; so is
// what has this size and one of the two words behind, if that number was damaged. A loss of power may leave zeros.
IndexStatus CacheFile::CheckWhatIsThere(uint64_t bytes) const {
  std::vector<char> there(std::min<uint64_t>(bytes, kFirstPages));
  const ssize_t n = pread(fd_, there.data(), there.size(), 0);
  if (n < 0) return Error("cannot be read");
  there.resize(static_cast<size_t>(n));
  if (there.empty()) return IndexStatus::OK();  // it is new
  Header header = {};
  std::memcpy(&header, there.data(), std::min(there.size(), sizeof(header)));
  if (header.magic == kMagic && header.version > kVersionWithStamps && header.checksum == header.Checksum()) {
    return IndexStatus::NotSupported("result cache file " + path_ + " has " +
                                     UnknownVersion(header.version, kVersionWithStamps) + ", or remove the file");
  }
  for (const uint64_t magic : {kMagic, kUnfinished}) {
    if (std::memcmp(there.data(), &magic, std::min(there.size(), sizeof(magic))) == 0) return IndexStatus::OK();
  }
  if (bytes == size_) {
    const bool zeros = std::all_of(there.begin(), there.end(), [](char byte) { return byte == 0; });
    if (zeros || header.version == version() || header.chunk_bytes == shape_.chunk_bytes) return IndexStatus::OK();
  }
  return IndexStatus::IoError(path_ +
                              " is not a result cache's file, and stays as it is; remove it, or give another path");
}

IndexStatus CacheFile::Map() {
  directory_at_ = kFirstPages;
  chunks_at_ = RoundUp(directory_at_ + shape_.chunks * kEntryWords * sizeof(Word), kPage);
  size_ = chunks_at_ + (shape_.chunks + kTailChunks) * shape_.chunk_bytes;
  struct stat now {};
  if (fstat(fd_, &now) != 0) return Error("cannot be examined");
  const IndexStatus s = CheckWhatIsThere(static_cast<uint64_t>(now.st_size));
  if (!s.ok()) return s;
  if (static_cast<size_t>(now.st_size) != size_) {
    // Of another shape: nothing of it can be used.
    if (ftruncate(fd_, 0) != 0) return Error("cannot be resized");
    AskToWriteBlocksInPlace(fd_);
    if (ftruncate(fd_, static_cast<off_t>(size_)) != 0) return Error("cannot be resized");
  }
  if (!WritesBlocksInPlace(fd_)) {
    return IndexStatus::IoError("result cache file " + path_ +
                                " lies on a file system that writes each block anew elsewhere: when it is full, a "
                                "store into the mapped file would end the process; give a path on another one");
  }
  // Header and directory, and chunk 0 that readers may look at; other chunks when they are taken.
  errno = posix_fallocate(fd_, 0, static_cast<off_t>(chunks_at_ + shape_.chunk_bytes));
  if (errno != 0) return Error("no room");
  void* const mapped = mmap(nullptr, size_, PROT_READ | PROT_WRITE, MAP_SHARED, fd_, 0);
  if (mapped == MAP_FAILED) return Error("cannot be mapped");
  mapped_ = static_cast<char*>(mapped);
  return IndexStatus::OK();
}

bool CacheFile::IsUsable(const std::string& identity) {
  const Header& there = *header();
  return there.magic == kMagic && there.version == version() && there.checksum == there.Checksum() &&
         there.chunk_bytes == shape_.chunk_bytes && there.chunks == shape_.chunks &&
         there.partitions == shape_.partitions && there.identity == XXH3_64bits(identity.data(), identity.size()) &&
         (there.IsClosed() || (there.boot != 0 && (shape_.stamps || there.boot == BootNumber())));
}

IndexStatus CacheFile::Begin() {
  const IndexStatus s = Begin(header()->identity, header()->seed, header()->opening);
  return s.ok() ? Outlived() : s;
}

IndexStatus CacheFile::Outlived() {
  lost_power_ = false;
  header()->boot = BootNumber();
  return Sync(Part::kOwner);
}

uint64_t CacheFile::version() const { return shape_.stamps ? kVersionWithStamps : kVersion; }

IndexStatus CacheFile::Begin(uint64_t identity, uint64_t seed, uint64_t opening) {
  found_ = false;
  lost_power_ = false;
  header()->magic = kUnfinished;
  if (msync(mapped_, kPage, MS_SYNC) != 0) return Error("cannot be synced");
  std::memset(mapped_ + kPage, 0, chunks_at_ - kPage);
  Header fresh = {};
  fresh.version = version();
  fresh.chunk_bytes = shape_.chunk_bytes;
  fresh.chunks = shape_.chunks;
  fresh.partitions = shape_.partitions;
  fresh.seed = seed;
  fresh.identity = identity;
  fresh.opening = opening;
  fresh.magic = kMagic;
  fresh.checksum = fresh.Checksum();
  if (msync(mapped_, chunks_at_, MS_SYNC) != 0) return Error("cannot be synced");
  *header() = fresh;
  return IndexStatus::OK();
}

void CacheFile::Remove(const std::string& path, const std::string& identity) {
  Header there = {};
  const int fd = open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK);
  if (fd < 0) return;
  const bool read = pread(fd, &there, sizeof(there), 0) == static_cast<ssize_t>(sizeof(there));
  ProcessLock lock;
  if (read && there.magic == kMagic && there.checksum == there.Checksum() &&
      there.identity == XXH3_64bits(identity.data(), identity.size()) &&
      lock.Acquire(path, ProcessLock::Kind::kExclusive).ok() && lock.IsOn(fd)) {
    unlink(path.c_str());
  }
  close(fd);
}

CacheFile::~CacheFile() {
  if (mapped_ != nullptr) munmap(mapped_, size_);
  if (fd_ >= 0) close(fd_);
}

IndexStatus CacheFile::Close() {
  if (!lock_.held()) return IndexStatus::OK();
  const IndexStatus s = Sync(Part::kAll);
  if (!s.ok() || lost_power_) return s;  // what it holds is not known to be right
  header()->closed = header()->ClosedWord();
  return Sync(Part::kOwner);
}

IndexStatus CacheFile::Sync(Part part) {
  const size_t bytes = part == Part::kAll ? size_ : kFirstPages;
  // After a failure the kernel takes the pages for clean: a later success says nothing of them.
  if (!sync_failed_ && msync(mapped_, bytes, MS_SYNC) == 0) return IndexStatus::OK();
  const IndexStatus s = Error("cannot be synced");
  if (!sync_failed_.exchange(true) && stamps()) Forsake();
  return s;
}

void CacheFile::Forsake() {
  unlink(path_.c_str());
  const size_t slash = path_.rfind('/');
  const std::string folder = slash == std::string::npos ? "." : path_.substr(0, slash + 1);
  const int fd = open(folder.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC);
  if (fd < 0) return;
  fsync(fd);
  close(fd);
}

uint64_t CacheFile::seed() const { return header()->seed; }

uint64_t CacheFile::opening() const { return header()->opening; }

bool CacheFile::Allocate(uint32_t chunk) {
  const auto begin = static_cast<off_t>(chunks_at_ + chunk * shape_.chunk_bytes);
  return posix_fallocate(fd_, begin, static_cast<off_t>(shape_.chunk_bytes)) == 0;
}

Word* CacheFile::Entry(uint32_t chunk) const {
  return reinterpret_cast<Word*>(mapped_ + directory_at_) + size_t{chunk} * kEntryWords;
}

CacheFile::Chunk CacheFile::Read(uint32_t chunk) const {
  const Word word = LoadWord(Entry(chunk));
  const auto state = static_cast<uint8_t>(word);
  return {state <= static_cast<uint8_t>(State::kMain) ? static_cast<State>(state) : State::kFree,
          static_cast<uint8_t>(word >> 8), static_cast<uint32_t>(word >> 32), LoadWord(Entry(chunk) + 1)};
}

void CacheFile::OpenChunk(uint32_t chunk, State state, size_t partition, uint64_t order) {
  StoreWord(Entry(chunk) + 1, order);
  Order();
  StoreWord(Entry(chunk), static_cast<Word>(state) | Word{partition} << 8);
  Order();
}

void CacheFile::SetUsed(uint32_t chunk, uint32_t words) {
  Order();
  StoreWord(Entry(chunk), (LoadWord(Entry(chunk)) & 0xffff) | Word{words} << 32);
}

void CacheFile::FreeChunk(uint32_t chunk) {
  StoreWord(Entry(chunk), 0);
  // No chunk ever has that order, so what is left in it is never whole.
  if (stamps()) StoreWord(Entry(chunk) + 1, 0);
  Order();
}

}  // namespace cairn::cache
