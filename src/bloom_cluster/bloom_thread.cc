#include "src/bloom_cluster/bloom_thread.h"

#include <pthread.h>

namespace cairn {

FilterThreadPlace filter_thread_places[1 << kFilterThreadPlaceBits];

namespace {

thread_local FilterThread* this_filter_thread = nullptr;
thread_local bool has_ended = false;  // its thread-local objects have

void GiveUpPlace() {
  const void* const thread = AddressOfThread();
  FilterThreadPlace* const place = PlaceOf(thread);
  // Release: what this thread has done with the place comes before what the next owner does.
  if (place->owner.load(std::memory_order_relaxed) == thread) place->owner.store(nullptr, std::memory_order_release);
}

// By (1): of the threads that held places, only the one that forked runs in the child.
void ForgetOthers() {
  const void* const thread = AddressOfThread();
  for (FilterThreadPlace& place : filter_thread_places) {
    if (place.owner.load(std::memory_order_relaxed) != thread) place.owner.store(nullptr, std::memory_order_relaxed);
  }
}

void EndThis() {
  GiveUpPlace();
  delete this_filter_thread;
  this_filter_thread = nullptr;
}

// What a thread's pthread keys hold ends after its thread-local objects, which may look something up at their end, and may be made once
// more while others end. False: the process has no more keys.
bool EndsWithKeys() {
  static pthread_key_t key;
  static const bool has_key = pthread_key_create(&key, [](void* /*thread*/) { EndThis(); }) == 0;
  return has_key && pthread_setspecific(key, this_filter_thread) == 0;
}

struct AtThreadEnd {
  ~AtThreadEnd() {
    EndThis();
    has_ended = true;
  }
};

}  // namespace

__attribute__((noinline)) FilterThread* FindFilterThread(FilterThreadPlace* place) {
  if (this_filter_thread != nullptr) return this_filter_thread;
  this_filter_thread = new FilterThread();
  if (!EndsWithKeys()) {
    if (has_ended) return this_filter_thread;  // a few KiB are lost, and no place, which nobody would give back
    static thread_local AtThreadEnd at_thread_end;
    (void)&at_thread_end;
  }
  static const int registered = pthread_atfork(nullptr, nullptr, ForgetOthers);
  const void* nobody = nullptr;
  if (registered == 0 && place->owner.compare_exchange_strong(nobody, AddressOfThread(), std::memory_order_acquire)) {
    place->thread = this_filter_thread;
  }
  return this_filter_thread;
}

}  // namespace cairn
