// An object of each thread that lasts until nothing of the thread can ask for it any more. The thread-local objects of a program may
// use the library when they are destroyed (a transaction lets go of its locks, an owner looks something up and closes its database):
// by then a thread-local object of the library's own that has a destructor may be gone.
//
// Thread-safety: each thread has its own.

#pragma once

#include <pthread.h>

namespace cairn {

// A T for each thread that asks. What has to be two objects has to be two types.
template <typename T>
class OfThread {
 public:
  static T* Get() { return object_ != nullptr ? object_ : Make(); }

 private:
  // Destroyed with the thread's thread-local objects, which keeps the library loaded until then.
  struct AtEnd {
    ~AtEnd() {
      Destroy();
      has_ended_ = true;
    }
  };

  __attribute__((noinline)) static T* Make() {
    object_ = new T();
    if (has_ended_) {
      EndWithKeys();
    } else {
      static thread_local AtEnd at_end;
      (void)&at_end;
    }
    return object_;
  }
  static void Destroy() {
    delete object_;
    object_ = nullptr;
  }
  // What a thread's pthread keys hold ends after its thread-local objects. Where there is no key, the object is lost.
  static void EndWithKeys() {
    static pthread_key_t key;
    static const int made = pthread_key_create(&key, [](void* /*object*/) { Destroy(); });
    if (made == 0) (void)pthread_setspecific(key, object_);
  }

  // Constants, so that nothing is to be looked at before they are read, also when the thread ends.
  static inline thread_local T* object_ = nullptr;
  static inline thread_local bool has_ended_ = false;
};

}  // namespace cairn
