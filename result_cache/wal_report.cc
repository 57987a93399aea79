#include "result_cache/wal_report.h"

#include <algorithm>
#include <string>

#include "db/write_batch_internal.h"
#include "util/batch_handler.h"
#include "util/short_hash.h"

namespace cairn {

namespace {

thread_local WalReport* current_report = nullptr;

// What a batch after the point has written. Those of a write in two phases are elsewhere.
class Collector final : public BatchHandler {
 public:
  Collector(WalReport::Since* since, uint64_t sequence) : since_(since), sequence_(sequence) {}

  Status PutCF(uint32_t, const Slice& key, const Slice&) override { return Take(key); }
  Status TimedPutCF(uint32_t, const Slice& key, const Slice&, uint64_t) override { return Take(key); }
  Status PutEntityCF(uint32_t, const Slice& key, const Slice&) override { return Take(key); }
  Status DeleteCF(uint32_t, const Slice& key) override { return Take(key); }
  Status SingleDeleteCF(uint32_t, const Slice& key) override { return Take(key); }
  Status MergeCF(uint32_t, const Slice& key, const Slice&) override { return Take(key); }
  Status PutBlobIndexCF(uint32_t, const Slice& key, const Slice&) override { return Take(key); }
  Status DeleteRangeCF(uint32_t id, const Slice&, const Slice&) override {
    since_->families.insert(id);
    return Status::OK();
  }
  Status MarkBeginPrepare(bool) override { return Doubt(); }
  Status MarkCommit(const Slice&) override { return Doubt(); }
  Status MarkCommitWithTimestamp(const Slice&, const Slice&) override { return Doubt(); }

 private:
  Status Take(const Slice& key) {
    since_->keys[WalReport::HashOf({key.data(), key.size()})] = sequence_;
    return Status::OK();
  }
  Status Doubt() {
    since_->doubtful = true;
    return Status::OK();
  }

  WalReport::Since* const since_;
  const uint64_t sequence_;
};

void NoteSince(const rocksdb::WriteBatch& batch, WalReport::Since* since) {
  const uint64_t first = rocksdb::WriteBatchInternal::Sequence(&batch);
  // One without writes, but perhaps with a mark, has the number that the next one gets.
  const uint64_t last = first + batch.Count() - 1;
  since->newest = std::max(since->newest, last);
  if (last < since->point || (last == since->point && batch.Count() > 0)) return;
  Collector collector(since, last);
  if (first > since->covered + 1 || !batch.Iterate(&collector).ok()) since->doubtful = true;
  since->covered = std::max(since->covered, last);
}

class Listener final : public rocksdb::WalFilter {
 public:
  const char* Name() const override { return ""; }

  void ColumnFamilyLogNumberMap(const std::map<uint32_t, uint64_t>& number_of_family,
                                const std::map<std::string, uint32_t>& /*id_of_name*/) override {
    if (current_report == nullptr) return;
    const uint64_t point = current_report->since.point;
    *current_report = WalReport();
    current_report->since.point = current_report->since.covered = point;
    current_report->any_file = true;
    current_report->first_needed = UINT64_MAX;
    for (const auto& family : number_of_family) {
      current_report->first_needed = std::min(current_report->first_needed, family.second);
      current_report->since.last_needed = std::max(current_report->since.last_needed, family.second);
    }
  }

  WalProcessingOption LogRecordFound(unsigned long long number, const std::string& /*file*/,
                                     const rocksdb::WriteBatch& batch, rocksdb::WriteBatch* /*changed_batch*/,
                                     bool* /*changed*/) override {
    if (current_report != nullptr && current_report->since.point != WalReport::kNobodyAsks) {
      NoteSince(batch, &current_report->since);
    }
    if (current_report != nullptr && batch.Count() > 0) {
      const uint64_t last = rocksdb::WriteBatchInternal::Sequence(&batch) + batch.Count() - 1;
      uint64_t& newest = current_report->last[number];
      newest = std::max(newest, last);
    }
    return WalProcessingOption::kContinueProcessing;
  }
};

// For ever.
Listener* TheListener() {
  static auto* const listener = new Listener;
  return listener;
}

}  // namespace

uint64_t WalReport::HashOf(std::string_view key) { return XXH3_64bits(key.data(), key.size()); }

WalReport::Scope::Scope(WalReport* report) : outer_(current_report) { current_report = report; }

WalReport::Scope::~Scope() { current_report = outer_; }

bool WalReport::Listen(Wanted wanted, rocksdb::DBOptions* options) {
  if (options->wal_filter == TheListener()) options->wal_filter = nullptr;
  if (wanted == Wanted::kNo) return true;
  if (options->wal_filter != nullptr) return false;
  options->wal_filter = TheListener();
  return true;
}

}  // namespace cairn
