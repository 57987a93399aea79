// The reading side of engine_bench: gets of present and absent keys, one by one, by several threads or in batches, and
// scans. What is read is compared with what was put.
//
// Thread-safety: one thread calls.

#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "db_bench/keys.h"
#include "db_bench/measure.h"
#include "rocksdb/db.h"

namespace cairn::bench {

// The key numbers of a workload, and how they are chosen.
struct KeySpace {
  uint64_t keys = 0;
  bool zipf = false;
  double theta = 0;
  uint64_t seed = 0;

  // Choosers of different streams are independent.
  std::unique_ptr<KeyChooser> NewChooser(uint64_t stream) const;
};

// The newest value size of every key number, 0: absent.
using SizeTable = std::vector<uint16_t>;

struct LookupResult {
  uint64_t gets = 0;  // or seeks, or entries of a scan
  double seconds = 0;
  double cpu_seconds = 0;       // of all threads
  LookupCounters counters;      // of all threads
  bool timed = false;           // set by the caller: gets of present keys are timed one by one
  std::vector<uint32_t> nanos;  // then, sorted
};

class Lookups {
 public:
  // All outlive this.
  Lookups(rocksdb::DB* db, const KeySpace& keys, const SizeTable& sizes, const ValueSource& values)
      : db_(db), keys_(keys), sizes_(sizes), values_(values) {}

  // Corruption if the key is missing or has another value than its newest.
  rocksdb::Status GetPresent(uint64_t number, rocksdb::PinnableSlice* value) const;

  // The same sequence of keys each time.
  rocksdb::Status Present(const std::string& step, uint64_t gets, LookupResult* result) const;
  // Keys that were never put.
  rocksdb::Status Missing(uint64_t gets, LookupResult* result) const;
  // Each thread gets that many, of its own sequence.
  rocksdb::Status InThreads(int threads, uint64_t gets, bool present, LookupResult* result) const;
  // The sequence of Present, by MultiGet.
  rocksdb::Status InBatches(const std::string& step, uint64_t gets, size_t batch, LookupResult* result) const;
  // A new iterator for each, to a key that was put or to one right behind it that was not, and so many steps from
  // there. REQUIRES: the order of keys is that of their bytes.
  enum class SeekTo { kPresent, kAbsent };
  rocksdb::Status Seeks(const std::string& step, uint64_t seeks, SeekTo to, int steps, LookupResult* result) const;
  // All entries, forward.
  rocksdb::Status Scan(bool fill_cache, LookupResult* result) const;

 private:
  rocksdb::Status PresentOf(uint64_t stream, const std::string& step, uint64_t gets, LookupResult* result) const;
  rocksdb::Status MissingOf(uint64_t seed, uint64_t gets, LookupResult* result) const;
  rocksdb::Status Check(uint64_t number, const rocksdb::Status& got, const rocksdb::Slice& value) const;

  rocksdb::DB* const db_;
  const KeySpace keys_;
  const SizeTable& sizes_;
  const ValueSource& values_;
};

}  // namespace cairn::bench
