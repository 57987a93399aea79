// Tables that end in RocksDB's footer with a magic number that it does not know. Since 11.0 RocksDB reads and writes
// footers of its own formats only: for the magic numbers that are registered here, the check is left out.
//
// Thread-safety: magic numbers are registered by static initialisers only; all else is safe.

#pragma once

#include <cstdint>

#include "rocksdb/port/rocksdb_version.h"
#include "table/format.h"

namespace cairn::port {

void RegisterForeignFooter(uint64_t magic);

// Makes the footer of a registered format, as rocksdb::FooterBuilder::Build does.
rocksdb::Status BuildForeignFooter(rocksdb::FooterBuilder* footer, uint64_t magic, uint32_t format_version,
                                   uint64_t offset, const rocksdb::BlockHandle& metaindex,
                                   const rocksdb::BlockHandle& index);

}  // namespace cairn::port
