#include "table/ordered/ordered_builder.h"

#include <algorithm>
#include <string>
#include <utility>

#include "cache/cache_reservation_manager.h"
#include "db/dbformat.h"
#include "file/writable_file_writer.h"
#include "rocksdb/iostats_context.h"
#include "rocksdb/port/table_reader.h"
#include "table/block_based/block.h"
#include "table/meta_blocks.h"
#include "table/ordered/order_block.h"
#include "table/ordered/order_filter.h"
#include "table/table_facts.h"
#include "util/coding.h"
#include "util/rocksdb_names.h"

namespace cairn {

namespace {

using rocksdb::BlockHandle;
using rocksdb::IOOptions;

// The filter of the table that is being written. The block-based builder asks for its facts, when all keys are known,
// through a collector of properties.
struct OrderInMaking {
  explicit OrderInMaking(double bits_per_key) : builder(bits_per_key) {}
  OrderFilterBuilder builder;
  std::string bytes;  // when the property was collected
};

class OrderCollector : public rocksdb::InternalTblPropColl {
 public:
  explicit OrderCollector(std::shared_ptr<OrderInMaking> order) : order_(std::move(order)) {}
  const char* Name() const override { return "cairn.Order"; }
  Status InternalAdd(const Slice&, const Slice&, uint64_t) override { return Status::OK(); }
  void BlockAdd(uint64_t, uint64_t, uint64_t) override {}
  Status Finish(rocksdb::UserCollectedProperties* properties) override {
    order_->bytes = order_->builder.Finish();
    if (!order_->bytes.empty()) properties->emplace(kOrderProperty, Facts());
    return Status::OK();
  }
  rocksdb::UserCollectedProperties GetReadableProperties() const override {
    if (order_->bytes.empty()) return {};
    return {{kOrderProperty, Facts()}};
  }

 private:
  std::string Facts() const {
    return EncodeOrderFacts({order_->builder.keys(), order_->bytes.size(), order_->builder.error()});
  }

  const std::shared_ptr<OrderInMaking> order_;
};

// Passes on what the block-based builder writes, but for the last bytes, which are to be changed.
class TailFile : public rocksdb::FSWritableFile {
 public:
  // More than any metaindex and footer take.
  static constexpr size_t kTail = size_t{64} << 10;

  explicit TailFile(rocksdb::WritableFileWriter* file) : file_(file) {}

  using FSWritableFile::Append;
  IOStatus Append(const Slice& data, const IOOptions& options, rocksdb::IODebugContext*) override {
    if (file_ == nullptr) return IOStatus::OK();
    size_ += data.size();
    // RocksDB counts what the writer in front of this has written, and then what file_ writes.
    rocksdb::get_iostats_context()->bytes_written -= data.size();
    if (data.size() < kTail) {
      tail_.append(data.data(), data.size());
      return tail_.size() < 2 * kTail ? IOStatus::OK() : PassOn(options, tail_.size() - kTail);
    }
    const IOStatus s = PassOn(options, tail_.size());
    if (!s.ok()) return s;
    tail_.assign(data.data() + data.size() - kTail, kTail);
    return file_->Append(options, Slice(data.data(), data.size() - kTail));
  }
  IOStatus Close(const IOOptions&, rocksdb::IODebugContext*) override { return IOStatus::OK(); }
  IOStatus Flush(const IOOptions&, rocksdb::IODebugContext*) override { return IOStatus::OK(); }
  IOStatus Sync(const IOOptions&, rocksdb::IODebugContext*) override { return IOStatus::OK(); }
  uint64_t GetFileSize(const IOOptions&, rocksdb::IODebugContext*) override { return size_; }

  // The file may be gone: what the writer in front of this still holds is nobody's.
  void Detach() { file_ = nullptr; }

  // What was not passed on yet, and where in the file it begins.
  const std::string& tail() const { return tail_; }
  uint64_t tail_offset() const { return size_ - tail_.size(); }
  // Passes on the tail's first bytes and forgets them.
  IOStatus PassOn(const IOOptions& options, size_t bytes) {
    if (bytes == 0) return IOStatus::OK();
    const IOStatus s = file_->Append(options, Slice(tail_.data(), bytes));
    tail_.erase(0, bytes);
    return s;
  }

