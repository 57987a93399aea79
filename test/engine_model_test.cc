// Random operations against an in-memory model, on every engine of support.h.
//
// One thread applies one random operation after another to a database and to the model, and compares every answer;
// flushes and compactions run beside it in the database's own threads. What a column family's order is, the model asks
// its comparator, so engines in hash order and engines in key order run the same test. Two engines share a database:
// the one under test and leveled.
//
// CAIRN_SEED=n replays a run, CAIRN_OPS=n sets its length (8,000 operations an engine by default). A mismatch prints
// the last operations.
//
// What the operations promise to RocksDB: SingleDelete only touches keys that are put once and never merged or deleted
// otherwise (every fifth key, see IsSingle) but by DeleteRange, which column families in hash order must refuse.

#include <deque>
#include <map>
#include <memory>
#include <sstream>
#include <type_traits>

#include "cairn/db.h"
#include "cairn/trie.h"
#include "rocksdb/cache.h"
#include "rocksdb/comparator.h"
#include "rocksdb/convenience.h"
#include "rocksdb/merge_operator.h"
#include "rocksdb/port/open_into.h"
#include "rocksdb/table_properties.h"
#include "rocksdb/utilities/optimistic_transaction_db.h"
#include "rocksdb/utilities/options_util.h"
#include "rocksdb/utilities/transaction_db.h"
#include "rocksdb/wide_columns.h"
#include "rocksdb/write_batch.h"
#include "table/hash_order/hash_order.h"
#include "test/support.h"

namespace cairn::test {
namespace {

using rocksdb::PinnableWideColumns;
using rocksdb::Snapshot;
using rocksdb::WideColumns;

constexpr uint64_t kDefaultOperations = 8000;
constexpr uint64_t kKeys = 600;
constexpr size_t kMaxFamilies = 4;

// A value as columns; a plain value is the one column with the empty name.
using Columns = std::map<std::string, std::string>;

struct Less {
  const rocksdb::Comparator* comparator;
  bool operator()(const std::string& a, const std::string& b) const { return comparator->Compare(a, b) < 0; }
};
using Contents = std::map<std::string, Columns, Less>;

std::string Plain(const Columns& columns) {
  const auto found = columns.find("");
  return found == columns.end() ? "" : found->second;
}

Columns FromWide(const WideColumns& wide) {
  Columns columns;
  for (const rocksdb::WideColumn& column : wide) columns[column.name().ToString()] = column.value().ToString();
  return columns;
}

std::string Fixed64(uint64_t number) {
  std::string bytes(8, '\0');
  for (int i = 0; i < 8; ++i) bytes[i] = static_cast<char>(number >> (8 * i));
  return bytes;
}

uint64_t FromFixed64(const std::string& bytes) {
  uint64_t number = 0;
  for (size_t i = 0; i < bytes.size() && i < 8; ++i) number |= uint64_t{static_cast<uint8_t>(bytes[i])} << (8 * i);
  return number;
}

std::string Show(const std::string& bytes) {
  std::string text = Slice(bytes.data(), std::min<size_t>(bytes.size(), 24)).ToString();
  for (char& c : text) c = (c >= ' ' && c <= '~') ? c : '.';
  return "'" + text + "'" + (bytes.size() > 24 ? "(" + std::to_string(bytes.size()) + " bytes)" : "");
}

std::string Show(const Columns& columns) {
  std::string text;
  for (const auto& [name, value] : columns) text += (text.empty() ? "" : " ") + name + "=" + Show(value);
  return "{" + text + "}";
}

// The keys: prefixes of each other, bytes 0x00 and 0xff, long ones, and the empty key.
std::string KeyOf(uint64_t index) {
  if (index == 0) return "";
  std::string key = "k" + std::to_string(index);
  if (index % 7 == 3) key = std::string("\0\xff", 2) + key + std::string(1, '\0');
  if (index % 11 == 5) key = "k" + std::to_string(index / 11) + std::string(index % 50, 'x');
  if (index % 97 == 1) key += std::string(300, 'y');
  return key;
}

bool IsSingle(uint64_t index) { return index % 5 == 4; }

// One column family with what it ought to hold.
struct Family {
  uint64_t id = 0;
  std::string name;
  const Engine* engine = nullptr;
  rocksdb::ColumnFamilyOptions options;
  bool counters = false;  // 8-byte values under uint64add; else any values under stringappend
  ColumnFamilyHandle* handle = nullptr;
  Contents contents{Less{nullptr}};
};

using Picture = std::map<uint64_t, std::shared_ptr<const Contents>>;  // by Family::id

struct HeldSnapshot {
  const Snapshot* snapshot;
  Picture picture;
};

struct HeldIterator {
  // The bounds, which the iterator only points to.
  std::unique_ptr<std::string> lower, upper;
  std::unique_ptr<Slice> lower_slice, upper_slice;
  std::unique_ptr<Iterator> iterator;
  std::shared_ptr<const Contents> contents;
  uint64_t family = 0;
  bool with_snapshot = false;
  bool positioned = false;
  Contents::const_iterator position;  // contents->end(): invalid
};

enum class Opening { kPlain, kCairn, kOptionsFile, kStoredOptions, kPessimistic, kOptimistic };
const char* const kOpeningNames[] = {"DB::Open",       "cairn::Open",         "DB::Open with the OPTIONS file",
                                     "OpenWithStored", "TransactionDB::Open", "OptimisticTransactionDB::Open"};

class Model {
 public:
  Model(const Engine& engine, uint64_t seed, uint64_t operations)
      : engine_(engine), seed_(seed), operations_(operations), random_(seed) {}
  ~Model() { CloseDb(); }

