// What RocksDB reads of the WAL while it opens a database: how far each file went, and from which file on they were
// needed. It reads the same records that RocksDB recovers, in the same pass, and changes nothing.
//
// The filter that listens is one object for the whole process, which never dies, so whoever copies the options of an
// open database may keep it. It has no name, and so stands in no OPTIONS file.
//
// Thread-safety: a report belongs to the thread that opens.

#pragma once

#include <cstdint>
#include <map>
#include <set>
#include <string_view>
#include <unordered_map>

#include "rocksdb/options.h"
#include "rocksdb/wal_filter.h"

namespace cairn {

struct WalReport {
  bool any_file = false;              // RocksDB has found a WAL to look at
  uint64_t first_needed = 0;          // what stood in files of lower numbers is in tables
  std::map<uint64_t, uint64_t> last;  // file number -> newest sequence number that was read of it

  // What was written after a point, if the opening wants to know: set before.
  static constexpr uint64_t kNobodyAsks = UINT64_MAX;
  struct Since {
    uint64_t point = kNobodyAsks;                 // a sequence number
    uint64_t last_needed = 0;                     // of the families' first needed files, the last
    uint64_t newest = 0;                          // sequence number that was read
    uint64_t covered = 0;                         // the WAL holds all writes from the point to here
    bool doubtful = false;                        // it lacks some, or holds what cannot be told from its records
    std::unordered_map<uint64_t, uint64_t> keys;  // hash of a key, in whatever family -> the newest write
    std::set<uint32_t> families;                  // that lost a range of keys
  } since;
  static uint64_t HashOf(std::string_view key);

  // While it lives, openings of this thread that have the filter report to *report.
  class Scope {
   public:
    explicit Scope(WalReport* report);
    ~Scope();
    Scope(const Scope&) = delete;
    Scope& operator=(const Scope&) = delete;

   private:
    WalReport* const outer_;
  };

  // Puts the filter into the options, or takes one out that came with copied options. False: the options have another.
  enum class Wanted { kYes, kNo };
  static bool Listen(Wanted wanted, rocksdb::DBOptions* options);
};

}  // namespace cairn
