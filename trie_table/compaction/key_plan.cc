// The plan of a trie in key order: KeyPlan groups tables into containers by their keys (key_shape.h) and leaves the
// choice of the next compaction to KeyPicker (key_picker.h).

#include <algorithm>
#include <cstdint>
#include <memory>
#include <optional>
#include <utility>
#include <vector>

#include "trie_table/compaction/key_picker.h"
#include "trie_table/compaction/key_shape.h"
#include "trie_table/compaction/trie_plan.h"
#include "util/rocksdb_names.h"

namespace cairn {

namespace {

// From depth to depth. What is there when it comes to a depth moves on; what arrives later is not waited for.
class ManualKeyPlan final : public ManualPlan {
 public:
  ManualKeyPlan(const TriePlan* plan, KeyPicker* picker, std::optional<KeyRange> range, uint64_t rewritten)
      : plan_(*plan), picker_(picker), range_(std::move(range)), rewritten_(rewritten), newest_(NewestFile(*plan)) {}

  ManualStep Pick(TrieJob* job) override {
    while (depth_ <= plan_.trie().depth) {
      const KeyRange* const range = range_.has_value() ? &*range_ : nullptr;
      const ManualStep step = picker_->PickManual(depth_, range, newest_, job, rewritten_);
      if (step != ManualStep::kDone) return step;
      ++depth_;
      newest_ = NewestFile(plan_);
    }
    return ManualStep::kDone;
  }

  // What a table was cut into did not arrive later.
  void Done(const TrieJob& job) override {
    if (job.kind == TrieJob::Kind::kSplit) newest_ = NewestFile(plan_);
  }

 private:
  const TriePlan& plan_;
  KeyPicker* const picker_;
  const std::optional<KeyRange> range_;  // none: all
  const uint64_t rewritten_;             // tables of numbers up to this are written anew, whatever is in them
  int depth_ = 0;
  uint64_t newest_;  // table when it came to depth_
};

class KeyPlan final : public PlanOn<KeyShape, KeyPicker> {
 public:
  KeyPlan(const KeyTrieOptions& trie, const PlannedFamily& family)
      : PlanOn(std::tie(trie, family.comparator, family.last), SlackOf(family.write_buffer_bytes),
               family.write_buffer_bytes, KeyPicker::Moves::kMove),
        name_(family.name) {
    if (WatchesScans() && !family.session_id.empty()) picker_.scans()->SetCounts(ScanCounts::Of(family.session_id));
  }

  uint64_t RootFiles() const override {
    return shape_.ContainersAt(0).empty() ? 0 : shape_.ContainersAt(0).front().files.size();
  }

  std::vector<uint64_t> NumbersIn(const rocksdb::Slice* begin, const rocksdb::Slice* end) const override {
    std::vector<uint64_t> numbers = Numbers();
    const std::optional<KeyRange> range = RangeOf(begin, end);
    if (range.has_value()) {
      numbers.erase(std::remove_if(numbers.begin(), numbers.end(),
                                   [&](uint64_t number) {
                                     return !shape_.Overlap(*range, KeyShape::RangeOf(*shape_.Find(number)));
                                   }),
                    numbers.end());
    }
    return numbers;
  }

  void Begin(TrieJob* job) override {
    job->number = next_job_++;
    shape_.Begin(job->number, job->runs, job->inputs);
    picker_.Started(*job);
  }

  void End(const TrieJob& job, bool ok, uint64_t output_bytes, uint64_t oldest_snapshot) override {
    shape_.End(job.number);
    picker_.Finished(job, ok, output_bytes, oldest_snapshot);
  }

  void Flushed(uint64_t bytes) override { picker_.scans()->Flushed(bytes); }
  bool WatchesScans() const override { return trie().scan_merge > 0; }
  bool HasScanNews() const override { return picker_.HasScanNews(); }
  // NotSupported for a container or a depth, which have no numbers that stay.
  Status PlanManual(const TrieCompactOptions& options, const rocksdb::Slice* begin, const rocksdb::Slice* end,
                    std::unique_ptr<ManualPlan>* manual) override {
    if (options.depth >= 0 || !options.container.empty()) {
      return Status::NotSupported("compaction of one container or depth of " + name_,
                                  "its containers have no numbers: name a range of keys (CompactRange)");
    }
    const uint64_t rewritten = options.rewrite ? NewestFile(*this) : 0;
    *manual = std::make_unique<ManualKeyPlan>(this, &picker_, RangeOf(begin, end), rewritten);
    return Status::OK();
  }

 private:
  void Place(TrieFile file) override { shape_.Add(file); }
  // None: all keys.
  std::optional<KeyRange> RangeOf(const rocksdb::Slice* begin, const rocksdb::Slice* end) const {
    KeyRange range;
    if ((begin == nullptr && end == nullptr) || !shape_.WholeRange(&range)) return std::nullopt;
    if (begin != nullptr) range.first = begin->ToString();
    if (end != nullptr) {
      range.last = end->ToString();
      range.last_excluded = false;
    }
    return range;
  }

  void FillDepths(const TrieSpace& space, TrieStats* stats) const override {
    for (int number = 0; number <= trie().depth; ++number) {
      const std::vector<KeyContainer>& containers = shape_.ContainersAt(number);
      for (size_t i = 0; i < containers.size(); ++i) {
        TrieDepthStats& depth = DepthOf(number, stats);
        AddContainer(containers[i].files.size(), containers[i].slots, containers[i].bytes, &depth);
        const auto found = space.containers.find({number, i});
        if (found != space.containers.end()) depth.live_bytes += found->second.live;
      }
    }
  }

  int RootDueFiles() const override { return picker_.sizes().root_files; }

  const std::string name_;
  uint64_t next_job_ = 1;
};

}  // namespace

std::unique_ptr<TriePlan> NewKeyPlan(const KeyTrieOptions& trie, const PlannedFamily& family) {
  return std::make_unique<KeyPlan>(trie, family);
}

}  // namespace cairn
