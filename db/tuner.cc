#include "cairn/tuner.h"

#include <algorithm>
#include <chrono>
#include <condition_variable>
#include <cstdio>
#include <map>
#include <mutex>
#include <thread>
#include <unordered_map>

#include "db/db_impl/db_impl.h"
#include "db/key_sample.h"
#include "db/model_options.h"
#include "db/tuner.h"
#include "db/tuner_logic.h"

namespace cairn {

namespace {

// Memtables of a column family of which it is not known that they were flushed.
constexpr size_t kMostSealed = 1000;

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

}  // namespace

// What is known of one column family.
struct TunedFamily {
  TunedFamily(uint32_t family_id, const TunerOptions& options) : id(family_id), logic(options) {}

  const uint32_t id;
  TunerWindow window;  // guarded by TunedDatabase::mutex_, as are the next two
  KeySampleWindow sample;
  TunerReport report;
  TunerLogic logic;  // only on the thread
  OptionMap before;  // only on the thread: what a rollback restores
};

// The tuner of one database: counters that listeners fill, and a thread that looks when a window is full.
class TunedDatabase {
 public:
  TunedDatabase(rocksdb::DB* db, const TunerOptions& options, TunerHook hook)
      : db_(static_cast<rocksdb::DBImpl*>(db)),
        default_handle_(db->DefaultColumnFamily()),
        options_(options),
        hook_(std::move(hook)),
        thread_([this] { Work(); }) {}
  ~TunedDatabase() { Stop(); }

  rocksdb::ColumnFamilyHandle* default_handle() const { return default_handle_; }

  void Flushed(const rocksdb::FlushJobInfo& info, uint64_t writes) {
    const rocksdb::TableProperties& table = info.table_properties;
    std::lock_guard<std::mutex> lock(mutex_);
    std::shared_ptr<TunedFamily>& family = families_[info.cf_id];
    if (family == nullptr) family = std::make_shared<TunedFamily>(info.cf_id, options_);
    family->window.flushes++;
    family->window.writes += writes;
    family->window.distinct += table.num_entries;
    family->window.flush_bytes += table.data_size + table.index_size + table.filter_size;
    const auto sample = table.user_collected_properties.find(KeySampleFactory::PropertyName());
    if (sample != table.user_collected_properties.end()) family->sample.Add(sample->second);
    if (family->window.flushes >= options_.window_flushes) wake_.notify_one();
  }

  void Compacted(uint32_t family_id, uint64_t bytes) {
    std::lock_guard<std::mutex> lock(mutex_);
    const auto found = families_.find(family_id);
    if (found != families_.end()) found->second->window.compaction_bytes += bytes;
  }

  void Stop() {
    {
      std::lock_guard<std::mutex> lock(mutex_);
      stop_ = true;
      wake_.notify_one();
    }
    if (thread_.joinable()) thread_.join();
  }

  bool GetReport(uint32_t family_id, TunerReport* report) {
    std::lock_guard<std::mutex> lock(mutex_);
    const auto found = families_.find(family_id);
    if (found == families_.end()) return false;
    *report = found->second->report;
    return true;
  }

 private:
  // Null if no window is full. REQUIRES: mutex_ is held.
  std::shared_ptr<TunedFamily> Full() const {
    for (const auto& [id, family] : families_) {
      if (family->window.flushes >= options_.window_flushes) return family;
    }
    return nullptr;
  }

  void Work() {
    std::unique_lock<std::mutex> lock(mutex_);
    std::shared_ptr<TunedFamily> family;
    for (;;) {
      wake_.wait(lock, [&] { return stop_ || (family = Full()) != nullptr; });
      if (stop_) return;
      TunerWindow window = family->window;
      window.sampled_tables = family->sample.tables();
      window.sampled_keys = family->sample.keys();
      window.sampled_keys_by_flushes = family->sample.KeysByTables();
      window.sampled_share = family->sample.share();
      family->window = TunerWindow();
      family->sample = KeySampleWindow();
      lock.unlock();
      const bool exists = Look(family.get(), window);
      lock.lock();
      if (exists) {
        family->report = family->logic.report();
      } else {
        families_.erase(family->id);
      }
    }
  }

