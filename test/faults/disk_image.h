// What a disk holds after a loss of power: the record of what a process did to a folder (system_calls.h), played up to
// some event, of which what was not synced may be lost.
//
// What may be lost
//   data      of a file, written since its last sync. What was appended is there up to some byte. Of what was written
//             over, each sector (512 bytes) is as it was at some moment since, and of a mapped file each word: it may
//             lie on persistent memory.
//   names     made, changed or removed since the last sync of their folder: the first few of them are there.
// After a sync that failed, the system holds a file's pages for clean: they are lost unless they are written again.
//
// Thread-safety: none.

#pragma once

#include <cstdint>
#include <map>
#include <set>
#include <string>
#include <vector>

#include "test/faults/system_calls.h"

namespace cairn::faults {

enum class Loss {
  kNone,  // the process was killed, or the system had written everything
  kAll,   // everything that may be lost
  kSome,  // some of it, by the seed
};

class DiskImage {
 public:
  DiskImage();
  void Play(const Event& event);
  // Makes `folder` hold what is left, and nothing else. What went wrong, or nothing.
  std::string Write(const std::string& folder, Loss loss, uint64_t seed) const;

 private:
  struct Change {
    uint64_t size = 0;
    std::vector<Chunk> chunks;
  };
  struct File {
    bool folder = false;
    bool mapped = false;
    std::string now;
    std::string durable;
    std::vector<Change> changes;  // since the last sync
    std::set<uint64_t> lost;      // pages that a failed sync has forgotten
    // Of a folder.
    std::map<std::string, int> names;
    std::map<std::string, int> durable_names;
    std::vector<Event> name_changes;  // since the last sync; path and other are names
  };

  File* Find(int file) { return &files_[file]; }
  int Resolve(const std::string& path) const;  // -1: it is not there
  int ParentOf(const std::string& path, std::string* name) const;
  void ChangeNames(const Event& event);
  static void Apply(const Event& change, std::map<std::string, int>* names);
  void PlayData(const Event& event);
  static void PlaySync(File* file);
  static void PlaySyncOfRange(uint64_t from, uint64_t bytes, File* file);
  std::string BytesLeft(const File& file, Loss loss, uint64_t seed) const;
  std::string WriteFolder(const std::string& path, const File& folder, Loss loss, uint64_t seed) const;

  std::map<int, File> files_;
};

}  // namespace cairn::faults
