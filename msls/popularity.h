// What stands behind Popularity: nodes (a number of keys with one probability) and, unless the popularity is uniform,
// tables of Unique, MeanUnique and MissProbability over the logarithm of the number of requests. Immutable after
// construction.

#pragma once

#include <string>
#include <vector>

#include "cairn/msls.h"

namespace cairn::msls {

class Popularity::Impl {
 public:
  struct Node {
    double keys;      // may be fractional: a quadrature weight
    double log_miss;  // log(1 - probability), negative
  };
  enum class Kind { kUniform, kZipf, kHistogram };

  // `weights` need not be normalised; each is the relative probability of one key of the node.
  Impl(Kind kind, std::string name, double keys, double skew, const std::vector<HistogramBin>& nodes,
       std::vector<HistogramBin> bins);

  Kind kind() const { return kind_; }
  double skew() const { return skew_; }
  double keys() const { return keys_; }
  const std::string& name() const { return name_; }
  // All keys, from the most popular on.
  const std::vector<Node>& nodes() const { return nodes_; }
  // The histogram as it was given, without empty bins; only for kHistogram.
  const std::vector<HistogramBin>& bins() const { return bins_; }

  double Unique(double requests) const;
  double Missing(double requests) const;
  double UniqueInverse(double unique) const;
  double MeanUnique(double requests) const;
  double MeanUniqueInverse(double mean) const;
  double MissProbability(double requests) const;

 private:
  // A function of t = log(requests) with its first two derivatives by t.
  struct Sample {
    double value, slope, curvature;
  };

  void SumUnique(double requests, Sample* unique, Sample* missed) const;
  Sample SumMeanUnique(double requests) const;
  double Interpolate(const std::vector<Sample>& table, double requests) const;
  double InvertTable(const std::vector<Sample>& table, double value) const;
  bool InTable(double requests) const;

  Kind kind_;
  std::string name_;
  double keys_;
  double skew_;
  std::vector<Node> nodes_;
  std::vector<double> probability_;  // beside nodes_
  std::vector<HistogramBin> bins_;
  double inverse_rate_sum_ = 0;  // sum of keys / -log_miss
  double first_t_ = 0;
  double min_requests_ = 0;
  double max_requests_ = 0;
  std::vector<Sample> unique_;
  std::vector<Sample> mean_unique_;
  std::vector<Sample> miss_;  // MissProbability
};

}  // namespace cairn::msls