  void Run() {
    AddFamily("default", &engine_, false);
    Open(Opening::kCairn);
    if (!failed_) CreateFamily();
    if (!failed_) CreateFamily();
    for (uint64_t i = 0; i < operations_ && !failed_; ++i) {
      Step();
      if (!failed_ && i % 500 == 499) CheckEverything();
    }
    if (!failed_) Finish();
  }

  int deepest() const { return deepest_; }

 private:
  // ---- Reporting

  std::ostringstream& Log() {
    if (log_.size() >= 60) log_.pop_front();
    log_.emplace_back();
    log_.back() << "#" << step_++ << " ";
    return log_.back();
  }

  void Fail(const std::string& what) {
    if (failed_) return;
    failed_ = true;
    std::string text;
    for (const std::ostringstream& line : log_) text += "  " + line.str() + "\n";
    ADD_FAILURE() << what << "\nThe last operations:\n"
                  << text << "Replay: CAIRN_SEED=" << seed_ << " CAIRN_OPS=" << operations_
                  << " build/test/engine_model_test --gtest_filter='*/" << engine_.name << "'";
  }

  bool Ok(const Status& status, const char* what) {
    if (!status.ok()) Fail(std::string(what) + ": " + status.ToString());
    return status.ok();
  }

  // ---- Families and pictures

  Family* AddFamily(const std::string& name, const Engine* engine, bool counters) {
    auto family = std::make_unique<Family>();
    family->id = next_family_++;
    family->name = name;
    family->engine = engine;
    family->counters = counters;
    rocksdb::Options options = OptionsOf(*engine);
    if (!Ok(rocksdb::MergeOperator::CreateFromString(rocksdb::ConfigOptions(), counters ? "uint64add" : "stringappend",
                                                     &options.merge_operator),
            "merge operator")) {
      return nullptr;
    }
    family->options = options;
    family->contents = Contents(Less{options.comparator});
    families_.push_back(std::move(family));
    return families_.back().get();
  }

  // The seed of a hash order is known when the column family is open; it never changes.
  void SetOrder(Family* family) {
    const rocksdb::Comparator* const order = family->handle->GetComparator();
    if (family->contents.key_comp().comparator == order) return;
    if (!family->contents.empty()) return Fail("column family " + family->name + " has another order than before");
    family->contents = Contents(Less{order});
  }

  Family& AnyFamily() { return *families_[random_.Uniform(families_.size())]; }

  std::shared_ptr<const Contents> Copy(const Family& family) {
    return std::make_shared<const Contents>(family.contents);
  }

  Picture CopyAll() {
    Picture picture;
    for (const auto& family : families_) picture[family->id] = Copy(*family);
    return picture;
  }

  // ---- Values

  std::string NewValue(const Family& family) {
    if (family.counters) return Fixed64(random_.Uniform(1000));
    std::string value = "v" + std::to_string(++values_);
    const uint64_t kind = random_.Uniform(40);
    if (kind == 0) return "";
    return value + std::string(kind == 1 ? 3000 + random_.Uniform(3000) : random_.Uniform(120), 'a' + values_ % 26);
  }

  Columns NewColumns(const Family& family) {
    Columns columns;
    if (random_.Uniform(3) != 0) columns[""] = NewValue(family);
    const uint64_t count = random_.Uniform(4);
    for (uint64_t i = 0; i < count; ++i) columns["c" + std::to_string(random_.Uniform(6))] = NewValue(family);
    if (columns.empty()) columns["only"] = "1";
    return columns;
  }

  static void MergeInto(const Family& family, const std::string& key, const std::string& operand, Contents* contents) {
    const auto found = contents->find(key);
    std::string merged;
    if (family.counters) {
      merged = Fixed64((found == contents->end() ? 0 : FromFixed64(Plain(found->second))) + FromFixed64(operand));
    } else {
      merged = found == contents->end() ? operand : Plain(found->second) + "," + operand;
    }
    (*contents)[key][""] = merged;
  }

  // ---- Writing. A Writer is the database, a batch or a transaction; the model's change goes to `contents`.

  template <typename Writer>
  void WriteOne(Family& family, Contents* contents, Writer&& writer) {
    const uint64_t index = random_.Uniform(kKeys);
    const std::string key = KeyOf(index);
    const bool present = contents->count(key) != 0;
    const uint64_t kind = random_.Uniform(20);
    // TransactionDB::Write refuses batches with a SingleDelete or an entity.
    const bool simple = std::is_same_v<std::decay_t<Writer>, WriteBatch> && opening_ == Opening::kPessimistic;
    if (IsSingle(index)) {
      if (present && simple) {
        Log() << family.name << " nothing";
      } else if (present) {
        Log() << family.name << " SingleDelete " << Show(key);
        if (Ok(writer.SingleDelete(family.handle, key), "SingleDelete")) contents->erase(key);
      } else {
        const std::string value = NewValue(family);
        Log() << family.name << " Put (once) " << Show(key) << " " << Show(value);
        if (Ok(writer.Put(family.handle, key, value), "Put")) (*contents)[key] = {{"", value}};
      }
    } else if (kind < 5) {
      Log() << family.name << " Delete " << Show(key);
      if (Ok(writer.Delete(family.handle, key), "Delete")) contents->erase(key);
    } else if (kind < 9) {
      const std::string operand = NewValue(family);
      Log() << family.name << " Merge " << Show(key) << " " << Show(operand);
      if (Ok(writer.Merge(family.handle, key, operand), "Merge")) MergeInto(family, key, operand, contents);
    } else if (kind < 11 && !family.counters && !simple) {
      const Columns columns = NewColumns(family);
      WideColumns wide;
      for (const auto& [name, value] : columns) wide.emplace_back(name, value);
      Log() << family.name << " PutEntity " << Show(key) << " " << Show(columns);
      if (Ok(writer.PutEntity(family.handle, key, wide), "PutEntity")) (*contents)[key] = columns;
    } else {
      const std::string value = NewValue(family);
      Log() << family.name << " Put " << Show(key) << " " << Show(value);
      if (Ok(writer.Put(family.handle, key, value), "Put")) (*contents)[key] = {{"", value}};
    }
  }

