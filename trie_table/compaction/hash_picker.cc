#include "trie_table/compaction/hash_picker.h"

#include <algorithm>
#include <utility>

#include "table/trie_rules.h"
#include "trie_table/compaction/trie_ingestion.h"

namespace cairn {

namespace {

// How urgent it is to split a file that lies in nobody's way: a little more than a container that is just full.
constexpr double kSplitScore = 1.1;

}  // namespace

bool HashPicker::IsFull(const ContainerId& id, const Container& container) const {
  const int trigger = id.depth == 0 ? shape_->trie().root_trigger : TriggerOf(shape_->trie());
  const int filled = id.depth == 0 ? static_cast<int>(container.files) : FilledSlots(id, container);
  return filled >= trigger;
}

// Those that spanning files take included.
int HashPicker::FilledSlots(const ContainerId& id, const Container& container) const {
  if (shape_->spanning_files().empty()) return container.occupied_slots();
  const int first = FirstLevelOfDepth(shape_->trie(), id.depth);
  const int last = shape_->LastLevel(id.depth);
  return container.occupied_slots() + static_cast<int>(shape_->SpanningFilesIn(id, first, last).size());
}

double HashPicker::CachedMergedShare(const ContainerId& id, const Container& container) {
  const auto found = shares_.find(id);
  if (found != shares_.end() && found->second.version == container.version) return found->second.share;
  const double share = MergedShare(container, IsLeaf(container), ledger_.operand_share(), snapshots_);
  shares_[id] = {container.version, share};
  return share;
}

TrieJob::Kind HashPicker::KindFor(const ContainerId& id, const Container& container) {
  if (id.depth == 0) return TrieJob::Kind::kRoot;
  if (id.depth == shape_->trie().depth) return TrieJob::Kind::kMerge;
  if (!IsLeaf(container)) return TrieJob::Kind::kPush;
  return CachedMergedShare(id, container) >= shape_->trie().grow_liveness ? TrieJob::Kind::kPush
                                                                          : TrieJob::Kind::kMerge;
}

// While siblings are compacted one after the other, those that came first already gain new slots, above what the others
// still hold. So all may end up nearly empty with only the headroom left above them, and would have to move on, for
// want of a slot, with a few files each. Bringing the few down costs less.
bool HashPicker::WaitsForChildren(const ContainerId& parent, const Container& container) const {
  const int trigger = TriggerOf(shape_->trie());
  bool some_full = false;
  bool some_empty = false;
  for (const ContainerId& child : shape_->Children(parent)) {
    const int occupied = shape_->Find(child)->occupied_slots();
    some_full |= occupied >= trigger;
    some_empty |= occupied == 0;
  }
  if (!some_full || !some_empty) return false;
  return parent.depth == 0 ? static_cast<int>(container.files) < RootWaitsUntil(shape_->trie().root_trigger)
                           : container.occupied_slots() < ContainerWaitsUntil(trigger, shape_->trie().slots);
}

std::vector<ContainerId> HashPicker::ChildrenToMergeInPlace(const ContainerId& parent) const {
  std::vector<ContainerId> merging_in_place;
  if (parent.depth == shape_->trie().depth) return merging_in_place;
  const int last = shape_->LastLevel(parent.depth + 1);
  int most = 0;
  for (const ContainerId& child : shape_->Children(parent)) {
    const Container* container = shape_->Find(child);
    const int occupied = container->occupied_slots();
    most = std::max(most, occupied);
    if (occupied > 0 && container->slots.begin()->first <= last - occupied) merging_in_place.push_back(child);
  }
  const int next = shape_->NextFreeLevel(parent);
  const int free = next == 0 ? 0 : next - FirstLevelOfDepth(shape_->trie(), parent.depth + 1) + 1;
  if (!SiblingsMergeInPlace(most, free, TriggerOf(shape_->trie()))) merging_in_place.clear();
  return merging_in_place;
}

bool HashPicker::MakeJob(const ContainerId& id, const Container& container, TrieJob::Kind kind, TrieJob* job) const {
  if (container.busy || container.files == 0 || !shape_->SpanningFilesInTheWay(id).empty()) return false;
  const int level = kind == TrieJob::Kind::kMerge ? shape_->LastLevel(id.depth) : shape_->NextFreeLevel(id);
  if (level == 0) return false;
  *job = TrieJob();
  job->kind = kind;
  job->id = id;
  job->output_level = level;
  job->input_bytes = container.bytes;
  job->expected_bytes = container.bytes;
  for (const auto& [slot_level, slot] : container.slots) {
    for (const TrieFile& file : slot) job->inputs.push_back(file.number);
  }
  return true;
}

void HashPicker::MakeSplit(const HashShape& shape, const TrieFile& file, double score, TrieJob* job) {
  *job = TrieJob();
  job->kind = TrieJob::Kind::kSplit;
  job->id = {DepthOfLevel(shape.trie(), file.level), file.container};
  job->inputs.assign(1, file.number);
  job->output_level = file.level;
  job->input_bytes = file.bytes;
  job->expected_bytes = file.bytes;
  job->score = score;
}

bool HashPicker::PickSplit(uint64_t last, TrieJob* job) const {
  for (const auto& [number, spanning_file] : shape_->spanning_files()) {
    const auto& [file, busy] = spanning_file;
    if (busy || number > last) continue;
    MakeSplit(*shape_, file, kSplitScore, job);
    return true;
  }
  return false;
}

bool HashPicker::PickLargestSplit(TrieJob* job) const {
  const TrieFile* largest = nullptr;
  for (const auto& [number, spanning_file] : shape_->spanning_files()) {
    const auto& [file, busy] = spanning_file;
    if (!busy && (largest == nullptr || file.bytes > largest->bytes)) largest = &file;
  }
  if (largest == nullptr) return false;
  MakeSplit(*shape_, *largest, kSplitScore, job);
  return true;
}

bool HashPicker::IsSensible(const TrieFile& spanning_file) const {
  const double part = static_cast<double>(spanning_file.bytes) / static_cast<double>(HashShape::PartsOf(spanning_file));
  const int depth = DepthOfLevel(shape_->trie(), spanning_file.level);
  return part >= kSensiblePart * SlotBytes(shape_->trie(), write_buffer_bytes_, depth);
}

std::vector<uint64_t> HashPicker::SpanningFilesHolding(const ContainerId& id, TrieJob::Kind kind) const {
  std::vector<uint64_t> holding = shape_->SpanningFilesInTheWay(id);
  if (!holding.empty() || kind == TrieJob::Kind::kMerge || shape_->NextFreeLevel(id) != 0) return holding;
  const int top = FirstLevelOfDepth(shape_->trie(), id.depth + 1);
  return shape_->SpanningFilesIn(id, top, top);
}

// Of files that are of a sensible size or hold something; `holding`: with the score of what waits for them.
bool HashPicker::PickDueSplit(const std::map<uint64_t, double>& holding, TrieJob* best) const {
  bool found = false;
  for (const auto& [number, spanning_file] : shape_->spanning_files()) {
    const auto& [file, busy] = spanning_file;
    const auto held = holding.find(number);
    if (busy || (held == holding.end() && !IsSensible(file))) continue;
    const double score = held == holding.end() ? kSplitScore : held->second;
    if (found && score <= best->score) continue;
    MakeSplit(*shape_, file, score, best);
    found = true;
  }
  return found;
}

bool HashPicker::HasOlderBelow(const ContainerId& id, const Container& container, const TrieFile& file) const {
  return id.depth == 0 || !IsLeaf(container) || file.level != container.slots.rbegin()->first;
}

// One table with nothing below it is written again for its blobs or by period, and if that may remove what it deletes.
std::map<ContainerId, WantedTables::Why> HashPicker::WantedContainers(std::map<uint64_t, double>* holding) {
  std::map<ContainerId, WantedTables::Why> containers;
  wanted_.Visit([&](uint64_t number, WantedTables::Why why) {
    ContainerId id;
    const TrieFile* const file = shape_->FileOf(number, &id);
    if (file == nullptr) {
      if (shape_->Contains(number)) holding->emplace(number, 0);
      return true;
    }
    const Container& container = *shape_->Find(id);
    const bool at_rest = id.depth > 0 && IsLeaf(container) && container.files == 1 &&
                         container.slots.begin()->first == shape_->LastLevel(id.depth);
    const bool rewrites = WantedTables::Rewrites(why);
    const bool at_once = rewrites || (why == WantedTables::Why::kTtl ? HasOlderBelow(id, container, *file) : !at_rest);
    if (at_once || (file->deletes && !snapshots_.SeesBefore(file->largest_sequence) && !IsFutile(id, container))) {
      containers.emplace(id, why);
    }
    return !at_rest || file->deletes || rewrites;
  });
  return containers;
}

bool HashPicker::Pick(TrieJob* best) {
  bool found = false;
  auto consider = [&](const TrieJob& job) {
    if (!found || job.score > best->score) {
      *best = job;
      found = true;
    }
  };
  // Both are filled by parents, which come before their children in the order of containers.
  std::set<ContainerId> blocking;
  std::set<ContainerId> merging_in_place;
  std::map<uint64_t, double> holding;  // spanning files, with the score of what waits for them
  const std::map<ContainerId, WantedTables::Why> wanted_containers = WantedContainers(&holding);
  for (const auto& [id, container] : shape_->containers()) {
    const bool blocks = blocking.count(id) != 0;
    const bool merges_in_place = merging_in_place.count(id) != 0;
    const bool due = blocks || merges_in_place || IsFull(id, container);
    const bool wanted = !due && wanted_containers.count(id) != 0;
    if (container.busy || container.files == 0 || (!due && !wanted)) continue;
    if (!blocks && !merges_in_place && WaitsForChildren(id, container)) continue;
    const std::vector<ContainerId> below = merges_in_place ? std::vector<ContainerId>() : ChildrenToMergeInPlace(id);
    if (!below.empty()) {
      merging_in_place.insert(below.begin(), below.end());
      continue;
    }
    const bool merges = merges_in_place || (wanted && id.depth > 0 && IsLeaf(container));
    const TrieJob::Kind kind = merges ? TrieJob::Kind::kMerge : KindFor(id, container);
    double score = id.depth == 0 ? static_cast<double>(container.files) / shape_->trie().root_trigger
                                 : static_cast<double>(FilledSlots(id, container)) / TriggerOf(shape_->trie());
    if (blocks || merges_in_place) score += 10;
    TrieJob job;
    if (MakeJob(id, container, kind, &job)) {
      job.score = score;
      job.wanted = wanted;
      if (wanted) job.why = wanted_containers.at(id);
      consider(job);
      continue;
    }
    for (uint64_t number : SpanningFilesHolding(id, kind)) holding[number] = std::max(holding[number], score + 1);
    if (kind != TrieJob::Kind::kMerge) {
      const int top = FirstLevelOfDepth(shape_->trie(), id.depth + 1);
      for (const ContainerId& child : shape_->Children(id)) {
        const Container* container_below = shape_->Find(child);
        if (!container_below->slots.empty() && container_below->slots.begin()->first == top) blocking.insert(child);
      }
    }
  }
  TrieJob split;
  if (PickDueSplit(holding, &split)) consider(split);
  TrieJob for_space;
  // A fresh estimate is wanted when the trie has changed, or nothing else is due.
  if ((!found || ledger_.HasChanged(shape_->bytes())) && PickForSpace(&for_space)) consider(for_space);
  return found;
}

const TrieSpace& HashPicker::Space() {
  return ledger_.Estimate(shape_->version(), shape_->bytes(),
                          [this](double operand_share) { return EstimateSpace(*shape_, operand_share, snapshots_); });
}

bool HashPicker::IsFutile(const ContainerId& id, const Container& container) const {
  const auto found = futile_.find(id);
  return found != futile_.end() && found->second.container_version == container.version &&
         found->second.oldest_snapshot == snapshots_.oldest();
}

double HashPicker::NextFlush() const {
  std::vector<uint64_t> sizes;
  for (const auto& [level, slot] : shape_->root().slots) {
    for (const TrieFile& file : slot) sizes.push_back(file.bytes);
  }
  return SpaceLedger::NextFlush(std::move(sizes));
}

bool HashPicker::PickForSpace(TrieJob* job) {
  const TrieSpace& space = Space();
  return ledger_.Pick(NextFlush(), job, [&](TrieJob* best) { return PickForSpace(space, best); });
}

bool HashPicker::PickForSpace(const TrieSpace& space, TrieJob* best) {
  // The last is what keeps its containers from being compacted, and may hold the garbage itself.
  if (!PickThatFrees(space, best) && !PickThatComesCloser(space, best) && !PickLargestSplit(best)) return false;
  best->for_space = best->kind != TrieJob::Kind::kSplit;
  return true;
}

// The compaction that frees most per byte it writes, together with those that it lets the children do.
bool HashPicker::PickThatFrees(const TrieSpace& space, TrieJob* best) {
  double best_ratio = 0;
  bool found = false;
  auto consider = [&](const ContainerId& id, const Container& container, TrieJob::Kind kind, double before,
                      double after, double written, const ContainerSpace& own) {
    const double freed = before - after;
    if (freed < kSpaceWorthwhile * before) return;
    const double ratio = freed / std::max(written, 1.0);
    TrieJob job;
    if (ratio > best_ratio && MakeJob(id, container, kind, &job)) {
      best_ratio = ratio;
      *best = job;
      best->expected_bytes = std::min(best->input_bytes, own.merged);
      best->folded_bytes = own.folded;
      best->operand_share = ledger_.operand_share();
      found = true;
    }
  };
  for (const auto& [id, container] : shape_->containers()) {
    if (container.busy || container.files == 0 || IsFutile(id, container)) continue;
    const auto own = space.containers.find(id);
    if (own == space.containers.end()) continue;
    const double merged = static_cast<double>(own->second.merged);
    if (IsLeaf(container) && id.depth > 0) {
      // A container that would be pushed before long anyway is pushed now: that frees as much.
      const bool nearly_full = IsNearlyFull(container.occupied_slots(), TriggerOf(shape_->trie()));
      consider(id, container, nearly_full ? KindFor(id, container) : TrieJob::Kind::kMerge,
               static_cast<double>(own->second.bytes), merged, merged, own->second);
      continue;
    }
    // A push frees little by itself: it lets the children's merges free what it shadows there.
    if (id.depth == shape_->trie().depth) continue;
    double before = static_cast<double>(own->second.bytes);
    double after = merged - static_cast<double>(own->second.folded_below);
    for (const ContainerId& child : shape_->Children(id)) {
      const auto below = space.containers.find(child);
      if (below == space.containers.end()) continue;
      before += static_cast<double>(below->second.bytes);
      after += static_cast<double>(below->second.after_parent);
    }
    consider(id, container, id.depth == 0 ? TrieJob::Kind::kRoot : TrieJob::Kind::kPush, before, after, merged + after,
             own->second);
  }
  return found;
}

// What is left over lies under containers more than one depth above it: they have to come closer.
bool HashPicker::PickThatComesCloser(const TrieSpace& space, TrieJob* best) const {
  bool found = false;
  double most = kSpaceWorthwhile;
  for (const auto& [id, container] : shape_->containers()) {
    const auto own = space.containers.find(id);
    if (container.busy || container.files == 0 || own == space.containers.end()) continue;
    if (id.depth == shape_->trie().depth) continue;
    const double share = static_cast<double>(own->second.shadowing) / static_cast<double>(own->second.bytes);
    TrieJob job;
    const TrieJob::Kind kind = id.depth == 0 ? TrieJob::Kind::kRoot : TrieJob::Kind::kPush;
    if (share <= most || !MakeJob(id, container, kind, &job)) continue;
    most = share;
    *best = job;
    best->expected_bytes = std::min(best->input_bytes, own->second.merged);
    found = true;
  }
  return found;
}

bool HashPicker::PickContainer(const ContainerId& id, TrieJob* job, uint64_t rewritten) {
  const Container* container = shape_->Find(id);
  if (container == nullptr) return false;
  TrieJob::Kind kind = TrieJob::Kind::kMerge;
  if (id.depth == 0) {
    kind = TrieJob::Kind::kRoot;
  } else if (!IsLeaf(*container) && id.depth < shape_->trie().depth) {
    kind = TrieJob::Kind::kPush;
  } else if (container->files == 1 && container->slots.begin()->first == shape_->LastLevel(id.depth) &&
             container->slots.begin()->second[0].only_live && container->slots.begin()->second[0].number > rewritten) {
    // In a higher slot it would keep its siblings' parent from moving.
    return false;
  }
  return MakeJob(id, *container, kind, job);
}

double HashPicker::SpacePressure() {
  if (!ledger_.CanFree()) return 0;
  // What has been flushed since the latest estimate may be live.
  if (ledger_.HasChanged(shape_->bytes())) Space();
  return ledger_.Pressure(shape_->bytes(), NextFlush());
}

void HashPicker::Started(const TrieJob& job) { ledger_.Started(job); }

void HashPicker::SetSizes(uint64_t slack_bytes, uint64_t write_buffer_bytes) {
  write_buffer_bytes_ = write_buffer_bytes;
  ledger_.SetSizes(slack_bytes, 0, shape_->trie().root_trigger);
}

void HashPicker::SetOldestSnapshot(uint64_t oldest_snapshot) {
  if (!snapshots_.SetOldest(oldest_snapshot)) return;
  ledger_.Outdate();
  shares_.clear();
}

void HashPicker::SetExpiredBefore(uint64_t stamp) {
  snapshots_.SetExpiredBefore(stamp);
  ledger_.Outdate();
  shares_.clear();
  futile_.clear();
}

// Of a split, none: its parts are as they were.
std::vector<const TrieFile*> HashPicker::OutputsOf(const TrieJob& job) const {
  std::vector<ContainerId> containers;
  if (job.kind == TrieJob::Kind::kMerge) containers.push_back(job.id);
  if (job.kind == TrieJob::Kind::kPush || job.kind == TrieJob::Kind::kRoot) containers = shape_->Children(job.id);
  std::vector<const TrieFile*> files;
  for (const ContainerId& id : containers) {
    const Container* container = shape_->Find(id);
    if (container == nullptr) continue;
    const auto slot = container->slots.find(job.output_level);
    if (slot == container->slots.end()) continue;
    for (const TrieFile& file : slot->second) files.push_back(&file);
  }
  return files;
}

void HashPicker::Finished(const TrieJob& job, bool ok, uint64_t output_bytes, uint64_t oldest_snapshot) {
  ledger_.Finished(job, ok);
  shares_.erase(job.id);
  SetOldestSnapshot(oldest_snapshot);
  if (ok && snapshots_.Learn(job, output_bytes, OutputsOf(job))) {
    ledger_.Outdate();
    shares_.clear();
  }
  for (uint64_t number : job.inputs) {
    if (!shape_->Contains(number)) snapshots_.Forget(number);
  }
  if (!ok || (!job.for_space && !job.wanted)) return;
  if (job.for_space && ledger_.Learn(job, output_bytes)) shares_.clear();
  const Container* container = shape_->Find(job.id);
  if (container != nullptr && (job.wanted || SpaceLedger::FreedTooLittle(job, output_bytes))) {
    futile_[job.id] = {container->version, oldest_snapshot};
  } else {
    futile_.erase(job.id);
  }
}

std::map<int, DueContainers> HashPicker::PendingByDepth() const {
  std::map<int, DueContainers> pending;
  for (const auto& [id, container] : shape_->containers()) {
    if (container.busy || !IsFull(id, container)) continue;
    ++pending[id.depth].containers;
    pending[id.depth].bytes += container.bytes;
  }
  return pending;
}

}  // namespace cairn
