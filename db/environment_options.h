// Engines for programs whose options are fixed in their code: options that are read from the process's environment when
// a database is opened, and laid over what the program gave. docs/guide/switch_on.md has the syntax.
//
//   CAIRN_OPTIONS="memtable_factory=cairn.SubMemTable;[/data/state/*]write_buffer_size=16M"
//   CAIRN_OPTIONS_FILE=/etc/cairn.options      the same text in a file; what CAIRN_OPTIONS says comes after it
//
// Invariants
//   (1) Only options that may change on existing data, and leave files that RocksDB without Cairn reads.
//   (2) A column family that uses a part of Cairn by its own options keeps them all.
//   (3) A database whose path no section names is opened as if there were no such text.
//   (4) A text that cannot be followed refuses every opening, and is named.
//
// Thread-safety: an EnvironmentOptions may be used by any number of threads.

#pragma once

#include <atomic>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "cairn/result_cache.h"
#include "rocksdb/db.h"
#include "rocksdb/env.h"
#include "rocksdb/options.h"
#include "rocksdb/status.h"
#include "util/mutex.h"

namespace cairn {

// What the environment has for one open database.
class EnvironmentOptions {
 public:
  // Null if no section names the path. InvalidArgument if the text cannot be followed, or the file not read. A program
  // that runs with more rights than its caller (setuid) reads no environment.
  static rocksdb::Status FromEnvironment(const std::string& path, std::shared_ptr<EnvironmentOptions>* options);

  // The same of a text; `source` names it in messages.
  static rocksdb::Status FromText(const std::string& source, const std::string& text, const std::string& path,
                                  std::shared_ptr<EnvironmentOptions>* options);

  // Before Apply: the database's transactions may write a key twice under one sequence number (WRITE_PREPARED,
  // WRITE_UNPREPARED), so its memtables must take that.
  void RequireDuplicateKeys() { duplicate_keys_ = true; }

  // Lays what is said of a column family over its options. NotSupported if these do not allow it.
  rocksdb::Status Apply(rocksdb::ColumnFamilyDescriptor* family);
  rocksdb::Status Apply(std::vector<rocksdb::ColumnFamilyDescriptor>* families);

  // The same of one that is created in the open database. While it is being opened this does nothing: RocksDB creates
  // what is missing then, with the options that Apply has seen.
  rocksdb::Status ApplyToNew(rocksdb::ColumnFamilyDescriptor* family);

  // Of the database; with capacity 0 if nothing is said of one.
  DatabaseCacheOptions result_cache() const;

  // The database is open; `log` is its LOG.
  void NoteOpened(rocksdb::Logger* log);

  // What Apply did to the column family, as one line; empty if nothing is said of it.
  std::string Describe(const std::string& family) const;

  // Writes what Apply did since the last call to the database's LOG.
  void LogTo(rocksdb::Logger* log);

 private:
  // One option. What it has parsed is shared by the column families of a database.
  struct Setting {
    std::string value;
    std::string where;                    // the section and the source
    rocksdb::ColumnFamilyOptions parsed;  // defaults, with this option
    DatabaseCacheOptions cache;           // if it is result_cache
  };
  struct Section {
    std::string where;
    std::string path = "*";
    std::string family = "*";
    std::map<std::string, Setting> settings;
  };
  class Parser;

  static rocksdb::Status Append(const std::string& source, const std::string& text, std::vector<Section>* sections);
  static std::shared_ptr<EnvironmentOptions> ForPath(const std::vector<Section>& sections, const std::string& path);
  rocksdb::Status Change(const std::string& option, const Setting& setting,
                         rocksdb::ColumnFamilyOptions* options) const;

  std::vector<Section> sections_;  // those that name the database's path; constant
  bool duplicate_keys_ = false;    // constant from the first Apply on
  std::atomic<bool> opened_{false};

  mutable CheckedMutex mutex_;
  std::map<std::string, std::string> lines_ CAIRN_GUARDED_BY(mutex_);  // by column family
  std::vector<std::string> unlogged_ CAIRN_GUARDED_BY(mutex_);
};

}  // namespace cairn
