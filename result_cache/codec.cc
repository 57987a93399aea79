#include "result_cache/codec.h"

#include <lz4.h>
#include <zdict.h>
#include <zstd.h>

#include <algorithm>
#include <utility>

#include "util/of_thread.h"

namespace cairn::cache {
namespace {

using Compression = ResultCacheOptions::Compression;

enum Method : uint8_t { kStored, kLz4, kLz4Dictionary, kZstd, kZstdDictionary };

// With a dictionary, the first level whose tables take no more than a part of the capacity; without one, the last.
constexpr int kLevels[] = {3, 2, 1};
constexpr int kFastLevel = 1;
constexpr size_t kTablesPart = 24;
constexpr size_t kMinBudget = size_t{64} << 10;
constexpr size_t kMaxDictionary = size_t{64} << 10;
// Samples for each byte of a dictionary.
constexpr size_t kSamples = 16;

// Of each thread: contexts are large, and hold nothing between two calls.
ZSTD_CCtx* NewCompressionContext() {
  ZSTD_CCtx* const context = ZSTD_createCCtx();
  if (context == nullptr) return context;
  // The block knows its size, and whether there is a dictionary.
  ZSTD_CCtx_setParameter(context, ZSTD_c_compressionLevel, kFastLevel);
  ZSTD_CCtx_setParameter(context, ZSTD_c_contentSizeFlag, 0);
  ZSTD_CCtx_setParameter(context, ZSTD_c_dictIDFlag, 0);
  return context;
}
ZSTD_CCtx* CompressionContext() {
  struct Context {
    const std::unique_ptr<ZSTD_CCtx, size_t (*)(ZSTD_CCtx*)> zstd{NewCompressionContext(), ZSTD_freeCCtx};
  };
  return OfThread<Context>::Get()->zstd.get();
}
ZSTD_DCtx* DecompressionContext() {
  struct Context {
    const std::unique_ptr<ZSTD_DCtx, size_t (*)(ZSTD_DCtx*)> zstd{ZSTD_createDCtx(), ZSTD_freeDCtx};
  };
  return OfThread<Context>::Get()->zstd.get();
}
LZ4_stream_t* Lz4Stream() {
  struct Stream {
    const std::unique_ptr<LZ4_stream_t, int (*)(LZ4_stream_t*)> lz4{LZ4_createStream(), LZ4_freeStream};
  };
  return OfThread<Stream>::Get()->lz4.get();
}

}  // namespace

struct Codec::Dictionary {
  std::string bytes;
  std::unique_ptr<ZSTD_CDict, size_t (*)(ZSTD_CDict*)> zstd_compress{nullptr, ZSTD_freeCDict};
  std::unique_ptr<ZSTD_DDict, size_t (*)(ZSTD_DDict*)> zstd_decompress{nullptr, ZSTD_freeDDict};
  std::unique_ptr<LZ4_stream_t, int (*)(LZ4_stream_t*)> lz4{nullptr, LZ4_freeStream};

