// The status of a database that any process, or none, has open.

#include <fcntl.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <map>
#include <memory>
#include <optional>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "file/filename.h"
#include "file/random_access_file_reader.h"
#include "options/cf_options.h"
#include "rocksdb/comparator.h"
#include "rocksdb/convenience.h"
#include "rocksdb/env.h"
#include "rocksdb/file_system.h"
#include "rocksdb/table_properties.h"
#include "rocksdb/utilities/options_util.h"
#include "table/format.h"
#include "table/meta_blocks.h"
#include "table/written_totals.h"
#include "tools/status/log_follower.h"
#include "tools/status/manifest_follower.h"
#include "tools/status/reader.h"
#include "trie_table/compaction/trie_file.h"
#include "trie_table/compaction/trie_files.h"
#include "trie_table/compaction/trie_options.h"
#include "trie_table/compaction/trie_plan.h"
#include "util/rocksdb_names.h"

namespace cairn {

namespace {

// Where a table of a trie lies; `file` has what else is known of it.
TrieFile WithKeys(uint64_t number, const ManifestTable& table, TrieFile file) {
  file.number = number;
  file.level = table.level;
  file.epoch = table.epoch;
  file.smallest = table.smallest;
  file.largest = table.largest;
  file.largest_excluded = table.largest_excluded;
  return file;
}

// The MANIFEST may be replaced between the reading of CURRENT and its opening.
constexpr int kAttempts = 5;
// Longest that one Read opens tables for; the others follow in later calls.
constexpr std::chrono::milliseconds kDescribeTime(700);

// Whether somebody holds a lock on `file`, and the process that does (0: not visible from here). Nothing: unknown.
std::optional<int64_t> HolderOf(const std::string& file, bool* held) {
  const int descriptor = open(file.c_str(), O_RDONLY | O_CLOEXEC);
  *held = false;
  if (descriptor < 0) return std::nullopt;
  struct flock lock = {};
  lock.l_type = F_WRLCK;
  lock.l_whence = SEEK_SET;
  const bool asked = fcntl(descriptor, F_GETLK, &lock) == 0;
  close(descriptor);
  if (!asked) return std::nullopt;
  *held = lock.l_type != F_UNLCK;
  return *held ? static_cast<int64_t>(lock.l_pid) : 0;
}

class FilesReader final : public StatusReader {
 public:
  // Reads the MANIFEST once. NotFound when there is no database at `path`.
  static Status Open(const std::string& path, std::unique_ptr<StatusReader>* reader) {
    std::unique_ptr<FilesReader> result(new FilesReader(path));
    const Status s = result->FollowManifest();
    if (s.ok()) *reader = std::move(result);
    return s;
  }

  Status Read(StatusSnapshot* snapshot) override {
    *snapshot = StatusSnapshot();
    snapshot->source = StatusSource::kFiles;
    snapshot->database = path_;
    const Status s = FollowManifest();
    if (!s.ok()) return s;
    ReadOptions();
    log_status_ = log_->Follow();
    if (log_status_.ok() && info_log_level_ > rocksdb::INFO_LEVEL) {
      log_status_ = Status::NotSupported("info_log_level keeps them out of the LOG", "it would have to be INFO_LEVEL");
    }
    // Not before what the LOG tells of.
    snapshot->at = static_cast<double>(rocksdb::Env::Default()->NowMicros()) / 1e6;
    ReadOwner(snapshot);
    ReadRunning(snapshot);
    for (auto trie = tries_.begin(); trie != tries_.end();) {
      trie = manifest_.families().count(trie->first) != 0 ? std::next(trie) : tries_.erase(trie);
    }
    std::set<uint64_t> compacting;
    if (snapshot->open.value_or(true)) {
      for (const auto& [number, job] : log_->running()) compacting.insert(job.files.begin(), job.files.end());
    }
    for (const auto& [id, tables] : manifest_.families()) {
      snapshot->families.push_back(ReadFamily(id, tables, compacting));
    }
    snapshot->stats_dump = log_->stats_dump();
    snapshot->not_seen.emplace_back(
        "Memory, reads, writes in the memtables, and RocksDB's counters: only the process that has the database open "
        "knows them. cairn::ServeStatus (cairn/status.h) shows them from within it.");
    if (!log_status_.ok()) {
      snapshot->not_seen.emplace_back("Flushes and compactions: " + log_status_.ToString());
    }
    if (!options_status_.ok()) {
      snapshot->not_seen.emplace_back("The engines: the OPTIONS file cannot be read: " + options_status_.ToString());
    }
    return s;
  }

  std::vector<StatusSample> TakePast() override {
    return log_ == nullptr ? std::vector<StatusSample>() : log_->TakePast();
  }

