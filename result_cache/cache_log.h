// Lines of a database's result cache in the LOG of the database. Before the database is open there is none, and the
// lines are lost.
//
// Thread-safety: safe. Begin is called once at the most.

#pragma once

#include <atomic>
#include <memory>
#include <string>
#include <utility>

#include "rocksdb/env.h"

namespace cairn {

class CacheLog {
 public:
  void Begin(std::shared_ptr<rocksdb::Logger> log) {
    owner_ = std::move(log);
    log_.store(owner_.get(), std::memory_order_release);
  }
  void Line(const std::string& line) const { Write(rocksdb::InfoLogLevel::INFO_LEVEL, line); }
  void Warn(const std::string& line) const { Write(rocksdb::InfoLogLevel::WARN_LEVEL, line); }

 private:
  void Write(rocksdb::InfoLogLevel level, const std::string& line) const {
    rocksdb::Log(level, log_.load(std::memory_order_acquire), "[cairn] %s", line.c_str());
  }

  std::shared_ptr<rocksdb::Logger> owner_;
  std::atomic<rocksdb::Logger*> log_{nullptr};
};

}  // namespace cairn
