// The compactions of Cairn's trie, played one after the other with the rules of db/trie_picker.h: what is full moves
// down or is merged in place, and while the trie takes more than its space bound the compaction that frees most for
// what it writes comes first. `Tables` says what a table is: real keys for the simulator, the expected number of them
// for the model.
//
// Left out against the picker: slots are never scarce (it keeps headroom and lets columns sink), little garbage is not
// left alone (which concerns tries of a few write buffers), and compactions take no time.
//
//   struct Tables {
//     using Table = ...;                                          // keys of a part of the key space
//     double Size(const Table&) const;                            // keys
//     Table Merge(const std::vector<Table>&) const;               // oldest first; at least one
//     Table Part(const Table&, double begin, double end) const;   // keys in [begin, end) of the key space, 0 to 1
//     double NotIn(const Table& older, const Table& newer) const; // keys of the older that the newer has not
//     double Live() const;                                        // keys that were ever written
//   };

#pragma once

#include <algorithm>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "msls/model.h"

namespace cairn {
namespace msls {

template <class Tables>
class TriePlay {
 public:
  using Table = typename Tables::Table;

  // A prefix of the key space with its slots, oldest first, and its children once anything was moved down.
  struct Column {
    int depth = 0;
    double begin = 0, end = 1;
    std::vector<Table> slots;
    std::vector<std::unique_ptr<Column>> children;
    double stored = 0;  // keys of the slots
    bool merged_known = false;
    Table merged;  // of all slots
  };

  // No depth gets more than `most_columns`: below that each column has one child that stands for its whole fan-out.
  TriePlay(const Store& store, Tables* tables, double most_columns)
      : store_(store), tables_(*tables), most_columns_(most_columns) {}

  // Calls written(step, keys) for everything that is written.
  template <class Written>
  void Flush(Table table, const Written& written) {
    const double size = tables_.Size(table);
    written("level-0", size);
    AddSlot(&root_, std::move(table), size);
    Column* column = nullptr;
    bool down = false;
    while (Pick(&column, &down)) {
      const int depth = column->depth + (down ? 1 : 0);
      const double moved = down ? MoveDown(column) : MergeInPlace(column);
      written("depth-" + std::to_string(depth) + (down ? "" : " in place"), moved);
    }
  }

  double items() const { return items_; }
  const Column& root() const { return root_; }

  template <class Function>
  static void Visit(const Column& column, const Function& function) {
    function(column);
    for (const auto& child : column.children) Visit(*child, function);
  }

 private:
  // A compaction for space must free this part of what it reads.
  static constexpr double kWorthwhile = 0.02;

  void AddSlot(Column* column, Table table, double size) {
    column->slots.push_back(std::move(table));
    column->stored += size;
    column->merged_known = false;
    items_ += size;
  }

  const Table& Merged(Column* column) {
    if (!column->merged_known) {
      column->merged = tables_.Merge(column->slots);
      column->merged_known = true;
    }
    return column->merged;
  }

  int Trigger(const Column& column) const { return column.depth == 0 ? store_.root_trigger : store_.column_trigger; }

  // Whether a column moves down; else it is merged in place.
  bool GoesDown(Column* column) {
    if (column->depth == 0 || !column->children.empty()) return true;
    return tables_.Size(Merged(column)) >= store_.grow_liveness * column->stored;
  }

  bool Pick(Column** best, bool* down) {
    double best_score = 0;
    PickFull(&root_, &best_score, best, down);
    const double next_flush = root_.slots.empty() ? 0 : root_.stored / static_cast<double>(root_.slots.size());
    const double allowed = (1 + (store_.space_bound - 1) * kSpaceHeadStart) * tables_.Live() - next_flush;
    if (items_ > allowed) {
      const double excess = allowed > 0 ? items_ / allowed - 1 : 1;
      const double score = 1 + 4 * std::min(excess, 2.0);
      double best_ratio = 0;
      if (score > best_score) PickForSpace(&root_, &best_ratio, best, down);
      if (best_ratio > 0) return true;
    }
    return best_score > 0;
  }

  void PickFull(Column* column, double* best_score, Column** best, bool* down) {
    const double score = static_cast<double>(column->slots.size()) / Trigger(*column);
    if (score >= 1 && score > *best_score) {
      *best_score = score;
      *best = column;
      *down = GoesDown(column);
    }
    for (const auto& child : column->children) PickFull(child.get(), best_score, best, down);
  }

  // What is freed for each key written: by a leaf's merge in place, or by a column that moves down together with the
  // merges that this lets its children do.
  void PickForSpace(Column* column, double* best_ratio, Column** best, bool* down) {
    for (const auto& child : column->children) PickForSpace(child.get(), best_ratio, best, down);
    if (column->slots.empty()) return;
    const bool leaf = column->children.empty() && column->depth > 0;
    const Table& merged = Merged(column);
    double before = column->stored;
    double after = tables_.Size(merged);
    double written = after;
    if (!leaf) {
      for (const auto& child : column->children) {
        if (child->slots.empty()) continue;
        before += child->stored;
        after += tables_.NotIn(Merged(child.get()), merged);
      }
      written += after;
    }
    const double ratio = (before - after) / std::max(1.0, written);
    if (before - after < kWorthwhile * before || ratio <= *best_ratio) return;
    *best_ratio = ratio;
    *best = column;
    const bool nearly_full = 4 * static_cast<int>(column->slots.size()) >= 3 * Trigger(*column);
    *down = !leaf || (nearly_full && GoesDown(column));
  }

  double MergeInPlace(Column* column) {
    Table merged = Merged(column);
    const double size = tables_.Size(merged);
    Clear(column);
    AddSlot(column, std::move(merged), size);
    return size;
  }

  double MoveDown(Column* column) {
    if (column->children.empty()) AddChildren(column);
    const Table merged = Merged(column);
    Clear(column);
    double moved = 0;
    for (const auto& child : column->children) {
      Table part = tables_.Part(merged, child->begin, child->end);
      const double size = tables_.Size(part);
      if (size == 0) continue;
      moved += size;
      AddSlot(child.get(), std::move(part), size);
    }
    return moved;
  }

  void AddChildren(Column* column) {
    double columns = 1;  // of the depth below, if all fan out
    for (int depth = 0; depth <= column->depth; depth++) columns *= store_.fan_out;
    const int children = columns <= most_columns_ ? store_.fan_out : 1;
    const double width = (column->end - column->begin) / children;
    for (int i = 0; i < children; i++) {
      auto child = std::make_unique<Column>();
      child->depth = column->depth + 1;
      child->begin = column->begin + width * i;
      child->end = i + 1 == children ? column->end : column->begin + width * (i + 1);
      column->children.push_back(std::move(child));
    }
  }

  void Clear(Column* column) {
    items_ -= column->stored;
    column->slots.clear();
    column->stored = 0;
    column->merged_known = false;
  }

  const Store store_;
  Tables& tables_;
  const double most_columns_;
  Column root_;
  double items_ = 0;
};

}  // namespace msls
}  // namespace cairn
