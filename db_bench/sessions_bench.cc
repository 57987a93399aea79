// What sessions cost that expire: bytes of tables per byte that has not expired, and bytes written per byte put, of one
// engine under a rocksdb::DBWithTTL. Time is set, not waited for: a session lives for --live puts.
//
//   sessions_bench --engine=trie --puts=4000000 --live=500000

#include <gflags/gflags.h>

#include <unistd.h>

#include <algorithm>
#include <cinttypes>
#include <cstdio>
#include <memory>
#include <string>
#include <vector>

#include "cairn/db.h"
#include "cairn/engines.h"
#include "cairn/trie.h"
#include "db_bench/keys.h"
#include "db_bench/measure.h"
#include "rocksdb/port/open_into.h"
#include "rocksdb/utilities/db_ttl.h"
#include "test/testutil/set_clock.h"

DEFINE_string(engine, "trie", "an engine, with options or without: \"silt;partitions=16\"");
DEFINE_uint64(puts, 4000000, "half of them open a session, half write one again that is open");
DEFINE_uint64(live, 500000, "puts for which a session lives");
DEFINE_bool(expire, true, "false: the database has no TTL, and sessions stay");
DEFINE_uint64(periodic, 0, "periodic_compaction_seconds, of 10,000 that a session lives; 0: none");
DEFINE_uint64(value_bytes, 100, "of a session");
DEFINE_uint64(write_buffer_size, 4 << 20, "bytes");
DEFINE_string(db, "", "folder of the database, which is made; empty: below /dev/shm");

namespace cairn::bench {
namespace {

constexpr int32_t kTtl = 10000;

// Which sessions are open.
class Sessions {
 public:
  uint64_t Next(Random64* random) {
    uint64_t number = opened_;
    if (!log_.empty() && random->Uniform(2) == 0) {
      const uint64_t open = std::min<uint64_t>(log_.size(), FLAGS_live);
      number = log_[log_.size() - 1 - random->Uniform(open)];
    } else {
      ++opened_;
      newest_.push_back(0);
    }
    const uint64_t put = log_.size();
    if (put == 0 || newest_[number] + FLAGS_live < put || number + 1 == opened_) ++alive_;
    newest_[number] = put;
    log_.push_back(static_cast<uint32_t>(number));
    if (put >= FLAGS_live && newest_[log_[put - FLAGS_live]] == put - FLAGS_live) --alive_;
    return number;
  }
  uint64_t alive() const { return alive_; }
  uint64_t opened() const { return opened_; }
  uint64_t NewestPutOf(uint64_t number) const { return newest_[number]; }

 private:
  std::vector<uint32_t> log_;     // sessions by put
  std::vector<uint64_t> newest_;  // puts by session
  uint64_t opened_ = 0, alive_ = 0;
};

int Fail(const rocksdb::Status& s) {
  fprintf(stderr, "%s\n", s.ToString().c_str());
  return 1;
}

int Run() {
  const auto clock = std::make_shared<test::SetClock>(1800000000);
  const auto env = test::EnvOf(clock);
  rocksdb::Options options;
  options.create_if_missing = true;
  options.env = env.get();
  options.statistics = rocksdb::CreateDBStatistics();
  options.write_buffer_size = FLAGS_write_buffer_size;
  options.compression = rocksdb::kNoCompression;
  rocksdb::Status s = UseEngineFromString("engine=" + FLAGS_engine, &options, &options);
  if (!s.ok()) return Fail(s);
  options.periodic_compaction_seconds = FLAGS_periodic;
  const std::string path = (FLAGS_db.empty() ? "/dev/shm/sessions_bench." + std::to_string(getpid()) : FLAGS_db);
  std::unique_ptr<rocksdb::DBWithTTL> db;
  s = rocksdb::DBWithTTL::Open(options, path, port::Into(&db), FLAGS_expire ? kTtl : 0);
  if (!s.ok()) return Fail(s);
  const ValueSource values(1);
  Random64 random(2);
  Sessions sessions;
  const uint64_t item = kKeyBytes + FLAGS_value_bytes;
  double sum = 0, peak = 0;
  int samples = 0;
  int64_t seconds = 0;
  char key[kKeyBytes];
  for (uint64_t put = 0; put < FLAGS_puts && s.ok(); ++put) {
    const auto now = static_cast<int64_t>(put * kTtl / FLAGS_live);
    if (now > seconds) clock->Advance(now - seconds);
    seconds = std::max(seconds, now);
    const uint64_t number = sessions.Next(&random);
    EncodeKey(number, key);
    s = db->Put({}, rocksdb::Slice(key, kKeyBytes), values.Value(number, FLAGS_value_bytes));
    if (put < 2 * FLAGS_live || put % std::max<uint64_t>(FLAGS_puts / 200, 1) != 0) continue;
    const double space = static_cast<double>(LiveTableBytes(db.get())) / static_cast<double>(sessions.alive() * item);
    sum += space;
    ++samples;
    peak = std::max(peak, space);
  }
  if (!s.ok()) return Fail(s);
  uint64_t lost = 0, returned = 0;
  std::string value;
  for (int i = 0; i < 200000; ++i) {
    const uint64_t number = random.Uniform(sessions.opened());
    const uint64_t age = FLAGS_puts - sessions.NewestPutOf(number);
    EncodeKey(number, key);
    const bool found = db->Get({}, rocksdb::Slice(key, kKeyBytes), &value).ok();
    if (!found && age + FLAGS_live / 100 < FLAGS_live) ++lost;
    if (found && age > FLAGS_live + FLAGS_live / 100) ++returned;
  }
  const WriteCounters written = ReadWriteCounters(*options.statistics);
  printf("%-32s space: mean %.2f, peak %.2f; write amplification %.2f; of 200,000 lookups %" PRIu64 " lost, %" PRIu64
         " expired returned\n",
         FLAGS_engine.c_str(), sum / samples, peak,
         static_cast<double>(written.flush_bytes + written.compaction_bytes) / static_cast<double>(FLAGS_puts * item),
         lost, returned);
  db.reset();
  return rocksdb::DestroyDB(path, options).ok() ? 0 : 1;
}

}  // namespace
}  // namespace cairn::bench

int main(int argc, char** argv) {
  gflags::ParseCommandLineFlags(&argc, &argv, true);
  return cairn::bench::Run();
}
