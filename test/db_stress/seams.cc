// Some functions of RocksDB as db_stress gets them. They are defined in the program, so the loader takes them for every
// caller, the library's own tables of virtual functions included; db_stress itself stays as upstream wrote it.
//
// DBImpl::NewIterator: db_stress judges iterators by the order of the keys' bytes. An iterator over a family in hash
// order that reads no snapshot is read to its end, and what it returned is shown in the order of bytes: so the judge
// sees that the iteration is complete and holds nothing twice. Iterators of a snapshot are left as they are; db_stress
// compares them with one another, by the family's own comparator.
//
// DBImpl::Write and WriteWithCallback (optimistic transactions): with CAIRN_STRESS_WAL=0 in the environment no write
// goes to a WAL, without db_stress being told: it demands every acknowledged write after a kill, which with its own
// --disable_wal it does not.
//
// FSFileState::DropRandomUnsyncedData: divides by zero for a file all of whose bytes are synced; there is nothing to
// drop then.
//
// ErrorHandler::SetBGError: db_stress draws the faults of each compaction from its seed, the same ones again when it is
// tried again, and an opening that waits for compactions never ends. So the seed is another one after each error.
//
// With CAIRN_STRESS_TTL in the environment, families are those of a DBWithTTL, which db_stress itself cannot use: its
// values end with a stamp that never expires (GenerateValue), and what it deletes is overwritten by a value that has
// expired (DBImpl::Write), so it demands that nobody finds that again. GetEntity, MultiGetEntity and GetMergeOperands
// find it, which are no calls of a DBWithTTL (DBImpl::GetImpl, MultiGetEntity).
//
// Two parts of db_stress are registered, so that an OPTIONS file can name them, and those of a DBWithTTL.
#include <dlfcn.h>

#include <cstdlib>
#include <cstring>
#include <map>
#include <memory>
#include <string>
#include <utility>

#include "db/db_impl/db_impl.h"
#include "db/error_handler.h"
#include "db/write_batch_internal.h"
#include "db_stress_tool/db_stress_common.h"
#include "db_stress_tool/db_stress_compaction_filter.h"
#include "db_stress_tool/db_stress_wide_merge_operator.h"
#include "rocksdb/comparator.h"
#include "rocksdb/utilities/object_registry.h"
#include "rocksdb/wide_columns.h"
#include "util/coding.h"
#include "utilities/fault_injection_fs.h"
#include "utilities/ttl/db_ttl_impl.h"

namespace rocksdb {
namespace {

template <typename Function>
Function Next(const char* name) {
  void* const found = dlsym(RTLD_NEXT, name);
  if (found == nullptr) abort();  // the library is not the one this program was linked with
  Function function = nullptr;
  memcpy(&function, &found, sizeof(function));
  return function;
}

struct Entry {
  std::string value;
  std::vector<std::pair<std::string, std::string>> columns;
};

// What an iterator in another order returned, in the order of bytes.
class SortedIterator final : public Iterator {
 public:
  SortedIterator(const ReadOptions& options, std::unique_ptr<Iterator> source)
      : lower_(options.iterate_lower_bound), upper_(options.iterate_upper_bound), source_(std::move(source)) {
    Fill();
  }

  bool Valid() const override { return status_.ok() && at_ != entries_.end() && InBounds(at_->first); }
  void SeekToFirst() override { At(lower_ == nullptr ? entries_.begin() : entries_.lower_bound(lower_->ToString())); }
  void SeekToLast() override { AtLast(upper_ == nullptr ? entries_.end() : entries_.lower_bound(upper_->ToString())); }
  void Seek(const Slice& target) override {
    const bool below = lower_ != nullptr && target.compare(*lower_) < 0;
    At(entries_.lower_bound((below ? *lower_ : target).ToString()));
  }
  void SeekForPrev(const Slice& target) override {
    if (upper_ != nullptr && target.compare(*upper_) >= 0) return SeekToLast();
    AtLast(entries_.upper_bound(target.ToString()));
  }
  void Next() override { At(std::next(at_)); }
  void Prev() override { AtLast(at_); }

  Slice key() const override { return at_->first; }
  Slice value() const override { return at_->second.value; }
  const WideColumns& columns() const override { return columns_; }
  Status status() const override { return status_; }

  using Iterator::Refresh;
  Status Refresh(const Snapshot* snapshot) override {
    const Status s = source_->Refresh(snapshot);
    if (s.ok()) Fill();
    return s;
  }
  Status GetProperty(std::string name, std::string* value) override {
    return source_->GetProperty(std::move(name), value);
  }

 private:
  using Entries = std::map<std::string, Entry>;

