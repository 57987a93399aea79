// The same operations on several engines that keep keys in order give the same answers: RocksDB's leveled and universal
// compaction, ordered tables, and the trie in key order.
//
// Each run takes an order of keys (bytewise, reverse, one of the program's own), a prefix extractor or none, and a
// shape of keys; reads are Gets, MultiGets, iterators of all kinds, snapshots and tailing, between flushes, compactions
// of all and of ranges, ingestions, changes of options, reopenings, copies and a repair; some runs delete ranges.
//
// CAIRN_SEED=n replays a run, CAIRN_OPS=n sets its length.

#include <algorithm>
#include <map>
#include <memory>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "cairn/db.h"
#include "cairn/trie.h"
#include "rocksdb/comparator.h"
#include "rocksdb/convenience.h"
#include "rocksdb/merge_operator.h"
#include "rocksdb/port/open_into.h"
#include "rocksdb/slice_transform.h"
#include "rocksdb/utilities/checkpoint.h"
#include "rocksdb/write_batch.h"
#include "test/support.h"
#include "test/testutil/ingest_again.h"
#include "utilities/merge_operators.h"

namespace cairn::test {
namespace {

constexpr uint64_t kDefaultOperations = 1200;
constexpr size_t kFamilies = 2;

// Shorter keys first; of one length, from the last byte to the first.
class OwnOrder : public rocksdb::Comparator {
 public:
  const char* Name() const override { return "metamorphic_test.OwnOrder"; }
  int Compare(const Slice& a, const Slice& b) const override {
    if (a.size() != b.size()) return a.size() < b.size() ? -1 : 1;
    for (size_t i = a.size(); i > 0; --i) {
      const auto x = static_cast<unsigned char>(a[i - 1]), y = static_cast<unsigned char>(b[i - 1]);
      if (x != y) return x < y ? -1 : 1;
    }
    return 0;
  }
  void FindShortestSeparator(std::string*, const Slice&) const override {}
  void FindShortSuccessor(std::string*) const override {}
};

enum class Order { kBytewise, kReverse, kOwn };
enum class Shape { kSequential, kStreams, kHotSpot, kOneByte, kLargeKeys, kMixed };

struct Setup {
  const char* name;
  Order order;
  Shape shape;
  bool prefixes;  // of three bytes
  // At the end. RocksDB's repair forgets the sequence numbers of ingested tables, so such a run ingests nothing.
  bool repairs;
  // RocksDB's tailing iterators refuse tables with range deletions, and its repair makes more of those, so such a run
  // has neither.
  bool deletes_ranges = false;
};

void PrintTo(const Setup& setup, std::ostream* out) { *out << setup.name; }

const rocksdb::Comparator* ComparatorOf(Order order) {
  static const OwnOrder own;
  if (order == Order::kOwn) return &own;
  return order == Order::kReverse ? rocksdb::ReverseBytewiseComparator() : rocksdb::BytewiseComparator();
}

// Keys as the shape has them: new ones mostly, of those there are some.
class Keys {
 public:
  Keys(Shape shape, Random* random) : shape_(shape), random_(random) {}

  std::string ToWrite() {
    if (shape_ == Shape::kSequential) return Number(random_->OneIn(20) ? random_->Uniform(next_ + 1) : ++next_);
    if (shape_ == Shape::kStreams) {
      const uint64_t stream = random_->Uniform(12);
      return "s" + std::to_string(10 + stream) + Number(next_of_[stream]++);
    }
    ++next_;
    return Any();
  }

  std::string Any() {
    switch (shape_) {
      case Shape::kSequential:
        return Number(random_->Uniform(next_ + 2));
      case Shape::kStreams: {
        const uint64_t stream = random_->Uniform(12);
        return "s" + std::to_string(10 + stream) + Number(random_->Uniform(next_of_[stream] + 2));
      }
      case Shape::kHotSpot:
        return Number(random_->OneIn(10) ? random_->Uniform(20000) : next_ / 400 * 613 % 20000 + random_->Uniform(200));
      case Shape::kOneByte:
        return std::string(40, 'k') + static_cast<char>(random_->Uniform(256));
      case Shape::kLargeKeys:
        return random_->OneIn(100) ? std::string(1 << 20, 'L') + static_cast<char>('a' + random_->Uniform(4))
                                   : Number(random_->Uniform(3000));
      case Shape::kMixed:
        break;
    }
    if (random_->OneIn(50)) return "";
    std::string key(random_->Uniform(6), static_cast<char>(random_->Uniform(4) * 85));
    return key + Number(random_->Uniform(3000)).substr(random_->Uniform(8));
  }

