// Answers questions of one HTable.
//
// Thread-safety: as rocksdb::TableReader: any number of threads.

#pragma once

#include <memory>
#include <vector>

#include "rocksdb/port/table_reader.h"
#include "table/hash_order/hash_order.h"
#include "table/table_reader.h"
#include "trie_table/bloom_cluster/bloom_table.h"
#include "trie_table/htable/htable_file.h"

namespace cairn {

class HTableReader : public port::TableReader {
 public:
  // Without a filter every lookup reads a page.
  HTableReader(std::shared_ptr<const HTableFile> file, const KeyHash& hash, std::unique_ptr<TableFilter> filter);

  const HTableFile& file() const { return *file_; }
  const KeyHash& hash() const { return hash_; }
  const TableFilter* filter() const { return filter_.get(); }  // null: there is none

  rocksdb::InternalIterator* NewIterator(const rocksdb::ReadOptions& read_options,
                                         const rocksdb::SliceTransform* prefix_extractor, rocksdb::Arena* arena,
                                         bool skip_filters, rocksdb::TableReaderCaller caller,
                                         size_t compaction_readahead_size, bool allow_unprepared_value) override;
  rocksdb::Status Get(const rocksdb::ReadOptions& read_options, const rocksdb::Slice& key,
                      rocksdb::GetContext* get_context, const rocksdb::SliceTransform* prefix_extractor,
                      bool skip_filters) override;
  void MultiGet(const rocksdb::ReadOptions& read_options, const rocksdb::MultiGetContext::Range* range,
                const rocksdb::SliceTransform* prefix_extractor, bool skip_filters) override;
  // Get of a key that the filter, if there is one, lets pass. `hash` is the key's.
  rocksdb::Status Find(const rocksdb::ReadOptions& read_options, const rocksdb::Slice& internal_key, uint64_t hash,
                       rocksdb::GetContext* get_context) const;
  // MultiGet of keys that the filter lets pass, by their places in the batch.
  void FindBatch(const rocksdb::ReadOptions& read_options, const rocksdb::MultiGetContext::Range& range,
                 const FilterHashes& hashes, uint64_t places) const;

  uint64_t ApproximateOffsetOf(const rocksdb::ReadOptions& read_options, const rocksdb::Slice& key,
                               rocksdb::TableReaderCaller caller) override;
  uint64_t ApproximateSize(const rocksdb::ReadOptions& read_options, const rocksdb::Slice& start,
                           const rocksdb::Slice& end, rocksdb::TableReaderCaller caller) override;
  rocksdb::Status ApproximateKeyAnchors(const rocksdb::ReadOptions& read_options,
                                        std::vector<Anchor>& anchors) override;
  void SetupForCompaction() override {}
  std::shared_ptr<const rocksdb::TableProperties> GetTableProperties() const override { return file_->properties(); }
  size_t ApproximateMemoryUsage() const override {
    return file_->bytes_in_memory() + (filter_ == nullptr ? 0 : filter_->ApproximateMemoryUsage());
  }
  rocksdb::Status Dump(rocksdb::WritableFile* out, port::DumpKeys keys) override;
  rocksdb::Status Verify(const rocksdb::ReadOptions& read_options, rocksdb::TableReaderCaller caller,
                         port::Verified verified) override;

 private:
  // A lookup under way.
  struct Lookup {
    rocksdb::Slice user_key;
    uint64_t seq = 0;
    uint64_t hash = 0;
    HTableIndex::Place place;
    rocksdb::GetContext* get_context = nullptr;
    bool matched = false;  // an entry of the key was found
    bool done = false;     // no more is wanted
  };
  struct PendingRead;

  Lookup StartLookup(const rocksdb::Slice& internal_key, uint64_t hash, rocksdb::GetContext* get_context) const;
  // Lookups that got through a filter and found their key.
  void CountTruePositive(const Lookup& lookup) const;
  UnitPlace HomeOf(const Lookup& lookup) const { return {lookup.place.offset, file_->index().bucket_size()}; }
  // Looks into extents and spill buckets. *home: the home bucket remains to be asked.
  rocksdb::Status SearchElsewhere(const rocksdb::ReadOptions& read_options, Lookup* lookup, bool* home) const;
  rocksdb::Status SearchAt(const rocksdb::ReadOptions& read_options, const UnitPlace& place, Lookup* lookup) const;
  rocksdb::Status SearchUnit(UnitRef unit, Lookup* lookup) const;
  // In the extents [first, last), all of the lookup's hash: reads a logarithm of them.
  rocksdb::Status SearchExtents(const rocksdb::ReadOptions& read_options, uint32_t first, uint32_t last,
                                Lookup* lookup) const;
  // *past: it has entries of keys behind the lookup's.
  rocksdb::Status SearchExtent(UnitRef unit, Lookup* lookup, bool* past) const;
  rocksdb::Status ReadUnit(const rocksdb::ReadOptions& read_options, const UnitPlace& place, const Lookup& lookup,
                           UnitRef* unit) const;
  // Hands an entry that the lookup sees on to whoever asked. A null pinner: who wants the value keeps a copy.
  rocksdb::Status Offer(const UnitEntry& entry, Lookup* lookup, rocksdb::Cleanable* pinner) const;
  // Whether an entry comes before what the lookup sees of its key. Both have one hash.
  bool IsBefore(const UnitView& view, uint32_t i, const Lookup& lookup) const;
  uint64_t SeqOf(const UnitEntry& entry) const {
    return file_->global_seqno() == rocksdb::kDisableGlobalSequenceNumber ? entry.seq : file_->global_seqno();
  }
  void ReadTogether(const rocksdb::ReadOptions& read_options, std::vector<PendingRead>* reads) const;
  // Looks up what has been read ahead for this thread's batch, and takes it out of *reads.
  void SearchReadAhead(const rocksdb::ReadOptions& read_options, std::vector<PendingRead>* reads) const;

  const std::shared_ptr<const HTableFile> file_;
  const KeyHash hash_;
  const std::unique_ptr<TableFilter> filter_;
};

}  // namespace cairn
