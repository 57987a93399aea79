// RocksDB's built-in compressions, as blocks of format_version 2 and later have them: 9.10 and 11.8 write and read the
// same bytes. Before 10.6 RocksDB offers functions for them, since then compressors and decompressors.

#pragma once

#include <memory>
#include <string>
#include <vector>

#include "rocksdb/options.h"
#include "rocksdb/port/rocksdb_version.h"
#include "rocksdb/slice.h"
#include "rocksdb/status.h"

namespace cairn::port {

// Thread-safety: one thread.
class BlockCompressor {
 public:
  // `type` is one that this build of RocksDB has, or kNoCompression.
  BlockCompressor(rocksdb::CompressionType type, const rocksdb::CompressionOptions& options,
                  const std::string& dictionary);
  ~BlockCompressor();

  // False if it does not get smaller.
  bool Compress(const rocksdb::Slice& block, std::string* compressed) const;

 private:
  struct Rep;
  const std::unique_ptr<Rep> rep_;
};

// A dictionary of at most options.max_dict_bytes, trained as the options say; empty if none came of it.
std::string TrainDictionary(rocksdb::CompressionType type, const rocksdb::CompressionOptions& options,
                            const std::string& samples, const std::vector<size_t>& sizes);

// Thread-safety: any number of threads.
class BlockDecompressor {
 public:
  explicit BlockDecompressor(const std::string& dictionary);
  ~BlockDecompressor();

  // Writes `raw` bytes to `output`; Corruption if there are not as many. `type` is one that this build has.
  rocksdb::Status Decompress(rocksdb::CompressionType type, const rocksdb::Slice& stored, size_t raw,
                             char* output) const;
  size_t bytes_in_memory() const;

 private:
  struct Rep;
  const std::unique_ptr<Rep> rep_;
};

// One name for each format of bytes: kZSTDNotFinalCompression, which 10.0 dropped, is kZSTD.
rocksdb::CompressionType FormatOf(rocksdb::CompressionType type);

}  // namespace cairn::port
