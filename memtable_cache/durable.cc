#include "memtable_cache/durable.h"

#include <sys/mman.h>

#include <algorithm>
#include <cassert>
#include <cstring>
#include <random>
#include <utility>

#include "memtable_cache/backing.h"
#include "util/boot_number.h"
#include "util/coding.h"
#include "util/rocksdb_names.h"

namespace cairn {

namespace {

uint64_t RandomNumber() {
  std::random_device source;
  const uint64_t number = static_cast<uint64_t>(source()) << 32 | source();
  return number != 0 ? number : 1;
}

std::atomic<uint64_t>* WordAt(char* address) { return reinterpret_cast<std::atomic<uint64_t>*>(address); }

// A sync waits for those who came to the last one for this part of the time that it takes.
constexpr int kCompanyPart = 8;

// Into the older copy.
void StoreCopy(PmemFile* file, Superblock* superblock) {
  ++superblock->edition;
  char bytes[kSuperblockBytes];
  EncodeSuperblock(*superblock, bytes);
  char* const to = file->base() + (superblock->edition % 2) * kPoolPageBytes;
  memcpy(to, bytes, sizeof(bytes));
  file->Persist(to, sizeof(bytes));
}

}  // namespace

Status StoreSuperblock(PmemFile* file, Superblock* superblock) {
  Status s;
  for (int copy = 0; copy < 2 && s.ok(); ++copy) {
    StoreCopy(file, superblock);
    s = file->Sync();
  }
  return s;
}

static_assert(Backing::kRegionBytes % PmemFile::kDeviceUnitBytes == 0, "regions begin where a device can be mapped");

Status DurablePool::Start(std::unique_ptr<PmemFile> file, uint64_t bytes, std::unique_ptr<DurablePool>* pool) {
  if (bytes != 0 && bytes != file->bytes() && !file->keeps_size()) {
    const Status s = file->Resize(bytes);
    if (!s.ok()) return s;
  }
  const Status secured = file->SecureBlocks();
  if (!secured.ok()) return secured;
  if (file->bytes() < kSegmentsOffset + kPoolPageBytes || file->bytes() % kPoolPageBytes != 0) {
    return Status::InvalidArgument(file->path(), "is too small for a pool, or no multiple of 4096 bytes");
  }
  std::unique_ptr<DurablePool> result(new DurablePool());
  result->file_ = std::move(file);
  {
    const MutexLock lock(&result->mutex_);
    const Status s = result->Format();
    if (!s.ok()) return s;
  }
  *pool = std::move(result);
  return Status::OK();
}

Status DurablePool::Format() {
  // Whatever else is done here is hidden by a superblock that says idle.
  Superblock old[2];
  for (int copy = 0; copy < 2; ++copy) {
    if (DecodeSuperblock(file_->base() + copy * kPoolPageBytes, &old[copy])) {
      superblock_.edition = std::max(superblock_.edition, old[copy].edition);
    }
  }
  // Of a device as well, one region after the other is taken, as a file would grow.
  superblock_.file_bytes = file_->keeps_size() ? std::min(file_->bytes(), PmemFile::kDeviceUnitBytes) : file_->bytes();
  segments_bytes_ = superblock_.file_bytes - kSegmentsOffset;
  superblock_.pool = RandomNumber();
  session_ = RandomNumber();
  superblock_.session = session_;
  // No generation of an earlier session comes again: its entries may still lie in the file.
  generations_.store(RandomNumber());
  // Synced before anything else is stored: a file whose making was interrupted is all zeros until then.
  const Status s = StoreSuperblock(file_.get(), &superblock_);
  if (!s.ok()) return s;
  char* const counters = file_->base() + kCountersOffset;
  memset(counters, 0, 2 * kPoolPageBytes);
  for (const size_t word : {kPublishedOffset, kPublishedAgainOffset, kNewestTableOffset, kReturnedSyncOffset}) {
    WordAt(file_->base() + word)->store(EncodeSequenceWord(0), std::memory_order_release);
  }
  file_->Persist(counters, 2 * kPoolPageBytes);
  FormatFree(segments(), segments_bytes());
  regions_[segments()] = {kSegmentsOffset, segments_bytes()};
  return s;
}

Status DurablePool::Arm(const std::string& database, const DatabaseDirectory& directory, uint64_t wal,
                        std::function<uint64_t()> latest) {
  if (database.size() > kMaxDatabaseIdBytes) {
    return Status::InvalidArgument("the database's id is longer than " + std::to_string(kMaxDatabaseIdBytes), database);
  }
  if (directory.path.size() > kMaxDirectoryBytes) {
    return Status::InvalidArgument(
        "the path of a database with durable memtables is longer than " + std::to_string(kMaxDirectoryBytes) + " bytes",
        directory.path);
  }
  Status s;
  {
    const MutexLock lock(&mutex_);
    s = ArmLocked(database, directory, wal, std::move(latest));
  }
  // Without the mutex: a sync that fails takes it.
  return s.ok() ? SyncOnce(false) : s;
}

Status DurablePool::ArmLocked(const std::string& database, const DatabaseDirectory& directory, uint64_t wal,
                              std::function<uint64_t()> latest) {
  superblock_.phase = PoolPhase::kLive;
  superblock_.database = database;
  superblock_.directory = directory;
  superblock_.session_wal = wal;
  superblock_.first_sequence = latest();
  superblock_.boot = BootNumber();
  latest_ = std::move(latest);
  Acknowledge(superblock_.first_sequence);
  armed_.store(true, std::memory_order_release);
  return StoreSuperblock(file_.get(), &superblock_);
}

// A free segment, none of whose bytes mean anything yet.
void DurablePool::FormatFree(char* segment, uint64_t bytes) {
  SegmentHeader header;
  header.session = session_;
  header.bytes = bytes;
  ResetTail(segment);
  ClearSyncLines(segment);
  EncodeHeaderLine(header, segment);
  EncodeHeaderLine(header, segment + kHeaderLineBytes);
  file_->Persist(segment, kSegmentHeaderBytes);
}

Status DurablePool::Take(uint64_t bytes, char* at) {
  const MutexLock lock(&mutex_);
  uint64_t offset = 0;
  if (!FindReturned(bytes, &offset)) return Grow(bytes, at);
  Status s = file_->AllocateAt(offset, bytes);
  if (s.ok()) s = file_->MapAt(at, offset, bytes);
  if (!s.ok()) return s;
  SegmentHeader header = HeaderOf(at);
  for (auto segment = returned_.find(offset); segment != returned_.end() && segment->first < offset + bytes;) {
    segment = returned_.erase(segment);
  }
  returned_bytes_ -= bytes;
  regions_[at] = {offset, bytes};
  // It is one segment from here on; what it was made of lies in it.
  header.bytes = bytes;
  WriteHeader(at, header);
  return s;
}

bool DurablePool::FindReturned(uint64_t bytes, uint64_t* offset) const {
  uint64_t begin = 0;
  uint64_t end = 0;
  for (const auto& [at, length] : returned_) {
    if (at != end) begin = at;
    end = at + length;
    if (end - begin < bytes) continue;
    *offset = begin;
    return end - begin == bytes;
  }
  return false;
}

void DurablePool::GiveBack(char* at, uint64_t bytes) {
  const MutexLock lock(&mutex_);
  if (!CanGiveBack()) return;
  const SegmentHeader header = HeaderOf(at);
  if (header.kind != SegmentKind::kFree || header.bytes != bytes) return;  // from a time when the pool was frozen
  auto region = --regions_.upper_bound(at);
  char* const begin = region->first;
  const Region whole = region->second;
  const uint64_t before = static_cast<uint64_t>(at - begin);
  regions_.erase(region);
  if (before > 0) regions_[begin] = {whole.offset, before};
  if (before + bytes < whole.bytes) {
    regions_[at + bytes] = {whole.offset + before + bytes, whole.bytes - before - bytes};
  }
  const uint64_t offset = whole.offset + before;
  returned_[offset] = bytes;
  returned_bytes_ += bytes;
  file_->GiveBack(offset + kPoolPageBytes, bytes - kPoolPageBytes);
}

uint64_t DurablePool::returned_bytes() const {
  const MutexLock lock(&mutex_);
  return returned_bytes_;
}

Status DurablePool::Grow(uint64_t bytes, char* at) {
  const uint64_t offset = superblock_.file_bytes;
  Status s = CheckGrowth(bytes);
  if (s.ok()) s = file_->Extend(offset + bytes);
  if (s.ok()) s = file_->MapAt(at, offset, bytes);
  if (!s.ok()) return s;
  FormatFree(at, bytes);
  regions_[at] = {offset, bytes};
  // From here on the new segment must be whole.
  superblock_.file_bytes = offset + bytes;
  // The older copy first; then the other, so that either of them alone says enough. A writer is waiting, so nothing is
  // synced: of each copy only the first sector changes, and that is the old or the new one after a loss of power.
  for (int copy = 0; copy < 2; ++copy) StoreCopy(file_.get(), &superblock_);
  return s;
}

std::shared_ptr<SegmentPool> DurablePool::SharedCutter(const std::function<std::shared_ptr<SegmentPool>()>& make) {
  const MutexLock lock(&cutter_mutex_);
  std::shared_ptr<SegmentPool> cutter = cutter_.lock();
  if (cutter == nullptr) cutter_ = cutter = make();
  return cutter;
}

Status DurablePool::CheckGrowth(uint64_t bytes) const {
  const uint64_t limit = limit_.load(std::memory_order_relaxed);
  if (limit == 0 || superblock_.file_bytes - kSegmentsOffset - returned_bytes_ + bytes <= limit) return Status::OK();
  return Status::NoSpace("the limit is " + std::to_string(limit) + " bytes (pool_file_limit)");
}

void DurablePool::Fail(const Status& s) {
  const MutexLock lock(&mutex_);
  ++failures_;
  if (failed_.load(std::memory_order_relaxed)) return;
  failure_ = Status::NoSpace("the pool file " + file_->path() + " could not take a write, which is not durable yet",
                             s.ToString() + "; it takes writes again when the memtables have been flushed");
  failed_.store(true, std::memory_order_release);
}

void DurablePool::FailureEnded() {
  const MutexLock lock(&mutex_);
  if (--failures_ == 0) failed_.store(false, std::memory_order_release);
}

void DurablePool::CountFree(int64_t bytes, int full) {
  free_bytes_.fetch_add(bytes, std::memory_order_relaxed);
  full_users_.fetch_add(full, std::memory_order_release);
}

Status DurablePool::CheckRoom(uint64_t bytes) const {
  // Within what is kept free for such writes.
  constexpr uint64_t kSmall = 64 << 10;
  Status s = status();
  if (!s.ok()) return s;
  const bool full = full_users_.load(std::memory_order_acquire) > 0;
  if (!full && bytes <= kSmall) return s;
  const uint64_t wanted = 2 * bytes + Backing::kSpareBytes;
  if (free_bytes_.load(std::memory_order_relaxed) >= static_cast<int64_t>(wanted)) return s;
  {
    const MutexLock lock(&mutex_);
    s = full ? Status::NoSpace("it cannot grow") : CheckGrowth(wanted);
  }
  if (s.ok()) return s;
  return Status::NoSpace("the pool file " + file_->path() + " is full",
                         "make it or its file system larger, or see what keeps flushed memtables in memory (iterators, "
                         "snapshots of transactions): " +
                             std::string(s.getState() == nullptr ? "" : s.getState()));
}

bool DurablePool::HasRoomAgain() {
  char* const at = ReserveAligned(Backing::kSpareBytes);
  if (at == nullptr) return false;
  const Status s = status().ok() ? Take(Backing::kSpareBytes, at) : status();
  if (s.ok()) {
    for (uint64_t part = 0; part < Backing::kSpareBytes; part += Backing::kRegionBytes) {
      char* const segment = at + part;
      if (part + Backing::kRegionBytes < Backing::kSpareBytes) Split(segment, Backing::kRegionBytes);
    }
    for (uint64_t part = 0; part < Backing::kSpareBytes; part += Backing::kRegionBytes) {
      GiveBack(at + part, Backing::kRegionBytes);
    }
  }
  munmap(at, Backing::kSpareBytes);
  return s.ok();
}

Status DurablePool::status() const {
  if (sync_failed_.load(std::memory_order_acquire)) {
    const MutexLock lock(&sync_mutex_);
    return sync_error_;
  }
  if (!failed_.load(std::memory_order_acquire)) return Status::OK();
  const MutexLock lock(&mutex_);
  return failure_;
}

Status DurablePool::SyncTogether(bool asked) {
  if (!NeedsSync()) return Status::OK();
  const MutexLock lock(&sync_mutex_);
  client_asked_ = client_asked_ || asked;
  const uint64_t mine = ++syncs_asked_;
  ++syncs_waiting_;
  if (syncs_waiting_ >= sync_company_) sync_asked_.NotifyOne();
  while (sync_error_.ok() && syncs_covered_ < mine) {
    if (sync_runs_) {
      sync_ended_.Wait(&sync_mutex_);
      continue;
    }
    sync_runs_ = true;
    WaitForCompany();
    const uint64_t covers = syncs_asked_;
    const bool by_client = client_asked_;
    sync_mutex_.Unlock();
    const auto start = std::chrono::steady_clock::now();
    const Status s = SyncOnce(by_client);
    const auto took = std::chrono::steady_clock::now() - start;
    sync_mutex_.Lock();
    sync_runs_ = false;
    sync_takes_ = took;
    sync_company_ = syncs_waiting_;
    syncs_covered_ = covers;
    if (!s.ok()) {
      sync_error_ = s;
      sync_failed_.store(true, std::memory_order_release);
    }
    sync_ended_.NotifyAll();
  }
  --syncs_waiting_;
  return sync_error_;
}

// Those whom the last sync released will be back in a moment, if they write on: without waiting for them, those who
// came meanwhile would be synced alone, and every sync would serve half of the writers.
void DurablePool::WaitForCompany() {
  const auto until = std::chrono::steady_clock::now() + sync_takes_ / kCompanyPart;
  while (syncs_waiting_ < sync_company_ && sync_asked_.WaitUntil(&sync_mutex_, until)) {
  }
}

Status DurablePool::SyncOnce(bool asked) {
  syncs_.fetch_add(1);
  SyncRecord record;
  record.number = sync_number_.load() + 1;
  record.session = session_;
  record.asked = asked;
  // By (3), all up to here lies below the tails that are read next.
  record.sequence = acknowledged_.load(std::memory_order_acquire);
  const uint64_t marks = marks_stored_.load(std::memory_order_acquire);
  record.lines = StoreSyncLines(record.number);
  char* const to = file_->base() + kSyncRecordOffsets[record.number % 2];
  EncodeSyncRecord(record, to);
  file_->Persist(to, kSyncRecordBytes);
  const Status s = file_->Sync();
  if (s.ok()) {
    sync_number_.store(record.number);
    CountSyncLines();
    // By (10): before anybody is told.
    StoreWord(kReturnedSyncOffset, EncodeSequenceWord(ReturnedSync(session_, record.number)));
    marks_synced_.store(marks, std::memory_order_release);
  } else {
    // The next one takes the same places (8).
    sync_number_.store(record.number + 1);
    // The kernel may take the pages for clean now, and give up what is in them.
    TouchAllPages();
  }
  return s;
}

uint64_t DurablePool::StoreSyncLines(uint64_t number) {
  uint64_t lines = 0;
  const MutexLock lock(&unsynced_mutex_);
  for (auto& [segment, unsynced] : unsynced_) {
    const uint64_t word = TailWord(segment)->load(std::memory_order_acquire);
    if (EntriesOf(word) == EntriesOf(unsynced.word)) continue;
    const SegmentHeader header = HeaderOf(segment);
    SyncLine line;
    line.number = number;
    line.session = header.session;
    line.generation = header.generation;
    line.memtable = header.memtable;
    line.bytes = header.bytes;
    line.column_family = header.column_family;
    line.tail = static_cast<uint32_t>(TailOf(word));
    line.entries = static_cast<uint32_t>(EntriesOf(word));
    // Into the older line: the last sync that has returned may still be the one that counts.
    char* const to = segment + kSyncLineOffsets[unsynced.line];
    EncodeSyncLine(line, to);
    file_->Persist(to, kSyncLineBytes);
    unsynced.stored = word;
    ++lines;
  }
  return lines;
}

void DurablePool::CountSyncLines() {
  const MutexLock lock(&unsynced_mutex_);
  for (auto it = unsynced_.begin(); it != unsynced_.end();) {
    Unsynced& unsynced = it->second;
    if (unsynced.stored != 0) unsynced = {unsynced.stored, 1 - unsynced.line, 0};
    const uint64_t word = TailWord(it->first)->load(std::memory_order_acquire);
    const bool sealed = (word >> kTailBits & ((1U << kStateBits) - 1)) == kSealedState;
    it = sealed && EntriesOf(word) == EntriesOf(unsynced.word) ? unsynced_.erase(it) : std::next(it);
  }
}

void DurablePool::ClearSyncLines(char* segment) {
  for (const size_t offset : kSyncLineOffsets) memset(segment + offset, 0, kSyncLineBytes);
  file_->Persist(segment + kSyncLineOffsets[0], 2 * kSyncLineBytes);
}

void DurablePool::TouchAllPages() {
  const auto touch = [](char* begin, uint64_t bytes) {
    for (uint64_t at = 0; at < bytes; at += kPoolPageBytes) WordAt(begin + at)->fetch_add(0, std::memory_order_relaxed);
  };
  const MutexLock lock(&mutex_);
  touch(file_->base(), kSegmentsOffset);
  for (const auto& [at, region] : regions_) touch(at, region.bytes);
}

Status DurablePool::Resume() {
  if (!sync_failed_.load(std::memory_order_acquire)) return Status::OK();
  const MutexLock lock(&sync_mutex_);
  while (sync_runs_) sync_ended_.Wait(&sync_mutex_);
  if (sync_error_.ok()) return Status::OK();
  TouchAllPages();
  const Status s = SyncOnce(true);
  if (!s.ok()) return s;
  sync_error_ = Status::OK();
  sync_failed_.store(false, std::memory_order_release);
  return s;
}

Status DurablePool::SyncFlushMarks() {
  if (frozen_.load(std::memory_order_acquire)) return Status::OK();
  if (marks_synced_.load(std::memory_order_acquire) >= marks_stored_.load(std::memory_order_acquire)) {
    return Status::OK();
  }
  return SyncTogether(false);
}

Status DurablePool::BeforeFree(const std::vector<char*>& segments) {
  if (frozen_.load(std::memory_order_acquire) || !NeedsSync()) return Status::OK();
  bool unmarked = false;
  {
    const MutexLock lock(&unsynced_mutex_);
    for (char* segment : segments) {
      // Of a dropped column family: no sync line would tell.
      unsynced_.erase(segment);
      unmarked = unmarked || (EntriesOf(TailWord(segment)->load(std::memory_order_acquire)) > 0 &&
                              WordAt(segment + kFlushMarkOffset)->load(std::memory_order_acquire) == 0);
    }
  }
  return unmarked ? SyncTogether(false) : SyncFlushMarks();
}

DurablePool::SyncCounts DurablePool::sync_counts() const {
  const MutexLock lock(&sync_mutex_);
  return {syncs_asked_, syncs_.load(), syncs_waiting_};
}

bool DurablePool::EverythingFlushed() const {
  SegmentHeader header;
  int line = 0;
  for (const auto& [at, region] : regions_) {
    for (char* segment = at; segment < at + region.bytes; segment += header.bytes) {
      if (!DecodeSegmentHeader(segment, &header, &line)) return false;
      if (header.kind == SegmentKind::kLive && EntriesOf(TailWord(segment)->load(std::memory_order_acquire)) > 0 &&
          WordAt(segment + kFlushMarkOffset)->load(std::memory_order_acquire) == 0) {
        return false;
      }
    }
  }
  return true;
}

Status DurablePool::Finish() {
  assert(frozen_.load(std::memory_order_acquire));
  if (!file_->is_ours()) return Status::Busy(file_->path(), "is that of the process that this one was forked from");
  const Status s = armed_.load(std::memory_order_acquire) ? SyncOnce(false) : file_->Sync();
  const MutexLock lock(&mutex_);
  if (!s.ok() || !armed_.exchange(false) || failed_.load(std::memory_order_acquire) || !EverythingFlushed()) return s;
  superblock_.phase = PoolPhase::kIdle;
  return StoreSuperblock(file_.get(), &superblock_);
}

void DurablePool::StoreWord(size_t offset, uint64_t encoded) {
  // Several threads store; the largest stays. A damaged word is replaced, whatever number it seems to hold.
  std::atomic<uint64_t>* const word = WordAt(file_->base() + offset);
  uint64_t seen = word->load(std::memory_order_relaxed);
  uint64_t stored = 0;
  while ((seen & kSequenceMask) < (encoded & kSequenceMask) || !DecodeSequenceWord(seen, &stored)) {
    if (word->compare_exchange_weak(seen, encoded, std::memory_order_release, std::memory_order_relaxed)) break;
  }
  file_->Persist(word, sizeof(*word));
}

void DurablePool::Acknowledge(uint64_t sequence) {
  if (acknowledged_.load(std::memory_order_acquire) >= sequence) return;
  const uint64_t encoded = EncodeSequenceWord(sequence);
  StoreWord(kPublishedOffset, encoded);
  StoreWord(kPublishedAgainOffset, encoded);
  uint64_t seen = acknowledged_.load(std::memory_order_relaxed);
  while (seen < sequence && !acknowledged_.compare_exchange_weak(seen, sequence, std::memory_order_acq_rel)) {
  }
}

void DurablePool::AcknowledgeUpTo(uint64_t sequence) {
  // Seen by whoever was in that group: a failure comes before the entry's insertion, the sequence after it.
  if (!armed_.load(std::memory_order_acquire) || failed_.load(std::memory_order_acquire)) return;
  Acknowledge(sequence);
}

uint64_t DurablePool::AcknowledgeAll() {
  if (!armed_.load(std::memory_order_acquire) || held_.load(std::memory_order_acquire)) return 0;
  const uint64_t sequence = latest_();
  if (failed_.load(std::memory_order_acquire)) return 0;
  Acknowledge(sequence);
  return sequence;
}

SegmentHeader DurablePool::HeaderOf(const char* segment) const {
  SegmentHeader header;
  int line = 0;
  const bool valid = DecodeSegmentHeader(segment, &header, &line);
  assert(valid);
  (void)valid;
  return header;
}

// First into the line that does not count, so that one is whole at every moment; then into the other, so that either
// alone says what the segment is.
void DurablePool::WriteHeader(char* segment, SegmentHeader header) {
  SegmentHeader current;
  int line = 0;
  const bool valid = DecodeSegmentHeader(segment, &current, &line);
  assert(valid);
  (void)valid;
  header.version = current.version;
  header.session = session_;
  for (const int to : {1 - line, line}) {
    ++header.version;
    char bytes[kHeaderLineBytes];
    EncodeHeaderLine(header, bytes);
    memcpy(segment + to * kHeaderLineBytes, bytes, sizeof(bytes));
    file_->Persist(segment + to * kHeaderLineBytes, sizeof(bytes));
  }
}

void DurablePool::ResetTail(char* segment) {
  TailWord(segment)->store(PackTail(0, 0, kSegmentHeaderBytes), std::memory_order_release);
  WordAt(segment + kFlushMarkOffset)->store(0, std::memory_order_release);
  file_->Persist(segment + kTailWordOffset, 2 * sizeof(uint64_t));
}

char* DurablePool::Split(char* segment, uint64_t bytes) {
  if (frozen_.load(std::memory_order_acquire)) return segment + bytes;
  SegmentHeader header = HeaderOf(segment);
  assert(header.kind == SegmentKind::kFree && bytes % kPoolPageBytes == 0 && bytes > 0 && bytes < header.bytes);
  char* const second = segment + bytes;
  // Inside a free segment, until the first header says otherwise.
  FormatFree(second, header.bytes - bytes);
  header.bytes = bytes;
  WriteHeader(segment, header);
  return second;
}

void DurablePool::Join(char* segment) {
  if (frozen_.load(std::memory_order_acquire)) return;
  SegmentHeader header = HeaderOf(segment);
  const SegmentHeader next = HeaderOf(segment + header.bytes);
  assert(header.kind == SegmentKind::kFree && next.kind == SegmentKind::kFree);
  header.bytes += next.bytes;
  WriteHeader(segment, header);
}

void DurablePool::Claim(char* segment, uint64_t memtable, uint32_t column_family, uint32_t ordinal) {
  SegmentHeader header = HeaderOf(segment);
  assert(header.kind == SegmentKind::kFree);
  ResetTail(segment);
  ClearSyncLines(segment);
  header.kind = SegmentKind::kLive;
  header.generation = generations_.fetch_add(1, std::memory_order_relaxed) + 1;
  header.memtable = memtable;
  header.column_family = column_family;
  header.ordinal = ordinal;
  WriteHeader(segment, header);
  const MutexLock lock(&unsynced_mutex_);
  unsynced_[segment] = Unsynced();
}

void DurablePool::FinishEntry(char* segment, char* entry, uint32_t length) {
  // Both lines hold it; to decode one each time would cost a checksum.
  const uint64_t generation = rocksdb::DecodeFixed64(segment + kGenerationOffset);
  char* const at = entry - kEntryHeaderBytes;
  cairn::FinishEntry(generation, length, at);
  file_->Persist(at, EntryBytes(length));
}

void DurablePool::MarkFlushed(const std::vector<char*>& segments) {
  for (char* segment : segments) {
    const SegmentHeader header = HeaderOf(segment);
    WordAt(segment + kFlushMarkOffset)->store(FlushMark(header.session, header.generation), std::memory_order_release);
    file_->Persist(segment + kFlushMarkOffset, sizeof(uint64_t));
  }
  marks_stored_.fetch_add(1, std::memory_order_release);
}

char* DurablePool::TakeFree(char* begin, uint64_t length, uint64_t bytes) {
  SegmentHeader header;
  for (char* at = begin; at < begin + length && !frozen_.load(std::memory_order_acquire); at += header.bytes) {
    header = HeaderOf(at);
    if (header.kind != SegmentKind::kFree) continue;
    while (at + header.bytes < begin + length) {
      const SegmentHeader next = HeaderOf(at + header.bytes);
      if (next.kind != SegmentKind::kFree) break;
      Join(at);
      header.bytes += next.bytes;
    }
    if (header.bytes < bytes) continue;
    if (header.bytes > bytes) Split(at, bytes);
    return at;
  }
  return nullptr;
}

Status DurablePool::MapAs(char* segment, char* other, uint64_t bytes) {
  const MutexLock lock(&mutex_);
  const auto& [begin, region] = *--regions_.upper_bound(other);
  return file_->MapAt(segment, region.offset + static_cast<uint64_t>(other - begin), bytes);
}

bool DurablePool::MoveHome(char* segment, uint64_t used, uint64_t bytes) {
  char* const home = ReserveAligned(bytes);
  if (home == nullptr) return false;
  bool moved = MapAs(home, segment, bytes).ok();
  if (moved) {
    CopyPastCache(home + kSegmentHeaderBytes, segment + kSegmentHeaderBytes, used - kSegmentHeaderBytes);
    const uint64_t word = TailWord(segment)->load(std::memory_order_relaxed);
    TailWord(home)->store(word, std::memory_order_release);
    file_->Persist(home + kTailWordOffset, sizeof(word));
    SegmentHeader header = HeaderOf(segment);
    assert(header.bytes == bytes && HeaderOf(home).bytes == bytes);
    WriteHeader(home, header);
    moved = MapAs(segment, segment, bytes).ok();
    if (!moved) {
      header.kind = SegmentKind::kFree;
      WriteHeader(home, header);
    }
  }
  munmap(home, bytes);
  return moved;
}

bool DurablePool::Free(char* segment) {
  if (frozen_.load(std::memory_order_acquire)) return false;
  FreeMoved(segment);
  return true;
}

void DurablePool::FreeMoved(char* segment) {
  {
    const MutexLock lock(&unsynced_mutex_);
    unsynced_.erase(segment);
  }
  SegmentHeader header = HeaderOf(segment);
  header.kind = SegmentKind::kFree;
  header.memtable = 0;
  header.column_family = 0;
  header.ordinal = 0;
  WriteHeader(segment, header);
  ResetTail(segment);
  ClearSyncLines(segment);
}

}  // namespace cairn
