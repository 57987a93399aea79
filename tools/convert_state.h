// How far `cairn convert` has come, kept in the destination as the file CAIRN_CONVERT. The file is what makes a
// conversion resumable and a finished one recognisable; it also remembers what the way back needs.
//
// The file is JSON with a checksum of it in the last line. It is replaced as a whole (written beside, synced, renamed,
// directory synced): a crash leaves the old or the new one.
//
// Invariant (1): every record of a column family up to and including `copied_key`, in the source's order, is durable in
// the destination's tables. The state is therefore saved after the flush that it speaks of, never before.

#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "rocksdb/env.h"
#include "rocksdb/status.h"

namespace cairn {

inline constexpr char kConvertStateFile[] = "CAIRN_CONVERT";

// The OPTIONS file of the stock database that a trie came from; the way back takes comparator, compaction style and so
// on from it.
inline constexpr char kConvertStockOptionsFile[] = "CAIRN_CONVERT_STOCK_OPTIONS";

enum class ConvertStep { kCopy, kSettle, kVerify, kWhole };

// A position in a scan. `key` is meaningful when `records` > 0.
struct ConvertPosition {
  bool finished = false;
  uint64_t records = 0;      // up to and including key
  uint64_t fingerprint = 0;  // sum of the records' hashes; of the verification's scans only
  std::string key;
};

struct ConvertFamily {
  std::string name;
  bool converted = true;     // false: keeps its engine
  ConvertPosition copied;    // scan of the source, what is durable in the destination
  ConvertPosition compared;  // scan of the source, each record looked up in the destination
  ConvertPosition counted;   // scan of the destination
};

struct ConvertState {
  std::string source;     // canonical path
  std::string source_id;  // database identity
  uint64_t source_sequence = 0;
  std::string engine;
  std::vector<std::string> engine_options;
  ConvertStep step = ConvertStep::kCopy;
  std::vector<ConvertFamily> families;
};

std::string EncodeConvertState(const ConvertState& state);
// Corruption says what is wrong with the text.
rocksdb::Status DecodeConvertState(const std::string& text, ConvertState* state);

rocksdb::Status SaveConvertState(rocksdb::Env* env, const std::string& directory, const ConvertState& state);
// NotFound: there is none.
rocksdb::Status LoadConvertState(rocksdb::Env* env, const std::string& directory, ConvertState* state);

// Writes `text` to directory/name so that after a crash there is the old file or the new one.
rocksdb::Status ReplaceFile(rocksdb::Env* env, const std::string& directory, const std::string& name,
                            const std::string& text);

}  // namespace cairn
