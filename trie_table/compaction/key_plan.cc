#include "trie_table/compaction/key_plan.h"

#include <algorithm>
#include <optional>
#include <utility>
#include <vector>

namespace cairn {

using rocksdb::Status;

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

}  // namespace

KeyPlan::KeyPlan(const KeyTrieOptions& trie, const PlannedFamily& family)
    : PlanOn(std::tie(trie, family.comparator, family.last), SlackOf(family.write_buffer_bytes),
             family.write_buffer_bytes, KeyPicker::Moves::kMove),
      name_(family.name) {
  if (WatchesScans() && !family.session_id.empty()) picker_.scans()->SetCounts(ScanCounts::Of(family.session_id));
}

uint64_t KeyPlan::RootFiles() const {
  return shape_.ContainersAt(0).empty() ? 0 : shape_.ContainersAt(0).front().files.size();
}

void KeyPlan::Begin(TrieJob* job) {
  job->number = next_job_++;
  shape_.Begin(job->number, job->runs, job->inputs);
  picker_.Started(*job);
}

void KeyPlan::End(const TrieJob& job, bool ok, uint64_t output_bytes, uint64_t oldest_snapshot) {
  shape_.End(job.number);
  picker_.Finished(job, ok, output_bytes, oldest_snapshot);
}

Status KeyPlan::PlanManual(const TrieCompactOptions& options, const rocksdb::Slice* begin, const rocksdb::Slice* end,
                           std::unique_ptr<ManualPlan>* manual) {
  if (options.depth >= 0 || !options.container.empty()) {
    return Status::NotSupported("compaction of one container or depth of " + name_,
                                "its containers have no numbers: name a range of keys (CompactRange)");
  }
  const uint64_t rewritten = options.rewrite ? NewestFile(*this) : 0;
  *manual = std::make_unique<ManualKeyPlan>(this, &picker_, RangeOf(begin, end), rewritten);
  return Status::OK();
}

std::optional<KeyRange> KeyPlan::RangeOf(const rocksdb::Slice* begin, const rocksdb::Slice* end) const {
  KeyRange range;
  if ((begin == nullptr && end == nullptr) || !shape_.WholeRange(&range)) return std::nullopt;
  if (begin != nullptr) range.first = begin->ToString();
  if (end != nullptr) {
    range.last = end->ToString();
    range.last_excluded = false;
  }
  return range;
}

std::vector<uint64_t> KeyPlan::NumbersIn(const rocksdb::Slice* begin, const rocksdb::Slice* end) const {
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

void KeyPlan::FillDepths(const TrieSpace& space, TrieStats* stats) const {
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

}  // namespace cairn
