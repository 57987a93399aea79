// Without it: a database does not open again when the MANIFEST could not be written or synced for an ingestion, as on a
// full disk. RocksDB removes the tables of an ingestion that has failed, and the MANIFEST may name them nevertheless.
// Here they stay: an opening that finds no record of them removes them.
// Seen in: RocksDB 9.10 and 11.8.
// Cost: the space of these tables until the next opening.
// Test: manifest_fault_test.

#include "db/external_sst_file_ingestion_job.h"
#include "rocksdb/port/db_impl.h"

extern "C" {
extern const int cairn_ingested_tables_stay;
const int cairn_ingested_tables_stay = 1;
}

namespace cairn::rocksdb_own {

void CleanupIngestion(rocksdb::ExternalSstFileIngestionJob* job,
                      const rocksdb::Status& status) asm("cairn_rocksdb_CleanupIngestion");

}  // namespace cairn::rocksdb_own

namespace rocksdb {

// Since 11.5 a commit that failed is rolled back later, when its error is not known any more (Incomplete).
void ExternalSstFileIngestionJob::Cleanup(const Status& status) {
  if (!cairn::port::UsesCairn(db_options_)) return cairn::rocksdb_own::CleanupIngestion(this, status);
  const bool may_be_named = (status.IsIOError() || status.IsIncomplete()) && !edit_.GetNewFiles().empty();
  if (!may_be_named) cairn::rocksdb_own::CleanupIngestion(this, status);
}

}  // namespace rocksdb
