// What the shape of a store costs and saves: bytes written per byte against the data blocks that a seek and a short
// scan touch, over many moments of a fill, since a store's sorted runs grow and vanish. Counts alone: each moment is
// reached by flushes of one write buffer each, and after each flush compaction comes to rest, so a busy machine gives
// the same figures.
//
//   store_shape_bench --path=DIR 'NAME|ordered|compaction_style=kCompactionStyleUniversal;...' ...
//   store_shape_bench --path=DIR 'NAME|engine|ordered_trie;root_trigger=16' ...
//
// A setting is a name, ordered or stock (the table), and options of a column family; or an engine, as in
// cairn::UseEngineFromString. Prints a line of JSON for each: at each moment, `tables` that lie over a key, `blocks` that a
// Seek, a Seek and 10 or 50 steps, and a Get of a present and of an absent key touch, those of them that were `missed` in
// the block cache, and `micros` of processor time.

#include <gflags/gflags.h>

#include <algorithm>
#include <cstdio>
#include <ctime>
#include <map>
#include <memory>
#include <random>
#include <set>
#include <string>
#include <vector>

#include "cairn/db.h"
#include "cairn/engines.h"
#include "cairn/ordered.h"
#include "rocksdb/cache.h"
#include "rocksdb/convenience.h"
#include "rocksdb/db.h"
#include "rocksdb/filter_policy.h"
#include "rocksdb/perf_context.h"
#include "rocksdb/statistics.h"
#include "rocksdb/table.h"
#include "rocksdb/utilities/debug.h"

DEFINE_string(path, "", "Folder for the databases, which are made anew and removed");
DEFINE_uint64(items, 1000000, "Keys to choose from, and puts of the fill");
DEFINE_double(updates, 2, "Puts behind the fill, as a multiple of the items");
DEFINE_uint64(moments, 40, "Moments at which seeks are measured, spread over the puts behind the fill");
DEFINE_uint64(seeks, 500, "Seeks at each moment, of each kind");
DEFINE_uint64(write_buffer_size, 671089, "Bytes of keys and values in a flush");
DEFINE_uint64(target_file_size, 671089, "Bytes");
DEFINE_uint64(level_base, 4 * 671089, "max_bytes_for_level_base");
DEFINE_double(cache_mb, 8192, "Block cache");
DEFINE_bool(warm, false, "Everything is in the block cache before seeks are measured");
DEFINE_bool(shapes, false, "Print the entries of each run at each moment, too");

