#include "db/opening.h"

#include <algorithm>
#include <map>
#include <utility>

#include "cairn/ordered.h"
#include "cairn/silt.h"
#include "cairn/trie.h"
#include "db/cairn_db.h"
#include "db/dbformat.h"
#include "db/stored_seed.h"
#include "file/filename.h"
#include "memtable_cache/durable_writes.h"
#include "memtable_cache/fast_writes.h"
#include "memtable_cache/pool_presence.h"
#include "msls/round_robin.h"
#include "options/options_helper.h"
#include "result_cache/result_cache_listener.h"
#include "result_cache/wal_report.h"
#include "rocksdb/port/db_impl.h"
#include "rocksdb/port/rocksdb_own.h"
#include "rocksdb/port/table_reader.h"
#include "rocksdb/table.h"
#include "table/format.h"
#include "table/hash_order/hash_order.h"
#include "table/hash_order/hash_order_options.h"
#include "table/meta_blocks.h"
#include "table/silt/silt_merges.h"
#include "table/table_builder.h"
#include "trie_table/compaction/trie_files.h"
#include "trie_table/compaction/trie_options.h"
#include "trie_table/compaction/trie_scheduler.h"
#include "util/listeners.h"
#include "util/rocksdb_names.h"

namespace cairn {

namespace {

template <class Question>
bool Any(const std::vector<ColumnFamilyDescriptor>& families, const Question& question) {
  return std::any_of(families.begin(), families.end(), [&](const auto& family) { return question(family.options); });
}

// The options as RocksDB gets them: with services of this opening first, and with what compacts tries and merges SILT
// stores.
DBOptions WithServices(const DBOptions& given, const std::string& path,
                       const std::vector<ColumnFamilyDescriptor>& families,
                       std::shared_ptr<DatabaseServices> services) {
  DBOptions options = given;
  using FamilyOptions = rocksdb::ColumnFamilyOptions;
  const auto has_hash_order = [](const FamilyOptions& of) { return HashOfComparator(of.comparator) != nullptr; };
  // The seed of a hash order is found in the MANIFEST.
  if (port::ReusesManifest(options) && Any(families, has_hash_order) &&
      !options.env->FileExists(rocksdb::CurrentFileName(path)).ok()) {
    port::StartNewManifest(&options);
  }
  auto& listeners = options.listeners;
  DatabaseLookups::RemoveFrom(&listeners);
  if (Any(families, [](const FamilyOptions& of) { return IsTrie(of); })) AddListener<TrieListener>(&options);
  // A store of partitions is a trie.
  const auto is_merged_whole = [](const FamilyOptions& of) { return IsSilt(of, nullptr) && !IsTrie(of); };
  if (Any(families, is_merged_whole)) AddListener<SiltMerges>(&options);
  if (!HasListener<SiltMerges>(options)) services->MergeSiltStores();
  if (Any(families, WantsRoundRobinTuner)) UseRoundRobinTuner(&options).PermitUncheckedError();
  listeners.insert(listeners.begin(), std::move(services));
  return options;
}

// The column families with the options that they are opened with.
Status ResolveFamilies(const DBOptions& options, const std::string& path, const std::string& stored,
                       const std::vector<ColumnFamilyDescriptor>& given, bool seq_per_batch,
                       std::vector<ColumnFamilyDescriptor>* families,
                       std::shared_ptr<EnvironmentOptions>* environment) {
  *families = WithSeeds(options, stored, given);
  for (ColumnFamilyDescriptor& family : *families) {
    AddRoundRobinCollectors(&family.options);
  }
  const Status s = EnvironmentOptions::FromEnvironment(path, environment);
  if (!s.ok() || *environment == nullptr) return s;
  if (seq_per_batch) (*environment)->RequireDuplicateKeys();
  return (*environment)->Apply(families);
}

// That of the default column family; null: it has none.
std::shared_ptr<rocksdb::Cache> DefaultBlockCache(const std::vector<ColumnFamilyDescriptor>& families) {
  for (const ColumnFamilyDescriptor& family : families) {
    if (family.name == rocksdb::kDefaultColumnFamilyName) return BlockCacheOf(family.options);
  }
  return nullptr;
}

// A cache that survives a loss of power finds all that came after its last point in the WALs.
Status CheckPowerLoss(const DBOptions& options, const std::vector<ColumnFamilyDescriptor>& families,
                      const DatabaseCacheOptions& cache) {
  if (!cache.survive_power_loss) return Status::OK();
  const char* what = nullptr;
  if (cache.path.empty()) what = "no path";
  if (IsDurable(families)) what = "durable memtables";
  if (options.enable_pipelined_write) what = "enable_pipelined_write";
  if (options.unordered_write) what = "unordered_write";
  if (options.allow_2pc) what = "allow_2pc, which a TransactionDB sets";
  if (options.two_write_queues) what = "two_write_queues";
  if (options.allow_mmap_writes) what = "allow_mmap_writes, with which RocksDB syncs no WAL";
  if (options.wal_recovery_mode != rocksdb::WALRecoveryMode::kPointInTimeRecovery &&
      options.wal_recovery_mode != rocksdb::WALRecoveryMode::kAbsoluteConsistency) {
    what = "a wal_recovery_mode that takes writes after lost ones";
  }
  if (what == nullptr) return Status::OK();
  return Status::InvalidArgument(std::string("cairn.ResultCache: survive_power_loss with ") + what,
                                 "leave one of them out");
}

Status MakeCache(const DBOptions& options, const std::string& path, const std::vector<ColumnFamilyDescriptor>& families,
                 DatabaseServices* services) {
  const DatabaseCacheOptions cache = WantedCache(options, services->environment());
  Status s = ValidateDatabaseCacheOptions(cache);
  if (!s.ok() || cache.capacity == 0) return s;
  s = CheckPowerLoss(options, families, cache);
  if (!s.ok()) return s;
  const auto block_cache = cache.charge_to_block_cache ? DefaultBlockCache(families) : nullptr;
  s = CheckCacheCharge(cache, block_cache);
  if (!s.ok()) return s;
  std::unique_ptr<DatabaseCache> made;
  s = DatabaseCache::Create(cache, options.env == nullptr ? rocksdb::Env::Default() : options.env, path, block_cache,
                            &made);
  if (s.ok()) services->SetCache(std::move(made));
  return s;
}

// Of a cache in a file, that the opening tells what has become of the WAL.
void ListenToRecovery(DatabaseCache* cache, DBOptions* options) {
  const bool in_file = cache != nullptr && cache->in_file();
  const bool listens = WalReport::Listen(in_file ? WalReport::Wanted::kYes : WalReport::Wanted::kNo, options);
  if (!in_file) return;
  if (!listens) cache->DistrustFile("the options have a wal_filter");
  if (options->wal_recovery_mode == rocksdb::WALRecoveryMode::kSkipAnyCorruptedRecords) {
    cache->DistrustFile("wal_recovery_mode is kSkipAnyCorruptedRecords");
  }
  if (options->best_efforts_recovery) cache->DistrustFile("best_efforts_recovery is on");
}

void StartCache(rocksdb::DBImpl* db, const std::vector<ColumnFamilyHandle*>& handles, DatabaseCache* cache) {
  const std::shared_ptr<rocksdb::Logger> log = db->GetDBOptions().info_log;
  if (!db->seq_per_batch()) {
    cache->Start(db, log, handles);
  } else {
    cache->NeverStart(
        log, "transactions are visible later than they are written, because write_policy is not WRITE_COMMITTED");
  }
}

// What an open database needs before its user gets it.
Status StartServices(rocksdb::DBImpl* db, DatabaseServices* services, const std::vector<ColumnFamilyHandle*>& handles) {
  Status s;
  if (services->durable() != nullptr) s = services->durable()->Arm(db, handles);
  if (!s.ok()) return s;
  const auto scheduler = TrieScheduler::Attach(db);
  if (scheduler != nullptr) s = scheduler->LoadAll(handles);
  if (s.ok() && services->cache() != nullptr) StartCache(db, handles, services->cache());
  return s;
}

}  // namespace

Status CheckFamily(const DBOptions& options, const ColumnFamilyDescriptor& family) {
  Status s = CheckHashOrder(family.options, family.name);
  if (!s.ok() || !IsTrie(family.options)) return s;
  s = CheckTrieOptions(family.options);
  if (!s.ok()) {
    return Status::InvalidArgument("column family " + family.name, s.getState() == nullptr ? "" : s.getState());
  }
  if (HasListener<TrieListener>(options)) return s;
  return Status::InvalidArgument("column family " + family.name + " is a trie, but nothing would compact it",
                                 "open the database with the listener cairn.TrieCompaction: "
                                 "cairn::UseTrieCompaction(&db_options)");
}

Status CheckParts(const DBOptions& options, const rocksdb::ColumnFamilyOptions& family) {
  rocksdb::ColumnFamilyOptions others = family;
  others.memtable_factory = std::make_shared<rocksdb::SkipListFactory>();
  const bool complete = family.memtable_factory != nullptr && family.table_factory != nullptr;
  if (!complete || UsesCairn(others)) return rocksdb::ValidateOptions(options, family);
  // Of tables in which nothing is Cairn's RocksDB says itself what it refuses, and when.
  return family.memtable_factory->ValidateOptions(options, family);
}

DatabaseCacheOptions WantedCache(const DBOptions& options, const EnvironmentOptions* environment) {
  if (const ResultCacheListener* const given = ResultCacheListener::In(options)) return given->options();
  if (environment != nullptr) return environment->result_cache();
  DatabaseCacheOptions none;
  none.capacity = 0;
  return none;
}

Status CheckCacheCharge(const DatabaseCacheOptions& cache, const std::shared_ptr<rocksdb::Cache>& block_cache) {
  if (!cache.charge_to_block_cache || block_cache != nullptr) return Status::OK();
  return Status::InvalidArgument(
      "cairn.ResultCache: charge_to_block_cache, and the default column family has no block cache",
      "give its table factory one, or leave the option out");
}

std::shared_ptr<rocksdb::Cache> BlockCacheOf(const rocksdb::ColumnFamilyOptions& family) {
  const auto* const table = family.table_factory->GetOptions<rocksdb::BlockBasedTableOptions>();
  return table == nullptr || table->no_block_cache ? nullptr : table->block_cache;
}

Status CheckFamilyOfStockDatabase(const DBOptions& options, const ColumnFamilyDescriptor& family) {
  if (!UsesCairn(family.options)) return Status::OK();
  const Status s = CheckHashOrder(family.options, family.name);
  if (!s.ok()) return s;
  if (IsTrie(family.options)) {
    return Status::InvalidArgument(
        "column family " + family.name + " is a trie, but nothing would compact it",
        "the database was opened without any part of Cairn: close it, and open it with the listener "
        "cairn.TrieCompaction (cairn::UseTrieCompaction(&db_options)), or with this column family among its "
        "descriptors and create_missing_column_families");
  }
  // Memtables and tables that need nothing from the database work in any. Hash order needs one that checks SetOptions.
  if (HashOfComparator(family.options.comparator) == nullptr && !IsDurable({family})) {
    return CheckParts(options, family.options);
  }
  return Status::InvalidArgument(
      "column family " + family.name + " uses parts of Cairn, and the database was opened without any",
      "close it, and open it with this column family among its descriptors and create_missing_column_families");
}

Status OpenDatabase(const DBOptions& options, const std::string& path, const std::vector<ColumnFamilyDescriptor>& given,
                    bool seq_per_batch, const OpenFunction& open, std::vector<ColumnFamilyHandle*>* handles,
                    rocksdb::DB** db) {
  *db = nullptr;
  std::vector<ColumnFamilyDescriptor> families;
  std::shared_ptr<EnvironmentOptions> environment;
  Status s = ResolveFamilies(options, path, path, given, seq_per_batch, &families, &environment);
  if (s.ok() && !IsDurable(families)) s = CheckPool(PoolUse::kWrite, options, path, families);
  if (!s.ok()) return s;
  if (environment == nullptr && !UsesCairn(options, given)) {
    return open(WithLookups(options, /*uses_cairn=*/false), given, handles, db);
  }
  const auto services = std::make_shared<DatabaseServices>();
  services->SetEnvironment(environment);
  const DBOptions with_services = WithServices(options, path, families, services);
  for (size_t i = 0; s.ok() && i < families.size(); ++i) s = CheckFamily(with_services, families[i]);
  if (s.ok()) s = MakeCache(options, path, families, services.get());
  if (s.ok() && IsDurable(families)) {
    std::unique_ptr<DurableWrites> durable;
    s = DurableWrites::Start(options, path, families, &durable);
    if (s.ok()) services->SetDurable(std::move(durable));
  }
  if (!s.ok()) return s;
  services->SetFastWrites(FastWrites::Create(options, seq_per_batch, families));
  DBOptions final_options = with_services;
  if (services->durable() != nullptr) final_options.avoid_flush_during_recovery = false;
  rocksdb::DB* opened = nullptr;
  ListenToRecovery(services->cache(), &final_options);
  {
    WalReport unwanted;
    const WalReport::Scope report(services->cache() == nullptr ? &unwanted : services->cache()->wal_report());
    s = open(final_options, families, handles, &opened);
  }
  if (!s.ok()) return s;
  if (environment != nullptr) environment->NoteOpened(opened->GetDBOptions().info_log.get());
  s = StartServices(rocksdb::static_cast_with_check<rocksdb::DBImpl>(opened), services.get(), *handles);
  if (s.ok()) {
    *db = opened;
    return s;
  }
  for (ColumnFamilyHandle* handle : *handles) opened->DestroyColumnFamilyHandle(handle).PermitUncheckedError();
  handles->clear();
  opened->Close().PermitUncheckedError();
  delete opened;
  return s;
}

DBOptions WithLookups(const DBOptions& options, bool uses_cairn) {
  DBOptions with = options;
  DatabaseLookups::RemoveFrom(&with.listeners);
  if (uses_cairn) with.listeners.insert(with.listeners.begin(), std::make_shared<DatabaseLookups>());
  return with;
}

namespace {

// Which MANIFEST there is, and how much of it.
std::string StateOfManifest(rocksdb::Env* env, const std::string& path) {
  std::string name;
  uint64_t bytes = 0;
  rocksdb::ReadFileToString(env, rocksdb::CurrentFileName(path), &name).PermitUncheckedError();
  env->GetFileSize(path + "/" + name.substr(0, name.find('\n')), &bytes).PermitUncheckedError();
  return name + std::to_string(bytes);
}

}  // namespace

Status OpenWhileWritten(const DBOptions& options, const std::string& path, const std::function<Status()>& open) {
  constexpr int kAttempts = 100;  // where three openings of four fail, as beside a trie of tiny tables
  std::string before;
  Status s;
  for (int i = 0; i < kAttempts; ++i) {
    before = StateOfManifest(options.env, path);
    s = open();
    const bool may_be_gone = s.IsCorruption() || s.IsIOError() || s.IsPathNotFound() || s.IsNotFound();
    if (!may_be_gone || StateOfManifest(options.env, path) == before) return s;
  }
  return Status::TryAgain(path + " is changed by another process faster than it can be opened", s.ToString());
}

Status PrepareForReading(const DBOptions& options, const std::string& path, const std::string& stored,
                         const std::vector<ColumnFamilyDescriptor>& given,
                         std::vector<ColumnFamilyDescriptor>* families,
                         std::shared_ptr<EnvironmentOptions>* environment) {
  Status s = ResolveFamilies(options, path, stored, given, false, families, environment);
  for (size_t i = 0; s.ok() && i < families->size(); ++i) {
    const rocksdb::ColumnFamilyOptions& family = (*families)[i].options;
    s = CheckHashOrder(family, (*families)[i].name);
    if (s.ok() && IsOrdered(family)) s = family.table_factory->ValidateOptions(options, family);
  }
  if (s.ok()) s = CheckPool(PoolUse::kRead, options, stored, *families);
  UsePlainMemory(families);
  return s;
}

Status PrepareRepair(const DBOptions& options, const std::string& path, const rocksdb::ColumnFamilyOptions* unknown,
                     std::vector<ColumnFamilyDescriptor>* families) {
  const Status s = CheckPool(PoolUse::kRepair, options, path, *families);
  if (!s.ok()) return s;
  const StoredOrders orders = FindStoredOrders(options, path, *families);
  ResolveSeeds(orders, unknown, families);
  for (const auto& [name, order] : orders) {
    const rocksdb::ColumnFamilyOptions* given = unknown;
    for (const ColumnFamilyDescriptor& one : *families) {
      if (one.name == name) given = &one.options;
    }
    if (!IsCairnName(order.c_str()) || (given != nullptr && order == given->comparator->Name())) continue;
    return Status::InvalidArgument("RepairDB of " + path,
                                   "column family " + name + " is in the order " + order +
                                       ", which the options do not have: no table of it would be readable again; use "
                                       "`cairn repair " +
                                       path + "`");
  }
  UsePlainMemory(families);
  return s;
}

Status DestroyDatabase(const std::string& path, const rocksdb::Options& options,
                       const std::vector<ColumnFamilyDescriptor>& families) {
  std::vector<ColumnFamilyDescriptor> all = families;
  all.emplace_back(rocksdb::kDefaultColumnFamilyName, options);
  const Status s = DestroyWithPool(options, path, all, [&] { return rocksdb_own::DestroyDB(path, options, families); });
  if (s.ok()) {
    RemoveDatabaseCacheFiles(path);
    options.env->DeleteDir(path).PermitUncheckedError();  // if nothing else is in it, as RocksDB does
  }
  return s;
}

namespace {

class RepairTableFactory : public rocksdb::TableFactory {
 public:
  // One of them is the default one.
  explicit RepairTableFactory(const std::vector<ColumnFamilyDescriptor>& families) {
    for (const ColumnFamilyDescriptor& family : families) {
      families_.emplace(family.name, std::make_shared<Family>(family.options));
    }
    default_ = families_.at(rocksdb::kDefaultColumnFamilyName)->format;
  }

