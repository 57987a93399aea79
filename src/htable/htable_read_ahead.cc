#include "src/htable/htable_read_ahead.h"

#include <algorithm>
#include <array>
#include <cstring>
#include <utility>
#include <vector>

#include "src/util/async_read.h"

namespace cairn {

using rocksdb::IOStatus;
using rocksdb::MultiGetContext;

namespace {

// Larger units (extents of large values) are left to the lookup: there is little to gain from overlapping them.
constexpr size_t kLargestUnit = 128 << 10;

struct Page {
  std::shared_ptr<const HTableFile> file;
  UnitPlace place;
};

// Whose pages of the current batch have been found. Batches have no number, so a batch is told from the one before
// by its address and the hashes of its keys; the same keys once more in the same places are taken for the same batch,
// and their pages have just been read.
struct RecentBatch {
  const MultiGetContext* context = nullptr;
  std::array<uint64_t, MultiGetContext::MAX_BATCH_SIZE> hashes{};
};

RecentBatch* RecentBatchOf(const MultiGetContext* context) {
  thread_local RecentBatch recent;
  if (recent.context != context) {
    recent = RecentBatch();
    recent.context = context;
  }
  return &recent;
}

// The pages that lookups of the batch's remaining keys will read first, without those in the block cache.
// *is_new: no table has looked at the batch before.
std::vector<Page> PagesOf(const BatchOfTable& batch, bool* is_new) {
  std::vector<Page> pages;
  *is_new = true;
  MultiGetContext* const context = batch.range->context();
  RecentBatch* const recent = RecentBatchOf(context);
  const MultiGetContext::Range whole = context->GetMultiGetRange();
  for (auto key = whole.begin(); key != whole.end(); ++key) {
    const uint64_t hash = (*batch.hash)(rocksdb::ExtractUserKey(key->ikey));
    if (recent->hashes[key.index()] == hash) {
      *is_new = false;
      continue;
    }
    Page page;
    // A filter that is not in memory may be when the batch has come to it.
    if (!batch.filter->FindNewest(key.index(), hash, &page.file)) continue;
    recent->hashes[key.index()] = hash;
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
  std::unique_ptr<AsyncRead> read;
};

std::vector<ReadPage>& ReadPagesOfThread() {
  thread_local std::vector<ReadPage> pages;
  return pages;
}

}  // namespace

bool CanReadBatch(const HTableFile& file, const rocksdb::ReadOptions& read_options) {
  return CanReadTogether(file.fs().get(), *file.file(), read_options);
}

void ReadBatch(const BatchOfTable& batch) {
  bool is_new = false;
  std::vector<Page> pages = PagesOf(batch, &is_new);
  if (is_new) ReadPagesOfThread().clear();
  // One page alone is the lookup's own.
  if (pages.size() < 2) return;
  std::vector<std::unique_ptr<AsyncRead>> reads;
  for (const Page& page : pages) {
    reads.push_back(std::make_unique<AsyncRead>(page.file->file(), page.place.offset, page.place.size));
  }
  if (!ReadTogether(batch.file->fs().get(), *batch.read_options, &reads)) return;
  for (size_t i = 0; i < reads.size(); ++i) {
    if (!reads[i]->complete()) continue;
    ReadPagesOfThread().push_back({pages[i].file->id(), pages[i].place.offset, std::move(reads[i])});
  }
}

std::unique_ptr<HTableUnit> CopyReadAhead(const HTableFile& file, const UnitPlace& place) {
  for (const ReadPage& page : ReadPagesOfThread()) {
    if (page.file != file.id() || page.offset != place.offset) continue;
    std::unique_ptr<HTableUnit> copy = HTableUnit::New(place.size);
    memcpy(copy->bytes(), page.read->bytes(), place.size);
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
