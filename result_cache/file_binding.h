// What the file of a database's result cache says of the database, in the words that the file keeps for its owner
// (docs/design/result_cache.md, Bytes of the file and P7 to P11).
//
// Invariants
//   (1) Whatever the cache answers was written by writes that had been noted before: NoteWrite comes before Unbar.
//   (2) A family's space is gone from here before its answers may become wrong as a whole, and here before it is used.
//   (3) No damaged bit makes a binding, a space or the word `sure` right.
//   (4) The binding is renewed only by an opening that has found what the file holds right, or has emptied it.
//   (5) A point is there after everything that it speaks of (docs/design/result_cache.md, P11).
//
// Thread-safety: NoteWrite and Doubt may be called by all threads at any time, the others by one at a time.

#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <string>
#include <utility>

#include "result_cache/cache_file.h"
#include "result_cache/wal_report.h"
#include "util/mutex.h"

namespace cairn {

// Which state of a database's folder this is, told by the file system: which MANIFEST is the current one, and that it
// is the same file with the same beginning. Whoever opens a database to write begins another MANIFEST (or, RocksDB 11
// with reuse_manifest_on_open, at least writes another OPTIONS file); whoever copies or restores one makes other files.
struct DatabaseMark {
  uint64_t database = 0;  // hash of the IDENTITY file; 0: there is none
  uint64_t manifest = 0;  // its number; 0: nothing is known, and nothing is like it
  uint64_t inode = 0;
  uint64_t birth = 0;    // when the file was made, in nanoseconds; 0: the file system does not say
  uint64_t handle = 0;   // hash of the file's handle, which tells generations of an inode apart; 0: there is none
  uint64_t options = 0;  // number of the newest OPTIONS file
  uint64_t bytes = 0;    // of the MANIFEST
  uint64_t prefix_bytes = 0;
  uint64_t prefix = 0;  // hash of so many bytes of its beginning

  static constexpr size_t kWords = 9;

  // Of a folder that nobody changes, or that is this process's own. `prefix_bytes`: of what to take the hash, at most.
  static DatabaseMark Of(const std::string& path, uint64_t prefix_bytes);

  // Whether a folder that was like `recorded` once may have become like this one without anybody else.
  bool Continues(const DatabaseMark& recorded) const;
};

// Tells an open file from copies of it, and from what has its number later. 0: the file system does not say.
uint64_t MarkOfFile(int fd);

class FileBinding {
 public:
  static constexpr uint32_t kNoSpace = UINT32_MAX;

  // `path`: of the database.
  FileBinding(cache::CacheFile* file, std::string path);

  // While it is opened: nobody else can open it any more, and its files are still those that were found.
  void LookAtFound();
  // Empty: what the file holds is what the database, which has been opened meanwhile, would answer. Else why not.
  std::string WhyNot(const WalReport& report) const;

  // Nothing in the file counts any more. False: the file is not to be used.
  bool Begin();
  // From now on the file is that of this opening. Spaces are as they are to be.
  void Bind(const WalReport& report);

  // A moment after which a loss of power leaves what can be told apart (P11): all writes up to that sequence number are
  // on the disk, later ones in this WAL or those behind it.
  struct Point {
    uint64_t sequence = 0;
    uint64_t wal = 0;
    bool wal_has_writes = false;
  };
  // What was found, of a file that has lost power; a sequence of WalReport::kNobodyAsks: none.
  const Point& found_point() const { return found_point_; }
  // Now: it is what has come to the disk when this returns, if that can be done. By one thread at a time.
  void NotePoint(const Point& point);
  bool stamps() const { return file_->stamps(); }
  bool lost_power() const { return file_->lost_power(); }
  void SetStamp(std::function<uint64_t()> stamp) { file_->SetStamp(std::move(stamp)); }
  // Everything that was taken out of the file before stays out of it. False: nobody will find the file any more.
  bool Settle(cache::CacheFile::Part part) { return file_->Sync(part).ok(); }
  // Files of the database have come to be in a way that the WAL does not know. Only while this process has it open;
  // nothing before Bind or while it is closed.
  void Refresh();
  // The same for the last time, while the database is still locked; unless it goes on.
  void BeginClose();
  void CancelClose();

