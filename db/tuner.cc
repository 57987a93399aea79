#include "cairn/tuner.h"

#include <algorithm>
#include <chrono>
#include <condition_variable>
#include <cstdio>
#include <map>
#include <mutex>
#include <thread>
#include <unordered_map>

#include "db/tuner.h"
#include "db/tuner_logic.h"

namespace cairn {

namespace {

double Now() { return std::chrono::duration<double>(std::chrono::steady_clock::now().time_since_epoch()).count(); }

using OptionMap = std::unordered_map<std::string, std::string>;

// What the options say of level sizes, in the form that SetOptions takes.
OptionMap LevelOptions(const rocksdb::Options& options) {
  std::string additional;
  for (int factor : options.max_bytes_for_level_multiplier_additional) {
    additional += (additional.empty() ? "" : ":") + std::to_string(factor);
  }
  char multiplier[40];
  snprintf(multiplier, sizeof(multiplier), "%.17g", options.max_bytes_for_level_multiplier);
  return {{"max_bytes_for_level_base", std::to_string(options.max_bytes_for_level_base)},
          {"max_bytes_for_level_multiplier", multiplier},
          {"max_bytes_for_level_multiplier_additional", additional}};
}

msls::FilePick PickOf(rocksdb::CompactionPri pri) {
  msls::FilePick pick = msls::FilePick::kMinOverlappingRatio;
  switch (pri) {
    case rocksdb::kByCompensatedSize:
      return msls::FilePick::kByCompensatedSize;
    case rocksdb::kOldestLargestSeqFirst:
      return msls::FilePick::kOldestLargestSeqFirst;
    case rocksdb::kOldestSmallestSeqFirst:
      return msls::FilePick::kOldestSmallestSeqFirst;
    case rocksdb::kRoundRobin:
      return msls::FilePick::kRoundRobin;
    default:
      return pick;
  }
}

}  // namespace

// The tuner of one database: counters that listeners fill, and a thread that looks when a window is full.
class TunedDatabase {
 public:
  TunedDatabase(rocksdb::DB* db, const TunerOptions& options)
      : db_(db), handle_(db->DefaultColumnFamily()), options_(options), logic_(options), thread_([this] { Work(); }) {}
  ~TunedDatabase() { Stop(); }

  rocksdb::ColumnFamilyHandle* handle() const { return handle_; }

  void Flushed(uint64_t writes, uint64_t distinct, uint64_t bytes) {
    std::lock_guard<std::mutex> lock(mutex_);
    window_.flushes++;
    window_.writes += writes;
    window_.distinct += distinct;
    window_.flush_bytes += bytes;
    if (window_.flushes >= options_.window_flushes) wake_.notify_one();
  }

  void Compacted(uint64_t bytes) {
    std::lock_guard<std::mutex> lock(mutex_);
    window_.compaction_bytes += bytes;
  }

  void Stop() {
    {
      std::lock_guard<std::mutex> lock(mutex_);
      stop_ = true;
      wake_.notify_one();
    }
    if (thread_.joinable()) thread_.join();
  }

  TunerReport report() {
    std::lock_guard<std::mutex> lock(mutex_);
    return report_;
  }

 private:
  void Work() {
    std::unique_lock<std::mutex> lock(mutex_);
    while (!stop_) {
      wake_.wait(lock, [this] { return stop_ || window_.flushes >= options_.window_flushes; });
      if (stop_) return;
      const TunerWindow window = window_;
      window_ = TunerWindow();
      lock.unlock();
      Look(window);
      lock.lock();
      report_ = logic_.report();
    }
  }

