#include "table/written_totals.h"

#include <algorithm>
#include <utility>

#include "util/coding.h"
#include "util/mutex.h"

namespace cairn {

namespace {

struct Kept {
  CheckedMutex mutex;
  // By session and column family.
  std::map<std::pair<std::string, uint32_t>, std::shared_ptr<WrittenTotals>> totals CAIRN_GUARDED_BY(mutex);
};

Kept& KeptTotals() {
  static auto* kept = new Kept();
  return *kept;
}

void Raise(std::atomic<uint64_t>* total, uint64_t value) {
  uint64_t seen = total->load(std::memory_order_relaxed);
  while (seen < value && !total->compare_exchange_weak(seen, value, std::memory_order_relaxed)) {
  }
}

}  // namespace

void WrittenTotals::RaiseTo(uint64_t flushed, uint64_t compacted) {
  Raise(&flushed_bytes, flushed);
  Raise(&compacted_bytes, compacted);
}

void WrittenTotals::Add(WrittenBy by, uint64_t bytes) {
  if (by == WrittenBy::kFlush) flushed_bytes.fetch_add(bytes, std::memory_order_relaxed);
  if (by == WrittenBy::kCompaction) compacted_bytes.fetch_add(bytes, std::memory_order_relaxed);
}

bool DecodeWrittenTotals(const rocksdb::UserCollectedProperties& properties, uint64_t* flushed, uint64_t* compacted) {
  const auto found = properties.find(kWrittenProperty);
  if (found == properties.end()) return false;
  rocksdb::Slice input(found->second);
  return rocksdb::GetVarint64(&input, flushed) && rocksdb::GetVarint64(&input, compacted);
}

void WrittenTotalsReader::Add(const rocksdb::UserCollectedProperties& properties, uint64_t file_size, bool flushed) {
  uint64_t flushed_before = 0;
  uint64_t compacted_before = 0;
  if (!DecodeWrittenTotals(properties, &flushed_before, &compacted_before)) return;
  flushed_ = std::max(flushed_, flushed_before + (flushed ? file_size : 0));
  compacted_since_[compacted_before] += flushed ? 0 : file_size;
}

void WrittenTotalsReader::RaiseTotals(WrittenTotals* totals) const {
  uint64_t compacted = 0;
  for (const auto& [before, bytes] : compacted_since_) compacted = std::max(compacted, before + bytes);
  totals->RaiseTo(flushed_, compacted);
}

std::shared_ptr<WrittenTotals> WrittenTotalsOf(const std::string& db_session_id, uint32_t column_family_id) {
  Kept& kept = KeptTotals();
  MutexLock lock(&kept.mutex);
  std::shared_ptr<WrittenTotals>& found = kept.totals[{db_session_id, column_family_id}];
  if (found == nullptr) found = std::make_shared<WrittenTotals>();
  return found;
}

void ForgetWrittenTotals(const std::string& db_session_id) {
  Kept& kept = KeptTotals();
  MutexLock lock(&kept.mutex);
  const auto begin = kept.totals.lower_bound({db_session_id, 0});
  auto end = begin;
  while (end != kept.totals.end() && end->first.first == db_session_id) ++end;
  kept.totals.erase(begin, end);
}

std::string EncodeWrittenTotals(const WrittenTotals& totals) {
  std::string encoded;
  rocksdb::PutVarint64(&encoded, totals.flushed_bytes.load(std::memory_order_relaxed));
  rocksdb::PutVarint64(&encoded, totals.compacted_bytes.load(std::memory_order_relaxed));
  return encoded;
}

}  // namespace cairn
