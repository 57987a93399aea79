// The door to the memtables of a database whose writers do not queue (docs/design/write_path.md): shared by any number
// of writers while it is open, closed while anybody may change memtables or sequence numbers.
//
// A writer enters with one fetch_add, which gives it the sequence numbers of its batch, and has left when they are
// published. Numbers are published in their order: the newest published one moves over a batch only when all before it
// are in the memtables. So whoever closes the gate learns from the same word which number was the last, and waits until
// that is published.
//
// The word: bit 63 closed; bit 62 drained (all who were in have left); 22 bits count those who hold it closed; 40 bits
// count the numbers given since it was opened, or, while it is closed, how often somebody has left.
//
// Invariants
//   (1) While somebody holds the gate closed and Close has returned, no writer is between its number and its
//       publication, and none gets one.
//   (2) The newest published number is always the last of a batch, and everything up to it is in the memtables.
//   (3) Only the writer whose first number follows the newest may move that by itself; others only over a batch whose
//       writer has said that it is done.
//   (4) The gate is opened only if nobody has held it since the opener looked at what might speak against it.
//   (5) Whoever moves the newest published number wakes those who sleep until the numbers that it moved over are
//       published, and hardly anybody else: of thousands of writers each is woken about once.
//
// Thread-safety: all functions, by all threads. None needs a lock of the caller's, and Close must not be called with
// one that a writer inside may want.
//
// Source: the commit pipeline of Pebble, for the order of publication.

#pragma once

#include <array>
#include <atomic>
#include <chrono>
#include <cstdint>

#include "util/futex.h"
#include "util/mutex.h"

namespace cairn {

class WriteGate {
 public:
  // So many entries fit in a batch.
  static constexpr uint64_t kMostEntries = uint64_t{1} << 20;

  WriteGate() = default;
  WriteGate(const WriteGate&) = delete;
  WriteGate& operator=(const WriteGate&) = delete;

  // Where the newest published number is, before the gate is opened for the first time. Others store it while they hold
  // the gate closed.
  void Use(std::atomic<uint64_t>* newest) { newest_.store(newest, std::memory_order_release); }
  bool IsUsed() const { return newest_.load(std::memory_order_acquire) != nullptr; }

  // ---- for writers ----

  // The first of so many numbers, which the caller must publish; 0: the gate is closed.
  uint64_t Enter(uint64_t entries) {
    if ((word_.load(std::memory_order_relaxed) & kClosed) != 0) return 0;
    const uint64_t before = word_.fetch_add(entries, std::memory_order_acq_rel);
    return (before & kClosed) != 0 ? 0 : base_ + 1 + (before & kLow);
  }
  // What was to be inserted is. Returns when the numbers up to `last` are visible; whether it had to wait for others.
  bool Publish(uint64_t first, uint64_t last);
  // Returns when somebody has published `last`.
  void AwaitPublished(uint64_t last);
  // Opens the gate if nobody holds it and may_open() says so; whether it is open.
  template <class MayOpen>
  bool TryOpen(const MayOpen& may_open) {
    const MutexLock lock(&mutex_);
    uint64_t word = word_.load();
    if ((word & kClosed) == 0) return true;
    if ((word & (kDrained | kHolders)) != kDrained || !may_open()) return false;
    base_ = Newest();
    const auto closed = std::chrono::steady_clock::now() - closed_at_;
    if (!word_.compare_exchange_strong(word, 0)) return false;
    closed_nanos_ += static_cast<uint64_t>(std::chrono::nanoseconds(closed).count());
    return true;
  }
  // Returns when nobody holds the gate, or false after about so long.
  bool AwaitFree(std::chrono::microseconds patience);

  // ---- for all others ----

  // Closes the gate, and returns when the last writer has left. To be taken back by Leave, by any thread.
  void Close();
  void Leave();
  class Exclusive {
   public:
    // Null: does nothing.
    explicit Exclusive(WriteGate* gate) : gate_(gate) {
      if (gate_ != nullptr) gate_->Close();
    }
    ~Exclusive() {
      if (gate_ != nullptr) gate_->Leave();
    }
    Exclusive(const Exclusive&) = delete;
    Exclusive& operator=(const Exclusive&) = delete;

   private:
    WriteGate* const gate_;
  };

  struct Counts {
    uint64_t closings = 0;      // of an open gate
    uint64_t closed_nanos = 0;  // until it was opened again
    uint64_t sleeps = 0;        // of those who waited at the gate or for a publication
  };
  Counts counts() const;

 private:
  static constexpr uint64_t kClosed = uint64_t{1} << 63;
  static constexpr uint64_t kDrained = uint64_t{1} << 62;
  static constexpr uint64_t kHolder = uint64_t{1} << 40;
  static constexpr uint64_t kLow = kHolder - 1;
  static constexpr uint64_t kHolders = (kDrained - 1) & ~kLow;
  // Batches that are done, by their first number: each slot holds the last number of one, or of an older one. Numbers
  // that follow each other lie in different cache lines.
  static constexpr uint64_t kSlots = 1024;
  static constexpr uint64_t kSlotsInLine = 8;

  std::atomic<uint64_t>& SlotOf(uint64_t first) {
    const uint64_t lines = kSlots / kSlotsInLine;
    return slots_[first % lines * kSlotsInLine + first / lines % kSlotsInLine];
  }
  uint64_t Newest() const { return newest_.load(std::memory_order_relaxed)->load(); }
  // Moves the newest number, which has been `from`, over all batches that are done; where it is.
  uint64_t Advance(uint64_t from);
  // The same, by one who waits.
  void Help();

  static uint32_t BitOf(uint64_t number) { return uint32_t{1} << (number / kSlots % 32); }
  // Wakes whoever waits for a number above `from` and up to `to`, which are published.
  void Wake(uint64_t from, uint64_t to) {
    if (sleepers_.load() != 0) WakeSleepers(from, to);
  }
  void WakeSleepers(uint64_t from, uint64_t to);

  // Wakes those who wait for another state of the gate.
  void TellOfState();
  // Spins, then sleeps, until done() says so of the state.
  template <class Done>
  bool AwaitState(const Done& done, std::chrono::steady_clock::time_point until);

  alignas(64) std::atomic<uint64_t> word_{kClosed | kDrained};
  uint64_t base_ = 0;  // the newest number when the gate was opened; changes while it is closed and drained
  std::atomic<std::atomic<uint64_t>*> newest_{nullptr};
  alignas(64) std::atomic<uint64_t> sleepers_{0};  // of all numbers
  std::atomic<uint64_t> sleeps_{0};
  std::atomic<uint64_t> state_waiters_{0};
  alignas(64) std::array<std::atomic<uint64_t>, kSlots> slots_{};
  // Who sleeps until a number is published; numbers that lie kSlots apart share one, with a bit each.
  alignas(64) std::array<Futex, kSlots> published_;

  mutable CheckedMutex mutex_;
  ConditionVariable changed_;
  std::chrono::steady_clock::time_point closed_at_ CAIRN_GUARDED_BY(mutex_) = std::chrono::steady_clock::now();
  uint64_t closings_ CAIRN_GUARDED_BY(mutex_) = 0;
  uint64_t closed_nanos_ CAIRN_GUARDED_BY(mutex_) = 0;
};

}  // namespace cairn
