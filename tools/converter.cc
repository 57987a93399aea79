#include "tools/converter.h"

#include <cairn/db.h>
#include <cairn/trie.h>

#include <algorithm>
#include <cerrno>
#include <chrono>
#include <cstring>
#include <deque>
#include <filesystem>
#include <future>
#include <system_error>
#include <thread>
#include <utility>

#include "rocksdb/file_system.h"
#include "rocksdb/listener.h"
#include "rocksdb/wide_columns.h"
#include "rocksdb/write_batch.h"
#include "tools/convert_source.h"
#include "tools/convert_state.h"
#include "tools/convert_target.h"
#include "tools/progress.h"
#include "util/coding.h"
#include "util/hash.h"
#include "util/key_text.h"
#include "util/mutex.h"
#include "util/rocksdb_names.h"

namespace cairn {
namespace {

using rocksdb::Env;
using rocksdb::SequenceNumber;
using rocksdb::WideColumns;

constexpr size_t kBatchBytes = 128 << 10;
constexpr uint64_t kCheckpointBytes = 1 << 20;
constexpr size_t kLookupsAtOnce = 128;
constexpr size_t kLookupBytesAtOnce = 4 << 20;
constexpr size_t kChunkRecords = 16384;
constexpr size_t kChunkBytes = 16 << 20;
constexpr std::chrono::milliseconds kSaveInterval(200);

// Tells how far the flushes of one column family have come, and what has failed in the background. Flushes commit in
// order, and the copy is the only writer, so everything up to the flushed sequence number is durable.
class FlushWatcher : public rocksdb::EventListener {
 public:
  const char* Name() const override { return "CairnConvertFlushWatcher"; }
  void Watch(uint32_t column_family_id) {
    flushed_.store(0, std::memory_order_relaxed);
    watched_.store(column_family_id, std::memory_order_release);
  }
  SequenceNumber flushed() const { return flushed_.load(std::memory_order_acquire); }
  // The first error, although RocksDB may go on trying: a copy can be gone on with, so it need not wait for the disk.
  Status error() const {
    const MutexLock lock(&mutex_);
    return error_;
  }
  void OnBackgroundError(rocksdb::BackgroundErrorReason /*reason*/, Status* error) override {
    const MutexLock lock(&mutex_);
    if (error_.ok()) error_ = *error;
  }
  // RocksDB would wait until there is room, and deadlocks if a second error comes meanwhile.
  void OnErrorRecoveryBegin(rocksdb::BackgroundErrorReason /*reason*/, Status /*error*/, bool* recover) override {
    *recover = false;
  }
  void OnFlushCompleted(DB*, const rocksdb::FlushJobInfo& info) override {
    if (info.cf_id != watched_.load(std::memory_order_acquire)) return;
    SequenceNumber seen = flushed_.load(std::memory_order_relaxed);
    while (seen < info.largest_seqno && !flushed_.compare_exchange_weak(seen, info.largest_seqno)) {
    }
  }

