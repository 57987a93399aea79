// Preloaded into a program on a machine with pages of 4 KiB, it makes them 64 KiB, as kernels of arm64 may have them:
// the C library says so, mappings begin and end there, and a call that such a kernel refuses is refused, and told on
// stderr.
//
// Memory that the C library maps for itself is as it is.

#define _GNU_SOURCE
#include <errno.h>
#include <stdarg.h>
#include <stdint.h>
#include <stdio.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <unistd.h>

enum { kPage = 65536 };

// Not syscall(), which is replaced below.
static long Call(long number, long a, long b, long c, long d, long e, long f) {
  register long r10 __asm__("r10") = d;
  register long r8 __asm__("r8") = e;
  register long r9 __asm__("r9") = f;
  long result;
  __asm__ volatile("syscall" : "=a"(result) : "a"(number), "D"(a), "S"(b), "d"(c), "r"(r10), "r"(r8), "r"(r9) : "rcx", "r11", "memory");
  if (result < 0 && result > -4096) {
    errno = (int)-result;
    return -1;
  }
  return result;
}

static size_t Whole(size_t bytes) { return (bytes + kPage - 1) / kPage * kPage; }

static int Refuse(const char* what, const void* at, size_t bytes) {
  char line[128];
  const int size = snprintf(line, sizeof(line), "large_pages: %s at %p of %zu bytes is refused\n", what, at, bytes);
  Call(SYS_write, 2, (long)line, size, 0, 0, 0);
  errno = EINVAL;
  return -1;
}

static int Splits(const void* at) { return (uintptr_t)at % kPage != 0; }

void* mmap(void* at, size_t bytes, int protection, int flags, int fd, off_t offset) {
  if (offset % kPage != 0 || ((flags & MAP_FIXED) != 0 && Splits(at))) {
    Refuse("mmap", at, bytes);
    return MAP_FAILED;
  }
  if (bytes == 0) return (void*)Call(SYS_mmap, (long)at, 0, protection, flags, fd, offset);
  bytes = Whole(bytes);
  if ((flags & MAP_FIXED) == 0) {
    const long reserved = Call(SYS_mmap, 0, (long)(bytes + kPage), PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    if (reserved == -1) return MAP_FAILED;
    const long begin = (long)Whole((size_t)reserved);
    if (begin > reserved) Call(SYS_munmap, reserved, begin - reserved, 0, 0, 0, 0);
    Call(SYS_munmap, begin + (long)bytes, reserved + kPage - begin, 0, 0, 0, 0);
    const long mapped = Call(SYS_mmap, begin, (long)bytes, protection, flags | MAP_FIXED, fd, offset);
    if (mapped == -1) {
      const int why = errno;
      Call(SYS_munmap, begin, (long)bytes, 0, 0, 0, 0);
      errno = why;
    }
    return (void*)mapped;
  }
  return (void*)Call(SYS_mmap, (long)at, (long)bytes, protection, flags, fd, offset);
}
void* mmap64(void* at, size_t bytes, int protection, int flags, int fd, off_t offset) {
  return mmap(at, bytes, protection, flags, fd, offset);
}

int munmap(void* at, size_t bytes) {
  return Splits(at) ? Refuse("munmap", at, bytes) : (int)Call(SYS_munmap, (long)at, (long)Whole(bytes), 0, 0, 0, 0);
}
int mprotect(void* at, size_t bytes, int protection) {
  return Splits(at) ? Refuse("mprotect", at, bytes) : (int)Call(SYS_mprotect, (long)at, (long)Whole(bytes), protection, 0, 0, 0);
}
int madvise(void* at, size_t bytes, int advice) {
  return Splits(at) ? Refuse("madvise", at, bytes) : (int)Call(SYS_madvise, (long)at, (long)Whole(bytes), advice, 0, 0, 0);
}
int msync(void* at, size_t bytes, int flags) {
  return Splits(at) ? Refuse("msync", at, bytes) : (int)Call(SYS_msync, (long)at, (long)Whole(bytes), flags, 0, 0, 0);
}

int getpagesize(void) { return kPage; }
long sysconf(int name) {
  extern long __sysconf(int);
  return name == _SC_PAGESIZE ? kPage : __sysconf(name);
}

long syscall(long number, ...) {
  va_list list;
  va_start(list, number);
  long a[6];
  for (int i = 0; i < 6; ++i) a[i] = va_arg(list, long);
  va_end(list);
  if (number == SYS_mmap) return (long)mmap((void*)a[0], (size_t)a[1], (int)a[2], (int)a[3], (int)a[4], a[5]);
  return Call(number, a[0], a[1], a[2], a[3], a[4], a[5]);
}
