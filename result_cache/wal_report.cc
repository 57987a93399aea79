#include "result_cache/wal_report.h"

#include <algorithm>
#include <string>

#include "db/write_batch_internal.h"

namespace cairn {

namespace {

thread_local WalReport* current_report = nullptr;

class Listener final : public rocksdb::WalFilter {
 public:
  const char* Name() const override { return ""; }

  void ColumnFamilyLogNumberMap(const std::map<uint32_t, uint64_t>& number_of_family,
                                const std::map<std::string, uint32_t>& /*id_of_name*/) override {
    if (current_report == nullptr) return;
    *current_report = WalReport();
    current_report->any_file = true;
    current_report->first_needed = UINT64_MAX;
    for (const auto& family : number_of_family) {
      current_report->first_needed = std::min(current_report->first_needed, family.second);
    }
  }

  WalProcessingOption LogRecordFound(unsigned long long number, const std::string& /*file*/,
                                     const rocksdb::WriteBatch& batch, rocksdb::WriteBatch* /*changed_batch*/,
                                     bool* /*changed*/) override {
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
