// A file system as the library sees it: fstatfs tells the type that the test has set. One source of a program includes
// it.

#pragma once

#include <sys/syscall.h>
#include <sys/vfs.h>
#include <unistd.h>

#include <atomic>

namespace cairn::test {

// Of statfs::f_type; 0: the true one.
inline std::atomic<long> file_system_type{0};

}  // namespace cairn::test

extern "C" int fstatfs(int fd, struct statfs* facts) {
  const int result = static_cast<int>(syscall(SYS_fstatfs, fd, facts));
  if (cairn::test::file_system_type != 0) facts->f_type = cairn::test::file_system_type;
  return result;
}
