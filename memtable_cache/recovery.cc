#include "memtable_cache/recovery.h"

#include <algorithm>
#include <map>
#include <unordered_map>

#include "memtable_cache/durable.h"
#include "util/boot_number.h"
#include "util/coding.h"
#include "util/format_version.h"
#include "util/rocksdb_names.h"

namespace cairn {

namespace {

Status Damaged(const PmemFile& file, uint64_t offset, const std::string& what) {
  return Status::Corruption(file.path() + " at offset " + std::to_string(offset),
                            what + "; `cairn recover --discard` gives up what the pool file holds");
}

uint64_t WordAt(const PmemFile& file, uint64_t offset) { return rocksdb::DecodeFixed64(file.base() + offset); }

// A live segment whose entries have all been checked.
struct Segment {
  SegmentHeader header;
  uint64_t offset = 0;
  bool marked = false;
  bool has_more = false;  // a published entry lies behind the tail
  std::vector<PoolEntry> entries;
};

// Reads the file as it is while its writer lives: everything must be there.
class PoolReader {
 public:
  PoolReader(const PmemFile& file, const Superblock& superblock) : file_(file), superblock_(superblock) {}

  Status Read() {
    Status s = ReadPublished();
    if (s.ok() && superblock_.file_bytes > file_.bytes()) {
      s = Damaged(file_, file_.bytes(),
                  "the pool file has " + std::to_string(file_.bytes()) + " bytes instead of " +
                      std::to_string(superblock_.file_bytes));
    }
    uint64_t offset = kSegmentsOffset;
    while (s.ok() && offset < superblock_.file_bytes) {
      uint64_t bytes = 0;
      s = ReadSegment(offset, &bytes);
      offset += bytes;
    }
    LeaveOutCopies();
    return s;
  }

  uint64_t published() const { return published_; }
  std::vector<Segment>& segments() { return segments_; }

 private:
  // By (11), segments of one generation hold the same.
  void LeaveOutCopies() {
    std::vector<Segment> all;
    all.swap(segments_);
    std::unordered_map<uint64_t, size_t> places;  // by generation
    for (Segment& segment : all) {
      const auto [place, is_first] = places.emplace(segment.header.generation, segments_.size());
      if (is_first) {
        segments_.push_back(std::move(segment));
      } else {
        segments_[place->second].marked |= segment.marked;
      }
    }
  }

  Status ReadPublished() {
    uint64_t both[2] = {0, 0};
    const size_t offsets[2] = {kPublishedOffset, kPublishedAgainOffset};
    for (int i = 0; i < 2; ++i) {
      if (!DecodeSequenceWord(WordAt(file_, offsets[i]), &both[i])) {
        return Damaged(file_, offsets[i], "the published sequence is damaged");
      }
    }
    // Killed between the two: both are ends of write groups.
    published_ = std::max(both[0], both[1]);
    if (published_ < superblock_.first_sequence) {
      return Damaged(file_, kPublishedOffset, "the published sequence lies before the session's first");
    }
    return Status::OK();
  }

  Status ReadSegment(uint64_t offset, uint64_t* bytes) {
    if (superblock_.file_bytes - offset < kSegmentHeaderBytes)
      return Damaged(file_, offset, "the segments do not tile the file");
    const char* const at = file_.base() + offset;
    SegmentHeader header;
    int line = 0;
    if (!DecodeSegmentHeader(at, &header, &line)) return Damaged(file_, offset, "a segment's header is damaged");
    if (header.session != superblock_.session) return Damaged(file_, offset, "a segment belongs to another session");
    if (header.bytes < kSegmentHeaderBytes || header.bytes % kPoolPageBytes != 0 ||
        header.bytes > superblock_.file_bytes - offset) {
      return Damaged(file_, offset, "a segment's size cannot be");
    }
    *bytes = header.bytes;
    if (header.kind == SegmentKind::kFree) return Status::OK();
    return ReadEntries(offset, header, WordAt(file_, offset + kTailWordOffset));
  }