  // Mostly of a few neighbours. Not by transactions, whose databases refuse it.
  template <typename Writer>
  void DeleteRangeOnce(Family& family, Contents* contents, Writer&& writer) {
    std::string begin = KeyOf(random_.Uniform(kKeys));
    std::string end = KeyOf(random_.Uniform(kKeys));
    if (family.contents.key_comp()(end, begin)) begin.swap(end);
    const auto first = contents->lower_bound(begin);
    auto last = contents->lower_bound(end);
    if (!random_.OneIn(8)) {
      auto near = first;
      for (uint64_t count = random_.Uniform(12); count > 0 && near != last; --count) ++near;
      if (near != last) end = near->first;
      last = near;
    }
    Log() << family.name << " DeleteRange " << Show(begin) << " " << Show(end);
    if (Ok(writer.DeleteRange(family.handle, begin, end), "DeleteRange")) contents->erase(first, last);
  }

  bool TakesRanges(const Family& family) const {
    const bool transactional = opening_ == Opening::kPessimistic || opening_ == Opening::kOptimistic;
    return !transactional && HashOfComparator(family.handle->GetComparator()) == nullptr;
  }

  void DeleteRangeOnce() {
    Family& family = AnyFamily();
    if (TakesRanges(family)) {
      return DeleteRangeOnce(family, &family.contents, DbWriter{db_.get(), AnyWriteOptions()});
    }
    Log() << family.name << " DeleteRange, which is refused";
    const Status s = db_->DeleteRange(WriteOptions(), family.handle, KeyOf(1), KeyOf(2));
    if (!s.IsNotSupported()) Fail("DeleteRange, which is to be refused: " + s.ToString());
  }

  struct DbWriter {
    rocksdb::DB* db;
    WriteOptions options;
    Status Put(ColumnFamilyHandle* cf, const Slice& k, const Slice& v) { return db->Put(options, cf, k, v); }
    Status Delete(ColumnFamilyHandle* cf, const Slice& k) { return db->Delete(options, cf, k); }
    Status SingleDelete(ColumnFamilyHandle* cf, const Slice& k) { return db->SingleDelete(options, cf, k); }
    Status Merge(ColumnFamilyHandle* cf, const Slice& k, const Slice& v) { return db->Merge(options, cf, k, v); }
    Status DeleteRange(ColumnFamilyHandle* cf, const Slice& begin, const Slice& end) {
      return db->DeleteRange(options, cf, begin, end);
    }
    Status PutEntity(ColumnFamilyHandle* cf, const Slice& k, const WideColumns& c) {
      return db->PutEntity(options, cf, k, c);
    }
  };

  // Writes without the log are safe here, because a clean close flushes what the log lacks.
  WriteOptions AnyWriteOptions() {
    WriteOptions options;
    options.disableWAL = random_.OneIn(30);
    options.sync = !options.disableWAL && random_.OneIn(200);
    return options;
  }

  void WriteBatchOnce() {
    WriteBatch batch;
    std::map<uint64_t, Contents> changed;
    const uint64_t count = 1 + random_.Uniform(20);
    Log() << "begin batch";
    for (uint64_t i = 0; i < count && !failed_; ++i) {
      Family& family = AnyFamily();
      Contents& contents = changed.try_emplace(family.id, family.contents).first->second;
      if (TakesRanges(family) && random_.OneIn(60)) DeleteRangeOnce(family, &contents, batch);
      WriteOne(family, &contents, batch);
      if (random_.OneIn(12)) {
        batch.SetSavePoint();
        Contents scratch = changed.at(family.id);
        WriteOne(family, &scratch, batch);
        Ok(batch.RollbackToSavePoint(), "RollbackToSavePoint");
        Log() << "undo the last write of the batch";
      }
    }
    Log() << "write batch";
    if (!failed_ && Ok(db_->Write(AnyWriteOptions(), &batch), "Write")) Adopt(&changed);
  }

  void Adopt(std::map<uint64_t, Contents>* changed) {
    for (const auto& family : families_) {
      const auto found = changed->find(family->id);
      if (found != changed->end()) family->contents = std::move(found->second);
    }
  }

  rocksdb::Transaction* Begin() {
    if (opening_ == Opening::kPessimistic) {
      return static_cast<rocksdb::TransactionDB*>(db_.get())->BeginTransaction(WriteOptions());
    }
    rocksdb::OptimisticTransactionOptions options;
    options.set_snapshot = random_.OneIn(2);
    return static_cast<rocksdb::OptimisticTransactionDB*>(db_.get())->BeginTransaction(WriteOptions(), options);
  }

