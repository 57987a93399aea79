#include "trie_table/compaction/key_picker.h"

#include <algorithm>
#include <iterator>
#include <memory>
#include <set>
#include <utility>

#include "table/trie_rules.h"

namespace cairn {

namespace {

constexpr double kMoveScore = 100;

// More: writers wait longer, and bytes are written for space, because less garbage is left for compactions to find. Less:
// bytes are written for the root (docs/design/ordered_trie.md).
constexpr double kRootOfGarbage = 2.0 / 9;
constexpr int kLeastRootFiles = 3;
// Of the room that there is now, where that is more. Less: a trie that grows, whose keys are mostly new, writes small roots
// for no garbage. More: what a compaction of the root writes is more than the room that made it large.
constexpr double kRootOfRoom = 0.6;

// What a file of the root takes of a write buffer. Less, as where memory is short or somebody flushes, is so much less
// garbage, and the root has as many more files: else each three of them would become slots of whatever they lie over.
constexpr double kLeastFill = 0.5;

}  // namespace

int RootFilesFor(const KeyTrieOptions& trie, uint64_t live_bytes, uint64_t garbage_bytes, uint64_t file_bytes) {
  const double allowed = (trie.space_bound - 1) * static_cast<double>(live_bytes);
  const double room = allowed - static_cast<double>(garbage_bytes);
  const double root = std::max(kRootOfGarbage * allowed, kRootOfRoom * room);
  const double files = root / static_cast<double>(std::max<uint64_t>(file_bytes, 1));
  const int least = std::min(kLeastRootFiles, trie.root_trigger);
  return static_cast<int>(std::clamp<double>(files, least, trie.root_trigger));
}

KeySizes::KeySizes(const KeyTrieOptions& trie, uint64_t write_buffer_bytes, int files)
    : root_files(files),
      unit(std::max<uint64_t>(write_buffer_bytes, 1) * static_cast<uint64_t>(files)),
      table(std::max<uint64_t>(unit / static_cast<uint64_t>(trie.fan_out), 1)),
      least(std::max<uint64_t>(table / 8, 1)),
      most(2 * table),
      joined(unit / 2),
      largest_job(unit + unit / 8) {}

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

KeyRange KeyPicker::RangeOf(const std::vector<const TrieFile*>& files) const {
  KeyRange range = KeyShape::RangeOf(*files.front());
  for (const TrieFile* file : files) shape_->Widen(&range, *file);
  return range;
}

// --- Tables that range deletions cover -------------------------------------------------------------------------------

// Those below the table that deletes them, whose compactions do not read them at the moment.
bool KeyPicker::PickDrops(TrieJob* job) {
  *job = TrieJob();
  std::set<uint64_t> found;
  for (const uint64_t number : shape_->deleting()) {
    if (dropped_.count(number) != 0) continue;
    const TrieFile& deleting = *shape_->Find(number);
    const KeyRange range{deleting.deleted->front().first, deleting.deleted->back().end, true};
    Dropped found_none = Dropped::kAll;
    const size_t found_before = job->moves.size();
    for (int level = deleting.level + 1; level <= shape_->LastLevel(shape_->trie().depth); ++level) {
      for (const TrieFile* file : shape_->FilesIn(level, range)) {
        const uint64_t deleted_at = shape_->DeletedAt(deleting, *file);
        if (deleted_at == 0) continue;
        if (shape_->IsInput(file->number) || !found.insert(file->number).second) {
          found_none = Dropped::kBusy;
        } else {
          job->moves.push_back({file->number, level, TableMove::kNowhere, number, deleted_at});
          job->inputs.push_back(file->number);
          job->input_bytes += file->bytes;
          job->runs.push_back({KeyShape::RangeOf(*file), level, level});
        }
      }
    }
    // Where some were found, the job's end tells: it may be chosen and not started.
    if (job->moves.size() == found_before) dropped_[number] = found_none;
  }
  job->kind = TrieJob::Kind::kDrop;
  job->score = kMoveScore;
  return !job->moves.empty();
}

// --- Moves -----------------------------------------------------------------------------------------------------------

// Down to what lies under it: within its depth, and to the deepest depth if nothing does.
int KeyPicker::LowestFreeLevel(const TrieFile& file) const {
  const KeyRange range = KeyShape::RangeOf(file);
  const int below = shape_->FirstLevelIn(file.level + 1, range);
  const int last = shape_->LastLevel(shape_->trie().depth);
  if (below > last) return last;
  return std::min(below - 1, shape_->LastLevel(DepthOfLevel(shape_->trie(), file.level)));
}

bool KeyPicker::AddMove(const TrieFile& file, int level, TrieJob* job) const {
  const KeyShape::Run run{KeyShape::RangeOf(file), file.level, level};
  if (level <= file.level || shape_->Conflicts(run)) return false;
  // By (4) of key_shape.h it must not leave its neighbour.
  if (file.level > 0 && shape_->FilesIn(file.level, run.range).size() > 1) return false;
  job->runs.push_back(run);
  job->moves.push_back({file.number, file.level, level, 0, 0});
  job->inputs.push_back(file.number);
  job->input_bytes += file.bytes;
  return true;
}

// Of a root that is due, the tables that lie over nothing. Where all do, as in a sequential load, nothing is left of it
// to be compacted. Small ones are worth merging.
void KeyPicker::MoveOffRoot(TrieJob* job) const {
  const std::vector<KeyContainer>& root = shape_->ContainersAt(0);
  if (root.empty() || root.front().busy || !IsFull(root.front())) return;
  std::vector<const TrieFile*> files = root.front().files;
  const rocksdb::Comparator* const order = shape_->comparator();
  std::sort(files.begin(), files.end(),
            [order](const TrieFile* a, const TrieFile* b) { return order->Compare(a->smallest, b->smallest) < 0; });
  const int last = shape_->LastLevel(shape_->trie().depth);
  const TrieFile* furthest = nullptr;  // of those before, the one that ends last
  for (size_t i = 0; i < files.size(); ++i) {
    const TrieFile& file = *files[i];
    const bool alone = (furthest == nullptr || order->Compare(furthest->largest, file.smallest) < 0) &&
                       (i + 1 == files.size() || order->Compare(file.largest, files[i + 1]->smallest) < 0);
    if (furthest == nullptr || order->Compare(furthest->largest, file.largest) < 0) furthest = &file;
    if (!alone || file.bytes < sizes_.least) continue;
    if (shape_->FirstLevelIn(1, KeyShape::RangeOf(file)) > last) AddMove(file, last, job);
  }
}

bool KeyPicker::PickMoves(TrieJob* job) {
  *job = TrieJob();
  if (moves_ == Moves::kRewrite || nothing_to_move_at_ == shape_->version()) return false;
  MoveOffRoot(job);
  for (int depth = shape_->trie().depth; depth >= 1; --depth) {
    for (const KeyContainer& container : shape_->ContainersAt(depth)) {
      for (const TrieFile* file : container.files) {
        if (container.busy || file->level == shape_->LastLevel(shape_->trie().depth)) continue;
        AddMove(*file, LowestFreeLevel(*file), job);
      }
    }
  }
  job->kind = TrieJob::Kind::kMove;
  job->score = kMoveScore;
  job->expected_bytes = job->input_bytes;
  if (job->moves.empty()) nothing_to_move_at_ = shape_->version();
  return !job->moves.empty();
}

// --- Compactions -----------------------------------------------------------------------------------------------------

// The deepest depth from which what lies below the range can be reached in steps of fan_out, each of a full container.
int KeyPicker::DepthFor(int depth, int next, const KeyRange& range) const {
  const KeyTrieOptions& trie = shape_->trie();
  uint64_t below = 0;
  for (int d = depth + 1; d <= trie.depth; ++d) below += shape_->BytesIn(d, range);
  int wanted = trie.depth;
  for (double reach = static_cast<double>(sizes_.unit) * trie.fan_out; static_cast<double>(below) > reach;
       reach *= trie.fan_out) {
    --wanted;
  }
  return std::clamp(wanted, depth + 1, next == 0 ? trie.depth : next);
}

std::shared_ptr<const KeyCuts> KeyPicker::CutsAt(int depth, const KeyRange& range, bool joins) const {
  auto cuts = std::make_shared<KeyCuts>();
  cuts->least_free_bytes = sizes_.least;
  cuts->least_bytes = joins ? sizes_.least : sizes_.table;
  cuts->table_bytes = sizes_.table;
  cuts->most_bytes = sizes_.most;
  cuts->joined_bytes = sizes_.joined;
  if (depth == 0) return cuts;
  const std::vector<KeyContainer>& containers = shape_->ContainersAt(depth);
  const auto [begin, end] = shape_->Overlapping(depth, range);
  for (size_t i = begin; i < end; ++i) {
    cuts->below.push_back({containers[i].range.first, containers[i].range.last, joins ? containers[i].bytes : 0});
  }
  return cuts;
}

KeyPicker::Made KeyPicker::Fill(const KeyContainer& container, std::vector<const TrieFile*> files, int output_level,
                                TrieJob* job) const {
  *job = TrieJob();
  job->id = {container.depth, 0};
  job->output_level = output_level;
  KeyShape::Run run{RangeOf(files), files.front()->level, output_level};
  for (const TrieFile* file : files) {
    job->inputs.push_back(file->number);
    job->input_bytes += file->bytes;
    run.top_level = std::min(run.top_level, file->level);
  }
  job->expected_bytes = job->input_bytes;
  job->runs.push_back(run);
  return shape_->Conflicts(run) ? Made::kConflict : Made::kJob;
}

// The oldest of the container up to the largest job, whole slots unless one is larger than that. What is newer lies
// above, and may stay.
std::vector<const TrieFile*> KeyPicker::OldestFiles(const KeyContainer& container) const {
  std::vector<const TrieFile*> files;
  uint64_t bytes = 0;
  for (auto it = container.files.rbegin(); it != container.files.rend();) {
    auto end = it;
    uint64_t slot = 0;
    do {
      slot += (*end++)->bytes;
    } while (container.depth != 0 && end != container.files.rend() && (*end)->level == (*it)->level);
    if (!files.empty() && bytes + slot > sizes_.largest_job) break;
    for (; it != end && (files.empty() || bytes + (*it)->bytes <= sizes_.largest_job); ++it) {
      files.push_back(*it);
      bytes += (*it)->bytes;
    }
    if (it != end) break;
  }
  std::reverse(files.begin(), files.end());
  return files;
}

KeyPicker::Made KeyPicker::MakePush(const KeyContainer& container, TrieJob* job) const {
  const KeyTrieOptions& trie = shape_->trie();
  const std::vector<const TrieFile*> files = OldestFiles(container);
  const KeyRange range = RangeOf(files);
  const int next = shape_->NextDepthBelow(container.depth, range);
  int depth = DepthFor(container.depth, next, range);
  int level = shape_->LastLevel(depth);
  if (depth == next) {
    level = shape_->FirstLevelIn(FirstLevelOfDepth(trie, depth), range) - 1;
    if (level < FirstLevelOfDepth(trie, depth)) {
      if (--depth == container.depth) return Made::kNoLevel;
      level = shape_->LastLevel(depth);
    }
  }
  const Made made = Fill(container, files, level, job);
  job->kind = container.depth == 0 ? TrieJob::Kind::kRoot : TrieJob::Kind::kPush;
  job->cuts = CutsAt(next, range, depth == next);
  return made;
}

// `file` and what lies beneath it at its depth, as RocksDB would choose for a compaction into the last level: from level
// to level what lies under those above. What lies over others of them is newer, and may stay.
std::vector<const TrieFile*> KeyPicker::WithAllBelow(const TrieFile& file) const {
  std::vector<const TrieFile*> files{&file};
  KeyRange range = KeyShape::RangeOf(file);
  for (int level = file.level; level <= shape_->LastLevel(DepthOfLevel(shape_->trie(), file.level)); ++level) {
    const size_t above = level == file.level ? 0 : files.size();
    size_t in_level = 0;
    while (true) {  // by (4) of key_shape.h, tables of a level may share a key
      const std::vector<const TrieFile*> in = shape_->FilesIn(level, range);
      if (in.size() <= in_level) break;
      in_level = in.size();
      files.resize(above);
      files.insert(files.end(), in.begin(), in.end());
      for (const TrieFile* other : in) shape_->Widen(&range, *other);
    }
  }
  return files;
}

// A table of one user key is never cut; by (4) of key_shape.h it may lie over several all the same. Nor is a range
// deletion that a snapshot keeps at the last level of all.
bool KeyPicker::CanSplit(const TrieFile& file) const {
  return whole_.count(file.number) == 0 && shape_->comparator()->Compare(file.smallest, file.largest) != 0;
}

// Cuts a table into parts that have their own files of `level` below or above them. REQUIRES: more than one of these lie
// over the table.
KeyPicker::Made KeyPicker::MakeSplit(const TrieFile& file, int level, TrieJob* job) const {
  KeyContainer only;
  only.depth = DepthOfLevel(shape_->trie(), file.level);
  const Made made = Fill(only, {&file}, file.level, job);
  job->kind = TrieJob::Kind::kSplit;
  auto cuts = std::make_shared<KeyCuts>(*CutsAt(0, {}, true));
  uint64_t bytes = 0;
  for (const TrieFile* other : shape_->FilesIn(level, KeyShape::RangeOf(file))) {
    cuts->below.push_back({other->smallest, other->largest, other->bytes});
    bytes += other->bytes;
  }
  cuts->joined_bytes = std::min(cuts->joined_bytes, bytes / 2);  // so that it is cut at all
  job->cuts = std::move(cuts);
  return made;
}

// Into tables of the deepest depth. In a container that is too large for that, a table lies over several others, or
// several over one: they are cut to each other's measure first.
KeyPicker::Made KeyPicker::MakeMerge(const KeyContainer& container, TrieJob* job) const {
  std::vector<const TrieFile*> files = OldestFiles(container);
  const int oldest = container.files.back()->level;
  const bool whole = files.size() == container.files.size();
  const bool merges =
      std::any_of(files.begin(), files.end(), [&](const TrieFile* file) { return file->level != oldest; });
  // In one level lie tables, too, that have the versions of a key in common: a part of them is written by itself.
  if (!whole && !merges && container.slots > 1) {
    const auto over = std::find_if(container.files.rbegin(), container.files.rend(),
                                   [&](const TrieFile* file) { return file->level != oldest; });
    files = WithAllBelow(**over);
    uint64_t bytes = 0;
    for (const TrieFile* file : files) bytes += file->bytes;
    if (bytes > sizes_.largest_job) {
      // None, if it belongs to the container by what lies over it only.
      const std::vector<const TrieFile*> under = shape_->FilesIn(oldest, KeyShape::RangeOf(**over));
      if (under.size() > 1 && CanSplit(**over)) return MakeSplit(**over, oldest, job);
      if (!under.empty() && CanSplit(*under.front()) &&
          shape_->FilesIn((*over)->level, KeyShape::RangeOf(*under.front())).size() > 1) {
        return MakeSplit(*under.front(), (*over)->level, job);
      }
    }
  }
  const Made made = Fill(container, files, shape_->LastLevel(container.depth), job);
  job->kind = TrieJob::Kind::kMerge;
  job->cuts = CutsAt(0, {}, false);
  return made;
}

KeyPicker::Made KeyPicker::MakeJob(const KeyContainer& container, TrieJob* job) const {
  const bool merges = container.depth == shape_->trie().depth;
  return merges ? MakeMerge(container, job) : MakePush(container, job);
}

// Of a container that comes to no job for want of a level: those of the depth right below, by their place there, that take
// its first one and have to move.
std::vector<size_t> KeyPicker::InTheWay(const KeyContainer& container) const {
  const int depth = container.depth + 1;
  const int first = FirstLevelOfDepth(shape_->trie(), depth);
  std::vector<size_t> children;
  const auto [begin, end] = shape_->Overlapping(depth, RangeOf(OldestFiles(container)));
  for (size_t child = begin; child < end; ++child) {
    if (shape_->ContainersAt(depth)[child].files.front()->level == first) children.push_back(child);
  }
  return children;
}

// A job of the container, or of what is in its way, which may have no other reason to be written.
bool KeyPicker::MakeJobOrWay(const KeyContainer& container, TrieJob* job) const {
  if (container.busy) return false;
  const Made made = MakeJob(container, job);
  if (made != Made::kNoLevel) return made == Made::kJob;
  const std::vector<KeyContainer>& below = shape_->ContainersAt(container.depth + 1);
  const std::vector<size_t> children = InTheWay(container);
  return std::any_of(children.begin(), children.end(), [&](size_t child) { return MakeJobOrWay(below[child], job); });
}

bool KeyPicker::Pick(TrieJob* best) {
  const bool changed = Refresh();
  const int root_files = sizes_.root_files;
  if (PickDrops(best) || PickMoves(best)) return true;
  bool found = false;
  std::set<std::pair<int, size_t>> blocking;  // filled by containers above, which come first
  for (int depth = 0; depth <= shape_->trie().depth; ++depth) {
    const std::vector<KeyContainer>& containers = shape_->ContainersAt(depth);
    for (size_t i = 0; i < containers.size(); ++i) {
      const KeyContainer& container = containers[i];
      const bool blocks = blocking.count({depth, i}) != 0;
      if (container.busy || (!blocks && !IsFull(container))) continue;
      const double score = Score(container) + (blocks ? 10 : 0);
      if (found && score <= best->score) continue;
      TrieJob job;
      const Made made = MakeJob(container, &job);
      if (made == Made::kJob) {
        job.score = score;
        *best = std::move(job);
        found = true;
      } else if (made == Made::kNoLevel) {
        for (size_t child : InTheWay(container)) blocking.insert({depth + 1, child});
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
    if (MakeJobOrWay(container, job)) return ManualStep::kJob;
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

// Before anything is measured by the sizes, which are those of an empty trie until there is an estimate. True: the trie has
// changed since the last one.
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
  if (files != sizes_.root_files) nothing_to_move_at_ = UINT64_MAX;
  sizes_ = KeySizes(trie, write_buffer_bytes_, RootFilesFor(trie, live, garbage, write_buffer_bytes_));
  sizes_.root_files = files;
  ledger_.SetSizes(slack_bytes_, sizes_.largest_job, files);
  scans_.SetGrant(sizes_.largest_job);
}

void KeyPicker::SetOldestSnapshot(uint64_t oldest_snapshot) {
  if (!snapshots_.SetOldest(oldest_snapshot)) return;
  ledger_.Outdate();
  for (auto it = dropped_.begin(); it != dropped_.end();) {
    it = it->second == Dropped::kSnapshot ? dropped_.erase(it) : std::next(it);
  }
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

// What becomes of it tells what snapshots keep, and what stays of operands that are folded. A part of a container frees what
// its own tables have in common; a table that is cut, nothing.
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
      double before = static_cast<double>(own->second.bytes);
      double after = static_cast<double>(own->second.merged);
      double written = after;
      const int next = shape_->NextDepthBelow(depth, container.range);
      if (next != 0) {
        // A push frees little by itself: it lets the merges below free what it shadows there. What they would free
        // without it is theirs.
        after -= static_cast<double>(own->second.folded_below);
        const auto [begin, end] = shape_->Overlapping(next, container.range);
        for (size_t child = begin; child < end; ++child) {
          const auto below = space.containers.find({next, child});
          if (below == space.containers.end()) continue;
          before += static_cast<double>(below->second.merged);
          after += static_cast<double>(below->second.after_parent);
        }
        written += after;
      }
      const double freed = before - after;
      if (freed >= kSpaceWorthwhile * before) {
        candidates.push_back({freed / std::max(written, 1.0), &container, &own->second});
      } else if (next != 0) {
        const double share = static_cast<double>(own->second.shadowing) / static_cast<double>(own->second.bytes);
        if (share > kSpaceWorthwhile) distant.push_back({share, &container, &own->second});
      }
    }
  }
  for (std::vector<Candidate>* some : {&candidates, &distant}) {
    std::sort(some->begin(), some->end(), [](const Candidate& a, const Candidate& b) { return a.ratio > b.ratio; });
    for (const Candidate& candidate : *some) {
      if (MakeJob(*candidate.container, best) != Made::kJob) continue;
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

// In place: what is pushed later is the same in fewer slots. With nothing below, and in the root, the job is that of a
// full one.
KeyPicker::Made KeyPicker::MakeScanMerge(const KeyContainer& container, TrieJob* job) const {
  const int next = shape_->NextDepthBelow(container.depth, container.range);
  if (container.depth == 0 || next == 0) return MakeJob(container, job);
  const std::vector<const TrieFile*> files = OldestFiles(container);
  const Made made = Fill(container, files, container.files.back()->level, job);
  job->kind = TrieJob::Kind::kMerge;
  job->cuts = CutsAt(next, RangeOf(files), false);
  return made;
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
    if (file == nullptr) continue;
    const int depth = DepthOfLevel(shape_->trie(), file->level);
    containers.insert({depth, depth == 0 ? 0 : shape_->Overlapping(depth, KeyShape::RangeOf(*file)).first});
  }
  bool found = false;
  for (const auto& [depth, place] : containers) {
    const KeyContainer& container = shape_->ContainersAt(depth)[place];
    const uint64_t in_vain = ReadInVain(container.files, read);
    if (container.busy || in_vain < std::min(container.bytes, sizes_.unit)) continue;
    TrieJob job;
    if (MakeScanMerge(container, &job) != Made::kJob) continue;
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
  if (job.kind == TrieJob::Kind::kDrop) {
    for (const TableMove& move : job.moves) dropped_.erase(move.deleted_by);
    for (const TableMove& move : job.moves) {
      if (ok && shape_->Contains(move.number)) dropped_[move.deleted_by] = Dropped::kSnapshot;
    }
    return;
  }
  for (auto it = dropped_.begin(); it != dropped_.end();) {
    it = it->second == Dropped::kBusy || !shape_->Contains(it->first) ? dropped_.erase(it) : std::next(it);
  }
  if (job.kind == TrieJob::Kind::kSplit && ok) {
    const std::vector<const TrieFile*> parts = shape_->FilesIn(job.output_level, job.runs.front().range);
    if (parts.size() == 1) whole_.insert(parts.front()->number);
  }
  // What is in the way of a move that failed may be there for long: compactions go on meanwhile.
  if (job.kind == TrieJob::Kind::kMove) nothing_to_move_at_ = ok ? UINT64_MAX : shape_->version();
  if (ok && output_bytes > 0 &&
      snapshots_.Learn(job, output_bytes, shape_->FilesIn(job.output_level, job.runs.front().range))) {
    ledger_.Outdate();
  }
  for (uint64_t number : job.inputs) {
    if (shape_->Contains(number)) continue;
    futile_.erase(number);
    snapshots_.Forget(number);
    whole_.erase(number);
  }
  if (!ok || !job.for_space) return;
  ledger_.Learn(job, output_bytes);
  if (!SpaceLedger::FreedTooLittle(job, output_bytes)) return;
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