 private:
  static std::string Number(uint64_t number) {
    std::string text = std::to_string(number);
    return std::string(8 - std::min<size_t>(8, text.size()), '0') + text;
  }

  const Shape shape_;
  Random* const random_;
  uint64_t next_ = 0;
  uint64_t next_of_[12] = {};
};

// What an iterator shows from where it is, as text; large keys and values by their size and last byte.
std::string Text(const Slice& slice) {
  if (slice.size() < 60) return slice.ToString();
  return std::to_string(slice.size()) + ":" + slice.ToString().substr(slice.size() - 20);
}

std::string Rows(Iterator* it, uint64_t count, bool forward) {
  std::string rows;
  for (uint64_t i = 0; i < count && it->Valid(); ++i) {
    rows += Text(it->key()) + "=" + Text(it->value()) + " ";
    if (forward) {
      it->Next();
    } else {
      it->Prev();
    }
  }
  return rows + (it->Valid() ? "" : "end ") + it->status().ToString();
}

class Store {
 public:
  Store(const Engine& engine, const Setup& setup, std::string folder)
      : engine_(engine), setup_(setup), folder_(std::move(folder)), path_(folder_ + "/0") {}
  ~Store() { Close(); }
  Store(const Store&) = delete;
  Store& operator=(const Store&) = delete;

  const char* name() const { return engine_.name; }
  rocksdb::DB* db() { return db_.get(); }
  rocksdb::ColumnFamilyHandle* family(size_t i) { return handles_[i]; }
  const rocksdb::Options& options() const { return options_; }

  Status Open() {
    options_ = BaseOptions();
    options_.create_missing_column_families = true;
    options_.comparator = ComparatorOf(setup_.order);
    options_.merge_operator = rocksdb::MergeOperators::CreateStringAppendOperator();
    if (setup_.prefixes) options_.prefix_extractor.reset(rocksdb::NewCappedPrefixTransform(3));
    Status s = engine_.fill(&options_);
    if (!s.ok()) return s;
    const std::vector<rocksdb::ColumnFamilyDescriptor> families = {{"default", options_}, {"second", options_}};
    s = rocksdb::DB::Open(options_, path_, families, &handles_, port::Into(&db_));
    return s;
  }

  void Close() {
    tailing_.reset();
    held_.reset();
    for (const rocksdb::Snapshot* snapshot : snapshots_) db_->ReleaseSnapshot(snapshot);
    snapshots_.clear();
    for (rocksdb::ColumnFamilyHandle* handle : handles_) {
      if (db_ != nullptr) db_->DestroyColumnFamilyHandle(handle).PermitUncheckedError();
    }
    handles_.clear();
    db_.reset();
  }

  // Goes on with a copy.
  Status MoveToCopy() {
    std::unique_ptr<rocksdb::Checkpoint> checkpoint;
    Status s = rocksdb::Checkpoint::Create(db_.get(), port::Into(&checkpoint));
    const std::string copy = folder_ + "/" + std::to_string(++copies_);
    if (s.ok()) s = checkpoint->CreateCheckpoint(copy);
    if (!s.ok()) return s;
    Close();
    s = rocksdb::DestroyDB(path_, options_, {{"default", options_}, {"second", options_}});
    path_ = copy;
    return s.ok() ? Open() : s;
  }

  // RocksDB's makes tables of what is in WALs, flushed or not, and would apply merge operands twice.
  Status Repair() {
    Status s = db_->Flush(rocksdb::FlushOptions(), handles_);
    if (!s.ok()) return s;
    Close();
    s = rocksdb::RepairDB(path_, options_, {{"default", options_}, {"second", options_}});
    return s.ok() ? Open() : s;
  }

  Status CompactAll(size_t i) { return test::CompactAll(db_.get(), handles_[i], engine_.trie); }

