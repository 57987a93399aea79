#include "msls/key_trie_model.h"

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <map>
#include <numeric>
#include <random>
#include <string>
#include <vector>

#include "msls/model.h"
#include "msls/popularity.h"
#include "msls/workload.h"
#include "trie_table/compaction/simulated_key_trie.h"
#include "trie_table/compaction/trie_options.h"

namespace cairn {

namespace {

constexpr uint64_t kItemBytes = 100;       // of the play
constexpr double kTableBytes = 10;         // of an item in an ordered table, beside key and value
constexpr size_t kAtATime = 2;             // compactions: RocksDB's default of max_background_jobs
constexpr double kItemsPerBuffer = 32;     // of the play; with 64 and 128 it writes within 2 % of the same
constexpr double kLeastFlushes = 400;      // that are counted
constexpr double kWarm = 2, kCounted = 4;  // requests for each key
// Of a load, in which what is written rises and falls until three depths are filled.
constexpr double kMostWriteBuffersLoaded = 1200;

// Keys of one popularity, each drawn with the same probability into a write buffer.
struct Group {
  size_t begin, end;   // among the sampled keys
  double log_missing;  // logarithm of the probability that a write buffer lacks one of them
};

// What is written into a trie by popularity.
class SampledKeys {
 public:
  SampledKeys(const msls::Popularity& popularity, double sampled, double requests_per_buffer)
      : places_(static_cast<size_t>(std::max(1.0, std::round(sampled)))) {
    std::iota(places_.begin(), places_.end(), uint64_t{0});
    std::shuffle(places_.begin(), places_.end(), random_);
    const double stride = popularity.keys() / static_cast<double>(places_.size());
    double end = 0;
    for (const auto& node : popularity.impl().nodes()) {
      end += node.keys;
      const size_t begin = groups_.empty() ? 0 : groups_.back().end;
      const auto last =
          static_cast<size_t>(std::clamp(std::round(end / stride), 0.0, static_cast<double>(places_.size())));
      if (last > begin) groups_.push_back({begin, last, requests_per_buffer * node.log_miss});
    }
    groups_.back().end = places_.size();
  }

  // Every key once, in as many equal parts.
  std::vector<SimulatedKeyTrie::Operation> Load(size_t part, size_t parts) {
    if (part == 0) {
      order_ = places_;
      std::shuffle(order_.begin(), order_.end(), random_);
    }
    std::vector<SimulatedKeyTrie::Operation> operations;
    for (size_t i = order_.size() * part / parts; i < order_.size() * (part + 1) / parts; ++i) {
      operations.push_back({order_[i], false});
    }
    return operations;
  }

  std::vector<SimulatedKeyTrie::Operation> Draw() {
    std::vector<SimulatedKeyTrie::Operation> operations;
    for (const Group& group : groups_) {
      // From one that is drawn to the next.
      for (auto i = static_cast<double>(group.begin);; i += 1) {
        i += std::floor(std::log(1 - Uniform()) / group.log_missing);
        if (!(i < static_cast<double>(group.end))) break;
        operations.push_back({places_[static_cast<size_t>(i)], false});
      }
    }
    return operations;
  }

  double Uniform() { return static_cast<double>(random_() >> 11) / 9007199254740992.0; }

 private:
  std::mt19937_64 random_{1};
  std::vector<uint64_t> places_;  // in key order, of the sampled keys from the most popular on
  std::vector<uint64_t> order_;
  std::vector<Group> groups_;
};

void Add(const char* step, double value, msls::Report* report) {
  report->breakdown.push_back({step, value});
  report->write_amplification += value;
}

// The picker's bound is one on bytes of tables by bytes of keys and values.
KeyTrieOptions InBytes(KeyTrieOptions trie, uint64_t data_bytes) {
  trie.space_bound = trie.space_bound * kItemBytes / static_cast<double>(data_bytes);
  return trie;
}

// What keys and values take of an item in a table, in the play.
uint64_t DataBytes(const msls::StoreShape& store) {
  const double part = std::max(0.5, 1 - kTableBytes / store.item_bytes);
  return static_cast<uint64_t>(std::lround(part * kItemBytes));
}

// A trie that is played, and what it came to since Count() was called.
class Play {
 public:
  Play(const KeyTrieOptions& trie, double write_buffer_items, uint64_t data_bytes)
      : trie_(InBytes(trie, data_bytes), static_cast<uint64_t>(write_buffer_items * kItemBytes),
              {data_bytes, kItemBytes}, KeyPicker::Moves::kMove) {}

