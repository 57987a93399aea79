#include "trie_table/htable/htable_dump.h"

#include <algorithm>
#include <array>
#include <cinttypes>
#include <cstdarg>
#include <cstdio>
#include <utility>
#include <vector>

#include "db/dbformat.h"
#include "options/cf_options.h"
#include "rocksdb/options.h"
#include "rocksdb/port/table_reader.h"
#include "table/format.h"
#include "trie_table/bloom_cluster/bloom_block.h"
#include "trie_table/htable/htable_iterator.h"
#include "util/rocksdb_names.h"

namespace cairn {

namespace {

constexpr int kSteps = 20;  // of the histogram
constexpr size_t kScanReadahead = 1 << 20;

void Append(std::string* text, const char* format, ...) __attribute__((format(printf, 2, 3)));
void Append(std::string* text, const char* format, ...) {
  char line[512];
  va_list arguments;
  va_start(arguments, format);
  const int size = vsnprintf(line, sizeof(line), format, arguments);
  va_end(arguments);
  text->append(line, std::min(static_cast<size_t>(std::max(size, 0)), sizeof(line) - 1));
}

// The file's filter block; null if it has none. `counters` outlive it.
Status OpenFilter(const HTableFile& file, FilterCounters* counters, std::shared_ptr<const FilterBlock>* block) {
  const FilePart& part = file.filter_part();
  if (part.size == 0) return Status::OK();
  const rocksdb::TableProperties& properties = *file.properties();
  FilterContext context;
  context.table_id = FilterTableId(properties.db_id, properties.db_session_id, properties.orig_file_number);
  return FilterBlock::Open(context, rocksdb::ReadOptions(), file.file(), part.offset, part.size, counters, block);
}

Status DescribeFilter(const HTableFile& file, std::string* text) {
  FilterCounters counters;
  std::shared_ptr<const FilterBlock> block;
  const Status s = OpenFilter(file, &counters, &block);
  if (!s.ok()) return s;
  if (block == nullptr) {
    Append(text, "  filter             none\n");
    return s;
  }
  const FilterShape& shape = block->shape();
  Append(text,
         "  filter             %" PRIu64 " bytes at offset %" PRIu64 ": %zu pages, %" PRIu64
         " pairs, %.2f bits a pair\n",
         file.filter_part().size, file.filter_part().offset, block->pages(), block->pairs(), block->BitsPerPair());
  Append(text, "  fingerprints       %u bits, in %" PRIu64 " columns; of a pair %u bits of remainder, %u of slot\n",
         shape.precision, shape.columns, shape.remainder_bits, shape.slot_bits);
  // What a strange hash between the first and the last finds by chance.
  const double fingerprints = std::max(1.0, static_cast<double>(shape.columns) * static_cast<double>(kBuckets) *
                                                static_cast<double>(uint64_t{1} << shape.remainder_bits));
  for (size_t slot = 0; slot < block->members().size(); ++slot) {
    const FilterMember& member = block->members()[slot];
    Append(text, "    slot %2zu          table %016" PRIx64 "%s, %" PRIu64 " keys, lets %.4f %% through\n", slot,
           member.table_id, slot == 0 ? " (this one)" : "", member.pairs,
           100 * static_cast<double>(member.pairs) / fingerprints);
  }
  return s;
}

}  // namespace

Status DescribeHTable(const HTableFile& file, std::string* text) {
  const HTableHeader& header = file.header();
  const HTableIndex& index = file.index();
  const uint64_t buckets = header.homes + header.spill_buckets;
  const double data = static_cast<double>(std::max<uint64_t>(file.data_end(), 1));
  const double cells = static_cast<double>(std::max<uint64_t>(header.cells, 1));
  Append(text, "HTable version %u, %u-byte buckets\n", kHTableVersion, header.bucket_size);
  Append(text, "  entries            %" PRIu64 "\n", header.entries);
  Append(text, "  keys               %" PRIu64 "\n", header.cells);
  Append(text, "  hashes             %016" PRIx64 " ... %016" PRIx64 "\n", header.first_hash, header.last_hash);
  Append(text, "  file size          %" PRIu64 "\n", file.file_size());
  Append(text, "  data size          %" PRIu64 ", %.2f %% used\n", file.data_end(),
         100 * static_cast<double>(header.used_bytes) / data);
  Append(text, "  groups             %" PRIu64 "\n", header.groups);
  Append(text, "  home buckets       %" PRIu64 "\n", header.homes);
  Append(text, "  spill buckets      %" PRIu64 " for %" PRIu64 " spilled keys (%.3f %%)\n", header.spill_buckets,
         header.spills, 100 * static_cast<double>(header.spills) / cells);
  Append(text, "  extents            %" PRIu64 "\n", header.extents);
  Append(text, "  index in memory    %zu bytes, %.3f bits per key\n", index.bytes(),
         8 * static_cast<double>(index.bytes()) / cells);
  Append(text, "  compression        %s, dictionary of %" PRIu64 " bytes\n",
         file.properties()->compression_name.c_str(), header.dictionary.size);
  const Status filter_status = DescribeFilter(file, text);
  if (!filter_status.ok()) return filter_status;

  std::array<uint64_t, kSteps + 1> filled{};
  std::vector<char> bytes(header.bucket_size);
  for (uint32_t g = 0; g < index.groups(); ++g) {
    for (uint32_t b = 0; b < index.GroupHomes(g) + index.GroupSpillBuckets(g); ++b) {
      const uint64_t offset = index.GroupOffset(g) + uint64_t{b} * header.bucket_size;
      Slice read;
      const Status s = file.ReadBytes(rocksdb::ReadOptions(), offset, header.bucket_size, bytes.data(), &read);
      if (!s.ok()) return s;
      UnitHeader unit;
      if (!DecodeUnitHeader(read.data(), read.size(), &unit).ok()) return file.Corruption("unit is damaged", offset);
      ++filled[(kUnitHeaderSize + unit.stored) * kSteps / header.bucket_size];
    }
  }
  filled[kSteps - 1] += filled[kSteps];
  Append(text, "  buckets by fill\n");
  for (int i = 0; i < kSteps; ++i) {
    if (filled[i] == 0) continue;
    Append(text, "    %3d ... %3d %%  %10" PRIu64 "  %6.2f %%\n", i * 100 / kSteps, (i + 1) * 100 / kSteps, filled[i],
           100 * static_cast<double>(filled[i]) / static_cast<double>(std::max<uint64_t>(buckets, 1)));
  }
  return Status::OK();
}

Status OpenHTable(const std::string& path, std::shared_ptr<HTableFile>* file, KeyHash* hash) {
  const rocksdb::Options options;
  const rocksdb::ImmutableOptions immutable_options(options);
  const rocksdb::MutableCFOptions mutable_options(options);
  const rocksdb::InternalKeyComparator comparator(options.comparator);
  uint64_t size = 0;
  Status s = options.env->GetFileSize(path, &size);
  if (!s.ok()) return s;
  if (!IsHTable(path)) return Status::InvalidArgument(path, "is no HTable");
  std::unique_ptr<rocksdb::RandomAccessFileReader> reader;
  s = rocksdb::RandomAccessFileReader::Create(options.env->GetFileSystem(), path, rocksdb::FileOptions(), &reader,
                                              nullptr);
  if (!s.ok()) return s;
  const rocksdb::EnvOptions env_options;
  const rocksdb::TableReaderOptions reader_options =
      port::OfFileAlone(immutable_options, mutable_options.prefix_extractor, env_options, comparator);
  s = HTableFile::Open(rocksdb::ReadOptions(), reader_options, nullptr, std::move(reader), size, file);
  if (!s.ok()) return s;
  const rocksdb::Comparator* order = nullptr;
  s = HashOrderComparatorFromName((*file)->properties()->comparator_name, &order);
  if (s.ok()) *hash = *HashOfComparator(order);
  return s;
}

bool IsHTable(const std::string& path) {
  rocksdb::Env* const env = rocksdb::Env::Default();
  uint64_t size = 0;
  std::unique_ptr<rocksdb::RandomAccessFile> file;
  if (!env->GetFileSize(path, &size).ok() || size < rocksdb::Footer::kMaxEncodedLength ||
      !env->NewRandomAccessFile(path, &file, rocksdb::EnvOptions()).ok()) {
    return false;
  }
  char bytes[rocksdb::Footer::kMaxEncodedLength];
  Slice read;
  rocksdb::Footer footer;
  const uint64_t at = size - sizeof(bytes);
  if (!file->Read(at, sizeof(bytes), &read, bytes).ok() || read.size() != sizeof(bytes) ||
      !footer.DecodeFrom(read, at, kHTableFooterMagic).ok()) {
    return false;
  }
  return file->Read(footer.index_handle().offset(), sizeof(kHTableMagic), &read, bytes).ok() &&
         read.size() == sizeof(kHTableMagic) && LoadU64(read.data()) == kHTableMagic;
}

Status DumpHTableEntries(const HTableFile& file, const KeyHash& hash,
                         const std::function<Status(const std::string& line)>& print) {
  Status s;
  ScanOptions scan;
  scan.use_cache = false;
  scan.readahead = kScanReadahead;
  HTableIterator it(&file, hash, rocksdb::ReadOptions(), scan);
  for (it.SeekToFirst(); s.ok() && it.Valid(); it.Next()) {
    rocksdb::ParsedInternalKey parsed;
    s = rocksdb::ParseInternalKey(it.key(), &parsed, false);
    if (!s.ok()) break;
    char line[64];
    snprintf(line, sizeof(line), "%016" PRIx64 " ", hash(parsed.user_key));
    s = print(line + parsed.user_key.ToString(true) + " " + std::to_string(parsed.sequence) + " " +
              std::to_string(parsed.type) + " " + it.value().ToString(true) + "\n");
  }
  return s.ok() ? it.status() : s;
}

Status VerifyHTable(const HTableFile& file, const KeyHash& hash) {
  Status s = file.Verify(rocksdb::ReadOptions());
  FilterCounters counters;
  std::shared_ptr<const FilterBlock> block;
  if (s.ok()) s = OpenFilter(file, &counters, &block);
  std::shared_ptr<const FilterImage> filter;
  if (s.ok() && block != nullptr) s = block->LoadImage(rocksdb::ReadOptions(), &filter);
  if (!s.ok()) return s;
  ScanOptions scan;
  scan.use_cache = false;
  scan.readahead = kScanReadahead;
  HTableIterator it(&file, hash, rocksdb::ReadOptions(), scan);
  uint64_t entries = 0;
  uint64_t previous = 0;
  for (it.SeekToFirst(); it.Valid(); it.Next(), ++entries) {
    const uint64_t now = hash(it.user_key());
    if (now < previous) return file.Corruption("entries are out of order", file.data_end());
    previous = now;
    if (filter != nullptr && (filter->Probe(now) & 1) == 0) {
      return file.Corruption("its filter does not know a key of hash " + std::to_string(now),
                             file.filter_part().offset);
    }
  }
  if (it.status().ok() && entries != file.header().entries) {
    return file.Corruption(
        "it has " + std::to_string(entries) + " entries, its header counts " + std::to_string(file.header().entries),
        file.data_end());
  }
  return it.status();
}

Status DumpHTable(const HTableFile& file, const KeyHash& hash, rocksdb::WritableFile* out) {
  std::string text;
  Status s = DescribeHTable(file, &text);
  if (!s.ok()) return s;
  text += "\nProperties\n  " + file.properties()->ToString("\n  ", ": ") +
          "\n\nEntries: hash, key, sequence number, type, value\n";
  s = out->Append(text);
  return s.ok() ? DumpHTableEntries(file, hash, [out](const std::string& line) { return out->Append(line); }) : s;
}

}  // namespace cairn
