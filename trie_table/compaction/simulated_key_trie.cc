#include "trie_table/compaction/simulated_key_trie.h"

#include <algorithm>
#include <queue>

#include "table/trie_rules.h"
#include "util/mix64.h"

namespace cairn {

namespace {

constexpr uint64_t kDeleted = 1;

// The newest entry of each key; `sources` newest first.
SimulatedKeyTrie::Entries Merge(const std::vector<const SimulatedKeyTrie::Entries*>& sources) {
  struct Next {
    uint64_t key;
    size_t source;
    bool operator>(const Next& other) const { return key != other.key ? key > other.key : source > other.source; }
  };
  std::priority_queue<Next, std::vector<Next>, std::greater<Next>> heap;
  std::vector<size_t> at(sources.size(), 0);
  auto push = [&](size_t source) {
    if (at[source] < sources[source]->size()) heap.push({(*sources[source])[at[source]] & ~kDeleted, source});
  };
  for (size_t i = 0; i < sources.size(); ++i) push(i);
  SimulatedKeyTrie::Entries merged;
  while (!heap.empty()) {
    const Next next = heap.top();
    heap.pop();
    const uint64_t entry = (*sources[next.source])[at[next.source]++];
    if (merged.empty() || (merged.back() & ~kDeleted) != next.key) merged.push_back(entry);
    push(next.source);
  }
  return merged;
}

}  // namespace

SimulatedKeyTrie::SimulatedKeyTrie(const KeyTrieOptions& trie, uint64_t write_buffer_bytes, const Costs& costs,
                                   KeyPicker::Moves moves)
    : shape(trie, rocksdb::BytewiseComparator()), picker(&shape, 0, write_buffer_bytes, moves), costs_(costs) {}

std::string SimulatedKeyTrie::KeyOf(uint64_t key, size_t common_bytes) {
  std::string bytes(common_bytes + 8, 'k');
  for (size_t i = bytes.size(); i > common_bytes; key >>= 8) bytes[--i] = static_cast<char>(key);
  return bytes;
}

void SimulatedKeyTrie::AddFile(Entries entries, int level) {
  if (entries.empty()) return;
  std::vector<std::pair<uint64_t, KeySketch::Entry>> hashed;
  hashed.reserve(entries.size());
  TrieFile file;
  file.only_live = true;
  for (uint64_t entry : entries) {
    const bool deleted = (entry & kDeleted) != 0;
    file.only_live &= !deleted;
    // All are in the sketch: a table here has few keys.
    const uint64_t hash = Mix64(entry >> 1);
    const uint64_t position = (hash & ~uint64_t{UINT32_MAX}) | (hash & UINT32_MAX) / kSketchOneOf;
    hashed.emplace_back(position, deleted ? KeySketch::Entry::kDeletion : KeySketch::Entry::kValue);
  }
  std::sort(hashed.begin(), hashed.end());
  auto sketch = std::make_shared<KeySketch>();
  for (const auto& [position, entry] : hashed) sketch->Add(position, entry);
  sketch->Sort();
  file.number = next_number_++;
  file.level = level;
  file.bytes = costs_.table_bytes * entries.size();
  file.data_bytes = costs_.data_bytes * entries.size();
  file.sketch = sketch;
  file.smallest = NameOf(entries.front() >> 1);
  file.largest = NameOf(entries.back() >> 1);
  files_[file.number] = {std::move(entries), level, nullptr};
  shape.Add(file);
  written += file.bytes;
  if (level > 0) largest_file = std::max(largest_file, file.bytes);
}

void SimulatedKeyTrie::Flush(const std::vector<Operation>& operations) {
  std::vector<std::pair<uint64_t, size_t>> order;
  order.reserve(operations.size());
  for (size_t i = 0; i < operations.size(); ++i) order.emplace_back(operations[i].key, i);
  std::sort(order.begin(), order.end());
  Entries entries;
  for (size_t i = 0; i < order.size(); ++i) {
    if (i + 1 < order.size() && order[i + 1].first == order[i].first) continue;
    entries.push_back(order[i].first << 1 | (operations[order[i].second].deleted ? kDeleted : 0));
  }
  flushed += costs_.table_bytes * entries.size();
  picker.scans()->Flushed(costs_.table_bytes * entries.size());
  AddFile(std::move(entries), 0);
}

// RocksDB adds every file between the newest input and the output that lies over the range.
void SimulatedKeyTrie::Check(const TrieJob& job) {
  for (const KeyShape::Run& run : job.runs) {
    for (int level = std::max(run.top_level, 1); level <= run.output_level; ++level) {
      for (const TrieFile* file : shape.FilesIn(level, run.range)) {
        if (std::count(job.inputs.begin(), job.inputs.end(), file->number) != 0) continue;
        // What the newest level holds beside the inputs stays above them.
        if (job.kind != TrieJob::Kind::kMove && level == run.top_level && level != run.output_level) continue;
        violations.push_back("file " + std::to_string(file->number) + " of level " + std::to_string(level) +
                             " lies in the way of a compaction into level " + std::to_string(run.output_level));
      }
    }
  }
}

// RocksDB drops deletions only where nothing lies below any key of the compaction (of this style; leveled compaction
// looks below each key).
bool SimulatedKeyTrie::DropsDeletions(const TrieJob& job) const {
  return std::all_of(job.runs.begin(), job.runs.end(), [&](const KeyShape::Run& run) {
    return shape.FirstLevelIn(job.output_level + 1, run.range) > shape.LastLevel(shape.trie().depth);
  });
}

SimulatedKeyTrie::Running SimulatedKeyTrie::Start(const TrieJob& job) {
  Running running;
  running.id = next_job_++;
  running.job = job;
  running.job.number = running.id;
  ++jobs[job.kind];
  Check(job);
  shape.Begin(running.id, job.runs, job.inputs);
  picker.Started(running.job);
  if (job.kind == TrieJob::Kind::kMove) return running;
  largest_job = std::max(largest_job, job.input_bytes);
  std::vector<const Entries*> sources;
  for (uint64_t number : job.inputs) sources.push_back(&files_.at(number).entries);
  KeyCutter cutter(shape.comparator(), job.cuts);
  uint64_t previous = 0;
  const bool drops_deletions = DropsDeletions(job);
  for (uint64_t entry : Merge(sources)) {
    if ((entry & kDeleted) != 0 && drops_deletions) continue;
    if (running.outputs.empty() ||
        cutter.CutBefore(NameOf(previous), NameOf(entry >> 1), costs_.table_bytes * running.outputs.back().size())) {
      running.outputs.emplace_back();
    }
    running.outputs.back().push_back(entry);
    running.bytes += costs_.table_bytes;
    previous = entry >> 1;
  }
  running_bytes += running.bytes;
  most_bytes = std::max(most_bytes, bytes());
  written_by[job.kind] += running.bytes;
  if (job.for_scans) written_for_scans += running.bytes;
  return running;
}

void SimulatedKeyTrie::Finish(const Running& running) {
  if (running.job.kind == TrieJob::Kind::kMove) {
    std::vector<TrieFile> moved;
    for (const TableMove& move : running.job.moves) {
      moved.push_back(*shape.Find(move.number));
      moved.back().level = move.to;
      files_.at(move.number).level = move.to;
      shape.Remove(move.number);
    }
    for (const TrieFile& file : moved) shape.Add(file);
    moved_files += moved.size();
  } else {
    for (uint64_t number : running.job.inputs) {
      shape.Remove(number);
      files_.erase(number);
    }
    for (const Entries& entries : running.outputs) AddFile(entries, running.job.output_level);
  }
  running_bytes -= running.bytes;
  shape.End(running.id);
  picker.Finished(running.job, true, running.bytes, 0);
  most_bytes = std::max(most_bytes, bytes());
}

size_t SimulatedKeyTrie::Scan(uint64_t key, uint64_t block_bytes) {
  if (scans_ == nullptr) {
    scans_ = std::make_shared<ScanCounts>();
    picker.scans()->SetCounts(scans_);
  }
  const KeyRange range{NameOf(key), NameOf(key), false};
  size_t below_root = 0;
  for (int depth = 0; depth <= shape.trie().depth; ++depth) {
    const auto [begin, end] = shape.Overlapping(depth, range);
    for (size_t i = begin; i < end; ++i) {
      for (const TrieFile* file : shape.ContainersAt(depth)[i].files) {
        if (!shape.Overlap(KeyShape::RangeOf(*file), range)) continue;
        if (depth > 0) ++below_root;
        if (block_bytes == 0) continue;
        std::unique_ptr<ScanCounts::Table>& scans = files_.at(file->number).scans;
        if (scans == nullptr) scans = std::make_unique<ScanCounts::Table>(scans_, file->number, block_bytes);
        scans->Add(1);
      }
    }
  }
  return below_root;
}

bool SimulatedKeyTrie::Settle(size_t at_a_time) {
  std::multimap<uint64_t, Running> running;  // by when they end
  uint64_t now = 0;
  for (int count = 0; count < 2000; ++count) {
    TrieJob job;
    while (running.size() < at_a_time && picker.Pick(&job)) {
      const uint64_t ends = now + (job.writes() ? job.input_bytes : 0);
      running.emplace(ends, Start(job));
    }
    if (running.empty()) return true;
    const auto next = running.begin();
    now = next->first;
    const Running ended = std::move(next->second);
    running.erase(next);
    Finish(ended);
  }
  return false;
}

bool SimulatedKeyTrie::Compact() {
  int count = 0;
  for (int depth = 0; depth <= shape.trie().depth; ++depth) {
    uint64_t newest = next_number_ - 1;
    TrieJob job;
    while (picker.PickManual(depth, nullptr, newest, &job) == ManualStep::kJob) {
      if (++count == 10000) return false;
      const bool splits = job.kind == TrieJob::Kind::kSplit;
      Finish(Start(job));
      if (splits) newest = next_number_ - 1;
      // Moves go on meanwhile.
      TrieJob moves;
      while (picker.Pick(&moves) && moves.kind == TrieJob::Kind::kMove) Finish(Start(moves));
    }
  }
  return true;
}

std::vector<uint64_t> SimulatedKeyTrie::LiveKeys() const {
  std::vector<std::pair<std::pair<int, uint64_t>, const Entries*>> by_age;
  for (const auto& [number, file] : files_) by_age.push_back({{file.level, UINT64_MAX - number}, &file.entries});
  std::sort(by_age.begin(), by_age.end());
  std::vector<const Entries*> sources;
  for (const auto& [age, entries] : by_age) sources.push_back(entries);
  std::vector<uint64_t> keys;
  for (uint64_t entry : Merge(sources)) {
    if ((entry & kDeleted) == 0) keys.push_back(entry >> 1);
  }
  return keys;
}

}  // namespace cairn
