// What a database must hold, kept in a file that several processes map, so that it outlives the one that writes.
//
// Each key of each column family has the number of the value that was last acknowledged (0: it is not there). A thread
// that writes puts down first what it is about to write; after a kill each of these writes is there with all others of
// its batch, or none of them is.
//
// Thread-safety: a key's number belongs to who holds its lock (Locks); a thread's slot to the thread.

#pragma once

#include <atomic>
#include <cstdint>
#include <functional>
#include <string>

namespace cairn::stress {

inline constexpr int kThreads = 8;
inline constexpr int kKeys = 2000;
inline constexpr int kFamilies = 3;
inline constexpr int kMaxBatch = 64;

struct PendingWrite {
  int family;
  int key;
  uint64_t before;
  uint64_t number;
};

struct Slot {
  std::atomic<int> pending;       // how many of `writes` are under way
  std::atomic<int> acknowledged;  // the database has said OK
  PendingWrite writes[kMaxBatch];
  std::atomic<uint64_t> operations;
};

struct Shared {
  std::atomic<uint64_t> numbers[kFamilies][kKeys];
  std::atomic<uint64_t> next_number;
  // Increments of the one key that all threads merge into.
  std::atomic<uint64_t> hot_begun;
  std::atomic<uint64_t> hot_acknowledged;
  Slot slots[kThreads];
  std::atomic<int> opened;
  std::atomic<int> failed;  // 1: somebody writes `message`; 2: it is written
  char message[2000];

  void Fail(const std::string& text);
};

// Null when it cannot be mapped.
Shared* MapShared(const std::string& path);

// Key i of every column family, in the order of i; and the value of a number, which nobody else's bytes equal.
std::string KeyOf(int index);
// -1: it is no key of ours.
int IndexOf(const std::string& key);
std::string ValueOf(int key, uint64_t number);
// False when the bytes are not what some number's value for this key is.
bool NumberOf(int key, const std::string& value, uint64_t* number);

// After a kill: what the batches that were under way have left. `found(family, key)` is the number in the database.
// Makes every number of `shared` what is there, and the slots empty. Empty: nothing acknowledged is lost, no batch is
// torn, and nothing is there that nobody wrote.
std::string Settle(Shared* shared, const std::function<uint64_t(int family, int key)>& found);

}  // namespace cairn::stress
