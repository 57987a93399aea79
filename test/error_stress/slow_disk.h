// A disk that is slow by chance, fails once where it is told, and gives copies of a folder as a crash would leave it.

#pragma once

#include <atomic>
#include <cstdint>
#include <map>
#include <memory>
#include <mutex>
#include <set>
#include <shared_mutex>
#include <string>

#include "rocksdb/file_system.h"
#include "test/testutil/random.h"

namespace cairn {
namespace errors {

enum class Fault {
  kNone,
  kWalAppend,
  kWalTorn,  // an append that has written a part
  kWalSync,
  kWalCreation,
  kTableAppend,
  kManifestAppend,
  kManifestSync,
  kFolderSync,
};
constexpr int kFaults = 8;  // without kNone

const char* NameOf(Fault fault);

// Thread-safe. Outlives its files. Syncs nothing: only it can tell what has been synced.
class SlowDisk : public rocksdb::FileSystemWrapper {
 public:
  // seed: also of how much of the time it is slow.
  SlowDisk(const std::shared_ptr<rocksdb::FileSystem>& base, uint64_t seed)
      : FileSystemWrapper(base), random_(seed), slow_one_in_(uint64_t{1} << (2 * random_.Uniform(3))) {}
  const char* Name() const override { return "SlowDisk"; }

  // From now on nothing is slow.
  void BeFast() { slow_ = false; }
  // The next call of that kind fails: finds no space, or in a way that may pass. kNone: none does.
  void Arm(Fault fault, bool full);
  uint64_t felt() const { return felt_; }
  // The files of a folder, not of those in it, at one moment. loses_unsynced: without what has not been synced of WALs,
  // MANIFESTs and tables, and by chance without WALs and tables whose names have not. REQUIRES: then no WAL is reused.
  void Copy(const std::string& from, const std::string& to, bool loses_unsynced);

  rocksdb::IOStatus NewWritableFile(const std::string& name, const rocksdb::FileOptions& options,
                                    std::unique_ptr<rocksdb::FSWritableFile>* file,
                                    rocksdb::IODebugContext* context) override;
  rocksdb::IOStatus ReuseWritableFile(const std::string& name, const std::string& old_name,
                                      const rocksdb::FileOptions& options,
                                      std::unique_ptr<rocksdb::FSWritableFile>* file,
                                      rocksdb::IODebugContext* context) override;
  rocksdb::IOStatus NewRandomRWFile(const std::string& name, const rocksdb::FileOptions& options,
                                    std::unique_ptr<rocksdb::FSRandomRWFile>* file,
                                    rocksdb::IODebugContext* context) override;
  rocksdb::IOStatus NewDirectory(const std::string& name, const rocksdb::IOOptions& options,
                                 std::unique_ptr<rocksdb::FSDirectory>* folder,
                                 rocksdb::IODebugContext* context) override;
  rocksdb::IOStatus DeleteFile(const std::string& name, const rocksdb::IOOptions& options,
                               rocksdb::IODebugContext* context) override;
  rocksdb::IOStatus RenameFile(const std::string& from, const std::string& to, const rocksdb::IOOptions& options,
                               rocksdb::IODebugContext* context) override;
  rocksdb::IOStatus LinkFile(const std::string& from, const std::string& to, const rocksdb::IOOptions& options,
                             rocksdb::IODebugContext* context) override;

 private:
  class File;
  class RandomFile;
  class Folder;

  // Every change of a file is made with this held, so that a copy is of one moment.
  std::shared_lock<std::shared_mutex> Change() { return std::shared_lock<std::shared_mutex>(changes_); }
  uint64_t Uniform(uint64_t n);
  // Often not at all, now and then for long.
  void BeSlow();
  void BeVerySlow();
  bool Takes(Fault fault);
  rocksdb::IOStatus Error() const;
  void NoteSynced(const std::string& name, uint64_t size);
  // A folder's sync covers the names that it has when it begins.
  std::set<std::string> NamesToSync() const;
  void NoteNamesSynced(const std::set<std::string>& names);

  std::atomic<bool> slow_{true};
  std::atomic<Fault> armed_{Fault::kNone};
  std::atomic<bool> full_{false};
  std::atomic<uint64_t> felt_{0};
  std::shared_mutex changes_;
  mutable std::mutex mu_;
  test::Random random_;                     // under mu_
  const uint64_t slow_one_in_;              // of the calls
  std::map<std::string, uint64_t> synced_;  // under mu_: of each file that was created, its size at its last sync
  std::set<std::string> new_names_;         // under mu_: created since their folder was synced
};

}  // namespace errors
}  // namespace cairn