  const char* Name() const override { return "cairn.RepairTables"; }
  const rocksdb::Customizable* Inner() const override { return default_.get(); }

  using rocksdb::TableFactory::NewTableReader;
  Status NewTableReader(const rocksdb::ReadOptions& read_options, const rocksdb::TableReaderOptions& options,
                        std::unique_ptr<rocksdb::RandomAccessFileReader>&& file, uint64_t file_size,
                        std::unique_ptr<rocksdb::TableReader>* reader, bool prefetch) const override {
    std::unique_ptr<rocksdb::TableProperties> properties;
    const Status s = rocksdb::ReadTableProperties(file.get(), file_size, rocksdb::Footer::kNullTableMagicNumber,
                                                  options.ioptions, read_options, &properties);
    const auto found = s.ok() ? families_.find(properties->column_family_name) : families_.end();
    if (found == families_.end()) {
      return default_->NewTableReader(read_options, options, std::move(file), file_size, reader, prefetch);
    }
    return found->second->format->NewTableReader(read_options, port::InOrder(options, found->second->order),
                                                 std::move(file), file_size, reader, prefetch);
  }

  rocksdb::TableBuilder* NewTableBuilder(const rocksdb::TableBuilderOptions& options,
                                         rocksdb::WritableFileWriter* file) const override {
    return default_->NewTableBuilder(options, file);
  }
  std::unique_ptr<rocksdb::TableFactory> Clone() const override { return std::make_unique<RepairTableFactory>(*this); }
  bool IsDeleteRangeSupported() const override { return default_->IsDeleteRangeSupported(); }

 private:
  // Readers refer to its order, and do not outlive the repair's options.
  struct Family {
    explicit Family(const rocksdb::ColumnFamilyOptions& options)
        : format(options.table_factory), order(options.comparator) {}
    const std::shared_ptr<rocksdb::TableFactory> format;
    const rocksdb::InternalKeyComparator order;
  };

  std::map<std::string, std::shared_ptr<const Family>> families_;
  std::shared_ptr<rocksdb::TableFactory> default_;
};

}  // namespace

std::vector<ColumnFamilyDescriptor> ForRepair(const std::vector<ColumnFamilyDescriptor>& families) {
  std::vector<ColumnFamilyDescriptor> result = families;
  for (ColumnFamilyDescriptor& family : result) {
    if (family.name != rocksdb::kDefaultColumnFamilyName) continue;  // without it, RocksDB says that it is missing
    family.options.table_factory = std::make_shared<RepairTableFactory>(families);
  }
  return result;
}

}  // namespace cairn
