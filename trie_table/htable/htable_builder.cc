#include "trie_table/htable/htable_builder.h"

#include <algorithm>
#include <utility>

#include "db/dbformat.h"
#include "monitoring/statistics_impl.h"
#include "options/options_helper.h"
#include "rocksdb/convenience.h"
#include "rocksdb/merge_operator.h"
#include "rocksdb/port/foreign_footer.h"
#include "rocksdb/port/table_properties.h"
#include "table/format.h"
#include "util/checksum.h"
#include "util/rocksdb_names.h"
#include "util/stop_watch.h"

namespace cairn {

namespace {

constexpr uint32_t kFooterVersion = 5;
// A compressed bucket's payload: offsets have 2 bytes.
constexpr size_t kMaxPayload = 60000;
constexpr double kGoodFit = 0.94;  // of a compressed bucket, at which no more is tried
constexpr int kFitTries = 4;
constexpr size_t kMaxUnitBytes = UINT32_MAX - (1 << 20);

}  // namespace

HTableBuilder::HTableBuilder(const HTableOptions& table_options, const KeyHash& hash,
                             const rocksdb::TableBuilderOptions& options, std::unique_ptr<TableFilterBuilder> filter,
                             rocksdb::WritableFileWriter* file)
    : table_options_(table_options),
      hash_(hash),
      ioptions_(options.ioptions),
      write_options_(options.write_options),
      file_(file),
      filter_(std::move(filter)),
      compressor_(options.compression_type, options.compression_opts) {
  if (options.internal_tbl_prop_coll_factories != nullptr) {
    for (const auto& factory : *options.internal_tbl_prop_coll_factories) {
      std::unique_ptr<rocksdb::InternalTblPropColl> collector(factory->CreateInternalTblPropColl(
          options.column_family_id, options.level_at_creation, options.ioptions.num_levels,
          options.last_level_inclusive_max_seqno_threshold));
      if (collector != nullptr) collectors_.push_back(std::move(collector));
    }
  }
  props_.column_family_id = options.column_family_id;
  props_.column_family_name = options.column_family_name;
  props_.oldest_key_time = options.oldest_key_time;
  props_.newest_key_time = options.newest_key_time;
  props_.file_creation_time = options.file_creation_time;
  props_.orig_file_number = options.cur_file_num;
  props_.db_id = options.db_id;
  props_.db_session_id = options.db_session_id;
  props_.db_host_id = options.ioptions.db_host_id;
  rocksdb::ReifyDbHostIdProperty(options.ioptions.env, &props_.db_host_id).PermitUncheckedError();
  props_.format_version = kFooterVersion;
  props_.key_largest_seqno = 0;
  header_.bucket_size = table_options.bucket_size;
  if (compressor_.TrainingBytes() > 0) {
    // As RocksDB does: the whole table, or as much as the limit says.
    const uint64_t limit = options.compression_opts.max_dict_buffer_bytes;
    const uint64_t target = options.target_file_size == 0 ? UINT64_MAX : options.target_file_size;
    train_limit_ = limit == 0 ? target : std::min(limit, target);
  }
  status_.PermitUncheckedError();
  io_status_.PermitUncheckedError();
}

HTableBuilder::~HTableBuilder() = default;

void HTableBuilder::CountEntry(const Slice& key, const Slice& value, const rocksdb::ParsedInternalKey& parsed) {
  ++props_.num_entries;
  props_.raw_key_size += key.size();
  props_.raw_value_size += value.size();
  port::CountSequence(parsed.sequence, &props_);
  switch (parsed.type) {
    case rocksdb::kTypeDeletion:
    case rocksdb::kTypeSingleDeletion:
      ++props_.num_deletions;
      break;
    case rocksdb::kTypeMerge:
      ++props_.num_merge_operands;
      break;
    default:
      break;
  }
  rocksdb::NotifyCollectTableCollectorsOnAdd(key, value, offset_, collectors_, ioptions_.logger);
}

void HTableBuilder::Add(const Slice& key, const Slice& value) {
  if (!status_.ok()) return;
  rocksdb::ParsedInternalKey parsed;
  status_ = rocksdb::ParseInternalKey(key, &parsed, false);
  if (!status_.ok()) return;
  if (!rocksdb::IsValueType(parsed.type) || parsed.type > 31) {
    status_ = Status::NotSupported("cairn.HTable: an entry of type " + std::to_string(parsed.type),
                                   "range deletions have no meaning in hash order");
    return;
  }
  if (key.size() + value.size() > kMaxUnitBytes) {
    status_ = Status::NotSupported("cairn.HTable: key and value take 4 GiB or more");
    return;
  }
  CountEntry(key, value, parsed);

  const uint64_t hash = hash_(parsed.user_key);
  if (cells_.size() == first_cell_ || hash != last_hash_) {
    WriteGroups(GroupEnd::kMoreFollows);
    if (header_.cells++ == 0) header_.first_hash = hash;
    filter_->Add(hash);
    cells_.push_back({hash, entries_.size(), 0, 0});
    last_hash_ = hash;
  }
  PendingCell& cell = cells_.back();
  ++cell.entries;
  const size_t bytes = parsed.user_key.size() + value.size() + 8;
  cell.bytes += bytes;
  pending_bytes_ += bytes;
  Entry entry;
  entry.start = arena_base_ + arena_.size();
  entry.key_size = static_cast<uint32_t>(parsed.user_key.size());
  entry.value_size = value.size();
  entry.seq = parsed.sequence;
  entry.type = parsed.type;
  entries_.push_back(entry);
  arena_.append(parsed.user_key.data(), parsed.user_key.size());
  arena_.append(value.data(), value.size());
}

uint64_t HTableBuilder::EstimatedFileSize() const {
  // A 16th for what buckets leave empty and for what lies behind them. Asked for after each entry.
  const bool compressed = compressor_.type() != rocksdb::kNoCompression;
  const uint64_t pending = compressed ? static_cast<uint64_t>(static_cast<double>(pending_bytes_) / ratio_ * 17 / 16)
                                      : pending_bytes_ + pending_bytes_ / 16;
  return offset_ + pending + filter_->EstimatedBytes();
}

UnitEntry HTableBuilder::EntryAt(size_t i) const {
  const Entry& entry = entries_[i];
  const char* const bytes = arena_.data() + (entry.start - arena_base_);
  UnitEntry unit_entry;
  unit_entry.key = std::string_view(bytes, entry.key_size);
  unit_entry.value = std::string_view(bytes + entry.key_size, entry.value_size);
  unit_entry.seq = entry.seq;
  unit_entry.type = entry.type;
  return unit_entry;
}

void HTableBuilder::WriteGroups(GroupEnd end) {
  if (IsTraining()) {
    if (end == GroupEnd::kMoreFollows && pending_bytes_ < train_limit_) return;
    TrainDictionary();
  }
  const double target = static_cast<double>(BucketCapacity(table_options_.bucket_size)) * table_options_.group_buckets;
  while (status_.ok() && first_cell_ < cells_.size() &&
         (end == GroupEnd::kLast || static_cast<double>(pending_bytes_) >= target * ratio_)) {
    WriteGroup(end);
  }
}

std::vector<Cell> HTableBuilder::TakeCells(uint64_t* base_seq) const {
  const double target = static_cast<double>(BucketCapacity(table_options_.bucket_size)) * table_options_.group_buckets;
  std::vector<Cell> cells;
  cells.reserve(cells_.size() - first_cell_);
  double bytes = 0;
  *base_seq = UINT64_MAX;
  for (size_t i = first_cell_; i < cells_.size() && bytes < target * ratio_; ++i) {
    const PendingCell& pending = cells_[i];
    bytes += static_cast<double>(pending.bytes);
    cells.push_back({pending.hash, 0, pending.entries});
    for (size_t e = 0; e < pending.entries; ++e) *base_seq = std::min(*base_seq, entries_[pending.first_entry + e].seq);
  }
  for (size_t i = 0; i < cells.size(); ++i) {
    const PendingCell& pending = cells_[first_cell_ + i];
    for (size_t e = 0; e < pending.entries; ++e) {
      cells[i].bytes += UnitEntrySize(EntryAt(pending.first_entry + e), *base_seq);
    }
  }
  return cells;
}

GroupLayout HTableBuilder::LayOut(const std::vector<Cell>& cells, uint64_t base_seq, GroupEnd end) {
  LayoutOptions options;
  options.max_entries = kMaxUnitEntries;
  if (compressor_.type() == rocksdb::kNoCompression) {
    options.capacity = BucketCapacity(table_options_.bucket_size);
    options.spill_threshold = options.capacity / 16;
    return LayOutGroup(cells, options, end);
  }
  options.capacity = kMaxPayload - kUnitPrefixSize;
  options.spill_threshold = SIZE_MAX;
  return LayOutCompressedGroup(
      cells, options, end, [&](const std::vector<uint32_t>& home_cells, const std::vector<size_t>& ends, size_t first) {
        return FitCompressed(cells, base_seq, home_cells, ends, first);
      });
}

size_t HTableBuilder::FitCompressed(const std::vector<Cell>& cells, uint64_t base_seq,
                                    const std::vector<uint32_t>& home_cells, const std::vector<size_t>& ends,
                                    size_t first) {
  const size_t room = table_options_.bucket_size - kUnitHeaderSize;
  const size_t first_end = static_cast<size_t>(std::upper_bound(ends.begin(), ends.end(), first) - ends.begin());
  size_t goal = static_cast<size_t>(static_cast<double>(room) * ratio_ * 0.98);
  size_t best = first;
  double best_ratio = ratio_;
  for (int tries = 0; tries < kFitTries; ++tries) {
    size_t bytes = kUnitPrefixSize, at = first, end = first_end;
    for (size_t e = first_end; e < ends.size(); ++e) {
      size_t more = 0;
      for (size_t i = at; i < ends[e] && more <= kMaxPayload; ++i) more += cells[home_cells[i]].bytes;
      if (bytes + more > (e == first_end ? kMaxPayload : std::min(goal, kMaxPayload))) break;
      bytes += more;
      at = ends[e];
      end = e;
    }
    if (at == first || at <= best) break;
    unit_.Start(base_seq, UnitBuilder::Offsets::kNarrow);
    for (size_t i = first; i < at; ++i) AddCell(first_cell_ + home_cells[i], &unit_);
    UnitHeader fields;
    const std::string& bytes_stored = CompressPayload(unit_, &fields);
    const size_t stored = bytes_stored.size();
    const double ratio = static_cast<double>(payload_.size()) / static_cast<double>(stored);
    if (stored <= room) {
      best = at;
      best_ratio = ratio;
      fitted_[home_cells[first]] = {at - first, fields, bytes_stored};
      if (end + 1 == ends.size() || static_cast<double>(stored) >= kGoodFit * static_cast<double>(room)) break;
      goal = static_cast<size_t>(static_cast<double>(room) * ratio * 0.99);
    } else {
      if (best > first || end == first_end) break;
      goal = std::min(static_cast<size_t>(static_cast<double>(room) * ratio * 0.97), bytes - 1);
    }
  }
  ratio_ = 0.75 * ratio_ + 0.25 * best_ratio;
  return best;
}

void HTableBuilder::AddCell(size_t pending_cell, UnitBuilder* unit) const {
  const PendingCell& cell = cells_[pending_cell];
  for (size_t e = 0; e < cell.entries; ++e) unit->Add(cell.hash, EntryAt(cell.first_entry + e));
}

void HTableBuilder::WriteGroup(GroupEnd end) {
  fitted_.clear();
  uint64_t base_seq = 0;
  const std::vector<Cell> cells = TakeCells(&base_seq);
  const GroupEnd group_end =
      end == GroupEnd::kLast && first_cell_ + cells.size() == cells_.size() ? GroupEnd::kLast : GroupEnd::kMoreFollows;
  const GroupLayout layout = LayOut(cells, base_seq, group_end);

  GroupPlan group;
  group.first = cells.front().hash;
  group.first_bucket = static_cast<uint32_t>(offset_ / table_options_.bucket_size);
  group.spill_buckets = static_cast<uint16_t>(layout.spills.size());
  group.shift = layout.shift;
  group.bounds = layout.bounds;
  out_.clear();
  for (const auto& home : layout.homes) AppendBucket(home, base_seq);
  for (size_t bucket = 0; bucket < layout.spills.size(); ++bucket) {
    AppendBucket(layout.spills[bucket], base_seq);
    for (uint32_t cell : layout.spills[bucket]) {
      const uint64_t hash = cells[cell].hash;
      group.spills.push_back(StepOf(hash, group.first, group.shift) << 16 | uint32_t{TagOf(hash)} << 8 |
                             static_cast<uint32_t>(bucket));
    }
    header_.spills += layout.spills[bucket].size();
  }
  std::sort(group.spills.begin(), group.spills.end());
  for (uint32_t cell : layout.extents) AppendExtents(cell);
  const size_t past = out_.size() % table_options_.bucket_size;
  if (past != 0) out_.append(table_options_.bucket_size - past, '\0');
  header_.homes += layout.homes.size();
  header_.spill_buckets += layout.spills.size();
  groups_.push_back(std::move(group));
  Append(out_);
  CountWritten();
  DropPending(layout.cells);
}

void HTableBuilder::AppendBucket(const std::vector<uint32_t>& cells, uint64_t base_seq) {
  const auto fitted = cells.empty() ? fitted_.end() : fitted_.find(cells.front());
  if (fitted != fitted_.end() && fitted->second.cells == cells.size()) {
    AppendStored(fitted->second.fields, fitted->second.stored, table_options_.bucket_size);
    return;
  }
  if (compressor_.type() == rocksdb::kNoCompression) return WriteBucket(cells, base_seq);
  unit_.Start(base_seq, UnitBuilder::Offsets::kNarrow);
  for (uint32_t cell : cells) AddCell(first_cell_ + cell, &unit_);
  AppendUnitOf(unit_, table_options_.bucket_size);
}

void HTableBuilder::WriteBucket(const std::vector<uint32_t>& cells, uint64_t base_seq) {
  size_t entries = 0;
  for (uint32_t cell : cells) entries += cells_[first_cell_ + cell].entries;
  const size_t start = out_.size();
  out_.append(table_options_.bucket_size, '\0');
  UnitWriter unit(&out_[start], table_options_.bucket_size, base_seq, entries);
  for (uint32_t cell : cells) {
    const PendingCell& pending = cells_[first_cell_ + cell];
    for (size_t e = 0; e < pending.entries; ++e) unit.Add(pending.hash, EntryAt(pending.first_entry + e));
  }
  const size_t payload = unit.Finish(offset_ + start);
  header_.used_bytes += kUnitHeaderSize + payload;
  ++written_.bypassed;
  written_.bypassed_bytes += payload;
  port::CountUncompressedData(payload, &props_);
}

void HTableBuilder::AppendExtents(uint32_t cell) {
  const PendingCell& pending = cells_[first_cell_ + cell];
  const size_t last = pending.first_entry + pending.entries;
  for (size_t e = pending.first_entry; e < last;) {
    const std::string_view key = EntryAt(e).key;
    uint64_t min_seq = UINT64_MAX;
    bool one_key = true;
    size_t bytes = 0, chunk_end = e;
    while (chunk_end < last && bytes < kExtentTarget && chunk_end - e < kMaxUnitEntries) {
      const UnitEntry entry = EntryAt(chunk_end++);
      bytes += entry.key.size() + entry.value.size() + 16;
      min_seq = std::min(min_seq, entry.seq);
      one_key = one_key && entry.key == key;
    }
    unit_.Start(min_seq, UnitBuilder::Offsets::kWide);
    for (; e < chunk_end; ++e) unit_.Add(pending.hash, EntryAt(e));
    ExtentPlan extent;
    extent.hash = pending.hash;
    extent.offset = offset_ + out_.size();
    extent.min_seq = one_key ? min_seq : 0;
    AppendUnitOf(unit_, 0);
    extent.size = static_cast<uint32_t>(offset_ + out_.size() - extent.offset);
    extents_.push_back(extent);
  }
}

void HTableBuilder::AppendUnitOf(const UnitBuilder& unit, size_t size) {
  UnitHeader fields;
  const std::string& stored = CompressPayload(unit, &fields);
  AppendStored(fields, stored, size);
}

const std::string& HTableBuilder::CompressPayload(const UnitBuilder& unit, UnitHeader* fields) {
  payload_.clear();
  unit.AppendPayload(&payload_);
  fields->wide = unit.offsets() == UnitBuilder::Offsets::kWide;
  fields->entries = static_cast<uint16_t>(unit.entries());
  fields->raw = static_cast<uint32_t>(payload_.size());
  rocksdb::StopWatchNano timer(ioptions_.clock, CountsTimesOfCodecs(ioptions_.stats));
  if (!compressor_.Compress(payload_, &compressed_)) return payload_;
  if (CountsTimesOfCodecs(ioptions_.stats)) {
    RecordTimeToHistogram(ioptions_.stats, rocksdb::COMPRESSION_TIMES_NANOS, timer.ElapsedNanos());
  }
  fields->compression = compressor_.type();
  return compressed_;
}

void HTableBuilder::AppendStored(const UnitHeader& fields, const std::string& stored, size_t size) {
  AppendUnit(fields, stored, offset_ + out_.size(), size, &out_);
  header_.used_bytes += kUnitHeaderSize + stored.size();
  if (fields.compression != rocksdb::kNoCompression) {
    ++written_.compressed;
    written_.compressed_from += fields.raw;
    written_.compressed_to += stored.size();
  } else if (compressor_.type() != rocksdb::kNoCompression) {
    ++written_.rejected;
    written_.rejected_bytes += fields.raw;
  } else {
    ++written_.bypassed;
    written_.bypassed_bytes += fields.raw;
  }
  port::CountUncompressedData(fields.raw, &props_);
}

void HTableBuilder::CountWritten() {
  rocksdb::Statistics* const statistics = ioptions_.stats;
  RecordTick(statistics, rocksdb::NUMBER_BLOCK_COMPRESSED, written_.compressed);
  RecordTick(statistics, rocksdb::BYTES_COMPRESSED_FROM, written_.compressed_from);
  RecordTick(statistics, rocksdb::BYTES_COMPRESSED_TO, written_.compressed_to);
  RecordTick(statistics, rocksdb::NUMBER_BLOCK_COMPRESSION_REJECTED, written_.rejected);
  RecordTick(statistics, rocksdb::BYTES_COMPRESSION_REJECTED, written_.rejected_bytes);
  RecordTick(statistics, rocksdb::NUMBER_BLOCK_COMPRESSION_BYPASSED, written_.bypassed);
  RecordTick(statistics, rocksdb::BYTES_COMPRESSION_BYPASSED, written_.bypassed_bytes);
  written_ = Written();
}

void HTableBuilder::DropPending(size_t cells) {
  for (size_t i = 0; i < cells; ++i) pending_bytes_ -= cells_[first_cell_ + i].bytes;
  first_cell_ += cells;
  if (first_cell_ < cells_.size() && first_cell_ < cells_.size() / 2) return;
  // Moves what is left to the front.
  const size_t first_entry = first_cell_ < cells_.size() ? cells_[first_cell_].first_entry : entries_.size();
  const uint64_t start = first_entry < entries_.size() ? entries_[first_entry].start : arena_base_ + arena_.size();
  arena_.erase(0, start - arena_base_);
  arena_base_ = start;
  entries_.erase(entries_.begin(), entries_.begin() + static_cast<ptrdiff_t>(first_entry));
  cells_.erase(cells_.begin(), cells_.begin() + static_cast<ptrdiff_t>(first_cell_));
  for (PendingCell& cell : cells_) cell.first_entry -= first_entry;
  first_cell_ = 0;
}

void HTableBuilder::TrainDictionary() {
  train_limit_ = 0;
  // Pieces of one bucket each, evenly spread over what is there.
  const size_t limit = compressor_.TrainingBytes();
  const size_t piece = table_options_.bucket_size;
  const size_t pieces = std::max<size_t>(1, limit / piece);
  const size_t step = std::max<size_t>(1, arena_.size() / piece / pieces);
  std::string samples;
  std::vector<size_t> sizes;
  for (size_t at = 0; at < arena_.size() && samples.size() < limit; at += step * piece) {
    const size_t size = std::min({piece, arena_.size() - at, limit - samples.size()});
    samples.append(arena_, at, size);
    sizes.push_back(size);
  }
  compressor_.Train(samples, sizes);
}

void HTableBuilder::Append(const Slice& bytes) {
  if (!status_.ok()) return;
  const rocksdb::StopWatch watch(ioptions_.clock, ioptions_.stats, rocksdb::WRITE_RAW_BLOCK_MICROS);
  rocksdb::IOOptions io_options;
  io_status_ = rocksdb::WritableFileWriter::PrepareIOOptions(write_options_, io_options);
  if (io_status_.ok()) io_status_ = file_->Append(io_options, bytes);
  if (io_status_.ok()) {
    offset_ += bytes.size();
  } else {
    status_ = io_status_;
  }
}

FilePart HTableBuilder::AppendPart(const std::string& bytes) {
  FilePart part;
  part.offset = offset_;
  part.size = bytes.size();
  part.crc = Crc32c(bytes.data(), bytes.size());
  Append(bytes);
  return part;
}

void HTableBuilder::FillProperties() {
  props_.num_data_blocks = header_.homes + header_.spill_buckets + extents_.size();
  props_.index_size = header_.group_index.size + header_.extent_index.size;
  props_.tail_start_offset = tail_start_;
  props_.comparator_name = ioptions_.user_comparator != nullptr ? ioptions_.user_comparator->Name() : "nullptr";
  props_.merge_operator_name = ioptions_.merge_operator != nullptr ? ioptions_.merge_operator->Name() : "nullptr";
  props_.compression_name = rocksdb::CompressionTypeToString(compressor_.type());
  rocksdb::CompressionOptions compression_options = compressor_.options();
  props_.compression_options = rocksdb::CompressionOptionsToString(compression_options);
  // Keeps RocksDB's plain table from taking the file for its own.
  props_.prefix_extractor_name = "cairn.HTable";
  std::string names = "[";
  for (const auto& factory : ioptions_.table_properties_collector_factories) {
    if (names.size() > 1) names += ",";
    names += factory->Name();
  }
  props_.property_collectors_names = names + "]";
}

// The block is whole pages and the data before it whole buckets, so it begins at a page.
Status HTableBuilder::WriteFilter() {
  std::string block;
  const Status s = filter_->Finish(&block);
  if (s.ok() && !block.empty()) header_.filter = AppendPart(block);
  return s.ok() ? status_ : s;
}

Status HTableBuilder::WriteTail() {
  props_.data_size = offset_;
  const Status filter_status = WriteFilter();
  if (!filter_status.ok()) return filter_status;
  props_.filter_size = header_.filter.size;
  props_.num_filter_entries = header_.filter.size == 0 ? 0 : filter_->keys();
  props_.filter_policy_name = header_.filter.size == 0 ? "" : kFilterBlockName;
  tail_start_ = offset_;
  header_.entries = props_.num_entries;
  header_.last_hash = last_hash_;
  header_.groups = groups_.size();
  header_.extents = extents_.size();
  std::string bytes;
  AppendGroupIndex(groups_, &bytes);
  header_.group_index = AppendPart(bytes);
  bytes.clear();
  AppendExtentIndex(extents_, &bytes);
  header_.extent_index = AppendPart(bytes);
  header_.dictionary = AppendPart(compressor_.dictionary());

  FillProperties();
  rocksdb::PropertyBlockBuilder properties;
  properties.AddTableProperty(props_);
  rocksdb::NotifyCollectTableCollectorsOnFinish(collectors_, ioptions_.logger, &properties,
                                                props_.user_collected_properties, props_.readable_properties);
  const std::string block = properties.Finish().ToString();
  header_.properties = AppendPart(block);
  header_.properties.crc = PropertiesChecksum(block);

  // The header follows the metaindex, whose size does not depend on it: both are appended at once.
  const auto handle = [](const FilePart& part) { return rocksdb::BlockHandle(part.offset, part.size); };
  rocksdb::MetaIndexBuilder metaindex;
  metaindex.Add(rocksdb::kPropertiesBlockName, handle(header_.properties));
  metaindex.Add(kHTableGroupsName, handle(header_.group_index));
  if (header_.filter.size > 0) metaindex.Add(kFilterBlockName, handle(header_.filter));
  header_.metaindex = AppendPart(metaindex.Finish().ToString());
  bytes.clear();
  header_.AppendTo(&bytes);
  const FilePart header = AppendPart(bytes);

  rocksdb::FooterBuilder footer;
  const Status s = port::BuildForeignFooter(&footer, kHTableFooterMagic, kFooterVersion, offset_,
                                            handle(header_.metaindex), handle(header));
  if (!s.ok()) return s;
  Append(footer.GetSlice());
  return status_;
}

Status HTableBuilder::Finish() {
  WriteGroups(GroupEnd::kLast);
  if (status_.ok()) status_ = WriteTail();
  return status_;
}

bool HTableBuilder::NeedCompact() const {
  return std::any_of(collectors_.begin(), collectors_.end(), [](const auto& c) { return c->NeedCompact(); });
}

rocksdb::TableProperties HTableBuilder::GetTableProperties() const {
  rocksdb::TableProperties properties = props_;
  for (const auto& collector : collectors_) {
    for (const auto& property : collector->GetReadableProperties()) properties.readable_properties.insert(property);
  }
  return properties;
}

std::string HTableBuilder::GetFileChecksum() const {
  return file_ != nullptr ? file_->GetFileChecksum() : rocksdb::kUnknownFileChecksum;
}

const char* HTableBuilder::GetFileChecksumFuncName() const {
  return file_ != nullptr ? file_->GetFileChecksumFuncName() : rocksdb::kUnknownFileChecksumFuncName;
}

void HTableBuilder::SetSeqnoTimeTableProperties(const rocksdb::SeqnoToTimeMapping& relevant_mapping,
                                                uint64_t oldest_ancestor_time) {
  relevant_mapping.EncodeTo(props_.seqno_to_time_mapping);
  props_.creation_time = oldest_ancestor_time;
}

}  // namespace cairn
