#include "src/bloom_cluster/bloom_thread.h"

#include <pthread.h>

#include <cerrno>

#include "src/util/of_thread.h"

namespace cairn {

FilterThreadPlace filter_thread_places[1 << kFilterThreadPlaceBits];

namespace {

bool Begin(FilterThreadPlace* place) {
  pthread_mutexattr_t robust;
  if (pthread_mutexattr_init(&robust) != 0) return false;
  const bool begun =
      pthread_mutexattr_setrobust(&robust, PTHREAD_MUTEX_ROBUST) == 0 && pthread_mutex_init(&place->held, &robust) == 0;
  pthread_mutexattr_destroy(&robust);
  return begun;
}

// REQUIRES: the calling thread is the owner. What the owner before it at the same address has left is locked as by one that has died.
bool Hold(FilterThreadPlace* place) {
  const int error = pthread_mutex_trylock(&place->held);
  return error == 0 || (error == EOWNERDEAD && pthread_mutex_consistent(&place->held) == 0);
}

// By (1): of the threads that held places, only the one that forked runs in the child, where it has another number.
void ForgetOthers() {
  const void* const thread = AddressOfThread();
  for (FilterThreadPlace& place : filter_thread_places) {
    const bool is_mine = place.owner.load(std::memory_order_relaxed) == thread && !place.OwnerHasDied();
    const bool begun = Begin(&place);
    if (!is_mine || !begun || !Hold(&place)) place.owner.store(nullptr, std::memory_order_relaxed);
  }
}

bool BeginPlaces() {
  for (FilterThreadPlace& place : filter_thread_places) {
    if (!Begin(&place)) return false;
  }
  return pthread_atfork(nullptr, nullptr, ForgetOthers) == 0;
}

// With the place of its thread, if that was free.
class PlacedFilterThread {
 public:
  PlacedFilterThread() {
    static const bool begun = BeginPlaces();
    const void* const thread = AddressOfThread();
    FilterThreadPlace* const place = PlaceOf(thread);
    const void* owner = nullptr;
    if (!begun || (!place->owner.compare_exchange_strong(owner, thread, std::memory_order_acquire) && owner != thread))
      return;
    place->thread = &thread_;
    if (!Hold(place)) place->owner.store(nullptr, std::memory_order_release);
  }
  ~PlacedFilterThread() {
    FilterThreadPlace* const place = PlaceOf(AddressOfThread());
    if (place->owner.load(std::memory_order_relaxed) != AddressOfThread()) return;
    pthread_mutex_unlock(&place->held);
    // Release: what this thread has done with the place comes before what the next owner does.
    place->owner.store(nullptr, std::memory_order_release);
  }
  FilterThread* thread() { return &thread_; }

 private:
  FilterThread thread_;
};

}  // namespace

__attribute__((noinline)) FilterThread* FindFilterThread() { return OfThread<PlacedFilterThread>::Get()->thread(); }

}  // namespace cairn
