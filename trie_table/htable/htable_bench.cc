// One table of 32 MiB, as HTable and as RocksDB's block-based table in the same order: how full it is, what stays in
// memory, what a lookup reads, and how long lookups, scans and building take. And the balancing of LSM-trie's HTable,
// simulated on the same items: page reads per lookup against what it keeps in memory.
//
//   htable_bench [AVERAGE_ITEM_BYTES ...]

#include <algorithm>
#include <chrono>
#include <cinttypes>
#include <cstdio>
#include <cstdlib>
#include <filesystem>
#include <memory>
#include <random>
#include <string>
#include <vector>

#include "cairn/htable.h"
#include "file/random_access_file_reader.h"
#include "rocksdb/cache.h"
#include "rocksdb/options.h"
#include "rocksdb/perf_context.h"
#include "rocksdb/perf_level.h"
#include "rocksdb/port/table_reader.h"
#include "rocksdb/sst_file_writer.h"
#include "table/get_context.h"
#include "table/hash_order/hash_order.h"
#include "table/table_builder.h"
#include "table/table_reader.h"
#include "trie_table/htable/htable_format.h"
#include "trie_table/htable/htable_reader.h"

namespace cairn {
namespace {

constexpr uint64_t kTableBytes = 32 << 20;
constexpr size_t kPage = 4096;
constexpr int kRounds = 5;

struct Item {
  uint64_t hash;
  std::string key;
  std::string value;
  size_t bytes() const { return key.size() + value.size(); }
};

double Now() { return std::chrono::duration<double>(std::chrono::steady_clock::now().time_since_epoch()).count(); }

double Median(std::vector<double> values) {
  std::sort(values.begin(), values.end());
  return values[values.size() / 2];
}

// Keys of 16 bytes; sizes of items uniform over 1 to twice the average, the key included where it fits.
std::vector<Item> MakeItems(size_t average) {
  std::mt19937_64 random(average);
  const KeyHash hash;
  std::vector<Item> items;
  for (uint64_t bytes = 0; bytes < kTableBytes;) {
    const uint64_t number = random();
    Item item;
    item.key.assign(reinterpret_cast<const char*>(&number), sizeof(number));
    item.key += item.key;
    const size_t size = 1 + random() % (2 * average);
    item.value.assign(size > 16 ? size - 16 : 0, 'v');
    item.hash = hash(item.key);
    bytes += item.bytes();
    items.push_back(std::move(item));
  }
  std::sort(items.begin(), items.end(), [](const Item& a, const Item& b) { return a.hash < b.hash; });
  return items;
}

// The paper's: items at home by their hash, the most overfull page gives to the least full one what lies above its
// mark.
void SimulateMigration(const std::vector<Item>& items) {
  uint64_t bytes = 0;
  for (const Item& item : items) bytes += item.bytes();
  const size_t pages = static_cast<size_t>(static_cast<double>(bytes) / (0.95 * kPage));
  struct Page {
    std::vector<size_t> items;
    uint64_t load = 0;
  };
  std::vector<Page> table(pages);
  std::vector<size_t> reads(items.size(), 1);
  for (size_t i = 0; i < items.size(); ++i) {
    const size_t home = static_cast<size_t>((static_cast<unsigned __int128>(items[i].hash) * pages) >> 64);
    table[home].items.push_back(i);
    table[home].load += items[i].bytes();
  }
  const auto rank = [&](size_t item, size_t page) {
    const uint32_t infix = static_cast<uint32_t>(items[item].hash * 0x9e3779b97f4a7c15u >> 32);
    const unsigned turn = page % 31 + 1;
    return infix << turn | infix >> (32 - turn);
  };
  std::vector<size_t> order(pages);
  for (size_t i = 0; i < pages; ++i) order[i] = i;
  const auto by_load = [&](size_t a, size_t b) { return table[a].load > table[b].load; };
  std::sort(order.begin(), order.end(), by_load);
  size_t sources = 0, homeless = 0;
  std::vector<std::pair<uint64_t, std::vector<size_t>>> moved;  // by load of the source
  while (order.size() > 1) {
    const size_t source = order.front();
    const size_t target = order.back();
    if (table[source].load <= kPage) break;
    if (table[target].load >= kPage) break;
    Page& from = table[source];
    const uint64_t load = from.load;
    std::sort(from.items.begin(), from.items.end(),
              [&](size_t a, size_t b) { return rank(a, source) < rank(b, source); });
    std::vector<size_t> gone;
    while (from.load > kPage) {
      const size_t item = from.items.back();
      from.items.pop_back();
      from.load -= items[item].bytes();
      table[target].items.push_back(item);
      table[target].load += items[item].bytes();
      gone.push_back(item);
    }
    ++sources;
    moved.emplace_back(load, std::move(gone));
    order.erase(order.begin());
    order.pop_back();
    order.insert(std::lower_bound(order.begin(), order.end(), target, by_load), target);
  }
  for (size_t page : order) homeless += table[page].load > kPage;
  printf("  migration, simulated at 95 %% fill: %zu of %zu pages give; pages that stay overfull: %zu\n", sources, pages,
         homeless);
  std::stable_sort(moved.begin(), moved.end(), [](const auto& a, const auto& b) { return a.first > b.first; });
  for (const double share : {0.0, 0.1, 0.2, 0.5, 1.0}) {
    const size_t cached = std::min(moved.size(), static_cast<size_t>(share * static_cast<double>(pages)));
    uint64_t extra = 0;
    for (size_t i = cached; i < moved.size(); ++i) extra += moved[i].second.size();
    printf("    metadata of %3.0f %% of the pages in memory, %6zu bytes: %.4f page reads per lookup\n", 100 * share,
           cached * 8, 1 + static_cast<double>(extra) / static_cast<double>(items.size()));
  }
}

class Bench {
 public:
  Bench(const std::string& folder, std::shared_ptr<rocksdb::TableFactory> factory) : path_(folder + "/bench.sst") {
    options_.comparator = HashOrderComparator(HashKind::kXxh3, 0);
    options_.compression = rocksdb::kNoCompression;
    options_.table_factory = std::move(factory);
  }

