// A table reader that has RocksDB's do all that it does not do itself.
//
// Thread-safety: as rocksdb::TableReader.

#pragma once

#include <memory>
#include <utility>
#include <vector>

#include "rocksdb/port/table_reader.h"

namespace cairn {

class WrappedTableReader : public port::TableReader {
 public:
  explicit WrappedTableReader(std::unique_ptr<rocksdb::TableReader> inner) : inner_(std::move(inner)) {}

  rocksdb::InternalIterator* NewIterator(const rocksdb::ReadOptions& read_options,
                                         const rocksdb::SliceTransform* prefix_extractor, rocksdb::Arena* arena,
                                         bool skip_filters, rocksdb::TableReaderCaller caller,
                                         size_t compaction_readahead_size, bool allow_unprepared_value) override {
    return inner_->NewIterator(read_options, prefix_extractor, arena, skip_filters, caller, compaction_readahead_size,
                               allow_unprepared_value);
  }
  rocksdb::FragmentedRangeTombstoneIterator* NewRangeTombstoneIterator(
      const rocksdb::ReadOptions& read_options) override {
    return inner_->NewRangeTombstoneIterator(read_options);
  }
  rocksdb::FragmentedRangeTombstoneIterator* NewRangeTombstoneIterator(rocksdb::SequenceNumber read_seqno,
                                                                       const rocksdb::Slice* timestamp) override {
    return inner_->NewRangeTombstoneIterator(read_seqno, timestamp);
  }
  rocksdb::Status Prefetch(const rocksdb::ReadOptions& read_options, const rocksdb::Slice* begin,
                           const rocksdb::Slice* end) override {
    return inner_->Prefetch(read_options, begin, end);
  }
  uint64_t ApproximateOffsetOf(const rocksdb::ReadOptions& read_options, const rocksdb::Slice& key,
                               rocksdb::TableReaderCaller caller) override {
    return inner_->ApproximateOffsetOf(read_options, key, caller);
  }
  uint64_t ApproximateSize(const rocksdb::ReadOptions& read_options, const rocksdb::Slice& start,
                           const rocksdb::Slice& end, rocksdb::TableReaderCaller caller) override {
    return inner_->ApproximateSize(read_options, start, end, caller);
  }
  rocksdb::Status ApproximateKeyAnchors(const rocksdb::ReadOptions& read_options,
                                        std::vector<Anchor>& anchors) override {
    return inner_->ApproximateKeyAnchors(read_options, anchors);
  }
  void SetupForCompaction() override { inner_->SetupForCompaction(); }
  std::shared_ptr<const rocksdb::TableProperties> GetTableProperties() const override {
    return inner_->GetTableProperties();
  }
  rocksdb::Status Dump(rocksdb::WritableFile* out, port::DumpKeys keys) override {
    return port::Dump(inner(), out, keys);
  }
  rocksdb::Status Verify(const rocksdb::ReadOptions& read_options, rocksdb::TableReaderCaller caller,
                         port::Verified verified) override {
    return port::Verify(inner(), read_options, caller, verified);
  }
  void MarkObsolete(uint32_t uncache_aggressiveness) override { inner_->MarkObsolete(uncache_aggressiveness); }

 protected:
  rocksdb::TableReader* inner() const { return inner_.get(); }

 private:
  const std::unique_ptr<rocksdb::TableReader> inner_;
};

}  // namespace cairn
