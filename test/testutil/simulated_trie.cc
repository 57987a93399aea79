#include "test/testutil/simulated_trie.h"

#include <algorithm>
#include <queue>
#include <utility>

namespace cairn {

namespace {

// The newest entry of each key; `sources` newest first.
SimulatedTrie::Entries Merge(const std::vector<const SimulatedTrie::Entries*>& sources) {
  struct Next {
    uint64_t position;
    size_t source;
    bool operator>(const Next& other) const {
      return position != other.position ? position > other.position : source > other.source;
    }
  };
  std::priority_queue<Next, std::vector<Next>, std::greater<Next>> heap;
  std::vector<size_t> at(sources.size(), 0);
  auto push = [&](size_t source) {
    if (at[source] == sources[source]->size()) return;
    heap.push({(*sources[source])[at[source]] & ~SimulatedTrie::kDeleted, source});
  };
  for (size_t i = 0; i < sources.size(); ++i) push(i);
  SimulatedTrie::Entries merged;
  while (!heap.empty()) {
    const Next next = heap.top();
    heap.pop();
    const uint64_t entry = (*sources[next.source])[at[next.source]++];
    if (merged.empty() || (merged.back() & ~SimulatedTrie::kDeleted) != next.position) merged.push_back(entry);
    push(next.source);
  }
  return merged;
}

}  // namespace

void SimulatedTrie::AddFile(Entries entries, int level) {
  if (entries.empty()) return;
  auto sketch = std::make_shared<KeySketch>();
  for (uint64_t entry : entries) sketch->Add(entry, KeySketch::EntryOf(entry));
  sketch->Sort();
  TrieFile file;
  file.number = next_number_++;
  file.level = level;
  file.bytes = costs_.table_bytes * entries.size();
  file.data_bytes = costs_.data_bytes * entries.size();
  file.container = shape.map().ContainerAt(entries.front(), DepthOfLevel(shape.trie(), level));
  file.sketch = sketch;
  files_[file.number] = {std::move(entries), level};
  shape.Add(file);
  written += file.bytes;
}

void SimulatedTrie::Flush(const std::vector<std::pair<uint64_t, bool>>& operations) {
  std::vector<std::pair<uint64_t, size_t>> order;  // position, age
  order.reserve(operations.size());
  for (size_t i = 0; i < operations.size(); ++i) order.emplace_back(PositionOf(operations[i].first), i);
  std::sort(order.begin(), order.end());
  Entries entries;
  for (size_t i = 0; i < order.size(); ++i) {
    if (i + 1 < order.size() && order[i + 1].first == order[i].first) continue;
    entries.push_back(order[i].first | (operations[order[i].second].second ? kDeleted : 0));
  }
  flushed += costs_.table_bytes * entries.size();
  AddFile(std::move(entries), 0);
}

// RocksDB widens a compaction to every overlapping file between its inputs and its output: there must be none.
bool SimulatedTrie::OutputIsFree(const TrieJob& job, int depth) const {
  if (job.kind == TrieJob::Kind::kMerge) return true;
  return std::none_of(files_.begin(), files_.end(), [&](const auto& item) {
    const auto& [number, file] = item;
    if (file.level == 0 || file.level > job.output_level || DepthOfLevel(shape.trie(), file.level) != depth)
      return false;
    if (std::count(job.inputs.begin(), job.inputs.end(), number) != 0) return false;
    return shape.map().Parent(shape.map().ContainerAt(file.entries.front(), depth)) == job.id.container;
  });
}

bool SimulatedTrie::LiesBelow(uint64_t position, int level, const std::vector<uint64_t>& except) const {
  return std::any_of(files_.begin(), files_.end(), [&](const auto& item) {
    const Entries& entries = item.second.entries;
    if (item.second.level <= level || std::count(except.begin(), except.end(), item.first) != 0) return false;
    const auto found = std::lower_bound(entries.begin(), entries.end(), position);
    return found != entries.end() && (*found & ~kDeleted) == position;
  });
}

SimulatedTrie::Running SimulatedTrie::Start(const TrieJob& job) {
  shape.SetBusy(job.id, true);
  picker.Started(job);
  Running running;
  running.job = job;
  running.depth = DepthOfLevel(shape.trie(), job.output_level);
  if (!OutputIsFree(job, running.depth)) ++violations;
  std::vector<const Entries*> sources;
  for (uint64_t number : job.inputs) sources.push_back(&files_.at(number).entries);
  uint64_t container = 0;
  for (uint64_t entry : Merge(sources)) {
    if ((entry & kDeleted) != 0 && !LiesBelow(entry & ~kDeleted, job.output_level, job.inputs)) continue;
    const uint64_t next = shape.map().ContainerAt(entry, running.depth);
    if (running.outputs.empty() || next != container) running.outputs.emplace_back();
    container = next;
    running.outputs.back().push_back(entry);
    running.bytes += costs_.table_bytes;
  }
  return running;
}

void SimulatedTrie::Finish(const Running& running) {
  for (uint64_t number : running.job.inputs) {
    shape.Remove(number);
    files_.erase(number);
  }
  for (const Entries& entries : running.outputs) AddFile(entries, running.job.output_level);
  shape.SetBusy(running.job.id, false);
  picker.Finished(running.job, true, running.bytes, 0);
}

void SimulatedTrie::Run(const TrieJob& job) { Finish(Start(job)); }

bool SimulatedTrie::Settle() {
  TrieJob job;
  for (int jobs = 0; picker.Pick(&job); ++jobs) {
    if (jobs == 10000) return false;
    Run(job);
  }
  return true;
}

uint64_t SimulatedTrie::LiveEntries() const {
  // Newest first: by level, and level 0 by number.
  std::vector<std::pair<std::pair<int, uint64_t>, const Entries*>> by_age;
  for (const auto& [number, file] : files_) by_age.push_back({{file.level, UINT64_MAX - number}, &file.entries});
  std::sort(by_age.begin(), by_age.end());
  std::vector<const Entries*> sources;
  sources.reserve(by_age.size());
  for (const auto& [age, entries] : by_age) sources.push_back(entries);
  const Entries merged = Merge(sources);
  return static_cast<uint64_t>(
      std::count_if(merged.begin(), merged.end(), [](uint64_t entry) { return (entry & kDeleted) == 0; }));
}

}  // namespace cairn
