// What the tests of recovery from errors share: a database on a disk that fails as it is told, and what is heard of it.

#pragma once

#include <unistd.h>

#include <atomic>
#include <chrono>
#include <cstdio>
#include <functional>
#include <future>
#include <memory>
#include <string>
#include <thread>

#include "cairn/memtable.h"
#include "gtest/gtest.h"
#include "rocksdb/db.h"
#include "rocksdb/listener.h"
#include "rocksdb/port/open_into.h"
#include "rocksdb/sst_file_manager.h"
#include "rocksdb/write_buffer_manager.h"
#include "test/support.h"
#include "test/testutil/await.h"
#include "test/testutil/begin_flush.h"
#include "test/testutil/faulty_disk.h"
#include "test/testutil/impatient.h"
#include "test/testutil/until_it_waits.h"

namespace cairn {

// What a database says of its errors. The functions are called on its threads.
class Listener : public rocksdb::EventListener {
 public:
  void OnBackgroundError(rocksdb::BackgroundErrorReason /*reason*/, rocksdb::Status* /*error*/) override {
    ++errors;
    if (at_error) at_error();
  }
  void OnErrorRecoveryBegin(rocksdb::BackgroundErrorReason /*reason*/, rocksdb::Status error, bool* recover) override {
    error.PermitUncheckedError();
    *recover = *recover && recovers;
  }
  void OnErrorRecoveryEnd(const rocksdb::BackgroundErrorRecoveryInfo& info) override {
    info.old_bg_error.PermitUncheckedError();
    if (info.new_bg_error.ok()) ++recovered;
    ++ends;
    if (at_end) at_end();
  }
  void OnTableFileCreated(const rocksdb::TableFileCreationInfo& info) override {
    if (info.status.ok() && at_table) at_table(info.cf_name);
  }
  void OnFlushCompleted(rocksdb::DB* /*db*/, const rocksdb::FlushJobInfo& /*info*/) override {
    if (at_flush) at_flush();
  }
  void OnMemTableSealed(const rocksdb::MemTableInfo& /*info*/) override {
    if (at_sealed) at_sealed();
  }
  void OnTableFileCreationStarted(const rocksdb::TableFileCreationBriefInfo& info) override {
    if (info.reason == rocksdb::TableFileCreationReason::kCompaction && at_compaction) at_compaction();
  }

  std::atomic<int> errors{0}, ends{0}, recovered{0};
  bool recovers = true;
  std::function<void()> at_error, at_end, at_compaction, at_flush, at_sealed;
  std::function<void(const std::string& family)> at_table;
};

// A hang cannot be unwound.
[[noreturn]] inline void Hangs(const char* what) {
  std::fprintf(stderr, "%s does not end\n", what);
  _exit(1);
}

class ErrorRecoveryTest : public ::testing::Test {
 protected:
  ErrorRecoveryTest() {
    options_.env = env_.get();
    options_.sst_file_manager = manager_;
    options_.memtable_factory = NewSubMemTableFactory();
    options_.bgerror_resume_retry_interval = 20000;
    options_.listeners.push_back(listener_);
  }

