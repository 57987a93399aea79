#include "trie_table/htable/htable_compression.h"

#include "trie_table/htable/htable_format.h"
#include "util/compression.h"

namespace cairn {

static_assert(rocksdb::kZSTD <= kMaxUnitCompression, "the largest type that a unit may name");

UnitCompressor::UnitCompressor(rocksdb::CompressionType type, const rocksdb::CompressionOptions& options)
    : type_(port::FormatOf(type)),
      options_(options),
      compressor_(std::make_unique<port::BlockCompressor>(type_, options, "")) {}

size_t UnitCompressor::TrainingBytes() const {
  if (type_ == rocksdb::kNoCompression || options_.max_dict_bytes == 0) return 0;
  return options_.zstd_max_train_bytes > 0 ? options_.zstd_max_train_bytes : options_.max_dict_bytes;
}

void UnitCompressor::Train(const std::string& samples, const std::vector<size_t>& sizes) {
  if (samples.empty()) return;
  dictionary_ = port::TrainDictionary(type_, options_, samples, sizes);
  compressor_ = std::make_unique<port::BlockCompressor>(type_, options_, dictionary_);
}

bool UnitCompressor::Compress(const rocksdb::Slice& payload, std::string* compressed) const {
  return type_ != rocksdb::kNoCompression && compressor_->Compress(payload, compressed);
}

UnitDecompressor::UnitDecompressor(const std::string& dictionary) : decompressor_(dictionary) {}

rocksdb::Status UnitDecompressor::Decompress(rocksdb::CompressionType type, const rocksdb::Slice& stored, size_t raw,
                                             char* output) const {
  if (!rocksdb::CompressionTypeSupported(type)) {
    return rocksdb::Status::NotSupported("compression type " + std::to_string(static_cast<int>(type)),
                                         "this build has no such library");
  }
  return decompressor_.Decompress(type, stored, raw, output);
}

}  // namespace cairn
