// The pages of one database, whatever reads it: a web server over a StatusReader.
//
// Thread-safety: ServeReader is safe.

#pragma once

#include <memory>

#include "cairn/status.h"
#include "rocksdb/status.h"
#include "tools/status/reader.h"

namespace cairn {

rocksdb::Status ServeReader(std::unique_ptr<StatusReader> reader, const StatusOptions& options,
                            std::unique_ptr<StatusServer>* server);

// The page `/`, tools/status/page.html, as the build has it.
extern const char* const kStatusPage;

}  // namespace cairn
