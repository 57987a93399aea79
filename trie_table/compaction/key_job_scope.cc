#include "trie_table/compaction/key_job_scope.h"

#include <string>
#include <utility>
#include <vector>

namespace cairn {

namespace {
thread_local KeyJobScope* current = nullptr;
}  // namespace

KeyJobScope::KeyJobScope(const rocksdb::Comparator* comparator, std::shared_ptr<const KeyCuts> cuts)
    : comparator_(comparator),
      cuts_(std::move(cuts)),
      deletion_cuts_(cuts_ == nullptr ? std::vector<std::string>() : cuts_->DeletionCuts()),
      outer_(current) {
  current = this;
}

KeyJobScope::~KeyJobScope() { current = outer_; }

bool KeyJobScope::IsOpen() { return current != nullptr; }

std::unique_ptr<KeyCutter> KeyJobScope::NewCutter() {
  if (current == nullptr || current->cuts_ == nullptr) return nullptr;
  return std::make_unique<KeyCutter>(current->comparator_, current->cuts_);
}

}  // namespace cairn