  void TransactOnce() {
    if (opening_ != Opening::kPessimistic && opening_ != Opening::kOptimistic) return;
    std::unique_ptr<rocksdb::Transaction> transaction(Begin());
    std::map<uint64_t, Contents> changed;
    std::map<uint64_t, Contents> at_savepoint;
    bool has_savepoint = false;
    Log() << "begin transaction";
    const uint64_t count = 1 + random_.Uniform(10);
    for (uint64_t i = 0; i < count && !failed_; ++i) {
      Family& family = AnyFamily();
      Contents& contents = changed.try_emplace(family.id, family.contents).first->second;
      WriteOne(family, &contents, *transaction);
      if (failed_) return;
      const uint64_t extra = random_.Uniform(12);
      if (extra == 0) FlushOnce();
      if (extra == 1 && !has_savepoint) {
        transaction->SetSavePoint();
        for (const auto& other : families_) at_savepoint.try_emplace(other->id, other->contents);
        for (const auto& [id, seen] : changed) at_savepoint.at(id) = seen;
        has_savepoint = true;
        Log() << "set savepoint";
      }
      if (extra <= 4) {
        const std::string key = KeyOf(random_.Uniform(kKeys));
        PinnableSlice value;
        const Status status = transaction->Get(ReadOptions(), family.handle, key, &value);
        CompareGet(family, contents, key, status, value.ToString(), "Get in the transaction");
      }
      if (extra == 5) {
        std::unique_ptr<Iterator> iterator(transaction->GetIterator(ReadOptions(), family.handle));
        CompareForward(family, contents, iterator.get(), "iterator of the transaction");
      }
      if (extra == 6) {
        const std::string key = KeyOf(random_.Uniform(kKeys));
        std::string value;
        const Status status = transaction->GetForUpdate(ReadOptions(), family.handle, key, &value);
        CompareGet(family, contents, key, status, value, "GetForUpdate");
      }
    }
    if (failed_) return;
    if (has_savepoint && random_.OneIn(2)) {
      Log() << "roll back to savepoint";
      if (!Ok(transaction->RollbackToSavePoint(), "RollbackToSavePoint")) return;
      changed = at_savepoint;
    }
    switch (random_.Uniform(4)) {
      case 0:
        Log() << "roll back";
        Ok(transaction->Rollback(), "Rollback");
        return;
      case 1:
        if (opening_ == Opening::kOptimistic && ConflictOnce(transaction.get())) return;
        break;
      case 2:
        if (opening_ == Opening::kPessimistic) {
          Log() << "prepare";
          if (!Ok(transaction->SetName("t" + std::to_string(++values_)), "SetName")) return;
          if (!Ok(transaction->Prepare(), "Prepare")) return;
          prepared_ = true;
          if (random_.OneIn(3)) {
            Log() << "roll back the prepared";
            Ok(transaction->Rollback(), "Rollback");
            return;
          }
        }
        break;
      default:
        break;
    }
    Log() << "commit";
    const Status status = transaction->Commit();
    // TryAgain: the memtables do not reach back far enough to check for conflicts. Nothing was written.
    if (status.IsTryAgain() && opening_ == Opening::kOptimistic) {
      Log() << "which says TryAgain";
      return;
    }
    if (Ok(status, "Commit")) Adopt(&changed);
  }

  // Somebody else writes a key that the transaction has written: its commit must fail and change nothing.
  bool ConflictOnce(rocksdb::Transaction* transaction) {
    Family& family = *families_[0];
    uint64_t index = random_.Uniform(kKeys);
    while (IsSingle(index)) ++index;
    const std::string key = KeyOf(index);
    if (!Ok(transaction->Put(family.handle, key, "loses"), "Put")) return true;
    Log() << family.name << " conflicting Put of " << Show(key);
    const std::string value = NewValue(family);
    if (!Ok(db_->Put(WriteOptions(), family.handle, key, value), "Put")) return true;
    family.contents[key] = {{"", value}};
    const Status status = transaction->Commit();
    if (!status.IsBusy() && !status.IsTryAgain()) Fail("commit of a transaction in conflict: " + status.ToString());
    return true;
  }

  // ---- Reading

  void CompareGet(const Family& family, const Contents& contents, const std::string& key, const Status& status,
                  const std::string& value, const char* what) {
    const auto found = contents.find(key);
    const std::string expected = found == contents.end() ? "nothing" : Show(Plain(found->second));
    const bool same = found == contents.end() ? status.IsNotFound() : status.ok() && value == Plain(found->second);
    if (!same) {
      Fail(std::string(what) + " of " + Show(key) + " in " + family.name + " gave " +
           (status.ok() ? Show(value) : status.ToString()) + ", not " + expected);
    }
  }

  // A view of the past (a snapshot with what it saw) or of now (null).
  const HeldSnapshot* AnyView(const Family& family) {
    if (snapshots_.empty() || random_.OneIn(2)) return nullptr;
    const HeldSnapshot& held = snapshots_[random_.Uniform(snapshots_.size())];
    return held.picture.count(family.id) != 0 ? &held : nullptr;
  }

  ReadOptions AnyReadOptions(const HeldSnapshot* view) {
    ReadOptions options;
    options.snapshot = view == nullptr ? nullptr : view->snapshot;
    options.fill_cache = random_.OneIn(2);
    options.async_io = random_.OneIn(8);
    options.readahead_size = random_.OneIn(8) ? 4096 : 0;
    return options;
  }

  void GetOnce() {
    Family& family = AnyFamily();
    const HeldSnapshot* view = AnyView(family);
    const Contents& contents = view == nullptr ? family.contents : *view->picture.at(family.id);
    const std::string key = KeyOf(random_.Uniform(kKeys + 20));
    Log() << family.name << " Get " << Show(key) << (view != nullptr ? " at a snapshot" : "");
    if (random_.OneIn(3)) {
      PinnableWideColumns wide;
      const Status status = db_->GetEntity(AnyReadOptions(view), family.handle, key, &wide);
      const auto found = contents.find(key);
      const bool same =
          found == contents.end() ? status.IsNotFound() : status.ok() && FromWide(wide.columns()) == found->second;
      if (!same) {
        Fail("GetEntity of " + Show(key) + " in " + family.name + " gave " + status.ToString() + " " +
             Show(FromWide(wide.columns())) + ", not " + (found == contents.end() ? "nothing" : Show(found->second)));
      }
    } else {
      PinnableSlice value;
      const Status status = db_->Get(AnyReadOptions(view), family.handle, key, &value);
      CompareGet(family, contents, key, status, value.ToString(), "Get");
    }
    bool value_found = false;
    std::string value;
    if (view == nullptr && family.contents.count(key) != 0 &&
        !db_->KeyMayExist(ReadOptions(), family.handle, key, &value, &value_found)) {
      Fail("KeyMayExist denies " + Show(key));
    }
  }

