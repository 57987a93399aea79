// Compression of an HTable's units, by RocksDB's compression types and with at most one dictionary a table.
//
// Thread-safety: a UnitCompressor serves one thread; a UnitDecompressor any number.

#pragma once

#include <memory>
#include <string>

#include "rocksdb/port/block_codec.h"
#include "rocksdb/slice.h"
#include "rocksdb/statistics.h"
#include "rocksdb/status.h"

namespace cairn {

// Whether RocksDB's histograms of times of compression and decompression are wanted.
inline bool CountsTimesOfCodecs(const rocksdb::Statistics* statistics) {
  return statistics != nullptr && statistics->get_stats_level() > rocksdb::StatsLevel::kExceptDetailedTimers;
}

class UnitCompressor {
 public:
  UnitCompressor(rocksdb::CompressionType type, const rocksdb::CompressionOptions& options);

  rocksdb::CompressionType type() const { return type_; }
  const rocksdb::CompressionOptions& options() const { return options_; }
  // Bytes of samples to train a dictionary with; 0: none is wanted.
  size_t TrainingBytes() const;
  void Train(const std::string& samples, const std::vector<size_t>& sizes);
  const std::string& dictionary() const { return dictionary_; }

  // False if compression does not make it smaller.
  bool Compress(const rocksdb::Slice& payload, std::string* compressed) const;

 private:
  const rocksdb::CompressionType type_;
  const rocksdb::CompressionOptions options_;
  std::string dictionary_;
  std::unique_ptr<port::BlockCompressor> compressor_;
};

class UnitDecompressor {
 public:
  explicit UnitDecompressor(const std::string& dictionary);

  // Writes `raw` bytes to `output`. Corruption if there are not as many.
  rocksdb::Status Decompress(rocksdb::CompressionType type, const rocksdb::Slice& stored, size_t raw,
                             char* output) const;
  size_t bytes_in_memory() const { return decompressor_.bytes_in_memory(); }

 private:
  const port::BlockDecompressor decompressor_;
};

}  // namespace cairn
