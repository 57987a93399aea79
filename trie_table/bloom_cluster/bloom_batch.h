// Answers the questions of a MultiGet to filters that are not in memory: the pages that have the answers are read
// together, each once.
//
// Thread-safety: any number of threads.

#pragma once

#include <vector>

#include "rocksdb/file_system.h"
#include "rocksdb/options.h"
#include "trie_table/bloom_cluster/bloom_block.h"

namespace cairn {

// Answers what can be answered, in an order of its own; a page that cannot be read or is damaged is counted and answers
// nothing, nor does one that kBlockCacheTier forbids to read. Pages of one file are read by one MultiRead; those of
// several files at the same time, if `async_reads` is not null: it must be able to (CanReadTogether).
void AskTogether(const rocksdb::ReadOptions& read_options, FilterResidency residency, rocksdb::FileSystem* async_reads,
                 std::vector<FilterQuestion>* questions);

}  // namespace cairn