  // Only on the thread.
  void Look(const TunerWindow& window) {
    const rocksdb::Options options = db_->GetOptions(handle_);
    TunerView view;
    rocksdb::ColumnFamilyMetaData metadata;
    db_->GetColumnFamilyMetaData(handle_, &metadata);
    for (const rocksdb::LevelMetaData& level : metadata.levels) {
      if (level.level > 0) view.data_bytes = std::max(view.data_bytes, static_cast<double>(level.size));
    }
    view.store = msls::Store::Default(msls::Design::kRocksDB);
    view.store.pick = PickOf(options.compaction_pri);
    view.store.level0_trigger = std::max(1, options.level0_file_num_compaction_trigger);
    view.store.file_bytes = std::max(4096.0, static_cast<double>(options.target_file_size_base));
    view.store.dynamic_level_bytes = options.level_compaction_dynamic_level_bytes;
    view.store.level_base_bytes = static_cast<double>(options.max_bytes_for_level_base);
    if (options.compaction_style != rocksdb::kCompactionStyleLevel) {
      view.obstacle = "but the compaction style is not level.";
    } else if (options.level_compaction_dynamic_level_bytes) {
      view.obstacle = "but level_compaction_dynamic_level_bytes is on; reopen without it.";
    } else {
      double bytes = view.store.level_base_bytes;
      const std::vector<int>& additional = options.max_bytes_for_level_multiplier_additional;
      for (size_t level = 1; level < static_cast<size_t>(options.num_levels) && bytes < view.data_bytes; level++) {
        if (!view.store.level_bytes.empty() && bytes <= view.store.level_bytes.back()) break;
        view.store.level_bytes.push_back(bytes);
        bytes *= options.max_bytes_for_level_multiplier * (level < additional.size() ? additional[level] : 1);
      }
    }
    const TunerAction action = logic_.Look(window, view, Now());
    if (action.kind == TunerAction::Kind::kNone) return;
    {
      std::lock_guard<std::mutex> lock(mutex_);
      if (stop_) return;
    }
    OptionMap wanted = before_;
    if (action.kind == TunerAction::Kind::kApply) {
      std::vector<std::pair<std::string, std::string>> named;
      const msls::Status s = msls::RocksDBOptions(action.store, action.popularity, &named);
      if (!s.ok()) {
        logic_.Done(action, s.message(), Now());
        return;
      }
      const OptionMap all(named.begin(), named.end());
      before_ = LevelOptions(options);
      wanted.clear();
      for (const auto& [name, value] : before_) {
        const auto found = all.find(name);
        wanted[name] = found == all.end() ? "1" : found->second;  // no extra multipliers
      }
    }
    const rocksdb::Status set = db_->SetOptions(handle_, wanted);
    logic_.Done(action, set.ok() ? "" : set.ToString(), Now());
  }

  rocksdb::DB* const db_;
  rocksdb::ColumnFamilyHandle* const handle_;
  const TunerOptions options_;
  TunerLogic logic_;  // only on the thread
  OptionMap before_;  // only on the thread: what a rollback restores

