#include "db/trie_shape.h"

#include <algorithm>

namespace cairn {

const Column& TrieShape::root() const {
  static const auto* empty = new Column();
  const Column* column = Find({0, 0});
  return column == nullptr ? *empty : *column;
}

const Column* TrieShape::Find(const ContainerId& id) const {
  const auto found = columns_.find(id);
  return found == columns_.end() ? nullptr : &found->second;
}

void TrieShape::SetStraddlerBusy(uint64_t number, bool busy) {
  const auto found = straddlers_.find(number);
  if (found != straddlers_.end()) found->second.second = busy;
}

template <typename Visit>
void TrieShape::VisitStraddlers(const ContainerId& id, int level, const Visit& visit) const {
  const auto found = straddlers_by_level_.find(level);
  if (found == straddlers_by_level_.end()) return;
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

std::vector<uint64_t> TrieShape::StraddlersIn(const ContainerId& id, int first, int last) const {
  std::vector<uint64_t> numbers;
  if (straddlers_.empty()) return numbers;
  for (int level = first; level <= last; ++level) {
    VisitStraddlers(id, level, [&](const TrieFile& file) { numbers.push_back(file.number); });
  }
  return numbers;
}

std::vector<uint64_t> TrieShape::StraddlersInTheWay(const ContainerId& id) const {
  const Column* column = id.depth == 0 || straddlers_.empty() ? nullptr : Find(id);
  if (column == nullptr || column->slots.empty()) return {};
  return StraddlersIn(id, column->slots.begin()->first, LastLevel(id.depth));
}

void TrieShape::Add(const TrieFile& file) {
  if (file.straddles) {
    const auto [added, is_new] = straddlers_.emplace(file.number, std::make_pair(file, false));
    if (!is_new) return;
    straddlers_by_level_[file.level][file.container] = &added->second.first;
    bytes_ += file.bytes;
    ++version_;
    return;
  }
  const ContainerId id{DepthOfLevel(trie_, file.level), file.container};
  if (!levels_.emplace(file.number, Place{id, file.level}).second) return;
  Column& column = columns_[id];
  std::vector<TrieFile>& slot = column.slots[file.level];
  slot.insert(std::upper_bound(slot.begin(), slot.end(), file,
                               [](const TrieFile& a, const TrieFile& b) { return a.number > b.number; }),
              file);
  ++column.files;
  column.bytes += file.bytes;
  column.version = ++version_;
  bytes_ += file.bytes;
  CountBelow(id, true);
}

void TrieShape::Remove(uint64_t number) {
  const auto straddler = straddlers_.find(number);
  if (straddler != straddlers_.end()) {
    const TrieFile& file = straddler->second.first;
    bytes_ -= file.bytes;
    const auto level = straddlers_by_level_.find(file.level);
    const auto place = level->second.find(file.container);
    // While files change places, another may have taken this one's.
    if (place != level->second.end() && place->second == &file) level->second.erase(place);
    if (level->second.empty()) straddlers_by_level_.erase(level);
    ++version_;
    straddlers_.erase(straddler);
    return;
  }
  const auto found = levels_.find(number);
  if (found == levels_.end()) return;
  const Place place = found->second;
  levels_.erase(found);
  Column& column = columns_[place.id];
  std::vector<TrieFile>& slot = column.slots[place.level];
  const auto file = std::find_if(slot.begin(), slot.end(),
                                 [number](const TrieFile& candidate) { return candidate.number == number; });
  --column.files;
  column.bytes -= file->bytes;
  bytes_ -= file->bytes;
  slot.erase(file);
  if (slot.empty()) column.slots.erase(place.level);
  column.version = ++version_;
  CountBelow(place.id, false);
}

// Counts a file for every container above `id`, and drops those that have become empty.
void TrieShape::CountBelow(const ContainerId& id, bool added) {
  ContainerId at = id;
  while (true) {
    const auto found = columns_.find(at);
    if (found != columns_.end() && found->second.files == 0 && found->second.files_below == 0 && !found->second.busy) {
      columns_.erase(found);
    }
    if (at.depth == 0) return;
    at = ParentOf(at);
    columns_[at].files_below += added ? 1 : uint64_t(0) - 1;
  }
}

int TrieShape::LevelOf(uint64_t number) const {
  const auto found = levels_.find(number);
  if (found != levels_.end()) return found->second.level;
  const auto straddler = straddlers_.find(number);
  return straddler == straddlers_.end() ? -1 : straddler->second.first.level;
}

std::vector<uint64_t> TrieShape::Numbers() const {
  std::vector<uint64_t> numbers;
  numbers.reserve(files());
  for (const auto& [number, place] : levels_) numbers.push_back(number);
  for (const auto& [number, straddler] : straddlers_) numbers.push_back(number);
  return numbers;
}

void TrieShape::SetBusy(const ContainerId& id, bool busy) {
  Column& column = columns_[id];
  column.busy = busy;
  if (!busy && column.files == 0 && column.files_below == 0) columns_.erase(id);
}

std::vector<ContainerId> TrieShape::Children(const ContainerId& id) const {
  std::vector<ContainerId> children;
  if (id.depth >= trie_.depth) return children;
  const uint64_t first = map_.FirstChild(id.container);
  const auto end = columns_.lower_bound({id.depth + 1, first + static_cast<uint64_t>(map_.fan_out())});
  for (auto it = columns_.lower_bound({id.depth + 1, first}); it != end; ++it) children.push_back(it->first);
  return children;
}

int TrieShape::NextFreeLevel(const ContainerId& id) const {
  if (id.depth >= trie_.depth) return 0;
  int level = LastLevel(id.depth + 1);
  for (const ContainerId& child : Children(id)) {
    const Column* column = Find(child);
    if (!column->slots.empty()) level = std::min(level, column->slots.begin()->first - 1);
  }
  if (!straddlers_.empty()) {
    const int top = FirstLevelOfDepth(trie_, id.depth + 1);
    for (int taken = top; taken <= level; ++taken) {
      VisitStraddlers(id, taken, [&](const TrieFile& file) { level = std::min(level, file.level - 1); });
    }
  }
  return level < FirstLevelOfDepth(trie_, id.depth + 1) ? 0 : level;
}

}  // namespace cairn
