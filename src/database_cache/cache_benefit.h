// What a result cache saves and what it costs, in time, from samples. It decides nothing.
//
// Reads of both kinds are timed as a whole: those that asked the cache first, with all that followed, and those that
// asked the tree only. A sum of parts would mislead: a tree that is seldom asked for popular keys is slow for them when
// it is asked, and lines of memory that one part brings help the next. A write costs what it takes to bar its keys.
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
    uint64_t barred_keys = 0;
  };

  void AddRead(bool by_tree, uint64_t nanoseconds) { (by_tree ? by_tree_ : by_cache_).Add(nanoseconds); }
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
  // middle of a sample makes it a thousand times as long; so bars are taken at their median, and reads, which may be
  // reads of a disk, at a mean that no sample counts in with more than 16 medians of the tree's.
  class Samples {
   public:
    void Add(uint64_t nanoseconds);
    uint64_t Count() const;
    double Median(double otherwise) const;
    double Mean(double most) const;
    void Scale(uint64_t divisor);

   private:
    static constexpr int kClasses = 4 * 40;
    static int ClassOf(uint64_t nanoseconds);
    static double MiddleOf(int number);

    std::atomic<uint32_t> counts_[kClasses] = {};
  };

  Samples by_cache_, by_tree_, bar_;
};

}  // namespace cairn