  Status Ingest(size_t i, const std::map<std::string, std::string>& records) {
    const std::string file = folder_ + "/ingested.sst";
    const Status s = WriteTable(file, db_->GetOptions(handles_[i]), records, handles_[i]);
    rocksdb::IngestExternalFileOptions options;
    options.move_files = true;
    return s.ok() ? IngestAgain(db_.get(), handles_[i], {file}, options) : s;
  }

  void TakeSnapshot() { snapshots_.push_back(db_->GetSnapshot()); }
  void ReleaseSnapshot(size_t i) {
    db_->ReleaseSnapshot(snapshots_[i]);
    snapshots_.erase(snapshots_.begin() + static_cast<std::ptrdiff_t>(i));
  }
  size_t snapshots() const { return snapshots_.size(); }
  const rocksdb::Snapshot* snapshot(size_t i) const { return snapshots_[i]; }

  // Of the default column family, kept between operations.
  Iterator* Tailing() {
    ReadOptions read;
    read.tailing = true;
    read.total_order_seek = true;
    if (tailing_ == nullptr) tailing_.reset(db_->NewIterator(read));
    return tailing_.get();
  }
  void Hold() {
    ReadOptions read;
    read.total_order_seek = true;
    held_.reset(db_->NewIterator(read));
    held_->SeekToFirst();
  }
  Iterator* held() { return held_.get(); }

 private:
  const Engine& engine_;
  const Setup setup_;
  const std::string folder_;
  std::string path_;
  int copies_ = 0;
  rocksdb::Options options_;
  std::unique_ptr<rocksdb::DB> db_;
  std::vector<rocksdb::ColumnFamilyHandle*> handles_;
  std::vector<const rocksdb::Snapshot*> snapshots_;
  std::unique_ptr<Iterator> tailing_;
  std::unique_ptr<Iterator> held_;
};

class MetamorphicTest : public ::testing::TestWithParam<Setup> {
 protected:
  void SetUp() override {
    seed_ = SeedFromEnvironment();
    operations_ = NumberFromEnvironment("CAIRN_OPS", kDefaultOperations);
    printf("CAIRN_SEED=%llu CAIRN_OPS=%llu\n", static_cast<unsigned long long>(seed_),
           static_cast<unsigned long long>(operations_));
    // RocksDB copies the outermost keys of all tables for each compaction.
    if (GetParam().shape == Shape::kLargeKeys) operations_ /= 4;
    random_ = std::make_unique<Random>(seed_);
    keys_ = std::make_unique<Keys>(GetParam().shape, random_.get());
    std::vector<const char*> names = {"leveled", "universal", "round_robin", "ordered_trie", "ordered_trie_tight"};
    if (GetParam().order == Order::kBytewise) names.insert(names.begin() + 1, {"ordered", "leveled_ordered"});
    for (const char* name : names) {
      const Engine* engine = FindEngine(name);
      ASSERT_NE(engine, nullptr) << name;
      std::filesystem::create_directory(dir_ / name);
      stores_.push_back(std::make_unique<Store>(*engine, GetParam(), dir_ / name));
      ASSERT_OK(stores_.back()->Open());
    }
  }

  // Does the same with each store; all must come to the same.
  template <class Do>
  void Same(const char* what, const Do& act) {
    std::string first;
    for (const auto& store : stores_) {
      const std::string answer = act(store.get());
      if (store == stores_.front()) first = answer;
      ASSERT_EQ(answer, first) << what << ": " << store->name() << " against " << stores_.front()->name()
                               << ", operation " << at_;
    }
  }
  // The same of what returns a status, which must be OK.
  template <class Do>
  void AllOk(const char* what, const Do& act) {
    for (const auto& store : stores_) {
      const Status s = act(store.get());
      ASSERT_TRUE(s.ok()) << what << ": " << store->name() << ": " << s.ToString() << ", operation " << at_;
    }
  }

  size_t AnyFamily() { return random_->Uniform(kFamilies); }
  std::string Value() { return std::string(random_->Uniform(500), static_cast<char>('a' + random_->Uniform(26))); }

