#include "tools/status/picture.h"

#include <algorithm>
#include <functional>
#include <map>
#include <set>
#include <unordered_map>
#include <utility>

namespace cairn {
namespace {

struct Container {
  std::set<int> levels;
  PictureCell sum;
};

using Containers = std::map<uint64_t, Container>;  // of one depth, by number

// The cells of one depth.
std::vector<PictureCell> CellsOf(const Containers& containers, uint64_t containers_per_cell) {
  std::vector<PictureCell> cells;
  for (const auto& [number, container] : containers) {
    const uint64_t index = number / containers_per_cell;
    if (cells.empty() || cells.back().index != index) {
      cells.emplace_back();
      cells.back().index = index;
    }
    PictureCell& cell = cells.back();
    ++cell.containers;
    cell.slots = std::max(cell.slots, container.sum.slots);
    cell.files += container.sum.files;
    cell.bytes += container.sum.bytes;
    cell.compacting_files += container.sum.compacting_files;
  }
  return cells;
}

// What the order of a trie says of its depths.
struct Places {
  // The containers of a depth that hold the file's smallest and its largest key.
  std::function<std::pair<uint64_t, uint64_t>(const PictureFile& file, int depth)> of;
  // Containers of a depth that there are or may be.
  std::function<uint64_t(int depth, const Containers& containers)> at;
};

void MakeDepths(const std::vector<PictureFile>& files, const TrieOptions& trie, const Places& places,
                Picture* picture) {
  std::map<int, Containers> depths;
  for (const PictureFile& file : files) {
    const int depth = DepthOfLevel(trie, file.level);
    const auto [number, last] = places.of(file, depth);
    if (number != last) ++picture->spanning_files;
    Container& container = depths[depth][number];
    container.levels.insert(file.level);
    PictureCell& sum = container.sum;
    ++sum.files;
    sum.bytes += file.bytes;
    if (file.compacting) ++sum.compacting_files;
    sum.slots = depth == 0 ? static_cast<int>(sum.files) : static_cast<int>(container.levels.size());
  }
  if (depths.empty()) return;
  for (int depth = 0; depth <= depths.rbegin()->first; ++depth) {
    PictureDepth row;
    row.depth = depth;
    row.places = places.at(depth, depths[depth]);
    const uint64_t per_cell = (row.places + kMaxCells - 1) / kMaxCells;
    row.cells = (row.places + per_cell - 1) / per_cell;
    row.full_slots = depth == 0 ? trie.root_trigger : TriggerOf(trie);
    row.max_slots = depth == 0 ? trie.root_trigger : trie.slots;
    for (const auto& [number, container] : depths[depth]) {
      const PictureCell& sum = container.sum;
      row.slots_min = row.containers == 0 ? sum.slots : std::min(row.slots_min, sum.slots);
      row.slots_max = std::max(row.slots_max, sum.slots);
      ++row.containers;
      row.files += sum.files;
      row.bytes += sum.bytes;
    }
    row.filled = CellsOf(depths[depth], per_cell);
    picture->depths.push_back(std::move(row));
  }
}

void AddTo(const PictureFile& file, PictureSum* sum) {
  ++sum->files;
  sum->bytes += file.bytes;
  if (!file.compacting) return;
  ++sum->compacting_files;
  sum->compacting_bytes += file.bytes;
}

void MakeRuns(std::vector<PictureFile> files, Picture* picture) {
  // Newest first: in level 0 the higher number, then level by level.
  std::sort(files.begin(), files.end(), [](const PictureFile& a, const PictureFile& b) {
    return a.level != b.level ? a.level < b.level : a.number > b.number;
  });
  for (const PictureFile& file : files) {
    std::vector<PictureRun>& runs = picture->runs;
    const bool same_run =
        !runs.empty() && runs.back().level == file.level && (file.level > 0 || runs.size() >= kMaxRuns);
    if (!same_run) {
      runs.emplace_back();
      runs.back().level = file.level;
      runs.back().file_number = file.level == 0 ? file.number : 0;
    }
    AddTo(file, &runs.back());
  }
}

Picture SumOf(const std::vector<PictureFile>& files) {
  Picture picture;
  for (const PictureFile& file : files) AddTo(file, &picture);
  return picture;
}

}  // namespace

void PlaceInKeyOrder(const KeyShape& shape, std::vector<PictureFile>* files) {
  std::unordered_map<uint64_t, uint64_t> places;  // by file number
  for (int depth = 0; depth <= shape.trie().depth; ++depth) {
    const std::vector<KeyContainer>& containers = shape.ContainersAt(depth);
    for (size_t i = 0; i < containers.size(); ++i) {
      for (const TrieFile* file : containers[i].files) places[file->number] = i;
    }
  }
  for (PictureFile& file : *files) file.first_position = file.last_position = places[file.number];
}

Picture MakePicture(const std::vector<PictureFile>& files) {
  Picture picture = SumOf(files);
  MakeRuns(files, &picture);
  return picture;
}

Picture MakePicture(const std::vector<PictureFile>& files, const HashTrieOptions& trie) {
  Picture picture = SumOf(files);
  const HashPrefixMap map = ContainerMapOf(trie);
  Places places;
  places.of = [&map](const PictureFile& file, int depth) {
    return std::make_pair(map.ContainerAt(file.first_position, depth), map.ContainerAt(file.last_position, depth));
  };
  places.at = [&trie](int depth, const Containers&) { return uint64_t{1} << std::min(BitsPerDepth(trie) * depth, 62); };
  MakeDepths(files, trie, places, &picture);
  return picture;
}

Picture MakePicture(const std::vector<PictureFile>& files, const KeyTrieOptions& trie) {
  Picture picture = SumOf(files);
  Places places;
  places.of = [](const PictureFile& file, int) { return std::make_pair(file.first_position, file.last_position); };
  places.at = [](int, const Containers& containers) { return containers.empty() ? 1 : containers.rbegin()->first + 1; };
  MakeDepths(files, trie, places, &picture);
  return picture;
}

Picture MakeTriePicture(std::vector<PictureFile> files, const std::vector<TrieFile>& tables, const TrieOptionText& trie,
                        const rocksdb::Comparator* comparator) {
  if (!trie.in_key_order()) {
    const HashPrefixMap map = ContainerMapOf(trie.hash_order());
    for (size_t i = 0; i < files.size(); ++i) {
      files[i].first_position = map.Position(tables[i].smallest);
      files[i].last_position = map.Position(tables[i].largest);
    }
    return MakePicture(files, trie.hash_order());
  }
  KeyShape shape(trie.key_order(), comparator);
  for (const TrieFile& table : tables) {
    if (table.level < TrieLevels(trie)) shape.Add(table);  // else the options are those of another opening
  }
  PlaceInKeyOrder(shape, &files);
  return MakePicture(files, trie.key_order());
}

}  // namespace cairn
