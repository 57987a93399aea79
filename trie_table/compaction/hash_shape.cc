#include "trie_table/compaction/hash_shape.h"

#include <algorithm>

namespace cairn {

const Container& HashShape::root() const {
  static const auto* empty = new Container();
  const Container* container = Find({0, 0});
  return container == nullptr ? *empty : *container;
}

const Container* HashShape::Find(const ContainerId& id) const {
  const auto found = containers_.find(id);
  return found == containers_.end() ? nullptr : &found->second;
}

void HashShape::SetSpanningFileBusy(uint64_t number, bool busy) {
  const auto found = spanning_files_.find(number);
  if (found != spanning_files_.end()) found->second.second = busy;
}

template <typename Visit>
void HashShape::VisitSpanningFiles(const ContainerId& id, int level, const Visit& visit) const {
  const auto found = spanning_files_by_level_.find(level);
  if (found == spanning_files_by_level_.end()) return;
  // The containers of the level's depth that `id` is, lies in, or holds.
  const int depth = DepthOfLevel(trie_, level);
  uint64_t first = id.container;
  for (int d = id.depth; d > depth; --d) first = map_.Parent(first);
  uint64_t end = first + 1;
  for (int d = id.depth; d < depth; ++d) {
    first = map_.FirstChild(first);
    end = map_.FirstChild(end);
  }
  const std::map<uint64_t, const TrieFile*>& files = found->second;
  for (auto it = files.lower_bound(end); it != files.begin();) {
    --it;
    if (it->second->last_container < first) return;
    visit(*it->second);
  }
}

std::vector<uint64_t> HashShape::SpanningFilesIn(const ContainerId& id, int first, int last) const {
  std::vector<uint64_t> numbers;
  if (spanning_files_.empty()) return numbers;
  for (int level = first; level <= last; ++level) {
    VisitSpanningFiles(id, level, [&](const TrieFile& file) { numbers.push_back(file.number); });
  }
  return numbers;
}

std::vector<uint64_t> HashShape::SpanningFilesInTheWay(const ContainerId& id) const {
  const Container* container = id.depth == 0 || spanning_files_.empty() ? nullptr : Find(id);
  if (container == nullptr || container->slots.empty()) return {};
  return SpanningFilesIn(id, container->slots.begin()->first, LastLevel(id.depth));
}

void HashShape::Add(const TrieFile& file) {
  if (file.spans) {
    const auto [added, is_new] = spanning_files_.emplace(file.number, std::make_pair(file, false));
    if (!is_new) return;
    spanning_files_by_level_[file.level][file.container] = &added->second.first;
    bytes_ += file.bytes;
    ++version_;
    return;
  }
  const ContainerId id{DepthOfLevel(trie_, file.level), file.container};
  if (!levels_.emplace(file.number, Place{id, file.level}).second) return;
  Container& container = containers_[id];
  std::vector<TrieFile>& slot = container.slots[file.level];
  slot.insert(std::upper_bound(slot.begin(), slot.end(), file,
                               [](const TrieFile& a, const TrieFile& b) { return a.number > b.number; }),
              file);
  ++container.files;
  container.bytes += file.bytes;
  container.version = ++version_;
  bytes_ += file.bytes;
  CountBelow(id, true);
}

void HashShape::Remove(uint64_t number) {
  const auto spanning_file = spanning_files_.find(number);
  if (spanning_file != spanning_files_.end()) {
    const TrieFile& file = spanning_file->second.first;
    bytes_ -= file.bytes;
    const auto level = spanning_files_by_level_.find(file.level);
    const auto place = level->second.find(file.container);
    // While files change places, another may have taken this one's.
    if (place != level->second.end() && place->second == &file) level->second.erase(place);
    if (level->second.empty()) spanning_files_by_level_.erase(level);
    ++version_;
    spanning_files_.erase(spanning_file);
    return;
  }
  const auto found = levels_.find(number);
  if (found == levels_.end()) return;
  const Place place = found->second;
  levels_.erase(found);
  Container& container = containers_[place.id];
  std::vector<TrieFile>& slot = container.slots[place.level];
  const auto file = std::find_if(slot.begin(), slot.end(),
                                 [number](const TrieFile& candidate) { return candidate.number == number; });
  --container.files;
  container.bytes -= file->bytes;
  bytes_ -= file->bytes;
  slot.erase(file);
  if (slot.empty()) container.slots.erase(place.level);
  container.version = ++version_;
  CountBelow(place.id, false);
}

// Counts a file for every container above `id`, and drops those that have become empty.
void HashShape::CountBelow(const ContainerId& id, bool added) {
  ContainerId at = id;
  while (true) {
    const auto found = containers_.find(at);
    if (found != containers_.end() && found->second.files == 0 && found->second.files_below == 0 &&
        !found->second.busy) {
      containers_.erase(found);
    }
    if (at.depth == 0) return;
    at = ParentOf(at);
    containers_[at].files_below += added ? 1 : uint64_t(0) - 1;
  }
}

int HashShape::LevelOf(uint64_t number) const {
  const auto found = levels_.find(number);
  if (found != levels_.end()) return found->second.level;
  const auto spanning_file = spanning_files_.find(number);
  return spanning_file == spanning_files_.end() ? -1 : spanning_file->second.first.level;
}

const TrieFile* HashShape::FileOf(uint64_t number, ContainerId* id) const {
  const auto found = levels_.find(number);
  if (found == levels_.end()) return nullptr;
  *id = found->second.id;
  const std::vector<TrieFile>& slot = containers_.at(*id).slots.at(found->second.level);
  return &*std::find_if(slot.begin(), slot.end(), [number](const TrieFile& file) { return file.number == number; });
}

std::vector<uint64_t> HashShape::Numbers() const {
  std::vector<uint64_t> numbers;
  numbers.reserve(files());
  for (const auto& [number, place] : levels_) numbers.push_back(number);
  for (const auto& [number, spanning_file] : spanning_files_) numbers.push_back(number);
  return numbers;
}

void HashShape::SetBusy(const ContainerId& id, bool busy) {
  Container& container = containers_[id];
  container.busy = busy;
  if (!busy && container.files == 0 && container.files_below == 0) containers_.erase(id);
}

std::vector<ContainerId> HashShape::Children(const ContainerId& id) const {
  std::vector<ContainerId> children;
  if (id.depth >= trie_.depth) return children;
  const uint64_t first = map_.FirstChild(id.container);
  const auto end = containers_.lower_bound({id.depth + 1, first + static_cast<uint64_t>(map_.fan_out())});
  for (auto it = containers_.lower_bound({id.depth + 1, first}); it != end; ++it) children.push_back(it->first);
  return children;
}

int HashShape::NextFreeLevel(const ContainerId& id) const {
  if (id.depth >= trie_.depth) return 0;
  int level = LastLevel(id.depth + 1);
  for (const ContainerId& child : Children(id)) {
    const Container* container = Find(child);
    if (!container->slots.empty()) level = std::min(level, container->slots.begin()->first - 1);
  }
  if (!spanning_files_.empty()) {
    const int top = FirstLevelOfDepth(trie_, id.depth + 1);
    for (int taken = top; taken <= level; ++taken) {
      VisitSpanningFiles(id, taken, [&](const TrieFile& file) { level = std::min(level, file.level - 1); });
    }
  }
  return level < FirstLevelOfDepth(trie_, id.depth + 1) ? 0 : level;
}

}  // namespace cairn
