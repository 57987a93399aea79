#include "trie_table/compaction/key_picker.h"

#include <algorithm>
#include <set>

#include "table/trie_rules.h"

namespace cairn {

namespace {

// What a file of the root takes of a write buffer. Less, as where memory is short or somebody flushes, is so much less
// garbage, and the root has as many more files: else each three of them would become slots of whatever they lie over.
constexpr double kLeastFill = 0.5;

}  // namespace

bool KeyPicker::IsLeaf(const KeyContainer& container) const {
  return shape_->NextDepthBelow(container.depth, container.range) == 0;
}

bool KeyPicker::IsFull(const KeyContainer& container) const {
  if (container.depth == 0) return container.slots >= sizes_.root_files;
  if (container.slots >= TriggerOf(shape_->trie())) return true;
  return container.bytes >= sizes_.unit && (container.slots > 1 || !IsLeaf(container));
}

double KeyPicker::Score(const KeyContainer& container) const {
  if (container.depth == 0) return static_cast<double>(container.slots) / sizes_.root_files;
  return std::max(static_cast<double>(container.slots) / TriggerOf(shape_->trie()),
                  static_cast<double>(container.bytes) / static_cast<double>(sizes_.unit));
}

std::pair<int, size_t> KeyPicker::PlaceOf(const TrieFile& file) const {
  const int depth = DepthOfLevel(shape_->trie(), file.level);
  return {depth, depth == 0 ? 0 : shape_->Overlapping(depth, KeyShape::RangeOf(file)).first};
}

// As HashPicker's.
std::map<std::pair<int, size_t>, WantedTables::Why> KeyPicker::WantedContainers() {
  std::map<std::pair<int, size_t>, WantedTables::Why> containers;
  wanted_.Visit([&](uint64_t number, WantedTables::Why why) {
    const TrieFile* const file = shape_->Find(number);
    if (file == nullptr) return true;
    const std::pair<int, size_t> place = PlaceOf(*file);
    const KeyContainer& container = shape_->ContainersAt(place.first)[place.second];
    const bool at_rest = container.depth == shape_->trie().depth && container.slots == 1;
    const bool rewrites = WantedTables::Rewrites(why);
    const bool older_below = place.first == 0 || !IsLeaf(container) || file->level != container.files.back()->level;
    if (rewrites || (why == WantedTables::Why::kTtl ? older_below : !at_rest) ||
        (file->deletes && !snapshots_.SeesBefore(file->largest_sequence) && !IsFutile(container))) {
      containers.emplace(place, why);
    }
    return !at_rest || file->deletes || rewrites;
  });
  return containers;
}

bool KeyPicker::Pick(TrieJob* best) {
  const bool changed = Refresh();
  const int root_files = sizes_.root_files;
  if (moves_.PickDrops(best) || (may_move_ && moves_.PickMoves(sizes_, best))) return true;
  bool found = false;
  std::set<std::pair<int, size_t>> blocking;  // filled by containers above, which come first
  const std::map<std::pair<int, size_t>, WantedTables::Why> wanted_containers = WantedContainers();
  for (int depth = 0; depth <= shape_->trie().depth; ++depth) {
    const std::vector<KeyContainer>& containers = shape_->ContainersAt(depth);
    for (size_t i = 0; i < containers.size(); ++i) {
      const KeyContainer& container = containers[i];
      const bool blocks = blocking.count({depth, i}) != 0;
      const bool wanted = !blocks && !IsFull(container) && wanted_containers.count({depth, i}) != 0;
      if (container.busy || (!blocks && !wanted && !IsFull(container))) continue;
      const double score = Score(container) + (blocks ? 10 : 0);
      if (found && score <= best->score) continue;
      TrieJob job;
      const KeyJobMaker::Made made = job_maker_.MakeJob(container, &job);
      if (made == KeyJobMaker::Made::kJob) {
        job.score = score;
        job.wanted = wanted;
        if (wanted) job.why = wanted_containers.at({depth, i});
        *best = std::move(job);
        found = true;
      } else if (made == KeyJobMaker::Made::kNoLevel) {
        for (size_t child : job_maker_.InTheWay(container)) blocking.insert({depth + 1, child});
      }
    }
  }
  TrieJob for_space;
  if ((!found || changed) && PickForSpace(&for_space) && (!found || for_space.score > best->score)) {
    *best = std::move(for_space);
    found = true;
  }
  // The estimate that it took for space has made the root, and what is full, another.
  if (!found && sizes_.root_files != root_files) return Pick(best);
  if (!found) return PickForScans(best);
  // What is chosen comes first: nothing smaller takes the room that it waits for.
  return ledger_.MayStart(*best, shape_->bytes());
}

bool KeyPicker::IsManuallyDone(const KeyContainer& container, uint64_t newest, uint64_t rewritten) const {
  const std::vector<const TrieFile*>& files = container.files;
  const auto came_later = [&](const TrieFile* file) { return file->number > newest; };
  if (std::all_of(files.begin(), files.end(), came_later)) return true;
  if (container.depth != shape_->trie().depth || container.slots != 1) return false;
  return std::all_of(files.begin(), files.end(), [&](const TrieFile* file) {
    return file->number > newest || (file->only_live && file->number > rewritten);
  });
}

ManualStep KeyPicker::PickManual(int depth, const KeyRange* range, uint64_t newest, TrieJob* job, uint64_t rewritten) {
  Refresh();
  ManualStep result = ManualStep::kDone;
  for (const KeyContainer& container : shape_->ContainersAt(depth)) {
    if (range != nullptr && !shape_->Overlap(container.range, *range)) continue;
    if (IsManuallyDone(container, newest, rewritten)) continue;
    result = ManualStep::kWait;
    if (job_maker_.MakeJobOrWay(container, job)) return ManualStep::kJob;
  }
  return result;
}

// --- Space -----------------------------------------------------------------------------------------------------------

const TrieSpace& KeyPicker::Space() {
  const TrieSpace& space = ledger_.Estimate(shape_->version(), shape_->bytes(), [this](double operand_share) {
    std::vector<PlacedFile> files;
    for (int depth = 0; depth <= shape_->trie().depth; ++depth) {
      const std::vector<KeyContainer>& containers = shape_->ContainersAt(depth);
      for (size_t i = 0; i < containers.size(); ++i) {
        for (const TrieFile* file : containers[i].files) files.push_back({file, {depth, i}});
      }
    }
    std::sort(files.begin(), files.end(), [](const PlacedFile& a, const PlacedFile& b) {
      return a.file->level != b.file->level ? a.file->level < b.file->level : IsNewerInRoot(*a.file, *b.file);
    });
    return EstimateSpace(files, operand_share, snapshots_);
  });
  Resize();
  return space;
}

void KeyPicker::SetSizes(uint64_t slack_bytes, uint64_t write_buffer_bytes) {
  slack_bytes_ = slack_bytes;
  write_buffer_bytes_ = write_buffer_bytes;
  Resize();
}

// Before anything is measured by the sizes, which are those of an empty trie until there is an estimate. True: the trie
// has changed since the last one.
bool KeyPicker::Refresh() {
  const bool changed = ledger_.HasChanged(shape_->bytes());
  if (changed) {
    Space();
  } else {
    Resize();  // the root may have files of another size
  }
  return changed;
}

// To what the latest estimate says is live, and what the root's files are.
void KeyPicker::Resize() {
  const KeyTrieOptions& trie = shape_->trie();
  const auto filled = static_cast<uint64_t>(NextFlush() / kLeastFill);
  const uint64_t live = ledger_.live(), garbage = shape_->bytes() - std::min(shape_->bytes(), live);
  const int files =
      RootFilesFor(trie, live, garbage, filled == 0 ? write_buffer_bytes_ : std::min(filled, write_buffer_bytes_));
  if (files != sizes_.root_files) moves_.RootChanged();
  sizes_ = KeySizes(trie, write_buffer_bytes_, RootFilesFor(trie, live, garbage, write_buffer_bytes_));
  sizes_.root_files = files;
  ledger_.SetSizes(slack_bytes_, sizes_.largest_job, files);
  scans_.SetGrant(sizes_.largest_job);
}

void KeyPicker::SetOldestSnapshot(uint64_t oldest_snapshot) {
  if (!snapshots_.SetOldest(oldest_snapshot)) return;
  ledger_.Outdate();
  moves_.SnapshotsChanged();
}

void KeyPicker::SetExpiredBefore(uint64_t stamp) {
  snapshots_.SetExpiredBefore(stamp);
  ledger_.Outdate();
  futile_.clear();
}

double KeyPicker::NextFlush() const {
  std::vector<uint64_t> sizes;
  for (const KeyContainer& root : shape_->ContainersAt(0)) {
    for (const TrieFile* file : root.files) sizes.push_back(file->bytes);
  }
  return SpaceLedger::NextFlush(std::move(sizes));
}

bool KeyPicker::IsFutile(const KeyContainer& container) const {
  return std::all_of(container.files.begin(), container.files.end(), [&](const TrieFile* file) {
    const auto found = futile_.find(file->number);
    return found != futile_.end() && found->second == snapshots_.oldest();
  });
}

// What becomes of it tells what snapshots keep, and what stays of operands that are folded. A part of a container frees
// what its own tables have in common; a table that is cut, nothing.
void KeyPicker::Expect(const KeyContainer& container, const ContainerSpace& space, TrieJob* job) const {
  if (job->kind == TrieJob::Kind::kSplit) return;
  if (job->inputs.size() == container.files.size()) {
    job->expected_bytes = std::min(job->input_bytes, space.merged);
    job->folded_bytes = space.folded;
    job->operand_share = ledger_.operand_share();
    return;
  }
  std::vector<const TrieFile*> files;
  for (uint64_t number : job->inputs) files.push_back(shape_->Find(number));
  const double share = MergedShare(files, IsLeaf(container), ledger_.operand_share(), snapshots_);
  job->expected_bytes = static_cast<uint64_t>(share * static_cast<double>(job->input_bytes));
}

bool KeyPicker::PickForSpace(TrieJob* job) {
  const TrieSpace& space = Space();
  return ledger_.Pick(NextFlush(), job, [&](TrieJob* best) { return PickForSpace(space, best); });
}

// `next`: the depth that it would be pushed to; 0: it would be merged.
KeyPicker::Gain KeyPicker::GainOf(const KeyContainer& container, int next, const ContainerSpace& own,
                                  const TrieSpace& space) const {
  Gain gain;
  gain.before = static_cast<double>(own.bytes);
  gain.after = gain.written = static_cast<double>(own.merged);
  if (next == 0) return gain;
  // A push frees little by itself: it lets the merges below free what it shadows there. What they would free without it
  // is theirs.
  gain.after -= static_cast<double>(own.folded_below);
  const auto [begin, end] = shape_->Overlapping(next, container.range);
  for (size_t child = begin; child < end; ++child) {
    const auto below = space.containers.find({next, child});
    if (below == space.containers.end()) continue;
    gain.before += static_cast<double>(below->second.merged);
    gain.after += static_cast<double>(below->second.after_parent);
  }
  gain.written += gain.after;
  return gain;
}

bool KeyPicker::PickForSpace(const TrieSpace& space, TrieJob* best) const {
  struct Candidate {
    double ratio;  // of bytes freed per byte written
    const KeyContainer* container;
    const ContainerSpace* own;
  };
  std::vector<Candidate> candidates;
  std::vector<Candidate> distant;  // with garbage at depths below the next only: it has to come closer
  for (int depth = 0; depth <= shape_->trie().depth; ++depth) {
    const std::vector<KeyContainer>& containers = shape_->ContainersAt(depth);
    for (size_t i = 0; i < containers.size(); ++i) {
      const KeyContainer& container = containers[i];
      const auto own = space.containers.find({depth, i});
      if (container.busy || own == space.containers.end() || IsFutile(container)) continue;
      const int next = shape_->NextDepthBelow(depth, container.range);
      const Gain gain = GainOf(container, next, own->second, space);
      const double freed = gain.before - gain.after;
      if (freed >= kSpaceWorthwhile * gain.before) {
        candidates.push_back({freed / std::max(gain.written, 1.0), &container, &own->second});
      } else if (next != 0) {
        const double share = static_cast<double>(own->second.shadowing) / static_cast<double>(own->second.bytes);
        if (share > kSpaceWorthwhile) distant.push_back({share, &container, &own->second});
      }
    }
  }
  for (std::vector<Candidate>* some : {&candidates, &distant}) {
    std::sort(some->begin(), some->end(), [](const Candidate& a, const Candidate& b) { return a.ratio > b.ratio; });
    for (const Candidate& candidate : *some) {
      if (job_maker_.MakeJob(*candidate.container, best) != KeyJobMaker::Made::kJob) continue;
      Expect(*candidate.container, *candidate.own, best);
      best->for_space = true;
      return true;
    }
  }
  return false;
}

// --- Scans -----------------------------------------------------------------------------------------------------------

bool KeyPicker::HasScanNews() const { return scans_.HasNews(std::max(sizes_.least, shape_->bytes() / 1024)); }

// Of what seeks have read of these files, what they would not have if all were one: all but the slot most read.
uint64_t KeyPicker::ReadInVain(const std::vector<const TrieFile*>& files,
                               const std::unordered_map<uint64_t, uint64_t>& read) const {
  std::map<std::pair<int, uint64_t>, uint64_t> slots;  // of the root, files
  uint64_t all = 0, most = 0;
  for (const TrieFile* file : files) {
    const auto found = read.find(file->number);
    if (found == read.end()) continue;
    all += found->second;
    uint64_t& slot = slots[{file->level, file->level == 0 ? file->number : 0}];
    most = std::max(most, slot += found->second);
  }
  return all - most;
}

// None while the root waits or the space bound is near: it would take time and room from compactions that have to be.
bool KeyPicker::PickForScans(TrieJob* best) {
  if (!HasScanNews() || SpacePressure() > 0) return false;
  const std::vector<KeyContainer>& root = shape_->ContainersAt(0);
  if (!root.empty() && (root.front().busy || IsFull(root.front()))) return false;
  const std::unordered_map<uint64_t, uint64_t> read = scans_.Look();
  std::set<std::pair<int, size_t>> containers;
  for (const auto& [number, bytes] : read) {
    const TrieFile* const file = shape_->Find(number);
    if (file != nullptr) containers.insert(PlaceOf(*file));
  }
  bool found = false;
  for (const auto& [depth, place] : containers) {
    const KeyContainer& container = shape_->ContainersAt(depth)[place];
    const uint64_t in_vain = ReadInVain(container.files, read);
    if (container.busy || in_vain < std::min(container.bytes, sizes_.unit)) continue;
    TrieJob job;
    if (job_maker_.MakeScanMerge(container, &job) != KeyJobMaker::Made::kJob) continue;
    std::vector<const TrieFile*> files;
    for (uint64_t number : job.inputs) files.push_back(shape_->Find(number));
    uint64_t written = job.input_bytes;
    if (depth == 0) {
      // Each slot brings what lies below nearer to its own compaction.
      uint64_t below = 0;
      for (int d = 1; d <= shape_->trie().depth; ++d) below += shape_->BytesIn(d, job.runs.front().range);
      written += below / static_cast<uint64_t>(TriggerOf(shape_->trie()));
    }
    const double score = static_cast<double>(ReadInVain(files, read)) / static_cast<double>(written);
    if (score < 1 || (found && score <= best->score)) continue;
    if (!scans_.MayWrite(job.input_bytes) || !ledger_.HasRoom(job, shape_->bytes())) continue;
    job.for_scans = true;
    job.score = score;
    *best = std::move(job);
    found = true;
  }
  if (found) {
    best->score = 0;  // whatever is due elsewhere comes first
  } else {
    scans_.SawNothing();
  }
  return found;
}

double KeyPicker::SpacePressure() {
  if (!ledger_.CanFree()) return 0;
  Refresh();
  return ledger_.Pressure(shape_->bytes(), NextFlush());
}

void KeyPicker::Started(const TrieJob& job) {
  ledger_.Started(job);
  if (job.for_scans) scans_.Started();
}

void KeyPicker::Finished(const TrieJob& job, bool ok, uint64_t output_bytes, uint64_t oldest_snapshot) {
  ledger_.Finished(job, ok);
  if (job.for_scans) scans_.Finished(output_bytes);
  SetOldestSnapshot(oldest_snapshot);
  moves_.Finished(job, ok);
  if (job.kind == TrieJob::Kind::kDrop) return;
  job_maker_.Finished(job, ok);
  if (ok && output_bytes > 0 &&
      snapshots_.Learn(job, output_bytes, shape_->FilesIn(job.output_level, job.runs.front().range))) {
    ledger_.Outdate();
  }
  for (uint64_t number : job.inputs) {
    if (shape_->Contains(number)) continue;
    futile_.erase(number);
    snapshots_.Forget(number);
  }
  if (!ok || (!job.for_space && !job.wanted)) return;
  if (job.for_space) {
    ledger_.Learn(job, output_bytes);
    if (!SpaceLedger::FreedTooLittle(job, output_bytes)) return;
  }
  for (const TrieFile* file : shape_->FilesIn(job.output_level, job.runs.front().range)) {
    futile_[file->number] = oldest_snapshot;
  }
}

std::map<int, DueContainers> KeyPicker::PendingByDepth() {
  Refresh();
  std::map<int, DueContainers> pending;
  for (int depth = 0; depth <= shape_->trie().depth; ++depth) {
    for (const KeyContainer& container : shape_->ContainersAt(depth)) {
      if (container.busy || !IsFull(container)) continue;
      ++pending[depth].containers;
      pending[depth].bytes += container.bytes;
    }
  }
  return pending;
}

}  // namespace cairn
