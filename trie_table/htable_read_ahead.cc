#include "trie_table/htable_read_ahead.h"

#include <algorithm>
#include <array>
#include <cstring>
#include <utility>
#include <vector>

#include "file/file_util.h"
#include "monitoring/perf_context_imp.h"
#include "monitoring/statistics_impl.h"

namespace cairn {

// What RocksDB's macros for its counters refer to.
using rocksdb::perf_context;
using rocksdb::PerfStepTimer;

using rocksdb::FSReadRequest;
using rocksdb::IOStatus;
using rocksdb::MultiGetContext;

namespace {

// Larger units (extents of large values) are left to the lookup: there is little to gain from overlapping them.
constexpr size_t kLargestUnit = 128 << 10;

struct Page {
  std::shared_ptr<const HTableFile> file;
  UnitPlace place;
};

// Which keys of the current batch have been looked at. Batches have no number, so a batch is told from the one before
// by its address and the hashes of its keys; the same keys once more in the same places are taken for the same batch,
// and their pages have just been read.
struct RecentBatch {
  const MultiGetContext* context = nullptr;
  std::array<uint64_t, MultiGetContext::MAX_BATCH_SIZE> hashes{};
};

// True once for each key of a batch.
bool IsNew(const MultiGetContext* context, size_t index, uint64_t hash) {
  thread_local RecentBatch recent;
  if (recent.context != context) {
    recent = RecentBatch();
    recent.context = context;
  }
  if (recent.hashes[index] == hash) return false;
  recent.hashes[index] = hash;
  return true;
}

// The pages that lookups of the batch's remaining keys will read first, without those in the block cache.
// *is_new: no table has looked at the batch before.
std::vector<Page> PagesOf(const BatchOfTable& batch, bool* is_new) {
  std::vector<Page> pages;
  *is_new = true;
  MultiGetContext* const context = batch.range->context();
  const MultiGetContext::Range whole = context->GetMultiGetRange();
  for (auto key = whole.begin(); key != whole.end(); ++key) {
    const uint64_t hash = (*batch.hash)(rocksdb::ExtractUserKey(key->ikey));
    if (!IsNew(context, key.index(), hash)) {
      *is_new = false;
      continue;
    }
    Page page;
    page.file = batch.filter->FindNewest(hash);
    if (page.file == nullptr || page.file->index().empty()) continue;
    page.place = page.file->FirstUnitOf(hash);
    if (page.place.size <= kLargestUnit && !page.file->IsCached(page.place)) pages.push_back(std::move(page));
  }
  const auto key_of = [](const Page& page) { return std::make_pair(page.file.get(), page.place.offset); };
  std::sort(pages.begin(), pages.end(), [&](const Page& a, const Page& b) { return key_of(a) < key_of(b); });
  const auto same = [&](const Page& a, const Page& b) { return key_of(a) == key_of(b); };
  pages.erase(std::unique(pages.begin(), pages.end(), same), pages.end());
  return pages;
}

// What ReadBatch leaves to the thread's next lookups.
struct ReadPage {
  uint64_t file;
  uint64_t offset;
  std::unique_ptr<HTableUnit> unit;
};

std::vector<ReadPage>& ReadPagesOfThread() {
  thread_local std::vector<ReadPage> pages;
  return pages;
}

// A read under way.
class Read {
 public:
  explicit Read(Page page) : page_(std::move(page)), unit_(HTableUnit::New(page_.place.size)) {}
  ~Read() {
    if (handle_ != nullptr && delete_handle_ != nullptr) delete_handle_(handle_);
  }
  Read(const Read&) = delete;
  Read& operator=(const Read&) = delete;

  // The handle to wait for; null if there is nothing to wait for.
  void* handle() const { return handle_; }

  // False: the file system cannot say whether the read goes on.
  bool Start(const rocksdb::ReadOptions& read_options) {
    rocksdb::IOOptions io_options;
    IOStatus s = page_.file->file()->PrepareIOOptions(read_options, io_options);
    if (!s.ok()) return true;
    FSReadRequest request;
    request.offset = page_.place.offset;
    request.len = page_.place.size;
    request.scratch = unit_->bytes();
    s = page_.file->file()->ReadAsync(request, io_options, &Read::Done, this, &handle_, &delete_handle_, nullptr);
    request.status.PermitUncheckedError();
    return s.ok() || handle_ == nullptr;
  }

  // REQUIRES: the read is over.
  void Finish(std::vector<ReadPage>* pages) {
    if (complete_) pages->push_back({page_.file->id(), page_.place.offset, std::move(unit_)});
  }

 private:
  static void Done(FSReadRequest& request, void* arg) {
    Read* const read = static_cast<Read*>(arg);
    read->complete_ = request.status.ok() && request.result.size() == read->page_.place.size;
    if (read->complete_ && request.result.data() != read->unit_->bytes()) {
      memcpy(read->unit_->bytes(), request.result.data(), request.result.size());
    }
  }

  const Page page_;
  std::unique_ptr<HTableUnit> unit_;
  void* handle_ = nullptr;
  rocksdb::IOHandleDeleter delete_handle_;
  bool complete_ = false;
};

}  // namespace

bool CanReadBatch(const HTableFile& file, const rocksdb::ReadOptions& read_options) {
  return file.file()->use_direct_io() && read_options.rate_limiter_priority == rocksdb::Env::IO_TOTAL &&
         rocksdb::CheckFSFeatureSupport(file.fs().get(), rocksdb::FSSupportedOps::kAsyncIO);
}

void ReadBatch(const BatchOfTable& batch) {
  bool is_new = false;
  std::vector<Page> pages = PagesOf(batch, &is_new);
  if (is_new) ReadPagesOfThread().clear();
  // One page alone is the lookup's own.
  if (pages.size() < 2) return;
  PERF_TIMER_GUARD(block_read_time);
  std::vector<std::unique_ptr<Read>> reads;
  std::vector<void*> handles;
  bool certain = true;
  for (Page& page : pages) {
    reads.push_back(std::make_unique<Read>(std::move(page)));
    certain = reads.back()->Start(*batch.read_options);
    if (!certain) break;
    if (reads.back()->handle() != nullptr) handles.push_back(reads.back()->handle());
  }
  rocksdb::FileSystem* const fs = batch.file->fs().get();
  bool over = fs->Poll(handles, handles.size()).ok();
  if (!over) over = fs->AbortIO(handles).ok();
  if (!over || !certain) {
    // Somebody may still write there: better to lose the memory.
    for (auto& read : reads) static_cast<void>(read.release());
    return;
  }
  for (const auto& read : reads) read->Finish(&ReadPagesOfThread());
}

std::unique_ptr<HTableUnit> CopyReadAhead(const HTableFile& file, const UnitPlace& place) {
  for (const ReadPage& page : ReadPagesOfThread()) {
    if (page.file != file.id() || page.offset != place.offset) continue;
    std::unique_ptr<HTableUnit> copy = HTableUnit::New(place.size);
    memcpy(copy->bytes(), page.unit->bytes(), place.size);
    return copy;
  }
  return nullptr;
}

void HintBatch(const BatchOfTable& batch) {
  bool is_new = false;
  for (const Page& page : PagesOf(batch, &is_new)) {
    rocksdb::IOOptions io_options;
    IOStatus s = page.file->file()->PrepareIOOptions(*batch.read_options, io_options);
    if (s.ok()) s = page.file->file()->Prefetch(io_options, page.place.offset, page.place.size);
    if (!s.ok()) return;
  }
}

}  // namespace cairn
