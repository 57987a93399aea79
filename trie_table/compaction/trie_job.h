// What a picker chooses and the scheduler carries out: one compaction of a trie.

#pragma once

#include <cstdint>
#include <memory>
#include <vector>

#include "rocksdb/listener.h"
#include "rocksdb/options.h"
#include "trie_table/compaction/key_cuts.h"
#include "trie_table/compaction/key_shape.h"
#include "trie_table/compaction/table_moves.h"
#include "trie_table/compaction/trie_file.h"
#include "trie_table/compaction/wanted_tables.h"

namespace cairn {

// Of a manual compaction: as in CompactRangeOptions.
struct BlobCollection {
  rocksdb::BlobGarbageCollectionPolicy policy = rocksdb::BlobGarbageCollectionPolicy::kUseDefault;
  double age_cutoff = -1;
};

struct TrieJob {
  enum class Kind { kRoot, kPush, kMerge, kSplit, kMove, kDrop };
  static constexpr int kKinds = 6;
  Kind kind = Kind::kRoot;
  ContainerId id;
  std::vector<uint64_t> inputs;  // file numbers, newest first
  int output_level = 0;
  uint64_t input_bytes = 0;
  uint64_t expected_bytes = 0;  // of output; input_bytes when unknown
  uint64_t folded_bytes = 0;    // of merge operands, of which expected_bytes counts operand_share
  double operand_share = 0;
  bool for_space = false;                              // chosen to free space
  bool for_scans = false;                              // chosen because its tables are scanned
  bool wanted = false;                                 // chosen because of WantedTables alone
  WantedTables::Why why = WantedTables::Why::kMarked;  // ... and what they are wanted for
  bool manual = false;
  BlobCollection blobs;  // of a manual one
  double score = 0;
  // Of a trie in key order:
  uint64_t number = 0;              // of the plan's
  std::vector<KeyShape::Run> runs;  // what it touches
  std::shared_ptr<const KeyCuts> cuts;
  std::vector<TableMove> moves;  // kMove, kDrop: of the inputs

  bool for_age() const { return wanted && (why == WantedTables::Why::kTtl || why == WantedTables::Why::kPeriodic); }
  bool writes() const { return kind != Kind::kMove && kind != Kind::kDrop; }
};

// What a manual compaction comes to next. kWait: what is left is being compacted; ask again later.
enum class ManualStep { kDone, kJob, kWait };

// Containers that are due.
struct DueContainers {
  uint64_t containers = 0;
  uint64_t bytes = 0;
};

inline rocksdb::CompactionReason ReasonOf(WantedTables::Why why) {
  using rocksdb::CompactionReason;
  switch (why) {
    case WantedTables::Why::kBlobs:
      return CompactionReason::kForcedBlobGC;
    case WantedTables::Why::kTtl:
      return CompactionReason::kTtl;
    case WantedTables::Why::kPeriodic:
      return CompactionReason::kPeriodicCompaction;
    default:
      return CompactionReason::kFilesMarkedForCompaction;
  }
}

// For what RocksDB reports: the reason of its own that comes closest. Not kLevelMaxLevelSize: for that RocksDB keeps a
// cursor by its own pickers' lists, which a trie has not, if compaction_pri is kRoundRobin.
inline rocksdb::CompactionReason ReasonOf(const TrieJob& job) {
  using rocksdb::CompactionReason;
  if (job.manual) return CompactionReason::kManualCompaction;
  if (job.wanted) return ReasonOf(job.why);
  if (job.for_space) return CompactionReason::kUniversalSizeAmplification;
  const bool root = job.kind == TrieJob::Kind::kRoot && !job.for_scans;
  return root ? CompactionReason::kLevelL0FilesNum : CompactionReason::kUniversalSortedRunNum;
}

// As reports and the model name them.
inline const char* NameOf(TrieJob::Kind kind) {
  switch (kind) {
    case TrieJob::Kind::kRoot:
      return "root";
    case TrieJob::Kind::kPush:
      return "push";
    case TrieJob::Kind::kMerge:
      return "merge";
    case TrieJob::Kind::kSplit:
      return "split";
    case TrieJob::Kind::kMove:
      return "move";
    case TrieJob::Kind::kDrop:
      return "drop";
  }
  return "";
}

}  // namespace cairn
