#include "rocksdb/port/block_codec.h"

#include <cstring>

#include "util/compression.h"

#if CAIRN_ROCKSDB_AT_LEAST(10, 6)
#include "rocksdb/advanced_compression.h"
#endif

namespace cairn::port {

using rocksdb::CompressionType;
using rocksdb::Slice;
using rocksdb::Status;

namespace {

constexpr char kDamaged[] = "unit does not decompress";

}  // namespace

#if CAIRN_ROCKSDB_AT_LEAST(10, 6)

CompressionType FormatOf(CompressionType type) { return type; }

namespace {

std::unique_ptr<rocksdb::Compressor> NewCompressor(CompressionType type, const rocksdb::CompressionOptions& options) {
  // RocksDB would take another type for one that it does not have.
  if (!rocksdb::CompressionTypeSupported(type)) return nullptr;
  return rocksdb::GetBuiltinV2CompressionManager()->GetCompressor(options, type);
}

}  // namespace

struct BlockCompressor::Rep {
  std::unique_ptr<rocksdb::Compressor> compressor;
  rocksdb::Compressor::ManagedWorkingArea area;  // gone before its compressor
};

BlockCompressor::BlockCompressor(CompressionType type, const rocksdb::CompressionOptions& options,
                                 const std::string& dictionary)
    : rep_(std::make_unique<Rep>()) {
  // Whoever stores the block decides what is worth it.
  rocksdb::CompressionOptions with = options;
  with.max_compressed_bytes_per_kb = 1024;
  rep_->compressor = NewCompressor(type, with);
  if (rep_->compressor != nullptr && !dictionary.empty()) {
    auto with_dictionary = rep_->compressor->MaybeCloneSpecialized(rocksdb::CacheEntryRole::kDataBlock,
                                                                   rocksdb::Compressor::DictPreDefined{dictionary});
    if (with_dictionary != nullptr) rep_->compressor = std::move(with_dictionary);
  }
  if (rep_->compressor != nullptr) rep_->area = rep_->compressor->ObtainWorkingArea();
}

BlockCompressor::~BlockCompressor() = default;

bool BlockCompressor::Compress(const Slice& block, std::string* compressed) const {
  if (rep_->compressor == nullptr || block.size() < 2) return false;
  size_t size = block.size() - 1;
  compressed->resize(size);
  CompressionType type = rocksdb::kNoCompression;
  const Status s = rep_->compressor->CompressBlock(block, compressed->data(), &size, &type, &rep_->area);
  if (!s.ok() || type == rocksdb::kNoCompression) return false;
  compressed->resize(size);
  return true;
}

std::string TrainDictionary(CompressionType type, const rocksdb::CompressionOptions& options,
                            const std::string& samples, const std::vector<size_t>& sizes) {
  if (type != rocksdb::kZSTD || options.zstd_max_train_bytes == 0) return samples.substr(0, options.max_dict_bytes);
  const auto compressor = NewCompressor(type, options);
  if (compressor == nullptr) return "";
  rocksdb::Compressor::DictSamples some;
  for (const size_t size : sizes) {
    if (some.sample_data.size() + size > options.zstd_max_train_bytes) break;
    some.sample_data.append(samples, some.sample_data.size(), size);
    some.sample_lens.push_back(size);
  }
  const auto trained = compressor->MaybeCloneSpecialized(rocksdb::CacheEntryRole::kDataBlock, std::move(some));
  return trained == nullptr ? "" : trained->GetSerializedDict().ToString();
}

struct BlockDecompressor::Rep {
  std::string dictionary;
  std::shared_ptr<rocksdb::Decompressor> plain;
  std::unique_ptr<rocksdb::Decompressor> with_dictionary;  // refers to `dictionary`
};

BlockDecompressor::BlockDecompressor(const std::string& dictionary) : rep_(std::make_unique<Rep>()) {
  rep_->dictionary = dictionary;
  // The one for ZSTD decompresses the other types, too.
  rep_->plain = rocksdb::GetBuiltinV2CompressionManager()->GetDecompressorOptimizeFor(rocksdb::kZSTD);
  if (!dictionary.empty() && !rep_->plain->MaybeCloneForDict(rep_->dictionary, &rep_->with_dictionary).ok()) {
    rep_->with_dictionary.reset();
  }
}

BlockDecompressor::~BlockDecompressor() = default;

Status BlockDecompressor::Decompress(CompressionType type, const Slice& stored, size_t raw, char* output) const {
  rocksdb::Decompressor* const with =
      rep_->with_dictionary != nullptr ? rep_->with_dictionary.get() : rep_->plain.get();
  rocksdb::Decompressor::Args args;
  args.compression_type = type;
  args.compressed_data = stored;
  Status s = with->ExtractUncompressedSize(args);
  if (s.ok() && args.uncompressed_size != raw) s = Status::Corruption();
  if (s.ok()) s = with->DecompressBlock(args, output);
  return s.ok() ? s : Status::Corruption(kDamaged);
}

size_t BlockDecompressor::bytes_in_memory() const {
  return rep_->dictionary.size() +
         (rep_->with_dictionary != nullptr ? rep_->with_dictionary->ApproximateOwnedMemoryUsage() : 0);
}

#else

CompressionType FormatOf(CompressionType type) {
  return type == rocksdb::kZSTDNotFinalCompression ? rocksdb::kZSTD : type;
}

namespace {

constexpr uint32_t kCompressFormat = 2;  // sizes are stored with the bytes

}  // namespace

struct BlockCompressor::Rep {
  Rep(CompressionType with, const rocksdb::CompressionOptions& how, const std::string& dictionary)
      : type(with), options(how), context(with, how), dict(std::string(dictionary), with, how.level) {}

