// RocksDB's leveled compaction in its steady state.
//
// A level is described by its interval: the requests between two compactions of the same place in the key space. All
// data leaves the level once an interval, so a step from level l to l+1 writes Merge(what arrived in the interval, what
// lies below) / interval.
//
// Against the thesis' LevelDB model:
//   - No false overlaps. RocksDB cuts the files of a level at borders of files of the next level and takes further
//     input files as long as the output side stays the same; in the simulator a compaction's output range is 0 to 3 %
//     wider than its input range.
//   - Levels overflow by bursts. Every compaction of level 0 sends one burst down all levels, and a level holds its
//     target and, on average, half of what leaves it for a burst that arrives, which is less by the duplicates that
//     met. (The thesis adds up the intervals of the levels above instead.)
//   - The pick decides how much of the density contrast is used. The best sweep takes the densest place always:
//     DInterval(size). Picking at random takes the mean: UniqueInverse(size). `gain` is the position between the two (1
//     is the sweep's).
//   - What lies below is thinner than the mean, because it is met just before its own arrivals, or because it was
//     picked so: `below` is the factor.
// Gain and below depend on the pick, on the ratio of the level to the next, on skew and on the size of bursts; their
// constants are fitted to the simulator (msls/model_test.cc holds the model to 5 % of it).

#include <algorithm>
#include <cmath>

#include "msls/model.h"

namespace cairn::msls {

namespace {

// What the constants depend on.
struct Place {
  double ratio;     // size of the next level by size of this one
  double burst;     // 0 to 1: a burst's part of the level's size
  double skew;      // 0: uniform, 1: Zipf 0.99 and steeper
  bool above_last;  // the next level is the last
  bool first;       // bursts come from level 0, all over the key space, not from a part of the level above
};

double Mix(double a, double b, double share) { return a + (b - a) * share; }

double Gain(FilePick pick, const Place& place) {
  const double r = 1 / std::max(1.0, place.ratio);
  double burst = 0, steady = 0;
  switch (pick) {
    case FilePick::kRoundRobin:
      burst = 1;
      steady = place.above_last ? 0.96 : std::min(1.2, 0.8 + 2 * r);
      break;
    case FilePick::kMinOverlappingRatio:
      // What comes from a part of the level above lies dense where it came, and is picked there.
      burst =
          place.first ? 0.76 - 0.03 * place.skew : 1.3 + 0.35 * place.burst + (0.6 - 0.35 * place.burst) * place.skew;
      steady = (place.above_last ? std::min(1.1, 0.93 + 0.5 * r) : std::min(1.0, 0.66 + 1.3 * r)) - 0.04 * place.skew;
      break;
    case FilePick::kByCompensatedSize:
      burst = Mix(0.37, 0.36, place.skew);
      steady = Mix(place.above_last ? std::max(-0.07, 0.26 - 2.2 * (r - 0.1)) : 0.24, 0.31, place.skew);
      break;
    case FilePick::kOldestSmallestSeqFirst:
      burst = 0.75 - 0.2 * place.skew + 1.2 * std::max(0.0, std::min(0.2, r) - 0.1);
      steady = (place.above_last ? std::min(0.8, 0.58 + 0.8 * r) : std::min(0.9, 0.46 + 2 * r)) - 0.12 * place.skew;
      break;
    case FilePick::kOldestLargestSeqFirst:
      burst = 0.56 - 0.04 * place.skew;
      steady = 0.22 - 0.09 * place.skew;
      if (!place.above_last) {
        burst += 1.8 * std::max(0.0, r - 0.1);
        steady += 1.8 * std::max(0.0, r - 0.1);
      }
      break;
  }
  return Mix(steady, burst, place.burst);
}

// `step` is the interval of this level by that of the next.
double Below(FilePick pick, double step, double skew) {
  switch (pick) {
    case FilePick::kRoundRobin:
      return 1 - 0.36 * step;
    case FilePick::kMinOverlappingRatio:
      return 0.95 - 0.36 * step - (1.1 - 0.2 * skew) * step * step;
    case FilePick::kByCompensatedSize:
      return 0.96;
    case FilePick::kOldestSmallestSeqFirst:
      return 1 - 0.2 * step;
    case FilePick::kOldestLargestSeqFirst:
      return 1.01 + 0.05 * skew;
  }
  return 1;
}

}  // namespace

void ModelRocksDB(const StoreShape& store, const Popularity& p, const std::vector<double>& size, Report* report) {
  const double wal = MemtableRequests(store);
  const double files = store.file_bytes / store.item_bytes;
  const double keys = p.keys();
  auto add = [report](std::string name, double value) {
    report->breakdown.push_back({std::move(name), value});
    report->write_amplification += value;
  };
  add("level-0", p.Unique(wal) / wal);
  // Level 0 is also compacted when it outgrows the first level's target.
  const double burst_requests = wal * store.level0_trigger;
  const double burst_items = p.Unique(burst_requests);
  // A level is left half a file below its target.
  const double half_file = std::min(files, 0.5 * size[0]) / 2;
  const double first = size.size() > 1 ? size[0] - half_file : size[0];
  add("level-0 to 1", p.Merge(burst_items, first) / burst_requests);

  std::vector<double> interval(size.size()), skew(size.size());
  double burst = burst_items;
  for (size_t l = 0; l + 1 < size.size(); l++) {
    const double part = store.pick == FilePick::kRoundRobin ? 0.33 : 0.5;
    const double left_below = std::min(files, 0.5 * size[l]) * part;
    // What leaves is less than what arrives by the duplicates, and how much less depends on the interval.
    double leaving = burst;
    for (int round = 0; round < 30; round++) {
      const double held = std::min(0.999 * keys, size[l] + leaving / 2 - left_below);
      const double least = p.UniqueInverse(held), most = p.DInterval(held);
      const double unique_reads = p.Missing(most) / keys;
      skew[l] = std::min(1.0, std::max(0.0, (1 - p.MissProbability(most) / unique_reads) / 0.65));
      Place place = {size[l + 1] / size[l], std::min(1.0, burst / size[l]), skew[l], l + 2 == size.size(), l == 0};
      interval[l] = std::max(burst_requests, least + Gain(store.pick, place) * (most - least));
      const double next = burst_requests * p.Unique(interval[l]) / interval[l];
      if (std::fabs(next - leaving) < 1e-7 * leaving) break;
      leaving = (leaving + next) / 2;
    }
    burst = burst_requests * p.Unique(interval[l]) / interval[l];
  }
  for (size_t l = 0; l + 1 < size.size(); l++) {
    const bool above_last = l + 2 == size.size();
    double below = size[l + 1];
    if (!above_last) {
      below = std::min(0.999 * keys, below * Below(store.pick, std::min(1.0, interval[l] / interval[l + 1]), skew[l]));
    }
    add("level-" + std::to_string(l + 1) + " to " + std::to_string(l + 2),
        p.Merge(p.Unique(interval[l]), below) / interval[l]);
  }
}

}  // namespace cairn::msls