  void MultiGetOnce() {
    const size_t count = 1 + random_.Uniform(20);
    std::vector<Family*> asked;
    std::vector<std::string> keys;
    std::vector<Slice> slices;
    std::vector<ColumnFamilyHandle*> handles;
    const bool one_family = random_.OneIn(2);
    Family& first = AnyFamily();
    const HeldSnapshot* view = AnyView(first);
    for (size_t i = 0; i < count; ++i) {
      Family* family = one_family ? &first : &AnyFamily();
      if (view != nullptr && view->picture.count(family->id) == 0) family = &first;
      asked.push_back(family);
      handles.push_back(family->handle);
      keys.push_back(KeyOf(random_.Uniform(kKeys)));
    }
    for (const std::string& key : keys) slices.emplace_back(key);
    Log() << "MultiGet of " << count << (view != nullptr ? " at a snapshot" : "");
    std::vector<Status> statuses(count);
    std::vector<std::string> values(count);
    const ReadOptions options = AnyReadOptions(view);
    switch (random_.Uniform(3)) {
      case 0:
        statuses = db_->MultiGet(options, handles, slices, &values);
        break;
      case 1: {
        std::vector<PinnableSlice> pinned(count);
        db_->MultiGet(options, count, handles.data(), slices.data(), pinned.data(), statuses.data());
        for (size_t i = 0; i < count; ++i) values[i] = pinned[i].ToString();
        break;
      }
      default: {
        for (Family*& family : asked) family = &first;
        std::vector<PinnableWideColumns> wide(count);
        db_->MultiGetEntity(options, first.handle, count, slices.data(), wide.data(), statuses.data());
        for (size_t i = 0; i < count; ++i) values[i] = Plain(FromWide(wide[i].columns()));
        break;
      }
    }
    for (size_t i = 0; i < count && !failed_; ++i) {
      const Contents& contents = view == nullptr ? asked[i]->contents : *view->picture.at(asked[i]->id);
      CompareGet(*asked[i], contents, keys[i], statuses[i], values[i], "MultiGet");
    }
  }

  // ---- Iterating

  void CompareAt(const HeldIterator& held, const char* what) {
    const bool valid = held.position != held.contents->end();
    const Iterator& iterator = *held.iterator;
    if (!iterator.status().ok()) {
      Fail(std::string(what) + ": " + iterator.status().ToString());
    } else if (iterator.Valid() != valid) {
      Fail(std::string(what) + (valid ? ": ended before " + Show(held.position->first)
                                      : ": is at " + Show(iterator.key().ToString()) + " behind the end"));
    } else if (valid && iterator.key() != held.position->first) {
      Fail(std::string(what) + ": is at " + Show(iterator.key().ToString()) + ", not at " + Show(held.position->first));
    } else if (valid && (iterator.value() != Plain(held.position->second) ||
                         FromWide(iterator.columns()) != held.position->second)) {
      Fail(std::string(what) + ": at " + Show(held.position->first) + " is " + Show(FromWide(iterator.columns())) +
           " (value " + Show(iterator.value().ToString()) + "), not " + Show(held.position->second));
    }
  }

  void CompareForward(const Family& family, const Contents& contents, Iterator* iterator, const char* what) {
    iterator->SeekToFirst();
    for (const auto& [key, columns] : contents) {
      if (!iterator->Valid() || iterator->key() != key || iterator->value() != Plain(columns)) {
        return Fail(std::string(what) + " of " + family.name + ": " +
                    (iterator->Valid() ? Show(iterator->key().ToString()) + "=" + Show(iterator->value().ToString())
                                       : "the end (" + iterator->status().ToString() + ")") +
                    " where " + Show(key) + "=" + Show(Plain(columns)) + " should be");
      }
      iterator->Next();
    }
    if (iterator->Valid()) {
      Fail(std::string(what) + " of " + family.name + ": too much: " + Show(iterator->key().ToString()));
    }
    Ok(iterator->status(), what);
  }

  void NewIteratorOnce() {
    if (iterators_.size() >= 6) iterators_.erase(iterators_.begin() + random_.Uniform(iterators_.size()));
    Family& family = AnyFamily();
    const HeldSnapshot* view = AnyView(family);
    HeldIterator held;
    held.family = family.id;
    held.with_snapshot = view != nullptr;
    ReadOptions options = AnyReadOptions(view);
    Contents contents = view == nullptr ? family.contents : *view->picture.at(family.id);
    if (random_.OneIn(3)) {
      held.lower = std::make_unique<std::string>(KeyOf(random_.Uniform(kKeys)));
      held.lower_slice = std::make_unique<Slice>(*held.lower);
      options.iterate_lower_bound = held.lower_slice.get();
      contents.erase(contents.begin(), contents.lower_bound(*held.lower));
    }
    if (random_.OneIn(3)) {
      held.upper = std::make_unique<std::string>(KeyOf(random_.Uniform(kKeys)));
      held.upper_slice = std::make_unique<Slice>(*held.upper);
      options.iterate_upper_bound = held.upper_slice.get();
      contents.erase(contents.lower_bound(*held.upper), contents.end());
    }
    options.pin_data = random_.OneIn(4);
    Log() << family.name << " NewIterator" << (view != nullptr ? " at a snapshot" : "")
          << (held.lower ? " from " + Show(*held.lower) : "") << (held.upper ? " to " + Show(*held.upper) : "");
    held.contents = std::make_shared<const Contents>(std::move(contents));
    held.position = held.contents->end();
    held.iterator.reset(db_->NewIterator(options, family.handle));
    iterators_.push_back(std::move(held));
  }