  void Fill() {
    entries_.clear();
    status_ = Status::OK();
    for (source_->SeekToFirst(); source_->Valid(); source_->Next()) {
      Entry entry;
      if (!source_->PrepareValue()) break;
      entry.value = source_->value().ToString();
      for (const WideColumn& column : source_->columns()) {
        entry.columns.emplace_back(column.name().ToString(), column.value().ToString());
      }
      if (!entries_.emplace(source_->key().ToString(), std::move(entry)).second) {
        status_ = Status::Corruption("an iteration in hash order returned a key twice", source_->key().ToString(true));
        return;
      }
    }
    status_ = source_->status();
    at_ = entries_.end();
  }

  bool InBounds(const Slice& key) const {
    return (lower_ == nullptr || key.compare(*lower_) >= 0) && (upper_ == nullptr || key.compare(*upper_) < 0);
  }
  void At(Entries::const_iterator at) {
    at_ = at;
    columns_.clear();
    if (at_ == entries_.end()) return;
    for (const auto& [name, value] : at_->second.columns) columns_.emplace_back(name, value);
  }
  // At the entry before `end`.
  void AtLast(Entries::const_iterator end) { At(end == entries_.begin() ? entries_.end() : std::prev(end)); }

  const Slice* const lower_;
  const Slice* const upper_;
  const std::unique_ptr<Iterator> source_;
  Entries entries_;
  Entries::const_iterator at_ = entries_.end();
  WideColumns columns_;
  Status status_;
};

const bool registered = [] {
  const auto library = ObjectLibrary::Default();
  library->AddFactory<MergeOperator>("DBStressWideMergeOperator", [](const std::string&, auto* guard, std::string*) {
    guard->reset(new DBStressWideMergeOperator);
    return guard->get();
  });
  library->AddFactory<CompactionFilterFactory>(DbStressCompactionFilterFactory().Name(),
                                               [](const std::string&, auto* guard, std::string*) {
                                                 guard->reset(new DbStressCompactionFilterFactory);
                                                 return guard->get();
                                               });
  DBWithTTLImpl::RegisterTtlClasses();
  return true;
}();

const bool with_stamps = getenv("CAIRN_STRESS_TTL") != nullptr;
constexpr uint32_t kForEver = DBWithTTLImpl::kMaxTimestamp;
constexpr uint32_t kExpired = DBWithTTLImpl::kMinTimestamp + 1000;

bool HasExpired(const Slice& value) {
  return value.size() >= sizeof(kExpired) && DecodeFixed32(value.data() + value.size() - sizeof(kExpired)) == kExpired;
}

// The batch with expired values instead of deletions.
class ExpiredForDeleted final : public WriteBatch::Handler {
 public:
  Status PutCF(uint32_t family, const Slice& key, const Slice& value) override {
    return WriteBatchInternal::Put(&batch, family, key, value);
  }
  Status MergeCF(uint32_t family, const Slice& key, const Slice& value) override {
    return WriteBatchInternal::Merge(&batch, family, key, value);
  }
  Status DeleteCF(uint32_t family, const Slice& key) override {
    std::string value = "expired ";
    PutFixed32(&value, kExpired);
    return WriteBatchInternal::Put(&batch, family, key, value);
  }
  Status SingleDeleteCF(uint32_t family, const Slice& key) override { return DeleteCF(family, key); }
  Status DeleteRangeCF(uint32_t family, const Slice& begin, const Slice& end) override {
    return WriteBatchInternal::DeleteRange(&batch, family, begin, end);
  }