  // Of the family in the file; kNoSpace: it has none, or had other options.
  uint32_t SpaceOf(uint32_t family, uint64_t options) const;
  void SetSpace(uint32_t family, uint32_t space, uint64_t options);
  void DropSpace(uint32_t family);
  // Of families that are not in `kept`, by calls of kept(family).
  template <class Kept>
  void DropOthers(const Kept& kept) {
    for (uint32_t i = 0; i < kSpaces; ++i) {
      if (FamilyAt(i) != kNoFamily && !kept(FamilyAt(i))) ClearSpaceAt(i);
    }
  }

  // A write that can be read, and is in that WAL. 0: in none, as far as anybody knows.
  void NoteWrite(uint64_t wal, uint64_t sequence) {
    cache::Word* const entry = current_.load(std::memory_order_acquire);
    if (wal == 0) {
      Doubt();
    } else {
      Raise((entry != nullptr && cache::LoadWord(entry) == wal ? entry : EntryOf(wal)) + 1, sequence);
    }
  }
  // Something was written that may be gone when the database is opened next, and nobody will be able to tell.
  void Doubt() {
    if (cache::LoadWord(sure()) == 0) return;
    cache::StoreWord(sure(), 0);
    if (file_->stamps()) Settle(cache::CacheFile::Part::kOwner);
  }

 private:
  static constexpr uint32_t kSpaces = 128;
  static constexpr uint32_t kWals = 128;
  static constexpr uint32_t kNoFamily = UINT32_MAX;
  static constexpr size_t kOwnFileAt = DatabaseMark::kWords;
  static constexpr size_t kChecksumAt = kOwnFileAt + 1;
  static constexpr size_t kSureAt = kChecksumAt + 1;
  static constexpr size_t kForgottenAt = kSureAt + 1;
  static constexpr size_t kSpacesAt = 16;
  static constexpr size_t kWalsAt = kSpacesAt + 2 * kSpaces;
  static_assert(kForgottenAt < kSpacesAt);
  static constexpr size_t kPointsAt = kWalsAt + 2 * kWals;
  static constexpr size_t kPointWords = 64;  // in sectors of their own
  static_assert(kPointsAt + 2 * kPointWords <= cache::CacheFile::kOwnerWords);

  cache::Word* words() const { return file_->owner(); }
  cache::Word* sure() const { return words() + kSureAt; }
  cache::Word* SpaceAt(uint32_t i) const { return words() + kSpacesAt + 2 * size_t{i}; }
  cache::Word* WalAt(uint32_t i) const { return words() + kWalsAt + 2 * size_t{i}; }
  cache::Word* PointAt(size_t i) const { return words() + kPointsAt + i * kPointWords; }
  Point FoundPoint() const;
  std::string WhyNotAfterLossOfPower(const WalReport& report) const;
  uint32_t FamilyAt(uint32_t i) const;  // kNoFamily: free
  void ClearSpaceAt(uint32_t i);
  static cache::Word SpaceChecksum(cache::Word word, uint64_t options);
  DatabaseMark Recorded(bool* right) const;
  void Record(const DatabaseMark& mark);
  void RefreshLocked() CAIRN_REQUIRES(mutex_);
  static void Raise(cache::Word* word, uint64_t least);
  cache::Word* EntryOf(uint64_t wal);

  cache::CacheFile* const file_;
  const std::string path_;
  bool recorded_right_ = false;
  DatabaseMark recorded_;
  DatabaseMark before_;  // of the database, as it was found
  Point found_point_;
  size_t next_point_ = 0;
  CheckedMutex mutex_;  // who changes the binding or the table of WALs
  bool is_bound_ CAIRN_GUARDED_BY(mutex_) = false;
  bool is_closing_ CAIRN_GUARDED_BY(mutex_) = false;
  DatabaseMark bound_ CAIRN_GUARDED_BY(mutex_);
  std::atomic<cache::Word*> current_{nullptr};  // of the WAL that is written
};

}  // namespace cairn