namespace {

using rocksdb::DB;
using rocksdb::Status;
using Random = std::mt19937_64;

std::string Key(uint64_t n) {
  std::string key;
  for (int shift = 56; shift >= 0; shift -= 8) key.push_back(static_cast<char>(n >> shift));
  return key + "00000000";
}

struct Setting {
  std::string name, kind, options;
};

bool ParseSetting(const std::string& text, Setting* setting) {
  const size_t first = text.find('|'), second = text.find('|', first + 1);
  if (first == std::string::npos || second == std::string::npos) return false;
  setting->name = text.substr(0, first);
  setting->kind = text.substr(first + 1, second - first - 1);
  setting->options = text.substr(second + 1);
  return text.find_first_of("\"\\") == std::string::npos;  // printed as they are
}

Status MakeOptions(const Setting& setting, rocksdb::Options* options) {
  options->create_if_missing = true;
  options->write_buffer_size = 8 * FLAGS_write_buffer_size;  // flushes are asked for
  options->target_file_size_base = FLAGS_target_file_size;
  options->max_bytes_for_level_base = FLAGS_level_base;
  options->compression = rocksdb::kNoCompression;
  options->max_background_jobs = 2;
  options->statistics = rocksdb::CreateDBStatistics();
  rocksdb::BlockBasedTableOptions table;
  table.block_cache = rocksdb::NewLRUCache(static_cast<size_t>(FLAGS_cache_mb * 1e6));
  table.filter_policy.reset(rocksdb::NewBloomFilterPolicy(10));
  options->table_factory.reset(rocksdb::NewBlockBasedTableFactory(table));
  if (setting.kind == "engine") return cairn::UseEngineFromString("engine=" + setting.options, options, options);
  if (setting.kind == "ordered") {
    const Status s = cairn::UseOrderedTable(options);
    if (!s.ok()) return s;
  }
  const rocksdb::ColumnFamilyOptions base(*options);
  rocksdb::ColumnFamilyOptions changed;
  const Status s = GetColumnFamilyOptionsFromString({}, base, setting.options, &changed);
  if (s.ok()) *options = rocksdb::Options(rocksdb::DBOptions(*options), changed);
  return s;
}

// A sorted run, newest first.
struct Run {
  uint64_t entries = 0, bytes = 0;
  rocksdb::SequenceNumber smallest = UINT64_MAX, largest = 0;
};

std::vector<Run> Runs(DB* db) {
  rocksdb::ColumnFamilyMetaData meta;
  db->GetColumnFamilyMetaData(&meta);
  std::vector<Run> runs;
  for (const rocksdb::LevelMetaData& level : meta.levels) {
    if (level.level > 0 && !level.files.empty()) runs.emplace_back();
    for (const rocksdb::SstFileMetaData& file : level.files) {
      if (level.level == 0) runs.emplace_back();
      Run& run = runs.back();
      run.entries += file.num_entries;
      run.bytes += file.size;
      run.smallest = std::min(run.smallest, file.smallest_seqno);
      run.largest = std::max(run.largest, file.largest_seqno);
    }
  }
  return runs;
}

// The run that an entry lies in; those of the last one may have lost their sequence numbers.
size_t RunOf(const std::vector<Run>& runs, rocksdb::SequenceNumber sequence) {
  for (size_t i = 0; i < runs.size(); ++i) {
    if (sequence >= runs[i].smallest && sequence <= runs[i].largest && sequence != 0) return i;
  }
  return runs.size() - 1;
}

void AddNumber(const std::string& name, double value, std::string* json) {
  char text[64];
  snprintf(text, sizeof(text), "\": %.4f", value);
  *json += ", \"" + name + text;
}

struct Sums {
  std::map<std::string, double> sum, most;
  void Add(const std::string& name, double value) {
    sum[name] += value;
    most[name] = std::max(most[name], value);
  }
};

class Store {
 public:
  explicit Store(const Setting& setting) : setting_(setting), path_(FLAGS_path + "/store_shape") {}

  Status Run(std::string* report) {
    Status s = MakeOptions(setting_, &options_);
    if (!s.ok()) return s;
    DestroyDB(path_, options_).PermitUncheckedError();
    DB* opened = nullptr;
    s = cairn::Open(options_, path_, &opened);
    db_.reset(opened);
    if (!s.ok()) return s;
    s = Put(FLAGS_items);
    const double filled = WrittenPerByte();
    const uint64_t each = static_cast<uint64_t>(FLAGS_updates * static_cast<double>(FLAGS_items)) / FLAGS_moments;
    for (uint64_t i = 0; s.ok() && i < FLAGS_moments; ++i) {
      s = Put(each);
      if (s.ok()) s = Look();
    }
    if (!s.ok()) return s;
    *report = "{\"setting\": \"" + setting_.name + "\", \"table\": \"" + setting_.kind + "\", \"options\": \"" +
              setting_.options + "\", \"items\": " + std::to_string(FLAGS_items) +
              ", \"moments\": " + std::to_string(FLAGS_moments);
    AddNumber("written_per_byte_filled", filled, report);
    AddNumber("written_per_byte_updated", WrittenPerByte(), report);
    for (const auto& [name, sum] : sums_.sum) AddNumber(name, sum / static_cast<double>(FLAGS_moments), report);
    for (const auto& [name, most] : sums_.most) AddNumber("most_" + name, most, report);
    if (FLAGS_shapes) *report += ", \"shapes\": [" + shapes_ + "]";
    *report += "}";
    db_.reset();
    return DestroyDB(path_, options_);
  }

