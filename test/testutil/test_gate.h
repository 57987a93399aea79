// Where a test holds a thread of the database up, until it lets it go.
//
// Thread-safety: safe.

#pragma once

#include <chrono>
#include <condition_variable>
#include <mutex>

namespace cairn {

class Gate {
 public:
  void Wait() {
    std::unique_lock<std::mutex> lock(mutex_);
    reached_ = true;
    changed_.notify_all();
    changed_.wait(lock, [this] { return released_; });
  }
  // Whether somebody comes to wait within two minutes.
  bool AwaitWaiter() {
    std::unique_lock<std::mutex> lock(mutex_);
    return changed_.wait_for(lock, std::chrono::minutes(2), [this] { return reached_; });
  }
  void Release() {
    std::lock_guard<std::mutex> lock(mutex_);
    released_ = true;
    changed_.notify_all();
  }

 private:
  std::mutex mutex_;
  std::condition_variable changed_;
  bool reached_ = false;
  bool released_ = false;
};

}  // namespace cairn
