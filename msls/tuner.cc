#include "cairn/tuner.h"

#include <algorithm>
#include <chrono>
#include <cstdio>
#include <deque>
#include <map>
#include <set>
#include <thread>

#include "db/column_family.h"
#include "db/db_impl/db_impl.h"
#include "db/memtable.h"
#include "msls/key_sample.h"
#include "msls/level_sizes.h"
#include "msls/model_options.h"
#include "msls/round_robin.h"
#include "msls/tuner.h"
#include "msls/tuner_logic.h"
#include "rocksdb/env.h"
#include "util/mutex.h"

namespace cairn {

namespace {

double Now() { return std::chrono::duration<double>(std::chrono::steady_clock::now().time_since_epoch()).count(); }

}  // namespace

// The memtable that a column family writes to, as far as it tells one from another.
struct ActiveMemtable {
  uint64_t id = 0;
  rocksdb::SequenceNumber earliest = 0;
};

// What is known of one column family.
struct TunedFamily {
  TunedFamily(uint32_t family_id, std::string family_name, const ActiveMemtable& memtable, const TunerOptions& options)
      : id(family_id),
        name(std::move(family_name)),
        known_from(memtable.earliest),
        window_flushes(options.window_flushes),
        active(memtable),
        logic(options) {}

  const uint32_t id;
  const std::string name;
  // Entries up to this sequence number lie in memtables that were sealed before the tuner knew the column family.
  const rocksdb::SequenceNumber known_from;
  const uint64_t window_flushes;

  // Guarded by TunedDatabase::mutex_.
  ActiveMemtable active;
  // Memtables sealed and not yet flushed, oldest first: first sequence number and number of entries.
  std::deque<std::pair<rocksdb::SequenceNumber, uint64_t>> sealed;
  TunerWindow window;
  KeySampleWindow sample;
  TunerReport report;

  TunerLogic logic;  // only on the thread
};

// The tuner of one database: counters that listeners fill, and a thread that looks when a window is full.
class TunedDatabase {
 public:
  TunedDatabase(rocksdb::DB* db, const TunerListener* owner, const TunerOptions& options, TunerChoice choice,
                TunerHook hook)
      : db_(static_cast<rocksdb::DBImpl*>(db)),
        owner_(owner),
        default_handle_(db->DefaultColumnFamily()),
        options_(options),
        choice_(choice),
        hook_(std::move(hook)),
        thread_([this] { Work(); }) {}
  ~TunedDatabase() { Stop(); }

  rocksdb::ColumnFamilyHandle* default_handle() const { return default_handle_; }
  // The listener that counts for it; a second one of the same database must not.
  const TunerListener* owner() const { return owner_; }

  // Takes a column family into account from its active memtable on.
  void Know(uint32_t family_id, const std::string& name) {
    const MutexLock open(&open_mutex_);
    {
      const MutexLock lock(&mutex_);
      if (closed_ || families_.count(family_id) > 0 || left_alone_.count(family_id) > 0) return;
    }
    TunerOptions options = options_;
    const bool tuned = choice_ == nullptr || Choose(family_id, &options);
    ActiveMemtable active;
    if (tuned && !Active(family_id, &active)) return;
    const MutexLock lock(&mutex_);
    if (tuned) {
      families_.emplace(family_id, std::make_shared<TunedFamily>(family_id, name, active, options));
    } else {
      left_alone_.insert(family_id);
    }
  }

  // True if it was this database that sealed the memtable; RocksDB does not tell. Called by the thread that sealed it,
  // so that its database has the successor in place and waits with the next.
  bool Sealed(const rocksdb::MemTableInfo& info) {
    const MutexLock open(&open_mutex_);
    std::shared_ptr<TunedFamily> family;
    {
      const MutexLock lock(&mutex_);
      if (closed_) return false;
      for (const auto& [id, known] : families_) {
        if (known->name == info.cf_name && known->active.earliest == info.earliest_seqno) family = known;
      }
    }
    ActiveMemtable active;
    if (family == nullptr || !Active(family->id, &active)) return false;
    const MutexLock lock(&mutex_);
    if (active.id == family->active.id) return false;
    family->active = active;
    if (info.num_entries > 0) family->sealed.emplace_back(info.first_seqno, info.num_entries);
    return true;
  }

