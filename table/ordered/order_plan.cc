#include "table/ordered/order_plan.h"

#include <algorithm>
#include <cmath>

#include "util/bits.h"

namespace cairn {

namespace {

constexpr size_t kLeastNumbers = 16;
// Bits of a group beside its entries: window, offset, anchor, header.
constexpr double kNumbersOverhead = 300;
constexpr double kBranchesOverhead = 260;

// Of Elias's gamma code of v > 0.
unsigned GammaBits(uint64_t v) { return 2 * BitWidth(v) - 1; }

// 2^-i for each i.
constexpr std::array<double, 65> MakeHalves() {
  std::array<double, 65> halves = {};
  double half = 1;
  for (double& each : halves) {
    each = half;
    half /= 2;
  }
  return halves;
}
constexpr std::array<double, 65> kHalf = MakeHalves();

// Twice the error of an evenly spread key, and some more.
double Allowed(const OrderDepth& depth) { return 2 * 1.7 * std::exp2(-depth.precision); }

}  // namespace

// Of the whole batch.
size_t OrderPlanner::FirstSplit() const {
  const std::vector<uint64_t>& common = batch_->common;
  return common.size() < 2 ? 0
                           : static_cast<size_t>(std::min_element(common.begin() + 1, common.end()) - common.begin());
}

// A tree of the entries by what they have in common with the one before, the least at the root.
void OrderPlanner::FindSplits() {
  const std::vector<uint64_t>& common = batch_->common;
  left_.assign(common.size(), 0);
  right_.assign(common.size(), 0);
  open_.clear();
  for (uint32_t i = 1; i < common.size(); ++i) {
    uint32_t below = 0;
    while (!open_.empty() && common[open_.back()] > common[i]) {
      below = open_.back();
      open_.pop_back();
    }
    left_[i] = below;
    if (!open_.empty()) right_[open_.back()] = i;
    open_.push_back(i);
  }
}

void OrderPlanner::MeasureDistances() {
  const std::vector<uint64_t>& common = batch_->common;
  distances_.assign(common.size(), 0);
  for (size_t i = 1; i + 1 < common.size(); ++i) {
    const uint64_t same = std::min(common[i], common[i + 1]);
    const uint64_t distance = batch_->at(i + 1).Window(same) - batch_->at(i - 1).Window(same);
    distances_[i] = same + (64 - BitWidth(distance)) + 1;
  }
}

void OrderPlanner::SumBranches() {
  const size_t n = batch_->size();
  branch_bits_.resize(n + 1);
  lost_.resize(n + 1);
  uint64_t bits = 0;
  uint32_t lost = 0;
  uint64_t kept = UINT64_MAX;  // bits of the last entry
  for (size_t i = 0; i < n; ++i) {
    branch_bits_[i] = bits;
    lost_[i] = lost;
    const uint64_t common = batch_->common[i], behind = batch_->common_behind(i);
    if (i > 0 && common >= kept) {
      ++lost;
      continue;
    }
    const uint64_t rise = behind > common ? std::min<uint64_t>(behind - common, kMostBranchBits) : 0;
    kept = common + 1 + rise + depth_.extra;
    bits += rise + depth_.extra + GammaBits(rise + 1);
    if (rise == 0) bits += GammaBits(common - std::min(common, behind) + 1);
  }
  branch_bits_[n] = bits;
  lost_[n] = lost;
}

OrderPlanner::Distances OrderPlanner::CountByWindows(const Range& range) {
  const size_t n = range.end - range.begin;
  windows_.resize(n);
  for (size_t i = 0; i < n; ++i) windows_[i] = batch_->at(range.begin + i).Window(batch_->common[range.split]);
  Distances distances = {};
  ++distances[BitWidth(windows_[1] - windows_[0])];
  ++distances[BitWidth(windows_[n - 1] - windows_[n - 2])];
  for (size_t i = 1; i + 1 < n; ++i) ++distances[BitWidth((windows_[i + 1] - windows_[i - 1]) / 2)];
  return distances;
}

OrderPlanner::Distances OrderPlanner::Count(const Range& range) const {
  const uint64_t prefix = batch_->common[range.split];
  const auto window = [&](size_t i) { return batch_->at(i).Window(prefix); };
  Distances distances = {};
  ++distances[BitWidth(window(range.begin + 1) - window(range.begin))];
  ++distances[BitWidth(window(range.end - 1) - window(range.end - 2))];
  for (size_t i = range.begin + 1; i + 1 < range.end; ++i) {
    ++distances[64 - std::min<uint64_t>(64, distances_[i] - prefix)];
  }
  return distances;
}

// False if numbers that err no more than evenly spread keys do take more than this for certain: few entries are so near
// to their neighbours that as many bits cannot be cut off.
bool OrderPlanner::MayTakeLess(const Range& range, double bits) const {
  const size_t n = range.end - range.begin;
  // Of each number: the low bits, a 1, and a 0 at least.
  const double low_bits = (bits - kNumbersOverhead) / static_cast<double>(n) - 2;
  if (low_bits < 0) return false;
  const uint64_t prefix = batch_->common[range.split];
  const uint64_t spread = batch_->at(range.end - 1).Window(prefix) - batch_->at(range.begin).Window(prefix);
  const double least_shift = static_cast<double>(BitWidth(spread / n)) - 2 - low_bits;
  if (least_shift < 1) return true;
  const uint64_t nearest = prefix + 64 - static_cast<uint64_t>(least_shift);
  size_t near = 0;
  for (size_t i = range.begin + 1; i + 1 < range.end; ++i) near += distances_[i] >= nearest ? 1 : 0;
  return static_cast<double>(near) <= Allowed(depth_) * static_cast<double>(n);
}

// Cuts off as many bits as leaves the error within what evenly spread keys have. Of these the mean of the inverse of
// the mean distance to both neighbours is 2 / distance, and a shift is right within a factor of sqrt(2).
bool OrderPlanner::PlanNumbers(const Range& range, const Distances& distances, Numbers* numbers) const {
  const size_t n = range.end - range.begin;
  const uint64_t prefix = batch_->common[range.split];
  const uint64_t spread = batch_->at(range.end - 1).Window(prefix) - batch_->at(range.begin).Window(prefix);
  const double count = static_cast<double>(n);
  const double allowed = Allowed(depth_) * count;
  const double least_range = count * std::exp2(depth_.precision - 0.5);
  unsigned shift = 0;
  while (shift < 63 && static_cast<double>(spread >> (shift + 1)) >= least_range) ++shift;
  // Entries whose neighbours are nearer than the shift, and 1 / distance of the others.
  double near = 0, far = 0;
  for (unsigned width = 0; width <= 64; ++width) {
    if (width <= shift) {
      near += distances[width];
    } else {
      far += distances[width] * kHalf[width];
    }
  }
  for (;; --shift) {
    const double error = near + far / kHalf[shift] * std::sqrt(2);
    near -= distances[shift];
    far += distances[shift] * kHalf[shift];
    if (error > allowed && shift != 0) continue;
    const uint64_t universe = spread >> shift;
    const unsigned low_bits = universe / n == 0 ? 0 : Log2Floor(universe / n);
    numbers->cost.bits = count * (low_bits + 1) + static_cast<double>(universe) * kHalf[low_bits] + kNumbersOverhead;
    numbers->cost.error = error / 2;
    numbers->shift = shift;
    numbers->even = error <= allowed;
    return numbers->even;
  }
}

OrderPlanner::Cost OrderPlanner::PlanBranches(const Range& range) const {
  const size_t n = range.end - range.begin;
  const double lost = lost_[range.end] - lost_[range.begin];
  const double told = static_cast<double>(n) - lost;
  const size_t groups = 1 + n / kMostBranches;
  return {kBranchesOverhead * static_cast<double>(groups) +
              static_cast<double>(branch_bits_[range.end] - branch_bits_[range.begin]),
          told * std::exp2(-static_cast<double>(depth_.extra) - 1) + 2.0 * lost};
}

// As few bits as evenly spread keys take: nothing else takes fewer.
bool OrderPlanner::PaysAtOnce(const Range& range, const Numbers& numbers) const {
  return numbers.cost.bits <=
         kNumbersOverhead + static_cast<double>(range.end - range.begin) * (depth_.precision + 2.6);
}

// Appends the pieces of the best plan.
OrderPlanner::Cost OrderPlanner::PlanRange(const Range& range, int splits) {
  const size_t n = range.end - range.begin;
  Cost best = PlanBranches(range);
  Numbers numbers = {};
  const bool even = n >= kLeastNumbers && MayTakeLess(range, best.bits) && PlanNumbers(range, Count(range), &numbers);
  const OrderPiece as_numbers = {range.begin, range.end, numbers.shift, batch_->common[range.split]};
  if (even && PaysAtOnce(range, numbers)) {
    plan_.pieces.push_back(as_numbers);
    return numbers.cost;
  }
  OrderPiece piece = {range.begin, range.end, OrderPiece::kBranches, 0};
  if (even && numbers.cost.bits < best.bits) {
    best = numbers.cost;
    piece = as_numbers;
  }
  if (splits > 0 && n >= 2 * kLeastNumbers) {
    // Where the keys of two prefixes meet, say.
    const size_t before = plan_.pieces.size();
    const Cost left = PlanRange({range.begin, range.split, left_[range.split]}, splits - 1);
    const Cost right = PlanRange({range.split, range.end, right_[range.split]}, splits - 1);
    const Cost both = {left.bits + right.bits, left.error + right.error};
    if (both.bits < best.bits) return both;
    plan_.pieces.resize(before);
  }
  plan_.pieces.push_back(piece);
  return best;
}

const OrderPlan& OrderPlanner::Plan(const OrderBatch& batch) {
  batch_ = &batch;
  plan_.pieces.clear();
  // Most batches of numbers need no more than this.
  const Range all = {0, batch.size(), FirstSplit()};
  Numbers numbers = {};
  Cost cost;
  if (batch.size() >= kLeastNumbers && PlanNumbers(all, CountByWindows(all), &numbers) && PaysAtOnce(all, numbers)) {
    plan_.pieces.push_back({all.begin, all.end, numbers.shift, batch.common[all.split]});
    cost = numbers.cost;
  } else {
    FindSplits();
    MeasureDistances();
    SumBranches();
    constexpr int kMostSplits = 12;
    cost = PlanRange(all, kMostSplits);
  }
  plan_.bits = cost.bits;
  plan_.error = cost.error;
  return plan_;
}

}  // namespace cairn
