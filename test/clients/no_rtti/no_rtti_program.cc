// A program compiled without RTTI, as distributions' bindings and engines are, that brings its own of everything that
// RocksDB lets others bring. Objects of its classes have no type information: a dynamic_cast on one of them ends the
// process.
//
//   no_rtti_program ENGINE DB_DIR     ENGINE: plain, sub_memtable, own_memtable, trie, trie_own_table, silt, tuner,
//   durable

#include <atomic>
#include <cstdio>
#include <cstdlib>
#include <memory>
#include <string>
#include <utility>

#include "../open_database.h"
#include "cairn/db.h"
#include "cairn/memtable.h"
#include "cairn/silt.h"
#include "cairn/trie.h"
#include "cairn/tuner.h"
#include "rocksdb/compaction_filter.h"
#include "rocksdb/comparator.h"
#include "rocksdb/convenience.h"
#include "rocksdb/db.h"
#include "rocksdb/env.h"
#include "rocksdb/file_system.h"
#include "rocksdb/filter_policy.h"
#include "rocksdb/listener.h"
#include "rocksdb/memtablerep.h"
#include "rocksdb/merge_operator.h"
#include "rocksdb/rate_limiter.h"
#include "rocksdb/slice_transform.h"
#include "rocksdb/sst_partitioner.h"
#include "rocksdb/table.h"
#include "rocksdb/table_properties.h"
#include "rocksdb/utilities/object_registry.h"
#include "rocksdb/wal_filter.h"

#ifdef __GXX_RTTI
#error "compile this with -fno-rtti"
#endif