  const CompressionType type;
  const rocksdb::CompressionOptions options;
  const rocksdb::CompressionContext context;
  const rocksdb::CompressionDict dict;
};

BlockCompressor::BlockCompressor(CompressionType type, const rocksdb::CompressionOptions& options,
                                 const std::string& dictionary)
    : rep_(std::make_unique<Rep>(type, options, dictionary)) {}

BlockCompressor::~BlockCompressor() = default;

bool BlockCompressor::Compress(const Slice& block, std::string* compressed) const {
  if (rep_->type == rocksdb::kNoCompression) return false;
  compressed->clear();
  const rocksdb::CompressionInfo info(rep_->options, rep_->context, rep_->dict, rep_->type, 0);
  return rocksdb::CompressData(block, info, kCompressFormat, compressed) && compressed->size() < block.size();
}

std::string TrainDictionary(CompressionType /*type*/, const rocksdb::CompressionOptions& options,
                            const std::string& samples, const std::vector<size_t>& sizes) {
  if (options.zstd_max_train_bytes == 0) return samples.substr(0, options.max_dict_bytes);
  return options.use_zstd_dict_trainer
             ? rocksdb::ZSTD_TrainDictionary(samples, sizes, options.max_dict_bytes)
             : rocksdb::ZSTD_FinalizeDictionary(samples, sizes, options.max_dict_bytes, options.level);
}

struct BlockDecompressor::Rep {
  explicit Rep(const std::string& dictionary) : dict(dictionary, true) {}
  const rocksdb::UncompressionDict dict;
};

BlockDecompressor::BlockDecompressor(const std::string& dictionary) : rep_(std::make_unique<Rep>(dictionary)) {}

BlockDecompressor::~BlockDecompressor() = default;

Status BlockDecompressor::Decompress(CompressionType type, const Slice& stored, size_t raw, char* output) const {
  const rocksdb::UncompressionContext context(type);
  const rocksdb::UncompressionInfo info(context, rep_->dict, type);
  size_t size = 0;
  const rocksdb::CacheAllocationPtr bytes =
      rocksdb::UncompressData(info, stored.data(), stored.size(), &size, kCompressFormat);
  if (bytes == nullptr || size != raw) return Status::Corruption(kDamaged);
  memcpy(output, bytes.get(), raw);
  return Status::OK();
}

size_t BlockDecompressor::bytes_in_memory() const { return rep_->dict.ApproximateMemoryUsage(); }

#endif

}  // namespace cairn::port
