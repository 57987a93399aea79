// The status of a database that any process, or none, has open, from outside: MANIFEST, OPTIONS, LOG and the properties
// of tries' tables. Nothing is written, no lock is taken, no WAL is replayed, pool files of durable memtables are not
// touched.
//
// REQUIRES: this process does not have the database open (to ask who holds its LOCK would let go of it).
// Thread-safety: none.

#pragma once

#include <map>
#include <memory>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "rocksdb/comparator.h"
#include "rocksdb/table_properties.h"
#include "tools/status/log_follower.h"
#include "tools/status/manifest_follower.h"
#include "tools/status/reader.h"
#include "trie_table/compaction/trie_file.h"
#include "trie_table/compaction/trie_options.h"

namespace cairn {

class FilesReader final : public StatusReader {
 public:
  // Reads the MANIFEST once. NotFound when there is no database at `path`.
  static rocksdb::Status Open(const std::string& path, std::unique_ptr<FilesReader>* reader);

  rocksdb::Status Read(StatusSnapshot* snapshot) override;
  std::vector<StatusSample> TakePast() override;

 private:
  // What OPTIONS says of a column family.
  struct FamilyOptions {
    std::string engine = "unknown";
    std::string memtable;
    std::string table;
    std::optional<TrieOptionText> trie;
    const rocksdb::Comparator* comparator = nullptr;
    uint64_t write_buffer_bytes = 0;
  };
  // What a table of a trie says of itself; it never changes.
  struct Described {
    TrieFile file;                             // sketch and bytes only
    rocksdb::UserCollectedProperties written;  // those of table/written_totals.h
  };
  struct TrieFamily {
    std::map<uint64_t, Described> described;  // by file number
    uint64_t version = UINT64_MAX;            // of the tables when `stats` was made
    size_t described_then = 0;
    TrieStats stats;
  };

  explicit FilesReader(const std::string& path) : path_(path), manifest_(path) {}

  rocksdb::Status FollowManifest();
  void ReadOptions();
  void ReadOwner(StatusSnapshot* snapshot) const;
  void ReadRunning(StatusSnapshot* snapshot) const;
  bool HasAnyOf(const std::set<uint64_t>& files) const;
  FamilyStatus ReadFamily(uint32_t id, const ManifestFamily& tables, const std::set<uint64_t>& compacting);
  void ReadTrie(const FamilyOptions& options, const ManifestFamily& tables, TrieFamily* state, FamilyStatus* family);
  static void FillStats(const FamilyOptions& options, const ManifestFamily& tables, TrieFamily* state);
  rocksdb::Status Describe(uint64_t number, uint64_t bytes, Described* described) const;

  const std::string path_;
  ManifestFollower manifest_;
  std::unique_ptr<LogFollower> log_;  // null before the first Read
  rocksdb::Status log_status_;        // not OK: the LOG does not tell of flushes and compactions
  rocksdb::InfoLogLevel info_log_level_ = rocksdb::INFO_LEVEL;
  std::string options_file_;  // that was read last
  rocksdb::Status options_status_;
  std::map<std::string, FamilyOptions> options_;  // by column family
  std::map<uint32_t, TrieFamily> tries_;
};

}  // namespace cairn