namespace {

using rocksdb::Slice;
using rocksdb::Status;
using stock::Require;

constexpr int kKeys = 20000;

// Calls of the program's own objects: each must have been asked.
struct Calls {
  std::atomic<uint64_t> comparator{0}, merge{0}, filter{0}, listener{0}, collector{0}, transform{0}, limiter{0}, env{0},
      memtable{0}, table{0}, partitioner{0}, wal_filter{0}, file_system{0};
};
Calls* calls = nullptr;

class ShorterFirst : public rocksdb::Comparator {
 public:
  const char* Name() const override { return "no_rtti.ShorterFirst"; }
  int Compare(const Slice& a, const Slice& b) const override {
    calls->comparator++;
    if (a.size() != b.size()) return a.size() < b.size() ? -1 : 1;
    return a.compare(b);
  }
  void FindShortestSeparator(std::string* /*start*/, const Slice& /*limit*/) const override {}
  void FindShortSuccessor(std::string* /*key*/) const override {}
};

class Concatenate : public rocksdb::AssociativeMergeOperator {
 public:
  const char* Name() const override { return "no_rtti.Concatenate"; }
  bool Merge(const Slice& /*key*/, const Slice* existing, const Slice& value, std::string* result,
             rocksdb::Logger* /*logger*/) const override {
    calls->merge++;
    *result = (existing != nullptr ? existing->ToString() : "") + value.ToString();
    return true;
  }
};

class DropsTemporary : public rocksdb::CompactionFilter {
 public:
  const char* Name() const override { return "no_rtti.DropsTemporary"; }
  bool Filter(int /*level*/, const Slice& /*key*/, const Slice& value, std::string* /*new_value*/,
              bool* /*changed*/) const override {
    calls->filter++;
    return value.starts_with("temporary");
  }
};

class DropsTemporaryFactory : public rocksdb::CompactionFilterFactory {
 public:
  const char* Name() const override { return "no_rtti.DropsTemporaryFactory"; }
  std::unique_ptr<rocksdb::CompactionFilter> CreateCompactionFilter(
      const rocksdb::CompactionFilter::Context& /*context*/) override {
    return std::make_unique<DropsTemporary>();
  }
};

class Listener : public rocksdb::EventListener {
 public:
  void OnFlushCompleted(rocksdb::DB* /*db*/, const rocksdb::FlushJobInfo& /*info*/) override { calls->listener++; }
};

class Collector : public rocksdb::TablePropertiesCollector {
 public:
  const char* Name() const override { return "no_rtti.Collector"; }
  Status AddUserKey(const Slice& /*key*/, const Slice& /*value*/, rocksdb::EntryType /*type*/,
                    rocksdb::SequenceNumber /*sequence*/, uint64_t /*file_size*/) override {
    calls->collector++;
    return Status::OK();
  }
  Status Finish(rocksdb::UserCollectedProperties* properties) override {
    (*properties)["no_rtti"] = "yes";
    return Status::OK();
  }
  rocksdb::UserCollectedProperties GetReadableProperties() const override { return {}; }
};

class CollectorFactory : public rocksdb::TablePropertiesCollectorFactory {
 public:
  const char* Name() const override { return "no_rtti.CollectorFactory"; }
  rocksdb::TablePropertiesCollector* CreateTablePropertiesCollector(
      rocksdb::TablePropertiesCollectorFactory::Context /*context*/) override {
    return new Collector();
  }
};

class FirstFour : public rocksdb::SliceTransform {
 public:
  const char* Name() const override { return "no_rtti.FirstFour"; }
  Slice Transform(const Slice& key) const override {
    calls->transform++;
    return Slice(key.data(), 4);
  }
  bool InDomain(const Slice& key) const override { return key.size() >= 4; }
};

class Limiter : public rocksdb::RateLimiter {
 public:
  void SetBytesPerSecond(int64_t /*bytes*/) override {}
  void Request(const int64_t /*bytes*/, const rocksdb::Env::IOPriority /*priority*/,
               rocksdb::Statistics* /*statistics*/) override {
    calls->limiter++;
  }
  int64_t GetSingleBurstBytes() const override { return 1 << 20; }
  int64_t GetTotalBytesThrough(const rocksdb::Env::IOPriority /*priority*/) const override { return 0; }
  int64_t GetTotalRequests(const rocksdb::Env::IOPriority /*priority*/) const override { return 0; }
  int64_t GetBytesPerSecond() const override { return 1 << 30; }
};

class OwnFileSystem : public rocksdb::FileSystemWrapper {
 public:
  using rocksdb::FileSystemWrapper::FileSystemWrapper;
  const char* Name() const override { return "no_rtti.FileSystem"; }
  rocksdb::IOStatus NewRandomAccessFile(const std::string& name, const rocksdb::FileOptions& options,
                                        std::unique_ptr<rocksdb::FSRandomAccessFile>* file,
                                        rocksdb::IODebugContext* debug) override {
    calls->file_system++;
    return target()->NewRandomAccessFile(name, options, file, debug);
  }
};

class OwnEnv : public rocksdb::EnvWrapper {
 public:
  using rocksdb::EnvWrapper::EnvWrapper;
  const char* Name() const override { return "no_rtti.Env"; }
  void Schedule(void (*function)(void*), void* argument, rocksdb::Env::Priority priority, void* tag,
                void (*unschedule)(void*)) override {
    calls->env++;
    target()->Schedule(function, argument, priority, tag, unschedule);
  }
};

class OwnMemTables : public rocksdb::MemTableRepFactory {
 public:
  const char* Name() const override { return "no_rtti.MemTables"; }
  rocksdb::MemTableRep* CreateMemTableRep(const rocksdb::MemTableRep::KeyComparator& comparator,
                                          rocksdb::Allocator* allocator, const rocksdb::SliceTransform* transform,
                                          rocksdb::Logger* logger) override {
    calls->memtable++;
    return skip_lists_.CreateMemTableRep(comparator, allocator, transform, logger);
  }
  bool IsInsertConcurrentlySupported() const override { return true; }
  bool CanHandleDuplicatedKey() const override { return true; }

 private:
  rocksdb::SkipListFactory skip_lists_;
};

class OwnTables : public rocksdb::TableFactory {
 public:
  explicit OwnTables(std::shared_ptr<rocksdb::TableFactory> tables) : tables_(std::move(tables)) {}
  OwnTables() : OwnTables(std::shared_ptr<rocksdb::TableFactory>(rocksdb::NewBlockBasedTableFactory())) {}
  const char* Name() const override { return "no_rtti.Tables"; }
  using rocksdb::TableFactory::NewTableReader;
  Status NewTableReader(const rocksdb::ReadOptions& read_options, const rocksdb::TableReaderOptions& options,
                        std::unique_ptr<rocksdb::RandomAccessFileReader>&& file, uint64_t file_size,
                        std::unique_ptr<rocksdb::TableReader>* reader, bool prefetch) const override {
    calls->table++;
    return tables_->NewTableReader(read_options, options, std::move(file), file_size, reader, prefetch);
  }
  rocksdb::TableBuilder* NewTableBuilder(const rocksdb::TableBuilderOptions& options,
                                         rocksdb::WritableFileWriter* file) const override {
    calls->table++;
    return tables_->NewTableBuilder(options, file);
  }
  std::unique_ptr<rocksdb::TableFactory> Clone() const override {
    return std::make_unique<OwnTables>(std::shared_ptr<rocksdb::TableFactory>(tables_->Clone()));
  }