 private:
  std::atomic<uint32_t> watched_{0};
  std::atomic<SequenceNumber> flushed_{0};
  mutable CheckedMutex mutex_;
  Status error_ CAIRN_GUARDED_BY(mutex_);
};

ReadOptions ScanOptions() {
  ReadOptions options;
  options.fill_cache = false;
  options.total_order_seek = true;
  options.readahead_size = 1 << 20;
  return options;
}

// One text for the value or the columns of a record: equal texts, equal records.
void EncodeColumns(const WideColumns& columns, std::string* text) {
  text->clear();
  for (const rocksdb::WideColumn& column : columns) {
    rocksdb::PutLengthPrefixedSlice(text, column.name());
    rocksdb::PutLengthPrefixedSlice(text, column.value());
  }
}

uint64_t Fingerprint(const Slice& key, const std::string& columns) {
  return rocksdb::Hash64(columns.data(), columns.size(), rocksdb::Hash64(key.data(), key.size()));
}

bool IsPlain(const WideColumns& columns) { return columns.size() == 1 && columns[0].name().empty(); }

// Moves to the record behind a position that an earlier run reached.
void SeekBehind(const ConvertPosition& position, Iterator* it) {
  if (position.records == 0) {
    it->SeekToFirst();
    return;
  }
  it->Seek(position.key);
  if (it->Valid() && it->key() == position.key) it->Next();
}

void Advance(const Slice& key, ConvertPosition* position) {
  position->records++;
  position->key.assign(key.data(), key.size());
}

uint64_t BytesIn(const std::string& directory) {
  uint64_t bytes = 0;
  std::error_code error;
  for (const auto& entry : std::filesystem::directory_iterator(directory, error)) {
    std::error_code ignored;
    const uint64_t size = entry.file_size(ignored);
    if (!ignored) bytes += size;
  }
  return bytes;
}

bool IsInside(const std::filesystem::path& inner, const std::filesystem::path& outer) {
  const auto [o, i] = std::mismatch(outer.begin(), outer.end(), inner.begin(), inner.end());
  return o == outer.end();
}

// A stretch of the source, to be looked up in the destination.
struct Record {
  std::string key;
  std::string columns;  // encoded
};
using Chunk = std::vector<Record>;

Chunk NextChunk(Iterator* it) {
  Chunk chunk;
  size_t bytes = 0;
  for (; it->Valid() && chunk.size() < kChunkRecords && bytes < kChunkBytes; it->Next()) {
    chunk.push_back({it->key().ToString(), std::string()});
    EncodeColumns(it->columns(), &chunk.back().columns);
    bytes += chunk.back().key.size() + chunk.back().columns.size();
  }
  return chunk;
}

// Looks chunks up on several threads.
class ChunkComparer {
 public:
  ChunkComparer(DB* db, ColumnFamilyHandle* handle, const std::string& family)
      : db_(db), handle_(handle), family_(family), threads_(std::clamp(std::thread::hardware_concurrency(), 1u, 8u)) {}

  // Adds the fingerprints of what was compared. The first difference in the order of the chunk is the error.
  Status Compare(const Chunk& chunk, uint64_t* fingerprint) const {
    std::vector<std::future<Result>> running;
    const size_t share = (chunk.size() + threads_ - 1) / threads_;
    for (size_t begin = 0; begin < chunk.size(); begin += share) {
      const size_t end = std::min(begin + share, chunk.size());
      running.push_back(
          std::async(std::launch::async, [this, &chunk, begin, end] { return Compare(chunk, begin, end); }));
    }
    Status s;
    for (std::future<Result>& result : running) {
      const Result one = result.get();
      if (s.ok()) s = one.status;
      *fingerprint += one.fingerprint;
    }
    return s;
  }

 private:
  struct Result {
    Status status;
    uint64_t fingerprint = 0;
  };

  Result Compare(const Chunk& chunk, size_t begin, size_t end) const {
    Result result;
    ReadOptions options;
    options.total_order_seek = true;
    std::vector<Slice> keys(kLookupsAtOnce);
    std::vector<rocksdb::PinnableWideColumns> found(kLookupsAtOnce);
    std::vector<Status> statuses(kLookupsAtOnce);
    std::string actual;
    while (begin < end && result.status.ok()) {
      size_t count = 0;
      size_t bytes = 0;
      for (; count < kLookupsAtOnce && begin + count < end && bytes < kLookupBytesAtOnce; count++) {
        keys[count] = chunk[begin + count].key;
        bytes += chunk[begin + count].columns.size();
      }
      db_->MultiGetEntity(options, handle_, count, keys.data(), found.data(), statuses.data());
      for (size_t i = 0; i < count && result.status.ok(); i++) {
        EncodeColumns(found[i].columns(), &actual);
        found[i].Reset();
        if (statuses[i].IsNotFound() || (statuses[i].ok() && actual != chunk[begin + i].columns)) {
          result.status = Status::Corruption(
              "column family \"" + family_ + "\", key " + KeyText(keys[i]),
              statuses[i].ok() ? "has another value in the destination" : "is not in the destination");
        } else {
          result.status = statuses[i];
        }
        result.fingerprint += Fingerprint(keys[i], actual);
      }
      begin += count;
    }
    return result;
  }

  DB* const db_;
  ColumnFamilyHandle* const handle_;
  const std::string family_;
  const size_t threads_;
};

// Keeps the state file from being written with every record.
class SaveTimer {
 public:
  bool Due() {
    const auto now = std::chrono::steady_clock::now();
    if (now - last_ < kSaveInterval) return false;
    last_ = now;
    return true;
  }

