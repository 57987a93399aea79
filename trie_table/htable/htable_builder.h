// Writes an HTable. Entries arrive in the order of the table's comparator; one group at a time is held in memory, and
// all of them while a dictionary is being trained.
//
// Thread-safety: as rocksdb::TableBuilder.

#pragma once

#include <memory>
#include <string>
#include <unordered_map>
#include <vector>

#include "cairn/htable.h"
#include "file/writable_file_writer.h"
#include "table/hash_order/hash_order.h"
#include "table/meta_blocks.h"
#include "table/table_builder.h"
#include "trie_table/bloom_cluster/bloom_table.h"
#include "trie_table/htable/htable_compression.h"
#include "trie_table/htable/htable_format.h"
#include "trie_table/htable/htable_layout.h"

namespace cairn {

constexpr char kHTableGroupsName[] = "cairn.htable.groups";

class HTableBuilder : public rocksdb::TableBuilder {
 public:
  HTableBuilder(const HTableOptions& table_options, const KeyHash& hash, const rocksdb::TableBuilderOptions& options,
                std::unique_ptr<TableFilterBuilder> filter, rocksdb::WritableFileWriter* file);
  ~HTableBuilder() override;

  void Add(const rocksdb::Slice& key, const rocksdb::Slice& value) override;
  rocksdb::Status status() const override { return status_; }
  rocksdb::IOStatus io_status() const override { return io_status_; }
  rocksdb::Status Finish() override;
  void Abandon() override {}
  uint64_t NumEntries() const override { return props_.num_entries; }
  uint64_t FileSize() const override { return offset_; }
  uint64_t EstimatedFileSize() const override;
  uint64_t GetTailSize() const override { return offset_ - tail_start_; }
  bool NeedCompact() const override;
  rocksdb::TableProperties GetTableProperties() const override;
  std::string GetFileChecksum() const override;
  const char* GetFileChecksumFuncName() const override;
  void SetSeqnoTimeTableProperties(const rocksdb::SeqnoToTimeMapping& relevant_mapping,
                                   uint64_t oldest_ancestor_time) override;

 private:
  struct Entry {
    uint64_t start = 0;  // of the key in arena_, from arena_base_ on; the value follows
    uint64_t value_size = 0;
    uint64_t seq = 0;
    uint32_t key_size = 0;
    uint8_t type = 0;
  };
  struct PendingCell {
    uint64_t hash = 0;
    size_t first_entry = 0;  // within entries_
    uint32_t entries = 0;
    size_t bytes = 0;  // about
  };

  // What RocksDB's tickers are to learn of the units of a group.
  struct Written {
    uint64_t compressed = 0, compressed_from = 0, compressed_to = 0;
    uint64_t rejected = 0, rejected_bytes = 0;  // not smaller for it
    uint64_t bypassed = 0, bypassed_bytes = 0;
  };

  // A bucket that FitCompressed has compressed.
  struct FittedBucket {
    size_t cells = 0;
    UnitHeader fields;
    std::string stored;
  };

  UnitEntry EntryAt(size_t i) const;
  bool IsTraining() const { return train_limit_ > 0; }
  void CountEntry(const rocksdb::Slice& key, const rocksdb::Slice& value, const rocksdb::ParsedInternalKey& parsed);
  // Writes groups as long as enough is pending for one.
  void WriteGroups(GroupEnd end);
  void WriteGroup(GroupEnd end);
  // The next group's cells and the smallest sequence number in them.
  std::vector<Cell> TakeCells(uint64_t* base_seq) const;
  GroupLayout LayOut(const std::vector<Cell>& cells, uint64_t base_seq, GroupEnd end);
  size_t FitCompressed(const std::vector<Cell>& cells, uint64_t base_seq, const std::vector<uint32_t>& home_cells,
                       const std::vector<size_t>& ends, size_t first);
  void AddCell(size_t pending_cell, UnitBuilder* unit) const;
  void AppendBucket(const std::vector<uint32_t>& cells, uint64_t base_seq);
  // The same without compression.
  void WriteBucket(const std::vector<uint32_t>& cells, uint64_t base_seq);
  void AppendExtents(uint32_t cell);
  void AppendUnitOf(const UnitBuilder& unit, size_t size);
  // The payload as it is to be stored; valid until the next call.
  const std::string& CompressPayload(const UnitBuilder& unit, UnitHeader* fields);
  void AppendStored(const UnitHeader& fields, const std::string& stored, size_t size);
  void CountWritten();
  void DropPending(size_t cells);
  void TrainDictionary();
  void Append(const rocksdb::Slice& bytes);
  FilePart AppendPart(const std::string& bytes);
  void FillProperties();
  rocksdb::Status WriteTail();
  rocksdb::Status WriteFilter();

  const HTableOptions table_options_;
  const KeyHash hash_;
  const rocksdb::ImmutableOptions& ioptions_;
  const rocksdb::WriteOptions write_options_;
  rocksdb::WritableFileWriter* const file_;
  const std::unique_ptr<TableFilterBuilder> filter_;
  std::vector<std::unique_ptr<rocksdb::InternalTblPropColl>> collectors_;
  rocksdb::TableProperties props_;
  UnitCompressor compressor_;
  rocksdb::Status status_;
  rocksdb::IOStatus io_status_;
  uint64_t offset_ = 0;
  uint64_t tail_start_ = 0;

  std::string arena_;
  uint64_t arena_base_ = 0;
  std::vector<Entry> entries_;
  std::vector<PendingCell> cells_;
  size_t first_cell_ = 0;  // of cells_ that is not yet written
  uint64_t pending_bytes_ = 0;
  uint64_t last_hash_ = 0;
  uint64_t train_limit_ = 0;  // bytes to gather before the dictionary is trained; 0: it is done, or there is none
  double ratio_ = 1;          // payload bytes per stored byte, of late

  std::vector<GroupPlan> groups_;
  std::vector<ExtentPlan> extents_;
  HTableHeader header_;
  std::unordered_map<uint32_t, FittedBucket> fitted_;  // of the group, by first cell
  UnitBuilder unit_;
  std::string out_;  // of the group that is being written
  Written written_;
  std::string payload_;
  std::string compressed_;
};

}  // namespace cairn
