// The formats that can be read beside the one that a factory writes, by the magic number at the end of a file.
//
// Thread-safety: formats are registered by static initialisers only; looking one up is safe from then on.

#pragma once

#include <cstdint>
#include <memory>

#include "rocksdb/table.h"

namespace cairn {

// Opens a table as TableFactory::NewTableReader does. `blocks` is a factory whose block-based options, a block cache
// say, are to be used.
using OpenTableFunction = rocksdb::Status (*)(const std::shared_ptr<rocksdb::TableFactory>& blocks,
                                              const rocksdb::ReadOptions& read_options,
                                              const rocksdb::TableReaderOptions& options,
                                              std::unique_ptr<rocksdb::RandomAccessFileReader>&& file,
                                              uint64_t file_size, std::unique_ptr<rocksdb::TableReader>* reader);

// `factory`: the name of the format's own factory, which reads other formats by itself.
struct TableFormatRegistration {
  TableFormatRegistration(uint64_t footer_magic, const char* factory, OpenTableFunction open);
};

// How to open this file; null if `factory` is to do it. An unreadable footer is an error.
rocksdb::Status FindTableFormat(const rocksdb::TableFactory& factory, const rocksdb::ReadOptions& read_options,
                                const rocksdb::TableReaderOptions& options, rocksdb::RandomAccessFileReader* file,
                                uint64_t file_size, OpenTableFunction* open);

}  // namespace cairn
