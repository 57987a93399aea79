#include "memtable_cache/pmem_backing.h"

#include <fcntl.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>

#include "memtable_cache/pmem_library.h"
#include "util/mapped_blocks.h"
#include "util/rocksdb_names.h"

#ifndef MAP_SHARED_VALIDATE
#define MAP_SHARED_VALIDATE 0x03
#endif
#ifndef MAP_SYNC
#define MAP_SYNC 0x80000
#endif

namespace cairn {

namespace {

constexpr uint64_t kPageBytes = 4096;
constexpr long kTmpfsMagic = 0x01021994;
constexpr long kRamfsMagic = static_cast<long>(0x858458f6);
constexpr long kHugetlbfsMagic = static_cast<long>(0x958458f6);

// One of these may lie below.
constexpr long kOverlayMagic = 0x794c7630;

Status ErrorOf(const std::string& what, const std::string& path) {
  return Status::IOError(what + " " + path, strerror(errno));
}

}  // namespace

Status PmemFile::Open(const PmemFileOptions& options, std::unique_ptr<PmemFile>* file) {
  std::unique_ptr<PmemFile> result(new PmemFile());
  result->path_ = options.path;
  struct stat facts = {};
  const bool exists = stat(options.path.c_str(), &facts) == 0;
  const bool is_device = exists && S_ISCHR(facts.st_mode);
  result->keeps_size_ = is_device || (exists && options.keep_size);
  if (exists && !S_ISCHR(facts.st_mode) && !S_ISREG(facts.st_mode)) {
    return Status::InvalidArgument(options.path, "is neither a file nor a device of persistent memory");
  }
  result->fd_ = open(options.path.c_str(), O_RDWR | O_CLOEXEC | (exists ? 0 : O_CREAT), 0600);
  if (result->fd_ < 0) return ErrorOf("open", options.path);
  Status s = result->Lock(ProcessLock::Kind::kExclusive);
  if (!s.ok()) return s;
  if (fstat(result->fd_, &facts) != 0) return ErrorOf("stat", options.path);
  result->bytes_ = static_cast<uint64_t>(facts.st_size);
  result->is_new_ = !is_device && result->bytes_ == 0;
  // SecureBlocks sees whether it was done.
  if (result->is_new_) AskToWriteBlocksInPlace(result->fd_);
  s = result->is_new_ ? result->Resize(options.bytes) : result->Map();
  if (s.ok()) s = result->CheckMedium(options);
  if (!s.ok() && result->is_new_) unlink(options.path.c_str());
  if (!s.ok()) return s;
  *file = std::move(result);
  return Status::OK();
}

Status PmemFile::CheckMedium(const PmemFileOptions& options) const {
  if (options.require_persistent_memory && !on_persistent_memory_) {
    return Status::NotSupported(path_,
                                "is not on persistent memory; mount its file system with dax, or turn "
                                "require_persistent_memory off to rely on the page cache");
  }
  if (options.require_persistent_cache && (!on_persistent_memory_ || needs_flush_)) {
    return Status::NotSupported(
        path_, std::string("cannot be used with locked_cache: entries that stay in the cache would be lost with the "
                           "power, because ") +
                   (on_persistent_memory_ ? "the platform has no eADR (pmem_has_auto_flush)"
                                          : "the file is not on persistent memory") +
                   "; set locked_cache to 0");
  }
  return Status::OK();
}

Status PmemFile::OpenForReading(const std::string& path, std::unique_ptr<PmemFile>* file) {
  std::unique_ptr<PmemFile> result(new PmemFile());
  result->path_ = path;
  result->keeps_size_ = true;
  struct stat facts = {};
  // Asked first: to open what is not there fails otherwise when the process has no descriptors left.
  if (stat(path.c_str(), &facts) != 0 && (errno == ENOENT || errno == ENOTDIR)) {
    return Status::NotFound(path, "is not there");
  }
  result->fd_ = open(path.c_str(), O_RDONLY | O_CLOEXEC);
  if (result->fd_ < 0) return ErrorOf("open", path);
  Status s = result->Lock(ProcessLock::Kind::kShared);
  if (!s.ok()) return s;
  if (fstat(result->fd_, &facts) != 0) return ErrorOf("stat", path);
  if (S_ISCHR(facts.st_mode)) {
    s = result->Map();
    if (s.ok()) *file = std::move(result);
    return s;
  }
  if (!S_ISREG(facts.st_mode)) return Status::InvalidArgument(path, "is no pool file");
  result->bytes_ = static_cast<uint64_t>(facts.st_size);
  result->is_new_ = result->bytes_ == 0;
  if (result->bytes_ > 0) {
    void* const at = mmap(nullptr, result->bytes_, PROT_READ, MAP_SHARED, result->fd_, 0);
    if (at == MAP_FAILED) return ErrorOf("map", path);
    result->base_ = static_cast<char*>(at);
    result->mapped_bytes_ = result->bytes_;
  }
  *file = std::move(result);
  return s;
}

Status PmemFile::Lock(ProcessLock::Kind kind) {
  const Status s = lock_.Acquire(path_, kind);
  if (!s.ok() || lock_.IsOn(fd_)) return s;
  return Status::Busy(path_, "has been replaced by another file just now");
}

PmemFile::~PmemFile() {
  Unmap();
  if (fd_ >= 0) close(fd_);
}

Status PmemFile::Map() {
#ifdef CAIRN_HAVE_PMEM
  pmem_ = LoadPmemLibrary();
  if (pmem_ != nullptr) {
    size_t mapped = 0;
    int is_pmem = 0;
    void* const at = pmem_->map_file(path_.c_str(), 0, 0, 0, &mapped, &is_pmem);
    if (at == nullptr) return ErrorOf("map", path_);
    bytes_ = mapped;
    on_persistent_memory_ = is_pmem != 0;
    needs_flush_ = on_persistent_memory_ && pmem_->has_auto_flush() != 1;
    base_ = static_cast<char*>(at);
    mapped_bytes_ = bytes_;
    return Status::OK();
  }
#endif
  if (bytes_ == 0) return Status::NotSupported(path_, "is a device, which cannot be mapped: " + WhyNoPmemLibrary());
  void* const at = mmap(nullptr, bytes_, PROT_READ | PROT_WRITE, MAP_SHARED, fd_, 0);
  if (at == MAP_FAILED) return ErrorOf("map", path_);
  base_ = static_cast<char*>(at);
  mapped_bytes_ = bytes_;
  return Status::OK();
}

void PmemFile::Unmap() {
  if (base_ != nullptr) munmap(base_, mapped_bytes_);
  base_ = nullptr;
}

Status PmemFile::Resize(uint64_t bytes) {
  if (keeps_size_) return Status::NotSupported(path_, "is a device and keeps its size");
  if (bytes == 0 || bytes % kPageBytes != 0) {
    return Status::InvalidArgument(path_, "the size must be a multiple of 4096, not " + std::to_string(bytes));
  }
  Unmap();
  if (ftruncate(fd_, static_cast<off_t>(bytes)) != 0) return ErrorOf("resize", path_);
  // The pages are asked for now: a store into a page that a full file system cannot give would be a SIGBUS.
  const int error = posix_fallocate(fd_, 0, static_cast<off_t>(bytes));
  if (error != 0) {
    errno = error;
    return ErrorOf("allocate " + std::to_string(bytes) + " bytes for", path_);
  }
  bytes_ = bytes;
  return Map();
}

Status PmemFile::Extend(uint64_t bytes) {
  if (bytes <= bytes_) return Status::OK();
  const int error =
      keeps_size_ ? ENOSPC : posix_fallocate(fd_, static_cast<off_t>(bytes_), static_cast<off_t>(bytes - bytes_));
  if (error != 0)
    return Status::NoSpace("extending " + path_ + " to " + std::to_string(bytes) + " bytes", strerror(error));
  bytes_ = bytes;
  return Status::OK();
}

long PmemFile::FileSystem() const { return FileSystemOf(fd_); }

Status PmemFile::SecureBlocks() {
  if (keeps_size_) return Status::OK();
  if (!WritesBlocksInPlace(fd_)) {
    return Status::NotSupported(
        path_,
        "lies on a file system that writes each block anew elsewhere: when it is full, a store into the mapped "
        "file would end the process. Set pool_file to a path on ext4, XFS, a memory file system or persistent "
        "memory; or, on btrfs, remove the file, which holds nothing now: it is made anew without copy-on-write "
        "(chattr +C) where that is allowed");
  }
  return AllocateAt(0, bytes_);
}

Status PmemFile::AllocateAt(uint64_t offset, uint64_t length) {
  const int error = posix_fallocate(fd_, static_cast<off_t>(offset), static_cast<off_t>(length));
  return error == 0 ? Status::OK() : Status::NoSpace("allocating blocks for " + path_, strerror(error));
}

void PmemFile::GiveBack(uint64_t offset, uint64_t length) {
  // One that cannot keeps the blocks: nothing but space is lost.
  fallocate(fd_, FALLOC_FL_PUNCH_HOLE | FALLOC_FL_KEEP_SIZE, static_cast<off_t>(offset), static_cast<off_t>(length));
}

Status PmemFile::MapAt(void* address, uint64_t offset, uint64_t length) {
  // Populated: one call instead of a fault a page.
  const int flags = (on_persistent_memory_ ? MAP_SHARED_VALIDATE | MAP_SYNC : MAP_SHARED) | MAP_POPULATE;
  void* at = mmap(address, length, PROT_READ | PROT_WRITE, flags | MAP_FIXED, fd_, static_cast<off_t>(offset));
  if (at == MAP_FAILED && on_persistent_memory_) {
    // libpmem also believes what PMEM_IS_PMEM_FORCE says, of a file that cannot be mapped so.
    at = mmap(address, length, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_FIXED, fd_, static_cast<off_t>(offset));
  }
  return at == MAP_FAILED ? ErrorOf("map", path_) : Status::OK();
}

void PmemFile::Persist(const void* address, size_t length) {
  if (observer_) observer_(address, length);
#ifdef CAIRN_HAVE_PMEM
  if (needs_flush_) {
    pmem_->persist(address, length);
    return;
  }
#endif
  // Whoever reads the file when this process is gone sees all stores up to some moment; the cache that eADR writes back
  // sees them in their order. (An instruction on arm64 only.)
  std::atomic_thread_fence(std::memory_order_release);
}

void PmemFile::WriteBack(const void* address, size_t length) {
#ifdef CAIRN_HAVE_PMEM
  if (on_persistent_memory_) pmem_->deep_flush(address, length);
#else
  (void)address;
  (void)length;
#endif
}

Status PmemFile::Sync() {
  if (on_persistent_memory_) return Status::OK();
  const MutexLock lock(&sync_mutex_);
  if (sync_) return sync_();
  return fdatasync(fd_) == 0 ? Status::OK() : ErrorOf("sync", path_);
}

std::string PmemFile::Report() const {
  std::string text = "pool file " + path_ + ", " + std::to_string(bytes_) + " bytes, ";
  if (on_persistent_memory_) {
    return text + "on persistent memory" +
           (needs_flush_ ? ", each write flushed (the platform has no eADR)" : " with eADR, nothing flushed");
  }
  const long type = FileSystem();
  if (type == kOverlayMagic) {
    text += "on an overlay (if what lies below it copies on write, a full one ends the process: use a volume), ";
  }
  if ((type == kTmpfsMagic || type == kRamfsMagic || type == kHugetlbfsMagic)) {
    return text + "in memory: safe from a crash of the process, not of the machine";
  }
  const std::string why = WhyNoPmemLibrary();
  return text + "not on persistent memory" + (why.empty() ? "" : " (" + why + ")") +
         ": safe from a crash of the process; from one of the machine with sync only";
}

}  // namespace cairn
