// The workloads that others publish, as data: which operations, of which keys, on items of which size. YCSB's core
// workloads, the five pools of Facebook's memcached, a queue, and time series. run_mixes.h runs them.
//
// Items are numbers, and a database holds those of one Shape. Where a shape has streams, the upper 32 bits of a number
// are the stream and the lower ones the place in it, and keys sort as numbers do; else keys lie scattered (keys.h). A
// value follows from number and version, so that whoever remembers versions can check any value.
//
// Sources
//   YCSB: Cooper et al., "Benchmarking cloud serving systems with YCSB", SoCC 2010, and its files workloada to
//   workloadf.
//   Facebook: after Atikoglu et al., "Workload analysis of a large-scale key-value store", SIGMETRICS 2012, which we
//   have only as others quote it. Shares of GET, SET and DELETE are table 5.1 of the NVMcached thesis, ETC's
//   distributions those of public load generators. Hit rates and the smallest values of ETC are unverified. Chosen
//   here: how skewed each pool is (Zipf 0.99, as for YCSB), which keys DELETE meets (all alike), one value size for
//   APP, and what is marked so at Shape.
//
// Thread-safety: a generator and a model belong to one thread; the rest is constant.

#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "db_bench/keys.h"

namespace cairn::bench {

enum class Shape {
  kRecord,  // YCSB: keys of 23 bytes ("user" and up to 19 digits), 10 fields of 100 bytes unless a size is given
  kEtc,  // keys by a generalized extreme value distribution, values by a table up to 14 bytes, then generalized Pareto
  kApp,  // keys of 31 bytes, values of 270
  kUsr,  // keys of 16 or 21 bytes, values of 2
  kSys,  // chosen here (figures only show curves): keys of 16 to 45 bytes, values of 100 to 700
  kVar,  // keys of 31 bytes; chosen here (below 500, a curve): values of 20 to 150
  kQueue,   // chosen here: one stream, values of 100 bytes
  kSeries,  // chosen here: 1,000 streams, values of 16 bytes
};

enum class OperationKind { kGet, kAbsentGet, kUpdate, kInsert, kDelete, kScan, kReadModifyWrite };
constexpr int kOperationKinds = 7;
const char* OperationName(OperationKind kind);

enum class Popularity { kZipf, kLatest, kStreams };

struct Mix {
  const char* name;
  Shape shape;
  Popularity popularity;
  // By OperationKind, shares of all operations, percent. In streams each insert is followed by the delete of the oldest
  // item of its stream, which is not in the shares: the queue's consumer, the retention of time series.
  double shares[kOperationKinds];
  uint64_t most_scanned;  // items of a scan: uniform from 1
};
const std::vector<Mix>& Mixes();
const Mix* FindMix(const std::string& name);  // null: unknown
bool NeedsKeyOrder(const Mix& mix);           // has scans

// 0: no streams.
uint64_t StreamsOf(Shape shape);
size_t KeyBytes(Shape shape, uint64_t number);
// record_bytes: of kRecord, 0 for what is published.
size_t ValueBytes(Shape shape, uint64_t number, uint32_t version, size_t record_bytes);
void EncodeItemKey(Shape shape, uint64_t number, std::string* key);
// Of a key that EncodeItemKey made.
uint64_t DecodeItemKey(Shape shape, const rocksdb::Slice& key);

// What a database holds: the newest version of each number, or the ends of each stream.
class ItemModel {
 public:
  ItemModel(Shape shape, uint64_t items);

  struct Stream {
    uint32_t first = 0;
    uint32_t next = 0;
  };

  uint64_t count() const { return versions_.size(); }  // numbers below it were stored at some time; without streams
  uint32_t Version(uint64_t number) const;             // 0: absent
  uint32_t Store(uint64_t number);                     // one version more; returns it
  void Remove(uint64_t number);
  Stream& stream(uint64_t index) { return streams_[index]; }
  uint64_t streams() const { return streams_.size(); }
  uint64_t present() const { return present_; }

 private:
  std::vector<uint32_t> versions_;  // highest bit: removed
  std::vector<Stream> streams_;
  uint64_t present_ = 0;
};

struct Operation {
  OperationKind kind;
  uint64_t number;
  uint64_t length;  // of a scan
};

class MixGenerator {
 public:
  // `model` holds the loaded items and outlives this; the caller carries out each operation on it before it asks for
  // the next one.
  MixGenerator(const Mix& mix, ItemModel* model, uint64_t seed);
  Operation Next();

 private:
  OperationKind Kind();
  Operation InStream(OperationKind kind);
  uint64_t Chosen(OperationKind kind);

  const Mix& mix_;
  ItemModel* const model_;
  Random64 random_;
  ZipfKeys zipf_;
  bool delete_due_ = false;
  uint64_t stream_ = 0;  // of the delete that is due
};

}  // namespace cairn::bench