 protected:
  // Of the segment at `offset`, up to the tail that `word` says.
  Status ReadEntries(uint64_t offset, const SegmentHeader& header, uint64_t word) {
    // A segment of one entry that is longer than a tail can say.
    const bool oversize = TailOf(word) == kMaxSegmentBytes && EntriesOf(word) == 1;
    uint64_t tail = TailOf(word);
    if (oversize) tail = std::min<uint64_t>(header.bytes, kSegmentHeaderBytes + OversizeBytes(offset));
    if (tail < kSegmentHeaderBytes || tail > header.bytes || tail % 8 != 0) {
      return Damaged(file_, offset + kTailWordOffset, "a segment's tail cannot be");
    }
    Segment segment;
    segment.header = header;
    segment.offset = offset;
    const uint64_t mark = WordAt(file_, offset + kFlushMarkOffset);
    segment.marked = mark == FlushMark(header.session, header.generation);
    if (!segment.marked && mark != 0) return Damaged(file_, offset + kFlushMarkOffset, "a flush mark is damaged");
    uint64_t at = kSegmentHeaderBytes;
    while (at < tail) {
      PoolEntry entry;
      uint64_t length = 0;
      if (!ReadEntry(offset, header, at, tail, &entry, &length)) {
        return Damaged(file_, offset + at, "an entry of the pool is damaged");
      }
      segment.entries.push_back(entry);
      at += length;
    }
    if (segment.entries.size() != EntriesOf(word)) {
      return Damaged(file_, offset + kTailWordOffset,
                     "a segment counts " + std::to_string(EntriesOf(word)) + " entries and holds " +
                         std::to_string(segment.entries.size()));
    }
    // What is published lies below the tail: such an entry above it means that the tail is not what it was.
    PoolEntry next;
    uint64_t length = 0;
    segment.has_more = ReadEntry(offset, header, tail, header.bytes, &next, &length) && next.sequence <= published_;
    segments_.push_back(std::move(segment));
    return Status::OK();
  }

  const PmemFile& file_;
  const Superblock& superblock_;
  uint64_t published_ = 0;
  std::vector<Segment> segments_;

 private:
  // What an oversize segment's entry takes; damage shows when it is read.
  uint64_t OversizeBytes(uint64_t offset) {
    return EntryBytes(rocksdb::DecodeFixed32(file_.base() + offset + kSegmentHeaderBytes));
  }

  bool ReadEntry(uint64_t offset, const SegmentHeader& header, uint64_t at, uint64_t end, PoolEntry* entry,
                 uint64_t* bytes) {
    Slice encoded;
    EntryParts parts;
    if (!DecodeEntry(header.generation, file_.base() + offset + at, end - at, &encoded) ||
        !SplitEntry(encoded, &parts)) {
      return false;
    }
    entry->sequence = parts.sequence;
    entry->column_family = header.column_family;
    entry->type = parts.type;
    entry->key = parts.user_key;
    entry->value = parts.value;
    *bytes = EntryBytes(encoded.size());
    return true;
  }
};

// Reads what a sync has covered, whatever reached the medium of what came after it: segments are found by their sync
// lines, not by those before them.
class SyncedReader : public PoolReader {
 public:
  SyncedReader(const PmemFile& file, const Superblock& superblock, const DatabaseFacts& database)
      : PoolReader(file, superblock), database_(database) {}

  Status Read(const SyncRecord& record) {
    published_ = record.sequence;
    if (file_.bytes() < kSegmentsOffset) return Damaged(file_, file_.bytes(), "the pool file is cut off");
    Status s;
    const uint64_t end = file_.bytes() - std::min<uint64_t>(file_.bytes(), kPoolPageBytes);
    uint64_t lines = 0;
    for (uint64_t offset = kSegmentsOffset; s.ok() && offset <= end; offset += kPoolPageBytes) {
      SyncLine line;
      if (!FindLine(offset, record.number, &line)) continue;
      lines += line.number == record.number ? 1 : 0;
      s = ReadSegmentOf(line, offset);
    }
    if (s.ok() && lines != record.lines) {
      s = Damaged(file_, kSyncRecordOffsets[record.number % 2],
                  "the last sync told of " + std::to_string(record.lines) + " segments, of which " +
                      std::to_string(lines) + " are there");
    }
    return s;
  }

