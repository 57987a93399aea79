#include "trie_table/bloom_cluster/bloom_batch.h"

#include <algorithm>
#include <memory>
#include <tuple>
#include <utility>

#include "rocksdb/port/file_read.h"
#include "table/perf_counts.h"
#include "util/async_read.h"

namespace cairn {

// What RocksDB's macros for its counters refer to.

namespace {

// A page to be read, and the questions that it answers.
struct WantedPage {
  FilterQuestion* questions = nullptr;
  size_t count = 0;

  const FilterBlock& block() const { return *questions->block; }
  size_t page() const { return questions->page; }
  uint64_t offset() const { return block().PageOffset(page()); }
};

using WantedPages = std::vector<WantedPage>;

class PageReader {
 public:
  PageReader(const rocksdb::ReadOptions& read_options, FilterResidency residency, rocksdb::FileSystem* async_reads)
      : read_options_(read_options), residency_(residency), async_reads_(async_reads) {}

  // REQUIRES: sorted by block and page.
  void Read(WantedPages pages) const {
    for (const WantedPage& page : pages) page.block().CountRead();
    const bool one_file = &pages.front().block() == &pages.back().block();
    if (!one_file && async_reads_ != nullptr) ReadFilesTogether(&pages);
    for (auto begin = pages.begin(); begin != pages.end();) {
      const auto end =
          std::find_if(begin, pages.end(), [&](const WantedPage& page) { return &page.block() != &begin->block(); });
      ReadFile(WantedPages(begin, end));
      begin = end;
    }
  }

 private:
  void Admit(const WantedPage& page, const char* bytes) const {
    // Damage is counted there.
    page.block()
        .Admit(read_options_, residency_, page.page(), reinterpret_cast<const uint8_t*>(bytes), nullptr, page.questions,
               page.count)
        .PermitUncheckedError();
  }

  // Takes what it has read out of *pages.
  void ReadFilesTogether(WantedPages* pages) const {
    std::vector<std::unique_ptr<AsyncRead>> reads;
    for (const WantedPage& page : *pages) {
      reads.push_back(std::make_unique<AsyncRead>(page.block().file(), page.offset(), kFilterPageBytes));
    }
    if (!ReadTogether(async_reads_, read_options_, &reads)) return;
    WantedPages left;
    for (size_t i = 0; i < reads.size(); ++i) {
      if (reads[i]->complete()) {
        Admit((*pages)[i], reads[i]->bytes());
      } else {
        left.push_back((*pages)[i]);
      }
    }
    *pages = std::move(left);
  }

  void ReadFile(const WantedPages& pages) const {
    rocksdb::RandomAccessFileReader* const file = pages.front().block().file().get();
    const bool direct = file->use_direct_io();
    std::unique_ptr<char[]> scratch(direct ? nullptr : new char[pages.size() * kFilterPageBytes]);
    std::vector<rocksdb::FSReadRequest> requests(pages.size());
    for (size_t i = 0; i < pages.size(); ++i) {
      requests[i].offset = pages[i].offset();
      requests[i].len = kFilterPageBytes;
      requests[i].scratch = direct ? nullptr : scratch.get() + i * kFilterPageBytes;
    }
    rocksdb::IOOptions io_options;
    rocksdb::IOStatus s = file->PrepareIOOptions(read_options_, io_options);
    port::DirectReadBuffer aligned;
    if (s.ok()) {
      PERF_TIMER_GUARD(block_read_time);
      s = file->MultiRead(io_options, requests.data(), requests.size(), direct ? aligned.get() : nullptr);
    }
    for (size_t i = 0; i < pages.size(); ++i) {
      if (s.ok() && requests[i].status.ok() && requests[i].result.size() == kFilterPageBytes) {
        Admit(pages[i], requests[i].result.data());
      } else {
        pages[i].block().CountBad();
      }
    }
  }

  const rocksdb::ReadOptions& read_options_;
  const FilterResidency residency_;
  rocksdb::FileSystem* const async_reads_;
};

}  // namespace

void AskTogether(const rocksdb::ReadOptions& read_options, FilterResidency residency, rocksdb::FileSystem* async_reads,
                 std::vector<FilterQuestion>* questions) {
  for (FilterQuestion& question : *questions) {
    question.page = question.block->PageOf(question.hash);
    question.answered = question.page == FilterBlock::kNoPage;
  }
  const auto place_of = [](const FilterQuestion& question) {
    return std::make_tuple(question.block.get(), question.page);
  };
  std::sort(questions->begin(), questions->end(),
            [&](const FilterQuestion& a, const FilterQuestion& b) { return place_of(a) < place_of(b); });
  WantedPages wanted;
  for (size_t i = 0; i < questions->size();) {
    FilterQuestion* const first = &(*questions)[i];
    size_t count = 1;
    while (i + count < questions->size() && place_of(first[count]) == place_of(*first)) ++count;
    i += count;
    if (first->answered || first->block->AskCache(residency, first->page, first, count)) continue;
    wanted.push_back({first, count});
  }
  if (wanted.empty() || read_options.read_tier == rocksdb::kBlockCacheTier) return;
  PageReader(read_options, residency, async_reads).Read(std::move(wanted));
}

}  // namespace cairn
