// Walks over a write batch: whoever looks for some of its records overrides what those call, and passes over the rest.

#pragma once

#include "rocksdb/write_batch.h"

namespace cairn {

class BatchHandler : public rocksdb::WriteBatch::Handler {
 public:
  using Slice = rocksdb::Slice;
  using Status = rocksdb::Status;

  Status PutCF(uint32_t, const Slice&, const Slice&) override { return Status::OK(); }
  Status TimedPutCF(uint32_t, const Slice&, const Slice&, uint64_t) override { return Status::OK(); }
  Status PutEntityCF(uint32_t, const Slice&, const Slice&) override { return Status::OK(); }
  Status DeleteCF(uint32_t, const Slice&) override { return Status::OK(); }
  Status SingleDeleteCF(uint32_t, const Slice&) override { return Status::OK(); }
  Status MergeCF(uint32_t, const Slice&, const Slice&) override { return Status::OK(); }
  Status PutBlobIndexCF(uint32_t, const Slice&, const Slice&) override { return Status::OK(); }
  Status DeleteRangeCF(uint32_t, const Slice&, const Slice&) override { return Status::OK(); }
  void LogData(const Slice&) override {}
  Status MarkBeginPrepare(bool) override { return Status::OK(); }
  Status MarkEndPrepare(const Slice&) override { return Status::OK(); }
  Status MarkNoop(bool) override { return Status::OK(); }
  Status MarkRollback(const Slice&) override { return Status::OK(); }
  Status MarkCommit(const Slice&) override { return Status::OK(); }
  Status MarkCommitWithTimestamp(const Slice&, const Slice&) override { return Status::OK(); }
};

}  // namespace cairn
