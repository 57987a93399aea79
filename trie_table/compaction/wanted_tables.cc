#include "trie_table/compaction/wanted_tables.h"

#include <iterator>

namespace cairn {

void WantedTables::Finished(const std::vector<uint64_t>& inputs, const std::vector<uint64_t>& outputs) {
  bool suggested = false;
  for (uint64_t number : inputs) {
    const auto found = named_.find(number);
    if (found == named_.end()) continue;
    suggested |= found->second == Why::kSuggested;
    named_.erase(found);
  }
  for (uint64_t number : outputs) {
    if (suggested) Suggest(number);
  }
}

void WantedTables::Visit(const std::function<bool(uint64_t, Why)>& visit) {
  for (auto it = named_.begin(); it != named_.end();) {
    it = visit(it->first, it->second) ? std::next(it) : named_.erase(it);
  }
  for (auto it = blobs_.begin(); it != blobs_.end();) it = visit(*it, Why::kBlobs) ? std::next(it) : blobs_.erase(it);
  for (uint64_t number : to_rewrite_) visit(number, Why::kPeriodic);
  for (uint64_t number : to_push_) visit(number, Why::kTtl);
}

}  // namespace cairn
