#include "test/error_stress/errors.h"

#include <chrono>
#include <climits>
#include <cstdio>
#include <cstdlib>
#include <sstream>
#include <thread>

#include "cairn/memtable.h"
#include "rocksdb/port/open_into.h"
#include "rocksdb/sst_file_manager.h"
#include "rocksdb/write_buffer_manager.h"
#include "test/support.h"

namespace cairn {
namespace errors {

using rocksdb::Status;

// Does now and then what listeners of programs do. Its functions are called on the database's threads.
class Database::Listener : public rocksdb::EventListener {
 public:
  Listener(Database* database, uint64_t seed) : database_(database), random_(seed) {}

  void OnBackgroundError(rocksdb::BackgroundErrorReason reason, Status* error) override {
    ++database_->counts_->errors;
    if (error->severity() >= Status::Severity::kFatalError) {
      ++database_->counts_->for_good;
      std::printf("%s stops for good: %s (reason %d)\n", database_->name_.c_str(), error->ToString().c_str(),
                  static_cast<int>(reason));
    }
    if (OneIn(4)) std::this_thread::sleep_for(std::chrono::milliseconds(10));
  }
  void OnErrorRecoveryBegin(rocksdb::BackgroundErrorReason /*reason*/, Status error, bool* recover) override {
    error.PermitUncheckedError();
    if (OneIn(10)) *recover = false;
  }
  void OnErrorRecoveryEnd(const rocksdb::BackgroundErrorRecoveryInfo& info) override {
    info.old_bg_error.PermitUncheckedError();
    if (info.new_bg_error.ok()) ++database_->counts_->recovered;
    if (OneIn(4)) std::this_thread::sleep_for(std::chrono::milliseconds(50));
    // What the other database holds of a WriteBufferManager may keep writers of this one back, and whoever would have it recover
    // is here. Close of this one waits for the listener, and what this one holds may keep writers of the other one back until it
    // is closed; or the listener has the only thread that flushes. RocksDB's listener.h asks for no_slowdown.
    rocksdb::WriteOptions own, other;
    own.no_slowdown = database_->options_.write_buffer_manager != nullptr;
    other.no_slowdown = true;
    if (OneIn(2)) Put(database_, "Put by a listener to its own database", own);
    if (OneIn(2)) Put(database_->other_, "Put by a listener to the other database", other);
  }

 private:
  bool OneIn(uint64_t n) {
    const std::lock_guard<std::mutex> lock(mu_);
    return random_.OneIn(n);
  }
  static void Put(Database* database, const char* what, const rocksdb::WriteOptions& options) {
    database->UseIfOpen(what, [&](rocksdb::DB* db) { db->Put(options, "listener", "value").PermitUncheckedError(); });
  }

