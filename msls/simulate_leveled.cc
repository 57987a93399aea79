// Leveled compaction, file by file, one compaction at a time.
//
// kLevelDB follows the thesis' simulator: round-robin picking, no growing of inputs within the same outputs, files cut
// at their size and where they overlap more than ten files of the next level but one.
//
// kRocksDB follows RocksDB 9.10: the five picks, growing of the input side while the output side stays the same, output
// files cut near the borders of the files below (from half of the target size on, up to twice), scores with and without
// dynamic level bytes, trivial moves.

#include <algorithm>
#include <cmath>
#include <limits>

#include "msls/simulator.h"

namespace cairn::msls {

namespace {

struct File {
  Table items;
  uint32_t oldest = 0, newest = 0;  // times of its items
  uint64_t tie = 0;                 // decides between files of equal rank
  uint32_t first() const { return ItemKey(items.front()); }
  uint32_t last() const { return ItemKey(items.back()); }
  double size() const { return static_cast<double>(items.size()); }
};

using Level = std::vector<File>;

// [begin, end) of the files of a level that overlap keys [first, last].
std::pair<size_t, size_t> Overlap(const Level& level, uint32_t first, uint32_t last) {
  const auto begin =
      std::lower_bound(level.begin(), level.end(), first, [](const File& f, uint32_t key) { return f.last() < key; });
  const auto end =
      std::upper_bound(begin, level.end(), last, [](uint32_t key, const File& f) { return key < f.first(); });
  return {begin - level.begin(), end - level.begin()};
}

double Size(const Level& level, size_t begin, size_t end) {
  double size = 0;
  for (size_t i = begin; i < end; i++) size += level[i].size();
  return size;
}

class LeveledStore : public AdjustableStore {
 public:
  enum class AtCursor { kSplit, kGoOn };  // what output files do there

  LeveledStore(const StoreShape& store, std::vector<double> targets, Deletions deletions = Deletions::kAllValues,
               AtCursor at_cursor = AtCursor::kSplit)
      : rocksdb_(store.design == Design::kRocksDB),
        dynamic_(rocksdb_ && store.dynamic_level_bytes),
        deletions_(deletions),
        at_cursor_(at_cursor),
        pick_(rocksdb_ ? store.pick : FilePick::kRoundRobin),
        trigger_(static_cast<size_t>(store.level0_trigger)),
        file_items_(std::max(1.0, store.file_bytes / store.item_bytes)),
        base_items_(store.level_base_bytes / store.item_bytes),
        targets_(std::move(targets)),
        levels_(targets_.size()),
        sizes_(targets_.size()),
        cursors_(targets_.size(), 0) {
    for (size_t i = 0; i < levels_.size(); i++) {
      names_.push_back(i == 0 ? "level-0 to 1" : "level-" + std::to_string(i) + " to " + std::to_string(i + 1));
    }
    if (!store.level_bytes.empty()) base_items_ = targets_[0];
  }

  void SetTargets(const std::vector<double>& targets) override {
    targets_ = targets;
    base_items_ = targets_[0];
  }

  void Flush(Table table) override {
    write_stats.Write("level-0", static_cast<double>(table.size()));
    level0_size_ += static_cast<double>(table.size());
    level0_.push_back(std::move(table));
    while (CompactOnce()) {
    }
  }

  double Items() const override {
    double items = level0_size_;
    for (double size : sizes_) items += size;
    return items;
  }
  double Runs() const override {
    double runs = static_cast<double>(level0_.size());
    for (double size : sizes_) runs += size > 0;
    return runs;
  }
  std::vector<double> LevelItems() const override { return sizes_; }
  double RunsToHit(uint32_t key) const override {
    double runs = 0;
    for (size_t i = level0_.size(); i-- > 0;) {
      runs++;
      if (Holds(level0_[i], key)) return runs;
    }
    for (const Level& level : levels_) {
      if (level.empty()) continue;
      runs++;
      const auto at = Overlap(level, key, key);
      if (at.first < at.second && Holds(level[at.first].items, key)) return runs;
    }
    return runs;
  }

