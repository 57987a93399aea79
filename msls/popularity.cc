#include "msls/popularity.h"

#include <algorithm>
#include <cmath>
#include <fstream>
#include <limits>
#include <sstream>

#include "msls/model.h"

namespace cairn::msls {

namespace {

constexpr double kInfinity = std::numeric_limits<double>::infinity();
constexpr double kMaxKeys = 1e15;
constexpr double kMostProbable = 1 - 1e-12;  // of one key; keeps the logarithm of the probability to miss it finite
constexpr double kMaxSkew = 8;
constexpr double kTableStep = 0.1;  // in t = log(requests); the quintic's error is below step^6 / 46080 of the function
constexpr double kTableMissing = 30;  // the table ends where the rarest key is missing with probability e^-30
constexpr double kCertain = 700;      // a key is missing with probability e^-700: the sums lose nothing without it

// MeanUnique of one key is phi(x) = 1 - (1 - e^-x) / x = sum over k >= 1 of (-1)^(k+1) x^k / (k+1)!, with x = requests
// times the key's rate. The functions give phi and its derivatives by log(x).
void Phi(double x, double* value, double* slope, double* curvature) {
  if (x < 0.03) {
    double term = 1;
    *value = *slope = *curvature = 0;
    for (int k = 1; k <= 7; k++) {
      term *= (k == 1 ? 1 : -1) * x / (k + 1);
      *value += term;
      *slope += k * term;
      *curvature += static_cast<double>(k) * k * term;
    }
    return;
  }
  if (x > kCertain) {
    *slope = 1 / x;
    *value = 1 - *slope;
    *curvature = -*slope;
    return;
  }
  const double miss = std::exp(-x);
  const double mean_miss = -std::expm1(-x) / x;
  *value = 1 - mean_miss;
  *slope = mean_miss - miss;
  *curvature = miss - mean_miss + x * miss;
}

double InversePhi(double value) {
  if (value <= 0) return 0;
  if (value >= 1) return kInfinity;
  // Bisection in log(x) guards Newton; phi(x) lies between x/2 - x^2/6 and x/2, and above 1 - 1/x.
  double low = 2 * value;
  double high = 2 * value / (1 - value) + 1e-300;
  double x = std::min(high, std::max(low, 2 * value * (1 + 2 * value / 3)));
  for (int i = 0; i < 200; i++) {
    double phi, slope, curvature;
    Phi(x, &phi, &slope, &curvature);
    (phi < value ? low : high) = x;
    double next = x * std::exp((value - phi) / slope);
    if (!(next > low && next < high)) next = std::sqrt(low * high);
    if (std::fabs(next - x) <= 1e-15 * x) return next;
    x = next;
  }
  return x;
}

// The quintic on [0, 1] with given values, slopes and curvatures (by the unit variable) at both ends.
struct Quintic {
  double c[6];

