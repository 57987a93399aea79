// What watches for a wait without end, and what ends a program that has seen something wrong.

#pragma once

#include <chrono>
#include <condition_variable>
#include <list>
#include <mutex>
#include <string>
#include <thread>
#include <utility>

namespace cairn {
namespace errors {

// Says what is wrong, and how to replay it, and ends the process: a wait without end cannot be unwound.
class Verdict {
 public:
  // replay: the command.
  explicit Verdict(std::string replay) : replay_(std::move(replay)) {}
  [[noreturn]] void Fail(const std::string& what) const;

 private:
  const std::string replay_;
};

// What threads are at, for the case that one of them does not end. Thread-safe.
class Watch {
 public:
  explicit Watch(const Verdict* verdict) : verdict_(verdict) {}
  ~Watch() { Settle(); }

  // Until it is destroyed, the thread is at that.
  class Doing {
   public:
    Doing(Watch* watch, const std::string& what);
    ~Doing();
    Doing(const Doing&) = delete;
    Doing& operator=(const Doing&) = delete;

   private:
    Watch* const watch_;
    std::list<std::pair<std::string, std::chrono::steady_clock::time_point>>::iterator entry_;
  };

  // From now on nothing fails: all that is under way ends, and Settle is called, within `patience`, or the verdict falls.
  void Expect(std::chrono::seconds patience);
  void Settle();

 private:
  std::string UnderWay();

  const Verdict* const verdict_;
  std::mutex mu_;
  std::condition_variable settled_;
  bool expects_ = false;
  std::list<std::pair<std::string, std::chrono::steady_clock::time_point>> doing_;
  std::thread thread_;
};

}  // namespace errors
}  // namespace cairn