  void Flushed(const rocksdb::FlushJobInfo& info) {
    const rocksdb::TableProperties& table = info.table_properties;
    const MutexLock lock(&mutex_);
    const auto found = families_.find(info.cf_id);
    if (found == families_.end() || table.num_entries == 0) return;
    TunedFamily* family = found->second.get();
    // The flush wrote every memtable that begins at or below its largest sequence number.
    uint64_t writes = 0;
    while (!family->sealed.empty() && family->sealed.front().first <= info.largest_seqno) {
      writes += family->sealed.front().second;
      family->sealed.pop_front();
    }
    if (info.smallest_seqno <= family->known_from) return;
    family->window.flushes++;
    family->window.writes += writes;
    family->window.distinct += table.num_entries;
    family->window.flush_bytes += table.data_size + table.index_size + table.filter_size;
    const auto sample = table.user_collected_properties.find(KeySampleFactory::PropertyName());
    if (sample != table.user_collected_properties.end()) family->sample.Add(sample->second);
    if (family->window.flushes >= family->window_flushes) wake_.NotifyOne();
  }

  void Dropped(uint32_t family_id) {
    const MutexLock lock(&mutex_);
    families_.erase(family_id);
    left_alone_.erase(family_id);
  }

  void Compacted(uint32_t family_id, uint64_t bytes) {
    const MutexLock lock(&mutex_);
    const auto found = families_.find(family_id);
    if (found != families_.end()) found->second->window.compaction_bytes += bytes;
  }

  // Nothing of the database is used when it returns.
  void Stop() {
    {
      const MutexLock open(&open_mutex_);
      const MutexLock lock(&mutex_);
      closed_ = true;
      stop_ = true;
      wake_.NotifyOne();
    }
    if (thread_.joinable()) thread_.join();
  }

  size_t families() {
    const MutexLock lock(&mutex_);
    return families_.size();
  }

  bool GetReport(uint32_t family_id, TunerReport* report) {
    const MutexLock lock(&mutex_);
    const auto found = families_.find(family_id);
    if (found == families_.end()) return false;
    *report = found->second->report;
    return true;
  }

 private:
  // REQUIRES: the database is not closed. False if the column family is gone.
  bool Active(uint32_t family_id, ActiveMemtable* active) CAIRN_REQUIRES(open_mutex_) {
    rocksdb::InstrumentedMutexLock lock(db_->mutex());
    rocksdb::ColumnFamilyData* family = db_->GetVersionSet()->GetColumnFamilySet()->GetColumnFamily(family_id);
    if (family == nullptr || family->IsDropped()) return false;
    *active = {family->mem()->GetID(), family->mem()->GetEarliestSequenceNumber()};
    return true;
  }

  // What the listener's choice says of a column family, which is in the database.
  bool Choose(uint32_t family_id, TunerOptions* options) const CAIRN_REQUIRES(open_mutex_) {
    const auto handle = db_->GetColumnFamilyHandleUnlocked(family_id);
    return handle != nullptr && choice_(db_->GetOptions(handle.get()), options);
  }

  // Null if no window is full.
  std::shared_ptr<TunedFamily> Full() const CAIRN_REQUIRES(mutex_) {
    for (const auto& [id, family] : families_) {
      if (family->window.flushes >= family->window_flushes) return family;
    }
    return nullptr;
  }

  void Work() {
    const MutexLock lock(&mutex_);
    std::shared_ptr<TunedFamily> family;
    for (;;) {
      while (!stop_ && (family = Full()) == nullptr) wake_.Wait(&mutex_);
      if (stop_) return;
      TunerWindow window = family->window;
      window.sampled_tables = family->sample.tables();
      window.sampled_keys = family->sample.keys();
      window.sampled_keys_by_flushes = family->sample.KeysByTables();
      window.sampled_share = family->sample.share();
      family->window = TunerWindow();
      family->sample = KeySampleWindow();
      bool exists = false;
      {
        const MutexUnlock unlocked(&mutex_);
        exists = Look(family.get(), window);
      }
      if (exists) {
        family->report = family->logic.report();
      } else {
        families_.erase(family->id);
      }
    }
  }

  bool stopping() {
    const MutexLock lock(&mutex_);
    return stop_;
  }

