#include "msls/key_sample.h"

#include <algorithm>
#include <cmath>

#include "util/coding.h"
#include "util/hash.h"

namespace cairn {

namespace {

constexpr size_t kHashesOfTable = 1024;
constexpr size_t kHashBytes = 8;

class Collector : public rocksdb::TablePropertiesCollector {
 public:
  const char* Name() const override { return KeySampleFactory::kClassName(); }
  rocksdb::Status AddUserKey(const rocksdb::Slice& key, const rocksdb::Slice& /*value*/, rocksdb::EntryType /*type*/,
                             rocksdb::SequenceNumber /*sequence*/, uint64_t /*file_size*/) override {
    hashes_.Add(key);
    return rocksdb::Status::OK();
  }
  rocksdb::Status Finish(rocksdb::UserCollectedProperties* properties) override {
    (*properties)[KeySampleFactory::PropertyName()] = hashes_.Encode();
    return rocksdb::Status::OK();
  }
  rocksdb::UserCollectedProperties GetReadableProperties() const override { return {}; }

 private:
  SmallestHashes hashes_{kHashesOfTable};
};

}  // namespace

rocksdb::TablePropertiesCollector* KeySampleFactory::CreateTablePropertiesCollector(Context context) {
  return context.level_at_creation == 0 ? new Collector() : nullptr;
}

void SmallestHashes::Add(const rocksdb::Slice& key) {
  const uint64_t hash = rocksdb::Hash64(key.data(), key.size());
  if (hash > limit_ || (any_ && hash == last_)) return;
  any_ = true;
  last_ = hash;
  hashes_.push_back(hash);
  std::push_heap(hashes_.begin(), hashes_.end());
  if (hashes_.size() > most_) {
    std::pop_heap(hashes_.begin(), hashes_.end());
    hashes_.pop_back();
  }
  if (hashes_.size() == most_) limit_ = hashes_.front();
}

std::string SmallestHashes::Encode() {
  std::sort_heap(hashes_.begin(), hashes_.end());
  std::string out;
  rocksdb::PutFixed64(&out, limit_);
  for (uint64_t hash : hashes_) rocksdb::PutFixed64(&out, hash);
  return out;
}

bool KeySampleWindow::Add(const rocksdb::Slice& sample) {
  if (sample.size() < kHashBytes || sample.size() % kHashBytes != 0) return false;
  const uint64_t limit = rocksdb::DecodeFixed64(sample.data());
  uint64_t last = 0;
  for (size_t at = kHashBytes; at < sample.size(); at += kHashBytes) {
    const uint64_t hash = rocksdb::DecodeFixed64(sample.data() + at);
    if (hash > limit || (at > kHashBytes && hash <= last)) return false;
    last = hash;
  }
  LowerLimit(limit);
  tables_++;
  for (size_t at = kHashBytes; at < sample.size(); at += kHashBytes) {
    const uint64_t hash = rocksdb::DecodeFixed64(sample.data() + at);
    if (hash > limit_) break;
    tables_of_key_[hash]++;
  }
  if (tables_of_key_.size() <= kMostKeys) return true;
  std::vector<uint64_t> hashes;
  hashes.reserve(tables_of_key_.size());
  for (const auto& key : tables_of_key_) hashes.push_back(key.first);
  std::nth_element(hashes.begin(), hashes.begin() + kMostKeys / 2, hashes.end());
  LowerLimit(hashes[kMostKeys / 2]);
  return true;
}

// What is counted stays complete: a key at or below the limit was looked for in every table.
void KeySampleWindow::LowerLimit(uint64_t limit) {
  if (limit >= limit_) return;
  limit_ = limit;
  for (auto it = tables_of_key_.begin(); it != tables_of_key_.end();) {
    it = it->first > limit ? tables_of_key_.erase(it) : std::next(it);
  }
}

double KeySampleWindow::share() const { return std::ldexp(static_cast<double>(limit_) + 1, -64); }

std::vector<double> KeySampleWindow::KeysByTables() const {
  std::vector<double> keys(tables_ + 1);
  for (const auto& key : tables_of_key_) keys[key.second]++;
  return keys;
}

}  // namespace cairn
