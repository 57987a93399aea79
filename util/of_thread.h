// An object of each thread that lasts until nothing of the thread can ask for it any more. The thread-local objects of
// a program may use the library when they are destroyed (a transaction lets go of its locks, an owner looks something
// up and closes its database): by then a thread-local object of the library's own that has a destructor may be gone.
//
// Thread-safety: each thread has its own.

#pragma once

#include <pthread.h>

namespace cairn {

// A T for each thread that asks. What has to be two objects has to be two types. That of the main thread is not
// destroyed when the process ends. (Hidden: each library has its own, where a process has loaded several.)
template <typename T>
class __attribute__((visibility("hidden"))) OfThread {
 public:
  static T* Get() { return object_ != nullptr ? object_ : Make(); }

 private:
  // What a thread's pthread keys hold ends after its thread-local objects, and may be made once more while others end.
  __attribute__((noinline)) static T* Make() {
    static pthread_key_t key;
    static const bool has_key = pthread_key_create(&key, [](void* /*object*/) { Destroy(); }) == 0;
    object_ = new T();
    if (has_key && pthread_setspecific(key, object_) == 0) return object_;
    // Where a process has no more keys: one that is made once this has ended is lost.
    struct AtEnd {
      ~AtEnd() { Destroy(); }
    };
    static thread_local AtEnd at_end;
    (void)&at_end;
    return object_;
  }
  static void Destroy() {
    delete object_;
    object_ = nullptr;
  }

  // A constant, so that nothing is to be looked at before it is read, also when the thread ends.
  static inline thread_local T* object_ = nullptr;
};

}  // namespace cairn