 private:
  // Levels here are numbered from 0 for RocksDB's level 1.
  bool CompactOnce() {
    constexpr double kScoreScale = 10;
    double best = static_cast<double>(level0_.size()) / static_cast<double>(trigger_);
    int level = -1;
    double incoming = level0_size_;
    if (rocksdb_ && !dynamic_) best = std::max(best, level0_size_ / base_items_);
    if (dynamic_) {
      if (level0_size_ >= base_items_) best = std::max(best, 1.01);
      if (level0_size_ > targets_[0]) best = std::max(best, level0_size_ / std::max(sizes_[0], targets_[0]));
      if (best > 1) best *= kScoreScale;
    }
    for (size_t i = 0; i + 1 < levels_.size(); i++) {
      double score = sizes_[i] / targets_[i];
      if (dynamic_ && score >= 1) score = sizes_[i] / (targets_[i] + incoming) * kScoreScale;
      incoming += std::max(0.0, sizes_[i] - targets_[i]);
      if (score > best) {
        best = score;
        level = static_cast<int>(i);
      }
    }
    if (best < 1) return false;
    if (level < 0) {
      CompactLevel0();
    } else {
      Compact(static_cast<size_t>(level));
    }
    return true;
  }

  void CompactLevel0() {
    Table merged;
    for (Table& table : level0_) merged = merged.empty() ? std::move(table) : MergeTables(table, merged);
    level0_.clear();
    level0_size_ = 0;
    const auto range = Overlap(levels_[0], ItemKey(merged.front()), ItemKey(merged.back()));
    Install(merged, 0, range.first, range.second, names_[0]);
  }

  size_t Pick(size_t l) const {
    const Level& level = levels_[l];
    size_t best = 0;
    switch (pick_) {
      case FilePick::kRoundRobin: {
        const auto it = std::lower_bound(level.begin(), level.end(), cursors_[l],
                                         [](const File& f, uint32_t key) { return f.first() < key; });
        return it == level.end() ? 0 : it - level.begin();
      }
      case FilePick::kByCompensatedSize:
        for (size_t i = 1; i < level.size(); i++) {
          if (level[i].items.size() > level[best].items.size() ||
              (level[i].items.size() == level[best].items.size() && level[i].tie > level[best].tie)) {
            best = i;
          }
        }
        return best;
      case FilePick::kOldestLargestSeqFirst:
        for (size_t i = 1; i < level.size(); i++) {
          if (level[i].newest < level[best].newest) best = i;
        }
        return best;
      case FilePick::kOldestSmallestSeqFirst:
        for (size_t i = 1; i < level.size(); i++) {
          if (level[i].oldest < level[best].oldest) best = i;
        }
        return best;
      case FilePick::kMinOverlappingRatio:
        break;
    }
    const Level& below = levels_[l + 1];
    size_t j = 0;
    uint64_t least = std::numeric_limits<uint64_t>::max();
    for (size_t i = 0; i < level.size(); i++) {
      const File& file = level[i];
      while (j < below.size() && below[j].last() < file.first()) j++;
      uint64_t overlapping = 0;
      while (j < below.size() && below[j].first() < file.last()) {
        overlapping += below[j].items.size();
        if (below[j].last() > file.last()) break;
        j++;
      }
      const uint64_t ratio = overlapping * 1024 / file.items.size();
      if (ratio < least) {
        least = ratio;
        best = i;
      }
    }
    return best;
  }