  // Only on the thread. False if the column family was dropped.
  bool Look(TunedFamily* family, const TunerWindow& window) {
    const auto handle = db_->GetColumnFamilyHandleUnlocked(family->id);
    if (handle == nullptr) return false;
    const rocksdb::Options options = db_->GetOptions(handle.get());
    if (hook_ != nullptr) hook_(TunerPoint::kBeforeSolving).PermitUncheckedError();
    const TunerView view = View(handle.get(), options);
    const TunerAction action = family->logic.Look(window, view, Now());
    if (action.kind != TunerAction::Kind::kNone) Act(family, handle.get(), view, action);
    for (const std::string& line : family->logic.TakeLines()) {
      rocksdb::Info(options.info_log, "[%s] cairn.Tuner: %s", family->name.c_str(), line.c_str());
    }
    return true;
  }

  void Act(TunedFamily* family, rocksdb::ColumnFamilyHandle* handle, const TunerView& view, const TunerAction& action) {
    rocksdb::Status set = hook_ != nullptr ? hook_(TunerPoint::kBeforeSetOptions) : rocksdb::Status::OK();
    // A database that has emptied its queues to close must not queue a compaction for new options.
    if (stopping()) return;
    // The next look notices what was set meanwhile, and takes it as the user's.
    if (LevelSizesOf(db_->GetOptions(handle)) != view.sizes) return;
    if (set.ok()) set = db_->SetOptions(handle, LevelSizeOptions(action.sizes));
    // The options can be in force although SetOptions failed: when only the OPTIONS file could not be written.
    const bool in_force = set.ok() || LevelSizesOf(db_->GetOptions(handle)) == action.sizes;
    family->logic.Done(action, in_force ? "" : set.ToString(), Now());
  }

  TunerView View(rocksdb::ColumnFamilyHandle* handle, const rocksdb::Options& options) {
    TunerView view;
    rocksdb::ColumnFamilyMetaData metadata;
    db_->GetColumnFamilyMetaData(handle, &metadata);
    for (const rocksdb::LevelMetaData& level : metadata.levels) {
      view.level_bytes.push_back(static_cast<double>(level.size));
    }
    view.sizes = LevelSizesOf(options);
    view.num_levels = options.num_levels;
    view.store = msls::StoreShape::Default(msls::Design::kRocksDB);
    view.store.pick = PickOf(options.compaction_pri);
    view.store.level0_trigger = std::max(1, options.level0_file_num_compaction_trigger);
    view.store.file_bytes = std::max(4096.0, static_cast<double>(options.target_file_size_base));
    view.store.dynamic_level_bytes = options.level_compaction_dynamic_level_bytes;
    if (options.compaction_style != rocksdb::kCompactionStyleLevel) {
      view.obstacle = "but the compaction style is not level.";
    } else if (options.level_compaction_dynamic_level_bytes) {
      view.obstacle = "but level_compaction_dynamic_level_bytes is on; reopen without it.";
    } else if (options.disable_auto_compactions) {
      view.obstacle = "but disable_auto_compactions is on.";
    }
    return view;
  }

  rocksdb::DBImpl* const db_;
  const TunerListener* const owner_;
  rocksdb::ColumnFamilyHandle* const default_handle_;
  const TunerOptions options_;
  const TunerChoice choice_;  // null: options_ in all column families
  const TunerHook hook_;

