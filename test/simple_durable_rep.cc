#include "test/simple_durable_rep.h"

#include <cstdio>
#include <cstdlib>
#include <mutex>
#include <set>
#include <thread>
#include <vector>

#include "db/memtable.h"
#include "memory/arena.h"
#include "util/coding.h"

namespace cairn {
namespace test {

namespace {

using rocksdb::KeyHandle;
using rocksdb::MemTableRep;
using rocksdb::Slice;

// The segments of one pool, all of one size.
class Segments {
 public:
  Segments(std::shared_ptr<DurablePool> pool, uint64_t segment_bytes) : pool_(std::move(pool)) {
    char* rest = pool_->segments();
    uint64_t left = pool_->segments_bytes();
    for (; left >= 2 * segment_bytes; left -= segment_bytes) {
      char* const next = pool_->Split(rest, segment_bytes);
      free_.push_back(rest);
      rest = next;
    }
    free_.push_back(rest);
    segment_bytes_ = segment_bytes;
  }

  DurablePool* pool() const { return pool_.get(); }
  uint64_t segment_bytes() const { return segment_bytes_; }
  uint64_t NextMemtable() { return memtables_.fetch_add(1) + 1; }

  char* Claim(uint64_t memtable, uint32_t column_family, uint32_t ordinal) {
    const std::lock_guard<std::mutex> lock(mutex_);
    if (free_.empty()) {
      fprintf(stderr, "the pool file of the test is too small\n");
      abort();
    }
    char* const segment = free_.back();
    free_.pop_back();
    pool_->Claim(segment, memtable, column_family, ordinal);
    return segment;
  }

  void Free(char* segment) {
    if (!pool_->Free(segment)) return;
    const std::lock_guard<std::mutex> lock(mutex_);
    free_.push_back(segment);
  }

 private:
  const std::shared_ptr<DurablePool> pool_;
  uint64_t segment_bytes_ = 0;
  std::mutex mutex_;
  std::vector<char*> free_;
  std::atomic<uint64_t> memtables_{0};
};

class SimpleDurableFactory;

class SimpleDurableRep : public MemTableRep {
 public:
  SimpleDurableRep(const KeyComparator& compare, rocksdb::Allocator* allocator, const SimpleDurableFactory* factory,
                   uint32_t column_family)
      : MemTableRep(allocator),
        compare_(compare),
        factory_(factory),
        column_family_(column_family),
        index_(Less{&compare}) {}

  ~SimpleDurableRep() override {
    if (segments_ == nullptr) return;
    for (char* segment : claimed_) segments_->Free(segment);
  }

  KeyHandle Allocate(size_t length, char** buffer) override;
  void Insert(KeyHandle handle) override;
  void InsertConcurrently(KeyHandle handle) override { Insert(handle); }

  bool Contains(const char* key) const override {
    const std::lock_guard<std::mutex> lock(mutex_);
    return index_.count(key) != 0;
  }

  size_t ApproximateMemoryUsage() override { return bytes_.load(std::memory_order_relaxed); }

  void MarkReadOnly() override {
    if (segments_ != nullptr) segments_->pool()->AcknowledgeAll();
  }
  void MarkFlushed() override {
    if (segments_ != nullptr) segments_->pool()->MarkFlushed(claimed_);
  }

  void Get(const rocksdb::LookupKey& key, void* arg, bool (*callback)(void*, const char*)) override {
    std::vector<const char*> from;
    {
      const std::lock_guard<std::mutex> lock(mutex_);
      for (auto at = index_.lower_bound(key.memtable_key().data()); at != index_.end() && from.size() < 200; ++at) {
        from.push_back(*at);
      }
    }
    for (const char* entry : from) {
      if (!callback(arg, entry)) return;
    }
    if (from.size() == 200) MemTableRep::Get(key, arg, callback);
  }

