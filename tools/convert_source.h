// The database that `cairn convert` reads: opened read-only with the options stored in it, locked against writers while
// it is read, and checked for everything that a copy could not carry over.
//
// Nothing in its directory is written or created. The lock is RocksDB's own LOCK file, shared with other readers, so
// that a writer is kept out also where only others may write.
//
// Thread-safety: as rocksdb::DB; the class itself has no mutable state after Open.

#pragma once

#include <memory>
#include <string>
#include <vector>

#include "rocksdb/db.h"
#include "rocksdb/options.h"

namespace cairn {

struct SourceFamily {
  std::string name;
  rocksdb::ColumnFamilyOptions options;
  rocksdb::ColumnFamilyHandle* handle = nullptr;
  uint64_t estimated_records = 0;
};

class ConvertSource {
 public:
  // NotSupported: something in the database cannot be carried over; the message says what and why. Busy: another
  // process has the database open.
  static rocksdb::Status Open(const std::string& path, std::unique_ptr<ConvertSource>* source);
  ~ConvertSource();

  ConvertSource(const ConvertSource&) = delete;
  ConvertSource& operator=(const ConvertSource&) = delete;

  rocksdb::DB* db() const { return db_; }
  const std::string& path() const { return path_; }
  const std::string& identity() const { return identity_; }
  uint64_t sequence() const { return db_->GetLatestSequenceNumber(); }
  const rocksdb::DBOptions& db_options() const { return db_options_; }
  const std::vector<SourceFamily>& families() const { return families_; }

  // Sizes of tables, blob files and memtables.
  uint64_t Bytes() const;

  // What is left behind without harm to the data, a sentence each.
  const std::vector<std::string>& notes() const { return notes_; }

 private:
  using OptionMap = std::unordered_map<std::string, std::string>;

  ConvertSource() = default;
  rocksdb::Status Lock();
  rocksdb::Status LoadOptions();
  rocksdb::Status CheckOptions(const SourceFamily& family, const OptionMap& text);
  rocksdb::Status OpenReadOnly();
  rocksdb::Status CheckContents();

  std::string path_;
  std::string identity_;
  int lock_ = -1;  // descriptor of the LOCK file
  rocksdb::DBOptions db_options_;
  std::vector<SourceFamily> families_;
  std::vector<std::string> unknown_merge_operators_;  // one a family; empty: none or known
  rocksdb::DB* db_ = nullptr;
  std::vector<std::string> notes_;
};

}  // namespace cairn
