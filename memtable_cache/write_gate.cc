#include "memtable_cache/write_gate.h"

#include "port/port.h"

namespace cairn {

namespace {

// About as long as RocksDB's writers spin before they yield. Whoever waits longer waits for a thread that does not run.
constexpr int kSpinsBeforeSleep = 200;

constexpr auto kForever = std::chrono::steady_clock::time_point::max();

}  // namespace

bool WriteGate::Publish(uint64_t first, uint64_t last) {
  if (Newest() + 1 == first) {
    newest_.load(std::memory_order_relaxed)->store(last);  // by (3)
    Advance();
    WakeSleepers();
    return false;
  }
  // A slot may hold a number that is not published yet until then.
  if (first - Newest() > kSlots) Await([&] { return first - Newest() <= kSlots; }, kForever);
  SlotOf(first).store(last, std::memory_order_release);
  Await([&] { return Newest() >= last; }, kForever);
  return true;
}

void WriteGate::AwaitPublished(uint64_t last) {
  Await([&] { return Newest() >= last; }, kForever);
}

// Whoever moves it looks for the next batch. One who misses a batch that was done meanwhile is followed by that batch's
// writer, who looks before it sleeps.
bool WriteGate::Advance() {
  std::atomic<uint64_t>* const newest = newest_.load(std::memory_order_relaxed);
  if (newest == nullptr) return false;
  uint64_t from = newest->load();
  bool moved = false;
  for (;;) {
    const uint64_t to = SlotOf(from + 1).load(std::memory_order_acquire);
    if (to <= from) return moved;  // an older batch's
    if (newest->compare_exchange_strong(from, to)) {
      from = to;
      moved = true;
    }
  }
}

// A sleeper counts itself before it looks for the last time; a waker looks here after what it changed.
void WriteGate::WakeSleepers() {
  if (sleepers_.load() == 0) return;
  const MutexLock lock(&mutex_);
  changed_.NotifyAll();
}

template <class Done>
bool WriteGate::Await(const Done& done, std::chrono::steady_clock::time_point until) {
  for (int i = 0; i < kSpinsBeforeSleep; ++i) {
    if (done()) return true;
    if (Advance()) WakeSleepers();
    rocksdb::port::AsmVolatilePause();
  }
  const MutexLock lock(&mutex_);
  ++sleeps_;
  sleepers_.fetch_add(1);
  bool in_time = true;
  for (;;) {
    if (Advance()) changed_.NotifyAll();
    if (done() || !in_time) break;
    if (until == kForever) {
      changed_.Wait(&mutex_);
    } else {
      in_time = changed_.WaitUntil(&mutex_, until);
    }
  }
  sleepers_.fetch_sub(1);
  return in_time;
}

bool WriteGate::AwaitFree(std::chrono::microseconds patience) {
  return Await([&] { return (word_.load() & kHolders) == 0; }, std::chrono::steady_clock::now() + patience);
}

void WriteGate::Close() {
  uint64_t word = word_.load();
  uint64_t next;
  do {
    next = (word | kClosed) + kHolder;
  } while (!word_.compare_exchange_weak(word, next));
  if ((word & kClosed) != 0) {
    if ((word & kDrained) == 0) Await([&] { return (word_.load() & kDrained) != 0; }, kForever);
    return;
  }
  {
    const MutexLock lock(&mutex_);
    closed_at_ = std::chrono::steady_clock::now();
    ++closings_;
  }
  const uint64_t last = base_ + (word & kLow);
  Await([&] { return Newest() >= last; }, kForever);
  word_.fetch_or(kDrained);
  WakeSleepers();
}

void WriteGate::Leave() {
  uint64_t word = word_.load();
  uint64_t next;
  do {
    next = ((word & ~kLow) - kHolder) | ((word + 1) & kLow);
  } while (!word_.compare_exchange_weak(word, next));
  if ((next & kHolders) == 0) WakeSleepers();
}

WriteGate::Counts WriteGate::counts() const {
  const MutexLock lock(&mutex_);
  return {closings_, closed_nanos_, sleeps_};
}

}  // namespace cairn
