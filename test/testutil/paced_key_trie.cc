#include "test/testutil/paced_key_trie.h"

#include <algorithm>
#include <cstddef>
#include <deque>
#include <random>
#include <unordered_set>
#include <utility>
#include <vector>

#include "trie_table/compaction/simulated_key_trie.h"
#include "trie_table/compaction/write_throttle.h"

namespace cairn {

namespace {

constexpr double kStep = 0.0002;  // seconds
constexpr double kMoveSeconds = 0.0005;
constexpr size_t kRunning = 2;          // compactions at a time
constexpr double kThrottleEvery = 0.1;  // as the scheduler
constexpr double kLeastRate = 4 << 10;

class Player {
 public:
  explicit Player(const PacedPlay& play)
      : play_(play),
        entry_(play.write_buffer_bytes / play.entries_per_buffer),
        data_(entry_ * 116 / 126),
        puts_(play.buffers * play.entries_per_buffer),
        trie_(play.trie, play.entries_per_buffer * entry_, {data_, entry_}, KeyPicker::Moves::kMove),
        random_(play.seed) {}

  PacedOutcome Run() {
    while (done_ < puts_ || !running_.empty() || !full_.empty() || !buffer_.empty()) {
      now_ += kStep;
      EndFlush();
      EndCompactions();
      Pick();
      if (rate_ > 0 && now_ >= throttle_at_) Throttle();
      Measure();
      Write();
    }
    return Outcome();
  }

 private:
  struct Running {
    SimulatedKeyTrie::Running compaction;
    double begin, end;
  };
  using Buffer = std::vector<SimulatedKeyTrie::Operation>;

  void Pick() {
    TrieJob job;
    while (running_.size() < kRunning && trie_.picker.Pick(&job)) {
      const double takes = job.writes() ? static_cast<double>(job.input_bytes) / play_.compaction_rate : kMoveSeconds;
      running_.push_back({trie_.Start(job), now_, now_ + takes});
    }
  }

  void EndFlush() {
    if (full_.empty() || now_ < flush_ends_) return;
    trie_.Flush(full_.front());
    full_.pop_front();
    if (!full_.empty()) BeginFlush();
    Throttle();
    Pick();
  }

  void BeginFlush() { flush_ends_ = now_ + static_cast<double>(play_.write_buffer_bytes) / play_.flush_rate; }

  void EndCompactions() {
    for (size_t i = 0; i < running_.size();) {
      if (now_ < running_[i].end) {
        ++i;
        continue;
      }
      const SimulatedKeyTrie::Running ended = std::move(running_[i].compaction);
      running_.erase(running_.begin() + static_cast<std::ptrdiff_t>(i));
      trie_.Finish(ended);
      if (ended.job.kind == TrieJob::Kind::kRoot || ended.job.for_space || rate_ > 0) Throttle();
      Pick();
      i = 0;
    }
  }

  // As WriteThrottle and its scheduler do it.
  void Throttle() {
    const std::vector<KeyContainer>& root = trie_.shape.ContainersAt(0);
    const double pressure =
        std::max(RootPressure(root.empty() ? 0 : root.front().files.size(), play_.trie.root_trigger),
                 kMostPressureForSpace * trie_.picker.SpacePressure());
    throttle_at_ = now_ + kThrottleEvery;
    const double full = std::max(play_.delayed_rate, play_.rate);
    const double wanted = full * ShareOfFullRate(std::min(pressure, 1.0));
    rate_ = pressure <= 0 ? 0 : std::min(play_.delayed_rate, std::max(kLeastRate, wanted));
  }

  void Measure() {
    if (rate_ > 0) throttled_ += kStep;
    if (done_ <= puts_ / 4) return;
    auto bytes = static_cast<double>(trie_.shape.bytes() + trie_.picker.held_bytes());
    for (const Running& one : running_) {
      bytes += static_cast<double>(one.compaction.bytes) * std::min(1.0, (now_ - one.begin) / (one.end - one.begin));
    }
    space_ = std::max(space_, bytes / static_cast<double>(live_.size() * data_));
  }

  uint64_t NextKey() {
    const uint64_t keys = puts_;
    if (play_.keys == PacedPlay::Keys::kHotSpot && random_() % 10 != 0) {
      const uint64_t spot = done_ / std::max<uint64_t>(puts_ / 40, 1) * 37 % 100;
      return spot * (keys / 100) + random_() % std::max<uint64_t>(keys / 100, 1);
    }
    return random_() % keys;
  }

  // Into one of two write buffers.
  void Write() {
    const bool all = done_ == puts_;
    const double speed = rate_ > 0 ? std::min(rate_, play_.writer_rate) : play_.writer_rate;
    const auto entry = static_cast<double>(entry_);
    credit_ = std::min(credit_ + speed * kStep, speed * kStep + entry);
    while (all || credit_ >= entry) {
      const double due = play_.rate > 0 ? static_cast<double>(done_) * entry / play_.rate : 0;
      if (!all && due > now_) return;
      if (all ? !buffer_.empty() : buffer_.size() == play_.entries_per_buffer) {
        if (!full_.empty()) return;
        full_.push_back(std::move(buffer_));
        buffer_.clear();
        BeginFlush();
      }
      if (all || done_ == puts_) return;
      credit_ -= entry;
      const uint64_t key = NextKey();
      buffer_.push_back({key, false});
      live_.insert(key);
      if (play_.rate > 0 && done_ >= puts_ / 4) waits_.push_back(std::max(0.0, now_ - due - kStep));
      ++done_;
    }
  }

  PacedOutcome Outcome() {
    PacedOutcome outcome;
    outcome.seconds = now_;
    std::sort(waits_.begin(), waits_.end());
    const auto quantile = [&](double share) {
      return waits_.empty() ? 0 : waits_[static_cast<size_t>(share * static_cast<double>(waits_.size() - 1))];
    };
    outcome.p99 = quantile(0.99);
    outcome.p999 = quantile(0.999);
    outcome.longest = quantile(1);
    outcome.throttled = throttled_;
    outcome.written = static_cast<double>(trie_.written) / static_cast<double>(trie_.flushed);
    outcome.space = space_;
    outcome.largest = static_cast<double>(trie_.largest_job) /
                      static_cast<double>(play_.write_buffer_bytes * static_cast<uint64_t>(play_.trie.root_trigger));
    return outcome;
  }

  const PacedPlay play_;
  const uint64_t entry_;  // bytes in a table
  const uint64_t data_;   // bytes of key and value
  const uint64_t puts_;
  SimulatedKeyTrie trie_;
  std::mt19937_64 random_;
  double now_ = 0;
  std::vector<Running> running_;
  Buffer buffer_;
  std::deque<Buffer> full_;  // that are flushed; one at a time
  double flush_ends_ = 0;
  double rate_ = 0;  // that writers are held to; 0: they are not
  double throttle_at_ = 0;
  double credit_ = 0;  // bytes that may be written
  uint64_t done_ = 0;
  std::unordered_set<uint64_t> live_;
  std::vector<double> waits_;
  double throttled_ = 0;
  double space_ = 0;
};

}  // namespace

PacedOutcome Play(const PacedPlay& play) { return Player(play).Run(); }

double SustainedRate(PacedPlay play) {
  play.rate = 0;
  return static_cast<double>(play.buffers * play.write_buffer_bytes) / Play(play).seconds;
}

}  // namespace cairn
