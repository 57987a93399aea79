#include "db/trie_space.h"

#include <algorithm>
#include <cmath>

#include "table/trie_rules.h"

namespace cairn {

namespace {

struct Sample {
  uint64_t position;  // bit 0 cleared
  uint32_t file;      // index into the files, which are ordered newest first
  bool deleted;
};

struct Counted {
  const TrieFile* file;
  ContainerId id;
  uint32_t samples = 0;
  uint32_t live = 0;
  uint32_t merged = 0;
  uint32_t after_parent = 0;
  uint32_t shadowing = 0;

  // A file without samples (too small, or without a sketch) counts as live as a whole.
  uint64_t Share(uint64_t bytes, uint32_t part) const {
    if (samples == 0) return bytes;
    return static_cast<uint64_t>(static_cast<double>(bytes) * part / samples);
  }
};

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
      samples.push_back({sample & ~KeySketch::kDeleted, i, (sample & KeySketch::kDeleted) != 0});
    }
  }
  std::sort(samples.begin(), samples.end(), [](const Sample& a, const Sample& b) {
    return a.position != b.position ? a.position < b.position : a.file < b.file;
  });
  return samples;
}

// One key's samples, newest first. By TrieShape they lie on one path from the root.
void CountKey(const Sample* begin, const Sample* end, std::vector<Counted>* files) {
  const int no_depth = -1;
  int depth_before = no_depth;  // of the newest sample in the column above the current one
  int depth = no_depth;
  const int deepest = (*files)[(end - 1)->file].id.depth;
  for (const Sample* sample = begin; sample != end; ++sample) {
    Counted& counted = (*files)[sample->file];
    ++counted.samples;
    if (sample == begin && !sample->deleted) ++counted.live;
    if (counted.id.depth == depth) continue;  // an older version within the column
    depth_before = depth;
    depth = counted.id.depth;
    if (depth != deepest) ++counted.shadowing;
    // A deletion goes away when nothing older lies below it.
    if (sample->deleted && depth == deepest) continue;
    ++counted.merged;
    if (depth_before == no_depth || depth_before != depth - 1) ++counted.after_parent;
  }
}

}  // namespace

TrieSpace EstimateSpace(const TrieShape& shape) {
  std::vector<Counted> files;
  files.reserve(shape.files());
  for (const auto& [id, column] : shape.columns()) {
    for (const auto& [level, slot] : column.slots) {
      for (const TrieFile& file : slot) files.push_back({&file, id});
    }
  }
  const std::vector<Sample> samples = Gather(files, kMaxSpaceSamples);
  for (size_t begin = 0; begin < samples.size();) {
    size_t end = begin + 1;
    while (end < samples.size() && samples[end].position == samples[begin].position) ++end;
    CountKey(&samples[begin], &samples[begin] + (end - begin), &files);
    begin = end;
  }
  TrieSpace space;
  for (const Counted& counted : files) {
    ColumnSpace& column = space.columns[counted.id];
    column.bytes += counted.file->bytes;
    const uint64_t live = counted.Share(counted.file->data_bytes, counted.live);
    column.live += live;
    column.merged += counted.Share(counted.file->bytes, counted.merged);
    column.after_parent += counted.Share(counted.file->bytes, counted.after_parent);
    if (counted.samples > 0) column.shadowing += counted.Share(counted.file->bytes, counted.shadowing);
    space.bytes += counted.file->bytes;
    space.live += live;
  }
  return space;
}

double MergedShare(const Column& column, bool drops_deletions) {
  std::vector<Counted> files;
  for (const auto& [level, slot] : column.slots) {
    for (const TrieFile& file : slot) files.push_back({&file, {}});
  }
  const std::vector<Sample> samples = Gather(files, UINT64_MAX);
  if (samples.empty()) return 1.0;
  for (size_t i = 0; i < samples.size(); ++i) {
    Counted& counted = files[samples[i].file];
    ++counted.samples;
    const bool newest = i == 0 || samples[i - 1].position != samples[i].position;
    if (newest && !(samples[i].deleted && drops_deletions)) ++counted.merged;
  }
  uint64_t merged = 0;
  for (const Counted& counted : files) merged += counted.Share(counted.file->bytes, counted.merged);
  return column.bytes == 0 ? 1.0 : static_cast<double>(merged) / static_cast<double>(column.bytes);
}

}  // namespace cairn
