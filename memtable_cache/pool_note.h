// The note in a database's directory that says where its pool file is and whether writes may lie in it: the file
// CAIRN_POOL_NOTE (docs/design/durable_memtable.md, The note). A pool file may lie anywhere, and be lost; without the
// note nobody could know that it was ever there.
//
// Invariant: while a pool file's phase is not idle, its database's note says live, with the pool's session. The note
// says so before the pool does, and idle after it.
//
// Thread-safety: none; whoever writes it holds the database's LOCK.

#pragma once

#include <cstdint>
#include <map>
#include <string>

#include "rocksdb/env.h"
#include "rocksdb/status.h"

namespace cairn {

inline constexpr char kPoolFileName[] = "CAIRN_POOL";  // where no other is said
inline constexpr char kPoolNoteName[] = "CAIRN_POOL_NOTE";

struct PoolNote {
  std::string pool;      // path; relative to the database's directory if it lies there
  uint64_t session = 0;  // the superblock's
  bool live = false;
  // Names of the column families by id, as of the session: a MANIFEST that is lost was all that knew them otherwise.
  std::map<uint32_t, std::string> families;
};

std::string EncodePoolNote(const PoolNote& note);
// Corruption says what is wrong with the text, NotSupported that it is a later Cairn's.
rocksdb::Status DecodePoolNote(const std::string& text, PoolNote* note);

// NotFound when there is none, NotSupported when a later Cairn wrote it; `note->pool` is a path that can be opened.
rocksdb::Status ReadPoolNote(rocksdb::Env* env, const std::string& database, PoolNote* note);
// Durable when it returns.
rocksdb::Status NotePoolLive(rocksdb::Env* env, const std::string& database, const std::string& pool, uint64_t session,
                             const std::map<uint32_t, std::string>& families);
// Nothing to do where no note says live. A damaged note is removed.
rocksdb::Status NotePoolIdle(rocksdb::Env* env, const std::string& database);

}  // namespace cairn
