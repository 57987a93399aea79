// The tuner's law on simulated databases (msls/simulator.h): level sizes change while data grows, shrinks and workloads
// shift, and what is written in all is compared with the same requests without a tuner. Deterministic: compactions are
// played one by one, and time is the number of looks.
//
// Of the lengths of a window, and of shapes, each scenario has one; with CAIRN_EVERY_SHAPE=1 it has all.

#include <gtest/gtest.h>

#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <iterator>
#include <memory>
#include <string>
#include <unordered_map>
#include <utility>
#include <vector>

#include "msls/simulator.h"
#include "msls/tuner_logic.h"
#include "msls/workload.h"

namespace cairn {
namespace {

constexpr double kItemBytes = 100;
constexpr int kNumLevels = 7;
constexpr uint64_t kMostKeys = uint64_t{1} << 21;

uint64_t Seed() {
  static const uint64_t seed = getenv("CAIRN_SEED") != nullptr ? strtoull(getenv("CAIRN_SEED"), nullptr, 10) : 1;
  return seed;
}

// What the user set.
struct Shape {
  double base_memtables = 4;
  double multiplier = 10;
  msls::FilePick pick = msls::FilePick::kMinOverlappingRatio;
};

// A database in RocksDB's proportions: with the default shape a write buffer of 400 items, level 1 of 1,600, ten times
// that, and so on.
class SimulatedDatabase {
 public:
  // Without a tuner if `tuner` is null.
  SimulatedDatabase(const Shape& shape, const TunerOptions* tuner, uint64_t window_flushes)
      : window_flushes_(window_flushes), place_(kMostKeys, Seed()), random_(Seed()) {
    sizes_.base = static_cast<uint64_t>(shape.base_memtables * kMemtable * kItemBytes);
    sizes_.multiplier = shape.multiplier;
    store_ = msls::StoreShape::Default(msls::Design::kRocksDB);
    store_.dynamic_level_bytes = false;
    store_.pick = shape.pick;
    store_.item_bytes = kItemBytes;
    store_.file_bytes = kMemtable * kItemBytes;
    store_.write_buffer_bytes = kMemtable * kItemBytes;
    simulated_ = msls::NewAdjustableStore(store_, Targets(), msls::Deletions::kOddTimesDelete);
    if (tuner != nullptr) logic_ = std::make_unique<TunerLogic>(*tuner);
  }

  // Keys are numbers from 0 on, in any order in the key space.
  void Put(uint64_t key) { Write(key, false); }
  void Delete(uint64_t key) { Write(key, true); }
  // New keys, up to this many in all.
  void Grow(uint64_t keys) {
    for (; keys_ < keys; keys_++) Put(keys_);
  }
  // New keys in key order, up to this many in all, of which `place` tells the order: a bulk load.
  void LoadInOrder(uint64_t keys) {
    const uint64_t first = keys_;
    keys_ = std::max(keys_, keys);
    for (uint64_t key : InOrder(first)) Put(key);
  }
  void Shrink(uint64_t keys) {
    while (keys_ > keys) Delete(--keys_);
  }
  // Writes to the keys that there are.
  void Update(uint64_t requests, double skew) {
    msls::Popularity popularity;
    ASSERT_TRUE(msls::Popularity::Zipf(static_cast<double>(keys_), skew, &popularity).ok());
    msls::Workload workload(popularity, random_());
    for (uint64_t i = 0; i < requests; i++) Put(workload.Draw());
  }
  // Writes to the part of the key space from `from` on that is so wide.
  void UpdateRange(uint64_t requests, double from, double width) {
    while (requests > 0) {
      const uint64_t key = random_() % keys_;
      const double at = static_cast<double>(place_(key)) / kMostKeys;
      if (at < from || at > from + width) continue;
      Put(key);
      requests--;
    }
  }
  // Every key once, in key order.
  void UpdateInOrder() {
    for (uint64_t key : InOrder(0)) Put(key);
  }
  void SetSizes(const LevelSizes& sizes) {
    sizes_ = sizes;
    simulated_->SetTargets(Targets());
  }

  double written() const {
    double items = 0;
    for (const msls::WriteCost& step : simulated_->write_stats.steps()) items += step.value;
    return items;
  }
  double requests() const { return static_cast<double>(requests_); }
  const TunerLogic* logic() const { return logic_.get(); }

 private:
  static constexpr uint64_t kMemtable = 400;
  static constexpr uint64_t kSampleOf = 8;  // one key of so many is sampled

  std::vector<double> Targets() const {
    std::vector<double> items;
    for (double bytes : LevelTargets(sizes_, kNumLevels)) items.push_back(bytes / kItemBytes);
    return items;
  }

  // The keys from that number on, as they lie in the key space.
  std::vector<uint64_t> InOrder(uint64_t first) const {
    std::vector<std::pair<uint64_t, uint64_t>> places;
    for (uint64_t key = first; key < keys_; key++) places.emplace_back(place_(key), key);
    std::sort(places.begin(), places.end());
    std::vector<uint64_t> keys;
    for (const auto& place : places) keys.push_back(place.second);
    return keys;
  }

