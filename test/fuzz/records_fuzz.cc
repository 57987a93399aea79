// libFuzzer target: the small records that Cairn keeps on disk (pool file, its note, key sketch, state of a conversion,
// totals and facts in table properties, option texts) on any bytes, with checksums corrected where there are some: they
// are refused, or say what is written again as it was.

#include <cstdint>
#include <cstdlib>
#include <cstring>
#include <string>

#include "src/memtable/pool_format.h"
#include "src/memtable/pool_note.h"
#include "src/table/key_sketch.h"
#include "src/table/written_totals.h"
#include "src/tools/convert_state.h"
#include "src/util/checksum.h"
#include "src/util/option_text.h"

namespace cairn {
namespace {

void Check(bool holds) {
  if (!holds) abort();
}

std::string Padded(const uint8_t* data, size_t size, size_t length) {
  std::string bytes(reinterpret_cast<const char*>(data), std::min(size, length));
  bytes.resize(length);
  return bytes;
}

// What is read is written, and then read as the same bytes.
template <class Record, class Decode, class Encode>
void SameAgain(const std::string& bytes, const Decode& decode, const Encode& encode) {
  Record record;
  if (!decode(bytes, &record)) return;
  const std::string once = encode(record);
  Record again;
  Check(decode(once, &again));
  Check(encode(again) == once);
}

void PoolRecords(const uint8_t* data, size_t size) {
  SameAgain<Superblock>(
      Padded(data, size, kSuperblockBytes),
      [](const std::string& bytes, Superblock* record) { return DecodeSuperblock(bytes.data(), record); },
      [](const Superblock& record) {
        std::string bytes(kSuperblockBytes, '\0');
        EncodeSuperblock(record, bytes.data());
        return bytes;
      });
  SameAgain<SegmentHeader>(
      Padded(data, size, kHeaderLineBytes),
      [](const std::string& bytes, SegmentHeader* record) { return DecodeHeaderLine(bytes.data(), record); },
      [](const SegmentHeader& record) {
        std::string bytes(kHeaderLineBytes, '\0');
        EncodeHeaderLine(record, bytes.data());
        return bytes;
      });
  SameAgain<SyncRecord>(
      Padded(data, size, kSyncRecordBytes),
      [](const std::string& bytes, SyncRecord* record) { return DecodeSyncRecord(bytes.data(), record); },
      [](const SyncRecord& record) {
        std::string bytes(kSyncRecordBytes, '\0');
        EncodeSyncRecord(record, bytes.data());
        return bytes;
      });
  SameAgain<SyncLine>(
      Padded(data, size, kSyncLineBytes),
      [](const std::string& bytes, SyncLine* record) { return DecodeSyncLine(bytes.data(), record); },
      [](const SyncLine& record) {
        std::string bytes(kSyncLineBytes, '\0');
        EncodeSyncLine(record, bytes.data());
        return bytes;
      });
  SegmentHeader header;
  int line = 0;
  const std::string segment = Padded(data, size, kSegmentHeaderBytes);
  if (DecodeSegmentHeader(segment.data(), &header, &line)) Check(line == 0 || line == 1);
}

// As it is, and behind a header that is right.
void Entries(const uint8_t* data, size_t size) {
  const std::string bytes(reinterpret_cast<const char*>(data), size);
  rocksdb::Slice entry;
  EntryParts parts;
  if (DecodeEntry(7, bytes.data(), bytes.size(), &entry)) SplitEntry(entry, &parts);
  if (SplitEntry(bytes, &parts)) {
    Check(parts.user_key.data() >= bytes.data() && parts.value.data() + parts.value.size() <= bytes.data() + size);
  }
  std::string whole(EntryBytes(size), '\0');
  memcpy(whole.data() + kEntryHeaderBytes, data, size);
  FinishEntry(7, static_cast<uint32_t>(size), whole.data());
  if (size > 0) {
    Check(DecodeEntry(7, whole.data(), whole.size(), &entry));
    Check(entry == rocksdb::Slice(bytes));
  }
}

void Texts(const std::string& text) {
  SameAgain<PoolNote>(
      text, [](const std::string& bytes, PoolNote* note) { return DecodePoolNote(bytes, note).ok(); },
      [](const PoolNote& note) { return EncodePoolNote(note); });
  SameAgain<ConvertState>(
      text, [](const std::string& bytes, ConvertState* state) { return DecodeConvertState(bytes, state).ok(); },
      [](const ConvertState& state) { return EncodeConvertState(state); });
  Check(DecodeOptionText(EncodeOptionText(text)) == text);
  DecodeOptionText(text);
}

void Properties(const std::string& bytes) {
  SameAgain<KeySketch>(
      bytes, [](const std::string& text, KeySketch* sketch) { return KeySketch::Decode(text, sketch).ok(); },
      [](const KeySketch& sketch) {
        std::string text;
        sketch.EncodeTo(&text);
        return text;
      });
  uint64_t flushed = 0;
  uint64_t compacted = 0;
  DecodeWrittenTotals({{kWrittenProperty, bytes}}, &flushed, &compacted);
}

}  // namespace
}  // namespace cairn

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  if (size < 1) return 0;
  const uint8_t kind = data[0];
  ++data;
  --size;
  const std::string bytes(reinterpret_cast<const char*>(data), size);
  switch (kind % 4) {
    case 0:
      cairn::PoolRecords(data, size);
      break;
    case 1:
      cairn::Entries(data, size);
      break;
    case 2:
      cairn::Texts(bytes);
      break;
    default:
      cairn::Properties(bytes);
      break;
  }
  return 0;
}
