// The tables of a database as its MANIFEST tells, without opening the database: no lock is taken, no table is opened,
// no WAL is read, nothing is written. A database that another process writes to is followed: each call reads what was
// added since the last one.
//
// Thread-safety: none.

#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <string>

#include "rocksdb/port/log_reporter.h"
#include "rocksdb/status.h"

namespace cairn {

struct ManifestTable {
  int level = 0;
  uint64_t bytes = 0;
  uint64_t epoch = 0;
  std::string smallest;  // user keys
  std::string largest;
  bool largest_excluded = false;  // a range deletion ends there
};

struct ManifestFamily {
  std::string name;
  std::string comparator;
  std::map<uint64_t, ManifestTable> tables;  // by file number
  uint64_t version = 0;                      // grows with every change of the tables
};

class ManifestFollower {
 public:
  // `path`: the database's directory.
  explicit ManifestFollower(std::string path) : path_(std::move(path)) {}

  // Reads on. NotFound when there is no database; TryAgain when the database changed its MANIFEST meanwhile.
  rocksdb::Status Follow();

  const std::map<uint32_t, ManifestFamily>& families() const { return families_; }  // by id

 private:
  rocksdb::Status OpenManifest(const std::string& name);
  rocksdb::Status Apply(const rocksdb::Slice& record);

  const std::string path_;
  std::string manifest_;       // file name; empty: none was read
  port::FirstFault reporter_;  // a damaged record ends the reading
  std::unique_ptr<rocksdb::log::FragmentBufferedReader> reader_;
  std::map<uint32_t, ManifestFamily> families_;
};

}  // namespace cairn