  void Write() {
    const size_t family = AnyFamily();
    rocksdb::WriteBatch batch;
    const uint64_t kind = random_->Uniform(20);
    std::vector<std::pair<uint64_t, std::pair<std::string, std::string>>> entries;
    const uint64_t count = kind < 12 ? 1 : 1 + random_->Uniform(12);
    for (uint64_t i = 0; i < count; ++i) {
      const uint64_t what = random_->Uniform(10);
      entries.push_back({what, {what < 7 ? keys_->ToWrite() : keys_->Any(), Value()}});
    }
    AllOk("write", [&](Store* store) {
      rocksdb::WriteBatch all;
      Status s;
      for (const auto& [what, entry] : entries) {
        if (s.ok() && what < 7) s = all.Put(store->family(family), entry.first, entry.second);
        if (s.ok() && (what == 7 || what == 8)) s = all.Delete(store->family(family), entry.first);
        if (s.ok() && what == 9) s = all.Merge(store->family(1 - family), entry.first, entry.second.substr(0, 20));
      }
      return s.ok() ? store->db()->Write(rocksdb::WriteOptions(), &all) : s;
    });
  }

  // A seventh of the keys on average.
  void DeleteRange() {
    const rocksdb::Comparator* const order = ComparatorOf(GetParam().order);
    std::vector<std::string> ends(6);
    for (std::string& end : ends) end = keys_->Any();
    std::sort(ends.begin(), ends.end(),
              [order](const std::string& x, const std::string& y) { return order->Compare(x, y) < 0; });
    const size_t family = AnyFamily(), first = random_->Uniform(ends.size() - 1);
    AllOk("DeleteRange", [&](Store* store) {
      return store->db()->DeleteRange(rocksdb::WriteOptions(), store->family(family), ends[first], ends[first + 1]);
    });
  }

  // Set for each read: nothing, a snapshot.
  ReadOptions ReadOf(Store* store, size_t snapshot) {
    ReadOptions read;
    read.total_order_seek = true;
    if (snapshot < store->snapshots()) read.snapshot = store->snapshot(snapshot);
    return read;
  }
  size_t AnySnapshot() { return random_->OneIn(3) ? random_->Uniform(4) : SIZE_MAX; }

  void Get() {
    const size_t family = AnyFamily(), snapshot = AnySnapshot();
    std::vector<std::string> wanted;
    for (uint64_t i = 0; i < 1 + random_->Uniform(8); ++i) wanted.push_back(keys_->Any());
    Same("MultiGet", [&](Store* store) {
      const ReadOptions read = ReadOf(store, snapshot);
      std::string answers;
      std::vector<Slice> slices(wanted.begin(), wanted.end());
      std::vector<rocksdb::PinnableSlice> values(wanted.size());
      std::vector<Status> statuses(wanted.size());
      store->db()->MultiGet(read, store->family(family), wanted.size(), slices.data(), values.data(), statuses.data());
      for (size_t i = 0; i < wanted.size(); ++i) {
        std::string value;
        const Status s = store->db()->Get(read, store->family(family), wanted[i], &value);
        EXPECT_EQ(s, statuses[i]) << store->name();
        EXPECT_TRUE(!s.ok() || values[i] == value) << store->name();
        answers += s.ToString() + Text(value) + " ";
      }
      return answers;
    });
  }

  void Scan() {
    const size_t family = AnyFamily(), snapshot = AnySnapshot();
    const std::string from = keys_->Any(), a = keys_->Any(), b = keys_->Any();
    const bool forward = random_->OneIn(2), bounded = random_->OneIn(3), turns = random_->OneIn(4);
    const uint64_t count = random_->Uniform(60);
    const bool a_first = ComparatorOf(GetParam().order)->Compare(a, b) < 0;
    const Slice lower(a_first ? a : b), upper(a_first ? b : a);
    const uint64_t where = random_->Uniform(8);
    Same("scan", [&](Store* store) {
      ReadOptions read = ReadOf(store, snapshot);
      if (bounded) read.iterate_lower_bound = &lower;
      if (bounded) read.iterate_upper_bound = &upper;
      const std::unique_ptr<Iterator> it(store->db()->NewIterator(read, store->family(family)));
      if (where == 0) {
        it->SeekToFirst();
      } else if (where == 1) {
        it->SeekToLast();
      } else if (forward) {
        it->Seek(from);
      } else {
        it->SeekForPrev(from);
      }
      std::string rows = Rows(it.get(), count, forward);
      if (turns && it->Valid()) rows += " back " + Rows(it.get(), count / 2, !forward);
      return rows;
    });
  }

