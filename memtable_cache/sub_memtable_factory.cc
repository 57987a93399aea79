#include "memtable_cache/sub_memtable_factory.h"

#include <optional>
#include <utility>

#include "memtable_cache/area_backing.h"
#include "memtable_cache/durable_backing.h"
#include "memtable_cache/sub_memtable.h"
#include "rocksdb/env.h"
#include "rocksdb/utilities/options_type.h"
#include "util/option_text.h"
#include "util/stats_text.h"

namespace cairn {

namespace {

using rocksdb::OptionType;
using rocksdb::Status;

const OptionTypes& SubMemTableOptionTypes() {
  static const SubMemTableOptions* const defaults = new SubMemTableOptions();
  static const OptionTypes all = {
      {"segment_size", {offsetof(SubMemTableOptions, segment_size), OptionType::kUInt64T}},
      {"pool_size", {offsetof(SubMemTableOptions, pool_size), OptionType::kUInt64T}},
      {"copy_on_seal", {offsetof(SubMemTableOptions, copy_on_seal), OptionType::kBoolean}},
      {"durable", {offsetof(SubMemTableOptions, durable), OptionType::kBoolean}},
      {"pool_file", AnyTextOption(offsetof(SubMemTableOptions, pool_file))},
      {"pool_file_limit", {offsetof(SubMemTableOptions, pool_file_limit), OptionType::kUInt64T}},
      {"locked_cache", {offsetof(SubMemTableOptions, locked_cache), OptionType::kUInt64T}},
      {"resctrl_root", AnyTextOption(offsetof(SubMemTableOptions, resctrl_root))},
      {"queueless_writes", {offsetof(SubMemTableOptions, queueless_writes), OptionType::kBoolean}},
      {"require_persistent_memory", {offsetof(SubMemTableOptions, require_persistent_memory), OptionType::kBoolean}}};
  static const auto* types = new OptionTypes(WithoutDefaults(all, defaults));
  return *types;
}

// Of the pool file, to work in; 0: full segments stay where they are.
uint64_t AreaInFile(const SubMemTableOptions& options) {
  return options.durable && options.copy_on_seal ? options.locked_cache : 0;
}

}  // namespace

Status ValidateSubMemTableOptions(const SubMemTableOptions& options) {
  const uint64_t size = options.segment_size;
  if (size < SegmentPool::kGrain || size > Backing::kRegionBytes || (size & (size - 1)) != 0) {
    return Status::InvalidArgument("sub-MemTable option segment_size is " + std::to_string(size),
                                   "it may be a power of two from 4K to 2M");
  }
  uint64_t least = 2 * Backing::kSpareBytes;
  if (AreaInFile(options) != 0) least += AreaInFile(options) + Backing::kRegionBytes;
  if (options.pool_file_limit != 0 && options.pool_file_limit < least) {
    return Status::InvalidArgument("sub-MemTable option pool_file_limit is " + std::to_string(options.pool_file_limit),
                                   "it may be 0, or at least " + std::to_string(least));
  }
  return Status::OK();
}

std::shared_ptr<rocksdb::MemTableRepFactory> NewSubMemTableFactory(const SubMemTableOptions& options) {
  return std::make_shared<SubMemTableFactory>(options);
}

void PreferSubMemTables(rocksdb::ColumnFamilyOptions* options, const SubMemTableOptions& sub) {
  const auto& chosen = options->memtable_factory;
  if (chosen == nullptr || !chosen->IsInstanceOf(rocksdb::SkipListFactory::kClassName())) return;
  options->memtable_factory = NewSubMemTableFactory(sub);
}

Status GetSubMemTableStats(const rocksdb::MemTableRepFactory& factory, SubMemTableStats* stats) {
  const auto* ours = factory.CheckedCast<SubMemTableFactory>();
  if (ours == nullptr) {
    return Status::NotSupported(std::string("memtables of ") + factory.Name(), "have no pool of sub-MemTables");
  }
  const std::shared_ptr<SegmentPool> shared = ours->pool(nullptr);
  const SegmentPool::Stats pool = shared->GetStats();
  stats->backing = shared->backing()->Report();
  stats->claimed_bytes = pool.claimed_bytes;
  stats->copied_bytes = pool.copied_bytes;
  stats->free_bytes = pool.free_bytes;
  stats->claims = pool.claims;
  stats->misses = pool.misses;
  stats->sorting_bytes = pool.sorting_bytes;
  stats->most_sorting_bytes = pool.most_sorting_bytes;
  return Status::OK();
}

std::string SubMemTableStatsToTable(const SubMemTableStats& stats) {
  return "memtables: " + BytesText(stats.claimed_bytes + stats.copied_bytes) + " in use, " +
         BytesText(stats.free_bytes) + " free, " + std::to_string(stats.claims) + " segments claimed, " +
         std::to_string(stats.misses) + " misses, sorting took " + BytesText(stats.most_sorting_bytes) + " at most; " +
         stats.backing + "\n";
}

SubMemTableFactory::SubMemTableFactory(const SubMemTableOptions& options) : options_(options) {
  RegisterOptions(kOptionsName(), &options_, &SubMemTableOptionTypes());
}

Status SubMemTableFactory::PrepareOptions(const rocksdb::ConfigOptions& config) {
  const Status s = ValidateSubMemTableOptions(options_);
  return s.ok() ? MemTableRepFactory::PrepareOptions(config) : s;
}

Status SubMemTableFactory::ValidateOptions(const rocksdb::DBOptions& db_options,
                                           const rocksdb::ColumnFamilyOptions& family_options) const {
  {
    const MutexLock lock(&mutex_);
    if (options_.durable && durable_pool_ == nullptr) {
      return Status::InvalidArgument("cairn.SubMemTable with durable=true",
                                     "needs a pool file, which opening the database gives it; or turn durable off");
    }
  }
  return MemTableRepFactory::ValidateOptions(db_options, family_options);
}

bool SubMemTableFactory::GetDurableSettings(DurableSettings* settings) const {
  settings->path = options_.pool_file;
  settings->bytes = Backing::kRegionBytes;
  settings->require_persistent_memory = options_.require_persistent_memory;
  settings->locked_cache = options_.locked_cache;
  return options_.durable;
}

bool SubMemTableFactory::HasPool() const {
  const MutexLock lock(&mutex_);
  return durable_pool_ != nullptr;
}

bool SubMemTableFactory::UsePool(const std::shared_ptr<DurablePool>& pool) {
  const MutexLock lock(&mutex_);
  if (durable_pool_ != nullptr) return durable_pool_ == pool;
  durable_pool_ = pool;
  pool_ = nullptr;
  return true;
}

void SubMemTableFactory::LeavePool() {
  const MutexLock lock(&mutex_);
  durable_pool_ = nullptr;
  pool_ = nullptr;
}

std::shared_ptr<rocksdb::MemTableRepFactory> SubMemTableFactory::InPlainMemory() const {
  SubMemTableOptions options = options_;
  options.durable = false;
  options.locked_cache = 0;
  return NewSubMemTableFactory(options);
}

rocksdb::MemTableRep* SubMemTableFactory::CreateMemTableRep(const rocksdb::MemTableRep::KeyComparator& comparator,
                                                            rocksdb::Allocator* allocator,
                                                            const rocksdb::SliceTransform* transform,
                                                            rocksdb::Logger* logger) {
  return CreateMemTableRep(comparator, allocator, transform, logger, 0);
}

rocksdb::MemTableRep* SubMemTableFactory::CreateMemTableRep(const rocksdb::MemTableRep::KeyComparator& comparator,
                                                            rocksdb::Allocator* allocator,
                                                            const rocksdb::SliceTransform* /*transform*/,
                                                            rocksdb::Logger* logger, uint32_t column_family) {
  return new SubMemTable(options_, pool(logger), comparator, allocator, column_family);
}

std::unique_ptr<Backing> SubMemTableFactory::MakeBacking() const {
  std::unique_ptr<CacheReservation> cache;
  const bool in_file = durable_pool_ != nullptr;
  if (options_.locked_cache != 0 && in_file == options_.durable) {
    ResctrlOptions wanted;
    wanted.root = options_.resctrl_root;
    wanted.bytes = options_.locked_cache;
    cache = CacheReservation::Acquire(wanted);
  }
  if (in_file) {
    return NewDurableBacking(durable_pool_, options_.pool_file_limit, AreaInFile(options_), std::move(cache));
  }
  if (cache == nullptr && !options_.copy_on_seal) return NewPlainBacking();
  std::optional<uint64_t> area_bytes;
  if (options_.copy_on_seal) area_bytes = options_.locked_cache != 0 ? options_.locked_cache : options_.pool_size;
  return NewAreaBacking(std::move(cache), area_bytes);
}

std::shared_ptr<SegmentPool> SubMemTableFactory::pool(rocksdb::Logger* logger) const {
  const MutexLock lock(&mutex_);
  if (pool_ == nullptr && durable_pool_ != nullptr) {
    pool_ = durable_pool_->SharedCutter([&]() CAIRN_REQUIRES(mutex_) { return MakePool(logger); });
  } else if (pool_ == nullptr) {
    pool_ = MakePool(logger);
  }
  return pool_;
}

std::shared_ptr<SegmentPool> SubMemTableFactory::MakePool(rocksdb::Logger* logger) const {
  std::unique_ptr<Backing> backing = MakeBacking();
  rocksdb::Info(logger, "cairn.SubMemTable: segments of %llu bytes in %s",
                static_cast<unsigned long long>(options_.segment_size), backing->Report().c_str());
  return std::make_shared<SegmentPool>(std::move(backing), options_.pool_size);
}

}  // namespace cairn