  // Held, before mutex_ and that of the database, by other threads than thread_ while they use the database.
  CheckedMutex open_mutex_;
  CheckedMutex mutex_;
  ConditionVariable wake_;
  bool closed_ CAIRN_GUARDED_BY(mutex_) = false;  // set with open_mutex_ held, too
  bool stop_ CAIRN_GUARDED_BY(mutex_) = false;
  std::map<uint32_t, std::shared_ptr<TunedFamily>> families_ CAIRN_GUARDED_BY(mutex_);  // by id
  std::set<uint32_t> left_alone_ CAIRN_GUARDED_BY(mutex_);                              // by the listener's choice
  std::thread thread_;  // last: starts when all else is there
};

namespace {

// All databases that have a tuner, by their address; an entry lives from the first flush to the Close. A thread that
// holds a tuner's mutex may take the registry's (a handle of a column family that it lets go of tells listeners), and
// not the other way round.
CheckedMutex registry_mutex;
std::map<rocksdb::DB*, std::shared_ptr<TunedDatabase>>& Registry() {
  static auto* const registry = new std::map<rocksdb::DB*, std::shared_ptr<TunedDatabase>>();
  return *registry;
}

std::shared_ptr<TunedDatabase> Find(rocksdb::DB* db) {
  const MutexLock lock(&registry_mutex);
  const auto found = Registry().find(db);
  return found == Registry().end() ? nullptr : found->second;
}

}  // namespace

TunerListener::TunerListener(const TunerOptions& options, TunerHook hook) : options_(options), hook_(std::move(hook)) {}

TunerListener::TunerListener(TunerChoice choice) : choice_(choice) {}

void TunerListener::OnMemTableSealed(const rocksdb::MemTableInfo& info) {
  std::vector<std::shared_ptr<TunedDatabase>> databases;
  {
    const MutexLock lock(&registry_mutex);
    for (const auto& [db, tuned] : Registry()) {
      if (tuned->owner() == this) databases.push_back(tuned);
    }
  }
  for (const auto& tuned : databases) {
    if (tuned->Sealed(info)) return;
  }
}

void TunerListener::OnFlushBegin(rocksdb::DB* db, const rocksdb::FlushJobInfo& info) {
  if (db->DefaultColumnFamily() == nullptr) return;
  std::shared_ptr<TunedDatabase> tuned;
  {
    const MutexLock lock(&registry_mutex);
    std::shared_ptr<TunedDatabase>& entry = Registry()[db];
    if (entry == nullptr) entry = std::make_shared<TunedDatabase>(db, this, options_, choice_, hook_);
    tuned = entry;
  }
  if (tuned->owner() == this) tuned->Know(info.cf_id, info.cf_name);
}

void TunerListener::OnFlushCompleted(rocksdb::DB* db, const rocksdb::FlushJobInfo& info) {
  const auto tuned = Find(db);
  if (tuned != nullptr && tuned->owner() == this) tuned->Flushed(info);
}

void TunerListener::OnCompactionCompleted(rocksdb::DB* db, const rocksdb::CompactionJobInfo& info) {
  const auto tuned = Find(db);
  if (tuned != nullptr && tuned->owner() == this) tuned->Compacted(info.cf_id, info.stats.total_output_bytes);
}

void StopTuning(rocksdb::ColumnFamilyHandle* default_handle) {
  std::shared_ptr<TunedDatabase> closing;
  {
    const MutexLock lock(&registry_mutex);
    for (const auto& [db, tuned] : Registry()) {
      if (tuned->default_handle() == default_handle) closing = tuned;
    }
  }
  if (closing != nullptr) closing->Stop();
}

// A database destroys its handle of the default column family when it closes, before it frees anything and without its
// mutex: the last moment at which the thread may use it.
void TunerListener::OnColumnFamilyHandleDeletionStarted(rocksdb::ColumnFamilyHandle* handle) {
  auto* const family = static_cast<rocksdb::ColumnFamilyHandleImpl*>(handle);
  if (family->cfd()->IsDropped()) {
    const auto tuned = Find(family->db());
    if (tuned != nullptr) tuned->Dropped(handle->GetID());
  }
  StopTuning(handle);
  // Let go of when the registry is unlocked: the last to hold a tuner locks its mutexes and waits for its thread.
  std::vector<std::shared_ptr<TunedDatabase>> closed;
  const MutexLock lock(&registry_mutex);
  for (auto it = Registry().begin(); it != Registry().end();) {
    if (it->second->default_handle() == handle) {
      closed.push_back(std::move(it->second));
      it = Registry().erase(it);
    } else {
      ++it;
    }
  }
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
           "%llu looks, %llu changes, %llu taken back, %llu times back to the user's sizes, %llu failed\n",
           keys, item_bytes, items_per_flush, skew, sampled, measured, predicted, predicted_best,
           static_cast<unsigned long long>(looks), static_cast<unsigned long long>(changes),
           static_cast<unsigned long long>(rollbacks), static_cast<unsigned long long>(returns),
           static_cast<unsigned long long>(failures));
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
  // The last one counts, also after that of round_robin; two would count everything twice.
  auto& listeners = options->listeners;
  const auto is_tuner = [](const auto& listener) {
    if (listener == nullptr) return false;
    const std::string name = listener->Name();
    return name == TunerListener::kClassName() || name == RoundRobinTuner::kClassName();
  };
  listeners.erase(std::remove_if(listeners.begin(), listeners.end(), is_tuner), listeners.end());
  listeners.push_back(NewTuner(tuner));
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

size_t TunedColumnFamilies(rocksdb::DB* db) {
  const auto tuned = Find(db->GetRootDB());
  return tuned == nullptr ? 0 : tuned->families();
}

bool GetTunerReport(rocksdb::DB* db, TunerReport* report) {
  return GetTunerReport(db, db->DefaultColumnFamily(), report);
}

}  // namespace cairn
