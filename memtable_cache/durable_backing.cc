#include "memtable_cache/durable_backing.h"

#include <sys/mman.h>

#include <cerrno>
#include <cstring>
#include <utility>

namespace cairn {

using rocksdb::Status;

namespace {

class DurableBacking : public Backing {
 public:
  DurableBacking(std::shared_ptr<DurablePool> pool, uint64_t limit) : pool_(std::move(pool)), user_(pool_->NextUser()) {
    pool_->LimitTo(limit);
    layout_.header_bytes = kSegmentHeaderBytes;
    layout_.word_offset = kTailWordOffset;
    layout_.entry_header_bytes = kEntryHeaderBytes;
    layout_.entry_alignment = 8;
  }

  ~DurableBacking() override { ReportFree(0, false); }

  Status Map(size_t bytes, char** region) override {
    char* const at = ReserveAligned(bytes);
    if (at == nullptr) return Status::MemoryLimit("address space for a pool file", strerror(errno));
    const Status s = pool_->Take(bytes, at);
    if (s.ok()) {
      *region = at;
    } else {
      munmap(at, bytes);
    }
    return s;
  }

  void Unmap(char* region, size_t bytes) override {
    pool_->GiveBack(region, bytes);
    munmap(region, bytes);
  }
  bool takes_back() const override { return pool_->CanGiveBack(); }

  // With eADR nothing has been flushed: left to the cache, a sealed segment would reach the medium in scattered lines,
  // each of which costs a block. It is written back where it is, in order, and not copied.
  bool copies_out() const override { return pool_->file()->on_persistent_memory() && !pool_->file()->needs_flush(); }
  Status CopyOut(char* segment, size_t used, size_t bytes, char** fresh) override {
    pool_->file()->WriteBack(segment, used);
    return Backing::CopyOut(segment, used, bytes, fresh);
  }

  bool durable() const override { return true; }
  void Split(char* segment, size_t bytes) override { pool_->Split(segment, bytes); }
  void Join(char* segment) override { pool_->Join(segment); }
  void Claim(char* segment, const SegmentOwner& owner) override {
    pool_->Claim(segment, user_ << 48 | owner.memtable, owner.column_family, 0);
  }
  void Free(char* segment) override { pool_->Free(segment); }
  void FinishEntry(char* segment, char* entry, uint32_t length) override { pool_->FinishEntry(segment, entry, length); }
  void Publish(char* segment) override { pool_->PersistTail(segment); }
  void Spilled(const Status& why) override { pool_->Fail(why); }
  void SpillEnded() override { pool_->FailureEnded(); }
  void ReportFree(size_t bytes, bool full) override {
    pool_->CountFree(static_cast<int64_t>(bytes) - static_cast<int64_t>(free_), static_cast<int>(full) - full_);
    free_ = bytes;
    full_ = static_cast<int>(full);
  }
  void MemTableSealed(const SegmentOwner& /*owner*/) override { pool_->AcknowledgeAll(); }
  void MemTableFlushed(const SegmentOwner& /*owner*/, const std::vector<char*>& segments) override {
    pool_->MarkFlushed(segments);
  }

  Status BeforeFlush() override { return pool_->SyncForFlush(); }
  Status BeforeFree(const std::vector<char*>& segments) override { return pool_->BeforeFree(segments); }

  std::string Report() const override {
    const uint64_t returned = pool_->returned_bytes();
    return pool_->file()->Report() +
           (returned == 0 ? "" : "; " + std::to_string(returned) + " bytes of it given back to the file system");
  }

 private:
  const std::shared_ptr<DurablePool> pool_;
  size_t free_ = 0;  // as reported last
  int full_ = 0;
  const uint64_t user_;  // cutters of the pool, one after the other, each count memtables on their own
};

}  // namespace

std::unique_ptr<Backing> NewDurableBacking(std::shared_ptr<DurablePool> pool, uint64_t limit) {
  return std::make_unique<DurableBacking>(std::move(pool), limit);
}

}  // namespace cairn
