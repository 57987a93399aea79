// Counts the instructions that a part of a program takes, where neither a processor's counters (most virtual machines)
// nor valgrind (processors that it does not know) can: the program runs as a child, step by step in that part, at some
// 100,000 steps a second.
//
// Linux on x86-64. One thread is counted, the one that runs `program`; system calls count as one instruction.

#pragma once

#include <signal.h>
#include <sys/ptrace.h>
#include <sys/syscall.h>
#include <sys/types.h>
#include <sys/user.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cstddef>
#include <cstdint>
#include <functional>
#include <unordered_map>
#include <vector>

namespace cairn {

// Where counting begins and ends, and between two operations: a signal that only a tracer sees, so that what is not
// counted runs at full speed, and system calls that do nothing.
enum class StepMark : long { kBegin = 1, kEnd = 2, kNext = 3 };
constexpr long kStepMarkWho = 12345;
inline void MarkSteps(StepMark mark) {
  if (mark == StepMark::kBegin) {
    syscall(SYS_tgkill, getpid(), syscall(SYS_gettid), SIGWINCH);
  } else {
    syscall(SYS_getpriority, kStepMarkWho, static_cast<long>(mark));
  }
}

// How often each instruction's address was reached. The child is a fork, so the parent's mappings are its own.
using StepAddresses = std::unordered_map<uint64_t, uint64_t>;

// What the program returns, or -1 if it did not end by itself or cannot be traced. `addresses` may be null, and `each`,
// which gets the steps from each mark to the next.
inline int RunBySteps(const std::function<int()>& program, uint64_t* steps, StepAddresses* addresses = nullptr,
                      std::vector<uint64_t>* each = nullptr) {
  *steps = 0;
#if defined(__x86_64__)
  const pid_t child = fork();
  if (child == 0) {
    if (ptrace(PTRACE_TRACEME, 0, nullptr, nullptr) == 0) raise(SIGSTOP);
    _exit(program());
  }
  const auto word = [child](size_t offset) {
    return ptrace(PTRACE_PEEKUSER, child, reinterpret_cast<void*>(offset), nullptr);
  };
  const auto at_mark = [&word](StepMark mark) {
    return word(offsetof(user_regs_struct, rdi)) == kStepMarkWho &&
           word(offsetof(user_regs_struct, rsi)) == static_cast<long>(mark) &&
           word(offsetof(user_regs_struct, orig_rax)) == SYS_getpriority;
  };
  int status = 0;
  long signal = 0;
  bool counting = false;
  uint64_t marked = 0;
  if (waitpid(child, &status, 0) != child || !WIFSTOPPED(status)) return -1;
  for (;;) {
    ptrace(counting ? PTRACE_SINGLESTEP : PTRACE_CONT, child, nullptr, reinterpret_cast<void*>(signal));
    if (waitpid(child, &status, 0) != child) return -1;
    if (WIFEXITED(status)) return WEXITSTATUS(status);
    if (!WIFSTOPPED(status)) return -1;
    const int stopped_by = WSTOPSIG(status);
    signal = stopped_by == SIGTRAP || stopped_by == SIGWINCH ? 0 : stopped_by;
    if (counting && stopped_by == SIGTRAP) {
      ++*steps;
      if (addresses != nullptr) ++(*addresses)[static_cast<uint64_t>(word(offsetof(user_regs_struct, rip)))];
      counting = !at_mark(StepMark::kEnd);
      if (each != nullptr && (!counting || at_mark(StepMark::kNext))) {
        each->push_back(*steps - marked);
        marked = *steps;
      }
    } else if (stopped_by == SIGWINCH) {
      counting = true;
    }
  }
#else
  static_cast<void>(program);
  return -1;
#endif
}

}  // namespace cairn
