// std::mutex with annotations that clang checks (-Wthread-safety, scripts/check_tidy): what a mutex guards is said
// where it is declared, and touching it without the mutex does not pass CI. Other compilers see plain locks.
//
//   CheckedMutex mutex_;
//   int count_ GUARDED_BY(mutex_) = 0;
//   void Add() REQUIRES(mutex_) { ++count_; }
//
// Thread-safety: that is what it is for. Lock order is the caller's business.

#pragma once

#include <chrono>
#include <condition_variable>
#include <mutex>

#if defined(__clang__)
#define CAIRN_THREAD_ATTRIBUTE(x) __attribute__((x))
#else
#define CAIRN_THREAD_ATTRIBUTE(x)
#endif

// Of members.
#define CAIRN_GUARDED_BY(x) CAIRN_THREAD_ATTRIBUTE(guarded_by(x))
// Of functions: the caller holds these; does not hold these.
#define CAIRN_REQUIRES(...) CAIRN_THREAD_ATTRIBUTE(requires_capability(__VA_ARGS__))
#define CAIRN_TRY_ACQUIRE(...) CAIRN_THREAD_ATTRIBUTE(try_acquire_capability(__VA_ARGS__))
#define CAIRN_EXCLUDES(...) CAIRN_THREAD_ATTRIBUTE(locks_excluded(__VA_ARGS__))
#define CAIRN_ACQUIRE(...) CAIRN_THREAD_ATTRIBUTE(acquire_capability(__VA_ARGS__))
#define CAIRN_RELEASE(...) CAIRN_THREAD_ATTRIBUTE(release_capability(__VA_ARGS__))
// The mutex whose address the function returns.
#define CAIRN_RETURNS(x) CAIRN_THREAD_ATTRIBUTE(lock_returned(x))
// Where the analysis cannot follow; say why.
#define CAIRN_NO_THREAD_SAFETY_ANALYSIS CAIRN_THREAD_ATTRIBUTE(no_thread_safety_analysis)
// Of a lambda that a template calls before it returns: it has the mutexes that its maker holds.
#define CAIRN_CALLED_AT_ONCE CAIRN_NO_THREAD_SAFETY_ANALYSIS

namespace cairn {

// Not called Mutex: RocksDB declares classes of that name.
class CAIRN_THREAD_ATTRIBUTE(lockable) CheckedMutex {
 public:
  CheckedMutex() = default;
  CheckedMutex(const CheckedMutex&) = delete;
  CheckedMutex& operator=(const CheckedMutex&) = delete;

  void Lock() CAIRN_ACQUIRE() { mutex_.lock(); }
  bool TryLock() CAIRN_TRY_ACQUIRE(true) { return mutex_.try_lock(); }
  void Unlock() CAIRN_RELEASE() { mutex_.unlock(); }

 private:
  friend class ConditionVariable;
  std::mutex mutex_;
};

// Holds a mutex for a scope.
class CAIRN_THREAD_ATTRIBUTE(scoped_lockable) MutexLock {
 public:
  explicit MutexLock(CheckedMutex* mutex) CAIRN_ACQUIRE(mutex) : mutex_(mutex) { mutex_->Lock(); }
  // What TryLock or another way has locked already.
  enum Held { kHeld };
  MutexLock(CheckedMutex* mutex, Held /*held*/) CAIRN_REQUIRES(mutex) : mutex_(mutex) {}
  ~MutexLock() CAIRN_RELEASE() { mutex_->Unlock(); }
  MutexLock(const MutexLock&) = delete;
  MutexLock& operator=(const MutexLock&) = delete;

 private:
  CheckedMutex* const mutex_;
};

// Lets go of a mutex that the caller holds, for a scope: what the destructor releases is the release, says clang.
class CAIRN_THREAD_ATTRIBUTE(scoped_lockable) MutexUnlock {
 public:
  explicit MutexUnlock(CheckedMutex* mutex) CAIRN_RELEASE(mutex) : mutex_(mutex) { mutex_->Unlock(); }
  ~MutexUnlock() CAIRN_RELEASE() { mutex_->Lock(); }
  MutexUnlock(const MutexUnlock&) = delete;
  MutexUnlock& operator=(const MutexUnlock&) = delete;

 private:
  CheckedMutex* const mutex_;
};

class ConditionVariable {
 public:
  // Wakes up for no reason as well: to be called in a loop.
  void Wait(CheckedMutex* mutex) CAIRN_REQUIRES(mutex) {
    std::unique_lock<std::mutex> lock(mutex->mutex_, std::adopt_lock);
    changed_.wait(lock);
    lock.release();
  }
  // False when the time is over.
  bool WaitUntil(CheckedMutex* mutex, std::chrono::steady_clock::time_point until) CAIRN_REQUIRES(mutex) {
    std::unique_lock<std::mutex> lock(mutex->mutex_, std::adopt_lock);
    const bool woken = changed_.wait_until(lock, until) == std::cv_status::no_timeout;
    lock.release();
    return woken;
  }
  void NotifyOne() { changed_.notify_one(); }
  void NotifyAll() { changed_.notify_all(); }

 private:
  std::condition_variable changed_;
};

}  // namespace cairn
