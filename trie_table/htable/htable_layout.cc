#include "trie_table/htable/htable_layout.h"

#include <algorithm>

#include "trie_table/htable/htable_format.h"

namespace cairn {

namespace {

constexpr size_t kMaxSpillBuckets = 256;  // a spill names its bucket in 8 bits

bool TooLarge(const Cell& cell, const LayoutOptions& options) {
  return cell.bytes > options.capacity || cell.entries > options.max_entries;
}

// Home cells of one step: they share a bucket (invariant 4 of the format).
struct Run {
  size_t end = 0;  // behind its last cell
  size_t bytes = 0;
  size_t entries = 0;
};

class Layouter {
 public:
  Layouter(const std::vector<Cell>& cells, const LayoutOptions& options) : cells_(cells), options_(options) {
    layout_.shift = ShiftFor(cells.front().hash, cells.back().hash);
    extent_.resize(cells.size());
    for (size_t i = 0; i < cells.size(); ++i) extent_[i] = TooLarge(cells[i], options);
  }

  GroupLayout Plain(GroupEnd end) {
    layout_.homes.emplace_back();
    layout_.bounds.push_back(0);
    size_t room = options_.capacity, entries = options_.max_entries;
    for (size_t i = 0; i < cells_.size();) {
      if (extent_[i]) {
        ++i;
        continue;
      }
      Run run = RunAt(i);
      Shrink(i, &run);
      if (run.bytes > room || run.entries > entries) {
        if (run.end == i + 1 && room >= options_.spill_threshold) {
          spilled_.push_back(static_cast<uint32_t>(i++));
          continue;
        }
        if (!layout_.homes.back().empty()) {
          StartHome(i);
          room = options_.capacity;
          entries = options_.max_entries;
        }
      }
      for (; i < run.end; ++i) {
        if (!extent_[i]) layout_.homes.back().push_back(static_cast<uint32_t>(i));
      }
      room -= run.bytes;
      entries -= run.entries;
    }
    layout_.cells = cells_.size();
    if (end == GroupEnd::kMoreFollows && room > options_.capacity / 16) DropLastHome();
    PackSpills();
    return Finish();
  }

  GroupLayout Compressed(GroupEnd end, const FitFunction& fit) {
    std::vector<uint32_t> home_cells;
    for (size_t i = 0; i < cells_.size(); ++i) {
      if (!extent_[i]) home_cells.push_back(static_cast<uint32_t>(i));
    }
    layout_.homes.emplace_back();
    layout_.bounds.push_back(0);
    std::vector<size_t> ends;  // between steps
    for (size_t i = 1; i <= home_cells.size(); ++i) {
      if (i == home_cells.size() || StepAt(home_cells[i]) != StepAt(home_cells[i - 1])) ends.push_back(i);
    }
    for (size_t at = 0; at < home_cells.size();) {
      const size_t bucket_end = fit(home_cells, ends, at);
      if (bucket_end == at) {
        // Not even the cells of one step fit: the first becomes an extent.
        extent_[home_cells[at++]] = true;
        continue;
      }
      if (!layout_.homes.back().empty()) StartHome(home_cells[at]);
      layout_.homes.back().assign(home_cells.begin() + static_cast<ptrdiff_t>(at),
                                  home_cells.begin() + static_cast<ptrdiff_t>(bucket_end));
      at = bucket_end;
    }
    layout_.cells = cells_.size();
    if (end == GroupEnd::kMoreFollows) DropLastHome();
    return Finish();
  }

 private:
  uint32_t StepAt(size_t i) const { return StepOf(cells_[i].hash, cells_.front().hash, layout_.shift); }

  Run RunAt(size_t first) const {
    Run run;
    const uint32_t step = StepAt(first);
    size_t i = first;
    for (; i < cells_.size() && StepAt(i) == step; ++i) {
      if (extent_[i]) continue;
      run.bytes += cells_[i].bytes;
      run.entries += cells_[i].entries;
    }
    run.end = i;
    return run;
  }