  void Build(const std::vector<Item>& items) {
    std::vector<double> seconds;
    for (int round = 0; round < kRounds; ++round) {
      rocksdb::SstFileWriter writer(rocksdb::EnvOptions(), options_);
      const double start = Now();
      Check(writer.Open(path_));
      for (const Item& item : items) Check(writer.Put(item.key, item.value));
      Check(writer.Finish());
      seconds.push_back(Now() - start);
    }
    printf("    build            %8.1f MB/s\n", 1e-6 * static_cast<double>(kTableBytes) / Median(seconds));
  }

  void Open() {
    ioptions_ = std::make_unique<rocksdb::ImmutableOptions>(options_);
    moptions_ = std::make_unique<rocksdb::MutableCFOptions>(options_);
    comparator_ = std::make_unique<rocksdb::InternalKeyComparator>(options_.comparator);
    std::unique_ptr<rocksdb::RandomAccessFileReader> file;
    Check(rocksdb::RandomAccessFileReader::Create(options_.env->GetFileSystem(), path_, rocksdb::FileOptions(), &file,
                                                  nullptr));
    uint64_t size = 0;
    Check(options_.env->GetFileSize(path_, &size));
    Check(options_.table_factory->NewTableReader(
        rocksdb::ReadOptions(), port::OfFileAlone(*ioptions_, moptions_->prefix_extractor, env_options_, *comparator_),
        std::move(file), size, &table_, true));
    file_size_ = size;
  }

  void Describe(const std::vector<Item>& items) const {
    uint64_t bytes = 0;
    for (const Item& item : items) bytes += item.bytes();
    const auto* htable = dynamic_cast<const HTableReader*>(table_.get());
    printf("    file             %8.2f MiB for %.2f MiB of keys and values\n",
           static_cast<double>(file_size_) / (1 << 20), static_cast<double>(bytes) / (1 << 20));
    if (htable == nullptr) {
      printf("    index            %8" PRIu64 " bytes\n", table_->GetTableProperties()->index_size);
      return;
    }
    const HTableHeader& header = htable->file().header();
    const double data = static_cast<double>(header.homes + header.spill_buckets) * header.bucket_size;
    printf("    fill             %8.2f %%, %.2f %% of the items spilled\n",
           100 * static_cast<double>(header.used_bytes) / data,
           100 * static_cast<double>(header.spills) / static_cast<double>(items.size()));
    const size_t memory = htable->file().index().bytes();
    printf("    index            %8zu bytes in memory, %.3f bits per key\n", memory,
           8.0 * static_cast<double>(memory) / static_cast<double>(items.size()));
  }

