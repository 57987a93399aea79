// Finds out why a database does not open, and mends that and nothing else.
//
//   step               what is damaged                    what is lost
//   kPointToManifest   CURRENT                            nothing
//   kDropTables        tables that the MANIFEST lists     what only they hold; what they hid may come back
//   kSkipRecords       records of the WAL                 those records
//   kRebuild           the MANIFEST                       the levels; what compactions had dropped may come back
//   kTakePool          nothing more: after kRebuild, the  nothing
//                      writes of a pool file
//
// What is no damage (no file descriptors left, no space, options that do not fit, writes in a pool file ...) is an
// error, and nothing is changed. Damaged files go into the folder "lost" of the database.
//
// Not thread-safe.

#pragma once

#include <functional>
#include <string>

#include "rocksdb/status.h"

namespace cairn {

enum class RepairStep { kNone, kPointToManifest, kDropTables, kSkipRecords, kRebuild, kTakePool };

// Step by step, until the database opens: tells, a line each, why it does not, what would be done and what that loses,
// and does it if `agree` says so. *what_was_done is for people ("was rebuilt from its tables and WAL"); empty: not
// agreed. Busy: another process has the database open.
rocksdb::Status RepairDatabase(const std::string& path, const std::function<void(const std::string& line)>& tell,
                               const std::function<bool(RepairStep step)>& agree, std::string* what_was_done);

}  // namespace cairn
