// What begins on a thread of its own, and has come to where it waits for others: so that a test may go on, however busy the
// machine is, when nobody can be asked whether it is there.

#pragma once

#include <sys/syscall.h>
#include <unistd.h>

#include <atomic>
#include <chrono>
#include <cstdint>
#include <fstream>
#include <future>
#include <memory>
#include <string>
#include <utility>

#include "gtest/gtest.h"
#include "rocksdb/status.h"
#include "test/testutil/await.h"

namespace cairn {
namespace test {

using Thread = long;  // as the kernel numbers them

struct ThreadState {
  bool sleeps = false;
  uint64_t switches = 0;  // to other threads, so far
};

// Of a thread of this process; of one that has ended, that it sleeps.
inline ThreadState StateOf(Thread thread) {
  std::ifstream file("/proc/self/task/" + std::to_string(thread) + "/status");
  ThreadState state{!file, 0};
  std::string word;
  while (file >> word) {
    if (word == "State:") {
      file >> word;
      state.sleeps = word == "S";
    } else if (word == "voluntary_ctxt_switches:" || word == "nonvoluntary_ctxt_switches:") {
      uint64_t switches = 0;
      file >> switches;
      state.switches += switches;
    }
  }
  return state;
}

// One that waits for a mutex that is soon free is not taken for one that waits for others, even when who has the mutex has lost
// its core to a busy machine.
inline bool AwaitThatItWaits(Thread thread) {
  constexpr int kTimes = 20;  // in a fifth of a second
  int slept = 0;
  uint64_t switches = 0;
  return Await([&] {
    const ThreadState state = StateOf(thread);
    slept = state.sleeps && state.switches == switches ? slept + 1 : 0;
    switches = state.switches;
    return slept >= kTimes;
  });
}

// Returns when `function` waits for others. REQUIRES: somebody holds it; the test fails if it has ended.
template <typename Function>
std::future<rocksdb::Status> BeginUntilItWaits(Function function) {
  const auto thread = std::make_shared<std::atomic<Thread>>(0);
  std::future<rocksdb::Status> done = std::async(std::launch::async, [thread, function = std::move(function)] {
    *thread = syscall(SYS_gettid);
    return rocksdb::Status(function());
  });
  EXPECT_TRUE(Await([&] { return *thread != 0; }) && AwaitThatItWaits(*thread)) << "it goes on without end";
  EXPECT_EQ(done.wait_for(std::chrono::seconds(0)), std::future_status::timeout) << "it has not waited";
  return done;
}

}  // namespace test
}  // namespace cairn