 private:
  std::shared_ptr<rocksdb::TableFactory> tables_;
};

class OwnPartitioner : public rocksdb::SstPartitioner {
 public:
  const char* Name() const override { return "no_rtti.Partitioner"; }
  rocksdb::PartitionerResult ShouldPartition(const rocksdb::PartitionerRequest& /*request*/) override {
    calls->partitioner++;
    return rocksdb::kNotRequired;
  }
  bool CanDoTrivialMove(const Slice& /*smallest*/, const Slice& /*largest*/) override { return true; }
};

class OwnPartitionerFactory : public rocksdb::SstPartitionerFactory {
 public:
  const char* Name() const override { return "no_rtti.PartitionerFactory"; }
  std::unique_ptr<rocksdb::SstPartitioner> CreatePartitioner(
      const rocksdb::SstPartitioner::Context& /*context*/) const override {
    return std::make_unique<OwnPartitioner>();
  }
};

class OwnWalFilter : public rocksdb::WalFilter {
 public:
  const char* Name() const override { return "no_rtti.WalFilter"; }
  WalProcessingOption LogRecord(const rocksdb::WriteBatch& /*batch*/, rocksdb::WriteBatch* /*new_batch*/,
                                bool* /*changed*/) const override {
    calls->wal_filter++;
    return WalProcessingOption::kContinueProcessing;
  }
};

std::string Key(int i) { return "key-" + std::to_string(i); }

std::string Expected(int i) { return std::to_string(i) + (i % 7 == 0 ? "+more" : ""); }

bool Temporary(int i) { return i % 11 == 5; }

void Write(rocksdb::DB* db) {
  for (int i = 0; i < kKeys; i++) {
    Require(db->Put(rocksdb::WriteOptions(), Key(i), Temporary(i) ? "temporary" : std::to_string(i)), "Put");
    if (i % 7 == 0 && !Temporary(i)) Require(db->Merge(rocksdb::WriteOptions(), Key(i), "+more"), "Merge");
    if (i % 2500 == 0 && i < kKeys / 2) Require(db->Flush(rocksdb::FlushOptions()), "Flush");
  }
}

void Check(rocksdb::DB* db) {
  for (int i = 0; i < kKeys; i++) {
    if (Temporary(i)) continue;
    std::string value;
    Require(db->Get(rocksdb::ReadOptions(), Key(i), &value), "Get");
    Require(value == Expected(i), "Get: wrong value");
  }
  const std::unique_ptr<rocksdb::Iterator> it(db->NewIterator(rocksdb::ReadOptions()));
  int seen = 0, wanted = 0;
  for (int i = 0; i < kKeys; i++) wanted += Temporary(i) ? 0 : 1;
  for (it->SeekToFirst(); it->Valid(); it->Next()) seen += it->value().starts_with("temporary") ? 0 : 1;
  Require(it->status(), "iterator");
  Require(seen == wanted, "iterator: wrong number of keys");
  it->Seek(Key(1234));
  Require(it->Valid() && it->key() == Key(1234), "Seek");
}

// What goes with every engine.
rocksdb::Options OwnOptions(rocksdb::Env* env) {
  rocksdb::Options options;
  options.create_if_missing = true;
  options.env = env;
  options.merge_operator = std::make_shared<Concatenate>();
  options.compaction_filter_factory = std::make_shared<DropsTemporaryFactory>();
  options.listeners.push_back(std::make_shared<Listener>());
  options.table_properties_collector_factories.push_back(std::make_shared<CollectorFactory>());
  options.rate_limiter = std::make_shared<Limiter>();
  return options;
}

// What the engine takes besides.
Status SetEngine(const std::string& engine, const rocksdb::Comparator* comparator, rocksdb::Options* options) {
  const bool hash_order = engine == "trie" || engine == "trie_own_table" || engine == "silt";
  if (!hash_order) {
    options->comparator = comparator;
    options->prefix_extractor = std::make_shared<FirstFour>();
    options->memtable_prefix_bloom_size_ratio = 0.1;
    options->sst_partitioner_factory = std::make_shared<OwnPartitionerFactory>();
  }
  if (engine == "sub_memtable") options->memtable_factory = cairn::NewSubMemTableFactory();
  if (engine == "own_memtable") options->memtable_factory = std::make_shared<OwnMemTables>();
  if (engine == "durable") {
    cairn::SubMemTableOptions sub;
    sub.durable = true;
    options->memtable_factory = cairn::NewSubMemTableFactory(sub);
  }
  if (engine == "trie_own_table") {
    // RocksDB reads back the OPTIONS file that it writes, and what is inside another factory must be known by name.
    rocksdb::ObjectLibrary::Default()->AddFactory<rocksdb::TableFactory>(
        OwnTables().Name(),
        [](const std::string& /*name*/, std::unique_ptr<rocksdb::TableFactory>* guard, std::string* /*message*/) {
          guard->reset(new OwnTables());
          return guard->get();
        });
    options->table_factory = std::make_shared<OwnTables>();
  }
  if (engine == "trie" || engine == "trie_own_table") return cairn::UseTrie(options);
  if (engine == "silt") return cairn::UseSilt(options);
  if (engine == "tuner") {
    options->level_compaction_dynamic_level_bytes = false;
    cairn::TunerOptions tuner;
    tuner.window_flushes = 1;
    return cairn::UseTuner(options, tuner);
  }
  return Status::OK();
}

std::unique_ptr<rocksdb::DB> Open(const rocksdb::Options& options, const std::string& engine, const std::string& path) {
  const bool rocksdb_alone = engine == "plain" || engine == "sub_memtable" || engine == "tuner";
  std::unique_ptr<rocksdb::DB> db;
  if (rocksdb_alone) {
    Require(stock::OpenDatabase(&db, options, path), "Open");
  } else {
    rocksdb::DB* opened = nullptr;
    Require(cairn::Open(options, path, &opened), "Open");
    db.reset(opened);
  }
  return db;
}

void RequireCalls(const std::string& engine) {
  Require(calls->merge > 0, "the merge operator was not asked");
  Require(calls->filter > 0, "the compaction filter was not asked");
  Require(calls->listener > 0, "the listener was not told");
  Require(calls->collector > 0, "the table properties collector was not asked");
  Require(calls->limiter > 0, "the rate limiter was not asked");
  Require(calls->env > 0, "the env was not asked");
  Require(calls->file_system > 0, "the file system was not asked");
  if (engine == "own_memtable") Require(calls->memtable > 0, "the memtable factory was not asked");
  if (engine == "trie_own_table") Require(calls->table > 0, "the table factory was not asked");
  if (engine == "trie" || engine == "trie_own_table" || engine == "silt") return;
  Require(calls->comparator > 0, "the comparator was not asked");
  Require(calls->transform > 0, "the slice transform was not asked");
  Require(calls->partitioner > 0, "the partitioner was not asked");
}

}  // namespace