 private:
  // The newest line that is not newer than the sync.
  bool FindLine(uint64_t offset, uint64_t number, SyncLine* line) const {
    bool found = false;
    for (const size_t at : kSyncLineOffsets) {
      SyncLine candidate;
      if (!DecodeSyncLine(file_.base() + offset + at, &candidate) || candidate.session != superblock_.session ||
          candidate.number > number || (found && candidate.number < line->number)) {
        continue;
      }
      *line = candidate;
      found = true;
    }
    return found;
  }

  Status ReadSegmentOf(const SyncLine& line, uint64_t offset) {
    Segment segment;
    segment.header.session = line.session;
    segment.header.generation = line.generation;
    segment.header.memtable = line.memtable;
    segment.header.bytes = line.bytes;
    segment.header.column_family = line.column_family;
    segment.header.kind = SegmentKind::kLive;
    segment.offset = offset;
    segment.marked = WordAt(file_, offset + kFlushMarkOffset) == FlushMark(line.session, line.generation);
    if (!segment.marked && !database_.HasColumnFamily(line.column_family)) return Status::OK();
    Status s;
    if (line.bytes > file_.bytes() - offset) s = Damaged(file_, offset, "a synced segment is cut off");
    if (s.ok()) s = ReadEntries(offset, segment.header, PackTail(line.entries, 0, line.tail));
    // What lies behind the synced tail was not covered.
    if (s.ok()) segments_.back().has_more = false;
    if (!segment.marked || s.ok()) return s;
    // Its bytes are of another segment by now. Then the marks of all memtables of its table are there, by (9); until
    // then it takes its entries to know that those before it are in the table, too.
    segments_.push_back(segment);
    return Status::OK();
  }

  const DatabaseFacts& database_;
};

// Which memtables are in tables: those with a flush mark, those that hold a sequence at which a table ends, and by
// their order all that are older, because RocksDB records the flushes of a column family in the order of its memtables,
// several as one table or each as its own. After a repair, only flush marks tell of an order.
class FlushedMemtables {
 public:
  FlushedMemtables(const std::vector<Segment>& segments, uint64_t first_sequence, const DatabaseFacts& database) {
    for (const Segment& segment : segments) {
      Memtable& memtable = memtables_[segment.header.memtable];
      memtable.column_family = segment.header.column_family;
      memtable.marked = memtable.marked || segment.marked;
      memtable.flushed = memtable.flushed || segment.marked;
      for (const PoolEntry& entry : segment.entries) {
        if (entry.sequence <= first_sequence) continue;
        memtable.smallest = std::min(memtable.smallest, entry.sequence);
        memtable.flushed = memtable.flushed || database.TableEndsWith(memtable.column_family, entry.sequence);
      }
    }
    std::map<uint32_t, uint64_t> newest;  // smallest sequence of the newest that is flushed, by column family
    const bool in_order = database.TablesAreInOrder();
    for (const auto& [id, memtable] : memtables_) {
      if (!(in_order ? memtable.flushed : memtable.marked) || memtable.smallest == kNoSequence) continue;
      uint64_t& of_family = newest[memtable.column_family];
      of_family = std::max(of_family, memtable.smallest);
    }
    for (auto& [id, memtable] : memtables_) {
      const auto found = newest.find(memtable.column_family);
      if (found != newest.end() && memtable.smallest <= found->second) memtable.flushed = true;
      if (memtable.flushed || in_order || memtable.smallest == kNoSequence) continue;
      memtable.flushed = database.TableHolds(memtable.column_family, memtable.smallest);
    }
  }

  // REQUIRES: one of the segments is of this memtable.
  bool Contains(uint64_t memtable) const { return memtables_.at(memtable).flushed; }

 private:
  static constexpr uint64_t kNoSequence = UINT64_MAX;

  struct Memtable {
    uint32_t column_family = 0;
    uint64_t smallest = kNoSequence;  // of its entries that are not of before the session
    bool marked = false;
    bool flushed = false;
  };

