// Which state of a database's folder this is, told by the file system: which MANIFEST is the current one, and that it
// is the same file with the same beginning. Whoever opens a database to write begins another MANIFEST (or, RocksDB 11
// with reuse_manifest_on_open, at least writes another OPTIONS file); whoever copies or restores one makes other files.
//
// Stateless; thread-safe.

#pragma once

#include <cstddef>
#include <cstdint>
#include <string>

namespace cairn {

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

}  // namespace cairn
