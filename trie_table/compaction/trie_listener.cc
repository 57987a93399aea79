#include "trie_table/compaction/trie_listener.h"

#include "trie_table/compaction/trie_scheduler.h"

namespace cairn {

void TrieListener::OnFlushCompleted(rocksdb::DB* db, const rocksdb::FlushJobInfo& info) {
  const auto scheduler = TrieScheduler::Attach(db);
  if (scheduler != nullptr) scheduler->OnFlush(info.cf_id);
}

void TrieListener::OnCompactionCompleted(rocksdb::DB* db, const rocksdb::CompactionJobInfo& info) {
  info.status.PermitUncheckedError();
  const auto scheduler = TrieScheduler::Find(db);
  if (scheduler != nullptr) scheduler->OnCompaction();
}

void TrieListener::OnExternalFileIngested(rocksdb::DB* db, const rocksdb::ExternalFileIngestionInfo& info) {
  const auto scheduler = TrieScheduler::Attach(db);
  if (scheduler != nullptr) scheduler->OnFilesIngested(info.cf_name);
}

void TrieListener::OnTableFileDeleted(const rocksdb::TableFileDeletionInfo& info) {
  for (const auto& scheduler : TrieScheduler::All()) scheduler->OnFileDeleted(info.db_name, info.file_path);
}

// RocksDB does not say which database has recovered; asking one that has not costs a failed attempt at most.
void TrieListener::OnErrorRecoveryEnd(const rocksdb::BackgroundErrorRecoveryInfo& info) {
  info.old_bg_error.PermitUncheckedError();
  info.new_bg_error.PermitUncheckedError();
  for (const auto& scheduler : TrieScheduler::All()) scheduler->OnRecovered();
}

void TrieListener::OnColumnFamilyHandleDeletionStarted(rocksdb::ColumnFamilyHandle* handle) {
  const auto scheduler = TrieScheduler::FindByDefaultHandle(handle);
  if (scheduler != nullptr) scheduler->Shutdown();
}

}  // namespace cairn