 private:
  std::chrono::steady_clock::time_point last_;  // long ago
};

// Bytes that must be free where the destination is to lie, for a source of `source_bytes`, of which `present_bytes` are
// already there.
uint64_t ConvertSpaceNeeded(uint64_t source_bytes, uint64_t present_bytes) {
  // Tables of another engine, a compaction's inputs beside its outputs, and the write buffers under way.
  const uint64_t whole = source_bytes + source_bytes / 2 + (64 << 20);
  return whole > present_bytes ? whole - present_bytes : 0;
}

class Converter {
 public:
  explicit Converter(const ConvertOptions& options) : options_(options) {}
  ~Converter() { CloseSession(); }

  Status Run(ConvertReport* report) {
    Status s = CheckPaths();
    if (s.ok()) s = ConvertSource::Open(options_.source, &source_);
    if (s.ok()) {
      s = PlanConvertTarget(*source_, options_.engine, options_.engine_options, options_.column_families, &target_);
    }
    if (!s.ok()) return s;
    report->notes = source_->notes();
    report->notes.insert(report->notes.end(), target_.notes.begin(), target_.notes.end());
    report->source_bytes = source_->Bytes();
    s = LoadOrBegin();
    report->was_whole_before = s.ok() && state_.step == ConvertStep::kWhole;
    if (s.ok() && state_.step != ConvertStep::kWhole) s = CheckSpace();
    if (s.ok() && state_.step != ConvertStep::kWhole) {
      s = OpenSession();
      if (s.ok()) s = Copy();
      if (s.ok()) s = Settle();
      if (s.ok()) s = Verify();
      CloseSession();
      if (s.ok()) s = Finish();
      s = WithRemedy(s);
    }
    for (const ConvertFamily& family : state_.families) report->records += family.copied.records;
    report->column_families = state_.families.size();
    report->destination_bytes = BytesIn(options_.destination);
    return s;
  }

 private:
  // The destination, open for writing.
  struct Session {
    DB* db = nullptr;
    std::vector<ColumnFamilyHandle*> handles;
    std::shared_ptr<FlushWatcher> watcher = std::make_shared<FlushWatcher>();
  };

  Status CheckPaths() {
    namespace fs = std::filesystem;
    std::error_code error;
    const fs::path source = fs::canonical(options_.source, error);
    if (error) return Status::NotFound(options_.source, "cannot be opened: " + error.message());
    fs::path destination = fs::weakly_canonical(fs::absolute(options_.destination, error), error);
    if (error) return Status::InvalidArgument(options_.destination, error.message());
    if (!destination.has_filename()) destination = destination.parent_path();
    if (source == destination) return Status::InvalidArgument("source and destination are the same directory");
    if (IsInside(destination, source)) {
      return Status::InvalidArgument(options_.destination, "lies inside the source, which is not to be touched");
    }
    if (IsInside(source, destination)) {
      return Status::InvalidArgument(options_.destination, "is not empty: it contains the source");
    }
    options_.source = source.string();
    options_.destination = destination.string();
    if (fs::exists(destination, error) && !fs::is_directory(destination, error)) {
      return Status::InvalidArgument(options_.destination, "exists and is not a directory");
    }
    if (!fs::is_directory(destination.parent_path(), error)) {
      return Status::NotFound(destination.parent_path().string(), "does not exist; make it first");
    }
    return Status::OK();
  }

  Status LoadOrBegin() {
    Env* env = Env::Default();
    Status s = LoadConvertState(env, options_.destination, &state_);
    if (s.ok()) return CheckUnchanged();
    if (!s.IsNotFound()) return s;

    // What an earlier run may have left before its first state are files of these two names.
    std::vector<std::string> children;
    env->GetChildren(options_.destination, &children).PermitUncheckedError();
    for (const std::string& child : children) {
      if (child == "." || child == ".." || child.compare(0, 13, kConvertStateFile) == 0) continue;
      return Status::InvalidArgument(
          options_.destination, "exists and is not a conversion (it contains " + child + "); name a new directory");
    }
    state_ = ConvertState();
    state_.source = options_.source;
    state_.source_id = source_->identity();
    state_.source_sequence = source_->sequence();
    state_.engine = options_.engine;
    state_.engine_options = options_.engine_options;
    for (const TargetFamily& family : target_.families) {
      state_.families.emplace_back();
      state_.families.back().name = family.name;
      state_.families.back().converted = family.converted;
    }
    s = CheckSpace();
    if (!s.ok()) return s;
    s = env->CreateDirIfMissing(options_.destination);
    std::string remembered;
    if (s.ok()) s = StockOptionsToRemember(*source_, &remembered);
    if (s.ok()) s = ReplaceFile(env, options_.destination, kConvertStockOptionsFile, remembered);
    if (s.ok()) s = Save();
    return WithRemedy(s);
  }

