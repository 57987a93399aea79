#include "tools/convert_state.h"

#include <cinttypes>
#include <cstdio>
#include <memory>
#include <sstream>

#include "rocksdb/slice.h"
#include "tools/arguments.h"
#include "util/hash.h"

namespace cairn {
namespace {

using rocksdb::Slice;
using rocksdb::Status;

constexpr char kFirstLine[] = "cairn convert 1";
constexpr const char* kStepNames[] = {"copy", "settle", "verify", "whole"};

// Any bytes as one word that people can read: what is not printable, a blank or '%' is %XX, nothing at all is "-".
std::string Word(const std::string& text) {
  if (text.empty()) return "-";
  if (text == "-") return "%2D";
  std::string word;
  for (const char c : text) {
    if (c > ' ' && c <= '~' && c != '%') {
      word += c;
    } else {
      char hex[4];
      std::snprintf(hex, sizeof(hex), "%%%02X", static_cast<unsigned>(static_cast<unsigned char>(c)));
      word += hex;
    }
  }
  return word;
}

bool Unword(const std::string& word, std::string* text) {
  text->clear();
  if (word == "-") return true;
  for (size_t i = 0; i < word.size(); i++) {
    if (word[i] != '%') {
      *text += word[i];
      continue;
    }
    std::string byte;
    if (word.size() - i < 3 || !Slice(word.data() + i + 1, 2).DecodeHex(&byte)) return false;
    *text += byte;
    i += 2;
  }
  return !word.empty();
}

std::string Checksum(const std::string& text) {
  char hex[20];
  std::snprintf(hex, sizeof(hex), "%016" PRIx64, rocksdb::Hash64(text.data(), text.size()));
  return hex;
}

void AppendPosition(const ConvertPosition& position, std::string* line) {
  *line += " " + std::string(position.finished ? "done" : "part") + " " + std::to_string(position.records) + " " +
           std::to_string(position.fingerprint) + " " + Word(position.key);
}

bool ReadNumber(std::istringstream* words, uint64_t* number) {
  std::string word;
  // Digits only: ParseCount also takes suffixes.
  return (*words >> word) && word.find_first_not_of("0123456789") == std::string::npos && ParseCount(word, number);
}

bool ReadWord(std::istringstream* words, std::string* text) {
  std::string word;
  return (*words >> word) && Unword(word, text);
}

bool ReadPosition(std::istringstream* words, ConvertPosition* position) {
  std::string extent;
  if (!(*words >> extent) || (extent != "done" && extent != "part")) return false;
  position->finished = extent == "done";
  return ReadNumber(words, &position->records) && ReadNumber(words, &position->fingerprint) &&
         ReadWord(words, &position->key);
}

bool ReadStep(std::istringstream* words, ConvertStep* step) {
  std::string word;
  *words >> word;
  for (int i = 0; i < 4; i++) {
    if (word != kStepNames[i]) continue;
    *step = static_cast<ConvertStep>(i);
    return true;
  }
  return false;
}

bool ReadFamily(std::istringstream* words, ConvertFamily* family) {
  std::string extent;
  if (!ReadWord(words, &family->name) || !(*words >> extent)) return false;
  family->converted = extent == "converted";
  return (family->converted || extent == "kept") && ReadPosition(words, &family->copied) &&
         ReadPosition(words, &family->compared) && ReadPosition(words, &family->counted);
}

bool ReadLine(const std::string& line, ConvertState* state) {
  std::istringstream words(line);
  std::string what;
  words >> what;
  bool ok = false;
  if (what == "source") {
    ok = ReadWord(&words, &state->source) && ReadWord(&words, &state->source_id) &&
         ReadNumber(&words, &state->source_sequence);
  } else if (what == "engine") {
    ok = ReadWord(&words, &state->engine);
  } else if (what == "option") {
    state->engine_options.emplace_back();
    ok = ReadWord(&words, &state->engine_options.back());
  } else if (what == "step") {
    ok = ReadStep(&words, &state->step);
  } else if (what == "family") {
    state->families.emplace_back();
    ok = ReadFamily(&words, &state->families.back());
  }
  return ok && (words >> std::ws).eof();
}

}  // namespace

std::string EncodeConvertState(const ConvertState& state) {
  std::string text = std::string(kFirstLine) + "\n";
  text +=
      "source " + Word(state.source) + " " + Word(state.source_id) + " " + std::to_string(state.source_sequence) + "\n";
  text += "engine " + Word(state.engine) + "\n";
  for (const std::string& option : state.engine_options) text += "option " + Word(option) + "\n";
  text += std::string("step ") + kStepNames[static_cast<int>(state.step)] + "\n";
  for (const ConvertFamily& family : state.families) {
    std::string line = "family " + Word(family.name) + (family.converted ? " converted" : " kept");
    AppendPosition(family.copied, &line);
    AppendPosition(family.compared, &line);
    AppendPosition(family.counted, &line);
    text += line + "\n";
  }
  return text + "checksum " + Checksum(text) + "\n";
}

Status DecodeConvertState(const std::string& text, ConvertState* state) {
  const std::string mark = "checksum ";
  const size_t tail = mark.size() + 16 + 1;
  if (text.size() < tail || text.compare(text.size() - tail, mark.size(), mark) != 0 || text.back() != '\n') {
    return Status::Corruption(kConvertStateFile, "is cut off");
  }
  const std::string body = text.substr(0, text.size() - tail);
  if (text.compare(text.size() - 17, 16, Checksum(body)) != 0) {
    return Status::Corruption(kConvertStateFile, "has a wrong checksum");
  }
  std::istringstream lines(body);
  std::string line;
  if (!std::getline(lines, line) || line != kFirstLine) {
    return Status::Corruption(kConvertStateFile, "was written by another version of cairn: " + line);
  }
  ConvertState result;
  while (std::getline(lines, line)) {
    if (!ReadLine(line, &result))
      return Status::Corruption(kConvertStateFile, "has a line that cannot be read: " + line);
  }
  *state = std::move(result);
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
  return s.ok() ? s : Status::Corruption(path, s.ToString());
}

}  // namespace cairn
