// Loaded before a test program (LD_PRELOAD), has it meet a machine that is busy at the worst moments: each thread begins
// CAIRN_LATE milliseconds after it was created, and who sleeps for some tenths of a second, so that other threads get ahead, does
// not sleep at all. Shorter sleeps are those of loops that look again. A test that needs either fails.
//
// Thread-safety: safe.

#include <dlfcn.h>
#include <pthread.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <cerrno>
#include <cstdlib>
#include <ctime>
#include <memory>

namespace {

constexpr long kMillis = 1000000;  // in nanoseconds

struct Begin {
  void* (*function)(void*);
  void* argument;
};

bool WaitsForOthers(const timespec& time) {
  const long millis = time.tv_sec * 1000 + time.tv_nsec / kMillis;
  return millis >= 50 && millis <= 1500;
}

void* BeginLate(void* pointer) {
  const std::unique_ptr<Begin> begin(static_cast<Begin*>(pointer));
  const char* const late = std::getenv("CAIRN_LATE");
  const long millis = late == nullptr ? 0 : std::atol(late);
  const timespec time{millis / 1000, millis % 1000 * kMillis};
  syscall(SYS_nanosleep, &time, nullptr);
  return begin->function(begin->argument);
}

}  // namespace

extern "C" {

int pthread_create(pthread_t* thread, const pthread_attr_t* attributes, void* (*function)(void*), void* argument) {
  using Create = int (*)(pthread_t*, const pthread_attr_t*, void* (*)(void*), void*);
  static const auto create = reinterpret_cast<Create>(dlsym(RTLD_NEXT, "pthread_create"));
  auto begin = std::make_unique<Begin>(Begin{function, argument});
  const int error = create(thread, attributes, BeginLate, begin.get());
  if (error == 0) static_cast<void>(begin.release());  // the thread's
  return error;
}

int nanosleep(const timespec* time, timespec* left) {
  if (WaitsForOthers(*time)) return 0;
  return static_cast<int>(syscall(SYS_nanosleep, time, left));
}

int clock_nanosleep(clockid_t clock, int flags, const timespec* time, timespec* left) {
  if (flags == 0 && WaitsForOthers(*time)) return 0;
  return syscall(SYS_clock_nanosleep, clock, flags, time, left) == 0 ? 0 : errno;
}

}  // extern "C"
