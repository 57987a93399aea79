// The part of the compaction scheduler that RocksDB knows: an EventListener that brings each database's events to its
// TrieScheduler. It holds no state, so one may serve any number of databases.
//
// Option string: cairn.TrieCompaction
// Thread-safety: safe.

#pragma once

#include <string>

#include "rocksdb/listener.h"

namespace cairn {

class TrieListener : public rocksdb::EventListener {
 public:
  static const char* kClassName() { return "cairn.TrieCompaction"; }
  const char* Name() const override { return kClassName(); }
  // Not in OPTIONS files and option strings: every opening of a trie adds it (db/opening.cc), and RocksJava's parser
  // takes no list of listeners.
  std::string GetId() const override { return std::string(); }

  void OnFlushCompleted(rocksdb::DB* db, const rocksdb::FlushJobInfo& info) override;
  void OnCompactionCompleted(rocksdb::DB* db, const rocksdb::CompactionJobInfo& info) override;
  void OnExternalFileIngested(rocksdb::DB* db, const rocksdb::ExternalFileIngestionInfo& info) override;
  void OnTableFileDeleted(const rocksdb::TableFileDeletionInfo& info) override;
  void OnErrorRecoveryEnd(const rocksdb::BackgroundErrorRecoveryInfo& info) override;
  void OnColumnFamilyHandleDeletionStarted(rocksdb::ColumnFamilyHandle* handle) override;
};

}  // namespace cairn
