// Cairn's trie with real keys: the key space cut into columns by prefix, each with its slots.

#include <algorithm>
#include <cmath>
#include <memory>

#include "msls/model.h"
#include "msls/simulator.h"

namespace cairn {
namespace msls {

namespace {

// A prefix of the key space with its slots, newest last, and its children once there are any.
struct Column {
  uint32_t begin, end;  // keys
  std::vector<Table> slots;
  std::vector<std::unique_ptr<Column>> children;
};

class TrieStore : public SimulatedStore {
 public:
  TrieStore(const Store& store, uint64_t keys) : store_(store) {
    root_.begin = 0;
    root_.end = static_cast<uint32_t>(keys);
    seen_.resize(keys);
  }

  void Flush(Table table) override {
    accounts.Write("level-0", static_cast<double>(table.size()));
    for (Item item : table) {
      live_ += !seen_[ItemKey(item)];
      seen_[ItemKey(item)] = true;
    }
    root_.slots.push_back(std::move(table));
    if (root_.slots.size() >= static_cast<size_t>(store_.root_trigger)) MoveDown(&root_, 1);
    while (Items() > (1 + (store_.space_bound - 1) * kSpaceHeadStart) * live_ && MergeForSpace()) {
    }
  }

  double Items() const override {
    double items = 0;
    Visit(root_, 0, [&](const Column& column, size_t) {
      for (const Table& slot : column.slots) items += static_cast<double>(slot.size());
    });
    return items;
  }
  double Runs() const override {
    // On average over the key space.
    double runs = 0;
    Visit(root_, 0, [&](const Column& column, size_t) {
      runs += static_cast<double>(column.slots.size()) * (column.end - column.begin);
    });
    return runs / root_.end;
  }
  std::vector<double> LevelItems() const override {
    std::vector<double> depths;
    Visit(root_, 0, [&](const Column& column, size_t depth) {
      if (depth == 0) return;
      if (depths.size() < depth) depths.resize(depth);
      for (const Table& slot : column.slots) depths[depth - 1] += static_cast<double>(slot.size());
    });
    return depths;
  }
  double RunsToHit(uint32_t key) const override {
    double runs = 0;
    for (const Column* column = &root_; column != nullptr;) {
      for (size_t i = column->slots.size(); i-- > 0;) {
        runs++;
        if (Holds(column->slots[i], key)) return runs;
      }
      const Column* next = nullptr;
      for (const auto& child : column->children) {
        if (key >= child->begin && key < child->end) next = child.get();
      }
      column = next;
    }
    return runs;
  }

 private:
  template <class Function>
  static void Visit(const Column& column, size_t depth, const Function& function) {
    function(column, depth);
    for (const auto& child : column.children) Visit(*child, depth + 1, function);
  }

  static Table MergeSlots(std::vector<Table>* slots) {
    Table merged = std::move(slots->front());
    for (size_t i = 1; i < slots->size(); i++) merged = MergeTables((*slots)[i], merged);
    slots->clear();
    return merged;
  }

  // Merges all slots of a column into one new slot of each child; `depth` is the children's.
  void MoveDown(Column* column, size_t depth) {
    if (column->children.empty()) {
      const uint64_t width = column->end - column->begin;
      const uint64_t fan_out = static_cast<uint64_t>(store_.fan_out);
      for (uint64_t i = 0; i < fan_out; i++) {
        auto child = std::make_unique<Column>();
        child->begin = column->begin + static_cast<uint32_t>(width * i / fan_out);
        child->end = column->begin + static_cast<uint32_t>(width * (i + 1) / fan_out);
        if (child->begin < child->end) column->children.push_back(std::move(child));
      }
    }
    const Table merged = MergeSlots(&column->slots);
    accounts.Write("depth-" + std::to_string(depth), static_cast<double>(merged.size()));
    for (const auto& child : column->children) {
      const auto first = std::lower_bound(merged.begin(), merged.end(), static_cast<Item>(child->begin) << 32);
      const auto last = std::lower_bound(first, merged.end(), static_cast<Item>(child->end) << 32);
      if (first == last) continue;
      child->slots.emplace_back(first, last);
      Settle(child.get(), depth);
    }
  }

  void Settle(Column* column, size_t depth) {
    const bool full = column->slots.size() >= static_cast<size_t>(store_.column_trigger);
    if (!column->children.empty()) {
      if (full) MoveDown(column, depth + 1);
      return;
    }
    if (!full) return;
    const double stored = Stored(*column);
    std::vector<Table> slots = column->slots;
    Table merged = MergeSlots(&slots);
    if (static_cast<double>(merged.size()) >= store_.grow_liveness * stored) {
      MoveDown(column, depth + 1);
    } else {
      MergeInPlace(column, depth);
    }
  }

  static double Stored(const Column& column) {
    double stored = 0;
    for (const Table& slot : column.slots) stored += static_cast<double>(slot.size());
    return stored;
  }

  void MergeInPlace(Column* column, size_t depth) {
    Table merged = MergeSlots(&column->slots);
    accounts.Write("depth-" + std::to_string(depth) + " in place", static_cast<double>(merged.size()));
    column->slots.push_back(std::move(merged));
  }

  // Merges the leaf that frees most for what it writes; false if none frees 2 %.
  bool MergeForSpace() {
    Column* best = nullptr;
    size_t best_depth = 0;
    double best_ratio = 0.02;
    Visit(root_, 0, [&](const Column& column, size_t depth) {
      if (depth == 0 || !column.children.empty() || column.slots.size() < 2) return;
      const double live = std::max(1.0, live_ * (column.end - column.begin) / root_.end);
      const double ratio = Stored(column) / live - 1;
      if (ratio > best_ratio) {
        best_ratio = ratio;
        best = const_cast<Column*>(&column);
        best_depth = depth;
      }
    });
    if (best != nullptr) MergeInPlace(best, best_depth);
    return best != nullptr;
  }

  const Store store_;
  Column root_;
  std::vector<bool> seen_;
  double live_ = 0;  // keys seen
};

}  // namespace

Status SimulateTrie(const Store& store, const Popularity& popularity, const SimulationOptions& options,
                    Report* report) {
  TrieStore simulated(store, static_cast<uint64_t>(popularity.keys()));
  return Play(store, popularity, options, &simulated, report);
}

}  // namespace msls
}  // namespace cairn