  void Compact(size_t l) {
    Level& level = levels_[l];
    Level& below = levels_[l + 1];
    size_t begin = Pick(l), end = begin + 1;
    const double max_compaction = 25 * file_items_;
    auto overlap = [&] { return Overlap(below, level[begin].first(), level[end - 1].last()); };
    auto range = overlap();

    if (rocksdb_ && pick_ == FilePick::kRoundRobin && range.first < range.second) {
      // SetupOtherFilesWithRoundRobinExpansion: as many neighbours as the level has too much.
      const double excess = std::max(0.0, sizes_[l] - targets_[l]);
      while (level[begin].size() < excess && end < level.size()) {
        const auto wider = Overlap(below, level[begin].first(), level[end].last());
        const double taken = Size(level, begin, end + 1);
        if (taken + Size(below, wider.first, wider.second) > max_compaction) break;
        end++;
        range = wider;
        if (taken > excess) break;
      }
    }
    if (rocksdb_ && range.first < range.second) {
      // SetupOtherInputs: more input files that cost no further output file.
      const uint32_t first = std::min(level[begin].first(), below[range.first].first());
      const uint32_t last = std::max(level[end - 1].last(), below[range.second - 1].last());
      const double below_size = Size(below, range.first, range.second);
      auto grown = Overlap(level, pick_ == FilePick::kRoundRobin ? level[begin].first() : first, last);
      bool grow = false;
      if (grown.second - grown.first > end - begin &&
          below_size + Size(level, grown.first, grown.second) < 2 * max_compaction) {
        const auto wider = Overlap(below, level[grown.first].first(), level[grown.second - 1].last());
        grow = wider.second - wider.first == range.second - range.first;
      }
      if (!grow) {
        grown = Overlap(level, first, last);
        if (level[grown.first].first() < first) grown.first++;
        if (grown.second > grown.first && level[grown.second - 1].last() > last) grown.second--;
        grow = grown.second > grown.first && grown.second - grown.first > end - begin &&
               below_size + Size(level, grown.first, grown.second) < 2 * max_compaction;
      }
      if (grow) {
        begin = grown.first;
        end = grown.second;
        range = overlap();
      }
    }
    cursors_[l] = end < level.size() ? level[end].first() : 0;

    const double moved = Size(level, begin, end);
    if (range.first == range.second) {
      // A trivial move rewrites nothing.
      below.insert(below.begin() + static_cast<std::ptrdiff_t>(range.first),
                   std::make_move_iterator(level.begin() + static_cast<std::ptrdiff_t>(begin)),
                   std::make_move_iterator(level.begin() + static_cast<std::ptrdiff_t>(end)));
      sizes_[l + 1] += moved;
    } else {
      Table inputs;
      inputs.reserve(static_cast<size_t>(moved));
      for (size_t i = begin; i < end; i++) inputs.insert(inputs.end(), level[i].items.begin(), level[i].items.end());
      Install(inputs, l + 1, range.first, range.second, names_[l + 1]);
    }
    level.erase(level.begin() + static_cast<std::ptrdiff_t>(begin), level.begin() + static_cast<std::ptrdiff_t>(end));
    sizes_[l] -= moved;
  }

  // Merges `newer` with files [begin, end) of level l and puts the outputs in their place.
  void Install(const Table& newer, size_t l, size_t begin, size_t end, const std::string& step) {
    Level& level = levels_[l];
    Table older;
    older.reserve(static_cast<size_t>(Size(level, begin, end)));
    for (size_t i = begin; i < end; i++) older.insert(older.end(), level[i].items.begin(), level[i].items.end());
    sizes_[l] -= static_cast<double>(older.size());
    Table merged = MergeTables(newer, older);
    if (deletions_ == Deletions::kOddTimesDelete) DropDeletions(l, &merged);
    sizes_[l] += static_cast<double>(merged.size());
    write_stats.Write(step, static_cast<double>(merged.size()));
    std::vector<File> outputs = Cut(merged, l);
    level.erase(level.begin() + static_cast<std::ptrdiff_t>(begin), level.begin() + static_cast<std::ptrdiff_t>(end));
    level.insert(level.begin() + static_cast<std::ptrdiff_t>(begin), std::make_move_iterator(outputs.begin()),
                 std::make_move_iterator(outputs.end()));
  }

  void DropDeletions(size_t l, Table* merged) const {
    const auto gone = [&](Item item) {
      if (item % 2 == 0) return false;
      for (size_t deeper = l + 1; deeper < levels_.size(); deeper++) {
        const auto range = Overlap(levels_[deeper], ItemKey(item), ItemKey(item));
        if (range.first < range.second) return false;
      }
      return true;
    };
    merged->erase(std::remove_if(merged->begin(), merged->end(), gone), merged->end());
  }