 private:
  rocksdb::WritableFileWriter* file_;
  std::string tail_;
  uint64_t size_ = 0;
};

// A block and its trailer, as they lie in the file at `offset`.
void AppendBlock(const Slice& contents, uint64_t offset, const rocksdb::Footer& footer, std::string* out) {
  constexpr char kType = rocksdb::kNoCompression;
  uint32_t checksum =
      rocksdb::ComputeBuiltinChecksumWithLastByte(footer.checksum_type(), contents.data(), contents.size(), kType);
  checksum += rocksdb::ChecksumModifierForContext(footer.base_context_checksum(), offset);
  out->append(contents.data(), contents.size());
  out->push_back(kType);
  rocksdb::PutFixed32(out, checksum);
}

// The end of the file anew: the order filter where the metaindex began, a metaindex that names it, and a footer that
// names that. *kept: how many bytes of the old tail stay in front. NotFound if the metaindex is not within the tail.
Status MakeTail(const std::string& tail, uint64_t tail_offset, const std::string& order, size_t* kept,
                std::string* made) {
  rocksdb::Footer footer;
  const size_t footer_size = std::min<size_t>(rocksdb::Footer::kMaxEncodedLength, tail.size());
  Status s = footer.DecodeFrom(Slice(tail.data() + tail.size() - footer_size, footer_size),
                               tail_offset + tail.size() - footer_size);
  if (!s.ok()) return s;
  const BlockHandle old_index = footer.metaindex_handle();
  if (old_index.offset() < tail_offset) return Status::NotFound("the metaindex is too large");
  *kept = static_cast<size_t>(old_index.offset() - tail_offset);
  if (*kept > tail.size() || old_index.size() > tail.size() - *kept) {
    return Status::Corruption("the metaindex lies outside the file");
  }
  rocksdb::MetaIndexBuilder index;
  rocksdb::Block block(rocksdb::BlockContents(Slice(tail.data() + *kept, old_index.size())));
  const std::unique_ptr<rocksdb::InternalIterator> entry(block.NewMetaIterator());
  for (entry->SeekToFirst(); entry->Valid(); entry->Next()) {
    Slice value = entry->value();
    BlockHandle handle;
    s = handle.DecodeFrom(&value);
    if (!s.ok()) return s;
    index.Add(entry->key().ToString(), handle);
  }
  if (!entry->status().ok()) return entry->status();
  uint64_t offset = old_index.offset();
  index.Add(kOrderBlockName, BlockHandle(offset, order.size()));
  AppendBlock(order, offset, footer, made);
  offset = old_index.offset() + made->size();
  const Slice contents = index.Finish();
  AppendBlock(contents, offset, footer, made);
  rocksdb::FooterBuilder new_footer;
  s = new_footer.Build(footer.table_magic_number(), footer.format_version(), old_index.offset() + made->size(),
                       footer.checksum_type(), BlockHandle(offset, contents.size()), footer.index_handle(),
                       footer.base_context_checksum());
  if (s.ok()) made->append(new_footer.GetSlice().data(), new_footer.GetSlice().size());
  return s;
}

// Bytes that are passed on at a time: they are copied twice, so they should be in the processor's cache still.
constexpr size_t kPassedOn = size_t{256} << 10;

// Keys between two looks at what the builder holds.
constexpr size_t kChargeEvery = 1024;

// Null if cache_usage_options do not want it.
std::shared_ptr<rocksdb::CacheReservationManager> NewCharge(const rocksdb::BlockBasedTableOptions& table) {
  constexpr auto kRole = rocksdb::CacheEntryRole::kFilterConstruction;
  const auto& usage = table.cache_usage_options;
  const auto found = usage.options_overrides.find(kRole);
  const auto decision = found == usage.options_overrides.end() ? usage.options.charged : found->second.charged;
  if (table.block_cache == nullptr || decision != rocksdb::CacheEntryRoleOptions::Decision::kEnabled) return nullptr;
  return std::make_shared<rocksdb::CacheReservationManagerImpl<kRole>>(table.block_cache);
}

class OrderedTableBuilder : public port::TableBuilderAround {
 public:
  // `charge`: null if what this holds is not charged.
  OrderedTableBuilder(double bits_per_key, std::shared_ptr<rocksdb::CacheReservationManager> charge,
                      const rocksdb::TableBuilderOptions& options, rocksdb::WritableFileWriter* file)
      : file_(file),
        write_options_(options.write_options),
        order_(std::make_shared<OrderInMaking>(bits_per_key)),
        charge_(std::move(charge)) {
    auto tail = std::make_unique<TailFile>(file);
    tail_ = tail.get();
    rocksdb::FileOptions passed_on;
    passed_on.writable_file_max_buffer_size = kPassedOn;
    inner_file_ = std::make_unique<rocksdb::WritableFileWriter>(std::move(tail), file->file_name(), passed_on);
  }

  // A compaction that is given up closes its file before its builder.
  ~OrderedTableBuilder() override { tail_->Detach(); }

  std::unique_ptr<rocksdb::InternalTblPropCollFactory> NewCollector() const {
    return std::make_unique<CollectorFactory>("cairn.Order",
                                              [order = order_](auto...) { return new OrderCollector(order); });
  }
  rocksdb::WritableFileWriter* inner_file() const { return inner_file_.get(); }
  void SetInner(rocksdb::TableBuilder* inner) { inner_.reset(inner); }

