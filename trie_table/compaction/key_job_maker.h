// Makes the compaction of a container of a trie in key order: which of its tables, to which level, and where its output
// is cut.
//
// With anything below it, a container is pushed to the next depth that holds keys of its range, or to a free depth
// above that where the containers there would be too many for it (DepthFor). With nothing below, it is merged at the
// deepest depth, where it splits into tables that no longer lie over one another.
//
// No compaction reads more than KeySizes::largest_job, unless a single table is larger.
//
// Thread-safety: none; the scheduler's mutex guards it.

#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <set>
#include <vector>

#include "cairn/trie.h"
#include "trie_table/compaction/key_shape.h"
#include "trie_table/compaction/trie_job.h"

namespace cairn {

// At how many files a root is due in a trie of so many live bytes, and so much garbage: root_trigger, but no more than
// two ninths of the garbage that the bound allows, or three fifths of what it allows beyond the garbage that there is,
// because that must have room for what a compaction of the root writes. file_bytes: of a file.
int RootFilesFor(const KeyTrieOptions& trie, uint64_t live_bytes, uint64_t garbage_bytes, uint64_t file_bytes);

// What is large and what is small in a trie in key order: KeyPicker's measures, which follow from its live bytes.
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

class KeyJobMaker {
 public:
  // kConflict: with a compaction that runs. kNoLevel: there is no free level below; what is InTheWay has to move first.
  enum class Made { kJob, kConflict, kNoLevel };

  // Both must outlive it.
  KeyJobMaker(const KeyShape* shape, const KeySizes* sizes) : shape_(shape), sizes_(sizes) {}

  Made MakeJob(const KeyContainer& container, TrieJob* job) const;
  // A job of the container, or of what is in its way, which may have no other reason to be written.
  bool MakeJobOrWay(const KeyContainer& container, TrieJob* job) const;
  Made MakeScanMerge(const KeyContainer& container, TrieJob* job) const;
  std::vector<size_t> InTheWay(const KeyContainer& container) const;

  // To be called after each compaction.
  void Finished(const TrieJob& job, bool ok);

 private:
  Made MakePush(const KeyContainer& container, TrieJob* job) const;
  Made MakeMerge(const KeyContainer& container, TrieJob* job) const;
  bool CanSplit(const TrieFile& file) const;
  Made MakeSplit(const TrieFile& file, int level, TrieJob* job) const;
  Made Fill(const KeyContainer& container, std::vector<const TrieFile*> files, int output_level, TrieJob* job) const;
  int DepthFor(int depth, int next, const KeyRange& range) const;
  std::shared_ptr<const KeyCuts> CutsAt(int depth, const KeyRange& range, bool joins) const;
  std::vector<const TrieFile*> FirstWritten(const std::vector<const TrieFile*>& slot) const;
  std::vector<const TrieFile*> OldestFiles(const KeyContainer& container) const;
  std::vector<const TrieFile*> WithAllBelow(const TrieFile& file) const;
  KeyRange RangeOf(const std::vector<const TrieFile*>& files) const;

  const KeyShape* const shape_;
  const KeySizes* const sizes_;
  std::set<uint64_t> whole_;  // files that are what a split has left: all it came to
};

}  // namespace cairn
