#include "msls/popularity_estimate.h"

#include <algorithm>
#include <cmath>

namespace cairn {

namespace {

constexpr double kGridStep = 1.25;

struct GridPoint {
  double rate;     // writes to the key in a flush
  double keys;     // of the sample
  double log_hit;  // logarithms of the probabilities that a flush holds the key, and that it does not
  double log_miss;
};

std::vector<GridPoint> Grid(double flushes, double keys) {
  // Mean number of flushes, of all that were seen, that hold the rarest keys told apart.
  constexpr double kRarest = 0.02;
  std::vector<GridPoint> grid;
  // Above the last rate all flushes hold a key but for half a one.
  const double last = std::log(2 * flushes);
  for (double rate = kRarest / flushes; rate < last * kGridStep; rate *= kGridStep) {
    grid.push_back({rate, 1, std::log(-std::expm1(-rate)), -rate});
  }
  for (GridPoint& point : grid) point.keys = keys / static_cast<double>(grid.size());
  return grid;
}

}  // namespace

std::vector<msls::HistogramBin> EstimatePopularity(double keys, double writes,
                                                   const std::vector<double>& keys_by_flushes, double share) {
  std::vector<msls::HistogramBin> bins;
  const double flushes = static_cast<double>(keys_by_flushes.size()) - 1;
  if (!(keys >= 2) || !(writes >= 1) || flushes < 2 || !(share > 0)) return bins;
  std::vector<double> seen = keys_by_flushes;
  double held = 0;
  for (size_t c = 1; c < seen.size(); c++) held += seen[c];
  if (held == 0) return bins;
  seen[0] = std::max(0.0, keys * share - held);

  std::vector<GridPoint> grid = Grid(flushes, held + seen[0]);
  std::vector<double> likelihood(grid.size());
  std::vector<double> next(grid.size());
  constexpr int kRounds = 300;
  for (int round = 0; round < kRounds; round++) {
    std::fill(next.begin(), next.end(), 0);
    for (size_t c = 0; c < seen.size(); c++) {
      if (seen[c] == 0) continue;
      // The binomial coefficient is the same for all points; the largest logarithm is taken out against underflow.
      const double hits = static_cast<double>(c);
      double largest = -HUGE_VAL, sum = 0;
      for (size_t i = 0; i < grid.size(); i++) {
        likelihood[i] = hits * grid[i].log_hit + (flushes - hits) * grid[i].log_miss;
        if (grid[i].keys > 0) largest = std::max(largest, likelihood[i]);
      }
      for (size_t i = 0; i < grid.size(); i++) {
        likelihood[i] = grid[i].keys * std::exp(std::min(0.0, likelihood[i] - largest));
        sum += likelihood[i];
      }
      for (size_t i = 0; i < grid.size(); i++) next[i] += seen[c] * likelihood[i] / sum;
    }
    for (size_t i = 0; i < grid.size(); i++) grid[i].keys = next[i] < 1e-9 ? 0 : next[i];
  }

  // Fewer keys than this are none: what the expectation leaves at points that nothing speaks for.
  constexpr double kLeastKeys = 0.5;
  const double scale = keys / (held + seen[0]);
  double probability = 0;
  for (size_t i = grid.size(); i-- > 0;) {
    if (grid[i].keys * scale < kLeastKeys) continue;
    bins.push_back({grid[i].rate / writes, grid[i].keys * scale});
    probability += bins.back().weight * bins.back().keys;
  }
  if (bins.empty()) return bins;
  // What the others leave goes to the keys that are in every flush: so popular that the sample may hold none of them.
  const double left = 1 - probability;
  // Part of the writes by which the estimates of all keys together may be off without a key that was overlooked.
  constexpr double kNoise = 0.02;
  const double always = std::log(2 * flushes) / kGridStep / writes;
  if (left > 0 && bins.front().weight >= always) {
    bins.front().weight += left / bins.front().keys;
  } else if (left > kNoise) {
    bins.insert(bins.begin(), {left, 1});
  }
  return bins;
}

double WritesOfMostPopular(const std::vector<msls::HistogramBin>& bins, double part) {
  double keys = 0, writes = 0;
  for (const msls::HistogramBin& bin : bins) {
    keys += bin.keys;
    writes += bin.keys * bin.weight;
  }
  double left = part * keys, taken = 0;
  for (const msls::HistogramBin& bin : bins) {
    const double some = std::min(left, bin.keys);
    taken += some * bin.weight;
    left -= some;
  }
  return writes > 0 ? taken / writes : 0;
}

}  // namespace cairn