  Iterator* GetIterator(rocksdb::Arena* arena) override {
    void* const memory = arena != nullptr ? arena->AllocateAligned(sizeof(View)) : ::operator new(sizeof(View));
    const std::lock_guard<std::mutex> lock(mutex_);
    return new (memory) View(compare_, std::vector<const char*>(index_.begin(), index_.end()));
  }

 private:
  struct Less {
    const KeyComparator* compare;
    bool operator()(const char* a, const char* b) const { return (*compare)(a, b) < 0; }
  };

  // What was there when it was made, which is all that its snapshot sees.
  class View : public Iterator {
   public:
    View(const KeyComparator& compare, std::vector<const char*> entries)
        : compare_(compare), entries_(std::move(entries)), at_(entries_.size()) {}
    bool Valid() const override { return at_ < entries_.size(); }
    const char* key() const override { return entries_[at_]; }
    void Next() override { ++at_; }
    void Prev() override { at_ = at_ == 0 ? entries_.size() : at_ - 1; }
    void Seek(const Slice& internal_key, const char* memtable_key) override { at_ = First(internal_key, memtable_key); }
    void SeekForPrev(const Slice& internal_key, const char* memtable_key) override {
      at_ = First(internal_key, memtable_key);
      std::string held;
      const char* const key = memtable_key != nullptr ? memtable_key : Encode(internal_key, &held);
      if (at_ == entries_.size() || compare_(entries_[at_], key) > 0) Prev();
    }
    void SeekToFirst() override { at_ = 0; }
    void SeekToLast() override { at_ = entries_.empty() ? 0 : entries_.size() - 1; }

   private:
    static const char* Encode(const Slice& key, std::string* held) {
      rocksdb::PutLengthPrefixedSlice(held, key);
      return held->data();
    }
    size_t First(const Slice& internal_key, const char* memtable_key) const {
      std::string held;
      const char* const key = memtable_key != nullptr ? memtable_key : Encode(internal_key, &held);
      return std::lower_bound(entries_.begin(), entries_.end(), key, Less{&compare_}) - entries_.begin();
    }
    const KeyComparator& compare_;
    const std::vector<const char*> entries_;
    size_t at_;
  };

  // One writer at a time has a lane, from Allocate to Insert.
  static constexpr size_t kLanes = 2;
  struct Lane {
    std::mutex mutex;
    char* segment = nullptr;
    uint32_t length = 0;
  };
  Lane& OwnLane() { return lanes_[std::hash<std::thread::id>()(std::this_thread::get_id()) / 64 % kLanes]; }

  const KeyComparator& compare_;
  const SimpleDurableFactory* const factory_;
  const uint32_t column_family_;
  std::shared_ptr<Segments> segments_;
  uint64_t memtable_ = 0;
  Lane lanes_[kLanes];
  mutable std::mutex mutex_;
  std::vector<char*> claimed_;
  std::set<const char*, Less> index_;
  std::atomic<size_t> bytes_{0};
};

class SimpleDurableFactory : public rocksdb::MemTableRepFactory, public DurableMemTableFactory {
 public:
  SimpleDurableFactory(DurableSettings settings, uint64_t segment_bytes)
      : settings_(std::move(settings)), segment_bytes_(segment_bytes) {}

  using rocksdb::MemTableRepFactory::CreateMemTableRep;
  MemTableRep* CreateMemTableRep(const MemTableRep::KeyComparator& compare, rocksdb::Allocator* allocator,
                                 const rocksdb::SliceTransform* transform, rocksdb::Logger* logger) override {
    return CreateMemTableRep(compare, allocator, transform, logger, 0);
  }
  MemTableRep* CreateMemTableRep(const MemTableRep::KeyComparator& compare, rocksdb::Allocator* allocator,
                                 const rocksdb::SliceTransform* /*transform*/, rocksdb::Logger* /*logger*/,
                                 uint32_t column_family) override {
    return new SimpleDurableRep(compare, allocator, this, column_family);
  }
  const char* Name() const override { return "cairn.SimpleDurable"; }
  bool IsInsertConcurrentlySupported() const override { return true; }

