#include "util/mapped_blocks.h"

#include <linux/fs.h>
#include <sys/ioctl.h>
#include <sys/vfs.h>

namespace cairn {

namespace {

// These write a block anew elsewhere each time, unless told otherwise.
constexpr long kBtrfsMagic = static_cast<long>(0x9123683E);
constexpr long kZfsMagic = 0x2fc12fc1;
constexpr long kBcachefsMagic = static_cast<long>(0xca451a4e);
constexpr long kNilfsMagic = 0x3434;

}  // namespace

long FileSystemOf(int fd) {
  struct statfs facts = {};
  return fstatfs(fd, &facts) == 0 ? static_cast<long>(facts.f_type) : 0;
}

bool WritesBlocksInPlace(int fd) {
  const long type = FileSystemOf(fd);
  int flags = 0;
  if (type == kBtrfsMagic && ioctl(fd, FS_IOC_GETFLAGS, &flags) == 0 && (flags & FS_NOCOW_FL) != 0) return true;
  return type != kBtrfsMagic && type != kZfsMagic && type != kBcachefsMagic && type != kNilfsMagic;
}

void AskToWriteBlocksInPlace(int fd) {
  int flags = 0;
  if (FileSystemOf(fd) != kBtrfsMagic || ioctl(fd, FS_IOC_GETFLAGS, &flags) != 0) return;
  flags |= FS_NOCOW_FL;
  ioctl(fd, FS_IOC_SETFLAGS, &flags);
}

}  // namespace cairn