 private:
  Status Put(uint64_t count) {
    const std::string value(200, 'v');
    rocksdb::WriteOptions write;
    write.disableWAL = true;
    Status s;
    for (uint64_t i = 0; s.ok() && i < count; ++i) {
      const size_t size = 1 + random_() % 200;
      s = db_->Put(write, Key(random_() % FLAGS_items), rocksdb::Slice(value.data(), size));
      put_bytes_ += 16 + size;
      buffered_ += 16 + size;
      if (s.ok() && buffered_ >= FLAGS_write_buffer_size) s = Flush();
    }
    return s;
  }

  Status Flush() {
    buffered_ = 0;
    Status s = db_->Flush({});
    if (s.ok()) s = db_->WaitForCompact({});
    return s.ok() ? cairn::WaitForTrieCompaction(db_.get()) : s;
  }

  uint64_t Ticker(uint32_t ticker) const { return options_.statistics->getTickerCount(ticker); }

  // Of the puts since the last call.
  double WrittenPerByte() {
    const uint64_t written = Ticker(rocksdb::FLUSH_WRITE_BYTES) + Ticker(rocksdb::COMPACT_WRITE_BYTES);
    const double ratio = static_cast<double>(written - written_before_) / static_cast<double>(put_bytes_ - put_before_);
    written_before_ = written;
    put_before_ = put_bytes_;
    return ratio;
  }

  Status Look() {
    // What is in the memtable would take blocks away.
    Status s = Flush();
    if (!s.ok()) return s;
    const std::vector<::Run> runs = Runs(db_.get());
    uint64_t entries = 0;
    shapes_ += shapes_.empty() ? "[" : ", [";
    for (const ::Run& run : runs) {
      shapes_ += (entries == 0 ? "" : ", ") + std::to_string(run.entries);
      entries += run.entries;
    }
    shapes_ += "]";
    sums_.Add("runs", static_cast<double>(runs.size()));
    sums_.Add("entries_per_key", static_cast<double>(entries) / static_cast<double>(FLAGS_items));
    sums_.Add("above_last", static_cast<double>(entries - runs.back().entries) / static_cast<double>(FLAGS_items));
    sums_.Add("tables", TablesOverKeys());
    if (FLAGS_warm) {
      const std::unique_ptr<rocksdb::Iterator> all(db_->NewIterator({}));
      for (all->SeekToFirst(); all->Valid(); all->Next()) {
      }
      s = all->status();
    }
    for (const int steps : {0, 10, 50}) {
      if (s.ok()) s = Seeks(runs, steps);
    }
    Gets("_present", 0);
    Gets("_absent", 1);
    return s;
  }

  double TablesOverKeys() {
    rocksdb::ColumnFamilyMetaData meta;
    db_->GetColumnFamilyMetaData(&meta);
    constexpr int kSample = 200;
    int tables = 0;
    for (int i = 0; i < kSample; ++i) {
      const std::string key = Key(other_random_() % FLAGS_items);
      for (const rocksdb::LevelMetaData& level : meta.levels) {
        for (const rocksdb::SstFileMetaData& file : level.files) {
          if (file.smallestkey <= key && key <= file.largestkey) ++tables;
        }
      }
    }
    return static_cast<double>(tables) / kSample;
  }

  // Adds what `operations` take, each on average; what a merge for scans reads beside them is not counted.
  template <typename Operations>
  void Count(const std::string& suffix, const Operations& operations) {
    const auto micros = [] {
      timespec now;
      clock_gettime(CLOCK_THREAD_CPUTIME_ID, &now);
      return static_cast<double>(now.tv_sec) * 1e6 + static_cast<double>(now.tv_nsec) / 1e3;
    };
    const rocksdb::PerfContext& counts = *rocksdb::get_perf_context();
    const uint64_t hits = counts.block_cache_hit_count, reads = counts.block_read_count;
    const double begin = micros();
    operations();
    const double each = 1.0 / static_cast<double>(FLAGS_seeks);
    sums_.Add("micros" + suffix, (micros() - begin) * each);
    const uint64_t missed = counts.block_read_count - reads;
    sums_.Add("blocks" + suffix, static_cast<double>(counts.block_cache_hit_count - hits + missed) * each);
    sums_.Add("missed" + suffix, static_cast<double>(missed) * each);
  }