  // Makes extents of the largest cells until the others fit a bucket.
  void Shrink(size_t first, Run* run) {
    const auto fits = [&] { return run->bytes <= options_.capacity && run->entries <= options_.max_entries; };
    if (fits()) return;
    std::vector<uint32_t> by_size;
    for (size_t i = first; i < run->end; ++i) {
      if (!extent_[i]) by_size.push_back(static_cast<uint32_t>(i));
    }
    std::stable_sort(by_size.begin(), by_size.end(),
                     [this](uint32_t a, uint32_t b) { return cells_[a].bytes > cells_[b].bytes; });
    for (size_t i = 0; !fits(); ++i) {
      const Cell& cell = cells_[by_size[i]];
      extent_[by_size[i]] = true;
      run->bytes -= cell.bytes;
      run->entries -= cell.entries;
    }
  }

  void StartHome(size_t first_cell) {
    // Neighbours hold about as many.
    const size_t cells = layout_.homes.back().size();
    layout_.homes.emplace_back();
    layout_.homes.back().reserve(cells + cells / 4);
    layout_.bounds.push_back(static_cast<uint16_t>(StepAt(first_cell)));
  }

  void DropLastHome() {
    if (layout_.homes.size() < 2) return;
    layout_.cells = layout_.homes.back().front();
    // Cells of the same step stay together, with those that became extents.
    while (layout_.cells > 0 && StepAt(layout_.cells - 1) == layout_.bounds.back()) --layout_.cells;
    layout_.homes.pop_back();
    layout_.bounds.pop_back();
    while (!spilled_.empty() && spilled_.back() >= layout_.cells) spilled_.pop_back();
  }

  // Best fit, largest first.
  void PackSpills() {
    std::vector<uint32_t> by_size = spilled_;
    std::sort(by_size.begin(), by_size.end(), [this](uint32_t a, uint32_t b) {
      return cells_[a].bytes != cells_[b].bytes ? cells_[a].bytes > cells_[b].bytes : a < b;
    });
    std::vector<std::pair<size_t, size_t>> rooms;  // bytes, entries
    for (uint32_t cell : by_size) {
      size_t best = rooms.size();
      for (size_t i = 0; i < rooms.size(); ++i) {
        if (rooms[i].first >= cells_[cell].bytes && rooms[i].second >= cells_[cell].entries &&
            (best == rooms.size() || rooms[i].first < rooms[best].first)) {
          best = i;
        }
      }
      if (best == rooms.size()) {
        if (best == kMaxSpillBuckets) {
          extent_[cell] = true;
          continue;
        }
        rooms.emplace_back(options_.capacity, options_.max_entries);
        layout_.spills.emplace_back();
      }
      rooms[best].first -= cells_[cell].bytes;
      rooms[best].second -= cells_[cell].entries;
      layout_.spills[best].push_back(cell);
    }
    for (auto& bucket : layout_.spills) std::sort(bucket.begin(), bucket.end());
  }

  GroupLayout Finish() {
    for (size_t i = 0; i < layout_.cells; ++i) {
      if (extent_[i]) layout_.extents.push_back(static_cast<uint32_t>(i));
    }
    return std::move(layout_);
  }

  const std::vector<Cell>& cells_;
  const LayoutOptions options_;
  std::vector<bool> extent_;
  std::vector<uint32_t> spilled_;
  GroupLayout layout_;
};

}  // namespace

GroupLayout LayOutGroup(const std::vector<Cell>& cells, const LayoutOptions& options, GroupEnd end) {
  return Layouter(cells, options).Plain(end);
}

GroupLayout LayOutCompressedGroup(const std::vector<Cell>& cells, const LayoutOptions& options, GroupEnd end,
                                  const FitFunction& fit) {
  return Layouter(cells, options).Compressed(end, fit);
}

}  // namespace cairn
