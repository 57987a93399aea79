// What the benchmark programs count: bytes that an engine wrote, bytes it holds, processor time, memory of its tables.
//
// Thread-safety: SpaceSampler runs a thread of its own and may be read by any; the functions are thread-safe.

#pragma once

#include <algorithm>
#include <atomic>
#include <chrono>
#include <condition_variable>
#include <cstdint>
#include <mutex>
#include <string>
#include <thread>

#include "rocksdb/db.h"
#include "rocksdb/statistics.h"

namespace cairn::bench {

// Totals of RocksDB's statistics since the database was opened. Bytes, unless the name says otherwise.
struct WriteCounters {
  uint64_t flush_bytes = 0;
  uint64_t compaction_bytes = 0;
  uint64_t compaction_read_bytes = 0;
  uint64_t wal_bytes = 0;
  uint64_t stall_micros = 0;
};
WriteCounters ReadWriteCounters(const rocksdb::Statistics& statistics);

// Of a calling thread's lookups, since the last ResetLookupCounters in the same thread.
struct LookupCounters {
  uint64_t blocks_read = 0;         // from files: not in the block cache
  uint64_t filter_blocks_read = 0;  // of these
  uint64_t index_blocks_read = 0;
  uint64_t blocks_cached = 0;  // found there
  uint64_t filter_passes = 0;  // tables whose filter could not rule the key out
  uint64_t filter_stops = 0;   // tables whose filter could

  uint64_t data_blocks_read() const { return blocks_read - filter_blocks_read - index_blocks_read; }
  LookupCounters& operator+=(const LookupCounters& other);
};
void ResetLookupCounters();  // also turns counting on
LookupCounters ReadLookupCounters();

struct CpuSeconds {
  double process = 0;  // all threads
  double thread = 0;   // the calling one
};
CpuSeconds ReadCpu();

// Bytes of the newest version's tables.
uint64_t LiveTableBytes(rocksdb::DB* db);

// All regular files in and under a folder; 0 when it does not exist. Files that vanish meanwhile are not counted.
uint64_t DirectoryBytes(const std::string& path);

// What the tables and blob files in a folder take of the file system, those that a compaction is still writing included
// (with the room that it has asked for), which no Version knows. 0 when the folder does not exist.
uint64_t TableFileBytes(const std::string& folder);

// At most four seconds.
inline uint32_t NanosSince(std::chrono::steady_clock::time_point start) {
  const std::chrono::duration<double> passed = std::chrono::steady_clock::now() - start;
  return static_cast<uint32_t>(std::min(4.0, passed.count()) * 1e9);
}

// Index and filter blocks that the open tables hold in memory, outside the block cache.
uint64_t TableReaderMemory(rocksdb::DB* db);

// Index and filter blocks of all tables as they are in the files, partitions included.
uint64_t IndexFilterBlocks(rocksdb::DB* db);

// Files of the newest version, and how many of RocksDB's levels hold any (each file of level 0 counts as one).
struct TreeShape {
  uint64_t files = 0;
  uint64_t sorted_runs = 0;
};
TreeShape ReadShape(rocksdb::DB* db);

// Samples a database while it is loaded, ten times a second, and keeps the worst of its space. A compaction's files
// take most at its end, so the worst is what they took within a tenth of a second of it.
class SpaceSampler {
 public:
  // `folder` holds the database's tables. `live_bytes` gives the bytes of keys and newest values; samples count once it
  // has reached `from_bytes`, because at the very start the write buffer holds most of it. All of them outlive the
  // sampler.
  SpaceSampler(rocksdb::DB* db, const std::string& folder, const std::atomic<uint64_t>* live_bytes,
               uint64_t from_bytes);
  ~SpaceSampler();  // Stop()
  SpaceSampler(const SpaceSampler&) = delete;
  SpaceSampler& operator=(const SpaceSampler&) = delete;

  void Stop();

  // After Stop. Bytes of the newest version's tables, and of all table files there are, per live byte; 0 when no sample
  // counted.
  double max_live_tables() const { return max_live_tables_; }
  double max_table_files() const { return max_table_files_; }
  uint64_t max_table_file_bytes() const { return max_table_file_bytes_; }
  double cpu_seconds() const { return cpu_seconds_; }

 private:
  void Run();
  void Sample();

  rocksdb::DB* const db_;
  const std::string folder_;
  const std::atomic<uint64_t>* const live_bytes_;
  const uint64_t from_bytes_;

  std::mutex mutex_;
  std::condition_variable wake_;
  bool stop_ = false;  // guarded by mutex_

  // Written by the sampling thread, read after it was joined.
  double max_live_tables_ = 0;
  double max_table_files_ = 0;
  uint64_t max_table_file_bytes_ = 0;
  double cpu_seconds_ = 0;
  std::thread thread_;
};

// A folder for one run's database: made under `parent` (empty: $TMPDIR, or /tmp), removed with all it holds.
class ScratchFolder {
 public:
  ScratchFolder() = default;
  ~ScratchFolder();
  ScratchFolder(const ScratchFolder&) = delete;
  ScratchFolder& operator=(const ScratchFolder&) = delete;

  rocksdb::Status Create(const std::string& parent, const std::string& prefix);
  const std::string& path() const { return path_; }

 private:
  std::string path_;
};

}  // namespace cairn::bench