  // Absent keys are near misses: no run has them, and any could.
  void Gets(const std::string& suffix, uint64_t absent) {
    rocksdb::PinnableSlice value;
    Count(suffix, [&] {
      for (uint64_t i = 0; i < FLAGS_seeks; ++i) {
        std::string key = Key(other_random_() % FLAGS_items);
        if (absent != 0) key.back() = '1';
        value.Reset();
        db_->Get({}, db_->DefaultColumnFamily(), key, &value).PermitUncheckedError();
      }
    });
  }

  Status Seeks(const std::vector<::Run>& runs, int steps) {
    const std::string suffix = steps == 0 ? "_seek" : "_seek_" + std::to_string(steps);
    const std::unique_ptr<rocksdb::Iterator> it(db_->NewIterator({}));
    std::vector<std::pair<std::string, std::string>> windows;
    Count(suffix, [&] {
      for (uint64_t i = 0; i < FLAGS_seeks; ++i) {
        it->Seek(Key(random_() % FLAGS_items));
        if (!it->Valid()) continue;
        windows.emplace_back(it->key().ToString(), "");
        for (int j = 0; j < steps && it->Valid(); ++j) it->Next();
        windows.back().second = it->Valid() ? it->key().ToString() : Key(FLAGS_items);
      }
    });
    // What lies in a level of a trie is no run: containers have sequence numbers of their own.
    if (setting_.kind == "engine") return it->status();
    // The runs that hold entries of the rows that were returned: no seek reads fewer blocks.
    uint64_t holding = 0;
    const size_t sample = std::min<size_t>(windows.size(), 200);
    for (size_t i = 0; i < sample; ++i) {
      std::vector<rocksdb::KeyVersion> versions;
      const Status s = GetAllKeyVersions(db_.get(), windows[i].first, windows[i].second, 100000, &versions);
      if (!s.ok()) return s;
      std::set<size_t> in;
      for (const rocksdb::KeyVersion& version : versions) in.insert(RunOf(runs, version.sequence));
      holding += in.size();
    }
    sums_.Add("runs_holding" + suffix, static_cast<double>(holding) / static_cast<double>(std::max<size_t>(sample, 1)));
    return it->status();
  }

  const Setting setting_;
  const std::string path_;
  rocksdb::Options options_;
  std::unique_ptr<DB> db_;
  Random random_{1}, other_random_{2};
  uint64_t put_bytes_ = 0, buffered_ = 0, put_before_ = 0, written_before_ = 0;
  Sums sums_;
  std::string shapes_;
};

}  // namespace

int main(int argc, char** argv) {
  // gflags knows no lists: settings are what remains.
  gflags::ParseCommandLineFlags(&argc, &argv, true);
  if (FLAGS_path.empty() || argc < 2) {
    fprintf(stderr, "usage: store_shape_bench --path=DIR 'NAME|ordered|OPTIONS' ...\n");
    return 2;
  }
  for (int i = 1; i < argc; ++i) {
    Setting setting;
    if (!ParseSetting(argv[i], &setting)) {
      fprintf(stderr, "%s: not NAME|ordered|OPTIONS\n", argv[i]);
      return 2;
    }
    std::string report;
    const Status s = Store(setting).Run(&report);
    if (!s.ok()) {
      fprintf(stderr, "%s: %s\n", setting.name.c_str(), s.ToString().c_str());
      return 1;
    }
    printf("%s\n", report.c_str());
    fflush(stdout);
  }
  return 0;
}
