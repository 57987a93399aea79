// The plan of a trie in hash order: HashPlan puts tables into containers by the hashes of their keys (hash_shape.h) and
// leaves the choice of the next compaction to HashPicker (hash_picker.h).

#include <algorithm>
#include <cstdint>
#include <memory>
#include <vector>

#include "trie_table/compaction/hash_picker.h"
#include "trie_table/compaction/hash_shape.h"
#include "trie_table/compaction/trie_plan.h"
#include "util/rocksdb_names.h"

namespace cairn {

namespace {

// Compacts containers depth by depth, each of those that are there when their depth is reached. Files that span
// containers are split first: those that are there when it begins, and later ones where they are in the way.
class ManualHashPlan final : public ManualPlan {
 public:
  // All containers of depths `first_depth` to `last_depth` under `top`.
  ManualHashPlan(const HashShape* shape, HashPicker* picker, const ContainerId& top, int first_depth, int last_depth,
                 uint64_t rewritten)
      : shape_(*shape),
        picker_(picker),
        top_(top),
        next_depth_(first_depth),
        last_depth_(last_depth),
        rewritten_(rewritten) {
    if (!shape_.spanning_files().empty()) split_up_to_ = shape_.spanning_files().rbegin()->first;
  }

  ManualStep Pick(TrieJob* job) override {
    while (true) {
      if (HasFilesToSplit()) return picker_->PickSplit(split_up_to_, job) ? ManualStep::kJob : ManualStep::kWait;
      if (open_.empty() && !OpenNextDepth()) return ManualStep::kDone;
      if (open_.empty()) continue;
      const ManualStep step = PickOpen(job);
      if (step != ManualStep::kDone) return step;
    }
  }

  void Done(const TrieJob& job) override {
    if (job.kind != TrieJob::Kind::kSplit) open_.pop_back();
  }

 private:
  struct Open {
    ContainerId id;
    bool after_children = false;  // these were opened above it, so that they make room
  };

  bool HasFilesToSplit() const {
    return !shape_.spanning_files().empty() && shape_.spanning_files().begin()->first <= split_up_to_;
  }

  bool OpenNextDepth() {
    if (next_depth_ > last_depth_) return false;
    std::vector<ContainerId> containers;
    for (const auto& [id, container] : shape_.containers()) {
      if (id.depth != next_depth_ || container.files == 0) continue;
      uint64_t ancestor = id.container;
      for (int depth = next_depth_; depth > top_.depth; --depth) ancestor = shape_.map().Parent(ancestor);
      if (ancestor == top_.container) containers.push_back(id);
    }
    ++next_depth_;
    OpenAll(containers);
    return true;
  }

  // The first is the next to be compacted.
  void OpenAll(const std::vector<ContainerId>& containers) {
    for (auto it = containers.rbegin(); it != containers.rend(); ++it) open_.push_back({*it});
  }

  // The next job for the container that was opened last. kDone: none now, but another container or file may be next.
  ManualStep PickOpen(TrieJob* job) {
    const ContainerId id = open_.back().id;
    const Container* const container = shape_.Find(id);
    if (container == nullptr || container->files == 0) return Close();
    if (container->busy) return ManualStep::kWait;
    const std::vector<uint64_t> in_the_way = shape_.SpanningFilesInTheWay(id);
    if (!in_the_way.empty()) {
      split_up_to_ = std::max(split_up_to_, *std::max_element(in_the_way.begin(), in_the_way.end()));
      return ManualStep::kDone;
    }
    if (picker_->PickContainer(id, job, rewritten_)) return ManualStep::kJob;
    const bool pushes = id.depth < shape_.trie().depth && (id.depth == 0 || container->files_below > 0);
    if (!pushes) return Close();  // one table of live keys
    // There is no free slot below: the children have to move first. Other compactions may fill the slots again.
    open_.back().after_children = !open_.back().after_children;
    if (!open_.back().after_children) return ManualStep::kWait;
    OpenAll(shape_.Children(id));
    return ManualStep::kDone;
  }

  ManualStep Close() {
    open_.pop_back();
    return ManualStep::kDone;
  }

  const HashShape& shape_;
  HashPicker* const picker_;
  const ContainerId top_;
  int next_depth_;
  const int last_depth_;
  const uint64_t rewritten_;  // tables of numbers up to this are written anew, whatever is in them
  uint64_t split_up_to_ = 0;
  std::vector<Open> open_;  // containers to be compacted, the next one last
};

class HashPlan final : public PlanOn<HashShape, HashPicker> {
 public:
  HashPlan(const HashTrieOptions& trie, const PlannedFamily& family)
      : PlanOn(std::tie(trie, family.last), SlackOf(family.write_buffer_bytes), family.write_buffer_bytes),
        name_(family.name) {}

