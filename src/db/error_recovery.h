// What the functions share that take the place of RocksDB's where a database recovers from an error: error_recovery.cc has
// most of them, rocksdb_hooks.cc FlushAllColumnFamilies.

#pragma once

namespace cairn {

// What recovers a database on this thread begins again once it has failed, after writers that were held back have been
// refused.
void RecoverAgain();

}  // namespace cairn
