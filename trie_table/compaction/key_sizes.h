// What is large and what is small in a trie in key order: KeyPicker's measures, which follow from its live bytes.
//
// Thread-safety: values, and functions of their arguments.

#pragma once

#include <cstdint>

#include "cairn/trie.h"

namespace cairn {

// At how many files a root is due in a trie of so many live bytes, and so much garbage: root_trigger, but no more than
// two ninths of the garbage that the bound allows, or three fifths of what it allows beyond the garbage that there is,
// because that must have room for what a compaction of the root writes. file_bytes: of a file.
int RootFilesFor(const KeyTrieOptions& trie, uint64_t live_bytes, uint64_t garbage_bytes, uint64_t file_bytes);

struct KeySizes {
  KeySizes(const KeyTrieOptions& trie, uint64_t write_buffer_bytes, int root_files);

  int root_files = 0;        // at which it is due
  uint64_t unit = 0;         // a full root, and a full container
  uint64_t table = 0;        // a table that compactions write: a fan_out-th of that
  uint64_t least = 0;        // ... at least, where containers below end
  uint64_t most = 0;         // ... at most
  uint64_t joined = 0;       // containers that one new table may join to one
  uint64_t largest_job = 0;  // input of a compaction
};

}  // namespace cairn
