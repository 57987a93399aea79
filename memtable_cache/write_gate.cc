#include "memtable_cache/write_gate.h"

#include "util/spin.h"

namespace cairn {

namespace {

// About as long as RocksDB's writers spin before they yield. Whoever waits longer waits for a thread that does not run.
constexpr int kSpinsBeforeSleep = 200;

constexpr auto kForever = std::chrono::steady_clock::time_point::max();

}  // namespace

bool WriteGate::Publish(uint64_t first, uint64_t last) {
  if (Newest() + 1 == first) {
    newest_.load(std::memory_order_relaxed)->store(last);  // by (3)
    Wake(first - 1, Advance(last));
    return false;
  }
  // A slot may hold a number that is not published yet until then.
  if (first - Newest() > kSlots) AwaitPublished(first - kSlots);
  SlotOf(first).store(last);
  AwaitPublished(last);
  return true;
}

void WriteGate::AwaitPublished(uint64_t last) {
  const auto is_published = [&] { return Newest() >= last; };
  // Where others sleep there are more writers than cores, and the one to wait for may not run.
  SpinUntil(kSpinsBeforeSleep, [&] {
    if (is_published() || sleepers_.load(std::memory_order_relaxed) != 0) return true;
    Help();
    return false;
  });
  if (is_published()) return;
  sleeps_.fetch_add(1, std::memory_order_relaxed);
  sleepers_.fetch_add(1);
  published_[last % kSlots].Await(
      [&] {
        Help();
        return is_published();
      },
      BitOf(last));
  sleepers_.fetch_sub(1, std::memory_order_relaxed);
}

// Whoever moves it looks for the next batch. One who misses a batch that was done meanwhile is followed by that batch's
// writer, who looks before it sleeps.
uint64_t WriteGate::Advance(uint64_t from) {
  std::atomic<uint64_t>* const newest = newest_.load(std::memory_order_relaxed);
  for (;;) {
    const uint64_t to = SlotOf(from + 1).load();
    if (to <= from) return from;  // an older batch's
    if (newest->compare_exchange_strong(from, to)) from = to;
  }
}

void WriteGate::Help() {
  const uint64_t from = Newest();
  const uint64_t to = Advance(from);
  if (to != from) Wake(from, to);
}

void WriteGate::WakeSleepers(uint64_t from, uint64_t to) {
  if (to - from >= kSlots) {
    for (Futex& slot : published_) slot.WakeAll();
    return;
  }
  for (uint64_t number = from + 1; number <= to; ++number) {
    published_[number % kSlots].WakeAll(BitOf(number));
  }
}

// One who waits counts itself before it looks for the last time; who tells looks here after what it changed.
void WriteGate::TellOfState() {
  if (state_waiters_.load() == 0) return;
  const MutexLock lock(&mutex_);
  changed_.NotifyAll();
}

template <class Done>
bool WriteGate::AwaitState(const Done& done, std::chrono::steady_clock::time_point until) {
  if (SpinUntil(kSpinsBeforeSleep, done)) return true;
  sleeps_.fetch_add(1, std::memory_order_relaxed);
  const MutexLock lock(&mutex_);
  state_waiters_.fetch_add(1);
  bool in_time = true;
  while (!done() && in_time) {
    if (until == kForever) {
      changed_.Wait(&mutex_);
    } else {
      in_time = changed_.WaitUntil(&mutex_, until);
    }
  }
  state_waiters_.fetch_sub(1);
  return in_time;
}

bool WriteGate::AwaitFree(std::chrono::microseconds patience) {
  return AwaitState([&] { return (word_.load() & kHolders) == 0; }, std::chrono::steady_clock::now() + patience);
}

void WriteGate::Close() {
  uint64_t word = word_.load();
  uint64_t next;
  do {
    next = (word | kClosed) + kHolder;
  } while (!word_.compare_exchange_weak(word, next));
  if ((word & kClosed) != 0) {
    if ((word & kDrained) == 0) AwaitState([&] { return (word_.load() & kDrained) != 0; }, kForever);
    return;
  }
  {
    const MutexLock lock(&mutex_);
    closed_at_ = std::chrono::steady_clock::now();
    ++closings_;
  }
  const uint64_t last = base_ + (word & kLow);
  AwaitPublished(last);
  word_.fetch_or(kDrained);
  TellOfState();
}

void WriteGate::Leave() {
  uint64_t word = word_.load();
  uint64_t next;
  do {
    next = ((word & ~kLow) - kHolder) | ((word + 1) & kLow);
  } while (!word_.compare_exchange_weak(word, next));
  if ((next & kHolders) == 0) TellOfState();
}

WriteGate::Counts WriteGate::counts() const {
  const MutexLock lock(&mutex_);
  return {closings_, closed_nanos_, sleeps_.load(std::memory_order_relaxed)};
}

}  // namespace cairn
