// The file under a persistent result cache: chunks of items, a directory that says what each chunk is, and words for
// who has put a cache above a store (docs/design/result_cache.md, Bytes of the file).
//
// What makes it right without a sync: stores to a shared mapping belong to the system as soon as they are made, so a
// process that is killed leaves a state that it had, with every store up to some moment of each thread and none after.
// What a loss of power leaves is, of every word, what it was at some moment since the last sync. So a file that was not
// closed is used only under the boot that wrote it; or, if its items have stamps, by an owner who knows which of them
// to believe.
//
// Invariants
//   (1) A chunk's `used` counts whole items only: it is stored after they are.
//   (2) An item that is in no index has a wrong checksum, before whoever took it out of the index returns. So has what
//       is left in free chunks, and behind `used`.
//   (3) A chunk is free in the directory before it is used again, and its order is there before its state.
//   (4) Where items have stamps, no chunk has an order twice, and each opening has orders of its own. So an item that
//       was stored in an earlier life of its place is wrong, whatever the directory says.
//
// Thread-safety: a directory entry is changed by the holder of the lock of its partition; the rest wants one thread.
//
// Source: NVMcached (APSys 2016), section 3.1 for checksums instead of flushes of each item, section 3.3 for zones that
// are given up as a whole.

#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <utility>

#include "cairn/index_status.h"
#include "memtable_cache/process_lock.h"
#include "result_cache/arena.h"
#include "result_cache/item.h"

namespace cairn::cache {

class CacheFile {
 public:
  struct Shape {
    uint64_t chunk_bytes = 0;
    uint64_t chunks = 0;  // with chunk 0
    uint64_t partitions = 0;
    bool stamps = false;  // its items have stamps, and whoever owns it can tell which are right after a loss of power
  };
  enum class State : uint8_t { kFree, kSmall, kMain };
  struct Chunk {
    State state = State::kFree;
    uint8_t partition = 0;
    uint32_t used = 0;
    uint64_t order = 0;
  };

  // Words of the owner's, who stores them with StoreWord and decides in which order.
  static constexpr size_t kOwnerWords = 1024;

  // Creates the file, or opens what is there and may be used: of this shape and identity, closed, or written under this
  // boot, or with stamps. Else it begins empty. `seed`: that of a file that begins.
  // kInvalidArgument: another process or object has it; kIOError: what is there is not a cache's, and stays as it is.
  static IndexStatus Open(const std::string& path, const Shape& shape, const std::string& identity, uint64_t seed,
                          std::unique_ptr<CacheFile>* file);
  // Without Close, the file is as a killed process leaves it.
  ~CacheFile();
  CacheFile(const CacheFile&) = delete;
  CacheFile& operator=(const CacheFile&) = delete;

  // Deletes the file, unless it is none of this identity, or in use.
  static void Remove(const std::string& path, const std::string& identity);

  uint64_t seed() const;
  int fd() const { return fd_; }
  // Whether the file holds what an earlier cache has left. Until Begin.
  bool found() const { return found_; }
  // Whether that is what a loss of power has left: whole items are, all else is doubtful. Until Begin or Outlived.
  bool lost_power() const { return lost_power_; }
  // What was found is right now, and so it is after the process is killed.
  IndexStatus Outlived();
  bool stamps() const { return shape_.stamps; }
  // Each has another number, one more than the one before.
  uint64_t opening() const;
  // The stamp of what is stored now; null: 0. Before anything is stored.
  void SetStamp(std::function<uint64_t()> stamp) { stamp_ = std::move(stamp); }
  uint64_t Stamp() const { return stamp_ ? stamp_() : 0; }
  // Nothing in it counts any more, the owner's words included. Before chunks are handed out.
  IndexStatus Begin();
  Word* owner() const { return reinterpret_cast<Word*>(mapped_ + kPage); }
  // Whether items that expire may be believed: the clock has not begun anew.
  bool same_boot() const { return same_boot_; }
  char* chunks() const { return mapped_ + chunks_at_; }
  size_t chunk_count() const { return shape_.chunks; }
  // Allocates the blocks of a chunk, of which an earlier cache may have left some, and a copy of its file fewer. False:
  // the file system is full.
  bool Allocate(uint32_t chunk);

  Chunk Read(uint32_t chunk) const;
  void OpenChunk(uint32_t chunk, State state, size_t partition, uint64_t order);
  void SetUsed(uint32_t chunk, uint32_t words);
  void FreeChunk(uint32_t chunk);
  uint64_t first_order() const { return shape_.stamps ? opening() << 32 : 1; }
  uint64_t OrderOf(uint32_t chunk) const { return LoadWord(Entry(chunk) + 1); }

  // What was stored before is on the disk when it returns: all of it, or header and owner's words. After one that has
  // failed, each fails, and nobody finds a file with stamps any more.
  enum class Part { kAll, kOwner };
  IndexStatus Sync(Part part);
  // Everything is on the disk, and stays good under another boot. Nothing in a child of the process that opened it.
  IndexStatus Close();

 private:
  struct Header;
  static constexpr size_t kPage = 4096;
  static constexpr size_t kFirstPages = kPage + kOwnerWords * sizeof(Word);

  CacheFile(std::string path, const Shape& shape) : path_(std::move(path)), shape_(shape) {}
  void Forsake();
  IndexStatus OpenAndLock();
  IndexStatus CheckWhatIsThere(uint64_t bytes) const;
  IndexStatus Map();
  bool IsUsable(const std::string& identity);
  IndexStatus Begin(uint64_t identity, uint64_t seed, uint64_t opening);
  uint64_t version() const;
  Header* header() const { return reinterpret_cast<Header*>(mapped_); }
  Word* Entry(uint32_t chunk) const;
  IndexStatus Error(const char* what) const;

  const std::string path_;
  const Shape shape_;
  ProcessLock lock_;
  int fd_ = -1;
  char* mapped_ = nullptr;
  size_t size_ = 0;
  size_t directory_at_ = 0;
  size_t chunks_at_ = 0;
  bool same_boot_ = true;
  bool found_ = false;
  std::atomic<bool> sync_failed_{false};
  bool lost_power_ = false;
  std::function<uint64_t()> stamp_;
};

}  // namespace cairn::cache