  void Add(const Slice& key, const Slice& value) override {
    inner_->Add(key, value);
    if (rocksdb::ExtractValueType(key) == rocksdb::kTypeRangeDeletion) return;
    const Slice user_key = rocksdb::ExtractUserKey(key);
    order_->builder.Add(user_key.data(), user_key.size());
    if (charge_ != nullptr && ++uncharged_keys_ >= kChargeEvery) Charge();
  }

  Status Finish() override {
    Status s = inner_->Finish();
    if (!s.ok()) return s;
    if (charge_ != nullptr) Charge();
    IOOptions io_options;
    s = SetStatus(rocksdb::WritableFileWriter::PrepareIOOptions(write_options_, io_options));
    if (s.ok()) s = SetStatus(inner_file_->Flush(io_options));
    if (!s.ok()) return s;
    std::string made;
    size_t kept = 0;
    if (!order_->bytes.empty()) {
      const Status tail = MakeTail(tail_->tail(), tail_->tail_offset(), order_->bytes, &kept, &made);
      if (!tail.ok() && !tail.IsNotFound()) return status_ = tail;
      if (!tail.ok()) made.clear();
    }
    if (made.empty()) return SetStatus(tail_->PassOn(io_options, tail_->tail().size()));
    added_ = kept + made.size() - tail_->tail().size();
    s = SetStatus(tail_->PassOn(io_options, kept));
    if (s.ok()) s = SetStatus(file_->Append(io_options, made));
    order_->bytes = {};
    if (charge_ != nullptr) Charge();
    return s;
  }

  void Abandon() override { inner_->Abandon(); }
  Status status() const override { return status_.ok() ? inner_->status() : status_; }
  IOStatus io_status() const override { return io_status_.ok() ? inner_->io_status() : io_status_; }
  uint64_t NumEntries() const override { return inner_->NumEntries(); }
  bool IsEmpty() const override { return inner_->IsEmpty(); }
  uint64_t FileSize() const override { return inner_->FileSize() + added_; }
  uint64_t EstimatedFileSize() const override { return inner_->EstimatedFileSize() + AddedTailSize(); }
  uint64_t GetTailSize() const override { return inner_->GetTailSize() + added_; }
  bool NeedCompact() const override { return inner_->NeedCompact(); }
  rocksdb::TableProperties GetTableProperties() const override { return inner_->GetTableProperties(); }
  std::string GetFileChecksum() const override { return file_->GetFileChecksum(); }
  const char* GetFileChecksumFuncName() const override { return file_->GetFileChecksumFuncName(); }
  void SetSeqnoTimeTableProperties(const rocksdb::SeqnoToTimeMapping& relevant_mapping,
                                   uint64_t oldest_ancestor_time) override {
    inner_->SetSeqnoTimeTableProperties(relevant_mapping, oldest_ancestor_time);
  }

 protected:
  const rocksdb::TableBuilder& inner() const override { return *inner_; }
  uint64_t AddedTailSize() const override { return added_ != 0 ? added_ : order_->builder.EstimatedBytes(); }

 private:
  Status SetStatus(const IOStatus& s) {
    if (!s.ok()) status_ = io_status_ = s;
    return s;
  }

  // As RocksDB's filters: a full cache with a strict limit keeps no table from being written.
  void Charge() {
    uncharged_keys_ = 0;
    charge_->UpdateCacheReservation(order_->builder.memory() + order_->bytes.capacity()).PermitUncheckedError();
  }

  rocksdb::WritableFileWriter* const file_;
  const rocksdb::WriteOptions write_options_;
  const std::shared_ptr<OrderInMaking> order_;
  const std::shared_ptr<rocksdb::CacheReservationManager> charge_;
  size_t uncharged_keys_ = 0;
  TailFile* tail_;  // inner_file_'s
  std::unique_ptr<rocksdb::WritableFileWriter> inner_file_;
  std::unique_ptr<rocksdb::TableBuilder> inner_;
  uint64_t added_ = 0;  // bytes of the finished file that are not the block-based builder's
  Status status_;
  IOStatus io_status_;
};

}  // namespace

rocksdb::TableBuilder* NewOrderedTableBuilder(
    double bits_per_key, const rocksdb::BlockBasedTableOptions& table, const rocksdb::TableBuilderOptions& options,
    rocksdb::WritableFileWriter* file,
    const std::function<rocksdb::TableBuilder*(const rocksdb::TableBuilderOptions&, rocksdb::WritableFileWriter*)>&
        make) {
  auto builder = std::make_unique<OrderedTableBuilder>(bits_per_key, NewCharge(table), options, file);
  const auto collectors = CollectorsOf(options);
  collectors->push_back(builder->NewCollector());
  rocksdb::TableBuilderOptions with_order(options);
  with_order.internal_tbl_prop_coll_factories = collectors.get();
  builder->SetInner(make(with_order, builder->inner_file()));
  return builder.release();
}

}  // namespace cairn
