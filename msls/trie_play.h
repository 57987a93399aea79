// The compactions of Cairn's trie, played one after the other with the rules of db/trie_picker.h: what is full moves
// down or is merged in place, and while the trie takes more than its space bound the compaction that frees most for
// what it writes comes first. `Tables` says what a table is: real keys for the simulator, the expected number of them
// for the model.
//
// Left out against the picker: what it does when no compaction of a column with its children frees anything worth its
// writes, a limit to the depths, and that compactions take time.
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
#include <cmath>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "msls/model.h"
#include "table/mix64.h"
#include "table/trie_rules.h"

namespace cairn {
namespace msls {

// Part of the keys of a table of so many that its sketch holds.
inline double KeySketchShare(double keys) { return std::min(1.0 / kSketchOneOf, kSketchCapacity / keys); }

// A number of the standard normal distribution, always the same for the same two numbers.
inline double StandardNormal(uint64_t a, uint64_t b) {
  const uint64_t x = Mix64(Mix64(a * kSplitMixStep + b));
  const double u = (static_cast<double>(x >> 32) + 0.5) / 4294967296.0;
  const double v = static_cast<double>(x & 0xffffffffu) / 4294967296.0;
  return std::sqrt(-2 * std::log(u)) * std::cos(2 * 3.14159265358979323846 * v);
}

template <class Tables>
class TriePlay {
 public:
  using Table = typename Tables::Table;

  // A prefix of the key space with its slots, oldest first, and its children once anything was moved down.
  struct Column {
    int depth = 0;
    double begin = 0, end = 1;
    std::vector<Table> slots;
    int levels = 0;  // from the oldest slot to the newest, those between them that hold nothing counted
    std::vector<std::unique_ptr<Column>> children;
    double stored = 0;      // keys of the slots
    double largest = 0;     // keys of the largest of them
    double stands_for = 1;  // this many columns of its depth, all alike
    uint64_t id = 0;
    uint64_t version = 1;  // of the slots
    uint64_t merged_version = 0;
    Table merged;  // of all slots, when they had merged_version
    double merged_size = 0;
    uint64_t walked_version = 0;
    double walked = 0, walk = 0;  // garbage when it had that version, and the error of sampling it at a rate of 1
    uint64_t kept_version = 0, kept_parent_version = 0;
    double kept = 0;  // keys of `merged` that the parent had not, when both had these versions
  };

  // What the root stands for.
  struct Top {
    // 0: the root of a trie. Else the columns of this depth - 1, which move down together and at once whatever they
    // receive; what they hold until then and what is written to bring it there is not played.
    int first_depth = 0;
    double held_above = 0;  // keys in the depths above first_depth
  };

  // No column gets more than `most_children`, and no depth more than `most_columns`: below that each column has one
  // child that stands for its whole fan-out.
  TriePlay(const Store& store, Tables* tables, const Top& top, int most_children, double most_columns)
      : store_(store),
        tables_(*tables),
        top_(top),
        most_children_(std::min(store.fan_out, most_children)),
        most_columns_(most_columns),
        columns_(1, &root_) {
    root_.depth = std::max(0, top.first_depth - 1);
  }

