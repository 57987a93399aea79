#include "table/scan_counts.h"

#include <iterator>
#include <map>

#include "util/random.h"

namespace cairn {

namespace {

constexpr int kOneOf = 16;

struct Sessions {
  CheckedMutex mutex;
  std::map<std::string, std::weak_ptr<ScanCounts>> counts CAIRN_GUARDED_BY(mutex);
};

Sessions& AllSessions() {
  static auto* sessions = new Sessions();
  return *sessions;
}

}  // namespace

std::shared_ptr<ScanCounts> ScanCounts::Of(const std::string& db_session_id) {
  Sessions& sessions = AllSessions();
  MutexLock lock(&sessions.mutex);
  const auto known = sessions.counts.find(db_session_id);
  std::shared_ptr<ScanCounts> counts = known == sessions.counts.end() ? nullptr : known->second.lock();
  if (counts != nullptr) return counts;
  for (auto it = sessions.counts.begin(); it != sessions.counts.end();) {  // of databases that were closed
    it = it->second.expired() ? sessions.counts.erase(it) : std::next(it);
  }
  counts = std::make_shared<ScanCounts>();
  sessions.counts[db_session_id] = counts;
  return counts;
}

ScanCounts::Table::Table(std::shared_ptr<ScanCounts> counts, uint64_t number, uint64_t block_bytes)
    : counts_(std::move(counts)), number_(number), block_bytes_(block_bytes) {
  MutexLock lock(&counts_->mutex_);
  counts_->tables_.emplace(number_, this);
}

ScanCounts::Table::~Table() {
  MutexLock lock(&counts_->mutex_);
  counts_->tables_.erase({number_, this});
}

void ScanCounts::Table::Add(uint64_t seeks) {
  if (seeks == 0 || !rocksdb::Random::GetTLSInstance()->OneIn(kOneOf)) return;
  const uint64_t bytes = seeks * kOneOf * block_bytes_;
  bytes_.fetch_add(bytes, std::memory_order_relaxed);
  counts_->total_.fetch_add(bytes, std::memory_order_relaxed);
}

std::unordered_map<uint64_t, uint64_t> ScanCounts::ByTable() const {
  std::unordered_map<uint64_t, uint64_t> by_table;
  MutexLock lock(&mutex_);
  for (const auto& [number, table] : tables_) {
    const uint64_t bytes = table->bytes_.load(std::memory_order_relaxed);
    if (bytes > 0) by_table[number] += bytes;
  }
  return by_table;
}

}  // namespace cairn
