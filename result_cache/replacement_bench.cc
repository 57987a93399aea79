// Miss ratios of replacement policies, simulated on items of one size: what a policy is worth before its cost.
//
//   build/bench/replacement_bench [--keys 1000000] [--requests 10000000]

#include <gflags/gflags.h>

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <cstdio>
#include <deque>
#include <list>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "result_cache/ghosts.h"
#include "util/mix64.h"

DEFINE_int64(keys, 1000000, "keys of each workload");
DEFINE_int64(requests, 10000000, "requests, the first fifth of them uncounted");

namespace cairn {
namespace {

using KeyNumber = uint32_t;

// A cache of `size` items. Keys are numbers below some bound.
class Policy {
 public:
  virtual ~Policy() = default;
  // Whether the key was there; it is afterwards, if it is admitted.
  virtual bool Get(KeyNumber key) = 0;
};

class Lru : public Policy {
 public:
  Lru(size_t size, size_t keys) : size_(size), places_(keys, order_.end()) {}
  bool Get(KeyNumber key) override {
    if (places_[key] != order_.end()) {
      order_.splice(order_.begin(), order_, places_[key]);
      return true;
    }
    if (order_.size() == size_) {
      places_[order_.back()] = order_.end();
      order_.pop_back();
    }
    order_.push_front(key);
    places_[key] = order_.begin();
    return false;
  }

 private:
  const size_t size_;
  std::list<KeyNumber> order_;
  std::vector<std::list<KeyNumber>::iterator> places_;
};

// FIFO with second chances: `limit` references are counted. 0: plain FIFO.
class Clock : public Policy {
 public:
  Clock(size_t size, size_t keys, uint8_t limit) : size_(size), limit_(limit), references_(keys, -1) {}
  bool Get(KeyNumber key) override {
    if (references_[key] >= 0) {
      if (references_[key] < limit_) ++references_[key];
      return true;
    }
    while (queue_.size() >= size_) {
      const KeyNumber first = queue_.front();
      queue_.pop_front();
      if (references_[first]-- > 0) queue_.push_back(first);
    }
    references_[key] = 0;
    queue_.push_back(key);
    return false;
  }

 private:
  const size_t size_;
  const int8_t limit_;
  std::deque<KeyNumber> queue_;
  std::vector<int8_t> references_;  // -1: not there
};

class Sieve : public Policy {
 public:
  Sieve(size_t size, size_t keys) : size_(size), hand_(order_.end()), there_(keys, 0) {}
  bool Get(KeyNumber key) override {
    if (there_[key] != 0) {
      there_[key] = 2;
      return true;
    }
    if (order_.size() == size_) Evict();
    order_.push_back(key);
    there_[key] = 1;
    return false;
  }

 private:
  void Evict() {
    if (hand_ == order_.end()) hand_ = order_.begin();
    while (there_[*hand_] == 2) {
      there_[*hand_] = 1;
      if (++hand_ == order_.end()) hand_ = order_.begin();
    }
    there_[*hand_] = 0;
    hand_ = order_.erase(hand_);
  }

  const size_t size_;
  std::list<KeyNumber> order_;  // oldest first
  std::list<KeyNumber>::iterator hand_;
  std::vector<uint8_t> there_;  // 0: no, 1: yes, 2: visited
};

// Who forgets a ghost: as many others as there are items, or, as in the N-zone, two others of its bucket.
enum class GhostsOf { kCache, kBucket };

// S3-FIFO: `promotion` references carry an item from the small to the main queue. As in the N-zone, a key without ghost
// is admitted once in `admission` times.
class TwoQueues : public Policy {
 public:
  TwoQueues(size_t size, size_t keys, int promotion, uint64_t admission = 1, GhostsOf ghosts_of = GhostsOf::kCache)
      : size_(size),
        promotion_(promotion),
        admission_(admission),
        ghosts_of_(ghosts_of),
        references_(keys, -1),
        ghost_(keys, 0),
        buckets_(size * 8 / kEntriesForEightBuckets, 0) {}
  uint64_t fills() const { return fills_; }
  bool Get(KeyNumber key) override {
    if (references_[key] >= 0) {
      references_[key] = static_cast<int8_t>(std::min(3, references_[key] + 1));
      return true;
    }
    const bool known = TakeGhost(key);
    const bool full = small_.size() + main_.size() >= size_;
    if (full && !known && NextSplitMix64(&random_) % admission_ != 0) return false;
    ++fills_;
    while (small_.size() + main_.size() >= size_) {
      if (small_.size() * 10 >= size_ || main_.empty()) {
        ReclaimSmall();
      } else {
        ReclaimMain();
      }
    }
    references_[key] = 0;
    (known ? main_ : small_).push_back(key);
    return false;
  }

