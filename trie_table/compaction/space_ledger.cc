#include "trie_table/compaction/space_ledger.h"

#include <algorithm>
#include <cstddef>

#include "table/trie_rules.h"

namespace cairn {

namespace {

// Small flushes are slowed down over the last part in 100 of the space that the bound allows.
constexpr double kFinestThrottle = 100;

// Roots of garbage in a trie whose bound allows less than one: one that is compacted, and half of the next.
constexpr double kRootsOfASmallTrie = 1.5;

// How much of a root before the bound compactions for space are due where it counts their outputs. More costs bytes
// written (a quarter: 2.75 instead of 2.44 per byte of uniform puts), less costs pauses (docs/design/ordered_trie.md).
constexpr double kEarlyRoots = 1.0 / 6;

// What is left for writers while a compaction runs beside others, as a part of what that writes. Without it the second
// one takes all the room that there is, and writers wait until one of the two has ended (docs/design/ordered_trie.md).
constexpr double kForWriters = 0.5;

// What one merge adds to what is known of merge operands; and the part of its input that they must be for it to tell.
constexpr double kNewsOfOperands = 0.25;
constexpr double kTellingOperands = 0.05;

uint64_t ToBeFreed(const TrieJob& job) { return job.input_bytes - job.expected_bytes; }

}  // namespace

double SpaceLedger::NextFlush(std::vector<uint64_t> sizes) {
  if (sizes.empty()) return 0;
  const auto middle = sizes.begin() + static_cast<std::ptrdiff_t>(sizes.size() / 2);
  std::nth_element(sizes.begin(), middle, sizes.end());
  return static_cast<double>(*middle);
}

bool SpaceLedger::FreedTooLittle(const TrieJob& job, uint64_t output_bytes) {
  const uint64_t freed = job.input_bytes > output_bytes ? job.input_bytes - output_bytes : 0;
  return freed < ToBeFreed(job) / 2;
}

void SpaceLedger::SetSizes(uint64_t slack_bytes, uint64_t largest_job, int root_files) {
  slack_bytes_ = static_cast<double>(slack_bytes);
  largest_job_ = static_cast<double>(largest_job);
  root_files_ = root_files;
}

bool SpaceLedger::HasChanged(uint64_t bytes) const {
  const uint64_t changed = bytes > at_bytes_ ? bytes - at_bytes_ : at_bytes_ - bytes;
  return changed >= bytes / 64;
}

const TrieSpace& SpaceLedger::Estimate(uint64_t version, uint64_t bytes,
                                       const std::function<TrieSpace(double)>& estimate) {
  if (version_ != version) {
    space_ = estimate(operand_share_);
    version_ = version;
    at_bytes_ = bytes;
  }
  return space_;
}

// For outputs of running compactions: a large one, in a large trie more. In a trie of so few roots that half of what
// the bound allows for garbage is less, what is left beside a large one: keeping less garbage costs merges, and would
// keep no bound, because one compaction always runs.
double SpaceLedger::Reserve() const {
  if (largest_job_ == 0) return 0;
  const double garbage = (space_bound_ - 1) * static_cast<double>(space_.live);
  return std::min(std::max(largest_job_, garbage / 8), std::max(garbage - largest_job_, 0.0));
}

// Bytes of a trie with this share of the garbage that the bound allows, by the latest estimate.
double SpaceLedger::Allowed(double share) const {
  const double live = static_cast<double>(space_.live);
  return live + ((space_bound_ - 1) * live - Reserve()) * share;
}

bool SpaceLedger::MayStart(const TrieJob& job, uint64_t bytes) const {
  if (largest_job_ == 0 || numbers_.empty() || space_.live == 0 || !job.writes()) return true;
  const double writes = static_cast<double>(job.expected_bytes);
  const double outside = OutsideTheTrie() + writes;
  return outside <= Reserve() || static_cast<double>(bytes) + outside + kForWriters * writes <= Allowed(1) + Reserve();
}

bool SpaceLedger::HasRoom(const TrieJob& job, uint64_t bytes) const {
  const double most =
      std::max(Allowed(1) + Reserve(), static_cast<double>(space_.live) + kRootsOfASmallTrie * largest_job_);
  return static_cast<double>(bytes + job.expected_bytes) + OutsideTheTrie() <= most;
}

// A part of a root early where outputs are counted: compactions that begin in time spare writers most of the stop that
// the bound would else be kept by.
std::optional<double> SpaceLedger::Excess(double next_flush) const {
  const double bytes = static_cast<double>(space_.bytes - std::min(space_.bytes, being_freed_));
  const double begin = Allowed(kSpaceHeadStart) - next_flush - kEarlyRoots * largest_job_;
  const double allowed = std::max(begin, Allowed(kSpaceLittleGarbage));
  if (bytes <= allowed + slack_bytes_) return std::nullopt;
  return allowed > 0 ? bytes / allowed - 1 : 1;
}

bool SpaceLedger::Pick(double next_flush, TrieJob* job, const std::function<bool(TrieJob*)>& pick) {
  const std::optional<double> excess = Excess(next_flush);
  more_ = excess && pick(job);
  if (more_) job->score = SpaceScore(*excess);
  return more_;
}

double SpaceLedger::Pressure(uint64_t bytes, double next_flush) {
  if (space_.live == 0) return 0;
  if (next_flush > 0) flush_bytes_ = next_flush;
  // In a trie of a few write buffers, what the root gathers before it is due is more garbage than the bound allows.
  // Where the bound counts what compactions write, as much again may gather while it is compacted; else the root's own
  // pressure limits it.
  const double root = root_files_ * flush_bytes_;
  const bool small = Allowed(1) < static_cast<double>(space_.live) + root;
  if (small && largest_job_ == 0) return 0;
  const double bound =
      slack_bytes_ + (small ? static_cast<double>(space_.live) + kRootsOfASmallTrie * root : Allowed(1));
  const double begin = std::min(std::max(bound - 2 * next_flush, Allowed(kSpaceLittleGarbage) + slack_bytes_),
                                bound * (1 - 1 / kFinestThrottle));
  const double reserved = small ? 0 : Reserve();
  const double taken = static_cast<double>(bytes) + std::max(OutsideTheTrie() - reserved, 0.0);
  return std::clamp((taken - begin) / (bound - begin), 0.0, 1.0);
}

void SpaceLedger::Started(const TrieJob& job) {
  being_freed_ += ToBeFreed(job);
  ++running_;
  if (largest_job_ == 0 || !job.writes()) return;
  being_written_ += job.expected_bytes;
  numbers_.insert(job.number);
}

void SpaceLedger::Finished(const TrieJob& job, bool ok) {
  being_freed_ -= std::min(being_freed_, ToBeFreed(job));
  --running_;
  if (largest_job_ == 0) return;
  if (job.writes()) {
    being_written_ -= std::min(being_written_, job.expected_bytes);
    numbers_.erase(job.number);
    for (Held& held : held_) {
      if (held.by.erase(job.number) != 0 && held.by.empty()) held_bytes_ -= held.bytes;
    }
    held_.erase(std::remove_if(held_.begin(), held_.end(), [](const Held& held) { return held.by.empty(); }),
                held_.end());
  }
  if (!ok || numbers_.empty() || job.kind == TrieJob::Kind::kMove) return;
  held_.push_back({job.input_bytes, numbers_});
  held_bytes_ += job.input_bytes;
}

bool SpaceLedger::Learn(const TrieJob& job, uint64_t output_bytes) {
  const auto folded = static_cast<double>(job.folded_bytes);
  if (job.kind != TrieJob::Kind::kMerge || folded < kTellingOperands * static_cast<double>(job.input_bytes)) {
    return false;
  }
  const double without = static_cast<double>(job.expected_bytes) - job.operand_share * folded;
  const double share = std::clamp((static_cast<double>(output_bytes) - without) / folded, 0.0, 1.0);
  operand_share_ += kNewsOfOperands * (share - operand_share_);
  Outdate();
  return true;
}

}  // namespace cairn
