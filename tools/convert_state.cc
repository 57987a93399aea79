#include "tools/convert_state.h"

#include <cinttypes>
#include <cstdio>
#include <memory>
#include <nlohmann/json.hpp>

#include "rocksdb/slice.h"
#include "util/format_version.h"
#include "util/hash.h"
#include "util/rocksdb_names.h"

namespace cairn {

// Of another name, the first.
NLOHMANN_JSON_SERIALIZE_ENUM(ConvertStep, {{ConvertStep::kCopy, "copy"},
                                           {ConvertStep::kSettle, "settle"},
                                           {ConvertStep::kVerify, "verify"},
                                           {ConvertStep::kWhole, "whole"}})

namespace {

using nlohmann::ordered_json;

constexpr uint64_t kVersion = 2;
constexpr char kMark[] = "checksum ";

std::string Checksum(const std::string& text) {
  char hex[20];
  std::snprintf(hex, sizeof(hex), "%016" PRIx64, rocksdb::Hash64(text.data(), text.size()));
  return hex;
}

// Names, paths and keys may hold any bytes.
std::string Hex(const std::string& bytes) { return Slice(bytes).ToString(/*hex=*/true); }
std::string Bytes(const ordered_json& hex) {
  std::string bytes;
  return Slice(hex.get_ref<const std::string&>()).DecodeHex(&bytes) ? bytes : std::string();
}

// Throws if it is of another type, or has a fraction or a sign: get() would convert it.
uint64_t Count(const ordered_json& number) { return number.get_ref<const ordered_json::number_unsigned_t&>(); }

ordered_json ToJson(const ConvertPosition& position) {
  return {position.finished, position.records, position.fingerprint, Hex(position.key)};
}

ConvertPosition PositionOf(const ordered_json& json) {
  return {json.at(0).get<bool>(), Count(json.at(1)), Count(json.at(2)), Bytes(json.at(3))};
}

// Throws if there is something else.
ConvertState StateOf(const ordered_json& json) {
  ConvertState state;
  state.source = Bytes(json.at("source"));
  state.source_id = Bytes(json.at("source_id"));
  state.source_sequence = Count(json.at("source_sequence"));
  state.engine = Bytes(json.at("engine"));
  for (const ordered_json& option : json.at("engine_options")) state.engine_options.push_back(Bytes(option));
  state.step = json.at("step").get<ConvertStep>();
  for (const ordered_json& family : json.at("families")) {
    state.families.push_back({Bytes(family.at("name")), family.at("converted").get<bool>(),
                              PositionOf(family.at("copied")), PositionOf(family.at("compared")),
                              PositionOf(family.at("counted"))});
  }
  return state;
}

}  // namespace

std::string EncodeConvertState(const ConvertState& state) {
  ordered_json json = {{"cairn_convert", kVersion},
                       {"source", Hex(state.source)},
                       {"source_id", Hex(state.source_id)},
                       {"source_sequence", state.source_sequence},
                       {"engine", Hex(state.engine)},
                       {"engine_options", ordered_json::array()},
                       {"step", state.step},
                       {"families", ordered_json::array()}};
  for (const std::string& option : state.engine_options) json["engine_options"].push_back(Hex(option));
  for (const ConvertFamily& family : state.families) {
    json["families"].push_back({{"name", Hex(family.name)},
                                {"converted", family.converted},
                                {"copied", ToJson(family.copied)},
                                {"compared", ToJson(family.compared)},
                                {"counted", ToJson(family.counted)}});
  }
  const std::string text = json.dump(1) + "\n";
  return text + kMark + Checksum(text) + "\n";
}

Status DecodeConvertState(const std::string& text, ConvertState* state) {
  const size_t end = text.rfind(kMark);
  if (end == std::string::npos || text.back() != '\n') return Status::Corruption(kConvertStateFile, "is cut off");
  const std::string body = text.substr(0, end);
  if (text.substr(end) != kMark + Checksum(body) + "\n") {
    return Status::Corruption(kConvertStateFile, "has a wrong checksum");
  }
  try {
    const ordered_json json = ordered_json::parse(body);
    const uint64_t version = Count(json.at("cairn_convert"));
    if (version != kVersion) return Status::NotSupported(kConvertStateFile, "has " + UnknownVersion(version, kVersion));
    *state = StateOf(json);
  } catch (const ordered_json::exception&) {
    return Status::Corruption(kConvertStateFile, "is not what Cairn writes");
  }
  return Status::OK();
}

Status ReplaceFile(rocksdb::Env* env, const std::string& directory, const std::string& name, const std::string& text) {
  const std::string path = directory + "/" + name;
  const std::string beside = path + ".tmp";
  Status s = rocksdb::WriteStringToFile(env, text, beside, /*should_sync=*/true);
  if (s.ok()) s = env->RenameFile(beside, path);
  std::unique_ptr<rocksdb::Directory> handle;
  if (s.ok()) s = env->NewDirectory(directory, &handle);
  if (s.ok()) s = handle->Fsync();
  return s;
}

Status SaveConvertState(rocksdb::Env* env, const std::string& directory, const ConvertState& state) {
  return ReplaceFile(env, directory, kConvertStateFile, EncodeConvertState(state));
}

Status LoadConvertState(rocksdb::Env* env, const std::string& directory, ConvertState* state) {
  const std::string path = directory + "/" + kConvertStateFile;
  Status s = env->FileExists(path);
  if (!s.ok()) return s;
  std::string text;
  s = rocksdb::ReadFileToString(env, path, &text);
  if (!s.ok()) return s;
  s = DecodeConvertState(text, state);
  if (s.IsNotSupported()) return Status::NotSupported(path, s.getState());
  return s.ok() ? s : Status::Corruption(path, s.ToString());
}

}  // namespace cairn
