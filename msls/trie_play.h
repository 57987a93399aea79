// The compactions of Cairn's trie, played one after the other with the rules of trie_table/compaction/hash_picker.h:
// what is full moves down or is merged in place, and while the trie takes more than its space bound the compaction that
// frees most for what it writes comes first. `Tables` says what a table is: real keys for the simulator, the expected
// number of them for the model.
//
// Left out against the picker: what it does when no compaction of a container with its children frees anything worth
// its writes, a limit to the depths, and that compactions take time.
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
#include "table/trie_rules.h"
#include "util/mix64.h"

namespace cairn::msls {

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
  struct Container {
    int depth = 0;
    double begin = 0, end = 1;
    std::vector<Table> slots;
    int levels = 0;  // from the oldest slot to the newest, those between them that hold nothing counted
    std::vector<std::unique_ptr<Container>> children;
    double stored = 0;      // keys of the slots
    double largest = 0;     // keys of the largest of them
    double stands_for = 1;  // this many containers of its depth, all alike
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
    // 0: the root of a trie. Else the containers of this depth - 1, which move down together and at once whatever they
    // receive; what they hold until then and what is written to bring it there is not played.
    int first_depth = 0;
    double held_above = 0;  // keys in the depths above first_depth
  };

  // No container gets more than `most_children`, and no depth more than `most_containers`: below that each container
  // has one child that stands for its whole fan-out.
  TriePlay(const StoreShape& store, Tables* tables, const Top& top, int most_children, double most_containers)
      : store_(store),
        tables_(*tables),
        top_(top),
        most_children_(std::min(store.fan_out, most_children)),
        most_containers_(most_containers),
        containers_(1, &root_) {
    root_.depth = std::max(0, top.first_depth - 1);
  }

  // One more slot of the root. Calls written(step, keys) for everything that is written.
  template <class Written>
  void Flush(Table table, const Written& written) {
    const double size = tables_.Size(table);
    if (top_.first_depth == 0) written("level-0", size);
    AddSlot(&root_, std::move(table), size, root_.levels);
    most_items_ = std::max(most_items_, items_);
    Job job;
    while (Pick(&job)) {
      const int depth = job.container->depth + (job.down ? 1 : 0);
      // Of alike containers one is compacted at a time.
      most_items_ = std::max(most_items_, items_ + MergedSize(job.container) / job.container->stands_for);
      const double moved = job.down ? MoveDown(job.container) : MergeInPlace(job.container);
      written("depth-" + std::to_string(depth) + (job.down ? "" : " in place"), moved);
    }
  }

  double items() const { return items_; }
  // The most since the last call, with what a compaction was writing beside its inputs.
  double TakeMostItems() { return std::exchange(most_items_, 0); }
  const Container& root() const { return root_; }

  template <class Function>
  static void Visit(const Container& container, const Function& function) {
    function(container);
    for (const auto& child : container.children) Visit(*child, function);
  }

 private:
  struct Job {
    Container* container = nullptr;
    bool down = false;  // else merged in place
    double score = 0;
  };

  // What their parents have found out about containers, while one is picked.
  struct Urgent {
    std::vector<Container*> blocking;          // without a free level, so that the parent cannot move
    std::vector<Container*> merging_in_place;  // too high for the parent to fill them
    static bool Has(const std::vector<Container*>& containers, const Container* container) {
      return std::find(containers.begin(), containers.end(), container) != containers.end();
    }
  };

  void AddSlot(Container* container, Table table, double size, int level) {
    container->slots.push_back(std::move(table));
    container->levels = level + 1;
    container->stored += size;
    container->largest = std::max(container->largest, size);
    container->version++;
    items_ += size;
  }

  const Table& Merged(Container* container) {
    if (container->merged_version != container->version) {
      container->merged = tables_.Merge(container->slots);
      container->merged_size = tables_.Size(container->merged);
      container->merged_version = container->version;
    }
    return container->merged;
  }
  double MergedSize(Container* container) {
    Merged(container);
    return container->merged_size;
  }

