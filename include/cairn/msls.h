// Write amplification of multi-stage log-structured stores: how many bytes LevelDB, RocksDB (leveled and universal),
// SAMT, COLA, SILT and Cairn's trie write for each byte that the application writes, computed from the popularity of
// keys and the shape of the store; a simulator at file granularity that checks the computation; and an optimizer of the
// shape.
//
// This header depends on the C++ library alone. Nothing here opens a database.
//
// Units: keys, requests and items are counted (as double, so that 10^12 of them fit); names that end in `bytes` are
// bytes. All items are taken to have one size, so a ratio of items is a ratio of bytes.
//
// Thread-safety: everything here is immutable after construction or a free function without shared state.
//
// Errors: a Status whose message names the parameter, the value and what is allowed. No exceptions, no abort on bad
// input.
//
// Source: Hyeontaek Lim's thesis (CMU, 2015), chapter 4, "Analyzing Multi-Stage Log-Structured Designs"; docs/msls.md
// has the formulas and says where this library departs from it.

#pragma once

#include <memory>
#include <string>
#include <utility>
#include <vector>

namespace cairn {
namespace msls {

class Status {
 public:
  Status() = default;
  static Status OK() { return Status(); }
  static Status InvalidArgument(std::string message) { return Status(std::move(message)); }

  bool ok() const { return message_.empty(); }
  const std::string& message() const { return message_; }

 private:
  explicit Status(std::string message) : message_(std::move(message)) {}
  std::string message_;
};

// A number of keys that share one popularity, relative to the other bins (a count of requests per key, say).
struct HistogramBin {
  double weight;
  double keys;
};

// The probability that a write goes to each key, and what follows from it about the number of distinct keys in a
// sequence of independent requests. A cheap value to copy: copies share the tables.
//
// Keys are compressed into groups of similar probability. Within a group a sum over keys becomes a Gauss quadrature of
// the discrete measure (exact for polynomials up to degree 5 in the rank), so Unique is within 10^-6 of the exact sum
// (measured: msls/popularity_test.cc) and costs the same for 10^3 keys as for 10^12.
class Popularity {
 public:
  // All `keys` equally likely. 2 <= keys <= 10^15.
  static Status Uniform(double keys, Popularity* out);
  // The key of rank i (from 1) has probability proportional to i^-s. 0 <= s <= 8; s = 0 is uniform.
  static Status Zipf(double keys, double s, Popularity* out);
  // Bins of weight 0 are keys that are never written and are left out.
  static Status Histogram(std::vector<HistogramBin> bins, Popularity* out);
  // Text, one bin a line: `weight` or `weight keys`; empty lines and lines that begin with # are skipped.
  static Status HistogramFromFile(const std::string& path, Popularity* out);

  // One key with probability 1/2 and one other: what a default object means. Exists so that out parameters are easy to
  // declare.
  Popularity();

  // The number of distinct keys that can be written.
  double keys() const;
  // "uniform", "zipf 0.99" or "histogram".
  const std::string& name() const;

  // Expected number of distinct keys in `requests` requests; increasing, concave, from 0 to keys(). Infinity is
  // allowed.
  double Unique(double requests) const;
  // keys() - Unique(requests), without cancellation where Unique is close to keys().
  double Missing(double requests) const;
  // The number of requests in which `unique` distinct keys are expected; infinity from keys() on, 0 up to 0.
  double UniqueInverse(double unique) const;
  // Distinct keys of the union of two tables of u and v distinct keys that came from separate requests.
  double Merge(double u, double v) const;

  // The mean of Unique over [0, requests]: the size of a level whose key space is swept once every `requests` requests.
  double MeanUnique(double requests) const;
  // The inverse of MeanUnique: the number of requests between two compactions of one key of a level that holds `size`
  // keys, when the level is swept in a circle.
  double DInterval(double size) const;
  // The probability that a level with sweep interval `dinterval` has an item for the key at `distance` (0 to 1, a part
  // of the key space) behind the last compacted key.
  double Density(double dinterval, double distance) const;

  // The probability that a request asks for a key that is in none of the last `requests` requests, for reads that
  // follow the popularity of writes.
  double MissProbability(double requests) const;

  class Impl;
  const Impl& impl() const { return *impl_; }

 private:
  std::shared_ptr<const Impl> impl_;
};

}  // namespace msls
}  // namespace cairn
