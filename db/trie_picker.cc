#include "db/trie_picker.h"

#include <algorithm>

#include "db/trie_ingestion.h"
#include "table/trie_rules.h"

namespace cairn {

namespace {

// Small flushes are slowed down over the last part in 100 of the space that the bound allows.
constexpr double kFinestBrake = 100;

// What one merge adds to what is known of merge operands; and the part of its input that they must be for it to tell.
constexpr double kNewsOfOperands = 0.25;
constexpr double kTellingOperands = 0.05;

// How urgent it is to split a file that lies in nobody's way: a little more than a column that is just full.
constexpr double kSplitScore = 1.1;

}  // namespace

bool TriePicker::IsFull(const ContainerId& id, const Column& column) const {
  const int trigger = id.depth == 0 ? shape_->trie().root_trigger : TriggerOf(shape_->trie());
  const int filled = id.depth == 0 ? static_cast<int>(column.files) : FilledSlots(id, column);
  return filled >= trigger;
}

// Those that straddling files take included.
int TriePicker::FilledSlots(const ContainerId& id, const Column& column) const {
  if (shape_->straddlers().empty()) return column.occupied_slots();
  const int first = FirstLevelOfDepth(shape_->trie(), id.depth);
  const int last = shape_->LastLevel(id.depth);
  return column.occupied_slots() + static_cast<int>(shape_->StraddlersIn(id, first, last).size());
}

double TriePicker::CachedMergedShare(const ContainerId& id, const Column& column) {
  const auto found = shares_.find(id);
  if (found != shares_.end() && found->second.version == column.version) return found->second.share;
  const double share = MergedShare(column, IsLeaf(column), operand_share_);
  shares_[id] = {column.version, share};
  return share;
}

TrieJob::Kind TriePicker::KindFor(const ContainerId& id, const Column& column) {
  if (id.depth == 0) return TrieJob::Kind::kRoot;
  if (id.depth == shape_->trie().depth) return TrieJob::Kind::kMerge;
  if (!IsLeaf(column)) return TrieJob::Kind::kPush;
  return CachedMergedShare(id, column) >= shape_->trie().grow_liveness ? TrieJob::Kind::kPush : TrieJob::Kind::kMerge;
}

// While siblings are compacted one after the other, those that came first already gain new slots, above what the others
// still hold. So all may end up nearly empty with only the headroom left above them, and would have to move on, for
// want of a slot, with a few files each. Bringing the few down costs less.
bool TriePicker::WaitsForChildren(const ContainerId& parent, const Column& column) const {
  const int trigger = TriggerOf(shape_->trie());
  bool some_full = false;
  bool some_empty = false;
  for (const ContainerId& child : shape_->Children(parent)) {
    const int occupied = shape_->Find(child)->occupied_slots();
    some_full |= occupied >= trigger;
    some_empty |= occupied == 0;
  }
  if (!some_full || !some_empty) return false;
  return parent.depth == 0 ? static_cast<int>(column.files) < RootWaitsUntil(shape_->trie().root_trigger)
                           : column.occupied_slots() < ColumnWaitsUntil(trigger, shape_->trie().slots);
}

std::vector<ContainerId> TriePicker::SinkingChildren(const ContainerId& parent) const {
  std::vector<ContainerId> sinking;
  if (parent.depth == shape_->trie().depth) return sinking;
  const int last = shape_->LastLevel(parent.depth + 1);
  int most = 0;
  for (const ContainerId& child : shape_->Children(parent)) {
    const Column* column = shape_->Find(child);
    const int occupied = column->occupied_slots();
    most = std::max(most, occupied);
    if (occupied > 0 && column->slots.begin()->first <= last - occupied) sinking.push_back(child);
  }
  const int next = shape_->NextFreeLevel(parent);
  const int free = next == 0 ? 0 : next - FirstLevelOfDepth(shape_->trie(), parent.depth + 1) + 1;
  if (!SiblingsSink(most, free, TriggerOf(shape_->trie()))) sinking.clear();
  return sinking;
}

bool TriePicker::MakeJob(const ContainerId& id, const Column& column, TrieJob::Kind kind, TrieJob* job) const {
  if (column.busy || column.files == 0 || !shape_->StraddlersInTheWay(id).empty()) return false;
  const int level = kind == TrieJob::Kind::kMerge ? shape_->LastLevel(id.depth) : shape_->NextFreeLevel(id);
  if (level == 0) return false;
  *job = TrieJob();
  job->kind = kind;
  job->id = id;
  job->output_level = level;
  job->input_bytes = column.bytes;
  job->expected_bytes = column.bytes;
  for (const auto& [slot_level, slot] : column.slots) {
    for (const TrieFile& file : slot) job->inputs.push_back(file.number);
  }
  return true;
}

void TriePicker::MakeSplit(const TrieShape& shape, const TrieFile& file, double score, TrieJob* job) {
  *job = TrieJob();
  job->kind = TrieJob::Kind::kSplit;
  job->id = {DepthOfLevel(shape.trie(), file.level), file.container};
  job->inputs.assign(1, file.number);
  job->output_level = file.level;
  job->input_bytes = file.bytes;
  job->expected_bytes = file.bytes;
  job->score = score;
}

bool TriePicker::PickSplit(uint64_t last, TrieJob* job) const {
  for (const auto& [number, straddler] : shape_->straddlers()) {
    const auto& [file, busy] = straddler;
    if (busy || number > last) continue;
    MakeSplit(*shape_, file, kSplitScore, job);
    return true;
  }
  return false;
}

bool TriePicker::PickLargestSplit(TrieJob* job) const {
  const TrieFile* largest = nullptr;
  for (const auto& [number, straddler] : shape_->straddlers()) {
    const auto& [file, busy] = straddler;
    if (!busy && (largest == nullptr || file.bytes > largest->bytes)) largest = &file;
  }
  if (largest == nullptr) return false;
  MakeSplit(*shape_, *largest, kSplitScore, job);
  return true;
}

bool TriePicker::IsSensible(const TrieFile& straddler) const {
  const double part = static_cast<double>(straddler.bytes) / static_cast<double>(TrieShape::PiecesOf(straddler));
  const int depth = DepthOfLevel(shape_->trie(), straddler.level);
  return part >= kSensiblePart * SlotBytes(shape_->trie(), write_buffer_bytes_, depth);
}

std::vector<uint64_t> TriePicker::StraddlersHolding(const ContainerId& id, TrieJob::Kind kind) const {
  std::vector<uint64_t> holding = shape_->StraddlersInTheWay(id);
  if (!holding.empty() || kind == TrieJob::Kind::kMerge || shape_->NextFreeLevel(id) != 0) return holding;
  const int top = FirstLevelOfDepth(shape_->trie(), id.depth + 1);
  return shape_->StraddlersIn(id, top, top);
}

bool TriePicker::Pick(TrieJob* best) {
  bool found = false;
  auto consider = [&](const TrieJob& job) {
    if (!found || job.score > best->score) {
      *best = job;
      found = true;
    }
  };
  // Both are filled by parents, which come before their children in the order of columns.
  std::set<ContainerId> blocking;
  std::set<ContainerId> sinking;
  std::map<uint64_t, double> holding;  // straddling files, with the score of what waits for them
  for (const auto& [id, column] : shape_->columns()) {
    const bool blocks = blocking.count(id) != 0;
    const bool sinks = sinking.count(id) != 0;
    if (column.busy || column.files == 0 || (!blocks && !sinks && !IsFull(id, column))) continue;
    if (!blocks && !sinks && WaitsForChildren(id, column)) continue;
    const std::vector<ContainerId> below = sinks ? std::vector<ContainerId>() : SinkingChildren(id);
    if (!below.empty()) {
      sinking.insert(below.begin(), below.end());
      continue;
    }
    const TrieJob::Kind kind = sinks ? TrieJob::Kind::kMerge : KindFor(id, column);
    double score = id.depth == 0 ? static_cast<double>(column.files) / shape_->trie().root_trigger
                                 : static_cast<double>(FilledSlots(id, column)) / TriggerOf(shape_->trie());
    if (blocks || sinks) score += 10;
    TrieJob job;
    if (MakeJob(id, column, kind, &job)) {
      job.score = score;
      consider(job);
      continue;
    }
    for (uint64_t number : StraddlersHolding(id, kind)) holding[number] = std::max(holding[number], score + 1);
    if (kind != TrieJob::Kind::kMerge) {
      const int top = FirstLevelOfDepth(shape_->trie(), id.depth + 1);
      for (const ContainerId& child : shape_->Children(id)) {
        const Column* column_below = shape_->Find(child);
        if (!column_below->slots.empty() && column_below->slots.begin()->first == top) blocking.insert(child);
      }
    }
  }
  for (const auto& [number, straddler] : shape_->straddlers()) {
    const auto& [file, busy] = straddler;
    const auto held = holding.find(number);
    if (busy || (held == holding.end() && !IsSensible(file))) continue;
    TrieJob job;
    MakeSplit(*shape_, file, held == holding.end() ? kSplitScore : held->second, &job);
    consider(job);
  }
  TrieJob for_space;
  if ((!found || SpaceHasChanged()) && PickForSpace(&for_space)) consider(for_space);
  return found;
}

// A fresh estimate costs tens of milliseconds: wanted when the trie has changed by a part in 64, or nothing else is
// due.
bool TriePicker::SpaceHasChanged() const {
  const uint64_t bytes = shape_->bytes();
  const uint64_t changed = bytes > space_at_bytes_ ? bytes - space_at_bytes_ : space_at_bytes_ - bytes;
  return changed >= bytes / 64;
}

const TrieSpace& TriePicker::Space() {
  if (space_version_ != shape_->version()) {
    space_ = EstimateSpace(*shape_, operand_share_);
    space_version_ = shape_->version();
    space_at_bytes_ = shape_->bytes();
  }
  return space_;
}

bool TriePicker::IsFutile(const ContainerId& id, const Column& column) const {
  const auto found = futile_.find(id);
  return found != futile_.end() && found->second.column_version == column.version &&
         found->second.oldest_snapshot == oldest_snapshot_;
}

// A write buffer's worth, for what is flushed while the compaction runs. The median, because a file that was ingested
// may be of any size.
double TriePicker::NextFlush() const {
  const Column& root = shape_->root();
  std::vector<uint64_t> sizes;
  for (const auto& [level, slot] : root.slots) {
    for (const TrieFile& file : slot) sizes.push_back(file.bytes);
  }
  if (sizes.empty()) return 0;
  const auto middle = sizes.begin() + static_cast<std::ptrdiff_t>(sizes.size() / 2);
  std::nth_element(sizes.begin(), middle, sizes.end());
  return static_cast<double>(*middle);
}

// Bytes of a trie with this share of the garbage that the bound allows, by the latest estimate.
double TriePicker::Allowed(double share) const {
  return (1 + (shape_->trie().space_bound - 1) * share) * static_cast<double>(space_.live);
}

bool TriePicker::PickForSpace(TrieJob* best) {
  const TrieSpace& space = Space();
  const double bytes = static_cast<double>(space.bytes - std::min(space.bytes, space_being_freed_));
  const double allowed = std::max(Allowed(kSpaceHeadStart) - NextFlush(), Allowed(kSpaceLittleGarbage));
  more_for_space_ = false;
  if (bytes <= allowed + static_cast<double>(slack_bytes_)) return false;

  double best_ratio = 0;
  bool found = false;
  auto consider = [&](const ContainerId& id, const Column& column, TrieJob::Kind kind, double before, double after,
                      double written, const ColumnSpace& own) {
    const double freed = before - after;
    if (freed < kSpaceWorthwhile * before) return;
    const double ratio = freed / std::max(written, 1.0);
    TrieJob job;
    if (ratio > best_ratio && MakeJob(id, column, kind, &job)) {
      best_ratio = ratio;
      *best = job;
      best->expected_bytes = std::min(best->input_bytes, own.merged);
      best->folded_bytes = own.folded;
      best->operand_share = operand_share_;
      found = true;
    }
  };
  for (const auto& [id, column] : shape_->columns()) {
    if (column.busy || column.files == 0 || IsFutile(id, column)) continue;
    const auto own = space.columns.find(id);
    if (own == space.columns.end()) continue;
    const double merged = static_cast<double>(own->second.merged);
    if (IsLeaf(column) && id.depth > 0) {
      // A column that would be pushed before long anyway is pushed now: that frees as much.
      const bool nearly_full = IsNearlyFull(column.occupied_slots(), TriggerOf(shape_->trie()));
      consider(id, column, nearly_full ? KindFor(id, column) : TrieJob::Kind::kMerge,
               static_cast<double>(own->second.bytes), merged, merged, own->second);
      continue;
    }
    // A push frees little by itself: it lets the children's merges free what it shadows there.
    if (id.depth == shape_->trie().depth) continue;
    double before = static_cast<double>(own->second.bytes);
    double after = merged - static_cast<double>(own->second.folded_below);
    for (const ContainerId& child : shape_->Children(id)) {
      const auto below = space.columns.find(child);
      if (below == space.columns.end()) continue;
      before += static_cast<double>(below->second.bytes);
      after += static_cast<double>(below->second.after_parent);
    }
    consider(id, column, id.depth == 0 ? TrieJob::Kind::kRoot : TrieJob::Kind::kPush, before, after, merged + after,
             own->second);
  }
  // What is left over lies under columns more than one depth above it: they have to come closer.
  if (!found) {
    double most = kSpaceWorthwhile;
    for (const auto& [id, column] : shape_->columns()) {
      const auto own = space.columns.find(id);
      if (column.busy || column.files == 0 || own == space.columns.end() || id.depth == shape_->trie().depth) continue;
      const double share = static_cast<double>(own->second.shadowing) / static_cast<double>(own->second.bytes);
      TrieJob job;
      const TrieJob::Kind kind = id.depth == 0 ? TrieJob::Kind::kRoot : TrieJob::Kind::kPush;
      if (share <= most || !MakeJob(id, column, kind, &job)) continue;
      most = share;
      *best = job;
      best->expected_bytes = std::min(best->input_bytes, own->second.merged);
      found = true;
    }
  }
  // What keeps their columns from being compacted, and may hold the garbage itself.
  if (!found && PickLargestSplit(best)) found = true;
  if (!found) return false;
  more_for_space_ = true;
  const double excess = allowed > 0 ? bytes / allowed - 1 : 1;
  best->score = SpaceScore(excess);
  best->for_space = best->kind != TrieJob::Kind::kSplit;
  return true;
}

bool TriePicker::PickColumn(const ContainerId& id, TrieJob* job) {
  const Column* column = shape_->Find(id);
  if (column == nullptr) return false;
  TrieJob::Kind kind = TrieJob::Kind::kMerge;
  if (id.depth == 0) {
    kind = TrieJob::Kind::kRoot;
  } else if (!IsLeaf(*column) && id.depth < shape_->trie().depth) {
    kind = TrieJob::Kind::kPush;
  } else if (column->files == 1 && column->slots.begin()->first == shape_->LastLevel(id.depth) &&
             column->slots.begin()->second[0].only_live) {
    // In a higher slot it would keep its siblings' parent from moving.
    return false;
  }
  return MakeJob(id, *column, kind, job);
}

void TriePicker::Started(const TrieJob& job) {
  space_being_freed_ += job.input_bytes - job.expected_bytes;
  ++running_;
}

double TriePicker::SpacePressure() {
  if (running_ == 0 && !more_for_space_) return 0;
  // What has been flushed since the latest estimate may be live.
  if (SpaceHasChanged()) Space();
  if (space_.live == 0) return 0;
  const double slack = static_cast<double>(slack_bytes_);
  // In a trie of a few write buffers, what the root gathers before it is due is more garbage than the bound allows. The
  // root's own pressure limits that.
  if (shape_->root().files > 0) flush_bytes_ = NextFlush();
  if (Allowed(1) < static_cast<double>(space_.live) + shape_->trie().root_trigger * flush_bytes_) return 0;
  const double bound = Allowed(1) + slack;
  const double begin =
      std::min(std::max(bound - 2 * NextFlush(), Allowed(kSpaceLittleGarbage) + slack), bound * (1 - 1 / kFinestBrake));
  return std::clamp((static_cast<double>(shape_->bytes()) - begin) / (bound - begin), 0.0, 1.0);
}

void TriePicker::Finished(const TrieJob& job, bool ok, uint64_t output_bytes, uint64_t oldest_snapshot) {
  const uint64_t expected = job.input_bytes - job.expected_bytes;
  space_being_freed_ -= std::min(space_being_freed_, expected);
  --running_;
  shares_.erase(job.id);
  oldest_snapshot_ = oldest_snapshot;
  if (!ok || !job.for_space) return;
  LearnOperandShare(job, output_bytes);
  const uint64_t freed = job.input_bytes > output_bytes ? job.input_bytes - output_bytes : 0;
  const Column* column = shape_->Find(job.id);
  if (freed < expected / 2 && column != nullptr) {
    futile_[job.id] = {column->version, oldest_snapshot};
  } else {
    futile_.erase(job.id);
  }
}

void TriePicker::LearnOperandShare(const TrieJob& job, uint64_t output_bytes) {
  const auto folded = static_cast<double>(job.folded_bytes);
  if (job.kind != TrieJob::Kind::kMerge || folded < kTellingOperands * static_cast<double>(job.input_bytes)) return;
  const double without = static_cast<double>(job.expected_bytes) - job.operand_share * folded;
  const double share = std::clamp((static_cast<double>(output_bytes) - without) / folded, 0.0, 1.0);
  operand_share_ += kNewsOfOperands * (share - operand_share_);
  shares_.clear();
  space_version_ = UINT64_MAX;
}

std::map<int, TriePicker::Due> TriePicker::PendingByDepth() const {
  std::map<int, Due> pending;
  for (const auto& [id, column] : shape_->columns()) {
    if (column.busy || !IsFull(id, column)) continue;
    ++pending[id.depth].columns;
    pending[id.depth].bytes += column.bytes;
  }
  return pending;
}

}  // namespace cairn
