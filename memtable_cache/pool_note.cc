#include "memtable_cache/pool_note.h"

#include <cinttypes>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <memory>

#include "util/crc32c.h"
#include "util/format_version.h"

namespace cairn {

using rocksdb::Env;
using rocksdb::Status;

namespace {

namespace fs = std::filesystem;

constexpr char kTitle[] = "cairn pool note ";
constexpr uint64_t kVersion = 2;

std::string FirstLine() { return kTitle + std::to_string(kVersion) + "\n"; }

std::string NotePath(const std::string& database) { return database + "/" + kPoolNoteName; }

std::string Hex(uint64_t number) {
  char text[20];
  std::snprintf(text, sizeof(text), "%016" PRIx64, number);
  return text;
}

// What a link or a relative path stands for, so that the note holds after a change of the working directory.
fs::path Whole(const std::string& path) {
  std::error_code error;
  fs::path whole = fs::weakly_canonical(path, error);
  if (error) whole = fs::absolute(path, error);
  return error ? fs::path(path) : whole;
}

Status WriteNote(Env* env, const std::string& database, const PoolNote& note) {
  const std::string path = NotePath(database);
  const std::string beside = path + ".tmp";
  Status s = rocksdb::WriteStringToFile(env, EncodePoolNote(note), beside, /*should_sync=*/true);
  if (s.ok()) s = env->RenameFile(beside, path);
  std::unique_ptr<rocksdb::Directory> directory;
  if (s.ok()) s = env->NewDirectory(database, &directory);
  return s.ok() ? directory->Fsync() : s;
}

}  // namespace

// The path is last, because it may hold anything.
std::string EncodePoolNote(const PoolNote& note) {
  std::string body = std::string("state ") + (note.live ? "live" : "idle") + "\nsession " + Hex(note.session) + "\n";
  for (const auto& [id, name] : note.families) {
    body += "family " + std::to_string(id) + " " + rocksdb::Slice(name).ToString(/*hex=*/true) + "\n";
  }
  body += "pool " + note.pool + "\n";
  return FirstLine() + ("checksum " + Hex(rocksdb::crc32c::Value(body.data(), body.size()))) + "\n" + body;
}

Status DecodePoolNote(const std::string& text, PoolNote* note) {
  const Status damaged = Status::Corruption("the pool note is damaged");
  const size_t head = FirstLine().size();
  const size_t body_at = head + 9 + 16 + 1;
  uint64_t version = 0;
  if (text.rfind(kTitle, 0) == 0) version = strtoull(text.c_str() + strlen(kTitle), nullptr, 10);
  if (version > kVersion) return Status::NotSupported("the pool note has " + UnknownVersion(version, kVersion));
  if (text.size() <= body_at || text.compare(0, head, FirstLine()) != 0) return damaged;
  const std::string body = text.substr(body_at);
  const std::string checksum = "checksum " + Hex(rocksdb::crc32c::Value(body.data(), body.size())) + "\n";
  if (text.compare(head, checksum.size(), checksum) != 0) return damaged;
  const std::string before_pool = "\npool ";
  const std::string before_family = "\nfamily ";
  const size_t pool_at = body.find(before_pool);
  char state[8] = {};
  if (std::sscanf(body.c_str(), "state %4s\nsession %16" SCNx64, state, &note->session) != 2 ||
      pool_at == std::string::npos || body.back() != '\n') {
    return damaged;
  }
  note->live = std::string(state) == "live";
  note->families.clear();
  for (size_t at = body.find(before_family); at < pool_at; at = body.find(before_family, at + 1)) {
    const size_t number_at = at + before_family.size();
    const size_t name_at = body.find(' ', number_at) + 1;
    const std::string hex = body.substr(name_at, body.find('\n', name_at) - name_at);
    std::string name;
    if (!rocksdb::Slice(hex).DecodeHex(&name)) return damaged;
    note->families[static_cast<uint32_t>(strtoul(body.c_str() + number_at, nullptr, 10))] = name;
  }
  note->pool = body.substr(pool_at + before_pool.size(), body.size() - pool_at - before_pool.size() - 1);
  if (note->pool.empty()) return damaged;
  return Status::OK();
}

Status ReadPoolNote(Env* env, const std::string& database, PoolNote* note) {
  const std::string path = NotePath(database);
  if (!env->FileExists(path).ok()) return Status::NotFound(path, "is not there");
  std::string text;
  Status s = rocksdb::ReadFileToString(env, path, &text);
  if (!s.ok()) return s;
  s = DecodePoolNote(text, note);
  if (s.IsNotSupported()) return Status::NotSupported(path, s.getState());
  if (!s.ok()) return Status::Corruption(path, "is damaged");
  if (fs::path(note->pool).is_relative()) note->pool = database + "/" + note->pool;
  return s;
}

Status NotePoolLive(Env* env, const std::string& database, const std::string& pool, uint64_t session,
                    const std::map<uint32_t, std::string>& families) {
  const fs::path whole = Whole(pool);
  PoolNote note;
  note.pool = whole.parent_path() == Whole(database) ? whole.filename().string() : whole.string();
  note.session = session;
  note.live = true;
  note.families = families;
  return WriteNote(env, database, note);
}

Status NotePoolIdle(Env* env, const std::string& database) {
  PoolNote note;
  const Status s = ReadPoolNote(env, database, &note);
  if (s.IsNotFound()) return Status::OK();
  if (s.IsCorruption()) return env->DeleteFile(NotePath(database));
  if (!s.ok() || !note.live) return s;
  const fs::path whole = Whole(note.pool);
  if (whole.parent_path() == Whole(database)) note.pool = whole.filename().string();
  note.live = false;
  return WriteNote(env, database, note);
}

}  // namespace cairn