  Database* const database_;
  std::mutex mu_;
  test::Random random_;
};

namespace {

rocksdb::Options OptionsOf(test::Random* random) {
  rocksdb::Options options = test::BaseOptions();
  switch (random->Uniform(3)) {
    case 0:
      break;
    case 1:
      options.memtable_factory = NewSubMemTableFactory();
      break;
    default:
      options = test::OptionsOf(*test::FindEngine("trie_tiny"));
  }
  options.create_missing_column_families = true;
  options.max_write_buffer_number = 2 + static_cast<int>(random->Uniform(2));
  options.level0_file_num_compaction_trigger = 2;
  options.level0_slowdown_writes_trigger = 4;
  options.level0_stop_writes_trigger = 6;
  options.bgerror_resume_retry_interval = 20000;
  options.max_bgerror_resume_count = random->OneIn(3) ? static_cast<int>(random->Uniform(4)) : INT_MAX;
  options.atomic_flush = random->OneIn(4);
  options.enable_pipelined_write = !options.atomic_flush && random->OneIn(4);
  return options;
}

std::string KeyName(int writer, int key) { return "writer" + std::to_string(writer) + "key" + std::to_string(key); }

}  // namespace

Database::Database(std::string name, const std::string& folder, uint64_t seed,
                   std::shared_ptr<rocksdb::WriteBufferManager> buffers, Watch* watch, Counts* counts,
                   const Verdict* verdict)
    : name_(std::move(name)),
      path_(folder + "/" + name_),
      watch_(watch),
      counts_(counts),
      verdict_(verdict),
      disk_(std::make_shared<test::FaultyDisk>(rocksdb::FileSystem::Default())),
      env_(rocksdb::NewCompositeEnv(disk_)) {
  test::Random random(seed);
  options_ = OptionsOf(&random);
  options_.env = env_.get();
  options_.write_buffer_manager = std::move(buffers);
  options_.listeners.push_back(std::make_shared<Listener>(this, random.Next()));
}

Database::~Database() {
  if (db_ != nullptr) Close();
}

Status Database::TryToOpen() {
  const std::vector<rocksdb::ColumnFamilyDescriptor> families{{rocksdb::kDefaultColumnFamilyName, options_},
                                                              {"second", options_}};
  rocksdb::DB* opened = nullptr;
  const Status s = rocksdb::DB::Open(options_, path_, families, &families_, port::Into(&opened));
  db_.reset(opened);
  return s;
}

void Database::Open() {
  const Watch::Doing doing(watch_, "Open of " + name_);
  for (Status s = TryToOpen(); !s.ok(); s = TryToOpen()) {
    if (!s.IsIOError() && !s.IsNoSpace()) verdict_->Fail("Open of " + name_ + ": " + s.ToString());
    std::this_thread::sleep_for(std::chrono::milliseconds(10));
  }
  Compare();
}

void Database::Close() {
  const Watch::Doing doing(watch_, "Close of " + name_);
  for (rocksdb::ColumnFamilyHandle* family : families_) db_->DestroyColumnFamilyHandle(family).PermitUncheckedError();
  families_.clear();
  db_->Close().PermitUncheckedError();
  db_.reset();
  ++counts_->closed;
}

void Database::CloseAndOpen() {
  const Watch::Doing doing(watch_, "Close and Open of " + name_);
  closing_ = true;
  {
    const std::unique_lock<std::shared_mutex> lock(mu_);
    Close();
    Open();
  }
  closing_ = false;
}

void Database::Use(const std::string& what, const std::function<void(rocksdb::DB*)>& use) {
  while (closing_) std::this_thread::sleep_for(std::chrono::milliseconds(1));
  const std::shared_lock<std::shared_mutex> lock(mu_);
  const Watch::Doing doing(watch_, what + ", " + name_);
  use(db_.get());
}

void Database::UseIfOpen(const std::string& what, const std::function<void(rocksdb::DB*)>& use) {
  if (closing_) return;
  const std::shared_lock<std::shared_mutex> lock(mu_, std::try_to_lock);
  if (!lock.owns_lock()) return;
  const Watch::Doing doing(watch_, what + ", " + name_);
  use(db_.get());
}

void Database::Write(int writer, uint64_t n) {
  bool ok = false;
  Use("Put", [&](rocksdb::DB* db) {
    const int key = Written::KeyOf(n);
    std::string value = std::to_string(n);
    value.resize(500, ' ');
    written_[writer].Begin(n);
    ok = db->Put(rocksdb::WriteOptions(), FamilyOf(key), KeyName(writer, key), value).ok();
    if (ok) written_[writer].Acknowledge(n);
  });
  ++(ok ? counts_->written : counts_->refused);
  if (!ok) std::this_thread::sleep_for(std::chrono::milliseconds(1));
}

void Database::Operate(test::Random* random) {
  const uint64_t choice = random->Uniform(16);
  if (choice == 0) return CloseAndOpen();
  if (choice < 4) {
    return Use("Resume", [this](rocksdb::DB* db) {
      if (db->Resume().ok()) ++counts_->resumed;
    });
  }
  if (choice < 7) return Use("SyncWAL", [](rocksdb::DB* db) { db->SyncWAL().PermitUncheckedError(); });
  if (choice < 8) {
    return Use("CompactRange", [](rocksdb::DB* db) {
      db->CompactRange(rocksdb::CompactRangeOptions(), nullptr, nullptr).PermitUncheckedError();
    });
  }
  rocksdb::FlushOptions flush;
  flush.wait = choice < 10;
  flush.allow_write_stall = random->OneIn(2);
  Use("Flush", [&](rocksdb::DB* db) { db->Flush(flush, families_).PermitUncheckedError(); });
}

Status Database::WriteAndFlush(rocksdb::DB* db) {
  const Status s = db->Put(rocksdb::WriteOptions(), "healthy", "value");
  return s.ok() ? db->Flush(rocksdb::FlushOptions(), families_) : s;
}

void Database::Resume() {
  const Watch::Doing doing(watch_, "Resume of " + name_ + " at the end");
  for (;;) {
    Status s;
    Use("Resume", [&](rocksdb::DB* db) { s = db->Resume(); });
    if (s.ok()) return;
    if (s.severity() >= Status::Severity::kFatalError) CloseAndOpen();
    // RocksDB's recovery waits for flushes that are refused, a second for each.
    std::this_thread::sleep_for(std::chrono::seconds(2));
  }
}

void Database::Recover() {
  const Watch::Doing doing(watch_, "Recovery of " + name_);
  const auto is_healthy = [this] {
    Status s;
    Use("Put and Flush at the end", [&](rocksdb::DB* db) { s = WriteAndFlush(db); });
    return s.ok();
  };
  while (!is_healthy()) Resume();
  const std::unique_lock<std::shared_mutex> lock(mu_);
  Compare();
}

void Database::Compare() {
  for (int writer = 0; writer < kWriters; ++writer) {
    for (int key = 0; key < Written::kKeys; ++key) {
      std::string value;
      const Status s = db_->Get(rocksdb::ReadOptions(), FamilyOf(key), KeyName(writer, key), &value);
      if (!s.ok() && !s.IsNotFound()) verdict_->Fail("Get from " + name_ + ": " + s.ToString());
      const uint64_t n = s.ok() ? std::strtoull(value.c_str(), nullptr, 10) : 0;
      const Written& written = written_[writer];
      if (written.Allows(key, n)) continue;
      std::ostringstream text;
      text << "A write to " << name_ << " is lost: key " << key << " of writer " << writer << " holds " << n
           << ", acknowledged was " << written.acknowledged(key) << ", begun " << written.begun(key);
      verdict_->Fail(text.str());
    }
  }
}

}  // namespace errors
}  // namespace cairn
