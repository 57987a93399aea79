// The reader of an ordered table, for a lookup or an iterator that has chosen the table and asks its filters and its
// blocks one by one.
//
// Thread-safety: as rocksdb::TableReader: any number of threads may read at once.

#pragma once

#include <memory>

#include "table/cached.h"
#include "table/get_context.h"
#include "table/multiget_context.h"
#include "table/ordered/bloom_lines.h"
#include "table/ordered/order_filter.h"
#include "table/ordered/ordered_seeks.h"
#include "table/wrapped_table_reader.h"

namespace cairn {

class BlockSource;
class OrderedIterator;

class OrderedTableProbe : public WrappedTableReader {
 public:
  using WrappedTableReader::WrappedTableReader;

  // Null: it is none, or null.
  static const OrderedTableProbe* Of(const rocksdb::TableReader* reader);

  // Whether its keys are in bytewise order and entries are all that there is of a key: no range deletion is.
  bool has_entries_only() const { return has_entries_only_; }
  // Whether its data blocks are read where they lie in a mapped file.
  bool has_mapped_blocks() const { return has_mapped_blocks_; }
  // None, or RocksDB's Bloom filter.
  const BloomLines& bloom() const { return bloom_; }
  // Of all tables of a factory.
  OrderedSeeks* seeks() const { return seeks_.get(); }

  // Its data blocks.
  virtual const BlockSource& blocks() const = 0;
  // Whether lookups are traced, which RocksDB does.
  virtual bool IsTraced() const = 0;
  // What RocksDB's filter says of an internal key where there is no bloom(); counts as it does.
  virtual bool PointFilterSaysMaybe(const rocksdb::ReadOptions& read_options, const rocksdb::Slice& key) const = 0;
  // What the order filter says.
  virtual bool OrderSaysMaybe(const rocksdb::ReadOptions& read_options, const rocksdb::Slice& user_key) const = 0;
  // The same of a batch; they leave out the keys that they exclude. A filter in the block cache is looked up once.
  virtual void AskPointFilter(const rocksdb::ReadOptions& read_options,
                              rocksdb::MultiGetContext::Range* range) const = 0;
  virtual void AskOrder(const rocksdb::ReadOptions& read_options, rocksdb::MultiGetContext::Range* range) const = 0;
  // The order filter; empty if there is none that can be asked.
  virtual Cached<OrderFilter> Order(const rocksdb::ReadOptions& read_options) const = 0;
  // An iterator that is nowhere yet, at `place`, which has room for one. `read_options` outlives it.
  virtual OrderedIterator* NewScan(const rocksdb::ReadOptions& read_options,
                                   const rocksdb::SliceTransform* prefix_extractor, void* place) const = 0;
  // Get of an internal key that the filters let pass.
  virtual rocksdb::Status Find(const rocksdb::ReadOptions& read_options, const rocksdb::Slice& key,
                               rocksdb::GetContext* get_context,
                               const rocksdb::SliceTransform* prefix_extractor) const = 0;
  // MultiGet of keys that the filters let pass.
  virtual void FindBatch(const rocksdb::ReadOptions& read_options, const rocksdb::MultiGetContext::Range& range,
                         const rocksdb::SliceTransform* prefix_extractor) const = 0;

 protected:
  bool has_entries_only_ = false;
  bool has_mapped_blocks_ = false;
  BloomLines bloom_;
  std::shared_ptr<OrderedSeeks> seeks_;
};

}  // namespace cairn