  bool Flush(const std::vector<SimulatedKeyTrie::Operation>& operations) {
    trie_.Flush(operations);
    if (!trie_.Settle(kAtATime)) return false;
    if (!counts_) return true;
    bytes_ += static_cast<double>(trie_.shape.bytes());
    depth_bytes_.resize(static_cast<size_t>(trie_.shape.trie().depth) + 1);
    for (int depth = 0; depth <= trie_.shape.trie().depth; ++depth) {
      double runs = 0, depth_bytes = 0;
      for (const KeyContainer& container : trie_.shape.ContainersAt(depth)) {
        // By bytes, as lookups go where data are.
        runs += container.slots * static_cast<double>(container.bytes);
        depth_bytes += static_cast<double>(container.bytes);
      }
      if (depth_bytes > 0) runs_ += runs / depth_bytes;
      if (depth == trie_.shape.trie().depth && depth_bytes > 0) deepest_runs_ += runs / depth_bytes;
      depth_bytes_[static_cast<size_t>(depth)] += depth_bytes;
    }
    ++samples_;
    return true;
  }

  void Count() {
    counts_ = true;
    before_ = trie_.written_by;
    flushed_before_ = trie_.flushed;
    trie_.most_bytes = trie_.shape.bytes();
  }

  // `items`: put in since Count, `live`: at the end.
  void Report(double items, double live, double scale, msls::Report* report) const {
    const double bytes = items * kItemBytes;
    Add("level-0", static_cast<double>(trie_.flushed - flushed_before_) / bytes, report);
    for (const auto& [kind, written] : trie_.written_by) {
      const auto before = before_.find(kind);
      const uint64_t since = written - (before == before_.end() ? 0 : before->second);
      Add(NameOf(kind), static_cast<double>(since) / bytes, report);
    }
    for (size_t depth = 1; depth < depth_bytes_.size(); ++depth) {
      const double held = depth_bytes_[depth] / kItemBytes / samples_;
      if (held > 0) report->level_items.push_back(held * scale);
    }
    report->space_amplification = bytes_ / samples_ / (live * kItemBytes);
    report->most_space_amplification = static_cast<double>(trie_.most_bytes) / (live * kItemBytes);
    report->sorted_runs += runs_ / samples_;
    report->deepest_runs = deepest_runs_ / samples_;
  }

  // Of flushes and compactions, for each item that was put.
  double written() const { return static_cast<double>(trie_.written) / kItemBytes; }

 private:
  SimulatedKeyTrie trie_;
  bool counts_ = false;
  std::map<TrieJob::Kind, uint64_t> before_;
  uint64_t flushed_before_ = 0;
  double samples_ = 0, bytes_ = 0, runs_ = 0, deepest_runs_ = 0;
  std::vector<double> depth_bytes_;
};

IndexStatus Restless() { return IndexStatus::InvalidArgument("the trie's options: its picker does not come to rest"); }

IndexStatus Check(const KeyTrieOptions& trie, const msls::StoreShape& store, const KeyTrieWrites& writes) {
  if (!(writes.fill > 0 && writes.fill <= 1))
    return IndexStatus::InvalidArgument("fill must be more than 0 and at most 1.");
  const rocksdb::Status valid = ValidateTrieOptions(trie);
  if (!valid.ok()) return IndexStatus::InvalidArgument(valid.ToString());
  return msls::Validate(store, writes.popularity);
}

double RequestsPerBuffer(const msls::StoreShape& store, const KeyTrieWrites& writes) {
  return writes.fill * store.write_buffer_bytes / store.item_bytes;
}

// What is played of a trie of many write buffers: its deepest depths, as a trie of fewer. Each of the depths above
// them writes everything once, whenever a root of it has gathered. By KeyJobMaker::DepthFor there is one more for each
// fan_out times as many write buffers; in between, how many there are matters little.
struct Deepest {
  Deepest(const KeyTrieOptions& trie, double write_buffers, double most) : buffers(write_buffers) {
    const double stored = 1 + kPartOfGarbage * (trie.space_bound - 1);
    const double reach = trie.root_trigger * std::pow(trie.fan_out, 2) / stored;
    for (; buffers > reach; buffers /= trie.fan_out) depths_above++;
    buffers = std::min(buffers, most);
  }
  int depths_above = 0;
  double buffers;