 private:
  void ReclaimSmall() {
    const KeyNumber first = small_.front();
    small_.pop_front();
    if (references_[first] >= promotion_) {
      references_[first] = 0;
      main_.push_back(first);
      return;
    }
    references_[first] = -1;
    if (ghosts_of_ == GhostsOf::kCache) {
      ghost_[first] = ++ghosts_;
    } else {
      const uint64_t hash = SplitMix64(first);
      uint32_t* const bucket = &buckets_[hash % buckets_.size()];
      *bucket = cache::BucketGhosts::Add(*bucket, hash);
    }
  }
  bool TakeGhost(KeyNumber key) {
    if (ghosts_of_ == GhostsOf::kCache) {
      const uint64_t ghost = std::exchange(ghost_[key], 0);
      return ghost != 0 && ghosts_ - ghost < size_;
    }
    const uint64_t hash = SplitMix64(key);
    uint32_t* const bucket = &buckets_[hash % buckets_.size()];
    const bool known = cache::BucketGhosts::Has(*bucket, hash);
    if (known) *bucket = cache::BucketGhosts::Remove(*bucket, hash);
    return known;
  }
  void ReclaimMain() {
    const KeyNumber first = main_.front();
    main_.pop_front();
    if (references_[first]-- > 0) main_.push_back(first);
  }

  const size_t size_;
  const int promotion_;
  static constexpr size_t kEntriesForEightBuckets = 49;

  const uint64_t admission_;
  const GhostsOf ghosts_of_;
  uint64_t random_ = 0;
  uint64_t fills_ = 0;
  std::deque<KeyNumber> small_, main_;
  std::vector<int8_t> references_;  // -1: not there
  std::vector<uint64_t> ghost_;     // when it became one; 0: never
  uint64_t ghosts_ = 0;
  std::vector<uint32_t> buckets_;
};

// What counts of requests could bring: those of all keys, in the cache or not, halved after every `window` requests. A
// newcomer takes the place of the least asked for of eight in turn, if it was asked for more often (TinyLFU, with counts
// that cost nothing and are never wrong).
class ByCounts : public Policy {
 public:
  ByCounts(size_t size, size_t keys, uint64_t window) : size_(size), window_(window), counts_(keys, 0), there_(keys) {}
  bool Get(KeyNumber key) override {
    ++counts_[key];
    if (++requests_ % window_ == 0) {
      for (uint32_t& count : counts_) count /= 2;
    }
    if (there_[key]) return true;
    if (kept_.size() < size_) {
      kept_.push_back(key);
      there_[key] = true;
      return false;
    }
    size_t least = hand_;
    for (int i = 0; i < 8; ++i, hand_ = (hand_ + 1) % size_) {
      if (counts_[kept_[hand_]] < counts_[kept_[least]]) least = hand_;
    }
    if (counts_[key] <= counts_[kept_[least]]) return false;
    there_[kept_[least]] = false;
    there_[key] = true;
    kept_[least] = key;
    return false;
  }

 private:
  const size_t size_;
  const uint64_t window_;
  std::vector<uint32_t> counts_;
  std::vector<bool> there_;
  std::vector<KeyNumber> kept_;
  size_t hand_ = 0;
  uint64_t requests_ = 0;
};

// Who knows the law: of Zipf requests, lower numbers are asked for more often.
class Oracle : public Policy {
 public:
  explicit Oracle(size_t size) : size_(size) {}
  bool Get(KeyNumber key) override { return key < size_; }