  Status CheckUnchanged() const {
    const std::string whole_or_not =
        state_.step == ConvertStep::kWhole ? "is a conversion" : "was begun as a conversion";
    if (state_.source_id != source_->identity()) {
      return Status::InvalidArgument(options_.destination, whole_or_not + " of another database, " + state_.source);
    }
    if (state_.source_sequence != source_->sequence()) {
      return Status::InvalidArgument(
          options_.source, "was written to since " + options_.destination + " was begun (sequence number " +
                               std::to_string(state_.source_sequence) + ", now " + std::to_string(source_->sequence()) +
                               "); remove the latter to begin again");
    }
    bool same = state_.engine == options_.engine && state_.engine_options == options_.engine_options &&
                state_.families.size() == target_.families.size();
    for (size_t i = 0; same && i < target_.families.size(); i++) {
      same = state_.families[i].name == target_.families[i].name &&
             state_.families[i].converted == target_.families[i].converted;
    }
    if (!same) {
      return Status::InvalidArgument(
          options_.destination,
          whole_or_not + " to " + state_.engine + " with other options or column families; use the same, or remove it");
    }
    return Status::OK();
  }

  Status CheckSpace() const {
    if (!options_.check_space) return Status::OK();
    std::error_code error;
    std::filesystem::path place = options_.destination;
    if (!std::filesystem::exists(place, error)) place = place.parent_path();
    uint64_t free = 0;
    Status s = Env::Default()->GetFileSystem()->GetFreeSpace(place.string(), rocksdb::IOOptions(), &free, nullptr);
    if (s.IsNotSupported()) return Status::OK();
    if (!s.ok()) return s;
    const uint64_t needed = ConvertSpaceNeeded(source_->Bytes(), BytesIn(options_.destination));
    // In doubles: the reserve may be any number.
    if (static_cast<double>(free) >= static_cast<double>(needed) + static_cast<double>(options_.reserve_bytes)) {
      return Status::OK();
    }
    std::string text = "needs " + ShortBytes(static_cast<double>(needed)) + " for a copy";
    if (options_.reserve_bytes > 0) {
      text += " and is to leave " + ShortBytes(static_cast<double>(options_.reserve_bytes));
    }
    return Status::NoSpace(options_.destination, text + ", and its file system has " +
                                                     ShortBytes(static_cast<double>(free)) +
                                                     " free; --check-space=false goes on all the same");
  }

  Status OpenSession() {
    session_ = std::make_unique<Session>();
    ConvertTarget target = ForWriting(target_);
    target.db_options.listeners.push_back(session_->watcher);
    std::vector<rocksdb::ColumnFamilyDescriptor> descriptors;
    for (const TargetFamily& family : target.families) descriptors.emplace_back(family.name, family.options);
    return Open(target.db_options, options_.destination, descriptors, &session_->handles, &session_->db);
  }

  void CloseSession() {
    if (session_ == nullptr) return;
    if (session_->db != nullptr) {
      for (ColumnFamilyHandle* handle : session_->handles) {
        session_->db->DestroyColumnFamilyHandle(handle).PermitUncheckedError();
      }
      session_->db->Close().PermitUncheckedError();
      delete session_->db;
    }
    session_.reset();
  }

  Status Copy() {
    if (state_.step != ConvertStep::kCopy) return Status::OK();
    for (size_t i = 0; i < state_.families.size(); i++) {
      Status s = CopyFamily(i);
      if (!s.ok()) return s;
    }
    state_.step = ConvertStep::kSettle;
    return Save();
  }