  size_t memory() const {
    return bytes.size() + (zstd_compress ? ZSTD_sizeof_CDict(zstd_compress.get()) : 0) +
           (zstd_decompress ? ZSTD_sizeof_DDict(zstd_decompress.get()) : 0) + (lz4 ? sizeof(LZ4_stream_t) : 0);
  }
};

Codec::Codec(Compression compression, size_t capacity, size_t budget, std::function<void(size_t)> give_back)
    : compression_(compression),
      budget_(budget),
      most_tables_(capacity / kTablesPart),
      give_back_(std::move(give_back)),
      wants_samples_(budget >= kMinBudget),
      bytes_(budget) {}

Codec::~Codec() { Finish(); }

void Codec::Finish() {
  const MutexLock lock(&mutex_);
  wants_samples_ = false;
  if (trainer_.joinable()) trainer_.join();
}

void Codec::Compress(std::string_view raw, std::string* stored, uint8_t* method) const {
  const Dictionary* const dictionary = dictionary_.load(std::memory_order_acquire);
  const auto raw_bytes = static_cast<int>(raw.size());
  size_t bytes = 0;
  if (compression_ == Compression::kLz4 && raw.size() < LZ4_MAX_INPUT_SIZE) {
    stored->resize(static_cast<size_t>(LZ4_compressBound(raw_bytes)));
    const auto room = static_cast<int>(stored->size());
    LZ4_stream_t* const stream = Lz4Stream();
    if (dictionary != nullptr) {
      *stream = *dictionary->lz4;  // 16 KiB; far cheaper than loading the dictionary
    } else {
      LZ4_resetStream_fast(stream);
    }
    bytes = static_cast<size_t>(
        std::max(0, LZ4_compress_fast_continue(stream, raw.data(), stored->data(), raw_bytes, room, 1)));
    *method = dictionary != nullptr ? kLz4Dictionary : kLz4;
  } else if (compression_ == Compression::kZstd) {
    stored->resize(ZSTD_compressBound(raw.size()));
    ZSTD_CCtx* const context = CompressionContext();
    // Null: none.
    ZSTD_CCtx_refCDict(context, dictionary != nullptr ? dictionary->zstd_compress.get() : nullptr);
    bytes = ZSTD_compress2(context, stored->data(), stored->size(), raw.data(), raw.size());
    if (ZSTD_isError(bytes) != 0) bytes = 0;
    *method = dictionary != nullptr ? kZstdDictionary : kZstd;
  }
  if (bytes != 0 && bytes < raw.size()) {
    stored->resize(bytes);
    return;
  }
  stored->assign(raw);
  *method = kStored;
}

bool Codec::Decompress(uint8_t method, std::string_view stored, size_t raw_bytes, std::string* raw) const {
  raw->resize(raw_bytes);
  const auto wanted = static_cast<int>(raw_bytes);
  const auto given = static_cast<int>(stored.size());
  const Dictionary* const dictionary = dictionary_.load(std::memory_order_acquire);
  switch (method) {
    case kStored:
      raw->assign(stored);
      return stored.size() == raw_bytes;
    case kLz4:
      return LZ4_decompress_safe(stored.data(), raw->data(), given, wanted) == wanted;
    case kLz4Dictionary:
      return LZ4_decompress_safe_usingDict(stored.data(), raw->data(), given, wanted, dictionary->bytes.data(),
                                           static_cast<int>(dictionary->bytes.size())) == wanted;
    case kZstd:
      return ZSTD_decompressDCtx(DecompressionContext(), raw->data(), raw_bytes, stored.data(), stored.size()) ==
             raw_bytes;
    case kZstdDictionary:
      return ZSTD_decompress_usingDDict(DecompressionContext(), raw->data(), raw_bytes, stored.data(), stored.size(),
                                        dictionary->zstd_decompress.get()) == raw_bytes;
    default:
      return false;
  }
}

void Codec::AddSample(std::string_view raw) {
  const MutexLock lock(&mutex_);
  if (!wants_samples()) return;
  samples_ += raw;
  sample_bytes_.push_back(raw.size());
  if (samples_.size() < budget_ - budget_ / 8) return;
  wants_samples_ = false;
  trainer_ = std::thread([this] { Train(); });
}

void Codec::Train() {
  std::string bytes(std::min(kMaxDictionary, budget_ / kSamples), '\0');
  const size_t trained = ZDICT_trainFromBuffer(bytes.data(), bytes.size(), samples_.data(), sample_bytes_.data(),
                                               static_cast<unsigned>(sample_bytes_.size()));
  samples_.clear();
  samples_.shrink_to_fit();
  sample_bytes_.clear();
  sample_bytes_.shrink_to_fit();
  const auto keep = [this](size_t kept) {
    bytes_ = std::min(kept, budget_);
    give_back_(budget_ - bytes_);
  };
  if (ZDICT_isError(trained) != 0) {  // the blocks have nothing in common: without a dictionary
    keep(0);
    return;
  }
  owned_ = std::make_unique<Dictionary>();
  owned_->bytes = bytes.substr(0, trained);
  if (compression_ == Compression::kZstd) {
    for (const int level : kLevels) {
      owned_->zstd_compress.reset(ZSTD_createCDict(owned_->bytes.data(), trained, level));
      if (!owned_->zstd_compress || ZSTD_sizeof_CDict(owned_->zstd_compress.get()) <= most_tables_) break;
    }
    owned_->zstd_decompress.reset(ZSTD_createDDict(owned_->bytes.data(), trained));
    if (!owned_->zstd_compress || !owned_->zstd_decompress) return keep(0);
    std::string().swap(owned_->bytes);  // both have a copy
  } else {
    owned_->lz4.reset(LZ4_createStream());
    if (!owned_->lz4) return keep(0);
    LZ4_loadDict(owned_->lz4.get(), owned_->bytes.data(), static_cast<int>(trained));
  }
  if (owned_->memory() > budget_) return keep(0);
  keep(owned_->memory());
  dictionary_.store(owned_.get(), std::memory_order_release);
}

}  // namespace cairn::cache