  template <class Sample>
  Quintic(const Sample& a, const Sample& b, double h) {
    const double slope_a = a.slope * h, slope_b = b.slope * h;
    const double curve_a = a.curvature * h * h, curve_b = b.curvature * h * h;
    const double rise = b.value - a.value;
    c[0] = a.value;
    c[1] = slope_a;
    c[2] = curve_a / 2;
    c[3] = 10 * rise - 6 * slope_a - 4 * slope_b - 1.5 * curve_a + 0.5 * curve_b;
    c[4] = -15 * rise + 8 * slope_a + 7 * slope_b + 1.5 * curve_a - curve_b;
    c[5] = 6 * rise - 3 * (slope_a + slope_b) - 0.5 * (curve_a - curve_b);
  }
  double Value(double x) const { return c[0] + x * (c[1] + x * (c[2] + x * (c[3] + x * (c[4] + x * c[5])))); }
  double Slope(double x) const { return c[1] + x * (2 * c[2] + x * (3 * c[3] + x * (4 * c[4] + x * 5 * c[5]))); }
};

// Nodes for the ranks first .. first + count - 1 under weight rank^-s: Gauss quadrature of the discrete uniform measure
// (discrete Chebyshev polynomials), exact for polynomials in the rank up to degree 5.
void AddRankNodes(double first, double count, double s, std::vector<HistogramBin>* nodes) {
  if (count <= 3) {
    for (double i = 0; i < count; i++) nodes->push_back({std::pow(first + i, -s), 1});
    return;
  }
  const double b1 = (count * count - 1) / 12;
  const double b2 = (count * count - 4) / 15;
  const double centre = first + (count - 1) / 2;
  const double distance = std::sqrt(b1 + b2);
  const double outer = count * b1 / (2 * (b1 + b2));
  nodes->push_back({std::pow(centre - distance, -s), outer});
  nodes->push_back({std::pow(centre, -s), count - 2 * outer});
  nodes->push_back({std::pow(centre + distance, -s), outer});
}

IndexStatus CheckKeys(double keys) {
  if (!(keys >= 1 && keys <= kMaxKeys)) {
    return IndexStatus::InvalidArgument("keys is " + Number(keys) + "; it must be a number from 1 to 1e15.");
  }
  return IndexStatus::OK();
}

// Bins of weights within 4 % of each other become two nodes with the same first four moments.
std::vector<HistogramBin> CompressBins(std::vector<HistogramBin> bins) {
  std::sort(bins.begin(), bins.end(), [](const HistogramBin& a, const HistogramBin& b) { return a.weight > b.weight; });
  std::vector<HistogramBin> nodes;
  for (size_t begin = 0; begin < bins.size();) {
    size_t end = begin;
    double keys = 0, sum = 0;
    while (end < bins.size() && bins[end].weight >= bins[begin].weight / 1.04) {
      keys += bins[end].keys;
      sum += bins[end].keys * bins[end].weight;
      end++;
    }
    const double mean = sum / keys;
    double variance = 0, third = 0;
    for (size_t i = begin; i < end; i++) {
      const double d = bins[i].weight - mean;
      variance += bins[i].keys * d * d;
      third += bins[i].keys * d * d * d;
    }
    variance /= keys;
    third /= keys;
    if (variance <= 1e-24 * mean * mean) {
      nodes.push_back({mean, keys});
    } else {
      const double deviation = std::sqrt(variance);
      const double skewness = third / (variance * deviation);
      const double root = std::sqrt(1 + skewness * skewness / 4);
      const double share = (1 + skewness / 2 / root) / 2;  // of the lower node
      nodes.push_back({mean + deviation * (skewness / 2 + root), keys * (1 - share)});
      nodes.push_back({mean + deviation * (skewness / 2 - root), keys * share});
    }
    begin = end;
  }
  return nodes;
}

}  // namespace

Popularity::Impl::Impl(Kind kind, std::string name, double keys, double skew, const std::vector<HistogramBin>& nodes,
                       std::vector<HistogramBin> bins)
    : kind_(kind), name_(std::move(name)), keys_(keys), skew_(skew), bins_(std::move(bins)) {
  double total = 0;
  for (const HistogramBin& node : nodes) total += node.weight * node.keys;
  double rarest = 1;
  for (const HistogramBin& node : nodes) {
    const double probability = std::min(kMostProbable, node.weight / total);
    rarest = std::min(rarest, probability);
    nodes_.push_back({node.keys, std::log1p(-probability)});
    probability_.push_back(probability);
    inverse_rate_sum_ += node.keys / -nodes_.back().log_miss;
  }
  if (nodes_.size() == 1) return;  // closed forms

  min_requests_ = 0.1;
  first_t_ = std::log(min_requests_);
  const double last_t = std::log(kTableMissing / rarest);
  for (int i = 0;; i++) {
    const double t = first_t_ + i * kTableStep;
    max_requests_ = std::exp(t);
    Sample unique, miss;
    SumUnique(max_requests_, &unique, &miss);
    unique_.push_back(unique);
    miss_.push_back(miss);
    mean_unique_.push_back(SumMeanUnique(max_requests_));
    if (t >= last_t) break;
  }
}

void Popularity::Impl::SumUnique(double requests, Sample* unique, Sample* missed) const {
  *unique = *missed = {0, 0, 0};
  for (size_t i = 0; i < nodes_.size(); i++) {
    const Node& node = nodes_[i];
    const double x = -requests * node.log_miss;
    if (x > kCertain) {
      unique->value += node.keys;
      continue;
    }
    const double miss = std::exp(-x);
    unique->value -= node.keys * std::expm1(-x);
    unique->slope += node.keys * x * miss;
    unique->curvature += node.keys * (x - x * x) * miss;
    const double weight = node.keys * probability_[i] * miss;
    missed->value += weight;
    missed->slope -= weight * x;
    missed->curvature -= weight * (x - x * x);
  }
}

Popularity::Impl::Sample Popularity::Impl::SumMeanUnique(double requests) const {
  Sample sum = {0, 0, 0};
  for (const Node& node : nodes_) {
    double value, slope, curvature;
    Phi(-requests * node.log_miss, &value, &slope, &curvature);
    sum.value += node.keys * value;
    sum.slope += node.keys * slope;
    sum.curvature += node.keys * curvature;
  }
  return sum;
}

bool Popularity::Impl::InTable(double requests) const { return requests >= min_requests_ && requests < max_requests_; }

double Popularity::Impl::Interpolate(const std::vector<Sample>& table, double requests) const {
  const double position = std::max(0.0, (std::log(requests) - first_t_) / kTableStep);
  const size_t i = std::min(static_cast<size_t>(position), table.size() - 2);
  return Quintic(table[i], table[i + 1], kTableStep).Value(position - static_cast<double>(i));
}

// Requires table.front().value <= value <= table.back().value.
double Popularity::Impl::InvertTable(const std::vector<Sample>& table, double value) const {
  size_t i =
      std::upper_bound(table.begin(), table.end(), value, [](double v, const Sample& s) { return v < s.value; }) -
      table.begin();
  i = std::min(std::max<size_t>(i, 1), table.size() - 1) - 1;
  const Quintic quintic(table[i], table[i + 1], kTableStep);
  double low = 0, high = 1;
  const double rise = table[i + 1].value - table[i].value;
  double x = rise > 0 ? std::min(1.0, std::max(0.0, (value - table[i].value) / rise)) : 0;
  for (int step = 0; step < 60; step++) {
    const double excess = quintic.Value(x) - value;
    (excess < 0 ? low : high) = x;
    const double slope = quintic.Slope(x);
    double next = slope > 0 ? x - excess / slope : -1;
    if (!(next >= low && next <= high)) next = (low + high) / 2;
    if (std::fabs(next - x) < 1e-14) break;
    x = next;
  }
  return std::exp(first_t_ + (static_cast<double>(i) + x) * kTableStep);
}

double Popularity::Impl::Unique(double requests) const {
  if (!(requests > 0)) return 0;
  if (std::isinf(requests)) return keys_;
  if (nodes_.size() == 1) return -keys_ * std::expm1(requests * nodes_[0].log_miss);
  if (InTable(requests)) return std::min(keys_, Interpolate(unique_, requests));
  double sum = 0;
  for (const Node& node : nodes_) sum -= node.keys * std::expm1(std::max(-kCertain, requests * node.log_miss));
  return std::min(keys_, sum);
}

double Popularity::Impl::Missing(double requests) const {
  if (!(requests > 0)) return keys_;
  double sum = 0;
  for (const Node& node : nodes_) {
    const double x = -requests * node.log_miss;
    if (x < kCertain) sum += node.keys * std::exp(-x);
  }
  return sum;
}

double Popularity::Impl::MissProbability(double requests) const {
  if (!(requests > 0)) return 1;
  // What the rarest keys leave is less than the error of the table.
  if (!miss_.empty() && InTable(requests)) return std::max(0.0, Interpolate(miss_, requests));
  double sum = 0;
  for (size_t i = 0; i < nodes_.size(); i++) {
    const double x = -requests * nodes_[i].log_miss;
    if (x < kCertain) sum += nodes_[i].keys * probability_[i] * std::exp(-x);
  }
  return sum;
}

double Popularity::Impl::UniqueInverse(double unique) const {
  if (!(unique > 0)) return 0;
  if (unique >= keys_) return kInfinity;
  if (nodes_.size() == 1) return std::log1p(-unique / keys_) / nodes_[0].log_miss;
  const double missing = keys_ - unique;
  if (unique >= unique_.front().value && missing > 0.01 * keys_) return InvertTable(unique_, unique);

  // Newton in log(requests) on log(Unique) below the table and on log(Missing) near its end, guarded by bisection.
  const bool small = unique < unique_.front().value;
  double low = small ? 0 : min_requests_;
  double high = small ? min_requests_ : max_requests_;
  if (!small) {
    while (Missing(high) > missing) high *= 2;
  }
  double p = small ? min_requests_ * unique / unique_.front().value : std::sqrt(low * high);
  for (int step = 0; step < 200; step++) {
    double value, slope;  // of the logarithm, by p
    if (small) {
      Sample sample, miss;
      SumUnique(p, &sample, &miss);
      value = std::log(sample.value / unique);
      slope = sample.slope / sample.value / p;
    } else {
      double sum = 0, derivative = 0;
      for (const Node& node : nodes_) {
        const double x = -p * node.log_miss;
        if (x > kCertain) continue;
        const double term = node.keys * std::exp(-x);
        sum += term;
        derivative += term * node.log_miss;
      }
      value = std::log(missing / sum);
      slope = -derivative / sum;
    }
    (value < 0 ? low : high) = p;
    double next = p - value / slope;
    if (!(next > low && next < high)) next = (low + high) / 2;
    if (std::fabs(next - p) <= 1e-14 * p) return next;
    p = next;
  }
  return p;
}

double Popularity::Impl::MeanUnique(double requests) const {
  if (!(requests > 0)) return 0;
  if (std::isinf(requests)) return keys_;
  if (nodes_.size() == 1) {
    double value, slope, curvature;
    Phi(-requests * nodes_[0].log_miss, &value, &slope, &curvature);
    return keys_ * value;
  }
  if (InTable(requests)) return std::min(keys_, Interpolate(mean_unique_, requests));
  return SumMeanUnique(requests).value;
}

double Popularity::Impl::MeanUniqueInverse(double mean) const {
  if (!(mean > 0)) return 0;
  if (mean >= keys_) return kInfinity;
  if (nodes_.size() == 1) return InversePhi(mean / keys_) / -nodes_[0].log_miss;
  // Past the table every key has been seen: MeanUnique is keys - inverse_rate_sum / requests.
  if (mean >= mean_unique_.back().value) return inverse_rate_sum_ / (keys_ - mean);
  if (mean >= mean_unique_.front().value) return InvertTable(mean_unique_, mean);
  // Before the table MeanUnique is smooth and nearly proportional.
  double p = min_requests_ * mean / mean_unique_.front().value;
  for (int step = 0; step < 50; step++) {
    const Sample sample = SumMeanUnique(p);
    const double next = p * std::exp((mean - sample.value) / sample.slope);
    if (std::fabs(next - p) <= 1e-14 * p) return next;
    p = next;
  }
  return p;
}

Popularity::Popularity() { (void)Uniform(2, this); }

IndexStatus Popularity::Uniform(double keys, Popularity* out) {
  IndexStatus s = CheckKeys(keys);
  if (!s.ok()) return s;
  out->impl_ = std::make_shared<Impl>(Impl::Kind::kUniform, "uniform", keys, 0, std::vector<HistogramBin>{{1, keys}},
                                      std::vector<HistogramBin>{});
  return s;
}

IndexStatus Popularity::Zipf(double keys, double s, Popularity* out) {
  if (!(s >= 0 && s <= kMaxSkew)) {
    return IndexStatus::InvalidArgument("Zipf skew is " + Number(s) + "; it must be a number from 0 (uniform) to 8.");
  }
  if (s == 0) return Uniform(keys, out);
  IndexStatus status = CheckKeys(keys);
  if (!status.ok()) return status;
  keys = std::floor(keys);
  // The wider a group, the fewer nodes; a steeper law needs narrower ones.
  const double growth = 0.2 / std::max(1.0, s);
  std::vector<HistogramBin> nodes;
  for (double first = 1; first <= keys;) {
    const double count = std::min(keys - first + 1, std::max(3.0, std::floor(first * growth)));
    AddRankNodes(first, count, s, &nodes);
    first += count;
  }
  out->impl_ = std::make_shared<Impl>(Impl::Kind::kZipf, "zipf " + Number(s), keys, s, std::move(nodes),
                                      std::vector<HistogramBin>{});
  return IndexStatus::OK();
}

IndexStatus Popularity::Histogram(std::vector<HistogramBin> bins, Popularity* out) {
  double keys = 0;
  for (size_t i = 0; i < bins.size(); i++) {
    const HistogramBin& bin = bins[i];
    if (!(bin.weight >= 0 && bin.weight <= 1e300) || !(bin.keys >= 0 && bin.keys <= kMaxKeys)) {
      return IndexStatus::InvalidArgument("Histogram bin " + std::to_string(i + 1) + " has weight " +
                                          Number(bin.weight) + " and " + Number(bin.keys) +
                                          " keys; both must be finite and not negative, keys at most 1e15.");
    }
    if (bin.weight > 0) keys += bin.keys;
  }
  bins.erase(std::remove_if(bins.begin(), bins.end(),
                            [](const HistogramBin& bin) { return bin.weight == 0 || bin.keys == 0; }),
             bins.end());
  if (!(keys >= 1 && keys <= kMaxKeys)) {
    return IndexStatus::InvalidArgument("The histogram has " + Number(keys) +
                                        " keys of positive weight; it must have from 1 to 1e15.");
  }
  std::vector<HistogramBin> nodes = CompressBins(bins);
  out->impl_ = std::make_shared<Impl>(Impl::Kind::kHistogram, "histogram", keys, 0, std::move(nodes), std::move(bins));
  return IndexStatus::OK();
}

namespace {

IndexStatus ReadHistogram(const std::string& path, std::vector<HistogramBin>* bins) {
  std::ifstream file(path);
  if (!file || file.peek() == std::ifstream::traits_type::eof()) {
    return IndexStatus::InvalidArgument("Histogram file " + path + " cannot be opened or is empty.");
  }
  std::string line;
  for (int number = 1; std::getline(file, line); number++) {
    std::istringstream words(line);
    std::string first;
    if (!(words >> first) || first[0] == '#') continue;
    HistogramBin bin = {0, 1};
    std::istringstream weight(first);
    std::string rest;
    const bool bad_weight = !(weight >> bin.weight) || (weight >> rest);
    bool bad_keys = false;
    std::string second;
    if (words >> second) {
      std::istringstream keys(second);
      bad_keys = !(keys >> bin.keys) || (keys >> rest) || (words >> rest);
    }
    if (bad_weight || bad_keys || !(bin.weight >= 0) || !(bin.keys >= 0)) {
      return IndexStatus::InvalidArgument(path + ":" + std::to_string(number) + ": \"" + line +
                                          "\" is not `weight` or `weight keys` (numbers that are not negative).");
    }
    bins->push_back(bin);
  }
  return IndexStatus::OK();
}

}  // namespace

IndexStatus Popularity::HistogramFromFile(const std::string& path, Popularity* out) {
  std::vector<HistogramBin> bins;
  IndexStatus s = ReadHistogram(path, &bins);
  if (!s.ok()) return s;
  s = Histogram(std::move(bins), out);
  return s.ok() ? s : IndexStatus::InvalidArgument(path + ": " + s.message());
}

IndexStatus Popularity::HistogramOfSample(const std::string& path, double keys, Popularity* out) {
  std::vector<HistogramBin> bins;
  IndexStatus s = ReadHistogram(path, &bins);
  // What is wrong with it is said of what is in the file.
  if (!s.ok()) return s;
  s = Histogram(bins, out);
  if (!s.ok()) return IndexStatus::InvalidArgument(path + ": " + s.message());
  double all = 0, least = 0;  // keys, and the least weight of those that are written
  for (const HistogramBin& bin : bins) {
    all += bin.keys;
    if (bin.weight > 0 && bin.keys > 0 && (least == 0 || bin.weight < least)) least = bin.weight;
  }
  constexpr double kHardlyEver = 1e-6;  // as often as the least popular of the others
  for (HistogramBin& bin : bins) {
    if (bin.weight == 0) bin.weight = kHardlyEver * least;
    bin.keys *= keys / all;
  }
  s = Histogram(std::move(bins), out);
  return s.ok() ? s : IndexStatus::InvalidArgument(path + ": " + s.message());
}

double Popularity::keys() const { return impl_->keys(); }
const std::string& Popularity::name() const { return impl_->name(); }
double Popularity::Unique(double requests) const { return impl_->Unique(requests); }
double Popularity::Missing(double requests) const { return impl_->Missing(requests); }
double Popularity::UniqueInverse(double unique) const { return impl_->UniqueInverse(unique); }
double Popularity::Merge(double u, double v) const { return Unique(UniqueInverse(u) + UniqueInverse(v)); }
double Popularity::MeanUnique(double requests) const { return impl_->MeanUnique(requests); }
double Popularity::DInterval(double size) const { return impl_->MeanUniqueInverse(size); }
double Popularity::Density(double dinterval, double distance) const { return Unique(dinterval * distance) / keys(); }
double Popularity::MissProbability(double requests) const { return impl_->MissProbability(requests); }

}  // namespace cairn::msls
