// What a trie in key order writes: its own picker, played over a trie of as many write buffers with few keys in each.
//
// A key of the model stands for many: keys are sampled, each with its own popularity, so that a table of the play holds
// the same share of them as a real one of all. The simulation plays with all keys, drawn one by one. Compactions are
// played two at a time, between write buffers, and tables take ten bytes more for an item than key and value.
//
// Thread-safety: functions of their arguments.

#pragma once

#include "cairn/index_status.h"
#include "cairn/msls.h"
#include "cairn/trie.h"

namespace cairn {

struct KeyTrieWrites {
  // By popularity, when every key was written once, in random order.
  msls::Popularity popularity;
  // How much of the write buffer items fill before it is flushed; the rest is the memtable's own.
  double fill = 1;
};

// Of a trie of more write buffers than most_buffers, a part of so many is played, and the depths above it write
// everything once. The play takes time by the square of that: five seconds; one of a comparison, of dozens of shapes
// perhaps, a second.
constexpr double kMostWriteBuffers = 400, kMostWriteBuffersCompared = 200;

// Of `store`: item_bytes, log and write_buffer_bytes; of `trie`, what shapes it. The space bound counts items (see
// SpaceBoundInItems).
IndexStatus ModelKeyTrie(const KeyTrieOptions& trie, const msls::StoreShape& store, const KeyTrieWrites& writes,
                         msls::Report* report, double most_buffers = kMostWriteBuffers);

// As msls::ModelLoad.
IndexStatus ModelKeyTrieLoad(const KeyTrieOptions& trie, const msls::StoreShape& store, const KeyTrieWrites& writes,
                             double* write_amplification);

constexpr double kMostKeysSimulated = 2e7;

// The same of a simulation.
IndexStatus SimulateKeyTrie(const KeyTrieOptions& trie, const msls::StoreShape& store, const KeyTrieWrites& writes,
                            const msls::SimulationOptions& options, msls::Report* report);

// As msls::Optimize, of root_trigger, container_trigger with slots, and space_bound. A model of a trie in key order
// says nothing of runs_to_hit.
IndexStatus OptimizeKeyTrie(const KeyTrieOptions& trie, const msls::StoreShape& store, const KeyTrieWrites& writes,
                            const msls::OptimizeOptions& options, msls::Optimum* optimum);

}  // namespace cairn