  void MoveIteratorOnce() {
    if (iterators_.empty()) return NewIteratorOnce();
    HeldIterator& held = iterators_[random_.Uniform(iterators_.size())];
    Iterator& iterator = *held.iterator;
    const Contents& contents = *held.contents;
    // Seeks stay inside the bounds, as RocksDB wants them.
    const std::string target = KeyOf(random_.Uniform(kKeys));
    const Less less = contents.key_comp();
    const bool inside = (!held.lower || !less(target, *held.lower)) && (!held.upper || less(target, *held.upper));
    const bool valid = held.positioned && held.position != contents.end();
    const uint64_t kind = random_.Uniform(10);
    if (kind == 0) {
      Log() << "SeekToFirst";
      iterator.SeekToFirst();
      held.position = contents.begin();
    } else if (kind == 1) {
      Log() << "SeekToLast";
      iterator.SeekToLast();
      held.position = contents.empty() ? contents.end() : std::prev(contents.end());
    } else if (kind == 2 && inside) {
      Log() << "Seek " << Show(target);
      iterator.Seek(target);
      held.position = contents.lower_bound(target);
    } else if (kind == 3 && inside) {
      Log() << "SeekForPrev " << Show(target);
      iterator.SeekForPrev(target);
      held.position = contents.upper_bound(target);
      held.position = held.position == contents.begin() ? contents.end() : std::prev(held.position);
    } else if (kind == 4 && !held.lower && !held.upper && !held.with_snapshot && random_.OneIn(3)) {
      for (const auto& family : families_) {
        if (family->id != held.family) continue;
        Log() << family->name << " Refresh";
        if (!Ok(iterator.Refresh(), "Refresh")) return;
        held.contents = Copy(*family);
        held.position = held.contents->end();
        held.positioned = false;
      }
      return;
    } else if (valid) {
      const uint64_t steps = 1 + random_.Uniform(20);
      const bool forward = random_.OneIn(2);
      Log() << (forward ? "Next" : "Prev") << " up to " << steps << " times";
      for (uint64_t i = 0; i < steps && held.position != contents.end() && !failed_; ++i) {
        if (forward) {
          iterator.Next();
          ++held.position;
        } else {
          iterator.Prev();
          held.position = held.position == contents.begin() ? contents.end() : std::prev(held.position);
        }
        CompareAt(held, forward ? "Next" : "Prev");
      }
      return;
    } else {
      return;
    }
    held.positioned = true;
    CompareAt(held, "the iterator");
  }

  // ---- Snapshots

  void TakeSnapshot() {
    if (snapshots_.size() >= 5) return ReleaseSnapshot();
    Log() << "GetSnapshot";
    snapshots_.push_back({db_->GetSnapshot(), CopyAll()});
  }

  void ReleaseSnapshot() {
    if (snapshots_.empty()) return;
    Log() << "ReleaseSnapshot";
    const size_t which = random_.Uniform(snapshots_.size());
    db_->ReleaseSnapshot(snapshots_[which].snapshot);
    snapshots_.erase(snapshots_.begin() + which);
  }

  // ---- Flush, compaction, column families, reopening

  void FlushOnce() {
    rocksdb::FlushOptions options;
    options.wait = random_.Uniform(4) != 0;
    std::vector<ColumnFamilyHandle*> handles;
    const bool all = random_.OneIn(2);
    for (const auto& family : families_) {
      if (all || random_.OneIn(2)) handles.push_back(family->handle);
    }
    if (handles.empty()) handles.push_back(families_[0]->handle);
    Log() << "Flush of " << handles.size() << (options.wait ? "" : " without waiting");
    Ok(db_->Flush(options, handles), "Flush");
  }

  void CompactOnce() {
    Family& family = AnyFamily();
    const bool key_order = family.handle->GetComparator() == rocksdb::BytewiseComparator();
    if (family.engine->trie && key_order && random_.OneIn(4)) {
      Log() << "WaitForTrieCompaction";
      Ok(WaitForTrieCompaction(db_.get()), "WaitForTrieCompaction");
      return;
    }
    if (family.engine->trie && !key_order) {
      TrieCompactOptions options;
      const uint64_t kind = random_.Uniform(6);
      if (kind == 0) {
        options.depth = static_cast<int>(random_.Uniform(2));
      } else if (kind <= 3) {
        if (!Ok(TrieContainerOf(family.handle, KeyOf(random_.Uniform(kKeys)), 1, &options.container),
                "TrieContainerOf")) {
          return;
        }
      } else if (kind == 4) {
        Log() << "WaitForTrieCompaction";
        Ok(WaitForTrieCompaction(db_.get()), "WaitForTrieCompaction");
        return;
      }
      Log() << family.name << " CompactTrie, depth " << options.depth << ", container of " << options.container.size()
            << " steps";
      Ok(CompactTrie(db_.get(), family.handle, options), "CompactTrie");
      return;
    }
    std::string from = KeyOf(random_.Uniform(kKeys)), to = KeyOf(random_.Uniform(kKeys));
    if (family.contents.key_comp()(to, from)) from.swap(to);
    const Slice begin(from), end(to);
    const bool in_hash_order = HashOfComparator(family.handle->GetComparator()) != nullptr;
    const bool whole = random_.OneIn(3) || in_hash_order;
    Log() << family.name << " CompactRange " << (whole ? "" : Show(from) + " " + Show(to));
    Ok(db_->CompactRange(rocksdb::CompactRangeOptions(), family.handle, whole ? nullptr : &begin,
                         whole ? nullptr : &end),
       "CompactRange");
  }