  std::mutex mutex_;
  std::condition_variable wake_;
  bool stop_ = false;   // guarded by mutex_
  TunerWindow window_;  // guarded by mutex_
  TunerReport report_;  // guarded by mutex_
  std::thread thread_;  // last: starts when all else is there
};

namespace {

// All databases that have a tuner, by their address; an entry lives from the first flush to the Close.
std::mutex registry_mutex;
std::map<rocksdb::DB*, std::shared_ptr<TunedDatabase>>& Registry() {
  static auto* const registry = new std::map<rocksdb::DB*, std::shared_ptr<TunedDatabase>>();
  return *registry;
}

std::shared_ptr<TunedDatabase> Find(rocksdb::DB* db) {
  std::lock_guard<std::mutex> lock(registry_mutex);
  const auto found = Registry().find(db);
  return found == Registry().end() ? nullptr : found->second;
}

}  // namespace

TunerListener::TunerListener(const TunerOptions& options) : options_(options) {}

void TunerListener::OnMemTableSealed(const rocksdb::MemTableInfo& info) {
  if (info.cf_name != rocksdb::kDefaultColumnFamilyName) return;
  std::lock_guard<std::mutex> lock(mutex_);
  sealed_.emplace_back(info.first_seqno, info.num_entries);
}

void TunerListener::OnFlushCompleted(rocksdb::DB* db, const rocksdb::FlushJobInfo& info) {
  if (info.cf_name != rocksdb::kDefaultColumnFamilyName || db->DefaultColumnFamily() == nullptr) return;
  uint64_t writes = 0;
  {
    std::lock_guard<std::mutex> lock(mutex_);
    // The flush wrote every memtable that begins at or below its largest sequence number.
    while (!sealed_.empty() && sealed_.front().first <= info.largest_seqno) {
      writes += sealed_.front().second;
      sealed_.pop_front();
    }
  }
  std::shared_ptr<TunedDatabase> tuned;
  {
    std::lock_guard<std::mutex> lock(registry_mutex);
    std::shared_ptr<TunedDatabase>& entry = Registry()[db];
    if (entry == nullptr) entry = std::make_shared<TunedDatabase>(db, options_);
    tuned = entry;
  }
  const rocksdb::TableProperties& table = info.table_properties;
  tuned->Flushed(writes, table.num_entries, table.data_size + table.index_size + table.filter_size);
}

void TunerListener::OnCompactionCompleted(rocksdb::DB* db, const rocksdb::CompactionJobInfo& info) {
  if (info.cf_name != rocksdb::kDefaultColumnFamilyName) return;
  const auto tuned = Find(db);
  if (tuned != nullptr) tuned->Compacted(info.stats.total_output_bytes);
}

// A database destroys its handle of the default column family when it closes, before it frees anything and without its
// mutex: the last moment at which the thread may use it.
void TunerListener::OnColumnFamilyHandleDeletionStarted(rocksdb::ColumnFamilyHandle* handle) {
  std::shared_ptr<TunedDatabase> closing;
  {
    std::lock_guard<std::mutex> lock(registry_mutex);
    for (auto it = Registry().begin(); it != Registry().end(); ++it) {
      if (it->second->handle() != handle) continue;
      closing = it->second;
      Registry().erase(it);
      break;
    }
  }
  if (closing != nullptr) closing->Stop();
}

std::string TunerReport::ToString() const {
  char text[400];
  snprintf(text, sizeof(text),
           "%.0f keys of %.0f B, %.0f to a flush, Zipf %.2f\n"
           "written for each byte put in: measured %.2f, predicted %.2f, at best %.2f\n"
           "%llu looks, %llu changes, %llu taken back, %llu failed\n",
           keys, item_bytes, items_per_flush, skew, measured, predicted, predicted_best,
           static_cast<unsigned long long>(looks), static_cast<unsigned long long>(changes),
           static_cast<unsigned long long>(rollbacks), static_cast<unsigned long long>(failures));
  std::string out = text;
  for (const std::string& line : log) out += "  " + line + "\n";
  return out;
}

std::shared_ptr<rocksdb::EventListener> NewTuner(const TunerOptions& options) {
  return std::make_shared<TunerListener>(options);
}

rocksdb::Status UseTuner(rocksdb::DBOptions* options, const TunerOptions& tuner) {
  if (tuner.window_flushes < 1) return rocksdb::Status::InvalidArgument("window_flushes is 0; it must be at least 1.");
  if (!(tuner.min_gain >= 0 && tuner.min_gain < 1)) {
    return rocksdb::Status::InvalidArgument("min_gain must be from 0 to less than 1.");
  }
  if (!(tuner.min_seconds_between_changes >= 0)) {
    return rocksdb::Status::InvalidArgument("min_seconds_between_changes must not be negative.");
  }
  if (tuner.settle_windows < 0) return rocksdb::Status::InvalidArgument("settle_windows must not be negative.");
  if (!(tuner.tolerance >= 1)) return rocksdb::Status::InvalidArgument("tolerance must be at least 1.");
  if (!(tuner.max_space_amplification >= 0)) {
    return rocksdb::Status::InvalidArgument("max_space_amplification must be 0 (no limit) or positive.");
  }
  options->listeners.push_back(NewTuner(tuner));
  return rocksdb::Status::OK();
}

bool GetTunerReport(rocksdb::DB* db, TunerReport* report) {
  const auto tuned = Find(db->GetRootDB());  // listeners see the database itself, callers perhaps a wrapper
  if (tuned == nullptr) return false;
  *report = tuned->report();
  return true;
}

}  // namespace cairn