  bool stopping() {
    std::lock_guard<std::mutex> lock(mutex_);
    return stop_;
  }

  // Only on the thread. False if the column family was dropped.
  bool Look(TunedFamily* family, const TunerWindow& window) {
    const auto handle = db_->GetColumnFamilyHandleUnlocked(family->id);
    if (handle == nullptr) return false;
    const rocksdb::Options options = db_->GetOptions(handle.get());
    if (hook_ != nullptr) hook_(TunerPoint::kBeforeSolving).PermitUncheckedError();
    const TunerAction action = family->logic.Look(window, View(handle.get(), options), Now());
    if (action.kind == TunerAction::Kind::kNone) return true;
    if (action.kind == TunerAction::Kind::kApply) family->before = LevelOptions(options);
    OptionMap wanted = family->before;
    if (action.kind == TunerAction::Kind::kApply) {
      std::vector<std::pair<std::string, std::string>> named;
      const msls::Status s = msls::RocksDBOptions(action.store, action.popularity, &named);
      if (!s.ok()) {
        family->logic.Done(action, s.message(), Now());
        return true;
      }
      const OptionMap all(named.begin(), named.end());
      for (auto& [name, value] : wanted) {
        const auto found = all.find(name);
        value = found == all.end() ? "1" : found->second;  // no extra multipliers
      }
    }
    rocksdb::Status set = hook_ != nullptr ? hook_(TunerPoint::kBeforeSetOptions) : rocksdb::Status::OK();
    // A database that has emptied its queues to close must not queue a compaction for new options.
    if (stopping()) return true;
    if (set.ok()) set = db_->SetOptions(handle.get(), wanted);
    // The options can be in force although SetOptions failed: when only the OPTIONS file could not be written.
    const bool in_force = set.ok() || LevelOptions(db_->GetOptions(handle.get())) != LevelOptions(options);
    family->logic.Done(action, in_force ? "" : set.ToString(), Now());
    return true;
  }

  TunerView View(rocksdb::ColumnFamilyHandle* handle, const rocksdb::Options& options) {
    TunerView view;
    rocksdb::ColumnFamilyMetaData metadata;
    db_->GetColumnFamilyMetaData(handle, &metadata);
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
      AppendLevelTargets(options, view.data_bytes, &view.store.level_bytes);
    }
    return view;
  }

  rocksdb::DBImpl* const db_;
  rocksdb::ColumnFamilyHandle* const default_handle_;
  const TunerOptions options_;
  const TunerHook hook_;

