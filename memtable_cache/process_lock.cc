#include "memtable_cache/process_lock.h"

#include <fcntl.h>
#include <pthread.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <set>

#include "util/mutex.h"
#include "util/rocksdb_names.h"

namespace cairn {

// Those of the process. Held over a fork, so that the child finds the set whole.
struct ProcessLocks {
  static ProcessLocks& All() {
    static auto* const all = new ProcessLocks();
    return *all;
  }

  CheckedMutex mutex;
  std::set<ProcessLock*> locks CAIRN_GUARDED_BY(mutex);

 private:
  ProcessLocks() {
    pthread_atfork([]() CAIRN_NO_THREAD_SAFETY_ANALYSIS { All().mutex.Lock(); },
                   []() CAIRN_NO_THREAD_SAFETY_ANALYSIS { All().mutex.Unlock(); },
                   []() CAIRN_NO_THREAD_SAFETY_ANALYSIS {
                     for (ProcessLock* lock : All().locks) {
                       if (lock->fd_ >= 0) close(lock->fd_);
                       lock->fd_ = -1;
                     }
                     All().mutex.Unlock();
                   });
  }
};

ProcessLock::ProcessLock() {
  ProcessLocks& all = ProcessLocks::All();
  const MutexLock lock(&all.mutex);
  all.locks.insert(this);
}

ProcessLock::~ProcessLock() {
  ProcessLocks& all = ProcessLocks::All();
  const MutexLock lock(&all.mutex);
  all.locks.erase(this);
  if (fd_ < 0) return;
  // Closing alone would leave the lock to a child that was just made and has not closed its descriptor yet.
  flock(fd_, LOCK_UN);
  close(fd_);
}

Status ProcessLock::Acquire(const std::string& path, Kind kind) {
  {
    const MutexLock lock(&ProcessLocks::All().mutex);
    fd_ = open(path.c_str(), O_RDONLY | O_CLOEXEC);
    if (fd_ < 0) return Status::IOError("open " + path, strerror(errno));
  }
  const Status busy = Status::Busy(path, "is in use by another process or database");
  constexpr int kAttempts = 1000;
  for (int i = 0; flock(fd_, (kind == Kind::kShared ? LOCK_SH : LOCK_EX) | LOCK_NB) != 0; ++i) {
    if (errno != EWOULDBLOCK) return Status::IOError("lock " + path, strerror(errno));
    // Who can share the lock knows that only readers have it, and waits for them.
    if (kind == Kind::kShared || i == kAttempts || flock(fd_, LOCK_SH | LOCK_NB) != 0) return busy;
    flock(fd_, LOCK_UN);
    usleep(10000);
  }
  return Status::OK();
}

bool ProcessLock::IsOn(int fd) const {
  struct stat locked = {};
  struct stat other = {};
  return fstat(fd_, &locked) == 0 && fstat(fd, &other) == 0 && locked.st_dev == other.st_dev &&
         locked.st_ino == other.st_ino;
}

Status CannotLock(const std::string& path, const Status& s) {
  const std::string text = s.ToString();
  const bool elsewhere = text.find(strerror(EAGAIN)) != std::string::npos;
  const bool here = text.find("lock hold") != std::string::npos;
  if (!elsewhere && !here) return s;
  return Status::Busy(path,
                      std::string("is open in ") + (here ? "this" : "another") + " process; close it there first");
}

}  // namespace cairn
