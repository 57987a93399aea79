// Tables of a trie that are to be compacted whatever their container's size: a table properties collector has marked
// them, SuggestCompactRange has named them, too much of the blob files that they refer to is garbage, or they are old.
//
// Thread-safety: none; the scheduler's mutex guards it.

#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <set>
#include <utility>
#include <vector>

namespace cairn {

class WantedTables {
 public:
  enum class Why {
    kMarked,     // what it is written into is marked again if it needs to be
    kSuggested,  // what it is written into is wanted as well
    kBlobs,      // it is to be written again where it lies
    kTtl,        // it is to come down until nothing older lies below it
    kPeriodic,   // as kBlobs
  };
  static bool Rewrites(Why why) { return why == Why::kBlobs || why == Why::kPeriodic; }

  void Mark(uint64_t number) { named_.emplace(number, Why::kMarked); }
  void Suggest(uint64_t number) { named_[number] = Why::kSuggested; }
  // Instead of those before.
  void SetBlobGarbage(const std::vector<uint64_t>& numbers) { blobs_ = {numbers.begin(), numbers.end()}; }
  void SetOld(std::vector<uint64_t> to_push, std::vector<uint64_t> to_rewrite) {
    to_push_ = std::move(to_push);
    to_rewrite_ = std::move(to_rewrite);
  }

  // To be called when a compaction has written `outputs`. Until then its inputs may be gone already.
  void Finished(const std::vector<uint64_t>& inputs, const std::vector<uint64_t>& outputs);

  // Calls visit(number, why) for each, also those that are gone. False: it is wanted no more.
  void Visit(const std::function<bool(uint64_t, Why)>& visit);

 private:
  std::map<uint64_t, Why> named_;
  std::set<uint64_t> blobs_;
  std::vector<uint64_t> to_push_, to_rewrite_;  // because they are old
};

}  // namespace cairn
