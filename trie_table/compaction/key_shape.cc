#include "trie_table/compaction/key_shape.h"

#include "util/rocksdb_names.h"

#include <algorithm>
#include <utility>

namespace cairn {

KeyShape::KeyShape(const KeyTrieOptions& trie, const rocksdb::Comparator* comparator, LastOfAll last)
    : trie_(trie),
      comparator_(comparator),
      last_(last),
      levels_(static_cast<size_t>(TrieLevels(trie)), Level(BySmallest{comparator})),
      containers_(static_cast<size_t>(trie.depth) + 1),
      stale_(static_cast<size_t>(trie.depth) + 1, false) {}

int KeyShape::LastLevel(int depth) const {
  return LastLevelOfDepth(trie_, depth) - (last_ == LastOfAll::kReserved && depth == trie_.depth ? 1 : 0);
}

int KeyShape::LevelOf(uint64_t number) const {
  const TrieFile* file = Find(number);
  return file == nullptr ? -1 : file->level;
}

const TrieFile* KeyShape::Find(uint64_t number) const {
  const auto found = files_.find(number);
  return found == files_.end() ? nullptr : &found->second;
}

std::vector<uint64_t> KeyShape::Numbers() const {
  std::vector<uint64_t> numbers;
  numbers.reserve(files_.size());
  for (const auto& [number, file] : files_) numbers.push_back(number);
  return numbers;
}

void KeyShape::Add(const TrieFile& file) {
  const auto [added, is_new] = files_.emplace(file.number, file);
  if (!is_new) return;
  levels_[static_cast<size_t>(file.level)].insert(&added->second);
  if (file.deleted != nullptr) deleting_.insert(file.number);
  bytes_ += file.bytes;
  ++version_;
  stale_[static_cast<size_t>(DepthOfLevel(trie_, file.level))] = true;
}

void KeyShape::Remove(uint64_t number) {
  const auto found = files_.find(number);
  if (found == files_.end()) return;
  levels_[static_cast<size_t>(found->second.level)].erase(&found->second);
  bytes_ -= found->second.bytes;
  deleting_.erase(number);
  ++version_;
  stale_[static_cast<size_t>(DepthOfLevel(trie_, found->second.level))] = true;
  files_.erase(found);
}

bool KeyShape::IsInput(uint64_t number) const { return inputs_.count(number) != 0; }

// Makes the containers of a depth anew.
void KeyShape::Group(int depth) const {
  std::vector<KeyContainer>& containers = containers_[static_cast<size_t>(depth)];
  containers.clear();
  std::vector<const TrieFile*> files;
  const int first = depth == 0 ? 0 : FirstLevelOfDepth(trie_, depth);
  const int last = depth == 0 ? 0 : LastLevel(depth);
  for (int level = first; level <= last; ++level) {
    const Level& held = levels_[static_cast<size_t>(level)];
    const auto before = static_cast<std::ptrdiff_t>(files.size());
    files.insert(files.end(), held.begin(), held.end());
    std::inplace_merge(files.begin(), files.begin() + before, files.end(), BySmallest{comparator_});
  }
  for (const TrieFile* file : files) {
    const bool joins = !containers.empty() && (depth == 0 || !EndsBefore(containers.back().range, file->smallest));
    if (!joins) {
      containers.emplace_back();
      containers.back().depth = depth;
      containers.back().range = RangeOf(*file);
    }
    KeyContainer& container = containers.back();
    container.files.push_back(file);
    container.bytes += file->bytes;
    container.busy |= IsInput(file->number);
    Widen(&container.range, *file);
  }
  for (KeyContainer& container : containers) {
    std::stable_sort(container.files.begin(), container.files.end(), [depth](const TrieFile* a, const TrieFile* b) {
      return depth == 0 ? IsNewerInRoot(*a, *b) : a->level < b->level;
    });
    container.slots = depth == 0 ? static_cast<int>(container.files.size()) : 1;
    for (size_t i = 1; depth != 0 && i < container.files.size(); ++i) {
      if (container.files[i]->level != container.files[i - 1]->level) ++container.slots;
    }
  }
}

const std::vector<KeyContainer>& KeyShape::ContainersAt(int depth) const {
  const auto at = static_cast<size_t>(depth);
  if (stale_[at]) {
    Group(depth);
    stale_[at] = false;
  }
  return containers_[at];
}

bool KeyShape::WholeRange(KeyRange* range) const {
  bool any = false;
  for (const auto& [number, file] : files_) {
    if (!any) *range = RangeOf(file);
    any = true;
    Widen(range, file);
  }
  return any;
}

bool KeyShape::Overlap(const KeyRange& a, const KeyRange& b) const {
  return !EndsBefore(a, b.first) && !EndsBefore(b, a.first);
}

void KeyShape::Widen(KeyRange* range, const TrieFile& file) const {
  if (comparator_->Compare(file.smallest, range->first) < 0) range->first = file.smallest;
  const int order = comparator_->Compare(file.largest, range->last);
  if (order < 0) return;
  range->last_excluded = file.largest_excluded && (order > 0 || range->last_excluded);
  if (order > 0) range->last = file.largest;
}

std::pair<size_t, size_t> KeyShape::Overlapping(int depth, const KeyRange& range) const {
  const std::vector<KeyContainer>& all = ContainersAt(depth);
  const auto begin = std::partition_point(
      all.begin(), all.end(), [&](const KeyContainer& container) { return EndsBefore(container.range, range.first); });
  const auto end = std::partition_point(
      begin, all.end(), [&](const KeyContainer& container) { return !EndsBefore(range, container.range.first); });
  return {static_cast<size_t>(begin - all.begin()), static_cast<size_t>(end - all.begin())};
}

// By (1) of RocksDB's levels, files of one level but the root are disjoint, so both their ends are in order.
std::vector<const TrieFile*> KeyShape::FilesIn(int level, const KeyRange& range) const {
  std::vector<const TrieFile*> files;
  const Level& held = levels_[static_cast<size_t>(level)];
  for (auto it = held.upper_bound(Slice(range.last)); it != held.begin();) {
    --it;
    if (EndsBefore(range, (*it)->smallest)) continue;
    if (EndsBefore(**it, range.first)) break;
    files.push_back(*it);
  }
  std::reverse(files.begin(), files.end());
  return files;
}

uint64_t KeyShape::BytesIn(int depth, const KeyRange& range) const {
  uint64_t bytes = 0;
  for (int level = FirstLevelOfDepth(trie_, depth); level <= LastLevel(depth); ++level) {
    for (const TrieFile* file : FilesIn(level, range)) bytes += file->bytes;
  }
  return bytes;
}

int KeyShape::NextDepthBelow(int depth, const KeyRange& range) const {
  for (int below = depth + 1; below <= trie_.depth; ++below) {
    const auto [begin, end] = Overlapping(below, range);
    if (begin != end) return below;
  }
  return 0;
}

int KeyShape::FirstLevelIn(int level, const KeyRange& range) const {
  const int end = LastLevel(trie_.depth) + 1;
  while (level < end && !HasFilesIn(level, range)) ++level;
  return level;
}

// As FilesIn, which is in key order from the end.
bool KeyShape::HasFilesIn(int level, const KeyRange& range) const {
  const Level& held = levels_[static_cast<size_t>(level)];
  for (auto it = held.upper_bound(Slice(range.last)); it != held.begin();) {
    --it;
    if (!EndsBefore(range, (*it)->smallest)) return !EndsBefore(**it, range.first);
  }
  return false;
}

uint64_t KeyShape::DeletedAt(const TrieFile& deleting, const TrieFile& file) const {
  if (deleting.deleted == nullptr || file.has_blobs) return 0;
  const std::vector<DeletedKeys>& parts = *deleting.deleted;
  // The first that ends behind the file's first key; then those that begin where the one before ends.
  auto part = std::partition_point(parts.begin(), parts.end(), [&](const DeletedKeys& keys) {
    return comparator_->Compare(keys.end, file.smallest) <= 0;
  });
  if (part == parts.end() || comparator_->Compare(part->first, file.smallest) > 0) return 0;
  uint64_t highest = 0;
  while (part->sequence > file.largest_sequence) {
    highest = std::max(highest, part->sequence);
    if (comparator_->Compare(file.largest, part->end) < (file.largest_excluded ? 1 : 0)) return highest;
    const auto next = part + 1;
    if (next == parts.end() || comparator_->Compare(part->end, next->first) != 0) return 0;
    part = next;
  }
  return 0;
}

// RocksDB takes compactions into one level that meet at a key for overlapping, whichever of them has it.
bool KeyShape::Conflicts(const Run& run) const {
  const auto meet = [this](const KeyRange& a, const KeyRange& b) {
    return comparator_->Compare(a.first, b.last) <= 0 && comparator_->Compare(b.first, a.last) <= 0;
  };
  return std::any_of(running_.begin(), running_.end(), [&](const auto& item) {
    return std::any_of(item.second.runs.begin(), item.second.runs.end(), [&](const Run& other) {
      return run.top_level <= other.output_level && other.top_level <= run.output_level && meet(run.range, other.range);
    });
  });
}

// The containers of inputs that have come or gone.
void KeyShape::UpdateBusy(const std::vector<uint64_t>& inputs) {
  std::set<KeyContainer*> touched;
  for (uint64_t number : inputs) {
    const TrieFile* const file = Find(number);
    if (file == nullptr) continue;
    const int depth = DepthOfLevel(trie_, file->level);
    const auto at = static_cast<size_t>(depth);
    if (stale_[at]) continue;
    const auto [begin, end] = Overlapping(depth, RangeOf(*file));
    for (size_t i = begin; i < end; ++i) touched.insert(&containers_[at][i]);
  }
  for (KeyContainer* container : touched) {
    container->busy = std::any_of(container->files.begin(), container->files.end(),
                                  [this](const TrieFile* file) { return IsInput(file->number); });
  }
}

void KeyShape::Begin(uint64_t job, std::vector<Run> runs, const std::vector<uint64_t>& inputs) {
  for (uint64_t number : inputs) ++inputs_[number];
  UpdateBusy(inputs);
  running_[job] = {std::move(runs), inputs};
}

void KeyShape::End(uint64_t job) {
  const auto found = running_.find(job);
  if (found == running_.end()) return;
  for (uint64_t number : found->second.inputs) {
    const auto input = inputs_.find(number);
    if (--input->second == 0) inputs_.erase(input);
  }
  const std::vector<uint64_t> inputs = std::move(found->second.inputs);
  running_.erase(found);
  UpdateBusy(inputs);
}

}  // namespace cairn