  void CreateFamily() {
    if (families_.size() >= kMaxFamilies) return;
    const Engine* engine = random_.OneIn(3) ? FindEngine("leveled") : &engine_;
    // A dropped family's name may come back; with another comparator only after a reopen, because RocksDB's recovery
    // reads the dropped family's records with the options of the name.
    std::map<std::string, const Engine*> taken = dropped_names_;
    for (const auto& family : families_) taken[family->name] = nullptr;
    std::string name;
    do {
      name = "cf" + std::to_string(random_.Uniform(9));
    } while (taken.count(name) != 0 && taken[name] != engine);
    Family* family = AddFamily(name, engine, random_.OneIn(3));
    if (family == nullptr) return;
    Log() << "CreateColumnFamily " << name << " on " << engine->name << (family->counters ? " of counters" : "");
    if (Ok(db_->CreateColumnFamily(family->options, name, &family->handle), "CreateColumnFamily")) SetOrder(family);
  }

  void DropFamily() {
    if (families_.size() < 2) return;
    const size_t which = 1 + random_.Uniform(families_.size() - 1);
    Family& family = *families_[which];
    Log() << "DropColumnFamily " << family.name;
    if (!Ok(db_->DropColumnFamily(family.handle), "DropColumnFamily")) return;
    dropped_names_[family.name] = family.engine;
    dropped_.push_back(family.handle);  // An iterator needs its family's handle.
    families_.erase(families_.begin() + which);
  }

  void CloseDb() {
    iterators_.clear();
    if (db_ == nullptr) return;
    for (const HeldSnapshot& held : snapshots_) db_->ReleaseSnapshot(held.snapshot);
    snapshots_.clear();
    for (const auto& family : families_) {
      if (family->handle != nullptr) db_->DestroyColumnFamilyHandle(family->handle);
      family->handle = nullptr;
    }
    for (ColumnFamilyHandle* handle : dropped_) db_->DestroyColumnFamilyHandle(handle);
    dropped_.clear();
    dropped_names_.clear();
    if (random_.OneIn(2)) Ok(db_->Close(), "Close");
    db_.reset();
  }

  // The database options of every engine that any family uses.
  rocksdb::DBOptions DatabaseOptions() {
    rocksdb::Options options = BaseOptions();
    for (const auto& family : families_) {
      rocksdb::Options filled(options, rocksdb::ColumnFamilyOptions(BaseOptions()));
      Ok(family->engine->fill(&filled), "engine options");
      options = rocksdb::Options(filled, rocksdb::ColumnFamilyOptions());
    }
    // Families created later may be of this engine.
    return options;
  }

  void Open(Opening opening) {
    opening_ = opening;
    Log() << "open by " << kOpeningNames[static_cast<int>(opening)];
    rocksdb::DBOptions options = DatabaseOptions();
    std::vector<rocksdb::ColumnFamilyDescriptor> descriptors;
    for (const auto& family : families_) descriptors.emplace_back(family->name, family->options);
    std::vector<ColumnFamilyHandle*> handles;
    std::vector<std::string> names;
    rocksdb::DB* db = nullptr;
    Status status;
    const std::string path = dir_ / "db";
    switch (opening) {
      case Opening::kOptionsFile:
        descriptors.clear();
        status = rocksdb::LoadLatestOptions(rocksdb::ConfigOptions(), path, &options, &descriptors);
        if (!Ok(status, "LoadLatestOptions")) return;
        status = rocksdb::DB::Open(options, path, descriptors, &handles, port::Into(&db));
        break;
      case Opening::kPlain:
        status = rocksdb::DB::Open(options, path, descriptors, &handles, port::Into(&db));
        break;
      case Opening::kCairn:
        status = cairn::Open(options, path, descriptors, &handles, &db);
        break;
      case Opening::kStoredOptions:
        status = OpenWithStoredOptions(path, &names, &handles, &db);
        break;
      case Opening::kPessimistic: {
        rocksdb::TransactionDB* transaction_db = nullptr;
        status = rocksdb::TransactionDB::Open(options, rocksdb::TransactionDBOptions(), path, descriptors, &handles,
                                              &transaction_db);
        db = transaction_db;
        break;
      }
      case Opening::kOptimistic: {
        rocksdb::OptimisticTransactionDB* transaction_db = nullptr;
        status = rocksdb::OptimisticTransactionDB::Open(options, path, descriptors, &handles, &transaction_db);
        db = transaction_db;
        break;
      }
    }
    if (!Ok(status, kOpeningNames[static_cast<int>(opening)])) return;
    db_.reset(db);
    if (opening != Opening::kStoredOptions) {
      for (const auto& descriptor : descriptors) names.push_back(descriptor.name);
    }
    for (size_t i = 0; i < names.size(); ++i) {
      for (const auto& family : families_) {
        if (family->name != names[i]) continue;
        family->handle = handles[i];
        SetOrder(family.get());
      }
    }
    for (const auto& family : families_) {
      if (family->handle == nullptr) return Fail("column family " + family->name + " is missing after open");
    }
    if (handles.size() != families_.size()) return Fail("open gave column families that were dropped");
  }