 private:
  // What OPTIONS says of a column family.
  struct FamilyOptions {
    std::string engine = "unknown";
    std::string memtable;
    std::string table;
    std::optional<TrieOptionText> trie;
    const rocksdb::Comparator* comparator = nullptr;
    uint64_t write_buffer_bytes = 0;
  };
  // What a table of a trie says of itself; it never changes.
  struct Described {
    TrieFile file;                             // sketch and bytes only
    rocksdb::UserCollectedProperties written;  // those of table/written_totals.h
  };
  struct TrieFamily {
    std::map<uint64_t, Described> described;  // by file number
    uint64_t version = UINT64_MAX;            // of the tables when `stats` was made
    size_t described_then = 0;
    TrieStats stats;
  };

  explicit FilesReader(const std::string& path) : path_(path), manifest_(path) {}

  Status FollowManifest() {
    Status s;
    for (int attempt = 0; attempt < kAttempts; ++attempt) {
      s = manifest_.Follow();
      if (!s.IsTryAgain()) break;
    }
    return s;
  }

  void ReadOptions() {
    std::string name;
    rocksdb::Env* const env = rocksdb::Env::Default();
    options_status_ = rocksdb::GetLatestOptionsFileName(path_, env, &name);
    if (options_status_.ok() && name == options_file_) return;
    rocksdb::DBOptions options;
    std::vector<rocksdb::ColumnFamilyDescriptor> families;
    if (options_status_.ok()) {
      rocksdb::ConfigOptions config;
      config.ignore_unknown_options = true;
      options_status_ = rocksdb::LoadOptionsFromFile(config, path_ + "/" + name, &options, &families);
    }
    if (options_status_.ok()) {
      options_file_ = name;
      info_log_level_ = options.info_log_level;
      options_.clear();
      for (const rocksdb::ColumnFamilyDescriptor& family : families) {
        FamilyOptions& read = options_[family.name];
        read.engine = EngineOf(family.options, &read.trie);
        read.comparator = family.options.comparator;
        read.write_buffer_bytes = family.options.write_buffer_size;
        if (family.options.memtable_factory != nullptr) read.memtable = family.options.memtable_factory->Name();
        if (family.options.table_factory != nullptr) read.table = family.options.table_factory->Name();
      }
    }
    if (log_ != nullptr) return;
    std::string absolute = path_;
    env->GetAbsolutePath(path_, &absolute).PermitUncheckedError();
    log_ = std::make_unique<LogFollower>(rocksdb::InfoLogFileName(path_, absolute, options.db_log_dir));
  }

  void ReadOwner(StatusSnapshot* snapshot) const {
    bool held = false;
    const std::optional<int64_t> holder = HolderOf(path_ + "/LOCK", &held);
    if (!holder.has_value()) return;
    snapshot->open = held;
    if (*holder > 0) snapshot->process = *holder;
  }

  void ReadRunning(StatusSnapshot* snapshot) const {
    if (!log_status_.ok()) return;
    snapshot->running.emplace();
    snapshot->running_compactions = 0;
    if (!snapshot->open.value_or(true)) return;
    for (const auto& [number, job] : log_->running()) {
      if (!HasAnyOf(job.files)) continue;  // it ended, and the LOG that says so was not read
      RunningCompaction running;
      running.column_family = job.column_family;
      running.reason = job.reason;
      running.files = job.files.size();
      running.bytes = job.bytes;
      running.levels = job.levels;
      std::sort(running.levels.begin(), running.levels.end());
      running.started_at = job.started_at;
      snapshot->running->push_back(std::move(running));
    }
    snapshot->running_compactions = snapshot->running->size();
  }

  bool HasAnyOf(const std::set<uint64_t>& files) const {
    for (const auto& [id, family] : manifest_.families()) {
      const auto has = [&tables = family.tables](uint64_t number) { return tables.count(number) != 0; };
      if (std::any_of(files.begin(), files.end(), has)) return true;
    }
    return false;
  }

  FamilyStatus ReadFamily(uint32_t id, const ManifestFamily& tables, const std::set<uint64_t>& compacting) {
    FamilyStatus family;
    family.id = id;
    family.name = tables.name;
    FamilyOptions options = options_[tables.name];
    family.engine = options.engine;
    family.memtable = options.memtable;
    family.table = options.table;
    // A comparator that this program does not have: it cannot say which tables lie over one another.
    if (options.trie.has_value() && options.trie->in_key_order() && options.comparator->Name() != tables.comparator) {
      options.trie.reset();
    }
    std::vector<PictureFile> files;
    std::vector<TrieFile> with_keys;
    for (const auto& [number, table] : tables.tables) {
      PictureFile file;
      file.number = number;
      file.level = table.level;
      file.bytes = table.bytes;
      file.compacting = compacting.count(number) != 0;
      files.push_back(file);
      if (options.trie.has_value()) with_keys.push_back(WithKeys(number, table, TrieFile()));
    }
    family.picture = options.trie.has_value()
                         ? MakeTriePicture(std::move(files), with_keys, *options.trie, options.comparator)
                         : MakePicture(files);
    if (options.trie.has_value()) ReadTrie(options, tables, &tries_[id], &family);
    const auto log = log_->tuner_log().find(tables.name);
    if (log != log_->tuner_log().end()) family.tuner_log = log->second;
    // What the LOG tells of a flush does not name its column family.
    if (manifest_.families().size() == 1 && log_status_.ok()) {
      family.totals = log_->totals();
      if (!family.trie.has_value() && family.totals->flushed_bytes > 0) {
        family.write_amplification = 1 + static_cast<double>(family.totals->compaction_written_bytes) /
                                             static_cast<double>(family.totals->flushed_bytes);
      }
    }
    return family;
  }

