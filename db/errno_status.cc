// Which errors of system calls RocksDB's file system takes for what may pass: the definition that takes the place of its own
// (rocksdb/port/rocksdb_own.h).

#include <cerrno>
#include <string>

#include "env/io_posix.h"
#include "rocksdb/port/rocksdb_own.h"

extern "C" {
extern const int cairn_errno_status;
const int cairn_errno_status = 1;
}

namespace rocksdb {

// To RocksDB all but ENOSPC are fatal where they hit a write, a flush or the MANIFEST: DB::Resume is refused, and only another
// opening helps. Here a quota that is used up is a full disk; too few file descriptors or too little memory, and a file system
// that was mounted read-only, are tried again until there are more, or it can be written.
IOStatus IOError(const std::string& context, const std::string& path, int number) {
  IOStatus s = cairn::rocksdb_own::StatusOfErrno(context, path, number);
  switch (number) {
    case EDQUOT:
      s = IOStatus::NoSpace(s.getState());
      [[fallthrough]];
    case EMFILE:
    case ENFILE:
    case ENOMEM:
    case EROFS:
      s.SetRetryable(true);
      break;
    default:
      break;
  }
  return s;
}

}  // namespace rocksdb