  void ScanPrefix() {
    const std::string from = keys_->Any();
    const size_t family = AnyFamily();
    const bool same = random_->OneIn(2);
    const std::string upper_key = keys_->Any();
    if (!GetParam().prefixes || from.size() < 3) return;
    Same("prefix", [&](Store* store) {
      ReadOptions read;
      const Slice upper(upper_key);
      if (same) {
        read.prefix_same_as_start = true;
      } else {
        read.auto_prefix_mode = true;
        read.iterate_upper_bound = &upper;
      }
      const std::unique_ptr<Iterator> it(store->db()->NewIterator(read, store->family(family)));
      it->Seek(from);
      return Rows(it.get(), 100, true);
    });
  }

  // Not with a prefix extractor: a tailing iterator of RocksDB over its leveled compaction then came to fewer rows of
  // the next prefix than one over universal (CAIRN_SEED=9, streams).
  void ScanTailing() {
    const std::string from = keys_->Any();
    const uint64_t count = random_->Uniform(30);
    if (GetParam().prefixes || GetParam().deletes_ranges) return;
    Same("tailing", [&](Store* store) {
      Iterator* const it = store->Tailing();
      it->Seek(from);
      return Rows(it, count, true);
    });
  }

  void ScanHeld() {
    const std::string from = keys_->Any();
    const uint64_t what = random_->Uniform(8), count = random_->Uniform(40);
    Same("held iterator", [&](Store* store) {
      if (store->held() == nullptr || what == 0) store->Hold();
      Iterator* const it = store->held();
      const Status s = what == 1 ? it->Refresh() : Status::OK();
      if (!s.ok()) return s.ToString();
      if (what == 1 || what == 2) it->Seek(from);
      if (what == 3) it->SeekForPrev(from);
      if (what == 4) it->SeekToLast();
      return Rows(it, count, what != 3 && what != 4);
    });
  }

  void ScanAll() {
    for (size_t family = 0; family < kFamilies; ++family) {
      Same("whole scan", [&](Store* store) {
        const std::unique_ptr<Iterator> it(store->db()->NewIterator(ReadOf(store, SIZE_MAX), store->family(family)));
        it->SeekToFirst();
        std::string rows = Rows(it.get(), UINT64_MAX, true);
        it->SeekToLast();
        return rows + Rows(it.get(), UINT64_MAX, false);
      });
    }
  }

  void Compact() {
    const size_t family = AnyFamily();
    const std::string a = keys_->Any(), b = keys_->Any();
    const bool a_first = ComparatorOf(GetParam().order)->Compare(a, b) < 0;
    const Slice begin(a_first ? a : b), end(a_first ? b : a);
    const uint64_t what = random_->Uniform(6);
    AllOk("compaction", [&](Store* store) {
      if (what == 0) return store->CompactAll(family);
      return store->db()->CompactRange(rocksdb::CompactRangeOptions(), store->family(family),
                                       what == 1 ? nullptr : &begin, what == 2 ? nullptr : &end);
    });
  }

  void IngestSome() {
    const size_t family = AnyFamily();
    std::set<std::string> keys;
    for (uint64_t count = 1 + random_->Uniform(200); count > 0; --count) keys.insert(keys_->ToWrite());
    std::map<std::string, std::string> records;
    const std::string value = Value();
    for (const std::string& key : keys) records[key] = value;
    AllOk("ingestion", [&](Store* store) { return store->Ingest(family, records); });
  }

  void ChangeOptions() {
    const size_t family = AnyFamily();
    static const std::pair<const char*, const char*> kChanges[] = {{"disable_auto_compactions", "true"},
                                                                   {"disable_auto_compactions", "false"},
                                                                   {"max_sequential_skip_in_iterations", "2"},
                                                                   {"write_buffer_size", "32768"},
                                                                   {"write_buffer_size", "131072"}};
    const auto& change = kChanges[random_->Uniform(5)];
    AllOk("SetOptions", [&](Store* store) {
      return store->db()->SetOptions(store->family(family), {{change.first, change.second}});
    });
  }