  Status CopyFamily(size_t index) {
    const SourceFamily& from = source_->families()[index];
    ColumnFamilyHandle* to = session_->handles[index];
    ConvertFamily& family = state_.families[index];
    if (family.copied.finished) return Status::OK();

    session_->watcher->Watch(to->GetID());
    Progress progress("copy " + from.name, "records", from.estimated_records, family.copied.records);
    rocksdb::WriteBatch batch;
    ConvertPosition position = family.copied;
    // Positions whose records are written, but perhaps not flushed, and the sequence number that tells.
    std::deque<std::pair<SequenceNumber, ConvertPosition>> pending;
    uint64_t bytes_since_checkpoint = 0;
    SaveTimer timer;

    auto write = [&]() {
      const size_t bytes = batch.GetDataSize();
      Status s = Write(&batch);
      batch.Clear();
      if (!s.ok()) return s;
      bytes_since_checkpoint += bytes;
      if (bytes_since_checkpoint >= kCheckpointBytes) {
        bytes_since_checkpoint = 0;
        pending.emplace_back(session_->db->GetLatestSequenceNumber(), position);
      }
      const SequenceNumber flushed = session_->watcher->flushed();
      bool moved = false;
      for (; !pending.empty() && pending.front().first <= flushed; pending.pop_front()) {
        family.copied = std::move(pending.front().second);
        moved = true;
      }
      return moved && timer.Due() ? Save() : Status::OK();
    };

    Status s;
    std::unique_ptr<Iterator> it(source_->db()->NewIterator(ScanOptions(), from.handle));
    for (SeekBehind(position, it.get()); s.ok() && it->Valid() && !Stopped(); it->Next()) {
      const WideColumns& columns = it->columns();
      s = IsPlain(columns) ? batch.Put(to, it->key(), it->value()) : batch.PutEntity(to, it->key(), columns);
      Advance(it->key(), &position);
      if (s.ok() && batch.GetDataSize() >= kBatchBytes) {
        s = write();
        progress.Update(position.records);
      }
    }
    if (s.ok()) s = it->status();
    if (s.ok()) s = write();
    rocksdb::FlushOptions at_once;
    at_once.allow_write_stall = true;  // nobody else writes
    if (s.ok()) s = session_->db->Flush(at_once, to);
    if (!s.ok()) return s;
    family.copied = position;
    family.copied.finished = !Stopped();
    progress.Update(position.records);
    s = Save();
    return s.ok() && Stopped() ? StoppedStatus() : s;
  }

  Status Settle() {
    if (state_.step != ConvertStep::kSettle) return Status::OK();
    Progress progress("compact", "", 0);
    auto show = [&]() {
      progress.Update(0, ShortBytes(static_cast<double>(BytesIn(options_.destination))) + " in the destination");
    };
    DB* db = session_->db;
    for (size_t i = 0; options_.compact && i < session_->handles.size(); i++) {
      if (Stopped()) return StoppedStatus();
      const bool is_trie = IsTrie(target_.families[i].options);
      Status s = is_trie ? CompactTrie(db, session_->handles[i])
                         : db->CompactRange(rocksdb::CompactRangeOptions(), session_->handles[i], nullptr, nullptr);
      if (!s.ok()) return s;
      show();
    }
    constexpr std::chrono::milliseconds kPatience(500);
    rocksdb::WaitForCompactOptions wait;
    wait.timeout = kPatience;
    for (;;) {
      Status s = WaitForTrieCompaction(db, std::chrono::microseconds(kPatience).count());
      if (s.ok()) s = db->WaitForCompact(wait);
      show();
      if (s.ok()) break;
      if (!s.IsTimedOut()) return s;
      s = WhyNotGoOn();
      if (!s.ok()) return s;
    }
    state_.step = ConvertStep::kVerify;
    return Save();
  }

  Status Verify() {
    if (state_.step != ConvertStep::kVerify) return Status::OK();
    for (size_t i = 0; i < state_.families.size(); i++) {
      Status s = CompareFamily(i);
      if (s.ok()) s = CountFamily(i);
      if (!s.ok()) return s;
    }
    return Status::OK();
  }

  Status CompareFamily(size_t index) {
    const SourceFamily& from = source_->families()[index];
    ConvertFamily& family = state_.families[index];
    if (family.compared.finished) return Status::OK();

    Progress progress("verify " + from.name, "records", family.copied.records, family.compared.records);
    SaveTimer timer;
    const ChunkComparer comparer(session_->db, session_->handles[index], from.name);
    std::unique_ptr<Iterator> it(source_->db()->NewIterator(ScanOptions(), from.handle));
    SeekBehind(family.compared, it.get());
    while (it->Valid() && !Stopped()) {
      const Chunk chunk = NextChunk(it.get());
      Status s = comparer.Compare(chunk, &family.compared.fingerprint);
      if (!s.ok()) return s;
      family.compared.records += chunk.size();
      family.compared.key = chunk.back().key;
      progress.Update(family.compared.records);
      if (timer.Due()) s = Save();
      if (!s.ok()) return s;
    }
    if (!it->status().ok()) return it->status();
    family.compared.finished = !Stopped();
    Status s = Save();
    return s.ok() && Stopped() ? StoppedStatus() : s;
  }