  void Reopen() {
    CloseDb();
    if (failed_) return;
    Opening next = static_cast<Opening>(random_.Uniform(6));
    // RocksDB refuses to read a WAL with a prepared transaction, committed or not, by anything else.
    if (prepared_) next = Opening::kPessimistic;
    prepared_ = false;
    Open(next);
    if (!failed_) CheckEverything();
  }

  // ---- The whole

  void CheckEverything() {
    for (const auto& family : families_) {
      deepest_ =
          std::max(deepest_, family->engine == &engine_ ? DeepestDepth(db_.get(), family->handle, engine_.trie) : 0);
      ReadOptions options;
      options.verify_checksums = true;
      std::unique_ptr<Iterator> iterator(db_->NewIterator(options, family->handle));
      CompareForward(*family, family->contents, iterator.get(), "scan");
      if (failed_) return;
      iterator->SeekToLast();
      for (auto at = family->contents.rbegin(); at != family->contents.rend(); ++at) {
        if (!iterator->Valid() || iterator->key() != at->first) {
          return Fail("backward scan of " + family->name + ": " +
                      (iterator->Valid() ? Show(iterator->key().ToString()) : iterator->status().ToString()) +
                      " where " + Show(at->first) + " should be");
        }
        iterator->Prev();
      }
      if (iterator->Valid()) return Fail("backward scan of " + family->name + ": too much");
    }
    for (const HeldSnapshot& held : snapshots_) {
      for (const auto& family : families_) {
        const auto found = held.picture.find(family->id);
        if (found == held.picture.end()) continue;
        ReadOptions options;
        options.snapshot = held.snapshot;
        std::unique_ptr<Iterator> iterator(db_->NewIterator(options, family->handle));
        CompareForward(*family, *found->second, iterator.get(), "scan at a snapshot");
        if (failed_) return;
      }
    }
  }

  // At rest, with no snapshot, a full compaction must leave each live key once and nothing else.
  void Finish() {
    Reopen();
    if (failed_) return;
    FlushOnce();
    for (const auto& family : families_) {
      if (!Ok(db_->Flush(rocksdb::FlushOptions(), family->handle), "Flush")) return;
      Log() << family->name << " compact all";
      if (!Ok(CompactAll(db_.get(), family->handle, family->engine->trie), "full compaction")) return;
      rocksdb::TablePropertiesCollection tables;
      if (!Ok(db_->GetPropertiesOfAllTables(family->handle, &tables), "GetPropertiesOfAllTables")) return;
      uint64_t entries = 0;
      for (const auto& [file, properties] : tables) entries += properties->num_entries;
      if (family->engine->trie && entries != family->contents.size()) {
        Fail("after a full compaction, " + family->name + " keeps " + std::to_string(entries) + " entries for " +
             std::to_string(family->contents.size()) + " keys");
      }
    }
    CheckEverything();
    if (!failed_) Ok(db_->VerifyChecksum(), "VerifyChecksum");
  }

  void Step() {
    const uint64_t kind = random_.Uniform(1000);
    if (kind < 8) {
      DeleteRangeOnce();
    } else if (kind < 400) {
      Family& family = AnyFamily();
      WriteOne(family, &family.contents, DbWriter{db_.get(), AnyWriteOptions()});
    } else if (kind < 480) {
      WriteBatchOnce();
    } else if (kind < 560) {
      TransactOnce();
    } else if (kind < 680) {
      GetOnce();
    } else if (kind < 720) {
      MultiGetOnce();
    } else if (kind < 760) {
      NewIteratorOnce();
    } else if (kind < 920) {
      MoveIteratorOnce();
    } else if (kind < 940) {
      TakeSnapshot();
    } else if (kind < 955) {
      ReleaseSnapshot();
    } else if (kind < 984) {
      FlushOnce();
    } else if (kind < 990) {
      CompactOnce();
    } else if (kind < 993) {
      CreateFamily();
    } else if (kind < 995) {
      DropFamily();
    } else if (kind < 998) {
      Reopen();
    }
  }

  const Engine& engine_;
  const uint64_t seed_;
  const uint64_t operations_;
  Random random_;
  TempDir dir_;
  std::unique_ptr<rocksdb::DB> db_;
  Opening opening_ = Opening::kPlain;
  std::vector<std::unique_ptr<Family>> families_;
  std::vector<ColumnFamilyHandle*> dropped_;
  std::map<std::string, const Engine*> dropped_names_;  // since the last open
  std::vector<HeldSnapshot> snapshots_;
  std::vector<HeldIterator> iterators_;
  std::deque<std::ostringstream> log_;
  uint64_t step_ = 0;
  uint64_t values_ = 0;
  uint64_t next_family_ = 0;
  int deepest_ = 0;
  bool prepared_ = false;  // a transaction, since the last open
  bool failed_ = false;
};

class ModelTest : public ::testing::TestWithParam<Engine> {};

TEST_P(ModelTest, AgreesWithTheModel) {
  const uint64_t seed = SeedFromEnvironment();
  const uint64_t operations = NumberFromEnvironment("CAIRN_OPS", kDefaultOperations);
  printf("CAIRN_SEED=%llu CAIRN_OPS=%llu\n", static_cast<unsigned long long>(seed),
         static_cast<unsigned long long>(operations));
  Model model(GetParam(), seed, operations);
  model.Run();
  printf("deepest: %d\n", model.deepest());
  // Else the test would say little about the depths.
  if (operations >= kDefaultOperations && !HasFailure()) {
    EXPECT_GE(model.deepest(), GetParam().depth);
  }
}

INSTANTIATE_TEST_SUITE_P(Engines, ModelTest, ::testing::ValuesIn(Engines()), EngineName);

}  // namespace
}  // namespace cairn::test