  WriteBatch batch;
};

WriteOptions WithoutWal(const WriteOptions& options) {
  const char* const wal = getenv("CAIRN_STRESS_WAL");
  WriteOptions result = options;
  if (wal != nullptr && strcmp(wal, "0") == 0) result.disableWAL = true;
  return result;
}

bool InHashOrder(ColumnFamilyHandle* family) {
  return strncmp(family->GetComparator()->Name(), "cairn.HashOrder", strlen("cairn.HashOrder")) == 0;
}

}  // namespace

Iterator* DBImpl::NewIterator(const ReadOptions& options, ColumnFamilyHandle* family) {
  using Function = Iterator* (*)(DBImpl*, const ReadOptions&, ColumnFamilyHandle*);
  static const Function original =
      Next<Function>("_ZN7rocksdb6DBImpl11NewIteratorERKNS_11ReadOptionsEPNS_18ColumnFamilyHandleE");
  if (options.snapshot != nullptr || !InHashOrder(family)) return original(this, options, family);
  ReadOptions whole = options;
  whole.iterate_lower_bound = nullptr;
  whole.iterate_upper_bound = nullptr;
  whole.prefix_same_as_start = false;
  whole.table_filter = nullptr;
  return new SortedIterator(options, std::unique_ptr<Iterator>(original(this, whole, family)));
}

IOStatus FSFileState::DropRandomUnsyncedData(Random* random) {
  using Function = IOStatus (*)(FSFileState*, Random*);
  static const Function original = Next<Function>("_ZN7rocksdb11FSFileState22DropRandomUnsyncedDataEPNS_6RandomE");
  return buffer_.empty() ? IOStatus::OK() : original(this, random);
}

Status DBImpl::Write(const WriteOptions& options, WriteBatch* updates) {
  using Function = Status (*)(DBImpl*, const WriteOptions&, WriteBatch*);
  static const Function original = Next<Function>("_ZN7rocksdb6DBImpl5WriteERKNS_12WriteOptionsEPNS_10WriteBatchE");
  if (!with_stamps) return original(this, WithoutWal(options), updates);
  ExpiredForDeleted stamped;
  const Status s = updates->Iterate(&stamped);
  return s.ok() ? original(this, WithoutWal(options), &stamped.batch) : s;
}

Status DBImpl::GetImpl(const ReadOptions& options, const Slice& key, GetImplOptions& get) {
  using Function = Status (*)(DBImpl*, const ReadOptions&, const Slice&, GetImplOptions&);
  static const Function original =
      Next<Function>("_ZN7rocksdb6DBImpl7GetImplERKNS_11ReadOptionsERKNS_5SliceERNS0_14GetImplOptionsE");
  const PinnableSlice* const operands = get.merge_operands;  // RocksDB counts it up
  const Status s = original(this, options, key, get);
  if (!with_stamps || !s.ok() || get.value != nullptr) return s;
  if (get.columns != nullptr) {
    if (!HasExpired(get.columns->columns().front().value())) return s;
    get.columns->Reset();
  } else {
    if (*get.number_of_operands == 0 || !HasExpired(operands[*get.number_of_operands - 1])) return s;
    *get.number_of_operands = 0;
  }
  return Status::NotFound();
}

void DBImpl::MultiGetEntity(const ReadOptions& options, ColumnFamilyHandle* family, size_t count, const Slice* keys,
                            PinnableWideColumns* results, Status* statuses, bool sorted_input) {
  using Function = void (*)(DBImpl*, const ReadOptions&, ColumnFamilyHandle*, size_t, const Slice*,
                            PinnableWideColumns*, Status*, bool);
  static const Function original = Next<Function>(
      "_ZN7rocksdb6DBImpl14MultiGetEntityERKNS_11ReadOptionsEPNS_18ColumnFamilyHandleEmPKNS_5SliceEPNS_"
      "19PinnableWideColumnsEPNS_6StatusEb");
  original(this, options, family, count, keys, results, statuses, sorted_input);
  for (size_t i = 0; with_stamps && i < count; ++i) {
    if (!statuses[i].ok() || !HasExpired(results[i].columns().front().value())) continue;
    results[i].Reset();
    statuses[i] = Status::NotFound();
  }
}

// The linker gives these to whoever calls GenerateValue.
size_t OwnGenerateValue(uint32_t base, char* value, size_t most) asm("__real__ZN7rocksdb13GenerateValueEjPcm");
size_t GenerateStampedValue(uint32_t base, char* value, size_t most) asm("__wrap__ZN7rocksdb13GenerateValueEjPcm");
size_t GenerateStampedValue(uint32_t base, char* value, size_t most) {
  const size_t size = OwnGenerateValue(base, value, most);
  if (with_stamps) EncodeFixed32(value + size - sizeof(kForEver), kForEver);
  return size;
}

Status DBImpl::WriteWithCallback(const WriteOptions& options, WriteBatch* updates, WriteCallback* callback,
                                 UserWriteCallback* user_callback) {
  using Function = Status (*)(DBImpl*, const WriteOptions&, WriteBatch*, WriteCallback*, UserWriteCallback*);
  static const Function original = Next<Function>(
      "_ZN7rocksdb6DBImpl17WriteWithCallbackERKNS_12WriteOptionsEPNS_10WriteBatchEPNS_13WriteCallbackEPNS_"
      "17UserWriteCallbackE");
  return original(this, WithoutWal(options), updates, callback, user_callback);
}

void ErrorHandler::SetBGError(const Status& error, BackgroundErrorReason reason, bool wal_related) {
  using Function = void (*)(ErrorHandler*, const Status&, BackgroundErrorReason, bool);
  static const Function original =
      Next<Function>("_ZN7rocksdb12ErrorHandler10SetBGErrorERKNS_6StatusENS_21BackgroundErrorReasonEb");
  original(this, error, reason, wal_related);
  __atomic_fetch_add(&FLAGS_seed, 1, __ATOMIC_RELAXED);
}

}  // namespace rocksdb