  bool GetDurableSettings(DurableSettings* settings) const override {
    *settings = settings_;
    return true;
  }
  bool HasPool() const override { return segments() != nullptr; }
  bool UsePool(const std::shared_ptr<DurablePool>& pool) override {
    const std::lock_guard<std::mutex> lock(mutex_);
    if (segments_ != nullptr) return segments_->pool() == pool.get();
    segments_ = std::make_shared<Segments>(pool, segment_bytes_);
    return true;
  }
  void LeavePool() override {
    const std::lock_guard<std::mutex> lock(mutex_);
    segments_ = nullptr;
  }
  std::shared_ptr<rocksdb::MemTableRepFactory> InPlainMemory() const override {
    return std::make_shared<rocksdb::SkipListFactory>();
  }
  rocksdb::Status ValidateOptions(const rocksdb::DBOptions& /*db*/,
                                  const rocksdb::ColumnFamilyOptions& /*family*/) const override {
    return segments() != nullptr ? rocksdb::Status::OK()
                                 : rocksdb::Status::InvalidArgument("durable memtables need cairn::Open");
  }
  std::shared_ptr<Segments> segments() const {
    const std::lock_guard<std::mutex> lock(mutex_);
    return segments_;
  }

 private:
  const DurableSettings settings_;
  const uint64_t segment_bytes_;
  mutable std::mutex mutex_;
  std::shared_ptr<Segments> segments_;
};

KeyHandle SimpleDurableRep::Allocate(size_t length, char** buffer) {
  Lane& lane = OwnLane();
  lane.mutex.lock();
  lane.length = static_cast<uint32_t>(length);
  {
    const std::lock_guard<std::mutex> lock(mutex_);
    if (segments_ == nullptr) {
      segments_ = factory_->segments();
      if (segments_ != nullptr) memtable_ = segments_->NextMemtable();
    }
  }
  if (segments_ == nullptr) {
    *buffer = allocator_->Allocate(length);
    return *buffer;
  }
  const uint64_t segment_bytes = segments_->segment_bytes();
  if (lane.segment == nullptr ||
      TailOf(DurablePool::TailWord(lane.segment)->load()) + EntryBytes(length) > segment_bytes) {
    const std::lock_guard<std::mutex> lock(mutex_);
    lane.segment = segments_->Claim(memtable_, column_family_, static_cast<uint32_t>(claimed_.size()));
    claimed_.push_back(lane.segment);
    bytes_.fetch_add(segment_bytes);
  }
  *buffer = lane.segment + TailOf(DurablePool::TailWord(lane.segment)->load()) + kEntryHeaderBytes;
  return *buffer;
}

void SimpleDurableRep::Insert(KeyHandle handle) {
  Lane& lane = OwnLane();
  char* const entry = static_cast<char*>(handle);
  if (lane.segment != nullptr) {
    DurablePool* const pool = segments_->pool();
    pool->FinishEntry(lane.segment, entry, lane.length);
    std::atomic<uint64_t>* const word = DurablePool::TailWord(lane.segment);
    const uint64_t old = word->load(std::memory_order_relaxed);
    word->store(PackTail(EntriesOf(old) + 1, 0, TailOf(old) + EntryBytes(lane.length)), std::memory_order_release);
    pool->PersistTail(lane.segment);
  }
  {
    const std::lock_guard<std::mutex> lock(mutex_);
    index_.insert(entry);
  }
  lane.mutex.unlock();
}

}  // namespace

std::shared_ptr<rocksdb::MemTableRepFactory> NewSimpleDurableFactory(const DurableSettings& settings,
                                                                     uint64_t segment_bytes) {
  return std::make_shared<SimpleDurableFactory>(settings, segment_bytes);
}

}  // namespace test
}  // namespace cairn
