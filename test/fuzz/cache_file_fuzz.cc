// libFuzzer target: a result cache's file of which any words are overwritten, and items with right checksums stored
// anywhere: it opens, answers of whole items only, and goes on.

#include <fcntl.h>
#include <unistd.h>

#include <cstdint>
#include <cstdlib>
#include <cstring>
#include <map>
#include <memory>
#include <string>

#include "cairn/cache.h"
#include "result_cache/cache_file.h"
#include "result_cache/item.h"
#include "test/fuzz/edits.h"
#include "util/boot_number.h"
#include "util/short_hash.h"

namespace cairn {
namespace {

using cache::Word;
using fuzz::Input;

constexpr size_t kHeaderChecksumAt = 56;
constexpr size_t kBootAt = 64;

void Check(bool holds) {
  if (!holds) abort();
}

// A file with items of two spaces, some of them dead.
class Template {
 public:
  Template() : path_("/dev/shm/cairn_cache_file_fuzz." + std::to_string(getpid())) {
    {
      const std::unique_ptr<ResultCache> cache = Open();
      for (int i = 0; i < 150; ++i) {
        const std::string key = "key" + std::to_string(i);
        cache->Put(key, std::string(static_cast<size_t>(i) * 5, 'v'), i % 2, i % 5 == 0 ? 3600000 : 0);
        if (i % 7 == 0) cache->PutAbsent(key, i % 2);
        if (i % 3 == 0) cache->Erase(key, i % 2);
      }
    }
    {
      const std::unique_ptr<ResultCache> cache = Open();
      for (int i = 0; i < 150; ++i) {
        std::string value;
        const std::string key = "key" + std::to_string(i);
        const ResultCache::Answer answer = cache->Get(key, &value, i % 2);
        if (answer == ResultCache::Answer::kValue) values_[key] = value;
        if (answer == ResultCache::Answer::kAbsent) values_[key] = kAbsent;
      }
    }
    Check(values_.size() > 20);
    const int fd = open(path_.c_str(), O_RDONLY);
    bytes_.resize(static_cast<size_t>(lseek(fd, 0, SEEK_END)));
    Check(pread(fd, bytes_.data(), bytes_.size(), 0) == static_cast<ssize_t>(bytes_.size()));
    close(fd);
  }
  ~Template() { unlink(path_.c_str()); }

  std::unique_ptr<ResultCache> Open() const {
    ResultCacheOptions options;
    options.capacity = size_t{48} << 10;
    options.path = path_;
    options.hash_seed = 7;
    std::unique_ptr<ResultCache> cache;
    const IndexStatus s = ResultCache::Create(options, &cache);
    // What no longer looks like a cache's file, or looks like a later version's, stays as it is.
    Check(s.ok() || s.code() == IndexStatus::Code::kIoError || s.code() == IndexStatus::Code::kNotSupported);
    return cache;
  }
  const std::string& bytes() const { return bytes_; }
  void Write(const std::string& bytes) const {
    const int fd = open(path_.c_str(), O_WRONLY);
    Check(pwrite(fd, bytes.data(), bytes.size(), 0) == static_cast<ssize_t>(bytes.size()));
    close(fd);
  }
  void ExpectThatOrNothing(ResultCache* cache) const {
    for (int i = 0; i < 150; ++i) {
      const std::string key = "key" + std::to_string(i);
      std::string value;
      const ResultCache::Answer answer = cache->Get(key, &value, i % 2);
      if (answer == ResultCache::Answer::kMiss) continue;
      const auto there = values_.find(key);
      Check(there != values_.end());
      Check(answer == ResultCache::Answer::kAbsent ? there->second == kAbsent : there->second == value);
    }
  }

 private:
  inline static const std::string kAbsent = "there is no such key";

  const std::string path_;
  std::string bytes_;
  std::map<std::string, std::string> values_;
};

// Whether the file holds items that no cache has stored.
bool Damage(Input* input, std::string* file) {
  bool forged = false;
  const uint64_t how = input->Number(1);
  while (!input->empty()) {
    const uint64_t kind = input->Number(1);
    // Near the beginning lie header, owner's words and directory.
    const size_t at = (kind & 4) != 0 ? input->Number(3) % file->size() : input->Number(2) % (size_t{5} * 4096);
    if ((kind & 3) != 0) {
      const std::string bytes = input->Bytes(1 + (kind >> 3));
      file->replace(at, std::min(bytes.size(), file->size() - at), bytes, 0, std::min(bytes.size(), file->size() - at));
      continue;
    }
    cache::Item item;
    const std::string key = input->Bytes(input->Number(1));
    const std::string value = input->Bytes(input->Number(1));
    item.key = key;
    item.value = value;
    item.space = static_cast<uint32_t>(input->Number(1));
    item.expiry = (kind & 8) != 0 ? input->Number(8) : 0;
    item.absent = (kind & 16) != 0;
    item.checked = true;
    const size_t word = at / sizeof(Word) * sizeof(Word);
    if (word + item.header().bytes() > file->size()) continue;
    cache::StoreItem(reinterpret_cast<Word*>(file->data() + word), item);
    forged = true;
  }
  if ((how & 1) != 0) {
    const uint64_t checksum = XXH3_64bits(file->data(), kHeaderChecksumAt);
    memcpy(file->data() + kHeaderChecksumAt, &checksum, sizeof(checksum));
  }
  if ((how & 2) != 0) {
    const uint64_t boot = BootNumber();
    memcpy(file->data() + kBootAt, &boot, sizeof(boot));
  }
  return forged;
}

}  // namespace
}  // namespace cairn

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  static const cairn::Template whole;
  cairn::Input input(data, size);
  static std::string file;  // new memory for each input would be a third of its time
  file = whole.bytes();
  const bool forged = cairn::Damage(&input, &file);
  whole.Write(file);
  std::unique_ptr<cairn::ResultCache> cache = whole.Open();
  if (cache == nullptr) {
    whole.Write(whole.bytes());
    return 0;
  }
  if (!forged) whole.ExpectThatOrNothing(cache.get());
  static const std::string filler(300, 'w');  // so that chunks that were found are reclaimed
  for (int i = 0; i < 200; ++i) {
    const std::string key = "key" + std::to_string(i);
    std::string value;
    cache->Get(key, &value);
    if (i % 3 == 0) cache->Erase(key);
    if (i % 2 == 0 && cache->Put(key, key) && cache->Get(key, &value) == cairn::ResultCache::Answer::kValue) {
      cairn::Check(value == key);
    }
    if (i % 2 == 1) cache->Put(key, filler);
  }
  cairn::Check(cache->GetStatistics().memory <= cache->GetStatistics().capacity);
  // Each item that is forgotten is the one that was taken in.
  cache->Clear();
  cairn::Check(cache->GetStatistics().items == 0 && cache->GetStatistics().item_bytes == 0);
  return 0;
}
