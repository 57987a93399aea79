#include "db_bench/measure.h"

#include <sys/resource.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <chrono>
#include <cstdlib>
#include <cstring>
#include <filesystem>

#include "rocksdb/metadata.h"
#include "rocksdb/perf_context.h"
#include "rocksdb/perf_level.h"
#include "rocksdb/table_properties.h"
#include "util/rocksdb_names.h"

namespace cairn::bench {

namespace {

constexpr std::chrono::milliseconds kSampleInterval(100);

double Seconds(const timeval& time) {
  return static_cast<double>(time.tv_sec) + 1e-6 * static_cast<double>(time.tv_usec);
}

double Used(int who) {
  rusage usage;
  getrusage(who, &usage);
  return Seconds(usage.ru_utime) + Seconds(usage.ru_stime);
}

uint64_t Property(DB* db, const std::string& name) {
  uint64_t value = 0;
  db->GetIntProperty(name, &value);
  return value;
}

}  // namespace

WriteCounters ReadWriteCounters(const rocksdb::Statistics& statistics) {
  WriteCounters counters;
  counters.flush_bytes = statistics.getTickerCount(rocksdb::FLUSH_WRITE_BYTES);
  counters.compaction_bytes = statistics.getTickerCount(rocksdb::COMPACT_WRITE_BYTES);
  counters.compaction_read_bytes = statistics.getTickerCount(rocksdb::COMPACT_READ_BYTES);
  counters.wal_bytes = statistics.getTickerCount(rocksdb::WAL_FILE_BYTES);
  counters.stall_micros = statistics.getTickerCount(rocksdb::STALL_MICROS);
  return counters;
}

void ResetLookupCounters() {
  rocksdb::SetPerfLevel(rocksdb::PerfLevel::kEnableCount);
  rocksdb::get_perf_context()->Reset();
}

LookupCounters ReadLookupCounters() {
  const rocksdb::PerfContext& context = *rocksdb::get_perf_context();
  LookupCounters counters;
  counters.blocks_read = context.block_read_count;
  counters.filter_blocks_read = context.filter_block_read_count;
  counters.index_blocks_read = context.index_block_read_count;
  counters.blocks_cached = context.block_cache_hit_count;
  counters.filter_passes = context.bloom_sst_hit_count;
  counters.filter_stops = context.bloom_sst_miss_count;
  return counters;
}

LookupCounters& LookupCounters::operator+=(const LookupCounters& other) {
  blocks_read += other.blocks_read;
  filter_blocks_read += other.filter_blocks_read;
  index_blocks_read += other.index_blocks_read;
  blocks_cached += other.blocks_cached;
  filter_passes += other.filter_passes;
  filter_stops += other.filter_stops;
  return *this;
}

CpuSeconds ReadCpu() {
  CpuSeconds cpu;
  cpu.process = Used(RUSAGE_SELF);
  cpu.thread = Used(RUSAGE_THREAD);
  return cpu;
}

uint64_t LiveTableBytes(DB* db) { return Property(db, DB::Properties::kLiveSstFilesSize); }

uint64_t DirectoryBytes(const std::string& path) {
  namespace fs = std::filesystem;
  uint64_t bytes = 0;
  std::error_code error;
  for (fs::recursive_directory_iterator it(path, error), end; !error && it != end; it.increment(error)) {
    std::error_code gone;
    if (it->is_regular_file(gone) && !gone) {
      uint64_t size = it->file_size(gone);
      bytes += gone ? 0 : size;
    }
  }
  return bytes;
}

uint64_t TableFileBytes(const std::string& folder) {
  constexpr uint64_t kStatBlock = 512;  // whatever the file system's blocks are
  uint64_t bytes = 0;
  std::error_code error;
  for (std::filesystem::directory_iterator it(folder, error), end; !error && it != end; it.increment(error)) {
    const std::filesystem::path kind = it->path().extension();
    struct stat file {};
    if ((kind == ".sst" || kind == ".blob") && stat(it->path().c_str(), &file) == 0) {
      bytes += static_cast<uint64_t>(file.st_blocks) * kStatBlock;
    }
  }
  return bytes;
}

uint64_t TableReaderMemory(DB* db) { return Property(db, DB::Properties::kEstimateTableReadersMem); }

uint64_t IndexFilterBlocks(DB* db) {
  rocksdb::TablePropertiesCollection tables;
  uint64_t bytes = 0;
  if (!db->GetPropertiesOfAllTables(&tables).ok()) return 0;
  for (const auto& [file, properties] : tables) bytes += properties->index_size + properties->filter_size;
  return bytes;
}

TreeShape ReadShape(DB* db) {
  rocksdb::ColumnFamilyMetaData metadata;
  db->GetColumnFamilyMetaData(&metadata);
  TreeShape shape;
  for (const rocksdb::LevelMetaData& level : metadata.levels) {
    shape.files += level.files.size();
    shape.sorted_runs += level.level == 0 ? level.files.size() : (level.files.empty() ? 0 : 1);
  }
  return shape;
}

SpaceSampler::SpaceSampler(DB* db, const std::string& folder, const std::atomic<uint64_t>* live_bytes,
                           uint64_t from_bytes)
    : db_(db), folder_(folder), live_bytes_(live_bytes), from_bytes_(from_bytes), thread_([this] { Run(); }) {}

SpaceSampler::~SpaceSampler() { Stop(); }

void SpaceSampler::Stop() {
  {
    std::lock_guard<std::mutex> lock(mutex_);
    stop_ = true;
  }
  wake_.notify_one();
  if (thread_.joinable()) {
    thread_.join();
  }
}

void SpaceSampler::Run() {
  std::unique_lock<std::mutex> lock(mutex_);
  while (!stop_) {
    lock.unlock();
    Sample();
    lock.lock();
    wake_.wait_for(lock, kSampleInterval, [this] { return stop_; });
  }
  Sample();  // however short the load was, its end counts
  cpu_seconds_ = Used(RUSAGE_THREAD);
}

void SpaceSampler::Sample() {
  const uint64_t live_bytes = live_bytes_->load(std::memory_order_relaxed);
  const uint64_t tables = LiveTableBytes(db_);
  const uint64_t files = TableFileBytes(folder_);
  max_table_file_bytes_ = std::max(max_table_file_bytes_, files);
  const double live = static_cast<double>(live_bytes);
  if (live_bytes >= from_bytes_ && live > 0) {
    max_live_tables_ = std::max(max_live_tables_, static_cast<double>(tables) / live);
    max_table_files_ = std::max(max_table_files_, static_cast<double>(files) / live);
  }
}

ScratchFolder::~ScratchFolder() {
  if (!path_.empty()) {
    std::error_code ignored;
    std::filesystem::remove_all(path_, ignored);
  }
}

Status ScratchFolder::Create(const std::string& parent, const std::string& prefix) {
  std::string base = parent;
  if (base.empty()) {
    const char* tmp = getenv("TMPDIR");
    base = tmp != nullptr && *tmp != '\0' ? tmp : "/tmp";
  }
  std::string name = base + "/" + prefix + "XXXXXX";
  if (mkdtemp(&name[0]) == nullptr) {
    return Status::IOError("cannot make a folder in " + base, strerror(errno));
  }
  path_ = name;
  return Status::OK();
}

}  // namespace cairn::bench