  uint64_t RootFiles() const override { return shape_.root().files; }
  std::vector<uint64_t> NumbersIn(const rocksdb::Slice*, const rocksdb::Slice*) const override { return Numbers(); }

  void Begin(TrieJob* job) override {
    SetBusy(*job, true);
    picker_.Started(*job);
  }

  void End(const TrieJob& job, bool ok, uint64_t output_bytes, uint64_t oldest_snapshot) override {
    SetBusy(job, false);
    picker_.Finished(job, ok, output_bytes, oldest_snapshot);
  }

  void Flushed(uint64_t) override {}
  bool WatchesScans() const override { return false; }
  bool HasScanNews() const override { return false; }
  // Of the containers that `options` name. NotSupported for a range of keys.
  Status PlanManual(const TrieCompactOptions& options, const rocksdb::Slice* begin, const rocksdb::Slice* end,
                    std::unique_ptr<ManualPlan>* manual) override {
    if (begin != nullptr || end != nullptr) {
      return Status::NotSupported("compaction of a range of keys of " + name_,
                                  "a range has no meaning in hash order: name a container, or leave begin and end out");
    }
    ContainerId top{static_cast<int>(options.container.size()), 0};
    for (int child : options.container) {
      if (child < 0 || child >= trie().fan_out) {
        return Status::InvalidArgument("container path holds " + std::to_string(child),
                                       "a child is 0 to " + std::to_string(trie().fan_out - 1));
      }
      top.container = top.container * static_cast<uint64_t>(trie().fan_out) + static_cast<uint64_t>(child);
    }
    if (top.depth > trie().depth || options.depth < -1 || options.depth > trie().depth) {
      return Status::InvalidArgument("depth of the compaction",
                                     "this trie has depths 0 to " + std::to_string(trie().depth));
    }
    const int first_depth = std::max(top.depth, options.depth);
    const int last_depth = options.depth >= 0 ? first_depth : trie().depth;
    const uint64_t rewritten = options.rewrite ? NewestFile(*this) : 0;
    *manual = std::make_unique<ManualHashPlan>(&shape_, &picker_, top, first_depth, last_depth, rewritten);
    return Status::OK();
  }

 private:
  // The containers' numbers stand for the keys from here on.
  void Place(TrieFile file) override {
    const int depth = DepthOfLevel(trie(), file.level);
    const HashPrefixMap& map = shape_.map();
    file.container = map.ContainerAt(map.Position(file.smallest), depth);
    file.last_container = map.ContainerAt(map.Position(file.largest), depth);
    file.spans = file.container != file.last_container;
    file.smallest = file.largest = std::string();
    shape_.Add(file);
  }

  void SetBusy(const TrieJob& job, bool busy) {
    if (job.kind == TrieJob::Kind::kSplit) {
      shape_.SetSpanningFileBusy(job.inputs[0], busy);
    } else {
      shape_.SetBusy(job.id, busy);
    }
  }

  void FillDepths(const TrieSpace& space, TrieStats* stats) const override {
    for (const auto& [number, spanning_file] : shape_.spanning_files()) {
      TrieDepthStats& depth = DepthOf(DepthOfLevel(trie(), spanning_file.first.level), stats);
      ++depth.files;
      depth.bytes += spanning_file.first.bytes;
    }
    for (const auto& [number, live] : space.spanning_live) DepthOf(number, stats).live_bytes += live;
    for (const auto& [id, container] : shape_.containers()) {
      if (container.files == 0) continue;
      TrieDepthStats& depth = DepthOf(id.depth, stats);
      const int filled = id.depth == 0 ? static_cast<int>(container.files) : container.occupied_slots();
      AddContainer(container.files, filled, container.bytes, &depth);
      const auto found = space.containers.find(id);
      if (found != space.containers.end()) depth.live_bytes += found->second.live;
    }
  }

  int RootDueFiles() const override { return trie().root_trigger; }

  const std::string name_;
};

}  // namespace

std::unique_ptr<TriePlan> NewHashPlan(const HashTrieOptions& trie, const PlannedFamily& family) {
  return std::make_unique<HashPlan>(trie, family);
}

}  // namespace cairn
