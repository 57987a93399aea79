// A file system below a test that controls and counts reads.

#pragma once

#include <cstring>
#include <memory>
#include <string>
#include <utility>

#include "rocksdb/file_system.h"

namespace cairn {

// What a file of a test's own derives from. Control: the test's orders and counts; outlives the file.
template <typename Control>
class ControlledFile : public rocksdb::FSRandomAccessFileOwnerWrapper {
 public:
  ControlledFile(std::unique_ptr<rocksdb::FSRandomAccessFile>&& file, Control* control)
      : FSRandomAccessFileOwnerWrapper(std::move(file)), control_(control) {}

 protected:
  // Reads into `scratch` also what the file below has in memory of its own, so that a test may change the bytes.
  rocksdb::IOStatus ReadIntoScratch(uint64_t offset, size_t n, const rocksdb::IOOptions& options,
                                    rocksdb::Slice* result, char* scratch, rocksdb::IODebugContext* dbg) const {
    rocksdb::IOStatus s = target()->Read(offset, n, options, result, scratch, dbg);
    if (result->data() != scratch) {
      memcpy(scratch, result->data(), result->size());
      *result = rocksdb::Slice(scratch, result->size());
    }
    return s;
  }

  Control* const control_;
};

// Opens files for reading as File, a ControlledFile<Control>.
template <typename File, typename Control>
class ControlledFileSystem : public rocksdb::FileSystemWrapper {
 public:
  ControlledFileSystem(const std::shared_ptr<rocksdb::FileSystem>& base, Control* control)
      : FileSystemWrapper(base), control_(control) {}
  const char* Name() const override { return "ControlledFileSystem"; }

  rocksdb::IOStatus NewRandomAccessFile(const std::string& name, const rocksdb::FileOptions& options,
                                        std::unique_ptr<rocksdb::FSRandomAccessFile>* result,
                                        rocksdb::IODebugContext* dbg) override {
    std::unique_ptr<rocksdb::FSRandomAccessFile> file;
    rocksdb::IOStatus s = target()->NewRandomAccessFile(name, options, &file, dbg);
    if (s.ok()) *result = std::make_unique<File>(std::move(file), control_);
    return s;
  }

 protected:
  Control* const control_;
};

}  // namespace cairn