  void Get(const std::vector<Item>& items) {
    std::mt19937_64 random(1);
    std::vector<double> seconds;
    uint64_t reads = 0;
    const size_t lookups = 200000;
    for (int round = 0; round <= kRounds; ++round) {
      rocksdb::SetPerfLevel(round == 0 ? rocksdb::PerfLevel::kEnableCount : rocksdb::PerfLevel::kDisable);
      rocksdb::get_perf_context()->Reset();
      const double start = Now();
      for (size_t i = 0; i < lookups; ++i) {
        const Item& item = items[random() % items.size()];
        rocksdb::PinnableSlice value;
        rocksdb::GetContext context(options_.comparator, nullptr, nullptr, nullptr, rocksdb::GetContext::kNotFound,
                                    item.key, &value, nullptr, nullptr, nullptr, true, nullptr, nullptr);
        const rocksdb::LookupKey lookup(item.key, rocksdb::kMaxSequenceNumber);
        Check(table_->Get(rocksdb::ReadOptions(), lookup.internal_key(), &context, nullptr, false));
        if (context.State() != rocksdb::GetContext::kFound || value.size() != item.value.size()) exit(1);
      }
      if (round == 0) {
        reads = rocksdb::get_perf_context()->block_read_count + rocksdb::get_perf_context()->block_cache_hit_count;
      } else {
        seconds.push_back(Now() - start);
      }
    }
    printf("    Get              %8.0f ns, %.4f pages per lookup\n", 1e9 * Median(seconds) / lookups,
           static_cast<double>(reads) / lookups);
  }

  void Scan(const std::vector<Item>& items, rocksdb::TableReaderCaller caller, const char* name) {
    std::vector<double> seconds;
    const rocksdb::ReadOptions read_options;
    for (int round = 0; round < kRounds; ++round) {
      const double start = Now();
      std::unique_ptr<rocksdb::InternalIterator> it(
          table_->NewIterator(read_options, nullptr, nullptr, false, caller, 2 << 20, false));
      size_t n = 0;
      rocksdb::IterateResult result;
      it->SeekToFirst();
      for (bool valid = it->Valid(); valid; valid = it->NextAndGetResult(&result)) {
        n += it->PrepareValue() && it->value().size() < kTableBytes;
      }
      if (n != items.size()) exit(1);
      seconds.push_back(Now() - start);
    }
    printf("    %-16s %8.1f MB/s, %.0f ns an item\n", name, 1e-6 * static_cast<double>(kTableBytes) / Median(seconds),
           1e9 * Median(seconds) / static_cast<double>(items.size()));
  }

 private:
  static void Check(const rocksdb::Status& s) {
    if (s.ok()) return;
    fprintf(stderr, "htable_bench: %s\n", s.ToString().c_str());
    exit(1);
  }

  const std::string path_;
  rocksdb::Options options_;
  const rocksdb::EnvOptions env_options_;
  std::unique_ptr<rocksdb::ImmutableOptions> ioptions_;
  std::unique_ptr<rocksdb::MutableCFOptions> moptions_;
  std::unique_ptr<rocksdb::InternalKeyComparator> comparator_;
  std::unique_ptr<rocksdb::TableReader> table_;
  uint64_t file_size_ = 0;
};

void Run(const std::string& folder, size_t average) {
  const std::vector<Item> items = MakeItems(average);
  printf("%zu items of 1 to %zu bytes\n", items.size(), 2 * average);
  for (const bool htable : {false, true}) {
    rocksdb::BlockBasedTableOptions block_options;
    block_options.block_cache = rocksdb::NewLRUCache(256 << 20);
    HTableOptions table_options;
    table_options.table.reset(rocksdb::NewBlockBasedTableFactory(block_options));
    Bench bench(folder,
                htable ? std::shared_ptr<rocksdb::TableFactory>(NewHTableFactory(table_options)) : table_options.table);
    printf("  %s\n", htable ? "HTable" : "block-based, without a filter");
    bench.Build(items);
    bench.Open();
    bench.Describe(items);
    bench.Get(items);
    bench.Scan(items, rocksdb::TableReaderCaller::kUserIterator, "scan, cached");
    // A compaction does not find its inputs in the block cache.
    block_options.block_cache = nullptr;
    block_options.no_block_cache = true;
    table_options.table.reset(rocksdb::NewBlockBasedTableFactory(block_options));
    Bench uncached(
        folder, htable ? std::shared_ptr<rocksdb::TableFactory>(NewHTableFactory(table_options)) : table_options.table);
    uncached.Open();
    uncached.Scan(items, rocksdb::TableReaderCaller::kCompaction, "compaction scan");
  }
  SimulateMigration(items);
}

}  // namespace
}  // namespace cairn

int main(int argc, char** argv) {
  std::vector<size_t> averages;
  for (int i = 1; i < argc; ++i) averages.push_back(std::strtoull(argv[i], nullptr, 10));
  if (averages.empty()) averages = {100, 200, 300, 400};
  std::string folder = (std::filesystem::temp_directory_path() / "htable_bench.XXXXXX").string();
  if (mkdtemp(folder.data()) == nullptr) return 1;
  for (size_t average : averages) cairn::Run(folder, std::max<size_t>(average, 1));
  std::filesystem::remove_all(folder);
  return 0;
}
