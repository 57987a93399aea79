// libFuzzer target: the small records that Cairn keeps on disk (pool file, its note, key sketch, state of a conversion,
// totals in table properties, option texts, numbers with units) on any bytes, and on such as the input describes and
// changes, with checksums corrected where there are some: they are refused, or say what is written again as it was.

#include <cmath>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <string>

#include "memtable_cache/pool_format.h"
#include "memtable_cache/pool_note.h"
#include "table/key_sketch.h"
#include "table/written_totals.h"
#include "test/fuzz/edits.h"
#include "tools/arguments.h"
#include "tools/convert_state.h"
#include "util/checksum.h"
#include "util/hash.h"
#include "util/option_text.h"

namespace cairn {
namespace {

using fuzz::Input;

// Where checksums lie (docs/design/durable_memtable.md).
constexpr size_t kSuperblockCrcAt = 236;
constexpr size_t kPathBytesAt = 224;
constexpr size_t kPathCrcAt = 232;
constexpr size_t kPathAt = 240;
constexpr size_t kLineCrcAt = 60;
constexpr size_t kSyncLineCrcAt = 52;

void Check(bool holds) {
  if (!holds) abort();
}

void CorrectChecksum(std::string* bytes, size_t from, size_t size, size_t at) {
  const uint32_t crc = Crc32c(bytes->data() + from, size);
  memcpy(bytes->data() + at, &crc, sizeof(crc));
}

std::string Hex(uint64_t number) {
  char text[20];
  snprintf(text, sizeof(text), "%016llx", static_cast<unsigned long long>(number));
  return text;
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

// A record as `encode` writes an empty one, which the input then changes.
template <class Record, class Decode, class Encode, class Correct>
void Changed(Input* input, const Record& record, size_t size, const Decode& decode, const Encode& encode,
             const Correct& correct) {
  const auto text = [&](const Record& of) {
    std::string bytes(size, '\0');
    encode(of, bytes.data());
    return bytes;
  };
  std::string bytes = text(record);
  const std::string before = bytes;
  correct(&bytes);
  Check(bytes == before);
  fuzz::Edit(input, &bytes);
  bytes.resize(size);
  correct(&bytes);
  SameAgain<Record>(
      bytes, [&](const std::string& from, Record* to) { return decode(from.data(), to); }, text);
}

void SequenceWords(uint64_t word) {
  uint64_t sequence = 0;
  if (DecodeSequenceWord(word, &sequence)) Check(EncodeSequenceWord(sequence) == word);
  Check(DecodeSequenceWord(EncodeSequenceWord(word), &sequence) && sequence == (word & (UINT64_MAX >> 8)));
  Check(HasReturned(ReturnedSync(word, word >> 32), word, word >> 32));
}

void PoolRecords(Input* input) {
  const uint64_t kind = input->Number(1) % 8;
  const auto correct_line = [](std::string* bytes) { CorrectChecksum(bytes, 0, kLineCrcAt, kLineCrcAt); };
  if (kind < 3) {
    Superblock superblock;
    superblock.database = input->Bytes(kind * 16);
    superblock.directory.path = input->Bytes(kind * 16);
    Changed(input, superblock, kSuperblockBytes, DecodeSuperblock, EncodeSuperblock, [](std::string* bytes) {
      uint32_t path = 0;
      memcpy(&path, bytes->data() + kPathBytesAt, sizeof(path));
      if (path <= kMaxDirectoryBytes) CorrectChecksum(bytes, kPathAt, path, kPathCrcAt);
      CorrectChecksum(bytes, 0, kSuperblockCrcAt, kSuperblockCrcAt);
    });
  } else if (kind == 3) {
    Changed(input, SegmentHeader(), kHeaderLineBytes, DecodeHeaderLine, EncodeHeaderLine, correct_line);
  } else if (kind == 4) {
    Changed(input, SyncRecord(), kSyncRecordBytes, DecodeSyncRecord, EncodeSyncRecord, correct_line);
  } else if (kind == 5) {
    SyncLine line;
    line.number = 1;
    Changed(input, line, kSyncLineBytes, DecodeSyncLine, EncodeSyncLine,
            [](std::string* bytes) { CorrectChecksum(bytes, 0, kSyncLineCrcAt, kSyncLineCrcAt); });
  } else {
    std::string segment(kSegmentHeaderBytes, '\0');
    SegmentHeader header;
    for (uint64_t version : {input->Number(1), input->Number(1)}) {
      header.version = version;
      EncodeHeaderLine(header, segment.data() + kHeaderLineBytes * (version % 2));
    }
    SequenceWords(input->Number(8));
    fuzz::Edit(input, &segment);
    segment.resize(kSegmentHeaderBytes);
    if (kind == 6) CorrectChecksum(&segment, kHeaderLineBytes, kLineCrcAt, kHeaderLineBytes + kLineCrcAt);
    int line = 0;
    SegmentHeader lines[2];
    const bool whole[] = {DecodeHeaderLine(segment.data(), &lines[0]),
                          DecodeHeaderLine(segment.data() + kHeaderLineBytes, &lines[1])};
    Check(DecodeSegmentHeader(segment.data(), &header, &line) == (whole[0] || whole[1]));
    if (!whole[0] && !whole[1]) return;
    Check(line >= 0 && line < 2 && whole[line] && header.version == lines[line].version);
    Check(!whole[1 - line] || lines[1 - line].version <= header.version);
  }
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

void SameNote(const std::string& text) {
  SameAgain<PoolNote>(
      text, [](const std::string& bytes, PoolNote* note) { return DecodePoolNote(bytes, note).ok(); },
      [](const PoolNote& note) { return EncodePoolNote(note); });
}

void SameState(const std::string& text) {
  SameAgain<ConvertState>(
      text, [](const std::string& bytes, ConvertState* state) { return DecodeConvertState(bytes, state).ok(); },
      [](const ConvertState& state) { return EncodeConvertState(state); });
}

// Any bytes.
void Texts(const std::string& text) {
  SameNote(text);
  SameState(text);
  Check(DecodeOptionText(EncodeOptionText(text)) == text);
  DecodeOptionText(text);
  uint64_t count = 0;
  uint64_t again = 0;
  double number = 0;
  if (ParseCount(text, &count)) Check(ParseCount(std::to_string(count), &again) && again == count);
  if (ParseBytes(text, &count)) Check(ParseBytes(std::to_string(count), &again) && again == count);
  if (ParseNumber(text, &number)) Check(std::isfinite(number));
  if (ParseSeconds(text, &number)) Check(std::isfinite(number) && number >= 0);
}

// "checksum X" is the second line, of all behind it.
void ChangedNote(Input* input) {
  PoolNote note;
  note.live = input->Number(1) % 2 == 1;
  note.session = input->Number(4);
  for (uint64_t i = input->Number(1) % 4; i > 0; --i) note.families[static_cast<uint32_t>(i)] = input->Bytes(i);
  note.pool = "pool" + input->Bytes(8);
  const std::string text = EncodePoolNote(note);
  const size_t checksum_at = text.find('\n') + 1 + strlen("checksum ");
  const size_t body_at = checksum_at + 17;
  std::string body = text.substr(body_at);
  const auto whole = [&] { return text.substr(0, checksum_at) + Hex(Crc32c(body.data(), body.size())) + "\n" + body; };
  Check(whole() == text);
  fuzz::Edit(input, &body);
  SameNote(whole());
}

// "checksum X" is the last line, of all before it.
void ChangedState(Input* input) {
  ConvertState state;
  state.source = input->Bytes(6);
  state.engine = "trie";
  for (uint64_t i = input->Number(1) % 4; i > 0; --i) {
    state.engine_options.push_back(input->Bytes(i));
    state.families.emplace_back();
    state.families.back().name = input->Bytes(i);
    state.families.back().copied = {i % 2 == 0, input->Number(1), input->Number(8), input->Bytes(i)};
  }
  const std::string text = EncodeConvertState(state);
  std::string body = text.substr(0, text.size() - strlen("checksum ") - 17);
  const auto whole = [&] { return body + "checksum " + Hex(rocksdb::Hash64(body.data(), body.size())) + "\n"; };
  Check(whole() == text);
  fuzz::Edit(input, &body);
  SameState(whole());
}

void SameSketch(const std::string& bytes) {
  SameAgain<KeySketch>(
      bytes, [](const std::string& text, KeySketch* sketch) { return KeySketch::Decode(text, sketch).ok(); },
      [](const KeySketch& sketch) {
        std::string text;
        sketch.EncodeTo(&text);
        return text;
      });
}

void ChangedSketch(Input* input) {
  KeySketch sketch;
  uint64_t position = 0;
  const uint64_t shift = input->Number(1) % 48;
  for (uint64_t keys = input->Number(1) % 32; keys > 0; --keys) {
    position += input->Number(2) << shift;
    sketch.Add(position, static_cast<KeySketch::Entry>(keys % 3));
  }
  sketch.Sort();
  std::string bytes;
  sketch.EncodeTo(&bytes);
  KeySketch again;
  Check(KeySketch::Decode(bytes, &again).ok());
  fuzz::Edit(input, &bytes);
  SameSketch(bytes);
}

void Properties(const std::string& bytes) {
  SameSketch(bytes);
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
  cairn::fuzz::Input input(data, size);
  switch (kind % 8) {
    case 0:
    case 1:
      cairn::PoolRecords(&input);
      break;
    case 2:
      cairn::Entries(data, size);
      break;
    case 3:
      cairn::Texts(bytes);
      break;
    case 4:
      cairn::ChangedNote(&input);
      break;
    case 5:
      cairn::ChangedState(&input);
      break;
    case 6:
      cairn::ChangedSketch(&input);
      break;
    default:
      cairn::Properties(bytes);
      break;
  }
  return 0;
}
