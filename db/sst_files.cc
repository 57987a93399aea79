#include "db/sst_files.h"

#include <atomic>
#include <memory>
#include <string>
#include <utility>

#include "db/dbformat.h"
#include "db/stored_seed.h"
#include "db/table_in_order.h"
#include "rocksdb/env.h"
#include "rocksdb/file_system.h"
#include "rocksdb/port/table_reader.h"
#include "rocksdb/table.h"
#include "table/hash_order/hash_order.h"
#include "table/table_builder.h"

namespace cairn {

using rocksdb::Comparator;
using rocksdb::Slice;
using rocksdb::Status;

namespace {

// A SstFileWriter's constructor cannot fail, but its Open makes a file.
class NoFiles : public rocksdb::FileSystemWrapper {
 public:
  explicit NoFiles(const std::shared_ptr<rocksdb::FileSystem>& fs) : rocksdb::FileSystemWrapper(fs) {}
  const char* Name() const override { return "cairn.NoFiles"; }
  rocksdb::IOStatus NewWritableFile(const std::string& path, const rocksdb::FileOptions& /*options*/,
                                    std::unique_ptr<rocksdb::FSWritableFile>* /*file*/,
                                    rocksdb::IODebugContext* /*debug*/) override {
    return rocksdb::IOStatus::InvalidArgument(
        "SstFileWriter of " + path + ": the options leave the seed of the hash order open",
        "a file for ingestion has the order of its column family: give SstFileWriter its handle, or set the seed that "
        "cairn::GetHashSeed(db->GetOptions(handle), &trie.seed) gives before cairn::UseTrie");
  }
};

rocksdb::Env* EnvWithoutFiles() {
  static rocksdb::Env* const env =
      rocksdb::NewCompositeEnv(std::make_shared<NoFiles>(rocksdb::FileSystem::Default())).release();
  return env;
}

// The order of a file that is not open yet. Until then no key is compared.
class FilesOrder : public Comparator {
 public:
  explicit FilesOrder(const Comparator* until_then) : order_(until_then) {}

  void Set(const Comparator* order) { order_.store(order, std::memory_order_release); }
  const Comparator* get() const { return order_.load(std::memory_order_acquire); }

  const char* Name() const override { return get()->Name(); }
  int Compare(const Slice& a, const Slice& b) const override { return get()->Compare(a, b); }
  bool Equal(const Slice& a, const Slice& b) const override { return get()->Equal(a, b); }
  void FindShortestSeparator(std::string* /*start*/, const Slice& /*limit*/) const override {}
  void FindShortSuccessor(std::string* /*key*/) const override {}
  bool CanKeysWithDifferentByteContentsBeEqual() const override { return false; }

 private:
  std::atomic<const Comparator*> order_;
};

// Opens tables in their own order. Owns what the reader compares with, as both live as long as its options.
class OwnOrderTables : public rocksdb::TableFactory {
 public:
  OwnOrderTables(std::shared_ptr<rocksdb::TableFactory> format, const Comparator* open)
      : format_(std::move(format)), order_(open), internal_(std::make_unique<rocksdb::InternalKeyComparator>(open)) {}

  const char* Name() const override { return "cairn.OwnOrderTables"; }
  const rocksdb::Customizable* Inner() const override { return format_.get(); }
  const Comparator* order() const { return &order_; }

  using rocksdb::TableFactory::NewTableReader;
  Status NewTableReader(const rocksdb::ReadOptions& read_options, const rocksdb::TableReaderOptions& options,
                        std::unique_ptr<rocksdb::RandomAccessFileReader>&& file, uint64_t file_size,
                        std::unique_ptr<rocksdb::TableReader>* reader, bool prefetch) const override {
    std::unique_ptr<rocksdb::TableProperties> properties;
    const Status s = ReadPropertiesOf(file.get(), file_size, options, read_options, &properties);
    rocksdb::ColumnFamilyOptions adopted;
    adopted.comparator = order_.get();
    if (s.ok()) AdoptSeed(properties->comparator_name, &adopted);
    order_.Set(adopted.comparator);
    internal_ = std::make_unique<rocksdb::InternalKeyComparator>(adopted.comparator);
    return format_->NewTableReader(read_options, port::InOrder(options, *internal_), std::move(file), file_size, reader,
                                   prefetch);
  }

  rocksdb::TableBuilder* NewTableBuilder(const rocksdb::TableBuilderOptions& options,
                                         rocksdb::WritableFileWriter* file) const override {
    return format_->NewTableBuilder(options, file);
  }
  std::unique_ptr<rocksdb::TableFactory> Clone() const override {
    return std::make_unique<OwnOrderTables>(format_, order_.get());
  }
  bool IsDeleteRangeSupported() const override { return format_->IsDeleteRangeSupported(); }

 private:
  const std::shared_ptr<rocksdb::TableFactory> format_;
  // Of the one table that a SstFileReader has open; it is not thread-safe.
  mutable FilesOrder order_;
  mutable std::unique_ptr<rocksdb::InternalKeyComparator> internal_;
};

}  // namespace

void PrepareSstFileWriter(rocksdb::ColumnFamilyHandle* family, rocksdb::Options* options,
                          const Comparator** comparator) {
  if (SeedIsOpen(*comparator)) {
    const KeyHash* const hash = family == nullptr ? nullptr : HashOfComparator(family->GetComparator());
    if (hash != nullptr && hash->kind() == HashOfComparator(*comparator)->kind()) {
      *comparator = family->GetComparator();
    } else {
      options->env = EnvWithoutFiles();
    }
  }
  // What the file will say of itself.
  options->comparator = *comparator;
}

void PrepareSstFileReader(rocksdb::Options* options) {
  if (!SeedIsOpen(options->comparator) || options->table_factory == nullptr) return;
  const auto tables = std::make_shared<OwnOrderTables>(options->table_factory, options->comparator);
  options->comparator = tables->order();
  options->table_factory = tables;
}

}  // namespace cairn
