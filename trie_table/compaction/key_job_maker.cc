#include "trie_table/compaction/key_job_maker.h"

#include <algorithm>
#include <utility>

namespace cairn {

KeyRange KeyJobMaker::RangeOf(const std::vector<const TrieFile*>& files) const {
  KeyRange range = KeyShape::RangeOf(*files.front());
  for (const TrieFile* file : files) shape_->Widen(&range, *file);
  return range;
}

// The deepest depth from which what lies below the range can be reached in steps of fan_out, each of a full container.
int KeyJobMaker::DepthFor(int depth, int next, const KeyRange& range) const {
  const KeyTrieOptions& trie = shape_->trie();
  uint64_t below = 0;
  for (int d = depth + 1; d <= trie.depth; ++d) below += shape_->BytesIn(d, range);
  int wanted = trie.depth;
  for (double reach = static_cast<double>(sizes_->unit) * trie.fan_out; static_cast<double>(below) > reach;
       reach *= trie.fan_out) {
    --wanted;
  }
  return std::clamp(wanted, depth + 1, next == 0 ? trie.depth : next);
}

std::shared_ptr<const KeyCuts> KeyJobMaker::CutsAt(int depth, const KeyRange& range, bool joins) const {
  auto cuts = std::make_shared<KeyCuts>();
  cuts->least_free_bytes = sizes_->least;
  cuts->least_bytes = joins ? sizes_->least : sizes_->table;
  cuts->table_bytes = sizes_->table;
  cuts->most_bytes = sizes_->most;
  cuts->joined_bytes = sizes_->joined;
  if (depth == 0) return cuts;
  const std::vector<KeyContainer>& containers = shape_->ContainersAt(depth);
  const auto [begin, end] = shape_->Overlapping(depth, range);
  for (size_t i = begin; i < end; ++i) {
    cuts->below.push_back({containers[i].range.first, containers[i].range.last, joins ? containers[i].bytes : 0});
  }
  return cuts;
}

KeyJobMaker::Made KeyJobMaker::Fill(const KeyContainer& container, std::vector<const TrieFile*> files, int output_level,
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

// Of a slot the table that was written first and what follows it, up to the largest job. So every table has its turn.
std::vector<const TrieFile*> KeyJobMaker::FirstWritten(const std::vector<const TrieFile*>& slot) const {
  auto it = std::min_element(slot.begin(), slot.end(),
                             [](const TrieFile* a, const TrieFile* b) { return a->number < b->number; });
  std::vector<const TrieFile*> files;
  uint64_t bytes = 0;
  for (; it != slot.end() && (files.empty() || bytes + (*it)->bytes <= sizes_->largest_job); ++it) {
    files.push_back(*it);
    bytes += (*it)->bytes;
  }
  return files;
}

// The oldest of the container up to the largest job, whole slots unless one is larger than that. What is newer lies
// above, and may stay.
std::vector<const TrieFile*> KeyJobMaker::OldestFiles(const KeyContainer& container) const {
  if (container.depth != 0 && container.slots == 1 && container.bytes > sizes_->largest_job) {
    return FirstWritten(container.files);
  }
  std::vector<const TrieFile*> files;
  uint64_t bytes = 0;
  for (auto it = container.files.rbegin(); it != container.files.rend();) {
    auto end = it;
    uint64_t slot = 0;
    do {
      slot += (*end++)->bytes;
    } while (container.depth != 0 && end != container.files.rend() && (*end)->level == (*it)->level);
    if (!files.empty() && bytes + slot > sizes_->largest_job) break;
    for (; it != end && (files.empty() || bytes + (*it)->bytes <= sizes_->largest_job); ++it) {
      files.push_back(*it);
      bytes += (*it)->bytes;
    }
    if (it != end) break;
  }
  std::reverse(files.begin(), files.end());
  return files;
}

KeyJobMaker::Made KeyJobMaker::MakePush(const KeyContainer& container, TrieJob* job) const {
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

// `file` and what lies beneath it at its depth, as RocksDB would choose for a compaction into the last level: from
// level to level what lies under those above. What lies over others of them is newer, and may stay.
std::vector<const TrieFile*> KeyJobMaker::WithAllBelow(const TrieFile& file) const {
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
bool KeyJobMaker::CanSplit(const TrieFile& file) const {
  return whole_.count(file.number) == 0 && shape_->comparator()->Compare(file.smallest, file.largest) != 0;
}

// Cuts a table into parts that have their own files of `level` below or above them. REQUIRES: more than one of these
// lie over the table.
KeyJobMaker::Made KeyJobMaker::MakeSplit(const TrieFile& file, int level, TrieJob* job) const {
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
KeyJobMaker::Made KeyJobMaker::MakeMerge(const KeyContainer& container, TrieJob* job) const {
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
    if (bytes > sizes_->largest_job) {
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

KeyJobMaker::Made KeyJobMaker::MakeJob(const KeyContainer& container, TrieJob* job) const {
  const bool merges = container.depth == shape_->trie().depth;
  return merges ? MakeMerge(container, job) : MakePush(container, job);
}

// Of a container that comes to no job for want of a level: those of the depth right below, by their place there, that
// take its first one and have to move.
std::vector<size_t> KeyJobMaker::InTheWay(const KeyContainer& container) const {
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
bool KeyJobMaker::MakeJobOrWay(const KeyContainer& container, TrieJob* job) const {
  if (container.busy) return false;
  const Made made = MakeJob(container, job);
  if (made != Made::kNoLevel) return made == Made::kJob;
  const std::vector<KeyContainer>& below = shape_->ContainersAt(container.depth + 1);
  const std::vector<size_t> children = InTheWay(container);
  return std::any_of(children.begin(), children.end(), [&](size_t child) { return MakeJobOrWay(below[child], job); });
}

// In place: what is pushed later is the same in fewer slots. With nothing below, and in the root, the job is that of a
// full one.
KeyJobMaker::Made KeyJobMaker::MakeScanMerge(const KeyContainer& container, TrieJob* job) const {
  const int next = shape_->NextDepthBelow(container.depth, container.range);
  if (container.depth == 0 || next == 0) return MakeJob(container, job);
  const std::vector<const TrieFile*> files = OldestFiles(container);
  const Made made = Fill(container, files, container.files.back()->level, job);
  job->kind = TrieJob::Kind::kMerge;
  job->cuts = CutsAt(next, RangeOf(files), false);
  return made;
}

void KeyJobMaker::Finished(const TrieJob& job, bool ok) {
  if (job.kind == TrieJob::Kind::kSplit && ok) {
    const std::vector<const TrieFile*> parts = shape_->FilesIn(job.output_level, job.runs.front().range);
    if (parts.size() == 1) whole_.insert(parts.front()->number);
  }
  for (uint64_t number : job.inputs) {
    if (!shape_->Contains(number)) whole_.erase(number);
  }
}

namespace {

// More: writers wait longer, and bytes are written for space, because less garbage is left for compactions to find.
// Less: bytes are written for the root (docs/design/ordered_trie.md).
constexpr double kRootOfGarbage = 2.0 / 9;
constexpr int kLeastRootFiles = 3;
// Of the room that there is now, where that is more. Less: a trie that grows, whose keys are mostly new, writes small
// roots for no garbage. More: what a compaction of the root writes is more than the room that made it large.
constexpr double kRootOfRoom = 0.6;

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

}  // namespace cairn
