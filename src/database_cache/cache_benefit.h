// What a result cache saves and what it costs, in time, from samples. It decides nothing.
//
// A hit saves what the tree would have taken for that key, less the probe; a miss costs the probe and the fill; a write
// costs what it takes to bar its keys. Samples of hits ask the tree, too: popular keys are quicker there than others.
//
// Thread-safety: Add... may be called by all threads at any time, the others by one at a time.

#pragma once

#include <atomic>
#include <cstdint>

namespace cairn {

class CacheBenefit {
 public:
  // Of a window of time.
  struct Counts {
    uint64_t reads = 0;
    uint64_t hits = 0;
    uint64_t fills = 0;
    uint64_t barred_keys = 0;
  };

  void AddHit(uint64_t probe_nanoseconds, uint64_t tree_nanoseconds);
  void AddMiss(uint64_t probe_nanoseconds, uint64_t tree_nanoseconds, uint64_t fill_nanoseconds);
  void AddWrite(uint64_t keys, uint64_t nanoseconds);

  // Whether enough was sampled to go by.
  bool Knows() const;
  // Nanoseconds that a read of the window took less than it would have without the cache; negative: more.
  double SavedPerRead(const Counts& window) const;

  // Makes what was sampled so far weigh half.
  void Age();
  void Forget();

 private:
  // Of n samples.
  struct Mean {
    std::atomic<uint64_t> n{0};
    std::atomic<uint64_t> sum{0};

    void Add(uint64_t nanoseconds, uint64_t samples = 1);
    double Get(double otherwise) const;
    void Scale(uint64_t divisor);
  };

  Mean probe_, tree_of_hit_, tree_of_miss_, fill_, bar_;
};

}  // namespace cairn