  static constexpr double kPartOfGarbage = 0.75;  // that the bound allows, and a large trie has
};

// A part of the key space that has so many write buffers' keys.
IndexStatus PlayPopularity(const KeyTrieOptions& trie, const msls::StoreShape& store, const KeyTrieWrites& writes,
                           double most_buffers, msls::Report* report) {
  const msls::Popularity& p = writes.popularity;
  const double per_buffer = RequestsPerBuffer(store, writes);
  const Deepest deepest(trie, p.keys() / per_buffer, most_buffers);
  double interval = per_buffer;
  for (int depth = 0; depth < deepest.depths_above; ++depth, interval *= trie.fan_out) {
    const double slot = p.Unique(interval);
    Add(depth == 0 ? "level-0" : "push", slot / interval, report);
    if (depth > 0) report->level_items.push_back(slot * trie.root_trigger / 2);
    report->sorted_runs += trie.root_trigger / 2.0;
  }
  const double buffers = deepest.buffers;
  const double sampled = std::max(1.0, buffers * kItemsPerBuffer);
  SampledKeys keys(p, sampled, p.keys() / buffers);
  Play play(trie, kItemsPerBuffer / writes.fill, DataBytes(store));
  const auto load = static_cast<size_t>(std::max(1.0, std::round(buffers)));
  for (size_t part = 0; part < load; ++part) {
    if (!play.Flush(keys.Load(part, load))) return Restless();
  }
  const double warm = std::ceil(std::max(kWarm * buffers, 4.0 * trie.root_trigger));
  for (double i = 0; i < warm; ++i) {
    if (!play.Flush(keys.Draw())) return Restless();
  }
  play.Count();
  const double counted = std::ceil(std::max(kCounted * buffers, kLeastFlushes));
  for (double i = 0; i < counted; ++i) {
    if (!play.Flush(keys.Draw())) return Restless();
  }
  play.Report(counted * kItemsPerBuffer, sampled, p.keys() / sampled, report);
  return IndexStatus::OK();
}

// With every key on its own.
IndexStatus SimulatePopularity(const KeyTrieOptions& trie, uint64_t data_bytes, double per_buffer,
                               const KeyTrieWrites& writes, const msls::SimulationOptions& options,
                               msls::Report* report) {
  msls::Workload workload(writes.popularity, options.seed);
  Play play(trie, per_buffer / writes.fill, data_bytes);
  const auto keys = static_cast<double>(workload.keys());
  const double warm = options.warm_requests < 0 ? keys : std::floor(options.warm_requests);
  const double counted = options.requests < 0 ? 3 * keys : std::floor(options.requests);
  std::vector<SimulatedKeyTrie::Operation> operations;
  for (double i = 0; i < keys + warm + counted; ++i) {
    if (i == keys + warm) play.Count();
    operations.push_back({i < keys ? workload.Load(static_cast<uint64_t>(i)) : workload.Draw(), false});
    if (static_cast<double>(operations.size()) < per_buffer) continue;
    if (!play.Flush(operations)) return Restless();
    operations.clear();
  }
  play.Report(counted, keys, 1, report);
  return IndexStatus::OK();
}

}  // namespace

IndexStatus ModelKeyTrie(const KeyTrieOptions& trie, const msls::StoreShape& store, const KeyTrieWrites& writes,
                         msls::Report* report, double most_buffers) {
  *report = msls::Report();
  const IndexStatus s = Check(trie, store, writes);
  if (!s.ok()) return s;
  if (store.log) Add("log", 1, report);
  return PlayPopularity(trie, store, writes, most_buffers, report);
}

IndexStatus ModelKeyTrieLoad(const KeyTrieOptions& trie, const msls::StoreShape& store, const KeyTrieWrites& writes,
                             double* write_amplification) {
  const IndexStatus s = Check(trie, store, writes);
  if (!s.ok()) return s;
  const Deepest deepest(trie, writes.popularity.keys() / RequestsPerBuffer(store, writes), kMostWriteBuffersLoaded);
  const auto buffers = static_cast<size_t>(std::max(1.0, std::round(deepest.buffers)));
  SampledKeys keys(writes.popularity, static_cast<double>(buffers) * kItemsPerBuffer, 1);
  Play play(trie, kItemsPerBuffer / writes.fill, DataBytes(store));
  for (size_t part = 0; part < buffers; ++part) {
    if (!play.Flush(keys.Load(part, buffers))) return Restless();
  }
  *write_amplification =
      (store.log ? 1 : 0) + deepest.depths_above + play.written() / kItemsPerBuffer / static_cast<double>(buffers);
  return s;
}

IndexStatus SimulateKeyTrie(const KeyTrieOptions& trie, const msls::StoreShape& store, const KeyTrieWrites& writes,
                            const msls::SimulationOptions& options, msls::Report* report) {
  *report = msls::Report();
  const IndexStatus s = Check(trie, store, writes);
  if (!s.ok()) return s;
  if (writes.popularity.keys() > kMostKeysSimulated) {
    return IndexStatus::InvalidArgument("A trie in key order is simulated with " +
                                        std::to_string(static_cast<uint64_t>(kMostKeysSimulated)) +
                                        " keys at most: take fewer, and a write buffer that is as much smaller.");
  }
  if (store.log) Add("log", 1, report);
  const double requests = std::max(1.0, std::round(RequestsPerBuffer(store, writes)));
  return SimulatePopularity(trie, DataBytes(store), requests, writes, options, report);
}

IndexStatus OptimizeKeyTrie(const KeyTrieOptions& trie, const msls::StoreShape& store, const KeyTrieWrites& writes,
                            const msls::OptimizeOptions& options, msls::Optimum* optimum) {
  *optimum = msls::Optimum();
  if (options.max_runs_to_hit > 0) {
    return IndexStatus::InvalidArgument("The model of ordered_trie knows no runs to a hit: limit all of its runs.");
  }
  msls::StoreShape shape = store;
  if (options.max_write_buffer_bytes > 0) shape.write_buffer_bytes = options.max_write_buffer_bytes;
  IndexStatus s = ModelKeyTrie(trie, store, writes, &optimum->before, kMostWriteBuffersCompared);
  if (!s.ok()) return s;
  const auto keeps = [](double value, double limit) { return limit == 0 || value <= limit; };
  bool any = false;
  for (int root : {4, 8, 16, 32}) {
    for (int trigger : {6, 15, 24}) {
      for (double bound : {1.25, 1.4, 1.6, 2.0, 3.0}) {
        KeyTrieOptions options_of = trie;
        options_of.root_trigger = shape.root_trigger = root;
        options_of.trigger = shape.container_trigger = trigger;
        options_of.slots = shape.slots = msls::TrieSlotsFor(trigger);
        options_of.space_bound = shape.space_bound = bound;
        msls::Report report;
        s = ModelKeyTrie(options_of, shape, writes, &report, kMostWriteBuffersCompared);
        if (!s.ok()) return s;
        ++optimum->evaluations;
        if (!keeps(report.space_amplification, options.max_space_amplification) ||
            !keeps(report.sorted_runs, options.max_sorted_runs) ||
            (any && report.write_amplification >= optimum->after.write_amplification)) {
          continue;
        }
        any = true;
        optimum->store = shape;
        optimum->after = report;
      }
    }
  }
  if (any) return s;
  return IndexStatus::InvalidArgument("No shape of ordered_trie keeps the limits on space and sorted runs.");
}

}  // namespace cairn
