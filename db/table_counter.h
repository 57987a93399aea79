// Adds up the tables that come and go in a database: bytes written, and the most that lay on the disk at one moment,
// for benchmarks. What a compaction has written so far counts, and so does what is deleted and still held by one.
//
// Thread-safety: safe. Add it to Options::listeners; Watch before anything is counted, Unwatch before the DB is closed.

#pragma once

#include <algorithm>
#include <atomic>
#include <cstdint>
#include <map>
#include <mutex>
#include <set>
#include <string>

#include "rocksdb/db.h"
#include "rocksdb/listener.h"

namespace cairn {

class TableCounter : public rocksdb::EventListener {
 public:
  // What the most was made of, in bytes.
  struct Peak {
    double per_live_byte = 0;
    uint64_t live = 0;
    uint64_t root = 0;     // level 0
    uint64_t below = 0;    // other levels
    uint64_t written = 0;  // by compactions and flushes under way
    uint64_t held = 0;     // in no level any more
  };

  void OnTableFileCreated(const rocksdb::TableFileCreationInfo& info) override {
    bool most = false;
    {
      const std::lock_guard<std::mutex> lock(mutex_);
      if (!info.status.ok() || info.file_size == 0) return;
      tables_[info.file_path] = {info.file_size, info.job_id};
      space_ += info.file_size;
      written_ += info.file_size;
      if (info.reason == rocksdb::TableFileCreationReason::kFlush) {
        flushed_ += info.file_size;
        ++flushes_;
      } else {
        largest_ = std::max(largest_, jobs_[info.job_id] += info.file_size);
      }
      const uint64_t live = live_.load();
      most = live != 0 && static_cast<double>(space_) / static_cast<double>(live) > peak_.per_live_byte;
      if (most) {
        peak_.per_live_byte = static_cast<double>(space_) / static_cast<double>(live);
        peak_.live = live;
      }
    }
    if (most && db_ != nullptr) LookAtPeak();
  }
  void OnTableFileDeleted(const rocksdb::TableFileDeletionInfo& info) override {
    const std::lock_guard<std::mutex> lock(mutex_);
    const auto found = tables_.find(info.file_path);
    if (found == tables_.end()) return;
    space_ -= found->second.bytes;
    tables_.erase(found);
  }
  void OnCompactionCompleted(rocksdb::DB* /*db*/, const rocksdb::CompactionJobInfo& info) override {
    const std::lock_guard<std::mutex> lock(mutex_);
    ended_.insert(info.job_id);
  }
  void OnFlushCompleted(rocksdb::DB* /*db*/, const rocksdb::FlushJobInfo& info) override {
    const std::lock_guard<std::mutex> lock(mutex_);
    ended_.insert(info.job_id);
  }

  void Watch(rocksdb::DB* db) { db_ = db; }
  void Unwatch() { db_ = nullptr; }

  // What was written until now does not count.
  void Restart() {
    const std::lock_guard<std::mutex> lock(mutex_);
    written_ = flushed_ = flushes_ = largest_ = 0;
    peak_ = Peak();
  }

  // Of keys and values; 0: not yet to be compared with.
  void SetLive(uint64_t bytes) { live_.store(bytes); }

  struct Counts {
    uint64_t written = 0, flushed = 0, flushes = 0;
    uint64_t largest = 0;  // that one compaction wrote
    uint64_t space = 0, live = 0, tables = 0;
    Peak peak;
  };
  Counts Get() const {
    const std::lock_guard<std::mutex> lock(mutex_);
    return {written_, flushed_, flushes_, largest_, space_, live_.load(), tables_.size(), peak_};
  }

 private:
  // RocksDB calls without its mutex.
  void LookAtPeak() {
    rocksdb::ColumnFamilyMetaData family;
    db_.load()->GetColumnFamilyMetaData(&family);
    const std::lock_guard<std::mutex> lock(mutex_);
    std::set<std::string> now;
    peak_.root = peak_.below = peak_.written = peak_.held = 0;
    for (const rocksdb::LevelMetaData& level : family.levels) {
      (level.level == 0 ? peak_.root : peak_.below) += level.size;
      for (const rocksdb::SstFileMetaData& file : level.files) now.insert(file.db_path + file.name);
    }
    for (const auto& [path, table] : tables_) {
      if (now.count(path) == 0) (ended_.count(table.job) == 0 ? peak_.written : peak_.held) += table.bytes;
    }
  }

  struct Table {
    uint64_t bytes;
    int job;
  };

  std::atomic<rocksdb::DB*> db_{nullptr};
  std::atomic<uint64_t> live_{0};
  mutable std::mutex mutex_;
  std::map<std::string, Table> tables_;
  std::map<int, uint64_t> jobs_;  // what they wrote
  std::set<int> ended_;           // of them
  uint64_t space_ = 0, written_ = 0, flushed_ = 0, flushes_ = 0, largest_ = 0;
  Peak peak_;
};

}  // namespace cairn
