// Write amplification to persistent memory of memtables with and without a copy-based flush, counted by
// pm_simulator.h:
//
//   pm_write_bench [MB of entries, default 256]
//
// Each way of writing is given the same entries (16-byte keys, values of 32 to 256 bytes), two writers in turn, while
// the rest of the process touches as much ordinary memory as it writes, at random.

#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <random>
#include <string>
#include <vector>

#include "memtable_cache/pm_simulator.h"

namespace cairn {
namespace {

constexpr uint64_t kCacheBytes = 32 << 20;
constexpr uint64_t kSegmentBytes = 1 << 20;
constexpr uint64_t kPoolSegments = 12;
constexpr int kWriters = 2;
constexpr uint64_t kStore = uint64_t{1} << 40;  // where sealed copies go
constexpr uint64_t kPublished = uint64_t{1} << 42;
constexpr uint64_t kNodeBytes = 40;  // of a skip list, without key and value

class Memtable {
 public:
  explicit Memtable(PmSimulator* pm) : pm_(*pm) {}
  virtual ~Memtable() = default;
  virtual void Insert(int writer, uint64_t bytes) = 0;

 protected:
  PmSimulator& pm_;
};

// Nodes and entries in persistent memory; an insert changes pointers in nodes of before.
class SkipList : public Memtable {
 public:
  SkipList(PmSimulator* pm, bool flush) : Memtable(pm), flush_(flush) {}
  void Insert(int /*writer*/, uint64_t bytes) override {
    const uint64_t node = end_;
    end_ += (kNodeBytes + bytes + 7) / 8 * 8;
    Write(node, end_ - node);
    // Of 1.33 levels on average; the nodes in front of it lie anywhere in this memtable (64 MiB).
    if (!nodes_.empty()) Write(nodes_[random_() % nodes_.size()], 8);
    if (!nodes_.empty() && random_() % 3 == 0) Write(nodes_[random_() % nodes_.size()], 8);
    nodes_.push_back(node);
    if (end_ - begin_ > 64 << 20) {
      nodes_.clear();
      begin_ = end_;
    }
  }

 private:
  void Write(uint64_t address, uint64_t bytes) {
    pm_.Store(address, bytes);
    if (flush_) pm_.Flush(address, bytes);
  }
  const bool flush_;
  uint64_t begin_ = 0;
  uint64_t end_ = 0;
  std::vector<uint64_t> nodes_;
  std::mt19937_64 random_{1};
};

enum class Seal { kNothing, kCopy, kLockedCopy, kFlush, kEachEntry };

// Segments, a word in the header of each, the published sequence. Sealed segments stay where the cache puts them, are
// copied to the store while their addresses are used again, or are flushed where they are.
class Segments : public Memtable {
 public:
  Segments(PmSimulator* pm, Seal seal) : Memtable(pm), seal_(seal) {
    for (uint64_t& segment : current_) segment = Next();
  }
  void Insert(int writer, uint64_t bytes) override {
    const uint64_t need = (bytes + 8 + 7) / 8 * 8;
    if (used_[writer] + need > kSegmentBytes) {
      End(current_[writer], used_[writer]);
      current_[writer] = Next();
      used_[writer] = 256;
    }
    Write(current_[writer] + used_[writer], need);
    used_[writer] += need;
    Write(current_[writer] + 128, 8);
    Write(kPublished, 8);
    Write(kPublished + 64, 8);
  }

 private:
  void Write(uint64_t address, uint64_t bytes) {
    pm_.Store(address, bytes);
    if (seal_ == Seal::kEachEntry) pm_.Flush(address, bytes);
  }
  bool Copies() const { return seal_ == Seal::kCopy || seal_ == Seal::kLockedCopy; }
  uint64_t Next() {
    const uint64_t segment = next_++;
    return (Copies() ? segment % kPoolSegments : segment) * kSegmentBytes;
  }
  void End(uint64_t segment, uint64_t used) {
    if (seal_ == Seal::kFlush) pm_.Flush(segment, used);
    if (!Copies()) return;
    pm_.Load(segment, used);
    pm_.StoreNonTemporal(kStore + copied_, used);
    copied_ += kSegmentBytes;
  }
  const Seal seal_;
  uint64_t next_ = 0;
  uint64_t copied_ = 0;
  uint64_t current_[kWriters] = {};
  uint64_t used_[kWriters] = {256, 256};
};

void Run(const char* name, Memtable* memtable, PmSimulator* pm, uint64_t megabytes, uint64_t value_bytes) {
  std::mt19937_64 random(7);
  const uint64_t entry = 16 + 8 + 3 + value_bytes;
  uint64_t given = 0;
  for (uint64_t i = 0; given < megabytes << 20; ++i) {
    memtable->Insert(static_cast<int>(i % kWriters), entry);
    given += entry;
    for (uint64_t other = 0; other < entry; other += 64) {
      pm->Store(PmSimulator::kMemory + random() % (uint64_t{1} << 30), 64);
    }
  }
  pm->Finish();
  const PmCounts& counts = pm->counts();
  printf("%-44s %6llu %10.2f %12.1f %% %14.2f %12.2f\n", name, static_cast<unsigned long long>(value_bytes),
         static_cast<double>(counts.lines) * 64 / given, 100 * counts.OutsideRuns(), counts.Amplification(),
         static_cast<double>(counts.blocks_written) * 256 / given);
}

int Main(int argc, char** argv) {
  const uint64_t megabytes = argc > 1 ? strtoull(argv[1], nullptr, 10) : 256;
  printf("%-44s %6s %10s %14s %14s %12s\n", "", "value", "to device", "outside runs", "media/device", "media/entry");
  PmSimulatorOptions options;
  options.cache_bytes = kCacheBytes;
  for (const uint64_t value_bytes : {32, 64, 100, 256}) {
    for (const bool flush : {true, false}) {
      PmSimulator pm(options);
      SkipList list(&pm, flush);
      Run(flush ? "skip list, each store flushed" : "skip list, nothing flushed (eADR)", &list, &pm, megabytes,
          value_bytes);
    }
    const struct {
      Seal seal;
      const char* name;
    } ways[] = {{Seal::kEachEntry, "segments, each entry flushed (no eADR)"},
                {Seal::kNothing, "segments, nothing flushed (eADR)"},
                {Seal::kFlush, "segments, flushed where they are when sealed"},
                {Seal::kCopy, "segments, copied when sealed, used again"},
                {Seal::kLockedCopy, "the same, pool in locked cache"}};
    for (const auto& way : ways) {
      PmSimulatorOptions left = options;
      if (way.seal == Seal::kLockedCopy) left.cache_bytes -= kPoolSegments * kSegmentBytes;
      PmSimulator pm(left);
      if (way.seal == Seal::kLockedCopy) pm.Lock(0, kPoolSegments * kSegmentBytes);
      Segments segments(&pm, way.seal);
      Run(way.name, &segments, &pm, megabytes, value_bytes);
    }
  }
  return 0;
}

}  // namespace
}  // namespace cairn

int main(int argc, char** argv) { return cairn::Main(argc, argv); }
