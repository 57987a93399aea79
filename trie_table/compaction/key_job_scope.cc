#include "trie_table/compaction/key_job_scope.h"

#include <string>
#include <vector>

namespace cairn {

namespace {
thread_local KeyJobScope* current = nullptr;
}  // namespace

KeyJobScope::KeyJobScope(rocksdb::DBImpl* db, const rocksdb::Comparator* comparator, const TrieJob& job)
    : db_(db),
      comparator_(comparator),
      job_(job),
      deletion_cuts_(job.cuts == nullptr ? std::vector<std::string>() : job.cuts->DeletionCuts()),
      outer_(current) {
  current = this;
}

KeyJobScope::~KeyJobScope() { current = outer_; }

KeyJobScope* KeyJobScope::Current() { return current; }

std::unique_ptr<KeyCutter> KeyJobScope::NewCutter() {
  if (current == nullptr || current->job_.cuts == nullptr) return nullptr;
  return std::make_unique<KeyCutter>(current->comparator_, current->job_.cuts);
}

}  // namespace cairn