  std::vector<File> Cut(const Table& merged, size_t l) {
    std::vector<File> outputs;
    if (merged.empty()) return outputs;
    const size_t target = static_cast<size_t>(std::llround(file_items_));
    std::pair<size_t, size_t> grandparents = {0, 0};
    if (l + 1 < levels_.size()) grandparents = Overlap(levels_[l + 1], ItemKey(merged.front()), ItemKey(merged.back()));
    const Level* below = l + 1 < levels_.size() ? &levels_[l + 1] : nullptr;
    const bool has_grandparents = grandparents.first < grandparents.second;
    const size_t max_items = rocksdb_ && has_grandparents ? 2 * target : target;
    const double max_overlap = rocksdb_ ? 25 * file_items_ : 10 * file_items_;

    size_t g = grandparents.first;  // the grandparent at or after the current key
    bool in_gap = true, seen = false;
    double overlapped = 0;
    size_t crossed_in_file = 0;
    bool split = pick_ != FilePick::kRoundRobin || !rocksdb_ || at_cursor_ == AtCursor::kGoOn ||
                 l + 1 >= levels_.size() || cursors_[l] == 0;
    size_t start = 0;
    auto cut = [&](size_t stop) {
      if (stop == start) return;
      File file;
      file.items.assign(merged.begin() + static_cast<std::ptrdiff_t>(start),
                        merged.begin() + static_cast<std::ptrdiff_t>(stop));
      file.oldest = std::numeric_limits<uint32_t>::max();
      for (Item item : file.items) {
        file.oldest = std::min(file.oldest, ItemTime(item));
        file.newest = std::max(file.newest, ItemTime(item));
      }
      ties_ = ties_ * 6364136223846793005ull + 1442695040888963407ull;
      file.tie = ties_ >> 20;
      outputs.push_back(std::move(file));
      start = stop;
    };

    for (size_t i = 0; i < merged.size(); i++) {
      const uint32_t key = ItemKey(merged[i]);
      size_t crossed = 0;
      const double overlapped_before = overlapped;
      while (g < grandparents.second) {
        const File& grandparent = (*below)[g];
        if (in_gap) {
          if (key < grandparent.first()) break;
          if (seen) {
            crossed++;
            crossed_in_file++;
            overlapped += grandparent.size();
          }
          in_gap = false;
        } else {
          if (key <= grandparent.last()) break;
          if (seen) {
            crossed++;
            crossed_in_file++;
          }
          in_gap = true;
          g++;
        }
      }
      if (!seen && !in_gap) overlapped = (*below)[g].size();
      seen = true;
      const size_t size = i - start;
      if (size == 0) continue;
      bool stop = size >= max_items;
      if (!stop && !split && key >= cursors_[l]) {
        split = true;
        stop = true;
      }
      if (!stop && crossed > 0) {
        stop = overlapped + static_cast<double>(size) > max_overlap;
        if (rocksdb_ && !stop) {
          stop = (crossed >= (in_gap ? 2u : 3u) && overlapped - overlapped_before > file_items_ / 8) ||
                 static_cast<double>(size) >=
                     file_items_ / 100 * (50 + std::min<double>(static_cast<double>(crossed_in_file) * 5, 40));
        }
      }
      if (stop) {
        cut(i);
        crossed_in_file = 0;
        overlapped = in_gap || g >= grandparents.second ? 0 : (*below)[g].size();
      }
    }
    cut(merged.size());
    return outputs;
  }

  const bool rocksdb_;
  const bool dynamic_;
  const Deletions deletions_;
  const AtCursor at_cursor_;
  const FilePick pick_;
  const size_t trigger_;
  const double file_items_;
  double base_items_;
  std::vector<double> targets_;
  std::vector<Table> level0_;  // oldest first
  double level0_size_ = 0;
  std::vector<Level> levels_;
  std::vector<double> sizes_;
  std::vector<uint32_t> cursors_;  // the first key of the next file to pick in circular order
  std::vector<std::string> names_;
  uint64_t ties_ = 1;
};

}  // namespace

std::unique_ptr<AdjustableStore> NewAdjustableStore(const StoreShape& store, const std::vector<double>& targets,
                                                    Deletions deletions) {
  auto made = std::make_unique<LeveledStore>(store, targets, deletions);
  made->SetTargets(targets);
  return made;
}

IndexStatus SimulateLeveled(const StoreShape& store, const Popularity& popularity, const SimulationOptions& options,
                            Report* report) {
  std::vector<double> targets;
  IndexStatus s = LevelItems(store, popularity, &targets);
  if (!s.ok()) return s;
  using AtCursor = LeveledStore::AtCursor;
  LeveledStore simulated(store, std::move(targets), Deletions::kAllValues,
                         options.split_at_cursor ? AtCursor::kSplit : AtCursor::kGoOn);
  return Play(store, popularity, options, &simulated, report);
}

}  // namespace cairn::msls
