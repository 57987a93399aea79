// The status of a database that this process has open.

#include <cairn/silt.h>
#include <cairn/tuner.h>

#include <algorithm>
#include <cstdlib>
#include <utility>

#include "db/cairn_db.h"
#include "db/db_impl/db_impl.h"
#include "memtable_cache/fast_writes.h"
#include "rocksdb/statistics.h"
#include "rocksdb/table.h"
#include "tools/status/reader.h"
#include "trie_table/compaction/trie_files.h"
#include "trie_table/compaction/trie_options.h"
#include "trie_table/compaction/trie_scheduler.h"
#include "util/rocksdb_names.h"

namespace cairn {

using rocksdb::ColumnFamilyData;
using rocksdb::DBImpl;
using rocksdb::InternalStats;

std::string EngineOf(const rocksdb::ColumnFamilyOptions& options, std::optional<TrieOptionText>* trie) {
  trie->reset();
  TrieOptionText shape;
  if (IsSilt(options, nullptr)) return "silt";
  if (IsTrie(options, &shape)) {
    // One that its scheduler refuses may have more levels than its depths.
    const bool valid = shape.in_key_order() ? CheckTrieOptions(options).ok() : ValidateTrieOptions(shape).ok();
    if (!valid) return "unknown";
    *trie = shape;
    return "trie";
  }
  if (IsOrdered(options)) return "ordered";
  switch (options.compaction_style) {
    case rocksdb::kCompactionStyleLevel:
      return "leveled";
    case rocksdb::kCompactionStyleUniversal:
      return "universal";
    case rocksdb::kCompactionStyleFIFO:
      return "fifo";
    case rocksdb::kCompactionStyleNone:
      return "no compaction";
  }
  return "unknown";
}

namespace {

// Of column families. Each is O(1), or walks over the tables without the DB mutex.
const char* const kFamilyProperties[] = {"num-immutable-mem-table",
                                         "mem-table-flush-pending",
                                         "cur-size-active-mem-table",
                                         "cur-size-all-mem-tables",
                                         "num-entries-active-mem-table",
                                         "estimate-num-keys",
                                         "estimate-live-data-size",
                                         "estimate-pending-compaction-bytes",
                                         "compaction-pending",
                                         "num-live-versions",
                                         "num-blob-files",
                                         "live-blob-file-size"};
// Of the database.
const char* const kDatabaseProperties[] = {"num-running-flushes", "num-snapshots", "background-errors"};

// What tries' sketches say costs tens of milliseconds, so it is not asked for more often.
constexpr double kSecondsBetweenEstimates = 5;

class DatabaseReader final : public StatusReader {
 public:
  explicit DatabaseReader(rocksdb::DB* db) : db_(db), impl_(static_cast<DBImpl*>(db->GetRootDB())) {}

  Status Read(StatusSnapshot* snapshot) override {
    *snapshot = StatusSnapshot();
    snapshot->at = static_cast<double>(impl_->GetEnv()->NowMicros()) / 1e6;
    snapshot->database = impl_->GetName();
    snapshot->open = true;
    uint64_t running = 0;
    const std::vector<uint32_t> ids = FamilyIds();
    for (auto estimate = estimates_.begin(); estimate != estimates_.end();) {
      const bool lives = std::find(ids.begin(), ids.end(), estimate->first) != ids.end();
      estimate = lives ? std::next(estimate) : estimates_.erase(estimate);
    }
    for (const uint32_t id : ids) {
      const auto handle = impl_->GetColumnFamilyHandleUnlocked(id);
      if (handle == nullptr) continue;  // dropped meanwhile
      snapshot->families.push_back(ReadFamily(handle.get(), snapshot->at));
      const std::optional<TrieStats>& trie = snapshot->families.back().trie;
      if (trie.has_value()) running += trie->running_compactions;
    }
    ReadDatabase(snapshot);
    uint64_t of_rocksdb = 0;
    // RocksDB's own count, without those of tries that CairnDB adds.
    impl_->DBImpl::GetIntProperty(impl_->DefaultColumnFamily(), "rocksdb.num-running-compactions", &of_rocksdb);
    snapshot->running_compactions = running + of_rocksdb;
    return Status::OK();
  }

 private:
  struct Estimate {
    double at = 0;
    std::optional<TrieStats> trie;
    std::optional<SiltStats> silt;
    std::optional<OrderedStats> ordered;
    std::optional<double> space_amplification;
  };

  std::vector<uint32_t> FamilyIds() const {
    std::vector<uint32_t> ids;
    rocksdb::InstrumentedMutexLock lock(impl_->mutex());
    for (ColumnFamilyData* family : *impl_->GetVersionSet()->GetColumnFamilySet()) {
      if (!family->IsDropped() && family->initialized()) ids.push_back(family->GetID());
    }
    return ids;
  }