  void Write(uint64_t key, bool deletes) {
    memtable_.push_back(place_(key) << 32 | (UINT32_MAX - (requests_++ * 2 + (deletes ? 1 : 0))));
    if (memtable_.size() == kMemtable) Flush();
  }

  void Flush() {
    // The newest version of a key comes first.
    std::sort(memtable_.begin(), memtable_.end());
    memtable_.erase(std::unique(memtable_.begin(), memtable_.end(),
                                [](msls::Item a, msls::Item b) { return msls::ItemKey(a) == msls::ItemKey(b); }),
                    memtable_.end());
    for (msls::Item& item : memtable_) {
      item = (item >> 32) << 32 | (UINT32_MAX - msls::ItemTime(item));
      if (msls::ItemKey(item) % kSampleOf == 0) flushes_of_key_[msls::ItemKey(item)]++;
    }
    window_.flushes++;
    window_.writes += kMemtable;
    window_.distinct += memtable_.size();
    window_.flush_bytes += static_cast<uint64_t>(static_cast<double>(memtable_.size()) * kItemBytes);
    simulated_->Flush(std::move(memtable_));
    memtable_.clear();
    if (window_.flushes == window_flushes_) Look();
  }

  void Look() {
    const double written_now = written();
    window_.compaction_bytes =
        static_cast<uint64_t>((written_now - written_before_) * kItemBytes) - window_.flush_bytes;
    written_before_ = written_now;
    window_.sampled_tables = window_.flushes;
    window_.sampled_keys = flushes_of_key_.size();
    window_.sampled_share = 1.0 / kSampleOf;
    window_.sampled_keys_by_flushes.assign(window_.flushes + 1, 0);
    for (const auto& key : flushes_of_key_) window_.sampled_keys_by_flushes[key.second]++;
    if (logic_ != nullptr) {
      TunerView view;
      view.level_bytes = {0};
      for (double items : simulated_->LevelItems()) view.level_bytes.push_back(items * kItemBytes);
      view.sizes = sizes_;
      view.num_levels = kNumLevels;
      view.store = store_;
      const TunerAction action = logic_->Look(window_, view, ++looks_);
      if (action.kind != TunerAction::Kind::kNone) {
        SetSizes(action.sizes);
        logic_->Done(action, "", looks_);
      }
    }
    window_ = TunerWindow();
    flushes_of_key_.clear();
  }