  Status CountFamily(size_t index) {
    ConvertFamily& family = state_.families[index];
    const std::string& name = family.name;
    if (family.counted.finished) return Status::OK();

    Progress progress("count " + name, "records", family.compared.records, family.counted.records);
    SaveTimer timer;
    std::string columns;
    std::unique_ptr<Iterator> it(session_->db->NewIterator(ScanOptions(), session_->handles[index]));
    for (SeekBehind(family.counted, it.get()); it->Valid() && !Stopped(); it->Next()) {
      EncodeColumns(it->columns(), &columns);
      family.counted.fingerprint += Fingerprint(it->key(), columns);
      Advance(it->key(), &family.counted);
      if (family.counted.records % 1024 != 0) continue;
      progress.Update(family.counted.records);
      if (timer.Due()) {
        Status s = Save();
        if (!s.ok()) return s;
      }
    }
    if (!it->status().ok()) return it->status();
    progress.Update(family.counted.records);
    if (!Stopped()) {
      if (family.counted.records != family.compared.records) {
        return Status::Corruption("column family \"" + name + "\" of the destination",
                                  "has " + std::to_string(family.counted.records) + " records, the source " +
                                      std::to_string(family.compared.records));
      }
      if (family.counted.fingerprint != family.compared.fingerprint) {
        return Status::Corruption("column family \"" + name + "\"", "reads differently by iteration than by lookup");
      }
      family.counted.finished = true;
    }
    Status s = Save();
    return s.ok() && Stopped() ? StoppedStatus() : s;
  }

  // Opened once with its final options, the destination has them in its OPTIONS file.
  Status Finish() {
    std::vector<rocksdb::ColumnFamilyDescriptor> descriptors;
    for (const TargetFamily& family : target_.families) descriptors.emplace_back(family.name, family.options);
    std::vector<ColumnFamilyHandle*> handles;
    DB* db = nullptr;
    Status s = Open(target_.db_options, options_.destination, descriptors, &handles, &db);
    if (!s.ok()) return s;
    for (ColumnFamilyHandle* handle : handles) db->DestroyColumnFamilyHandle(handle).PermitUncheckedError();
    s = db->Close();
    delete db;
    if (!s.ok()) return s;
    state_.step = ConvertStep::kWhole;
    return Save();
  }

  Status Save() { return SaveConvertState(Env::Default(), options_.destination, state_); }

  // A write that RocksDB would hold back, perhaps for ever if compaction fails, is tried again instead.
  Status Write(rocksdb::WriteBatch* batch) {
    constexpr std::chrono::milliseconds kPatience(10);
    rocksdb::WriteOptions options;
    options.disableWAL = true;
    options.no_slowdown = true;
    for (;;) {
      Status s = session_->db->Write(options, batch);
      if (!s.IsIncomplete()) return s;
      s = WhyNotGoOn();
      if (!s.ok()) return s;
      std::this_thread::sleep_for(kPatience);
    }
  }

  // What keeps the session from going on; to be asked while it waits for something.
  Status WhyNotGoOn() const { return Stopped() ? StoppedStatus() : session_->watcher->error(); }

  Status WithRemedy(const Status& s) const {
    if (s.ok() || s.IsIncomplete()) return s;
    const std::string text = s.ToString();
    auto is = [&text](int error) { return text.find(std::strerror(error)) != std::string::npos; };
    const std::string goes_on = ", and the same command goes on from here";
    if (is(ENOSPC)) {
      return Status::NoSpace(options_.destination, "its file system is full: " + text + "; make room there" + goes_on);
    }
    if (is(EDQUOT)) {
      return Status::NoSpace(options_.destination, "its quota is used up: " + text + "; make room there" + goes_on);
    }
    if (is(EFBIG)) {
      return Status::IOError(options_.destination,
                             "needs larger files: " + text + "; raise the limit (ulimit -f)" + goes_on);
    }
    return s;
  }

  bool Stopped() const { return options_.stop != nullptr && options_.stop->load(std::memory_order_relaxed); }

  Status StoppedStatus() const { return Status::Incomplete("stopped; the same command goes on from here"); }

  ConvertOptions options_;
  std::unique_ptr<ConvertSource> source_;
  ConvertTarget target_;
  ConvertState state_;
  std::unique_ptr<Session> session_;
};

}  // namespace

Status Convert(const ConvertOptions& options, ConvertReport* report) { return Converter(options).Run(report); }

}  // namespace cairn