  // Keys that a merge of the child's slots would keep after the parent has moved down.
  double KeptUnder(Container* parent, Container* child) {
    if (child->kept_version != child->version || child->kept_parent_version != parent->version) {
      child->kept = tables_.NotIn(Merged(child), Merged(parent));
      child->kept_version = child->version;
      child->kept_parent_version = parent->version;
    }
    return child->kept;
  }

  static int Occupied(const Container& container) { return static_cast<int>(container.slots.size()); }
  int Trigger(const Container& container) const {
    if (&container != &root_) return store_.container_trigger;
    return top_.first_depth == 0 ? store_.root_trigger : 1;
  }

  // Whether a container moves down; else it is merged in place.
  bool GoesDown(Container* container) {
    if (container == &root_ || !container->children.empty()) return true;
    return MergedSize(container) >= store_.grow_liveness * container->stored;
  }

  // Levels above the newest slot of all children, which gain slots together.
  int FreeLevels(const Container& parent) const {
    int taken = 0;
    for (const auto& child : parent.children) taken = std::max(taken, child->levels);
    return TrieSlots(store_) - taken;
  }

  // Not before the last of several full children has moved.
  bool WaitsForChildren(const Container& parent) const {
    bool some_full = false, some_empty = false;
    for (const auto& child : parent.children) {
      some_full |= Occupied(*child) >= store_.container_trigger;
      some_empty |= child->slots.empty() && !child->children.empty();
    }
    if (!some_full || !some_empty || (&parent == &root_ && top_.first_depth > 0)) return false;
    return Occupied(parent) < (parent.depth == 0 ? RootWaitsUntil(store_.root_trigger)
                                                 : ContainerWaitsUntil(store_.container_trigger, TrieSlots(store_)));
  }

  // All children are nearly empty, but lie too high to be filled: those that would lie lower if merged.
  std::vector<Container*> ChildrenToMergeInPlace(const Container& parent) const {
    std::vector<Container*> merging_in_place;
    int most = 0;
    for (const auto& child : parent.children) {
      most = std::max(most, Occupied(*child));
      if (!child->slots.empty() && child->levels > Occupied(*child)) merging_in_place.push_back(child.get());
    }
    if (!SiblingsMergeInPlace(most, FreeLevels(parent), store_.container_trigger)) merging_in_place.clear();
    return merging_in_place;
  }

  // The most overdue; of equal ones the first.
  bool Pick(Job* best) {
    *best = Job();
    Urgent urgent;
    for (Container* container : containers_) PickFull(container, &urgent, best);
    if (best->container == nullptr || SpaceHasChanged()) PickForSpace(best);
    return best->container != nullptr;
  }

  void PickFull(Container* container, Urgent* urgent, Job* best) {
    const bool blocks = Urgent::Has(urgent->blocking, container);
    const bool merges_in_place = Urgent::Has(urgent->merging_in_place, container);
    if (container->slots.empty() || (!blocks && !merges_in_place && Occupied(*container) < Trigger(*container))) return;
    if (!blocks && !merges_in_place && WaitsForChildren(*container)) return;
    if (!merges_in_place) {
      const std::vector<Container*> below = ChildrenToMergeInPlace(*container);
      urgent->merging_in_place.insert(urgent->merging_in_place.end(), below.begin(), below.end());
      if (!below.empty()) return;
    }
    const bool down = !merges_in_place && GoesDown(container);
    if (down && FreeLevels(*container) <= 0) {
      for (const auto& child : container->children) {
        if (child->levels >= TrieSlots(store_)) urgent->blocking.push_back(child.get());
      }
      return;
    }
    const double score =
        static_cast<double>(Occupied(*container)) / Trigger(*container) + (blocks || merges_in_place ? 10 : 0);
    if (score > best->score) *best = {container, down, score};
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
    for (const Container* container : containers_)
      largest = std::max(largest, container->largest / container->stands_for);
    sampled_ = std::min(KeySketchShare(largest), kMaxSpaceSamples / items_);
    double best_ratio = 0;
    for (Container* container : containers_) PickForSpace(container, score, &best_ratio, best);
  }

