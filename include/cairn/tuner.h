// cairn.Tuner watches a leveled RocksDB database, believes what its flushes say about the popularity of keys and the
// size of items, and finds level sizes that write less (cairn/msls.h). In advisory mode, the default, it only reports;
// otherwise it applies them through SetOptions, measures, and takes them back if more is written than the sizes before
// would have, or goes back to the user's sizes when data or workload have become others. What a user sets meanwhile
// (max_bytes_for_level_*) stays: it is what the tuner compares with from then on. docs/design/tuner.md has the law.
// Each thing done, and why another was not, is a line of the database's LOG.
//
//   rocksdb::Options options;
//   options.level_compaction_dynamic_level_bytes = false;  // or the tuner can only advise
//   cairn::TunerOptions tuner;
//   tuner.advisory = false;
//   cairn::UseTuner(&options, tuner);
//   ...
//   cairn::TunerReport report;
//   if (cairn::GetTunerReport(db, &report)) puts(report.ToString().c_str());
//
// What it believes comes from flushes: a sealed memtable's number of writes, the number of distinct keys that its flush
// left, and, with SampleKeys, a bounded sample of those keys (8 KiB per table, stored in its properties): which keys
// come again from flush to flush gives the popularity as a histogram, whatever its law. Without the sample it is taken
// to be the Zipf law through the one point that the counters give. Writers do nothing for it; the thread that flushes
// hashes each key once. A snapshot that keeps old versions alive makes keys look more evenly popular than they are.
//
// Each column family with leveled compaction is watched and tuned by itself.
//
// Thread-safety: safe. One listener may serve several databases (one Options object opens two, say); each has a thread
// that runs from its first flush to Close, and is counted by itself.

#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "rocksdb/db.h"
#include "rocksdb/listener.h"
#include "rocksdb/options.h"

namespace cairn {

struct TunerOptions {
  // Reports and changes nothing.
  bool advisory = true;

  // Flushes in a window. The tuner looks once per window and compares what was measured in it, so a window should be
  // long compared with one pass through the levels: 256 flushes of 64 MiB are 16 GiB. At least 1.
  uint64_t window_flushes = 256;

  // Predicted part of the written bytes that must be saved for a change. 0.05 is about the error of the model.
  double min_gain = 0.05;

  // No change is made while measurement and model differ by more than this part for the present sizes: then the gain is
  // as uncertain. So it is while the database is being filled, or while compactions fall behind. 0: no limit.
  double max_error = 0.15;

  // Least seconds between two changes. Each writes the MANIFEST and an OPTIONS file.
  double min_seconds_between_changes = 3600;

  // Windows after a change that are not judged, while the levels take their new sizes.
  int settle_windows = 1;

  // A change is taken back when the database writes more than this times what the sizes before would have written: by
  // as much again in one window, or in total over several.
  double tolerance = 1.02;

  // Bytes kept for each live byte that new level sizes may cost, by the model. 0: no limit.
  double max_space_amplification = 1.25;
};

struct TunerReport {
  // Belief of the last look.
  double keys = 0;
  double item_bytes = 0;
  double items_per_flush = 0;
  double skew = 0;                 // of the Zipf law with as many distinct keys in a flush; 0 is uniform
  uint64_t sampled_keys = 0;       // 0: no sample, and the law is believed
  double writes_of_top_tenth = 0;  // part of the writes that go to the most popular tenth of the keys, by the sample
  // Bytes written by flush and compaction for each byte put in, the log left out.
  double measured = 0;
  double predicted = 0;          // for the shape as it is
  double predicted_untuned = 0;  // for the level sizes that the user set
  double predicted_best = 0;     // for the best shape
  std::vector<double> best_level_bytes;
  // rollbacks: changes after which more was written than before; returns: those that were right once and are no longer.
  uint64_t looks = 0, changes = 0, rollbacks = 0, returns = 0, failures = 0;
  // What was done and why not, newest last; the last hundred lines.
  std::vector<std::string> log;

  std::string ToString() const;
};

std::shared_ptr<rocksdb::EventListener> NewTuner(const TunerOptions& options = TunerOptions());

// Adds a tuner to the listeners. InvalidArgument if a field is out of range.
rocksdb::Status UseTuner(rocksdb::DBOptions* options, const TunerOptions& tuner = TunerOptions());

// Lets flushes of a column family sample their keys, for the tuner; can be turned on and off at any open. Option string
// of the collector: cairn.KeySample.
void SampleKeys(rocksdb::ColumnFamilyOptions* options);

// Both of the above.
rocksdb::Status UseTuner(rocksdb::Options* options, const TunerOptions& tuner = TunerOptions());

// What the tuner of an open database knows of a column family (the default one, if none is named); false when there is
// no tuner or nothing was flushed yet.
bool GetTunerReport(rocksdb::DB* db, TunerReport* report);
bool GetTunerReport(rocksdb::DB* db, rocksdb::ColumnFamilyHandle* family, TunerReport* report);

}  // namespace cairn
