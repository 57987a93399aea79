#include "table/deletion_cuts.h"

#include <utility>

namespace cairn {

namespace {
thread_local const DeletionCutsScope* current = nullptr;
}  // namespace

DeletionCutsScope::DeletionCutsScope(std::vector<std::string> cuts) : cuts_(std::move(cuts)), outer_(current) {
  current = this;
}

DeletionCutsScope::~DeletionCutsScope() { current = outer_; }

const std::vector<std::string>* DeletionCutsScope::Current() {
  return current == nullptr || current->cuts_.empty() ? nullptr : &current->cuts_;
}

}  // namespace cairn
