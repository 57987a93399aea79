// Codec compresses the blocks of a Z-zone: LZ4 or zstd, with a dictionary once enough blocks were seen to train one.
//
// What a block was compressed with is its method, which the block keeps: blocks from before the dictionary stay
// readable.
//
// Thread-safety: safe. Compress and Decompress take no lock.

#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <string_view>
#include <thread>
#include <vector>

#include "cairn/cache.h"
#include "util/mutex.h"

namespace cairn::cache {

class Codec {
 public:
  // `budget`: bytes for samples and dictionary together, of the cache's `capacity`; below 64 KiB there is no
  // dictionary.
  Codec(ResultCacheOptions::Compression compression, size_t capacity, size_t budget,
        std::function<void(size_t)> give_back);
  ~Codec();
  Codec(const Codec&) = delete;
  Codec& operator=(const Codec&) = delete;

  // Sets *method and *stored. Where nothing is saved, the bytes as they are.
  void Compress(std::string_view raw, std::string* stored, uint8_t* method) const;
  // False: the bytes are not what Compress made of `raw_bytes` bytes; this is memory that somebody has overwritten.
  bool Decompress(uint8_t method, std::string_view stored, size_t raw_bytes, std::string* raw) const;

  // A block's bytes before compression. Until there are enough, they are kept; then a thread trains the dictionary, and
  // gives back what it does not need of the budget.
  bool wants_samples() const { return wants_samples_.load(std::memory_order_relaxed); }
  void AddSample(std::string_view raw);

  // Waits for the thread that trains.
  void Finish();

  // What is left of the budget, once that is known.
  size_t bytes() const { return bytes_.load(std::memory_order_relaxed); }
  bool has_dictionary() const { return dictionary_.load(std::memory_order_acquire) != nullptr; }

 private:
  struct Dictionary;

  void Train();

  const ResultCacheOptions::Compression compression_;
  const size_t budget_;
  const size_t most_tables_;
  const std::function<void(size_t)> give_back_;
  std::atomic<bool> wants_samples_;
  std::atomic<size_t> bytes_{0};
  std::atomic<const Dictionary*> dictionary_{nullptr};
  std::unique_ptr<Dictionary> owned_;  // written once, by the thread

  CheckedMutex mutex_;
  std::string samples_;               // guarded by mutex_ until the thread runs, then the thread's
  std::vector<size_t> sample_bytes_;  // as samples_
  std::thread trainer_ CAIRN_GUARDED_BY(mutex_);
};

}  // namespace cairn::cache
