// What stores write while they are filled with keys that are all new: nothing is dropped, so a run, a slot or a level
// is as large as all that came to it, and write buffers stand for themselves.

#include <algorithm>
#include <cmath>

#include "msls/model.h"

namespace cairn::msls {

namespace {

// One run after the other, and what RocksDB's picker makes of them; in write buffers.
double LoadUniversal(const StoreShape& store, double buffers) {
  std::vector<double> sizes;
  double written = 0;
  for (double flushes = 0; flushes < buffers; flushes++) {
    sizes.insert(sizes.begin(), std::min(1.0, buffers - flushes));
    written += sizes.front();
    for (UniversalPick pick = PickUniversal(store, sizes); pick.end > 0; pick = PickUniversal(store, sizes)) {
      const auto begin = sizes.begin() + static_cast<std::ptrdiff_t>(pick.begin);
      const auto end = sizes.begin() + static_cast<std::ptrdiff_t>(pick.end);
      for (auto run = begin + 1; run != end; ++run) *begin += *run;
      written += *begin;
      sizes.erase(begin + 1, end);
    }
  }
  return written / buffers;
}

// All containers of a depth are full at the same time, and everything moves down.
double LoadTrie(const StoreShape& store, double buffers) {
  double written = buffers;
  for (double full = store.root_trigger; full <= buffers; full *= store.container_trigger) {
    written += std::floor(buffers / full) * full;
  }
  return written / buffers;
}

// What a leveled store of `keys` writes for one more, which meets no other like it. The levels above a level keep their
// share of what comes, as they grow with the store.
double LevelsWriteForMore(const StoreShape& store, const Popularity& all_new, const std::vector<double>& size) {
  Report report;
  ModelLevels(store, all_new, size, &report);
  double written = 0, above = 0;
  for (size_t level = 0; level < report.breakdown.size(); level++) {  // of the output
    if (level > 1) above += size[level - 2];
    written += report.breakdown[level].value * std::max(0.0, 1 - above / size.back());
  }
  return written;
}

IndexStatus LoadLeveled(const StoreShape& store, double keys, double* write_amplification) {
  Popularity all_new;
  IndexStatus s = Popularity::Uniform(std::max(1e15, keys), &all_new);
  constexpr double kStep = 1.1;
  double written = 0;
  for (double to = keys; s.ok();) {
    const double from = to / kStep > MemtableRequests(store) ? to / kStep : 0;
    Popularity so_far;
    std::vector<double> levels;
    s = Popularity::Uniform(std::max(1.0, (from + to) / 2), &so_far);
    if (s.ok()) s = LevelItems(store, so_far, &levels);
    if (s.ok()) written += (to - from) * LevelsWriteForMore(store, all_new, levels);
    if (from == 0) break;
    to = from;
  }
  *write_amplification = (store.log ? 1 : 0) + written / keys;
  return s;
}

}  // namespace

IndexStatus ModelLoad(const StoreShape& store, double keys, double* write_amplification) {
  Popularity once;
  IndexStatus s = Popularity::Uniform(keys, &once);
  if (s.ok()) s = Validate(store, once);
  if (!s.ok()) return s;
  const double buffers = std::max(1.0, keys / MemtableRequests(store));
  constexpr double kMostBuffers = 1e7;
  if (store.design == Design::kRocksDB || store.design == Design::kLevelDB) {
    return LoadLeveled(store, keys, write_amplification);
  }
  const double log = store.log ? 1 : 0;
  if (store.design == Design::kTrie) {
    *write_amplification = log + LoadTrie(store, buffers);
  } else if (store.design == Design::kUniversal && buffers <= kMostBuffers) {
    *write_amplification = log + LoadUniversal(store, buffers);
  } else {
    return IndexStatus::InvalidArgument("A load is played of leveldb, rocksdb and trie, and of universal with " +
                                        Number(kMostBuffers) + " write buffers at most.");
  }
  return s;
}

}  // namespace cairn::msls
