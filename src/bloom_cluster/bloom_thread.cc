#include "src/bloom_cluster/bloom_thread.h"

#include <pthread.h>

#include "src/util/of_thread.h"

namespace cairn {

FilterThreadPlace filter_thread_places[1 << kFilterThreadPlaceBits];

namespace {

// By (1): of the threads that held places, only the one that forked runs in the child.
void ForgetOthers() {
  const void* const thread = AddressOfThread();
  for (FilterThreadPlace& place : filter_thread_places) {
    if (place.owner.load(std::memory_order_relaxed) != thread) place.owner.store(nullptr, std::memory_order_relaxed);
  }
}

// With the place of its thread, if that was free.
class PlacedFilterThread {
 public:
  PlacedFilterThread() {
    static const int registered = pthread_atfork(nullptr, nullptr, ForgetOthers);
    FilterThreadPlace* const place = PlaceOf(AddressOfThread());
    const void* nobody = nullptr;
    if (registered == 0 && place->owner.compare_exchange_strong(nobody, AddressOfThread(), std::memory_order_acquire)) {
      place->thread = &thread_;
    }
  }
  ~PlacedFilterThread() {
    const void* const thread = AddressOfThread();
    FilterThreadPlace* const place = PlaceOf(thread);
    // Release: what this thread has done with the place comes before what the next owner does.
    if (place->owner.load(std::memory_order_relaxed) == thread) place->owner.store(nullptr, std::memory_order_release);
  }
  FilterThread* thread() { return &thread_; }

 private:
  FilterThread thread_;
};

}  // namespace

__attribute__((noinline)) FilterThread* FindFilterThread() { return OfThread<PlacedFilterThread>::Get()->thread(); }

}  // namespace cairn
