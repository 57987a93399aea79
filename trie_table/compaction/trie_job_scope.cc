#include "trie_table/compaction/trie_job_scope.h"

#include <string>
#include <vector>

namespace cairn {

namespace {
thread_local TrieJobScope* current = nullptr;
}  // namespace

TrieJobScope::TrieJobScope(rocksdb::DBImpl* db, const rocksdb::Comparator* comparator, const TrieJob& job)
    : db_(db),
      comparator_(comparator),
      job_(job),
      deletion_cuts_(job.cuts == nullptr ? std::vector<std::string>() : job.cuts->DeletionCuts()),
      outer_(current) {
  current = this;
}

TrieJobScope::~TrieJobScope() { current = outer_; }

TrieJobScope* TrieJobScope::Current() { return current; }

std::unique_ptr<KeyCutter> TrieJobScope::NewCutter() {
  if (current == nullptr || current->job_.cuts == nullptr) return nullptr;
  return std::make_unique<KeyCutter>(current->comparator_, current->job_.cuts);
}

}  // namespace cairn