  void ReadDatabase(StatusSnapshot* snapshot) const {
    std::map<std::string, std::string> stats;
    impl_->GetMapProperty(impl_->DefaultColumnFamily(), rocksdb::DB::Properties::kDBStats, &stats);
    const auto number = [&stats](const char* name) { return strtod(stats[name].c_str(), nullptr); };
    snapshot->uptime_seconds = number("db.uptime");
    snapshot->user_bytes = static_cast<uint64_t>(number("db.user_bytes_written"));
    snapshot->user_keys = static_cast<uint64_t>(number("db.user_keys_written"));
    snapshot->wal_bytes = static_cast<uint64_t>(number("db.wal_bytes_written"));
    snapshot->stall_seconds = number("db.user_write_stall_micros") / 1e6;
    uint64_t value = 0;
    if (impl_->GetIntProperty("rocksdb.actual-delayed-write-rate", &value)) snapshot->throttled_rate = value;
    snapshot->writers = ReadWriters();
    if (impl_->GetIntProperty("rocksdb.is-write-stopped", &value)) snapshot->writes_stopped = value != 0;
    for (const char* name : kDatabaseProperties) {
      if (impl_->GetIntProperty("rocksdb." + std::string(name), &value)) snapshot->properties[name] = value;
    }
    ReadStatistics(snapshot);
  }

  void ReadStatistics(StatusSnapshot* snapshot) const {
    const std::shared_ptr<rocksdb::Statistics> statistics = impl_->immutable_db_options().statistics;
    if (statistics == nullptr) {
      snapshot->not_seen.emplace_back(
          "Reads per second, hits of the caches and latencies: the database was opened without options.statistics.");
      return;
    }
    snapshot->tickers.emplace();
    for (const auto& [ticker, name] : rocksdb::TickersNameMap) {
      (*snapshot->tickers)[name] = statistics->getTickerCount(ticker);
    }
    for (const auto& [histogram, name] : rocksdb::HistogramsNameMap) {
      rocksdb::HistogramData data;
      statistics->histogramData(histogram, &data);
      if (data.count == 0) continue;
      snapshot->histograms[name] = {data.median, data.percentile95, data.percentile99, static_cast<double>(data.sum),
                                    data.count};
    }
  }

  FamilyStatus ReadFamily(ColumnFamilyHandle* handle, double now) {
    FamilyStatus family;
    family.id = handle->GetID();
    family.name = handle->GetName();
    const rocksdb::Options options = db_->GetOptions(handle);
    std::optional<TrieOptionText> trie;
    family.engine = EngineOf(options, &trie);
    if (options.memtable_factory != nullptr) family.memtable = options.memtable_factory->Name();
    if (options.table_factory != nullptr) family.table = options.table_factory->Name();
    for (const char* name : kFamilyProperties) {
      uint64_t value = 0;
      if (impl_->GetIntProperty(handle, "rocksdb." + std::string(name), &value)) family.properties[name] = value;
    }
    ReadTables(handle, trie, &family);
    ReadMemory(handle, options, &family);
    ReadEstimates(handle, now, &family);
    TunerReport report;
    if (GetTunerReport(db_, handle, &report)) {
      family.tuner_log = report.log;
      family.tuner = std::move(report);
    }
    SubMemTableStats memtable;
    if (options.memtable_factory != nullptr && GetSubMemTableStats(*options.memtable_factory, &memtable).ok()) {
      family.sub_memtable = memtable;
    }
    return family;
  }

  // The picture, and what was written since the database was opened.
  void ReadTables(ColumnFamilyHandle* handle, const std::optional<TrieOptionText>& trie, FamilyStatus* family) const {
    const std::unique_ptr<HeldVersion> version = HeldVersion::Current(impl_, family->id);
    if (version == nullptr) return;
    const std::vector<HeldVersion::File> files = version->Files();
    std::vector<PictureFile> pictured(files.size());
    FamilyTotals totals;
    {
      // Which tables are being compacted, and RocksDB's counters, are guarded by the DB mutex; all else is not.
      rocksdb::InstrumentedMutexLock lock(impl_->mutex());
      for (size_t i = 0; i < files.size(); ++i) pictured[i].compacting = files[i].meta->being_compacted;
      InternalStats* const stats = static_cast<rocksdb::ColumnFamilyHandleImpl*>(handle)->cfd()->internal_stats();
      const uint64_t* const counters = stats->TEST_GetCFStatsValue();
      const uint64_t flushed = counters[InternalStats::BYTES_FLUSHED];
      totals.flushed_bytes = flushed + counters[InternalStats::BYTES_INGESTED_ADD_FILE];
      uint64_t written = 0;
      for (const InternalStats::CompactionStats& level : stats->TEST_GetCompactionStats()) {
        written += level.bytes_written + level.bytes_written_blob;
        totals.compaction_read_bytes +=
            level.bytes_read_non_output_levels + level.bytes_read_output_level + level.bytes_read_blob;
      }
      // Flushes count as written to level 0.
      totals.compaction_written_bytes = written > flushed ? written - flushed : 0;
    }
    std::vector<TrieFile> tables;
    for (size_t i = 0; i < files.size(); ++i) {
      pictured[i].number = files[i].number();
      pictured[i].level = files[i].level;
      pictured[i].bytes = files[i].meta->fd.GetFileSize();
      if (trie.has_value()) tables.push_back(HeldVersion::MetadataOf(files[i]));
    }
    family->picture = trie.has_value() ? MakeTriePicture(std::move(pictured), tables, *trie, handle->GetComparator())
                                       : MakePicture(pictured);
    if (totals.flushed_bytes > 0) {
      family->write_amplification =
          1 + static_cast<double>(totals.compaction_written_bytes) / static_cast<double>(totals.flushed_bytes);
    }
    family->totals = totals;
  }

