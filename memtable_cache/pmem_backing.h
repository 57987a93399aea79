// A file mapped as memory, for pool files: on persistent memory (a file of a DAX file system, or a device-DAX path)
// through libpmem, else on the page cache of any file system.
//
// What survives what
//                              the process dies     the machine loses power
//   persistent memory, eADR    every store          every store
//   persistent memory          every store          what was flushed and fenced (Persist)
//   any other file             every store          what was synced (Sync: msync)
//
// Thread-safety: Persist and Sync may be called by any thread; Sync serialises itself.
//
// One process at a time has a file open for writing (process_lock.h); its forked children do not.

#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <utility>

#include "memtable_cache/process_lock.h"
#include "rocksdb/status.h"
#include "util/mutex.h"

namespace cairn {

struct PmemFileOptions {
  // A file, made if it is not there, or a device-DAX path.
  std::string path;
  // Size of a file that is made. A file that is there keeps its size, a device has its own.
  uint64_t bytes = 0;
  // Treat a file as a device: it keeps its size, and its memory is mapped in units of kDeviceUnitBytes.
  bool keep_size = false;
  // Refuse what is not on persistent memory, instead of relying on the page cache.
  bool require_persistent_memory = false;
  // Refuse what is not on persistent memory behind a cache that survives a loss of power (eADR).
  bool require_persistent_cache = false;
};

struct PmemLibrary;

class PmemFile {
 public:
  // What device-DAX maps, addresses and offsets, are multiples of this.
  static constexpr uint64_t kDeviceUnitBytes = 2 << 20;

  // Busy when another process, or another PmemFile of this one, has it open.
  static rocksdb::Status Open(const PmemFileOptions& options, std::unique_ptr<PmemFile>* file);
  // To look at what a file holds; nothing may be stored. Any number of readers, but none beside a writer: Busy then,
  // and a writer waits for readers. NotFound when it is not there.
  static rocksdb::Status OpenForReading(const std::string& path, std::unique_ptr<PmemFile>* file);
  ~PmemFile();
  PmemFile(const PmemFile&) = delete;
  PmemFile& operator=(const PmemFile&) = delete;

  char* base() const { return base_; }
  uint64_t bytes() const { return bytes_; }
  const std::string& path() const { return path_; }
  // Made by this Open: it holds zeros.
  bool is_new() const { return is_new_; }
  bool on_persistent_memory() const { return on_persistent_memory_; }
  // A device, or a file that was opened as one: Resize is refused, Extend gives what is there.
  bool keeps_size() const { return keeps_size_; }
  // Stores must be flushed to be safe from a loss of power, and flushing them is cheap enough to be done for each.
  bool needs_flush() const { return needs_flush_; }

  // False in a child of the process that opened it: the file is not its.
  bool is_ours() const { return lock_.held(); }

  // Gives the file another size and a new mapping; pointers into the old one are void. Not for devices.
  rocksdb::Status Resize(uint64_t bytes);

  // Makes the file at least this long; base() stays, and does not reach what is new. NoSpace when that cannot be had.
  rocksdb::Status Extend(uint64_t bytes);

  // All of the file has blocks, and stores go into these: on a full file system, a store into a hole, or into a block
  // that is written anew elsewhere, would be a SIGBUS. NotSupported where a file system cannot promise that.
  rocksdb::Status SecureBlocks();
  // Blocks for what GiveBack may have taken them from. NoSpace when there are none.
  rocksdb::Status AllocateAt(uint64_t offset, uint64_t length);
  // Gives the blocks of a range back to the file system, where that can do it; the range reads as zeros then.
  void GiveBack(uint64_t offset, uint64_t length);

  // Maps `length` bytes of the file at `offset` over `address` as well; both multiples of the page size.
  rocksdb::Status MapAt(void* address, uint64_t offset, uint64_t length);

  // After it returns, earlier stores of this thread to the range are safe from a loss of power on persistent memory,
  // and come before its later ones. Elsewhere it only keeps the compiler from reordering. A range of any mapping of the
  // file.
  void Persist(const void* address, size_t length);

  // Called with each range that is about to be persisted, before it is; for tests of what a loss of power leaves. Set
  // before any other thread knows the file.
  void SetPersistObserver(std::function<void(const void* address, size_t length)> observer) {
    observer_ = std::move(observer);
  }

  // Called instead of the system's sync; for tests of disks that fail or lose power. Set before any other thread knows
  // the file.
  void SetSyncFunction(std::function<rocksdb::Status()> sync) { sync_ = std::move(sync); }

  // Pushes a range out of the cache towards persistent memory, line after line, whatever the platform needs: whole
  // blocks of the medium in a row (docs/design/durable_memtable.md). Nothing elsewhere.
  void WriteBack(const void* address, size_t length);

  // Makes all stores so far safe from a loss of power, where that needs a system call; nothing on persistent memory.
  rocksdb::Status Sync();

  // One line for the log and `cairn stats`.
  std::string Report() const;

 private:
  PmemFile() = default;
  rocksdb::Status Lock(ProcessLock::Kind kind);
  rocksdb::Status CheckMedium(const PmemFileOptions& options) const;
  long FileSystem() const;  // its magic number; 0: unknown
  rocksdb::Status Map();
  void Unmap();

  const PmemLibrary* pmem_ = nullptr;  // null: no file is on persistent memory
  std::string path_;
  ProcessLock lock_;
  int fd_ = -1;
  char* base_ = nullptr;
  uint64_t bytes_ = 0;
  uint64_t mapped_bytes_ = 0;  // at base_
  bool is_new_ = false;
  bool keeps_size_ = false;
  bool on_persistent_memory_ = false;
  bool needs_flush_ = false;
  std::function<void(const void*, size_t)> observer_;
  std::function<rocksdb::Status()> sync_;
  CheckedMutex sync_mutex_;  // one at a time
};

}  // namespace cairn
