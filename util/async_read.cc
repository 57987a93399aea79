#include "util/async_read.h"

#include <cstring>
#include <new>
#include <utility>

#include "file/file_util.h"
#include "monitoring/perf_context_imp.h"

namespace cairn {

// What RocksDB's macros for its counters refer to.
using rocksdb::perf_context;
using rocksdb::PerfStepTimer;

using rocksdb::FSReadRequest;
using rocksdb::IOStatus;

namespace {

constexpr std::align_val_t kAlignment{4096};

}  // namespace

AsyncRead::AsyncRead(std::shared_ptr<rocksdb::RandomAccessFileReader> file, uint64_t offset, size_t size)
    : file_(std::move(file)),
      offset_(offset),
      size_(size),
      bytes_(static_cast<char*>(::operator new(size, kAlignment))) {}

AsyncRead::~AsyncRead() {
  Finish();
  ::operator delete(bytes_, kAlignment);
}

void AsyncRead::Finish() {
  if (handle_ != nullptr && delete_handle_ != nullptr) delete_handle_(handle_);
  handle_ = nullptr;
  file_.reset();
}

// False: the file system cannot say whether the read goes on.
bool AsyncRead::Start(const rocksdb::ReadOptions& read_options) {
  rocksdb::IOOptions io_options;
  IOStatus s = file_->PrepareIOOptions(read_options, io_options);
  if (!s.ok()) return true;
  FSReadRequest request;
  request.offset = offset_;
  request.len = size_;
  request.scratch = bytes_;
  s = file_->ReadAsync(request, io_options, &AsyncRead::Done, this, &handle_, &delete_handle_, nullptr);
  request.status.PermitUncheckedError();
  return s.ok() || handle_ == nullptr;
}

void AsyncRead::Done(FSReadRequest& request, void* arg) {
  AsyncRead* const read = static_cast<AsyncRead*>(arg);
  read->complete_ = request.status.ok() && request.result.size() == read->size_;
  if (read->complete_ && request.result.data() != read->bytes_) {
    memcpy(read->bytes_, request.result.data(), request.result.size());
  }
}

bool CanReadTogether(rocksdb::FileSystem* fs, const rocksdb::RandomAccessFileReader& file,
                     const rocksdb::ReadOptions& read_options) {
  return file.use_direct_io() && read_options.rate_limiter_priority == rocksdb::Env::IO_TOTAL &&
         rocksdb::CheckFSFeatureSupport(fs, rocksdb::FSSupportedOps::kAsyncIO);
}

bool ReadTogether(rocksdb::FileSystem* fs, const rocksdb::ReadOptions& read_options,
                  std::vector<std::unique_ptr<AsyncRead>>* reads) {
  PERF_TIMER_GUARD(block_read_time);
  std::vector<void*> handles;
  bool certain = true;
  for (const auto& read : *reads) {
    certain = read->Start(read_options);
    if (read->handle_ != nullptr) handles.push_back(read->handle_);
    if (!certain) break;
  }
  bool over = handles.empty() || fs->Poll(handles, handles.size()).ok();
  if (!over) over = fs->AbortIO(handles).ok();
  if (over && certain) {
    for (const auto& read : *reads) read->Finish();
    return true;
  }
  // Somebody may still write there: better to lose the memory.
  for (auto& read : *reads) static_cast<void>(read.release());
  reads->clear();
  return false;
}

}  // namespace cairn
