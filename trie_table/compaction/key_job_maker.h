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

#include "trie_table/compaction/key_shape.h"
#include "trie_table/compaction/key_sizes.h"
#include "trie_table/compaction/trie_job.h"

namespace cairn {

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
  std::vector<const TrieFile*> OldestFiles(const KeyContainer& container) const;
  std::vector<const TrieFile*> WithAllBelow(const TrieFile& file) const;
  KeyRange RangeOf(const std::vector<const TrieFile*>& files) const;

  const KeyShape* const shape_;
  const KeySizes* const sizes_;
  std::set<uint64_t> whole_;  // files that are what a split has left: all it came to
};

}  // namespace cairn
