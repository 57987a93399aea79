// The buffer of a direct read, which RandomAccessFileReader fills: until 11.0 it is taken itself, since then with the
// allocator that makes it.
//
// Thread-safety: one thread. The bytes that a read returns lie in it and live as long.

#pragma once

#include "file/random_access_file_reader.h"
#include "rocksdb/port/rocksdb_version.h"

namespace cairn::port {

class DirectReadBuffer {
 public:
  DirectReadBuffer() = default;
  DirectReadBuffer(const DirectReadBuffer&) = delete;
  DirectReadBuffer& operator=(const DirectReadBuffer&) = delete;

#if CAIRN_ROCKSDB_AT_LEAST(11, 0)
  rocksdb::AlignedBufferAllocationContext* get() { return &context_; }

 private:
  rocksdb::AlignedBuffer buffer_;
  rocksdb::AlignedBufferAllocationContext context_{&buffer_, nullptr};
#else
  rocksdb::AlignedBuf* get() { return &buffer_; }

 private:
  rocksdb::AlignedBuf buffer_;
#endif
};

}  // namespace cairn::port
