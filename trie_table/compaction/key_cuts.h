// Where the output of a compaction of a trie in key order is cut into tables.
//
// Containers of a key-ordered trie are what lies between the gaps in the keys of its tables (key_shape.h), so a cut
// decides what the containers below become. A table that reaches from one of them into the next makes them one.
//
// Thread-safety: KeyCuts are immutable once shared; a KeyCutter serves one compaction.

#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "rocksdb/comparator.h"
#include "rocksdb/slice.h"

namespace cairn {

struct KeyCuts {
  // A container at the depth that is written to, or, where there is none, at the next one that holds any.
  struct Below {
    std::string smallest, largest;
    uint64_t bytes;  // 0: tables may join any number of them
  };
  std::vector<Below> below;  // in key order, none overlaps another

  // A table ends before the next container below once it has `least_bytes` (`least_free_bytes` if none of its keys lies
  // within one), or where it would join containers of more than `joined_bytes`; between containers once it has
  // `table_bytes`; anywhere once it has `most_bytes`. A table that lies between containers can be moved, unwritten.
  uint64_t least_free_bytes = 0;
  // A table of least_free_bytes also ends where two neighbours have two bytes less in common than any two before: there
  // one stream of keys ends and another begins, and what is appended to the first will lie between the tables.
  uint64_t least_bytes = 0;
  uint64_t table_bytes = 0;
  uint64_t most_bytes = 0;
  uint64_t joined_bytes = 0;

  // Where range deletions are taken apart, so that a table that holds nothing else can end there: first keys of
  // containers below that are more than half of joined_bytes apart.
  std::vector<std::string> DeletionCuts() const;
};

class KeyCutter {
 public:
  KeyCutter(const rocksdb::Comparator* comparator, std::shared_ptr<const KeyCuts> cuts)
      : comparator_(comparator), cuts_(std::move(cuts)) {}

  // Whether a table of `bytes` so far, whose last key is `previous`, ends before `current`. Never within one user key.
  // REQUIRES: called for each key but the first, in order.
  bool CutBefore(const rocksdb::Slice& previous, const rocksdb::Slice& current, uint64_t bytes);

 private:
  bool IsWithin(const rocksdb::Slice& key) const;
  uint64_t EnterUpTo(const rocksdb::Slice& key);

  const rocksdb::Comparator* const comparator_;
  const std::shared_ptr<const KeyCuts> cuts_;
  size_t entered_ = 0;              // containers below whose smallest key has been reached
  uint64_t joined_ = 0;             // bytes of those that the table touches
  bool touches_ = false;            // it has keys on both sides of a container's smallest key, or within one
  size_t least_common_ = SIZE_MAX;  // first bytes that any two neighbours of the table have in common
  bool begun_ = false;
};

}  // namespace cairn