 private:
  const size_t size_;
};

// Zipf requests; of every `scan_of` in hundred one is for the next key of an endless scan.
struct Workload {
  std::string name;
  double zipf;
  int scan_percent;
};

std::vector<KeyNumber> Requests(const Workload& workload) {
  const auto keys = static_cast<size_t>(FLAGS_keys);
  std::vector<double> sums;
  double sum = 0;
  for (size_t i = 1; i <= keys; ++i) sums.push_back(sum += std::pow(static_cast<double>(i), -workload.zipf));
  std::vector<KeyNumber> requests(static_cast<size_t>(FLAGS_requests));
  uint64_t state = 1, scanned = 0;
  for (KeyNumber& request : requests) {
    const uint64_t random = NextSplitMix64(&state);
    if (static_cast<int>(random % 100) < workload.scan_percent) {
      request = static_cast<KeyNumber>(keys + scanned++ % (9 * keys));
      continue;
    }
    const double at = static_cast<double>(NextSplitMix64(&state) >> 11) * 0x1p-53 * sums.back();
    const auto rank = static_cast<size_t>(std::upper_bound(sums.begin(), sums.end(), at) - sums.begin());
    request = static_cast<KeyNumber>(std::min(rank, keys - 1));
  }
  return requests;
}

double MissRatio(Policy* policy, const std::vector<KeyNumber>& requests) {
  size_t misses = 0;
  const size_t first = requests.size() / 5;
  for (size_t i = 0; i < requests.size(); ++i) {
    if (!policy->Get(requests[i]) && i >= first) ++misses;
  }
  return static_cast<double>(misses) / static_cast<double>(requests.size() - first);
}

int Main() {
  const auto keys = static_cast<size_t>(FLAGS_keys);
  printf(
      "%-22s %5s  %6s %6s %6s %6s %6s %6s %6s %6s %6s %6s  %s\n", "miss ratio, percent", "cache", "LRU", "FIFO",
      "CLOCK", "CLOCK3", "SIEVE", "S3(1)", "S3(2)", "LFU10", "LFU", "oracle",
      "S3(1), one fill in 2, 4, 8 admitted, and fills a hundred requests; two ghosts a bucket, one fill in 1, 2, 4, 8");
  for (const Workload& workload :
       {Workload{"zipf 0.99", 0.99, 0}, {"zipf 0.8", 0.8, 0}, {"zipf 0.99, 20 % scan", 0.99, 20}}) {
    const std::vector<KeyNumber> requests = Requests(workload);
    const size_t universe = 10 * keys;
    for (const size_t percent : {5, 10, 20}) {
      const size_t size = keys * percent / 100;
      std::vector<std::unique_ptr<Policy>> policies;
      policies.push_back(std::make_unique<Lru>(size, universe));
      for (const uint8_t limit : {0, 1, 3}) policies.push_back(std::make_unique<Clock>(size, universe, limit));
      policies.push_back(std::make_unique<Sieve>(size, universe));
      for (const int promotion : {1, 2}) policies.push_back(std::make_unique<TwoQueues>(size, universe, promotion));
      for (const uint64_t window : {uint64_t{10} * size, UINT64_MAX}) {
        policies.push_back(std::make_unique<ByCounts>(size, universe, window));
      }
      policies.push_back(std::make_unique<Oracle>(size));
      printf("%-22s %4zu%% ", workload.name.c_str(), percent);
      for (const auto& policy : policies) printf(" %6.2f", 100 * MissRatio(policy.get(), requests));
      for (const GhostsOf ghosts_of : {GhostsOf::kCache, GhostsOf::kBucket}) {
        for (const uint64_t admission : {1, 2, 4, 8}) {
          if (ghosts_of == GhostsOf::kCache && admission == 1) continue;  // above
          TwoQueues policy(size, universe, 1, admission, ghosts_of);
          const double misses = 100 * MissRatio(&policy, requests);
          printf(" %6.2f, %4.1f", misses,
                 100 * static_cast<double>(policy.fills()) / static_cast<double>(requests.size()));
        }
      }
      printf("\n");
      fflush(stdout);
    }
  }
  return 0;
}

}  // namespace
}  // namespace cairn

int main(int argc, char** argv) {
  gflags::ParseCommandLineFlags(&argc, &argv, true);
  return cairn::Main();
}
