#include "src/htable/htable_compression.h"

#include <cstring>

#include "src/htable/htable_format.h"

namespace cairn {

namespace {

constexpr uint32_t kCompressFormat = 2;  // RocksDB's: sizes are stored with the bytes

}  // namespace

static_assert(rocksdb::kZSTD <= kMaxUnitCompression, "the largest type that a unit may name");

UnitCompressor::UnitCompressor(rocksdb::CompressionType type, const rocksdb::CompressionOptions& options)
    : type_(type == rocksdb::kZSTDNotFinalCompression ? rocksdb::kZSTD : type),  // other names of one format
      options_(options),
      context_(type_, options),
      dict_(std::make_unique<rocksdb::CompressionDict>("", type_, options.level)) {}

size_t UnitCompressor::TrainingBytes() const {
  if (type_ == rocksdb::kNoCompression || options_.max_dict_bytes == 0) return 0;
  return options_.zstd_max_train_bytes > 0 ? options_.zstd_max_train_bytes : options_.max_dict_bytes;
}

void UnitCompressor::Train(const std::string& samples, const std::vector<size_t>& sizes) {
  if (samples.empty()) return;
  if (options_.zstd_max_train_bytes == 0) {
    dictionary_ = samples.substr(0, options_.max_dict_bytes);
  } else if (options_.use_zstd_dict_trainer) {
    dictionary_ = rocksdb::ZSTD_TrainDictionary(samples, sizes, options_.max_dict_bytes);
  } else {
    dictionary_ = rocksdb::ZSTD_FinalizeDictionary(samples, sizes, options_.max_dict_bytes, options_.level);
  }
  dict_ = std::make_unique<rocksdb::CompressionDict>(dictionary_, type_, options_.level);
}

bool UnitCompressor::Compress(const rocksdb::Slice& payload, std::string* compressed) const {
  if (type_ == rocksdb::kNoCompression) return false;
  compressed->clear();
  const rocksdb::CompressionInfo info(options_, context_, *dict_, type_, 0);
  return rocksdb::CompressData(payload, info, kCompressFormat, compressed) && compressed->size() < payload.size();
}

UnitDecompressor::UnitDecompressor(const std::string& dictionary) : dict_(dictionary, true) {}

rocksdb::Status UnitDecompressor::Decompress(rocksdb::CompressionType type, const rocksdb::Slice& stored, size_t raw,
                                             char* output) const {
  if (!rocksdb::CompressionTypeSupported(type)) {
    return rocksdb::Status::NotSupported("compression type " + std::to_string(static_cast<int>(type)),
                                         "this build has no such library");
  }
  const rocksdb::UncompressionContext context(type);
  const rocksdb::UncompressionInfo info(context, dict_, type);
  size_t size = 0;
  const rocksdb::CacheAllocationPtr bytes =
      rocksdb::UncompressData(info, stored.data(), stored.size(), &size, kCompressFormat);
  if (bytes == nullptr || size != raw) return rocksdb::Status::Corruption("unit does not decompress");
  memcpy(output, bytes.get(), raw);
  return rocksdb::Status::OK();
}

}  // namespace cairn
