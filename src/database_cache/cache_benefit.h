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
    uint64_t fills = 0;  // that were stored
    uint64_t barred_keys = 0;
  };

  void AddHit(uint64_t probe_nanoseconds, uint64_t tree_nanoseconds);
  // With what it took to find out that the answer is not to be stored.
  void AddMiss(uint64_t probe_nanoseconds, uint64_t tree_nanoseconds);
  // Of an answer that was stored.
  void AddFill(uint64_t nanoseconds);
  void AddWrite(uint64_t keys, uint64_t nanoseconds);

  // Whether enough was sampled to go by.
  bool Knows() const;
  // Nanoseconds that a read of the window took less than it would have without the cache; negative: more.
  double SavedPerRead(const Counts& window) const;

  // Makes what was sampled so far weigh half.
  void Age();
  void Forget();

 private:
  // Counts of samples by their length, four classes for each power of two. A thread that loses the processor in the
  // middle of a sample makes it a thousand times as long; so probes, fills and bars are taken at their median, and the
  // tree, which may read from a disk, at a mean that no sample counts in with more than 64 medians.
  class Samples {
   public:
    void Add(uint64_t nanoseconds);
    uint64_t Count() const;
    double Median(double otherwise) const;
    double Mean(double otherwise) const;
    void Scale(uint64_t divisor);

   private:
    static constexpr int kClasses = 4 * 40;
    static int ClassOf(uint64_t nanoseconds);
    static double MiddleOf(int number);

    std::atomic<uint32_t> counts_[kClasses] = {};
  };

  Samples probe_, tree_of_hit_, tree_of_miss_, fill_, bar_;
};

}  // namespace cairn