int main(int argc, char** argv) {
  Require(argc == 3, "usage: no_rtti_program ENGINE DB_DIR");
  const std::string engine = argv[1], path = argv[2];
  Calls own_calls;
  calls = &own_calls;
  const ShorterFirst comparator;
  const std::unique_ptr<rocksdb::Env> env_of_files =
      rocksdb::NewCompositeEnv(std::make_shared<OwnFileSystem>(rocksdb::FileSystem::Default()));
  OwnEnv env(env_of_files.get());
  rocksdb::Options options = OwnOptions(&env);
  Require(SetEngine(engine, &comparator, &options), "options");
  std::unique_ptr<rocksdb::DB> db = Open(options, engine, path);
  Write(db.get());
  Check(db.get());
  if (options.compaction_style == rocksdb::kCompactionStyleNone) {
    Require(cairn::CompactTrie(db.get(), db->DefaultColumnFamily()), "CompactTrie");
  } else {
    Require(db->CompactRange(rocksdb::CompactRangeOptions(), nullptr, nullptr), "CompactRange");
  }
  Check(db.get());
  Require(db->Close(), "Close");
  db.reset();
  OwnWalFilter wal_filter;
  options.wal_filter = &wal_filter;
  db = Open(options, engine, path);
  Check(db.get());
  Require(db->Close(), "Close");
  db.reset();
  RequireCalls(engine);
  std::printf("%s: %d keys read back\n", engine.c_str(), kKeys);
  return 0;
}
