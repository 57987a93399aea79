#include "trie_table/compaction/trie_space.h"

#include <algorithm>
#include <numeric>
#include <utility>

#include "table/trie_rules.h"
#include "table/ttl_stamps.h"
#include "util/bits.h"

namespace cairn {

namespace {

using Entry = KeySketch::Entry;

struct Sample {
  uint64_t position;
  uint32_t file;  // index into the files, which are ordered newest first
  Entry entry;
};

struct Counted {
  const TrieFile* file;
  ContainerId id;
  bool spans = false;
  double kept = 0;     // the part that stays whatever lies above, because snapshots see it
  double newest = 1;   // SnapshotLedger::NewestOf
  double expired = 0;  // of its values
  uint32_t samples = 0;
  // Of the samples. Fractions are operands that are folded.
  double live = 0;
  double merged = 0;
  double after_parent = 0;
  double shadowing = 0;
  double folded = 0;
  double folded_below = 0;

  // A file without samples (too small, or without a sketch) counts as live as a whole.
  uint64_t Share(uint64_t bytes, double part) const {
    return samples == 0 ? static_cast<uint64_t>(static_cast<double>(bytes) * newest * (1 - expired))
                        : SharePresent(bytes, part);
  }
  uint64_t SharePresent(uint64_t bytes, double part) const {
    return samples == 0 ? 0 : static_cast<uint64_t>(static_cast<double>(bytes) * newest * part / samples);
  }
};

Counted CountedOf(const TrieFile* file, const ContainerId& id, bool spans, const SnapshotLedger& snapshots) {
  const double expired = file->ttl_stamps == nullptr ? 0 : ExpiredShare(*file->ttl_stamps, snapshots.expired_before());
  return {file, id, spans, snapshots.ShareOf(file->number), snapshots.NewestOf(*file), expired};
}

// Which values have expired a table does not tell, but how many. Of one key the same lot is drawn for all tables: where
// the newest value has expired, so have the older ones.
Entry EntryOf(uint64_t sample, double expired) {
  const Entry entry = KeySketch::EntryOf(sample);
  if (expired == 0 || entry != Entry::kValue) return entry;
  const auto lot = static_cast<double>(KeySketch::PositionOf(sample) * 0x9e3779b97f4a7c15 >> 32);
  return lot < expired * static_cast<double>(KeySketch::kRange) ? Entry::kDeletion : entry;
}

// A table names each of its keys once. Positions that it names twice are those of keys with equal hashes, of which
// nobody can say in which files they are.
void DropShared(std::vector<Sample>* samples) {
  auto kept = samples->begin();
  for (auto begin = samples->begin(); begin != samples->end();) {
    const auto end =
        std::find_if(begin, samples->end(), [begin](const Sample& s) { return s.position != begin->position; });
    const auto same = std::adjacent_find(begin, end, [](const Sample& a, const Sample& b) { return a.file == b.file; });
    if (same == end) {
      kept = kept == begin ? end : std::copy(begin, end, kept);
    }
    begin = end;
  }
  samples->erase(kept, samples->end());
}

// By position, newest first. Positions are hashes: their upper bits share them out evenly, and a few remain to be
// compared. (A quarter of a million take a third of std::sort's time.)
void Sort(std::vector<Sample>* samples) {
  constexpr size_t kTogether = 4;
  const unsigned bits = std::max(1U, BitWidth(samples->size() / kTogether));
  const auto bucket_of = [bits](const Sample& sample) { return static_cast<size_t>(sample.position >> (64 - bits)); };
  std::vector<size_t> ends((size_t{1} << bits) + 1);  // of the bucket before, until it is filled
  for (const Sample& sample : *samples) ++ends[bucket_of(sample) + 1];
  std::partial_sum(ends.begin(), ends.end(), ends.begin());
  std::vector<Sample> sorted(samples->size());
  for (const Sample& sample : *samples) sorted[ends[bucket_of(sample)]++] = sample;
  auto begin = sorted.begin();
  for (size_t bucket = 0; bucket + 1 < ends.size(); ++bucket) {
    const auto end = sorted.begin() + static_cast<ptrdiff_t>(ends[bucket]);
    std::sort(begin, end, [](const Sample& a, const Sample& b) {
      return a.position != b.position ? a.position < b.position : a.file < b.file;
    });
    begin = end;
  }
  samples->swap(sorted);
}

// Samples below the lowest threshold of all files, each file's keys newest first within a key.
std::vector<Sample> Gather(const std::vector<Counted>& files, uint64_t max_samples) {
  uint64_t threshold = KeySketch::kMaxThreshold;
  double keys = 0;
  for (const Counted& counted : files) {
    if (counted.file->sketch == nullptr) continue;
    threshold = std::min(threshold, counted.file->sketch->threshold());
    keys += static_cast<double>(counted.file->sketch->keys());
  }
  const double expected = keys * static_cast<double>(threshold) / static_cast<double>(KeySketch::kRange);
  if (expected > static_cast<double>(max_samples)) {
    threshold = static_cast<uint64_t>(static_cast<double>(threshold) * static_cast<double>(max_samples) / expected);
  }
  std::vector<Sample> samples;
  for (uint32_t i = 0; i < files.size(); ++i) {
    if (files[i].file->sketch == nullptr) continue;
    for (uint64_t sample : files[i].file->sketch->samples()) {
      if (KeySketch::LowBits(sample) >= threshold) break;
      samples.push_back({KeySketch::PositionOf(sample), i, EntryOf(sample, files[i].expired)});
    }
  }
  Sort(&samples);
  DropShared(&samples);
  return samples;
}

// Calls keep(sample, part) for what stays of one key's samples when they are merged, newest first. nothing_below: they
// are all there is of the key.
template <typename Keep>
void FoldSamples(const Sample* begin, const Sample* end, bool nothing_below, double operand_share, const Keep& keep) {
  const Sample* base = std::find_if(begin, end, [](const Sample& sample) { return sample.entry != Entry::kOperands; });
  const bool has_value = base != end && base->entry == Entry::kValue;
  const bool folds = base != end || nothing_below;
  for (const Sample* sample = begin; sample != base; ++sample) {
    // Without a value to be folded into, the newest stands for the key.
    const bool stands = sample == begin && !has_value;
    keep(*sample, folds && !stands ? operand_share : 1.0);
  }
  if (has_value || (base == begin && base != end && !nothing_below)) keep(*base, 1.0);
}

// From where data come down to a depth.
enum class Parent { kDepthAbove, kAnyAbove };

// One key's samples, newest first. They lie on one path from the root.
void CountKey(const Sample* begin, const Sample* end, Parent parent, double operand_share,
              std::vector<Counted>* files) {
  const auto counted = [files](const Sample& sample) -> Counted& { return (*files)[sample.file]; };
  for (const Sample* sample = begin; sample != end; ++sample) {
    Counted& file = counted(*sample);
    ++file.samples;
    for (double* const stays : {&file.live, &file.merged, &file.after_parent}) *stays += file.kept;
  }
  const auto rest = [&](const Sample& sample) { return 1 - counted(sample).kept; };
  FoldSamples(begin, end, true, operand_share,
              [&](const Sample& sample, double part) { counted(sample).live += part * rest(sample); });

  const int deepest = counted(*(end - 1)).id.depth;
  constexpr int no_depth = -1;
  int shadowed_at = no_depth;        // the depth of a container right above that lets nothing of this one count
  std::vector<const Sample*> above;  // operands alone, in the container right above
  int above_depth = no_depth;
  const auto is_parent = [parent](int upper, int lower) {
    return parent == Parent::kAnyAbove ? upper != no_depth : upper == lower - 1;
  };
  for (const Sample* group = begin; group != end;) {
    const int depth = counted(*group).id.depth;
    const Sample* next = std::find_if(group, end, [&](const Sample& s) { return counted(s).id.depth != depth; });
    const bool operands = std::all_of(group, next, [](const Sample& s) { return s.entry == Entry::kOperands; });
    const bool folds = !operands || depth == deepest;
    FoldSamples(group, next, depth == deepest, operand_share, [&](const Sample& sample, double part) {
      Counted& file = counted(sample);
      file.merged += part * rest(sample);
      if (!is_parent(shadowed_at, depth)) file.after_parent += part * rest(sample);
      if (part < 1) file.folded += 1;
      if (depth != deepest) file.shadowing += part;
    });
    if (folds && is_parent(above_depth, depth)) {
      for (const Sample* sample : above) counted(*sample).folded_below += (1 - operand_share) * rest(*sample);
    }
    above.clear();
    above_depth = depth;
    if (operands) {
      for (const Sample* sample = group; sample != next; ++sample) above.push_back(sample);
    } else {
      shadowed_at = depth;
    }
    group = next;
  }
}

}  // namespace

namespace {

TrieSpace Estimate(std::vector<Counted> files, Parent parent, double operand_share) {
  const std::vector<Sample> samples = Gather(files, kMaxSpaceSamples);
  for (size_t begin = 0; begin < samples.size();) {
    size_t end = begin + 1;
    while (end < samples.size() && samples[end].position == samples[begin].position) ++end;
    CountKey(&samples[begin], &samples[begin] + (end - begin), parent, operand_share, &files);
    begin = end;
  }
  TrieSpace space;
  for (const Counted& counted : files) {
    const uint64_t live = counted.Share(counted.file->data_bytes, counted.live);
    space.bytes += counted.file->bytes;
    space.live += live;
    if (counted.spans) {
      space.spanning_live[counted.id.depth] += live;
      continue;
    }
    ContainerSpace& container = space.containers[counted.id];
    container.bytes += counted.file->bytes;
    container.live += live;
    container.merged += counted.Share(counted.file->bytes, counted.merged);
    container.after_parent += counted.Share(counted.file->bytes, counted.after_parent);
    container.shadowing += counted.SharePresent(counted.file->bytes, counted.shadowing);
    container.folded += counted.SharePresent(counted.file->bytes, counted.folded);
    container.folded_below += counted.SharePresent(counted.file->bytes, counted.folded_below);
  }
  return space;
}

}  // namespace

TrieSpace EstimateSpace(const HashShape& shape, double operand_share, const SnapshotLedger& snapshots) {
  std::vector<Counted> files;
  files.reserve(shape.files());
  for (const auto& [id, container] : shape.containers()) {
    for (const auto& [level, slot] : container.slots) {
      for (const TrieFile& file : slot) files.push_back(CountedOf(&file, id, false, snapshots));
    }
  }
  if (!shape.spanning_files().empty()) {
    for (const auto& [number, spanning_file] : shape.spanning_files()) {
      const TrieFile& file = spanning_file.first;
      const ContainerId id = {DepthOfLevel(shape.trie(), file.level), file.container};
      files.push_back(CountedOf(&file, id, true, snapshots));
    }
    std::stable_sort(files.begin(), files.end(),
                     [](const Counted& a, const Counted& b) { return a.file->level < b.file->level; });
  }
  return Estimate(std::move(files), Parent::kDepthAbove, operand_share);
}

TrieSpace EstimateSpace(const std::vector<PlacedFile>& newest_first, double operand_share,
                        const SnapshotLedger& snapshots) {
  std::vector<Counted> files;
  files.reserve(newest_first.size());
  for (const PlacedFile& placed : newest_first) {
    files.push_back(CountedOf(placed.file, placed.id, false, snapshots));
  }
  return Estimate(std::move(files), Parent::kAnyAbove, operand_share);
}

double MergedShare(const std::vector<const TrieFile*>& newest_first, bool nothing_below, double operand_share,
                   const SnapshotLedger& snapshots) {
  std::vector<Counted> files;
  uint64_t bytes = 0;
  for (const TrieFile* file : newest_first) {
    files.push_back(CountedOf(file, {}, false, snapshots));
    bytes += file->bytes;
  }
  const std::vector<Sample> samples = Gather(files, UINT64_MAX);
  if (samples.empty() || bytes == 0) return 1.0;
  for (size_t begin = 0; begin < samples.size();) {
    size_t end = begin;
    while (end < samples.size() && samples[end].position == samples[begin].position) {
      Counted& file = files[samples[end++].file];
      ++file.samples;
      file.merged += file.kept;
    }
    FoldSamples(&samples[begin], &samples[begin] + (end - begin), nothing_below, operand_share,
                [&](const Sample& sample, double part) {
                  Counted& file = files[sample.file];
                  file.merged += part * (1 - file.kept);
                });
    begin = end;
  }
  uint64_t merged = 0;
  for (const Counted& counted : files) merged += counted.Share(counted.file->bytes, counted.merged);
  return static_cast<double>(merged) / static_cast<double>(bytes);
}

double MergedShare(const Container& container, bool nothing_below, double operand_share,
                   const SnapshotLedger& snapshots) {
  std::vector<const TrieFile*> files;
  for (const auto& [level, slot] : container.slots) {
    for (const TrieFile& file : slot) files.push_back(&file);
  }
  return MergedShare(files, nothing_below, operand_share, snapshots);
}

}  // namespace cairn
