// The parts of cairn_error_stress: what a database is to hold, and a database that is written, closed and opened again while
// its disk fails.

#pragma once

#include <array>
#include <atomic>
#include <functional>
#include <memory>
#include <shared_mutex>
#include <string>
#include <vector>

#include "rocksdb/db.h"
#include "rocksdb/listener.h"
#include "rocksdb/options.h"
#include "test/error_stress/watch.h"
#include "test/testutil/faulty_disk.h"
#include "test/testutil/random.h"

namespace cairn {
namespace errors {

// What one thread has written to a database, key by key: its n-th write is of the value n. The thread writes it, and whoever
// keeps the thread from writing reads it.
class Written {
 public:
  static constexpr int kKeys = 64;

  // The key of the n-th write, and its family.
  static int KeyOf(uint64_t n) { return static_cast<int>(n % kKeys); }
  static int FamilyOf(int key) { return key % 2; }

  void Begin(uint64_t n) { begun_[KeyOf(n)] = n; }
  void Acknowledge(uint64_t n) { acknowledged_[KeyOf(n)] = n; }
  // Whether a key may hold this write's value (0: none). A write that was refused may be there all the same.
  bool Allows(int key, uint64_t n) const { return acknowledged_[key] <= n && n <= begun_[key]; }
  uint64_t acknowledged(int key) const { return acknowledged_[key]; }
  uint64_t begun(int key) const { return begun_[key]; }

 private:
  std::array<uint64_t, kKeys> begun_{}, acknowledged_{};
};

// How often what was met; says what a run was worth.
struct Counts {
  std::atomic<uint64_t> written{0}, refused{0}, errors{0}, for_good{0}, recovered{0}, resumed{0}, closed{0};
};

// A database of two families, on a disk of its own, that is closed and opened again while other threads use it. Invariants:
//   1. Whoever uses db_ holds mu_, shared; it is open then, but for a moment in which it could not be opened.
//   2. Whoever waits for mu_ alone has set closing_, and nobody but a listener begins to use the database.
//   3. A listener does not wait for mu_: Close waits for listeners.
class Database {
 public:
  static constexpr int kWriters = 2;

  // seed: of its options. The SstFileManager and the WriteBufferManager (or null) are shared.
  Database(std::string name, const std::string& folder, uint64_t seed,
           std::shared_ptr<rocksdb::WriteBufferManager> buffers, Watch* watch, Counts* counts, const Verdict* verdict);
  ~Database();
  Database(const Database&) = delete;
  Database& operator=(const Database&) = delete;

  rocksdb::Env* env() const { return env_.get(); }
  test::FaultyDisk* disk() const { return disk_.get(); }
  void ShareManager(const std::shared_ptr<rocksdb::SstFileManager>& manager) { options_.sst_file_manager = manager; }
  // What a listener may call when it hears of a recovery's end.
  void SetOther(Database* other) { other_ = other; }

  // Opens it as soon as its disk lets it, and compares it with what was written.
  void Open();
  void CloseAndOpen();
  // Calls `use` with the open database; a listener, which may not wait, only if nobody closes it.
  void Use(const std::string& what, const std::function<void(rocksdb::DB*)>& use);
  void UseIfOpen(const std::string& what, const std::function<void(rocksdb::DB*)>& use);

  // The n-th write of a thread.
  void Write(int writer, uint64_t n);
  // Something else that programs do, by chance.
  void Operate(test::Random* random);
  // Nothing fails any more: no error stops it any longer, if need be once opened anew.
  void Resume();
  // The same, and it takes a write and a flush. REQUIRES: nor does an error stop the other one, whose share of the
  // WriteBufferManager the write would wait for.
  void Recover();
  // Forgets that a write was not acknowledged, to see that a loss is seen. REQUIRES: nobody writes.
  void PretendOneMore() { written_[0].Begin(1 << 30), written_[0].Acknowledge(1 << 30); }

 private:
  class Listener;

  rocksdb::Status TryToOpen();
  void Close();
  // REQUIRES: nobody writes.
  void Compare();
  rocksdb::Status WriteAndFlush(rocksdb::DB* db);
  rocksdb::ColumnFamilyHandle* FamilyOf(int key) const { return families_[Written::FamilyOf(key)]; }

  const std::string name_, path_;
  Watch* const watch_;
  Counts* const counts_;
  const Verdict* const verdict_;
  const std::shared_ptr<test::FaultyDisk> disk_;
  const std::unique_ptr<rocksdb::Env> env_;
  rocksdb::Options options_;
  Database* other_ = nullptr;

  std::atomic<bool> closing_{false};
  std::shared_mutex mu_;
  std::unique_ptr<rocksdb::DB> db_;
  std::vector<rocksdb::ColumnFamilyHandle*> families_;
  std::array<Written, kWriters> written_;
};

}  // namespace errors
}  // namespace cairn