  // One more slot of the root. Calls written(step, keys) for everything that is written.
  template <class Written>
  void Flush(Table table, const Written& written) {
    const double size = tables_.Size(table);
    if (top_.first_depth == 0) written("level-0", size);
    AddSlot(&root_, std::move(table), size, root_.levels);
    Job job;
    while (Pick(&job)) {
      const int depth = job.column->depth + (job.down ? 1 : 0);
      const double moved = job.down ? MoveDown(job.column) : MergeInPlace(job.column);
      written("depth-" + std::to_string(depth) + (job.down ? "" : " in place"), moved);
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
  struct Job {
    Column* column = nullptr;
    bool down = false;  // else merged in place
    double score = 0;
  };

  // What their parents have found out about columns, while one is picked.
  struct Urgent {
    std::vector<Column*> blocking;  // without a free level, so that the parent cannot move
    std::vector<Column*> sinking;   // too high for the parent to fill them
    static bool Has(const std::vector<Column*>& columns, const Column* column) {
      return std::find(columns.begin(), columns.end(), column) != columns.end();
    }
  };

  void AddSlot(Column* column, Table table, double size, int level) {
    column->slots.push_back(std::move(table));
    column->levels = level + 1;
    column->stored += size;
    column->largest = std::max(column->largest, size);
    column->version++;
    items_ += size;
  }

  const Table& Merged(Column* column) {
    if (column->merged_version != column->version) {
      column->merged = tables_.Merge(column->slots);
      column->merged_size = tables_.Size(column->merged);
      column->merged_version = column->version;
    }
    return column->merged;
  }
  double MergedSize(Column* column) {
    Merged(column);
    return column->merged_size;
  }

  // Keys that a merge of the child's slots would keep after the parent has moved down.
  double KeptUnder(Column* parent, Column* child) {
    if (child->kept_version != child->version || child->kept_parent_version != parent->version) {
      child->kept = tables_.NotIn(Merged(child), Merged(parent));
      child->kept_version = child->version;
      child->kept_parent_version = parent->version;
    }
    return child->kept;
  }

  static int Occupied(const Column& column) { return static_cast<int>(column.slots.size()); }
  int Trigger(const Column& column) const {
    if (&column != &root_) return store_.column_trigger;
    return top_.first_depth == 0 ? store_.root_trigger : 1;
  }

  // Whether a column moves down; else it is merged in place.
  bool GoesDown(Column* column) {
    if (column == &root_ || !column->children.empty()) return true;
    return MergedSize(column) >= store_.grow_liveness * column->stored;
  }

  // Levels above the newest slot of all children, which gain slots together.
  int FreeLevels(const Column& parent) const {
    int taken = 0;
    for (const auto& child : parent.children) taken = std::max(taken, child->levels);
    return TrieSlots(store_) - taken;
  }

  // Not before the last of several full children has moved.
  bool WaitsForChildren(const Column& parent) const {
    bool some_full = false, some_empty = false;
    for (const auto& child : parent.children) {
      some_full |= Occupied(*child) >= store_.column_trigger;
      some_empty |= child->slots.empty() && !child->children.empty();
    }
    if (!some_full || !some_empty || (&parent == &root_ && top_.first_depth > 0)) return false;
    return Occupied(parent) < (parent.depth == 0 ? RootWaitsUntil(store_.root_trigger)
                                                 : ColumnWaitsUntil(store_.column_trigger, TrieSlots(store_)));
  }

  // All children are nearly empty, but lie too high to be filled: those that would lie lower if merged.
  std::vector<Column*> SinkingChildren(const Column& parent) const {
    std::vector<Column*> sinking;
    int most = 0;
    for (const auto& child : parent.children) {
      most = std::max(most, Occupied(*child));
      if (!child->slots.empty() && child->levels > Occupied(*child)) sinking.push_back(child.get());
    }
    if (!SiblingsSink(most, FreeLevels(parent), store_.column_trigger)) sinking.clear();
    return sinking;
  }

  // The most overdue; of equal ones the first.
  bool Pick(Job* best) {
    *best = Job();
    Urgent urgent;
    for (Column* column : columns_) PickFull(column, &urgent, best);
    if (best->column == nullptr || SpaceHasChanged()) PickForSpace(best);
    return best->column != nullptr;
  }

  void PickFull(Column* column, Urgent* urgent, Job* best) {
    const bool blocks = Urgent::Has(urgent->blocking, column);
    const bool sinks = Urgent::Has(urgent->sinking, column);
    if (column->slots.empty() || (!blocks && !sinks && Occupied(*column) < Trigger(*column))) return;
    if (!blocks && !sinks && WaitsForChildren(*column)) return;
    if (!sinks) {
      const std::vector<Column*> below = SinkingChildren(*column);
      urgent->sinking.insert(urgent->sinking.end(), below.begin(), below.end());
      if (!below.empty()) return;
    }
    const bool down = !sinks && GoesDown(column);
    if (down && FreeLevels(*column) <= 0) {
      for (const auto& child : column->children) {
        if (child->levels >= TrieSlots(store_)) urgent->blocking.push_back(child.get());
      }
      return;
    }
    const double score = static_cast<double>(Occupied(*column)) / Trigger(*column) + (blocks || sinks ? 10 : 0);
    if (score > best->score) *best = {column, down, score};
  }

  // The picker looks at space when nothing else is due or much has changed since it last did.
  bool SpaceHasChanged() const { return std::abs(items_ - items_at_look_) >= items_ / 64; }

  void PickForSpace(Job* best) {
    items_at_look_ = items_;
    const bool flushes = top_.first_depth == 0 && !root_.slots.empty();
    const double next_flush = flushes ? root_.stored / static_cast<double>(root_.slots.size()) : 0;
    const double garbage = (store_.space_bound - 1) * tables_.Live();
    const double allowed =
        tables_.Live() + std::max(kSpaceHeadStart * garbage - next_flush, kSpaceLittleGarbage * garbage);
    const double items = items_ + top_.held_above;
    if (items <= allowed) return;
    const double score = SpaceScore(items / allowed - 1);
    if (score <= best->score) return;
    double largest = 1;
    for (const Column* column : columns_) largest = std::max(largest, column->largest / column->stands_for);
    sampled_ = std::min(KeySketchShare(largest), kMaxSpaceSamples / items_);
    double best_ratio = 0;
    for (Column* column : columns_) PickForSpace(column, score, &best_ratio, best);
  }

  // The picker knows garbage from sketches only, of which it counts the part that the largest table's has. What it sees
  // strays as random samples do; what is already there is sampled already, so that the error walks on with each slot.
  double EstimatedGarbage(Column* column) {
    const double garbage = column->stored - MergedSize(column);
    if (column->walked_version != column->version) {
      column->walk += std::sqrt(std::max(0.0, garbage - column->walked)) * StandardNormal(column->id, column->version);
      column->walked = garbage;
      column->walked_version = column->version;
    }
    return std::max(0.0, garbage + column->walk * std::sqrt(column->stands_for / sampled_));
  }

  // What is freed for each key written: by a leaf's merge in place, or by a column that moves down together with the
  // merges that this lets its children do.
  void PickForSpace(Column* column, double score, double* best_ratio, Job* best) {
    if (column->slots.empty()) return;
    const bool leaf = column->children.empty() && column != &root_;
    double before = column->stored;
    double freed = EstimatedGarbage(column);
    double written = before - freed;
    if (!leaf) {
      for (const auto& child : column->children) {
        if (child->slots.empty()) continue;
        before += child->stored;
        freed += EstimatedGarbage(child.get()) + MergedSize(child.get()) - KeptUnder(column, child.get());
      }
      written += before - freed;
    }
    const double ratio = freed / std::max(1.0, written);
    if (freed < kSpaceWorthwhile * before || ratio <= *best_ratio) return;
    const bool down = !leaf || (IsNearlyFull(Occupied(*column), Trigger(*column)) && GoesDown(column));
    if (down && FreeLevels(*column) <= 0) return;
    *best_ratio = ratio;
    *best = {column, down, score};
  }

  double MergeInPlace(Column* column) {
    Table merged = Merged(column);
    const double size = MergedSize(column);
    Clear(column);
    AddSlot(column, std::move(merged), size, 0);
    return size;
  }

  double MoveDown(Column* column) {
    if (column->children.empty()) AddChildren(column);
    const Table merged = Merged(column);
    Clear(column);
    const int level = TrieSlots(store_) - FreeLevels(*column);
    double moved = 0;
    for (const auto& child : column->children) {
      Table part = tables_.Part(merged, child->begin, child->end);
      const double size = tables_.Size(part);
      if (size == 0) continue;
      moved += size;
      AddSlot(child.get(), std::move(part), size, level);
    }
    return moved;
  }

  void AddChildren(Column* column) {
    double columns = 1;  // of the depth below, if all fan out
    for (int depth = root_.depth; depth <= column->depth; depth++) columns *= most_children_;
    const int children = columns <= most_columns_ ? most_children_ : 1;
    const double width = (column->end - column->begin) / children;
    for (int i = 0; i < children; i++) {
      auto child = std::make_unique<Column>();
      child->depth = column->depth + 1;
      child->begin = column->begin + width * i;
      child->end = i + 1 == children ? column->end : column->begin + width * (i + 1);
      child->stands_for = std::max(1.0, (child->end - child->begin) * std::pow(store_.fan_out, child->depth));
      child->id = columns_.size();
      columns_.push_back(child.get());
      column->children.push_back(std::move(child));
    }
    std::stable_sort(columns_.begin(), columns_.end(), [](const Column* a, const Column* b) {
      return a->depth != b->depth ? a->depth < b->depth : a->begin < b->begin;
    });
  }

  void Clear(Column* column) {
    items_ -= column->stored;
    column->slots.clear();
    column->levels = 0;
    column->stored = 0;
    column->largest = 0;
    column->walk = column->walked = 0;
    column->version++;
  }

  const Store store_;
  Tables& tables_;
  const Top top_;
  const int most_children_;
  const double most_columns_;
  Column root_;
  std::vector<Column*> columns_;  // all, parents before their children
  double items_ = 0;
  double sampled_ = 1;        // part of the keys that sketches let the picker see
  double items_at_look_ = 0;  // when it was last asked how much space is taken
};

}  // namespace msls
}  // namespace cairn