  std::optional<WriterTotals> ReadWriters() const {
    CairnDB* const ours = CairnDB::Of(impl_);
    const FastWrites* const writes = ours == nullptr ? nullptr : ours->services()->fast_writes();
    if (writes == nullptr) return std::nullopt;
    const FastWrites::Counts counts = writes->counts();
    const WriteGate::Counts gate = writes->gate_counts();
    WriterTotals totals{counts.writes, counts.waits, {}, gate.closings, static_cast<double>(gate.closed_nanos) / 1e9};
    for (size_t i = FastWrites::kNone + 1; i < FastWrites::kReasons; ++i) {
      totals.queued[FastWrites::NameOf(static_cast<FastWrites::Reason>(i))] = counts.others[i];
    }
    return totals;
  }

  void ReadMemory(ColumnFamilyHandle* handle, const rocksdb::Options& options, FamilyStatus* family) const {
    FamilyMemory memory;
    impl_->GetIntProperty(handle, rocksdb::DB::Properties::kSizeAllMemTables, &memory.memtables);
    impl_->GetIntProperty(handle, rocksdb::DB::Properties::kEstimateTableReadersMem, &memory.table_readers);
    impl_->GetIntProperty(handle, rocksdb::DB::Properties::kBlockCacheUsage, &memory.block_cache);
    impl_->GetIntProperty(handle, rocksdb::DB::Properties::kBlockCacheCapacity, &memory.block_cache_capacity);
    impl_->GetIntProperty(handle, rocksdb::DB::Properties::kBlockCachePinnedUsage, &memory.block_cache_pinned);
    if (options.table_factory != nullptr) {
      memory.cache_identity =
          options.table_factory->GetOptions<rocksdb::Cache>(rocksdb::TableFactory::kBlockCacheOpts());
    }
    family->memory = memory;
  }

  void ReadEstimates(ColumnFamilyHandle* handle, double now, FamilyStatus* family) {
    Estimate& estimate = estimates_[family->id];
    if (estimate.at == 0 || now < estimate.at || now - estimate.at >= kSecondsBetweenEstimates) {
      estimate = Estimate();
      estimate.at = now;
      MakeEstimate(handle, *family, &estimate);
    }
    family->trie = estimate.trie;
    const auto scheduler = family->trie.has_value() ? TrieScheduler::Find(db_) : nullptr;
    if (scheduler != nullptr) family->trie->running_compactions = scheduler->GetActivity(family->id).running;
    family->silt = estimate.silt;
    family->ordered = estimate.ordered;
    if (family->trie.has_value()) {
      family->properties.erase("estimate-live-data-size");  // it knows nothing of slots; the trie's sketches do
      family->described_tables = family->picture.files;
      if (family->trie->space_amplification > 0) family->space_amplification = family->trie->space_amplification;
      if (family->trie->flushed_bytes > 0) family->write_amplification = family->trie->write_amplification;
      if (!family->picture.depths.empty()) family->picture.depths[0].full_slots = family->trie->root_due_files;
      return;
    }
    if (family->silt.has_value() && family->silt->flushed_bytes > 0) {
      family->write_amplification =
          1 + static_cast<double>(family->silt->compacted_bytes) / static_cast<double>(family->silt->flushed_bytes);
    }
    const auto live = family->properties.find("estimate-live-data-size");
    if (live != family->properties.end() && live->second > 0) {
      family->space_amplification = static_cast<double>(family->picture.bytes) / static_cast<double>(live->second);
    }
  }

  void MakeEstimate(ColumnFamilyHandle* handle, const FamilyStatus& family, Estimate* estimate) const {
    TrieStats trie;
    if (family.engine == "trie" && GetTrieStats(db_, handle, &trie).ok()) estimate->trie = std::move(trie);
    SiltStats silt;
    if (family.engine == "silt" && GetSiltStats(db_, handle, &silt).ok()) estimate->silt = std::move(silt);
    OrderedStats ordered;
    const bool may_be_ordered = family.engine == "ordered" || family.engine == "trie";
    if (may_be_ordered && GetOrderedStats(db_, handle, &ordered).ok()) estimate->ordered = ordered;
  }

  rocksdb::DB* const db_;
  DBImpl* const impl_;
  std::map<uint32_t, Estimate> estimates_;  // by column family
};

}  // namespace

std::unique_ptr<StatusReader> NewDatabaseReader(rocksdb::DB* db) { return std::make_unique<DatabaseReader>(db); }

}  // namespace cairn