  void ReadTrie(const FamilyOptions& options, const ManifestFamily& tables, TrieFamily* state, FamilyStatus* family) {
    // Tables that are gone.
    for (auto known = state->described.begin(); known != state->described.end();) {
      known = tables.tables.count(known->first) != 0 ? std::next(known) : state->described.erase(known);
    }
    const auto end = std::chrono::steady_clock::now() + kDescribeTime;
    for (const auto& [number, table] : tables.tables) {
      if (state->described.count(number) != 0) continue;
      if (std::chrono::steady_clock::now() > end) break;
      Described described;
      if (Describe(number, table.bytes, &described).ok()) state->described.emplace(number, std::move(described));
    }
    family->described_tables = state->described.size();
    if (state->version != tables.version || state->described_then != state->described.size()) {
      FillStats(options, tables, state);
      state->version = tables.version;
      state->described_then = state->described.size();
    }
    family->trie = state->stats;
    if (!family->picture.depths.empty()) family->picture.depths[0].full_slots = state->stats.root_due_files;
    // Estimates from some of the tables would mislead.
    if (family->described_tables < tables.tables.size()) return;
    if (state->stats.space_amplification > 0) family->space_amplification = state->stats.space_amplification;
    if (state->stats.flushed_bytes > 0) family->write_amplification = state->stats.write_amplification;
  }

  static void FillStats(const FamilyOptions& options, const ManifestFamily& tables, TrieFamily* state) {
    const std::unique_ptr<TriePlan> plan =
        NewTriePlan(*options.trie, {tables.name, options.comparator, options.write_buffer_bytes, LastOfAll::kUsed, ""});
    WrittenTotalsReader written;
    for (const auto& [number, table] : tables.tables) {
      if (table.level >= TrieLevels(*options.trie)) continue;  // OPTIONS of another opening
      TrieFile file;
      file.bytes = file.data_bytes = table.bytes;
      const auto known = state->described.find(number);
      if (known != state->described.end()) {
        file = known->second.file;
        written.Add(known->second.written, table.bytes, table.level == 0);
      }
      plan->Add(WithKeys(number, table, std::move(file)));
    }
    WrittenTotals totals;
    written.RaiseTotals(&totals);
    state->stats = TrieStats();
    state->stats.column_family = tables.name;
    plan->FillStats(totals, &state->stats);
  }

  Status Describe(uint64_t number, uint64_t bytes, Described* described) const {
    const std::string name = rocksdb::MakeTableFileName(path_, number);
    std::unique_ptr<rocksdb::FSRandomAccessFile> file;
    Status s = rocksdb::FileSystem::Default()->NewRandomAccessFile(name, rocksdb::FileOptions(), &file, nullptr);
    if (!s.ok()) return s;
    rocksdb::RandomAccessFileReader reader(std::move(file), name);
    const rocksdb::ImmutableOptions immutable;
    std::unique_ptr<rocksdb::TableProperties> properties;
    s = rocksdb::ReadTableProperties(&reader, bytes, rocksdb::Footer::kNullTableMagicNumber, immutable,
                                     rocksdb::ReadOptions(), &properties);
    if (!s.ok()) return s;
    described->file.bytes = bytes;
    DescribeFile(*properties, &described->file);
    const auto written = properties->user_collected_properties.find(kWrittenProperty);
    if (written != properties->user_collected_properties.end()) described->written.insert(*written);
    return s;
  }

  const std::string path_;
  ManifestFollower manifest_;
  std::unique_ptr<LogFollower> log_;  // null before the first Read
  Status log_status_;                 // not OK: the LOG does not tell of flushes and compactions
  rocksdb::InfoLogLevel info_log_level_ = rocksdb::INFO_LEVEL;
  std::string options_file_;  // that was read last
  Status options_status_;
  std::map<std::string, FamilyOptions> options_;  // by column family
  std::map<uint32_t, TrieFamily> tries_;
};

}  // namespace

Status OpenFilesReader(const std::string& path, std::unique_ptr<StatusReader>* reader) {
  return FilesReader::Open(path, reader);
}

}  // namespace cairn
