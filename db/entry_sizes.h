// What is too large for a table of any format: it would be logged, and found out when it is flushed, or when it is
// read.
//
// Thread-safety: none; the batch is the caller's.

#pragma once

#include <cstdint>
#include <string>

#include "rocksdb/status.h"
#include "util/batch_handler.h"

namespace cairn {

// Of a key and its value. A block has less than 4 GiB, with the entries before it and its index.
constexpr uint64_t kMostEntryBytes = (uint64_t{1} << 32) - (uint64_t{64} << 20);

// InvalidArgument, if the batch has an entry of more than `most` bytes.
inline rocksdb::Status CheckEntrySizes(const rocksdb::WriteBatch& batch, uint64_t most) {
  class Handler : public BatchHandler {
   public:
    explicit Handler(uint64_t limit) : most_(limit) {}

    Status PutCF(uint32_t, const Slice& key, const Slice& value) override { return Check(key, value); }
    Status TimedPutCF(uint32_t, const Slice& key, const Slice& value, uint64_t) override { return Check(key, value); }
    Status PutEntityCF(uint32_t, const Slice& key, const Slice& entity) override { return Check(key, entity); }
    Status MergeCF(uint32_t, const Slice& key, const Slice& operand) override { return Check(key, operand); }
    Status DeleteCF(uint32_t, const Slice& key) override { return Check(key, Slice()); }
    Status SingleDeleteCF(uint32_t, const Slice& key) override { return Check(key, Slice()); }

   private:
    Status Check(const Slice& key, const Slice& value) const {
      const uint64_t bytes = uint64_t{key.size()} + value.size();
      if (bytes <= most_) return Status::OK();
      return Status::InvalidArgument("a key and its value have " + std::to_string(bytes) + " bytes",
                                     "a table holds at most " + std::to_string(most_) + " of one entry");
    }

    const uint64_t most_;
  };
  Handler handler(most);
  return batch.Iterate(&handler);
}

}  // namespace cairn