  const uint64_t window_flushes_;
  const msls::Permutation place_;
  std::mt19937_64 random_;
  msls::StoreShape store_;
  LevelSizes sizes_;
  std::unique_ptr<msls::AdjustableStore> simulated_;
  std::unique_ptr<TunerLogic> logic_;
  msls::Table memtable_;
  TunerWindow window_;
  std::unordered_map<uint32_t, uint32_t> flushes_of_key_;
  double written_before_ = 0, looks_ = 0;
  uint64_t requests_ = 0, keys_ = 0;
};

struct Scenario {
  const char* name;
  void (*play)(SimulatedDatabase* database);
  double most;  // written with the tuner by written without
};

// Scaled as the write buffer is.
constexpr uint64_t k = 400, M = 1000 * k;

const Scenario kScenarios[] = {
    {"SteadyUniform", [](SimulatedDatabase* db) { db->Grow(200 * k), db->Update(5 * M, 0); }, 0.95},
    {"SteadySmall", [](SimulatedDatabase* db) { db->Grow(60 * k), db->Update(3 * M, 0); }, 1.0},
    {"SteadyZipf", [](SimulatedDatabase* db) { db->Grow(200 * k), db->Update(6 * M, 0.99); }, 0.97},
    {"GrowsTenfold",
     [](SimulatedDatabase* db) { db->Grow(60 * k), db->Update(2 * M, 0), db->Grow(600 * k), db->Update(2 * M, 0); },
     1.03},
    {"GrowsHundredfold",
     [](SimulatedDatabase* db) { db->Grow(10 * k), db->Update(1 * M, 0), db->Grow(1 * M), db->Update(2 * M, 0); },
     1.03},
    {"GrowsSlowly",
     [](SimulatedDatabase* db) {
       db->Grow(40 * k), db->Update(1 * M, 0);
       for (uint64_t keys = 42 * k; keys < 500 * k; keys += keys / 20) db->Grow(keys), db->Update(100 * k, 0);
     },
     1.03},
    {"BulkLoad", [](SimulatedDatabase* db) { db->LoadInOrder(800 * k), db->Update(2 * M, 0); }, 1.03},
    {"BulkLoadInto",
     [](SimulatedDatabase* db) {
       db->Grow(60 * k), db->Update(2 * M, 0), db->LoadInOrder(800 * k), db->Update(2 * M, 0);
     },
     1.03},
    {"RandomLoad", [](SimulatedDatabase* db) { db->Grow(1 * M); }, 1.03},
    {"Shrinks",
     [](SimulatedDatabase* db) { db->Grow(400 * k), db->Update(3 * M, 0), db->Shrink(40 * k), db->Update(2 * M, 0); },
     1.03},
    {"ShrinksAndGrows",
     [](SimulatedDatabase* db) {
       db->Grow(300 * k), db->Update(2 * M, 0), db->Shrink(30 * k), db->Update(1 * M, 0), db->Grow(300 * k),
           db->Update(2 * M, 0);
     },
     1.03},
    {"SkewShifts",
     [](SimulatedDatabase* db) {
       db->Grow(200 * k), db->Update(3 * M, 0), db->Update(3 * M, 0.99), db->Update(3 * M, 0);
     },
     1.0},
    {"HotRangeMoves",
     [](SimulatedDatabase* db) {
       db->Grow(200 * k);
       for (int i = 0; i < 30; i++) db->UpdateRange(100 * k, 0.04 * (i % 20), 0.1);
     },
     1.03},
    {"InKeyOrder",
     [](SimulatedDatabase* db) {
       db->Grow(200 * k), db->Update(1 * M, 0);
       for (int i = 0; i < 15; i++) db->UpdateInOrder();
     },
     1.03},
    {"PhasesAlternate",
     [](SimulatedDatabase* db) {
       db->Grow(200 * k);
       for (int i = 0; i < 10; i++) db->Update(600 * k, i % 2 == 0 ? 0 : 0.99);
     },
     1.03},
    {"ShortPhasesAlternate",
     [](SimulatedDatabase* db) {
       db->Grow(200 * k);
       for (int i = 0; i < 40; i++) db->Update(150 * k, i % 2 == 0 ? 0 : 0.99);
     },
     1.03},
};

bool HasEveryShape() { return getenv("CAIRN_EVERY_SHAPE") != nullptr; }

// Plays the scenario without a tuner once, and with one for each length of a window.
void Compare(const Scenario& scenario, const Shape& shape, double most, const std::vector<uint64_t>& windows) {
  printf("CAIRN_SEED=%llu\n", static_cast<unsigned long long>(Seed()));
  SimulatedDatabase plain(shape, nullptr, 1);
  scenario.play(&plain);
  for (uint64_t window : windows) {
    TunerOptions options;
    options.advisory = false;
    options.min_seconds_between_changes = 2;  // looks
    SimulatedDatabase tuned(shape, &options, window);
    scenario.play(&tuned);
    const TunerReport& report = tuned.logic()->report();
    const double ratio = tuned.written() / plain.written();
    printf("%-20s window %3d: %6.3f without, %6.3f with the tuner, %+5.1f %%; %d changes, %d returns, %d taken back\n",
           scenario.name, static_cast<int>(window), plain.written() / plain.requests(),
           tuned.written() / tuned.requests(), 100 * (ratio - 1), static_cast<int>(report.changes),
           static_cast<int>(report.returns), static_cast<int>(report.rollbacks));
    EXPECT_LE(ratio, most) << report.ToString();
    EXPECT_LE(report.rollbacks, 2u);
  }
}

class TunerLawTest : public ::testing::TestWithParam<size_t> {};

TEST_P(TunerLawTest, DefaultSizes) {
  const Scenario& scenario = kScenarios[GetParam()];
  std::vector<uint64_t> windows = {24, 128};
  if (!HasEveryShape()) windows = {windows[GetParam() % 2]};
  Compare(scenario, Shape(), scenario.most, windows);
}

struct NamedShape {
  const char* name;
  Shape shape;
};
const NamedShape kShapes[] = {{"LargeLevel1", {40, 10, msls::FilePick::kMinOverlappingRatio}},
                              {"LevelsCloseTogether", {4, 4, msls::FilePick::kMinOverlappingRatio}},
                              {"RoundRobin", {4, 10, msls::FilePick::kRoundRobin}}};

class TunerLawShapesTest : public ::testing::TestWithParam<std::pair<size_t, NamedShape>> {};

TEST_P(TunerLawShapesTest, NeverWorse) { Compare(kScenarios[GetParam().first], GetParam().second.shape, 1.03, {64}); }

std::vector<std::pair<size_t, NamedShape>> Transitions() {
  std::vector<std::pair<size_t, NamedShape>> found;
  size_t number = 0;
  for (const char* name : {"GrowsTenfold", "GrowsSlowly", "BulkLoadInto", "Shrinks", "SkewShifts"}) {
    for (size_t i = 0; i < std::size(kScenarios); i++) {
      if (kScenarios[i].name != std::string(name)) continue;
      for (const NamedShape& shape : kShapes) {
        if (number++ % std::size(kShapes) == i % std::size(kShapes) || HasEveryShape()) found.emplace_back(i, shape);
      }
    }
  }
  return found;
}

INSTANTIATE_TEST_SUITE_P(Scenarios, TunerLawTest, ::testing::Range(size_t{0}, std::size(kScenarios)),
                         [](const auto& tested) { return std::string(kScenarios[tested.param].name); });
INSTANTIATE_TEST_SUITE_P(Scenarios, TunerLawShapesTest, ::testing::ValuesIn(Transitions()), [](const auto& tested) {
  return std::string(kScenarios[tested.param.first].name) + tested.param.second.name;
});

}  // namespace
}  // namespace cairn
