#include <algorithm>
#include <filesystem>
#include <fstream>
#include <utility>

#include "cache/cache_reservation_manager.h"
#include "file/filename.h"
#include "memtable_cache/pool_note.h"
#include "result_cache/database_cache.h"
#include "result_cache/get_or_begin.h"
#include "util/rocksdb_names.h"

namespace cairn {

namespace {

constexpr char kFileIdentity[] = "cairn: answers of a database";

// Whether the file is one that the database might make itself.
Status CheckName(const std::string& file, const std::string& path) {
  namespace fs = std::filesystem;
  const fs::path normal = fs::path(file).lexically_normal();
  const std::string name = normal.filename();
  uint64_t number = 0;
  rocksdb::FileType type = rocksdb::kTempFile;
  const bool taken = name == kPoolFileName || name == kPoolNoteName || name.compare(0, 3, "LOG") == 0 ||
                     rocksdb::ParseFileName(name, &number, &type);
  if (!taken || (normal.parent_path() / "").lexically_normal() != (fs::path(path) / "").lexically_normal()) {
    return Status::OK();
  }
  return Status::InvalidArgument("cairn.ResultCache: path is " + file,
                                 "this is the name of a file of the database itself; take another one");
}

// Whether the database's Env shows the file as the system does. Else it keeps the database's files elsewhere, so that
// nothing would tell what has become of them, or in another form: encrypted, and so should be what the cache holds.
bool IsAsTheSystemHasIt(rocksdb::Env* env, const std::string& file) {
  char system[64];
  char through[sizeof(system)];
  std::ifstream(file, std::ios::binary).read(system, sizeof(system));
  std::unique_ptr<rocksdb::SequentialFile> opened;
  Slice read;
  return env->NewSequentialFile(file, &opened, rocksdb::EnvOptions()).ok() &&
         opened->Read(sizeof(through), &read, through).ok() && read == Slice(system, sizeof(system));
}

// Why nobody can have the file: who has the database open has it, too.
Status WhoHasIt(rocksdb::Env* env, const std::string& path, const Status& otherwise) {
  const std::string name = rocksdb::LockFileName(path);
  if (!env->FileExists(name).ok()) return otherwise;
  rocksdb::FileLock* lock = nullptr;
  const Status s = env->LockFile(name, &lock);
  if (!s.ok()) return s;
  env->UnlockFile(lock).PermitUncheckedError();
  return otherwise;
}

struct Opened {
  std::unique_ptr<ResultCache> cache;
  std::unique_ptr<FileBinding> binding;
  std::string no_file;  // why there is none
};

Status OpenCacheFile(ResultCacheOptions* own, bool stamps, rocksdb::Env* env, const std::string& path, Opened* opened) {
  cache::CacheFile* file = nullptr;
  const IndexStatus s = cache::OpenUnbelieved(*own, stamps, &opened->cache, &file);
  if (s.code() == IndexStatus::Code::kInvalidArgument) {
    return WhoHasIt(env, path, Status::InvalidArgument("cairn.ResultCache", s.message()));
  }
  if (!s.ok()) {
    opened->no_file = "it is in memory only: " + std::string(s.message());
  } else if (!IsAsTheSystemHasIt(env, own->path)) {
    opened->no_file = std::string("it is in memory only: the Env ") + env->Name() +
                      " keeps files elsewhere than the system or in another form";
    const bool found = file->found();
    opened->cache.reset();
    if (!found) cache::CacheFile::Remove(own->path, kFileIdentity);
  } else {
    opened->binding = std::make_unique<FileBinding>(file, path);
  }
  if (opened->binding == nullptr) own->path.clear();
  return Status::OK();
}

}  // namespace

void RemoveDatabaseCacheFiles(const std::string& folder) {
  std::error_code error;
  std::vector<std::string> files;
  for (const auto& entry : std::filesystem::directory_iterator(folder, error)) {
    if (entry.is_regular_file(error)) files.push_back(entry.path());
  }
  for (const std::string& file : files) cache::CacheFile::Remove(file, kFileIdentity);
}

Status DatabaseCache::Create(const DatabaseCacheOptions& options, rocksdb::Env* env, const std::string& path,
                             std::shared_ptr<rocksdb::Cache> block_cache, std::unique_ptr<DatabaseCache>* cache) {
  cache->reset();
  ResultCacheOptions own;
  own.capacity = options.capacity;
  own.max_capacity = std::max<uint64_t>(options.capacity, 1);
  own.compression = options.compression;
  own.admit_one_fill_in = options.admit_one_fill_in;
  own.huge_pages = options.huge_pages;
  if (block_cache != nullptr) {
    using Reservation = rocksdb::CacheReservationManagerImpl<rocksdb::CacheEntryRole::kMisc>;
    const auto charge = std::make_shared<rocksdb::ConcurrentCacheReservationManager>(
        std::make_shared<Reservation>(std::move(block_cache)));
    own.memory_changed = [charge](int64_t bytes) {
      charge->UpdateCacheReservation(static_cast<size_t>(bytes < 0 ? -bytes : bytes), bytes > 0).PermitUncheckedError();
    };
  }
  Opened opened;
  if (!options.path.empty()) {
    const bool in_folder = options.path.front() != '/';
    own.path = in_folder ? path + "/" + options.path : options.path;
    own.identity = kFileIdentity;
    Status s = CheckName(own.path, path);
    if (s.ok() && in_folder) env->CreateDirIfMissing(path).PermitUncheckedError();
    if (s.ok()) s = OpenCacheFile(&own, options.survive_power_loss, env, path, &opened);
    if (!s.ok()) return s;
  }
  if (opened.cache == nullptr) {
    const IndexStatus made = ResultCache::Create(own, &opened.cache);
    if (!made.ok()) return Status::InvalidArgument("cairn.ResultCache", made.message());
  }
  cache->reset(new DatabaseCache(options, std::move(opened.cache), std::move(opened.binding)));
  (*cache)->distrust_ = opened.no_file;
  if ((*cache)->in_file()) (*cache)->wal_report_.since.point = (*cache)->binding_->found_point().sequence;
  return Status::OK();
}

}  // namespace cairn
