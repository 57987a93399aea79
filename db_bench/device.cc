#include "db_bench/device.h"

#include <fcntl.h>
#include <liburing.h>
#include <sys/uio.h>
#include <unistd.h>

#include <chrono>
#include <cstdlib>
#include <filesystem>
#include <vector>

#include "db_bench/keys.h"
#include "db_bench/measure.h"
#include "util/rocksdb_names.h"

namespace cairn::bench {

namespace {

constexpr size_t kReadBytes = 4096;

using Clock = std::chrono::steady_clock;

std::string LargestFile(const std::string& folder) {
  std::string largest;
  uintmax_t most = 0;
  std::error_code error;
  for (const auto& entry : std::filesystem::directory_iterator(folder, error)) {
    if (!entry.is_regular_file(error) || entry.file_size(error) <= most) continue;
    most = entry.file_size(error);
    largest = entry.path();
  }
  return largest;
}

class Reads {
 public:
  ~Reads() {
    if (ring_open_) io_uring_queue_exit(&ring_);
    free(buffers_);
    if (fd_ >= 0) close(fd_);
  }

  Status Open(const std::string& file, unsigned depth) {
    fd_ = open(file.c_str(), O_RDONLY | O_DIRECT | O_CLOEXEC);
    if (fd_ < 0) return Status::IOError("cannot be read past the page cache", file);
    pages_ = static_cast<uint64_t>(lseek(fd_, 0, SEEK_END)) / kReadBytes;
    if (pages_ == 0) return Status::IOError("has no page to read", file);
    ring_open_ = io_uring_queue_init(depth, &ring_, 0) == 0;
    if (!ring_open_) return Status::NotSupported("this kernel lets nobody use io_uring");
    buffers_ = static_cast<char*>(aligned_alloc(kReadBytes, kReadBytes * depth));
    return buffers_ == nullptr ? Status::MemoryLimit() : Status::OK();
  }

  // False: no read could be given to the kernel.
  bool Submit(unsigned buffer) {
    io_uring_sqe* const entry = io_uring_get_sqe(&ring_);
    if (entry == nullptr) return false;
    io_uring_prep_read(entry, fd_, buffers_ + buffer * kReadBytes, kReadBytes, random_.Uniform(pages_) * kReadBytes);
    entry->user_data = buffer;
    return true;
  }

  // Waits for at least one. False: one has failed.
  bool Await(std::vector<unsigned>* done) {
    if (io_uring_submit_and_wait(&ring_, 1) < 0) return false;
    io_uring_cqe* entry = nullptr;
    while (io_uring_peek_cqe(&ring_, &entry) == 0) {
      if (entry->res != static_cast<int>(kReadBytes)) return false;
      done->push_back(static_cast<unsigned>(entry->user_data));
      io_uring_cqe_seen(&ring_, entry);
    }
    return true;
  }

 private:
  int fd_ = -1;
  uint64_t pages_ = 0;
  bool ring_open_ = false;
  io_uring ring_;
  char* buffers_ = nullptr;
  Random64 random_{1};
};

}  // namespace

Status MeasureDevice(const std::string& folder, unsigned depth, double seconds, DeviceRate* rate) {
  const std::string file = LargestFile(folder);
  Reads reads;
  Status s = reads.Open(file, depth);
  if (!s.ok()) return s;
  std::vector<unsigned> free;
  for (unsigned i = 0; i < depth; ++i) free.push_back(i);
  uint64_t done = 0;
  double passed = 0;
  const Clock::time_point start = Clock::now();
  const double cpu = ReadCpu().thread;
  while (passed < seconds) {
    for (const unsigned buffer : free) {
      if (!reads.Submit(buffer)) return Status::IOError("io_uring takes no read of", file);
    }
    free.clear();
    if (!reads.Await(&free)) return Status::IOError("cannot be read", file);
    done += free.size();
    passed = std::chrono::duration<double>(Clock::now() - start).count();
  }
  rate->reads_per_second = static_cast<double>(done) / passed;
  rate->cpu_micros = 1e6 * (ReadCpu().thread - cpu) / static_cast<double>(done);
  return s;
}

}  // namespace cairn::bench