  // The picker knows garbage from sketches only, of which it counts the part that the largest table's has. What it sees
  // strays as random samples do; what is already there is sampled already, so that the error walks on with each slot.
  double EstimatedGarbage(Container* container) {
    const double garbage = container->stored - MergedSize(container);
    if (container->walked_version != container->version) {
      container->walk +=
          std::sqrt(std::max(0.0, garbage - container->walked)) * StandardNormal(container->id, container->version);
      container->walked = garbage;
      container->walked_version = container->version;
    }
    return std::max(0.0, garbage + container->walk * std::sqrt(container->stands_for / sampled_));
  }

  // What is freed for each key written: by a leaf's merge in place, or by a container that moves down together with the
  // merges that this lets its children do.
  void PickForSpace(Container* container, double score, double* best_ratio, Job* best) {
    if (container->slots.empty()) return;
    const bool leaf = container->children.empty() && container != &root_;
    double before = container->stored;
    double freed = EstimatedGarbage(container);
    double written = before - freed;
    if (!leaf) {
      for (const auto& child : container->children) {
        if (child->slots.empty()) continue;
        before += child->stored;
        freed += EstimatedGarbage(child.get()) + MergedSize(child.get()) - KeptUnder(container, child.get());
      }
      written += before - freed;
    }
    const double ratio = freed / std::max(1.0, written);
    if (freed < kSpaceWorthwhile * before || ratio <= *best_ratio) return;
    const bool down = !leaf || (IsNearlyFull(Occupied(*container), Trigger(*container)) && GoesDown(container));
    if (down && FreeLevels(*container) <= 0) return;
    *best_ratio = ratio;
    *best = {container, down, score};
  }

  double MergeInPlace(Container* container) {
    Table merged = Merged(container);
    const double size = MergedSize(container);
    Clear(container);
    AddSlot(container, std::move(merged), size, 0);
    return size;
  }

  double MoveDown(Container* container) {
    if (container->children.empty()) AddChildren(container);
    const Table merged = Merged(container);
    Clear(container);
    const int level = TrieSlots(store_) - FreeLevels(*container);
    double moved = 0;
    for (const auto& child : container->children) {
      Table part = tables_.Part(merged, child->begin, child->end);
      const double size = tables_.Size(part);
      if (size == 0) continue;
      moved += size;
      AddSlot(child.get(), std::move(part), size, level);
    }
    return moved;
  }

  void AddChildren(Container* container) {
    double containers = 1;  // of the depth below, if all fan out
    for (int depth = root_.depth; depth <= container->depth; depth++) containers *= most_children_;
    const int children = containers <= most_containers_ ? most_children_ : 1;
    const double width = (container->end - container->begin) / children;
    for (int i = 0; i < children; i++) {
      auto child = std::make_unique<Container>();
      child->depth = container->depth + 1;
      child->begin = container->begin + width * i;
      child->end = i + 1 == children ? container->end : container->begin + width * (i + 1);
      child->stands_for = std::max(1.0, (child->end - child->begin) * std::pow(store_.fan_out, child->depth));
      child->id = containers_.size();
      containers_.push_back(child.get());
      container->children.push_back(std::move(child));
    }
    std::stable_sort(containers_.begin(), containers_.end(), [](const Container* a, const Container* b) {
      return a->depth != b->depth ? a->depth < b->depth : a->begin < b->begin;
    });
  }

  void Clear(Container* container) {
    items_ -= container->stored;
    container->slots.clear();
    container->levels = 0;
    container->stored = 0;
    container->largest = 0;
    container->walk = container->walked = 0;
    container->version++;
  }

  const StoreShape store_;
  Tables& tables_;
  const Top top_;
  const int most_children_;
  const double most_containers_;
  Container root_;
  std::vector<Container*> containers_;  // all, parents before their children
  double items_ = 0;
  double most_items_ = 0;
  double sampled_ = 1;        // part of the keys that sketches let the picker see
  double items_at_look_ = 0;  // when it was last asked how much space is taken
};

}  // namespace cairn::msls
