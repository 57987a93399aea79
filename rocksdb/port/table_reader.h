// Table readers, builders and their iterators: what 9.10 asks of them and what was added since.
//
// A reader, builder or iterator of Cairn derives from the class here; one that wraps RocksDB's passes on to it what it
// does not do itself.

#pragma once

#include "rocksdb/port/rocksdb_version.h"
#include "table/internal_iterator.h"
#include "table/table_builder.h"
#include "table/table_reader.h"

namespace cairn::port {

// Shows sequence numbers and types of entries, too (sst_dump of 11.x).
enum class DumpKeys { kPlain, kWithSequence };
// Which of a table's blocks are verified.
enum class Verified { kAllBlocks, kMetaBlocks };

#if CAIRN_ROCKSDB_AT_LEAST(11, 0)

class TableReader : public rocksdb::TableReader {
 public:
  rocksdb::Status DumpTable(rocksdb::WritableFile* out, bool show_sequence_number_type) final {
    return Dump(out, show_sequence_number_type ? DumpKeys::kWithSequence : DumpKeys::kPlain);
  }
  rocksdb::Status VerifyChecksum(const rocksdb::ReadOptions& read_options, rocksdb::TableReaderCaller caller,
                                 bool meta_blocks_only) final {
    return Verify(read_options, caller, meta_blocks_only ? Verified::kMetaBlocks : Verified::kAllBlocks);
  }

  virtual rocksdb::Status Dump(rocksdb::WritableFile* out, DumpKeys keys) = 0;
  virtual rocksdb::Status Verify(const rocksdb::ReadOptions& read_options, rocksdb::TableReaderCaller caller,
                                 Verified verified) = 0;
};

inline rocksdb::Status Dump(rocksdb::TableReader* reader, rocksdb::WritableFile* out, DumpKeys keys) {
  return reader->DumpTable(out, keys == DumpKeys::kWithSequence);
}
inline rocksdb::Status Verify(rocksdb::TableReader* reader, const rocksdb::ReadOptions& read_options,
                              rocksdb::TableReaderCaller caller, Verified verified) {
  return reader->VerifyChecksum(read_options, caller, verified == Verified::kMetaBlocks);
}

// Passes to another builder what has no meaning of its own here.
class TableBuilderAround : public rocksdb::TableBuilder {
 public:
  uint64_t PreCompressionSize() const override { return inner().PreCompressionSize(); }
  uint64_t EstimatedTailSize() const override { return inner().EstimatedTailSize() + AddedTailSize(); }
  uint64_t GetWorkerCPUMicros() const override { return inner().GetWorkerCPUMicros(); }

 protected:
  virtual const rocksdb::TableBuilder& inner() const = 0;
  // Bytes behind the data blocks that the other builder does not know of.
  virtual uint64_t AddedTailSize() const = 0;
};

#else

class TableReader : public rocksdb::TableReader {
 public:
  rocksdb::Status DumpTable(rocksdb::WritableFile* out) final { return Dump(out, DumpKeys::kPlain); }
  rocksdb::Status VerifyChecksum(const rocksdb::ReadOptions& read_options, rocksdb::TableReaderCaller caller) final {
    return Verify(read_options, caller, Verified::kAllBlocks);
  }

  virtual rocksdb::Status Dump(rocksdb::WritableFile* out, DumpKeys keys) = 0;
  virtual rocksdb::Status Verify(const rocksdb::ReadOptions& read_options, rocksdb::TableReaderCaller caller,
                                 Verified verified) = 0;
};

inline rocksdb::Status Dump(rocksdb::TableReader* reader, rocksdb::WritableFile* out, DumpKeys /*keys*/) {
  return reader->DumpTable(out);
}
inline rocksdb::Status Verify(rocksdb::TableReader* reader, const rocksdb::ReadOptions& read_options,
                              rocksdb::TableReaderCaller caller, Verified /*verified*/) {
  return reader->VerifyChecksum(read_options, caller);
}

class TableBuilderAround : public rocksdb::TableBuilder {
 protected:
  virtual const rocksdb::TableBuilder& inner() const = 0;
  virtual uint64_t AddedTailSize() const = 0;
};

#endif

#if CAIRN_ROCKSDB_AT_LEAST(10, 5)

using ScanRanges = rocksdb::MultiScanArgs;

inline void PrepareScans(rocksdb::InternalIterator* iterator, const ScanRanges* ranges) { iterator->Prepare(ranges); }

// Is told of the ranges that it will be asked for next; null: of none any more.
class TableIterator : public rocksdb::InternalIterator {
 public:
  void Prepare(const ScanRanges* ranges) final { PrepareFor(ranges); }

 protected:
  virtual void PrepareFor(const ScanRanges* ranges) = 0;
};

#else

struct ScanRanges {};

inline void PrepareScans(rocksdb::InternalIterator* /*iterator*/, const ScanRanges* /*ranges*/) {}

class TableIterator : public rocksdb::InternalIterator {
 protected:
  virtual void PrepareFor(const ScanRanges* ranges) = 0;
};

#endif

// The same options for keys in another order.
inline rocksdb::TableReaderOptions InOrder(const rocksdb::TableReaderOptions& options,
                                           const rocksdb::InternalKeyComparator& order) {
#if CAIRN_ROCKSDB_AT_LEAST(11, 0)
  rocksdb::TableReaderOptions same(
      options.ioptions, options.prefix_extractor, options.compression_manager, options.env_options, order,
      options.block_protection_bytes_per_key, options.skip_filters, options.immortal, options.force_direct_prefetch,
      options.level, options.block_cache_tracer, options.max_file_size_for_l0_meta_pin, options.cur_db_session_id,
      options.cur_file_num, options.unique_id, options.largest_seqno, options.tail_size,
      options.user_defined_timestamps_persisted, options.avoid_shared_metadata_cache);
  same.blob_source = options.blob_source;
  return same;
#else
  return rocksdb::TableReaderOptions(
      options.ioptions, options.prefix_extractor, options.env_options, order, options.block_protection_bytes_per_key,
      options.skip_filters, options.immortal, options.force_direct_prefetch, options.level, options.block_cache_tracer,
      options.max_file_size_for_l0_meta_pin, options.cur_db_session_id, options.cur_file_num, options.unique_id,
      options.largest_seqno, options.tail_size, options.user_defined_timestamps_persisted);
#endif
}

// Of a file that belongs to no database.
inline rocksdb::TableReaderOptions OfFileAlone(const rocksdb::ImmutableOptions& options,
                                               const std::shared_ptr<const rocksdb::SliceTransform>& prefix_extractor,
                                               const rocksdb::EnvOptions& env_options,
                                               const rocksdb::InternalKeyComparator& order) {
#if CAIRN_ROCKSDB_AT_LEAST(11, 0)
  return rocksdb::TableReaderOptions(options, prefix_extractor, nullptr, env_options, order, 0, false, false, false, -1,
                                     nullptr, 0, "", 0, {}, rocksdb::kMaxSequenceNumber);
#else
  return rocksdb::TableReaderOptions(options, prefix_extractor, env_options, order, 0, false, false, false, -1, nullptr,
                                     0, "", 0, {}, rocksdb::kMaxSequenceNumber);
#endif
}

}  // namespace cairn::port
