// What `cairn serve`, `cairn top`, `/status.json` and `/metrics` show of a database at one moment, wherever it was read
// from. What a source cannot see is empty (std::nullopt), never 0.
//
// Bytes of tables are file sizes; counters ("...since open") only grow while the same process has the database open.
//
// Thread-safety: plain values.

#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "cairn/db.h"
#include "cairn/memtable.h"
#include "cairn/ordered.h"
#include "cairn/silt.h"
#include "cairn/tuner.h"
#include "tools/status/picture.h"

namespace cairn {

// Where the numbers come from.
enum class StatusSource {
  kProcess,  // the database object of this process
  kFiles,    // MANIFEST, OPTIONS, LOG and the tables' properties, read from outside
};

// What one column family has written and read since the database was opened.
struct FamilyTotals {
  uint64_t flushed_bytes = 0;  // by flushes and ingestion
  uint64_t compaction_read_bytes = 0;
  uint64_t compaction_written_bytes = 0;
};

// Bytes of memory.
struct FamilyMemory {
  uint64_t memtables = 0;  // unflushed, and flushed ones that iterators hold
  uint64_t table_readers = 0;
  uint64_t block_cache = 0;  // of the family's cache, which others may share
  uint64_t block_cache_capacity = 0;
  uint64_t block_cache_pinned = 0;
  const void* cache_identity = nullptr;  // equal for families that share a cache; null: none
};

struct FamilyStatus {
  uint32_t id = 0;
  std::string name;
  // "trie", "silt", "ordered", "leveled", "universal", "fifo", "no compaction" or "unknown".
  std::string engine;
  std::string memtable;  // name of the memtable factory
  std::string table;     // name of the table factory
  Picture picture;
  std::optional<double> space_amplification;  // bytes per live byte, estimated
  std::optional<double> write_amplification;  // (flushed + compacted) / flushed: since creation of tries and SILT
                                              // stores, else since open
  std::optional<FamilyTotals> totals;
  std::optional<FamilyMemory> memory;
  // RocksDB's integer properties by the part of their name behind "rocksdb."; those that the source sees.
  std::map<std::string, uint64_t> properties;
  std::optional<TrieStats> trie;
  // Tables of which `trie` knows the properties, of all; smaller only while a source from outside still reads them.
  uint64_t described_tables = 0;
  std::optional<SiltStats> silt;
  std::optional<OrderedStats> ordered;
  std::optional<SubMemTableStats> sub_memtable;
  std::optional<TunerReport> tuner;
  std::vector<std::string> tuner_log;  // newest last
};

// What writers have done since the database was opened.
struct WriterTotals {
  uint64_t unqueued = 0;                   // writes that did not go through RocksDB's queue
  uint64_t waits = 0;                      // of them, for others to be published
  std::map<std::string, uint64_t> queued;  // other writes, by the reason
  uint64_t gate_closings = 0;              // for a queued write, a flush, an ingestion ...
  double gate_closed_seconds = 0;
};

// One compaction under way.
struct RunningCompaction {
  std::string column_family;
  std::string reason;  // as RocksDB's LOG has it; empty: unknown
  uint64_t files = 0;
  uint64_t bytes = 0;
  std::vector<int> levels;           // of the inputs
  std::optional<double> started_at;  // seconds since 1970
};

// A line of the stats that RocksDB writes into its LOG (stats_dump_period_sec).
struct StatsDump {
  double at = 0;  // seconds since 1970
  double ingest_bytes_per_second = 0;
  double stall_percent = 0;
};

struct Histogram {
  double median = 0, percentile95 = 0, percentile99 = 0, sum = 0;
  uint64_t count = 0;
};

struct StatusSnapshot {
  double at = 0;  // seconds since 1970
  std::string database;
  StatusSource source = StatusSource::kProcess;
  std::vector<std::string> not_seen;  // sentences for people; empty: everything is seen
  std::optional<double> uptime_seconds;
  std::optional<bool> open;            // in any process
  std::optional<int64_t> process;      // its id, if it can be seen
  std::optional<uint64_t> user_bytes;  // put in since open
  std::optional<uint64_t> user_keys;
  std::optional<uint64_t> wal_bytes;
  std::optional<double> stall_seconds;     // writers were held up since open
  std::optional<uint64_t> throttled_rate;  // bytes per second that writers are held to at present; 0: none
  std::optional<bool> writes_stopped;
  std::optional<WriterTotals> writers;  // empty, too, where all writes queue
  // Integer properties of the database, as FamilyStatus::properties.
  std::map<std::string, uint64_t> properties;
  std::optional<std::map<std::string, uint64_t>> tickers;  // of options.statistics, by RocksDB's names
  std::map<std::string, Histogram> histograms;
  std::optional<StatsDump> stats_dump;
  std::vector<FamilyStatus> families;
  std::optional<uint64_t> running_compactions;
  // One by one, as far as the source tells them apart.
  std::optional<std::vector<RunningCompaction>> running;
};

// Sums over the column families; empty when one of them is not seen.
std::optional<FamilyTotals> TotalsOf(const StatusSnapshot& snapshot);
std::optional<uint64_t> MemoryOf(const StatusSnapshot& snapshot);  // caches that families share count once
uint64_t BytesOf(const StatusSnapshot& snapshot);

// The counters of a database over time, in a bounded number of samples: when there are too many, every second one goes,
// and samples are taken half as often from then on. So the history reaches back to the beginning, ever coarser.
//
// Thread-safety: none.

// Counters only grow, unless the database was opened anew in between.
struct StatusSample {
  double at = 0;  // seconds since 1970
  std::optional<double> user_bytes;
  std::optional<double> user_keys;
  std::optional<double> keys_read;
  std::optional<double> flushed_bytes;
  std::optional<double> compaction_read_bytes;
  std::optional<double> compaction_written_bytes;
  // Values of the moment.
  std::optional<double> bytes;
  std::optional<double> memory_bytes;
  std::optional<double> write_amplification;
  std::optional<double> space_amplification;
};

StatusSample SampleOf(const StatusSnapshot& snapshot);

// What a counter grew by per second; empty when either is unknown, no time has passed, or the counter began anew.
std::optional<double> RateOf(std::optional<double> before, std::optional<double> after, double seconds);

class History {
 public:
  // REQUIRES: limit >= 4.
  explicit History(double seconds_between_samples, size_t limit = 240)
      : spacing_(seconds_between_samples), limit_(limit) {}

  // Dropped if the last one is too near. Times that run backwards (the clock was set) begin a new history.
  void Add(const StatusSample& sample);

  const std::vector<StatusSample>& samples() const { return samples_; }  // oldest first
  double seconds_between_samples() const { return spacing_; }

 private:
  double spacing_;
  const size_t limit_;
  std::vector<StatusSample> samples_;
};

}  // namespace cairn
