// A place to sleep until something is so, that costs whoever changes it one load while nobody sleeps.
//
// Whoever changes what sleepers wait for does so by sequentially consistent stores, and calls Wake afterwards.
//
// Thread-safety: all functions, by all threads. A Futex may not go before those whom it woke have left Await.

#pragma once

#include <atomic>
#include <cstdint>

namespace cairn {

class Futex {
 public:
  static constexpr uint32_t kAll = ~uint32_t{0};

  // Returns when done() says so. Sleeps otherwise, and asks it anew whenever somebody wakes one of the bits.
  template <class Done>
  void Await(const Done& done, uint32_t bits = kAll) {
    // It counts itself before it looks for the last time; who wakes looks at the count after its change, and changes
    // what this sleeps on.
    sleepers_.fetch_add(1);
    for (;;) {
      const uint32_t wakings = wakings_.load();
      if (done()) break;
      Sleep(wakings, bits);
    }
    sleepers_.fetch_sub(1, std::memory_order_relaxed);
  }
  bool HasSleepers() const { return sleepers_.load() != 0; }

  void WakeAll(uint32_t bits = kAll) {
    if (HasSleepers()) WakeSome(kEverybody, bits);
  }
  void WakeOne() {
    if (HasSleepers()) WakeSome(1, kAll);
  }

 private:
  static constexpr int kEverybody = 0x7fffffff;

  void Sleep(uint32_t wakings, uint32_t bits);
  void WakeSome(int threads, uint32_t bits);

  std::atomic<uint32_t> wakings_{0};
  std::atomic<uint32_t> sleepers_{0};
};

}  // namespace cairn