  std::unique_ptr<rocksdb::DB> Open(const rocksdb::Options& options, const std::string& name = "db") {
    rocksdb::DB* opened = nullptr;
    EXPECT_OK(rocksdb::DB::Open(options, dir_ / name, port::Into(&opened)));
    return std::unique_ptr<rocksdb::DB>(opened);
  }
  // A database with a key that is in no table.
  std::unique_ptr<rocksdb::DB> OpenWithKey(const rocksdb::Options& options, const std::string& name = "db") {
    std::unique_ptr<rocksdb::DB> db = Open(options, name);
    EXPECT_OK(Put(db.get()));
    return db;
  }
  static rocksdb::Status Put(rocksdb::DB* db) { return db->Put(rocksdb::WriteOptions(), "key", "value"); }
  // May be refused.
  static void BeginFlush(rocksdb::DB* db, rocksdb::ColumnFamilyHandle* family = nullptr) {
    cairn::BeginFlush(db, family).PermitUncheckedError();
  }
  template <typename Function>
  static rocksdb::Status Ends(const char* what, const Function& function) {
    std::future<rocksdb::Status> done = std::async(std::launch::async, function);
    if (done.wait_for(std::chrono::minutes(1)) != std::future_status::ready) Hangs(what);
    return done.get();
  }
  static rocksdb::Status CloseEnds(rocksdb::DB* db) {
    return Ends("Close", [db] { return db->Close(); });
  }
  // Returns when it waits.
  static std::future<rocksdb::Status> WaitForCompactAndClose(rocksdb::DB* db) {
    return test::BeginUntilItWaits([db] {
      rocksdb::WaitForCompactOptions options;
      options.close_db = true;
      return db->WaitForCompact(options);
    });
  }
  static bool IsStopped(rocksdb::DB* db) {
    uint64_t stopped = 0;
    return db->GetIntProperty(rocksdb::DB::Properties::kIsWriteStopped, &stopped) && stopped == 1;
  }
  // So that files of level 0 hold writers back until the triggers of that are raised.
  void LetNothingBeCompacted() {
    options_.compaction_style = rocksdb::kCompactionStyleNone;
    options_.level0_file_num_compaction_trigger = 1;  // RocksDB asserts that those that hold writers back are no lower
  }
  // A database of RocksDB's parts alone, whose recovery flushes the active memtable in any case. Its flushes are held.
  std::unique_ptr<rocksdb::DB> OpenStockWithHeldFlushes() {
    options_.memtable_factory = rocksdb::Options().memtable_factory;
    options_.max_write_buffer_number = 2;
    std::unique_ptr<rocksdb::DB> db = Open(options_);
    disk_->held = test::kTable;
    return db;
  }
  // A database whose WriteBufferManager holds writers back. Its flushes are held.
  std::unique_ptr<rocksdb::DB> OpenWithBufferManagerAndHeldFlushes() {
    options_.write_buffer_size = 1 << 20;
    options_.write_buffer_manager =
        std::make_shared<rocksdb::WriteBufferManager>(1 << 20, nullptr, /*allow_stall=*/true);
    std::unique_ptr<rocksdb::DB> db = Open(options_);
    disk_->held = test::kTable;
    return db;
  }
  // When its writers are stopped, its flush meets a full disk, which is well again afterwards.
  void FailAFlushOfStopped(rocksdb::DB* db) {
    ASSERT_TRUE(Await([&] { return IsStopped(db); }));
    disk_->full = test::kTable;
    disk_->held = 0;
    ASSERT_TRUE(Await([&] { return listener_->errors > 0; }));
    disk_->full = 0;
  }

  const test::TempDir dir_;
  const std::shared_ptr<test::FaultyDisk> disk_ = std::make_shared<test::FaultyDisk>(rocksdb::FileSystem::Default());
  const std::unique_ptr<rocksdb::Env> env_ = test::NewImpatientEnv(disk_);
  const std::shared_ptr<rocksdb::SstFileManager> manager_ = test::NewImpatientSstFileManager(env_.get());
  const std::shared_ptr<Listener> listener_ = std::make_shared<Listener>();
  rocksdb::Options options_ = test::BaseOptions();
};

// Puts until it is destroyed.
class Writer {
 public:
  explicit Writer(rocksdb::DB* db)
      : thread_([this, db] {
          const std::string value(1000, 'v');
          for (int i = 0; !ends_; ++i) {
            const bool ok = db->Put(rocksdb::WriteOptions(), "key" + std::to_string(i), value).ok();
            ++(ok ? written_ : refused_);
            if (!ok) std::this_thread::sleep_for(std::chrono::milliseconds(1));
          }
        }) {}
  ~Writer() {
    ends_ = true;
    thread_.join();
  }
  int written() const { return written_; }
  int refused() const { return refused_; }
  bool GoesOn() const {
    return Await([this, before = written()] { return written() > before + 100; });
  }

 private:
  std::atomic<int> written_{0}, refused_{0};
  std::atomic<bool> ends_{false};
  std::thread thread_;
};

}  // namespace cairn
