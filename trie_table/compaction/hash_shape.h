// A HashShape is what the compaction scheduler knows of one trie: which files lie in which slot of which container. It
// mirrors the current Version of the column family, file by file, so that choosing a compaction costs nothing under the
// DB mutex.
//
// Thread-safety: none; the scheduler's mutex guards it.
// Source: LSM-trie (USENIX ATC 2015; section 4.2.3 of Wu's dissertation, UT Arlington 2018); its "sub-level" is a slot
// here.

#pragma once

#include <cstdint>
#include <map>
#include <unordered_map>
#include <utility>
#include <vector>

#include "cairn/trie.h"
#include "trie_table/compaction/trie_file.h"
#include "trie_table/compaction/trie_options.h"

namespace cairn {

// The files of one container, by slot. It is the unit of compaction: all of a container's files are merged together,
// and nothing else is.
//
// Invariants
//   (1) Every file of a container holds keys of its container only.
//   (2) Slots fill from the highest level number down, so a lower level number is newer.
//   (3) Children of one container gain slots together: a new slot lies above the newest of all of them.
struct Container {
  // By level, newest first. Files of one slot are disjoint but for level 0, where a higher number is newer.
  std::map<int, std::vector<TrieFile>> slots;
  uint64_t files = 0;
  uint64_t bytes = 0;
  uint64_t files_below = 0;  // in all containers under this one
  bool busy = false;         // a compaction of this container runs
  uint64_t version = 0;      // changes whenever the files do

  int occupied_slots() const { return static_cast<int>(slots.size()); }
};

class HashShape {
 public:
  explicit HashShape(const HashTrieOptions& trie, LastOfAll last = LastOfAll::kUsed)
      : trie_(trie), last_(last), map_(ContainerMapOf(trie)) {}

  const HashTrieOptions& trie() const { return trie_; }
  // The oldest slot of a depth. REQUIRES: depth >= 1.
  int LastLevel(int depth) const {
    return LastLevelOfDepth(trie_, depth) - (last_ == LastOfAll::kReserved && depth == trie_.depth ? 1 : 0);
  }
  const HashPrefixMap& map() const { return map_; }
  const std::map<ContainerId, Container>& containers() const { return containers_; }
  uint64_t bytes() const { return bytes_; }
  uint64_t files() const { return levels_.size() + spanning_files_.size(); }
  uint64_t version() const { return version_; }
  // The column family's level 0.
  const Container& root() const;

  // Files that break (1), with whether a compaction of theirs runs. They belong to no container, and a container is not
  // compacted while one of them lies in its way.
  const std::map<uint64_t, std::pair<TrieFile, bool>>& spanning_files() const { return spanning_files_; }
  void SetSpanningFileBusy(uint64_t number, bool busy);
  // Containers that a spanning file touches.
  static uint64_t PartsOf(const TrieFile& spanning_file) {
    return spanning_file.last_container - spanning_file.container + 1;
  }
  // Spanning files that touch the container `id` and whose level lies in first..last. REQUIRES: these are levels of
  // the depth of `id`, or of the next.
  std::vector<uint64_t> SpanningFilesIn(const ContainerId& id, int first, int last) const;
  // Those among the container's files, or below them at its depth: RocksDB would draw them into a compaction of it.
  std::vector<uint64_t> SpanningFilesInTheWay(const ContainerId& id) const;

  bool Contains(uint64_t number) const { return levels_.count(number) != 0 || spanning_files_.count(number) != 0; }
  // The level of a file; -1 when it is not here.
  int LevelOf(uint64_t number) const;
  std::vector<uint64_t> Numbers() const;  // of all files
  // Adding a file twice or removing one that is not there changes nothing.
  void Add(const TrieFile& file);
  void Remove(uint64_t number);

  // Null when it is not here, or spans containers. *id: its container's.
  const TrieFile* FileOf(uint64_t number, ContainerId* id) const;
  // Null when the container holds no file and nothing lies below it.
  const Container* Find(const ContainerId& id) const;
  void SetBusy(const ContainerId& id, bool busy);

  // The level that a compaction of `id` into the next depth may write, by (3): one above the newest file of all
  // children, and above files that span them. 0 when there is none: the fullest child has to be compacted first.
  int NextFreeLevel(const ContainerId& id) const;

  // Non-null children of `id`.
  std::vector<ContainerId> Children(const ContainerId& id) const;
  ContainerId ParentOf(const ContainerId& id) const { return {id.depth - 1, map_.Parent(id.container)}; }

 private:
  struct Place {
    ContainerId id;
    int level;
  };

  void CountBelow(const ContainerId& id, bool added);
  // Calls visit(file) for the spanning files of one level that touch the container.
  template <typename Visit>
  void VisitSpanningFiles(const ContainerId& id, int level, const Visit& visit) const;

  const HashTrieOptions trie_;
  const LastOfAll last_;
  const HashPrefixMap map_;
  std::map<ContainerId, Container> containers_;
  std::unordered_map<uint64_t, Place> levels_;  // by file number
  std::map<uint64_t, std::pair<TrieFile, bool>> spanning_files_;
  // Those of a level by their first container, which no two share: files of a level are disjoint.
  std::map<int, std::map<uint64_t, const TrieFile*>> spanning_files_by_level_;
  uint64_t bytes_ = 0;
  uint64_t version_ = 0;
};

}  // namespace cairn
