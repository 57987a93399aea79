// The entries of a WAL, as who opens its database reads them, and what is none.
//
// Thread-safety: any thread, of a WAL that nobody writes. Errors: of the file; that something is torn is none.

#pragma once

#include <cstdint>
#include <functional>
#include <string>

#include "rocksdb/file_system.h"
#include "rocksdb/io_status.h"
#include "rocksdb/slice.h"

namespace rocksdb {
class Logger;
}  // namespace rocksdb

namespace cairn {

struct WalEntry {
  rocksdb::Slice batch;
  uint64_t begin = 0;
  uint64_t end = 0;
};

// Calls `each` with the entries of a WAL until it returns false. Where damaged is null, what is damaged is passed over, as by
// kSkipAnyCorruptedRecords; otherwise *damaged says whether something is torn or damaged, and nothing behind it is read. An
// opening takes what is shorter than a batch's header for damaged, too.
rocksdb::IOStatus ReadWalEntries(rocksdb::FileSystem* fs, const std::string& path, uint64_t number,
                                 rocksdb::Logger* log, bool* damaged,
                                 const std::function<bool(const WalEntry& entry)>& each);

// Zeros from `end` to here are skipped by all readers, in any wal_recovery_mode; it is not before `size`. In the last block they
// must be a header at least, or the reader takes them for one that is cut off.
uint64_t EndOfZeros(uint64_t end, uint64_t size);

}  // namespace cairn