  std::map<uint64_t, Memtable> memtables_;
};

}  // namespace

std::string PoolCounts::ToString() const {
  return std::to_string(replayed) + " writes (" + std::to_string(replayed_bytes) + " bytes) recovered from " +
         std::to_string(segments) + " segments; left out: " + std::to_string(flushed) + " already in tables, " +
         std::to_string(unacknowledged) + " never acknowledged, " + std::to_string(dropped_family) +
         " of dropped column families, " + std::to_string(older) + " of before" +
         (reason.empty() ? ""
                         : "; this is the database as of its last sync, sequence " + std::to_string(synced) + ": " +
                               std::to_string(given_up) + " later writes or more are lost, because " + reason);
}

Status ReadSuperblock(const PmemFile& file, Superblock* superblock) {
  if (file.bytes() >= kSegmentsOffset) {
    Superblock copies[2];
    bool valid[2];
    for (int i = 0; i < 2; ++i) valid[i] = DecodeSuperblock(file.base() + i * kPoolPageBytes, &copies[i]);
    if (valid[0] || valid[1]) {
      *superblock = copies[!valid[0] || (valid[1] && copies[1].edition > copies[0].edition) ? 1 : 0];
      // A file may be longer: it grows before the superblock says so.
      return Status::OK();
    }
  }
  const char* const begin = file.base();
  const char* const end = begin + std::min<uint64_t>(file.bytes(), kSegmentsOffset);
  if (std::all_of(begin, end, [](char c) { return c == 0; })) {
    if (file.is_new()) return Status::NotFound(file.path(), "is new");
    // A pool file whose making was interrupted is all zeros; one that has lost its first pages is not.
    const char* const rest_end = begin + file.bytes();
    if (std::all_of(end, rest_end, [](char c) { return c == 0; })) return Status::NotFound(file.path(), "is empty");
  }
  if (file.bytes() >= kSegmentsOffset) {
    const uint64_t version = PoolVersion(begin);
    // Both copies have it, so it is not damage.
    if (version > kPoolVersion && version == PoolVersion(begin + kPoolPageBytes)) {
      return Status::NotSupported(file.path(), "is a pool file of " + UnknownVersion(version, kPoolVersion));
    }
  }
  return Damaged(file, 0, "this is no pool file, or its first pages are damaged");
}

Status ReadNewestTable(const PmemFile& file, uint64_t* number) {
  return DecodeSequenceWord(WordAt(file, kNewestTableOffset), number)
             ? Status::OK()
             : Damaged(file, kNewestTableOffset, "the newest table's number is damaged");
}

namespace {

// The sync records of the session, the newer first.
std::vector<SyncRecord> ReadSyncRecords(const PmemFile& file, const Superblock& superblock) {
  std::vector<SyncRecord> records;
  for (const size_t offset : kSyncRecordOffsets) {
    SyncRecord record;
    if (file.bytes() < kSegmentsOffset || !DecodeSyncRecord(file.base() + offset, &record) ||
        record.session != superblock.session) {
      continue;
    }
    records.push_back(record);
  }
  std::sort(records.begin(), records.end(),
            [](const SyncRecord& a, const SyncRecord& b) { return a.number > b.number; });
  return records;
}

// Of what was read, what is to be replayed.
Status Select(const PmemFile& file, const Superblock& superblock, const DatabaseFacts& database, PoolReader* reader,
              std::vector<PoolEntry>* entries, PoolCounts* counts) {
  entries->clear();
  *counts = PoolCounts();
  const FlushedMemtables flushed(reader->segments(), superblock.first_sequence, database);
  counts->segments = reader->segments().size();
  for (const Segment& segment : reader->segments()) {
    if (segment.has_more) {
      entries->clear();
      return Damaged(file, segment.offset + kTailWordOffset, "a published entry lies behind a segment's tail");
    }
    const bool in_table = flushed.Contains(segment.header.memtable);
    const bool dropped = !database.HasColumnFamily(segment.header.column_family);
    for (const PoolEntry& entry : segment.entries) {
      if (entry.sequence <= superblock.first_sequence) {
        ++counts->older;
      } else if (entry.sequence > reader->published()) {
        ++counts->unacknowledged;
      } else if (in_table) {
        ++counts->flushed;
      } else if (dropped) {
        ++counts->dropped_family;
      } else {
        ++counts->replayed;
        counts->replayed_bytes += entry.key.size() + entry.value.size();
        entries->push_back(entry);
      }
    }
  }
  std::sort(entries->begin(), entries->end(),
            [](const PoolEntry& a, const PoolEntry& b) { return a.sequence < b.sequence; });
  for (size_t i = 1; i < entries->size(); ++i) {
    if ((*entries)[i].sequence != (*entries)[i - 1].sequence) continue;
    const uint64_t offset = static_cast<uint64_t>((*entries)[i].key.data() - file.base());
    const uint64_t sequence = (*entries)[i].sequence;
    entries->clear();
    return Damaged(file, offset, "two entries have the sequence " + std::to_string(sequence));
  }
  return Status::OK();
}

// Whether there is an entry for each sequence above `synced` that was published.
bool IsComplete(PoolReader* reader, uint64_t synced) {
  std::vector<uint64_t> sequences;
  for (const Segment& segment : reader->segments()) {
    for (const PoolEntry& entry : segment.entries) {
      if (entry.sequence > synced && entry.sequence <= reader->published()) sequences.push_back(entry.sequence);
    }
  }
  std::sort(sequences.begin(), sequences.end());
  const auto end = std::unique(sequences.begin(), sequences.end());
  return static_cast<uint64_t>(end - sequences.begin()) == reader->published() - std::min(synced, reader->published());
}

}  // namespace

Status ReadPool(const PmemFile& file, const Superblock& superblock, const DatabaseFacts& database,
                std::vector<PoolEntry>* entries, PoolCounts* counts) {
  PoolReader reader(file, superblock);
  Status s = reader.Read();
  if (s.ok()) s = Select(file, superblock, database, &reader, entries, counts);
  if (!s.ok()) entries->clear();
  if (file.on_persistent_memory()) return s;

  const std::vector<SyncRecord> records = ReadSyncRecords(file, superblock);
  uint64_t returned = 0;
  if (!DecodeSequenceWord(WordAt(file, kReturnedSyncOffset), &returned)) returned = 0;
  // By (10), the newest record would be newer.
  const bool record_lost = HasReturned(returned, superblock.session, records.empty() ? 1 : records[0].number + 1);
  // In the boot of the session, the page cache had everything, and only damage can be the reason.
  const bool lost_power = superblock.boot == 0 || superblock.boot != BootNumber();
  if (records.empty() && !(record_lost && lost_power)) return s;
  // Of the newer of two syncs nobody knows whether it has returned.
  const uint64_t surely = records.size() == 2 ? records[1].sequence : superblock.first_sequence;
  if (s.ok() && (!lost_power || IsComplete(&reader, surely))) return s;
  if (record_lost) {
    entries->clear();
    return s.ok() ? Damaged(file, kSyncRecordOffsets[0], "the record of the last sync is damaged") : s;
  }
  if (!s.ok() && !lost_power && !records[0].asked) return s;
  const std::string reason = s.ok() ? "the machine went down before they had all reached " + file.path() : s.ToString();
  const uint64_t published = reader.published();
  // Of a sync that had not returned, not all may be there. The one before had returned, and so had one that (10) tells
  // of: then what is missing is damaged.
  for (const SyncRecord& record : records) {
    SyncedReader synced(file, superblock, database);
    s = synced.Read(record);
    if (s.ok()) s = Select(file, superblock, database, &synced, entries, counts);
    if (!s.ok() && HasReturned(returned, superblock.session, record.number)) break;
    if (!s.ok()) continue;
    counts->reason = reason;
    counts->synced = record.sequence;
    counts->given_up = published - std::min(published, record.sequence);
    return s;
  }
  entries->clear();
  return s;
}

}  // namespace cairn