  std::mutex mutex_;
  std::condition_variable wake_;
  bool stop_ = false;                                          // guarded by mutex_
  std::map<uint32_t, std::shared_ptr<TunedFamily>> families_;  // guarded by mutex_; by id
  std::thread thread_;                                         // last: starts when all else is there
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

TunerListener::TunerListener(const TunerOptions& options, TunerHook hook) : options_(options), hook_(std::move(hook)) {}

void TunerListener::OnMemTableSealed(const rocksdb::MemTableInfo& info) {
  std::lock_guard<std::mutex> lock(mutex_);
  Memtables& memtables = sealed_[info.cf_name];
  memtables.emplace_back(info.first_seqno, info.num_entries);
  // A dropped column family never flushes its own.
  if (memtables.size() > kMostSealed) memtables.pop_front();
}

void TunerListener::OnFlushCompleted(rocksdb::DB* db, const rocksdb::FlushJobInfo& info) {
  if (db->DefaultColumnFamily() == nullptr) return;
  uint64_t writes = 0;
  {
    std::lock_guard<std::mutex> lock(mutex_);
    // The flush wrote every memtable that begins at or below its largest sequence number.
    Memtables& memtables = sealed_[info.cf_name];
    while (!memtables.empty() && memtables.front().first <= info.largest_seqno) {
      writes += memtables.front().second;
      memtables.pop_front();
    }
  }
  std::shared_ptr<TunedDatabase> tuned;
  {
    std::lock_guard<std::mutex> lock(registry_mutex);
    std::shared_ptr<TunedDatabase>& entry = Registry()[db];
    if (entry == nullptr) entry = std::make_shared<TunedDatabase>(db, options_, hook_);
    tuned = entry;
  }
  tuned->Flushed(info, writes);
}

void TunerListener::OnCompactionCompleted(rocksdb::DB* db, const rocksdb::CompactionJobInfo& info) {
  const auto tuned = Find(db);
  if (tuned != nullptr) tuned->Compacted(info.cf_id, info.stats.total_output_bytes);
}

// A database destroys its handle of the default column family when it closes, before it frees anything and without its
// mutex: the last moment at which the thread may use it.
void TunerListener::OnColumnFamilyHandleDeletionStarted(rocksdb::ColumnFamilyHandle* handle) {
  std::shared_ptr<TunedDatabase> closing;
  {
    std::lock_guard<std::mutex> lock(registry_mutex);
    for (auto it = Registry().begin(); it != Registry().end(); ++it) {
      if (it->second->default_handle() != handle) continue;
      closing = it->second;
      Registry().erase(it);
      break;
    }
  }
  if (closing != nullptr) closing->Stop();
}

std::string TunerReport::ToString() const {
  char sampled[120] = "";
  if (sampled_keys > 0) {
    snprintf(sampled, sizeof(sampled), " (%llu keys sampled: a tenth of the keys gets %.0f %% of the writes)",
             static_cast<unsigned long long>(sampled_keys), 100 * writes_of_top_tenth);
  }
  char text[500];
  snprintf(text, sizeof(text),
           "%.0f keys of %.0f B, %.0f to a flush, as uneven as Zipf %.2f%s\n"
           "written for each byte put in: measured %.2f, predicted %.2f, at best %.2f\n"
           "%llu looks, %llu changes, %llu taken back, %llu failed\n",
           keys, item_bytes, items_per_flush, skew, sampled, measured, predicted, predicted_best,
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
  if (!(tuner.max_error >= 0)) {
    return rocksdb::Status::InvalidArgument("max_error must be 0 (no limit) or positive.");
  }
  if (tuner.settle_windows < 0) return rocksdb::Status::InvalidArgument("settle_windows must not be negative.");
  if (!(tuner.tolerance >= 1)) return rocksdb::Status::InvalidArgument("tolerance must be at least 1.");
  if (!(tuner.max_space_amplification >= 0)) {
    return rocksdb::Status::InvalidArgument("max_space_amplification must be 0 (no limit) or positive.");
  }
  options->listeners.push_back(NewTuner(tuner));
  return rocksdb::Status::OK();
}

void SampleKeys(rocksdb::ColumnFamilyOptions* options) {
  for (const auto& factory : options->table_properties_collector_factories) {
    if (factory != nullptr && factory->Name() == std::string(KeySampleFactory::kClassName())) return;
  }
  options->table_properties_collector_factories.push_back(std::make_shared<KeySampleFactory>());
}

rocksdb::Status UseTuner(rocksdb::Options* options, const TunerOptions& tuner) {
  rocksdb::Status s = UseTuner(static_cast<rocksdb::DBOptions*>(options), tuner);
  if (s.ok()) SampleKeys(options);
  return s;
}

bool GetTunerReport(rocksdb::DB* db, rocksdb::ColumnFamilyHandle* family, TunerReport* report) {
  const auto tuned = Find(db->GetRootDB());  // listeners see the database itself, callers perhaps a wrapper
  return tuned != nullptr && tuned->GetReport(family->GetID(), report);
}

bool GetTunerReport(rocksdb::DB* db, TunerReport* report) {
  return GetTunerReport(db, db->DefaultColumnFamily(), report);
}

}  // namespace cairn
