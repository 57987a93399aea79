// The popularity of keys from a sample of keys and how many of a row of flushes held each: no law is assumed.
//
// A key of probability f is held by a flush of W writes with probability 1 - (1 - f)^W, so of n flushes by a binomial
// number. The keys are taken to be a mixture of such binomials over a grid of f, and the mixture that makes the counts
// most likely is found by expectation maximisation. Keys that nearly every flush holds are told apart by it no more;
// they share the writes that the others leave. That is enough: the write amplification depends on the popularity only
// through the distinct keys of W writes and more (cairn/msls.h, Unique).

#pragma once

#include <vector>

#include "cairn/msls.h"

namespace cairn {

// The same popularity as bins of cairn/msls.h, most popular first, for `keys` keys in all.
//   writes: mean number of writes in a flush.
//   keys_by_flushes: element c is the number of sampled keys that c flushes held; it has one more element than there
//     were flushes. Element 0 is ignored: it follows from keys and share.
//   share: part of all keys that the sample looked at.
// Empty if there is nothing to go by.
std::vector<msls::HistogramBin> EstimatePopularity(double keys, double writes,
                                                   const std::vector<double>& keys_by_flushes, double share);

// Part of the writes that go to the most popular `part` of the keys; bins as above.
double WritesOfMostPopular(const std::vector<msls::HistogramBin>& bins, double part);

}  // namespace cairn
