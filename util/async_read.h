// Reads at several places of several files, under way together.
//
// Thread-safety: each call is its thread's own.

#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <vector>

#include "file/random_access_file_reader.h"
#include "rocksdb/file_system.h"
#include "rocksdb/options.h"

namespace cairn {

class AsyncRead {
 public:
  AsyncRead(std::shared_ptr<rocksdb::RandomAccessFileReader> file, uint64_t offset, size_t size);
  ~AsyncRead();
  AsyncRead(const AsyncRead&) = delete;
  AsyncRead& operator=(const AsyncRead&) = delete;

  // All bytes have been read; otherwise the bytes are undefined.
  bool complete() const { return complete_; }
  size_t size() const { return size_; }
  // At an address as direct I/O wants it.
  const char* bytes() const { return bytes_; }

 private:
  friend bool ReadTogether(rocksdb::FileSystem*, const rocksdb::ReadOptions&, std::vector<std::unique_ptr<AsyncRead>>*);

  bool Start(const rocksdb::ReadOptions& read_options);
  // Lets go of all but the bytes. REQUIRES: the read is over.
  void Finish();
  static void Done(rocksdb::FSReadRequest& request, void* arg);

  std::shared_ptr<rocksdb::RandomAccessFileReader> file_;
  const uint64_t offset_;
  const size_t size_;
  char* const bytes_;
  void* handle_ = nullptr;
  rocksdb::IOHandleDeleter delete_handle_;
  bool complete_ = false;
};

// Whether ReadTogether is of use for the file: it is read directly, and the file system reads asynchronously. RocksDB's
// does where there is io_uring and the program defines RocksDbIOUringEnable.
bool CanReadTogether(rocksdb::FileSystem* fs, const rocksdb::RandomAccessFileReader& file,
                     const rocksdb::ReadOptions& read_options);

// Starts all reads and waits for them. False: the file system cannot say whether they are over, and *reads is empty.
bool ReadTogether(rocksdb::FileSystem* fs, const rocksdb::ReadOptions& read_options,
                  std::vector<std::unique_ptr<AsyncRead>>* reads);

}  // namespace cairn
