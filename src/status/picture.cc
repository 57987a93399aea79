#include "src/status/picture.h"

#include <algorithm>
#include <map>
#include <set>
#include <utility>

#include "src/trie/trie_options.h"

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

void MakeDepths(const std::vector<PictureFile>& files, const TrieOptions& trie, Picture* picture) {
  const HashPrefixMap map = ContainerMapOf(trie);
  std::map<int, Containers> depths;
  for (const PictureFile& file : files) {
    const int depth = DepthOfLevel(trie, file.level);
    const uint64_t number = map.ContainerAt(file.first_position, depth);
    if (number != map.ContainerAt(file.last_position, depth)) ++picture->spanning_files;
    Container& container = depths[depth][number];
    container.levels.insert(file.level);
    PictureCell& sum = container.sum;
    ++sum.files;
    sum.bytes += file.bytes;
    if (file.compacting) ++sum.compacting_files;
    sum.slots = depth == 0 ? static_cast<int>(sum.files) : static_cast<int>(container.levels.size());
  }
  if (depths.empty()) return;
  const int bits_per_depth = BitsPerDepth(trie);
  for (int depth = 0; depth <= depths.rbegin()->first; ++depth) {
    PictureDepth row;
    row.depth = depth;
    const int bits = std::min(bits_per_depth * depth, 62);
    row.places = uint64_t{1} << bits;
    row.cells = std::min(row.places, kMaxCells);
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
    row.filled = CellsOf(depths[depth], row.places / row.cells);
    picture->depths.push_back(std::move(row));
  }
}

void AddTo(const PictureFile& file, PictureRun* run) {
  ++run->files;
  run->bytes += file.bytes;
  if (!file.compacting) return;
  ++run->compacting_files;
  run->compacting_bytes += file.bytes;
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

}  // namespace

Picture MakePicture(const std::vector<PictureFile>& files, const std::optional<TrieOptions>& trie) {
  Picture picture;
  for (const PictureFile& file : files) {
    ++picture.files;
    picture.bytes += file.bytes;
    if (!file.compacting) continue;
    ++picture.compacting_files;
    picture.compacting_bytes += file.bytes;
  }
  if (trie.has_value()) {
    MakeDepths(files, *trie, &picture);
  } else {
    MakeRuns(files, &picture);
  }
  return picture;
}

}  // namespace cairn