  void Snapshots() {
    const uint64_t which = random_->Uniform(4);
    const bool take = random_->OneIn(2);
    for (const auto& store : stores_) {
      if (take && store->snapshots() < 4) {
        store->TakeSnapshot();
      } else if (!take && which < store->snapshots()) {
        store->ReleaseSnapshot(which);
      }
    }
  }

  void Step() {
    const uint64_t what = random_->Uniform(1000);
    if (what < 20 && GetParam().deletes_ranges) return DeleteRange();
    if (what < 620) return Write();
    if (what < 700) return Get();
    if (what < 800) return Scan();
    if (what < 840) return ScanPrefix();
    if (what < 880) return ScanTailing();
    if (what < 920) return ScanHeld();
    if (what < 950) return Snapshots();
    if (what < 965) return GetParam().repairs ? Write() : IngestSome();
    if (what < 975) return Compact();
    if (what < 983) return ChangeOptions();
    if (what < 992) {
      const size_t family = AnyFamily();
      return AllOk("flush",
                   [&](Store* store) { return store->db()->Flush(rocksdb::FlushOptions(), store->family(family)); });
    }
    if (what < 995) return ScanAll();
    if (what < 998) {
      return AllOk("reopening", [](Store* store) {
        store->Close();
        return store->Open();
      });
    }
    AllOk("copy", [](Store* store) { return store->MoveToCopy(); });
  }

  TempDir dir_;
  uint64_t seed_ = 0, operations_ = 0, at_ = 0;
  std::unique_ptr<Random> random_;
  std::unique_ptr<Keys> keys_;
  std::vector<std::unique_ptr<Store>> stores_;
};

TEST_P(MetamorphicTest, EnginesAgree) {
  for (at_ = 0; at_ < operations_; ++at_) {
    Step();
    if (HasFatalFailure()) return;
  }
  ASSERT_NO_FATAL_FAILURE(ScanAll());
  ASSERT_NO_FATAL_FAILURE(AllOk("compaction", [](Store* store) { return store->CompactAll(0); }));
  ASSERT_NO_FATAL_FAILURE(ScanAll());
  // What a repair brings back is not compared: leveled and universal compaction do not agree on it (CAIRN_SEED=19).
  if (GetParam().repairs) AllOk("repair", [](Store* store) { return store->Repair(); });
}

INSTANTIATE_TEST_SUITE_P(
    Setups, MetamorphicTest,
    ::testing::Values(Setup{"sequential", Order::kBytewise, Shape::kSequential, true, false},
                      Setup{"streams", Order::kBytewise, Shape::kStreams, true, true},
                      Setup{"hot_spot", Order::kBytewise, Shape::kHotSpot, false, false},
                      Setup{"one_byte", Order::kBytewise, Shape::kOneByte, true, true},
                      Setup{"large_keys", Order::kBytewise, Shape::kLargeKeys, false, false},
                      Setup{"mixed", Order::kBytewise, Shape::kMixed, false, true},
                      Setup{"reverse_streams", Order::kReverse, Shape::kStreams, false, false},
                      Setup{"reverse_mixed", Order::kReverse, Shape::kMixed, false, true},
                      Setup{"own_sequential", Order::kOwn, Shape::kSequential, false, false},
                      Setup{"own_mixed", Order::kOwn, Shape::kMixed, false, true},
                      Setup{"ranges_streams", Order::kBytewise, Shape::kStreams, true, false, true},
                      Setup{"ranges_mixed", Order::kBytewise, Shape::kMixed, true, false, true},
                      Setup{"ranges_large_keys", Order::kBytewise, Shape::kLargeKeys, false, false, true},
                      Setup{"ranges_reverse", Order::kReverse, Shape::kHotSpot, false, false, true},
                      Setup{"ranges_own_mixed", Order::kOwn, Shape::kMixed, false, false, true}),
    [](const auto& with) { return std::string(with.param.name); });

}  // namespace
}  // namespace cairn::test
