// What a result cache saves and what it costs, in time, from samples. It decides nothing.
//
// Reads of both kinds are timed as a whole: those that asked the cache first, with all that followed, and those that
// asked the tree only. A sum of parts would mislead: a tree that is seldom asked for popular keys is slow for them when
// it is asked, and lines of memory that one part brings help the next. A write costs what it takes to bar its keys.
//
// Reads that found a value and those that found none are compared with their like: a tree may find out quickly that it
// has no such key and slowly what a key's value is, and then a sample that holds a few more of the one says nothing.
//
// Thread-safety: Add... may be called by all threads at any time, the others by one at a time.

#pragma once

#include <atomic>
#include <cstdint>

namespace cairn {

class CacheBenefit {
 public:
  enum By { kByCache, kByTree };
  enum Found { kValue, kAbsent };

  // Of a window of time.
  struct Counts {
    uint64_t reads = 0;
    uint64_t barred_keys = 0;
  };

  void AddRead(By by, Found found, uint64_t nanoseconds) { reads_[by][found].Add(nanoseconds); }
  void AddWrite(uint64_t keys, uint64_t nanoseconds);

  // Whether so much was sampled of both kinds of reads. Reads of a database in memory vary by about their mean: 384
  // tell a twelfth of it, 96 a sixth.
  bool Knows(uint64_t samples) const { return Count(kByCache) >= samples && Count(kByTree) >= samples; }
  // Nanoseconds that a read of the window took less than it would have without the cache; negative: more.
  double SavedPerRead(const Counts& window) const;
  // What a read takes that asks the tree only.
  double TreeNanoseconds() const;

  void Forget();

 private:
  // Counts of samples by their length, 16 classes for each power of two. A thread that loses the processor in the
  // middle of a sample makes it a thousand times as long; so bars are taken at their median, and reads, which may be
  // reads of a disk, at a mean that no sample counts in with more than 16 medians of the tree's.
  class Samples {
   public:
    void Add(uint64_t nanoseconds);
    // Those of another as well.
    void AddAll(const Samples& other);
    // At once, because readers' threads ask now and then whether there are enough.
    uint64_t Count() const { return samples_.load(std::memory_order_relaxed); }
    double Median(double otherwise) const;
    double Mean(double most) const;
    void Forget();

   private:
    static constexpr int kPartBits = 4;
    static constexpr int kParts = 1 << kPartBits;  // of a power of two
    static constexpr int kClasses = kParts * 40;
    static int ClassOf(uint64_t nanoseconds);
    static double MiddleOf(int number);

    std::atomic<uint32_t> counts_[kClasses] = {};
    std::atomic<uint64_t> samples_{0};  // their sum, but for what is being added or forgotten
  };

  uint64_t Count(By by) const { return reads_[by][kValue].Count() + reads_[by][kAbsent].Count(); }
  static double Saved(const Samples& by_cache, const Samples& by_tree);

  Samples reads_[2][2];
  Samples bar_;
};

}  // namespace cairn
