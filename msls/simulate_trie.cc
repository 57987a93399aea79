// Cairn's trie with real keys: the key space cut into containers by prefix, each with its slots.

#include <algorithm>
#include <cmath>

#include "msls/simulator.h"
#include "msls/trie_play.h"

namespace cairn::msls {

namespace {

struct KeyTables {
  using Table = cairn::msls::Table;

  double Size(const Table& table) const { return static_cast<double>(table.size()); }
  Table Merge(const std::vector<Table>& tables) const {
    Table merged = tables.front();
    for (size_t i = 1; i < tables.size(); i++) merged = MergeTables(tables[i], merged);
    return merged;
  }
  Table Part(const Table& table, double begin, double end) const { return Table(At(table, begin), At(table, end)); }
  double NotIn(const Table& older, const Table& newer) const {
    if (older.empty()) return 0;
    double missing = 0;
    auto at = std::lower_bound(newer.begin(), newer.end(), static_cast<Item>(ItemKey(older.front())) << 32);
    for (Item item : older) {
      while (at != newer.end() && ItemKey(*at) < ItemKey(item)) ++at;
      missing += at == newer.end() || ItemKey(*at) != ItemKey(item);
    }
    return missing;
  }
  double Live() const { return live; }

  Table::const_iterator At(const Table& table, double place) const {
    const Item key = static_cast<Item>(std::llround(place * keys));
    return std::lower_bound(table.begin(), table.end(), key << 32);
  }

  double keys = 0;
  double live = 0;
};

class TrieStore : public SimulatedStore {
 public:
  using Play = TriePlay<KeyTables>;

  TrieStore(const StoreShape& store, uint64_t keys)
      : play_(store, &tables_, Play::Top(), store.fan_out, kEveryContainer), seen_(keys) {
    tables_.keys = static_cast<double>(keys);
  }

  void Flush(Table table) override {
    for (Item item : table) {
      tables_.live += !seen_[ItemKey(item)];
      seen_[ItemKey(item)] = true;
    }
    play_.Flush(std::move(table), [this](const std::string& step, double keys) { write_stats.Write(step, keys); });
  }

  double Items() const override { return play_.items(); }
  double Runs() const override {
    // On average over the key space.
    double runs = 0;
    Play::Visit(play_.root(), [&](const Play::Container& container) {
      runs += static_cast<double>(container.slots.size()) * (container.end - container.begin);
    });
    return runs;
  }
  std::vector<double> LevelItems() const override {
    std::vector<double> depths;
    Play::Visit(play_.root(), [&](const Play::Container& container) {
      if (container.depth == 0) return;
      depths.resize(std::max(depths.size(), static_cast<size_t>(container.depth)));
      depths[static_cast<size_t>(container.depth) - 1] += container.stored;
    });
    return depths;
  }
  double RunsToHit(uint32_t key) const override {
    double runs = 0;
    const double place = (key + 0.5) / tables_.keys;
    for (const Play::Container* container = &play_.root(); container != nullptr;) {
      for (size_t i = container->slots.size(); i-- > 0;) {
        runs++;
        if (Holds(container->slots[i], key)) return runs;
      }
      const Play::Container* next = nullptr;
      for (const auto& child : container->children) {
        if (place >= child->begin && place < child->end) next = child.get();
      }
      container = next;
    }
    return runs;
  }

 private:
  static constexpr double kEveryContainer = 1e18;

  KeyTables tables_;
  Play play_;
  std::vector<bool> seen_;
};

}  // namespace

IndexStatus SimulateTrie(const StoreShape& store, const Popularity& popularity, const SimulationOptions& options,
                         Report* report) {
  TrieStore simulated(store, static_cast<uint64_t>(popularity.keys()));
  return Play(store, popularity, options, &simulated, report);
}

}  // namespace cairn::msls
