// Two databases that share a SstFileManager write, flush, compact, sync, resume, are closed and opened again, and have
// listeners that write to either, while their disks are full, refuse appends or syncs, or hang for a moment. In the end the
// disks are well: nothing that was acknowledged is lost, nobody waits without end, and both databases take writes.
//
//   cairn_error_stress [--seconds=N] [--seed=X] [--patience=S]
//
// It is rounds of two seconds of failing and the recovery from it, one seed after the other, for at least N seconds; --patience
// is what a round's recovery may take. --lose and --hang spoil the first round, to show that it is seen.
//
// A failure prints the line that replays it: the same choices, not the same moments.

#include <cinttypes>
#include <cstdio>

#include "rocksdb/sst_file_manager.h"
#include "rocksdb/write_buffer_manager.h"
#include "test/error_stress/errors.h"
#include "test/error_stress/rounds.h"

namespace cairn {
namespace errors {
namespace {

using std::chrono::milliseconds;
using std::chrono::steady_clock;

struct Settings : RoundSettings {
  bool hangs = false;
};

constexpr milliseconds kFailing{2000};  // of a round

// One order to one disk, until it has been felt or the moment is over.
void FailForAMoment(test::FaultyDisk* disk, test::Random* random) {
  const int kinds = 1 + static_cast<int>(random->Uniform(15));
  const milliseconds moment(random->Uniform(200));
  std::atomic<int>* const orders[] = {&disk->full, &disk->retryable, &disk->unsynced, &disk->held};
  const uint64_t choice = random->Uniform(5);
  if (choice == 4) {
    disk->refuses_table = true;
  } else {
    *orders[choice] = kinds;
  }
  const int failed = disk->failed;
  const auto until = steady_clock::now() + milliseconds(200);
  while (disk->failed == failed && steady_clock::now() < until) std::this_thread::sleep_for(milliseconds(1));
  std::this_thread::sleep_for(moment);
  if (choice != 4) *orders[choice] = 0;
}

class Round {
 public:
  Round(const Settings& settings, uint64_t seed, const std::string& folder, Counts* counts)
      : settings_(settings),
        random_(seed),
        verdict_("cairn_error_stress --seed=" + std::to_string(seed) + " --seconds=1"),
        watch_(&verdict_),
        buffers_(random_.OneIn(3) ? std::make_shared<rocksdb::WriteBufferManager>(256 << 10, nullptr, true) : nullptr),
        counts_(counts),
        first_("first", folder, random_.Next(), buffers_, &watch_, counts, &verdict_),
        second_("second", folder, random_.Next(), buffers_, &watch_, counts, &verdict_) {
    const std::shared_ptr<rocksdb::SstFileManager> manager(rocksdb::NewSstFileManager(first_.env()));
    for (Database* database : {&first_, &second_}) {
      database->ShareManager(manager);
      database->SetOther(database == &first_ ? &second_ : &first_);
      database->Open();
    }
  }

  void Run() {
    const uint64_t for_good = counts_->for_good;
    for (Database* database : {&first_, &second_}) Begin(database);
    const auto end = steady_clock::now() + kFailing;
    while (steady_clock::now() < end) {
      FailForAMoment((random_.OneIn(2) ? first_ : second_).disk(), &random_);
      std::this_thread::sleep_for(milliseconds(random_.Uniform(100)));
    }
    if (settings_.hangs) first_.disk()->held = ~0;
    watch_.Expect(std::chrono::seconds(settings_.patience));
    ends_ = true;
    // What an error for good keeps in memory is not flushed before the database is opened again, and others would wait.
    if (buffers_ != nullptr && counts_->for_good > for_good) buffers_->SetAllowStall(false);
    End();
    if (settings_.loses) first_.PretendOneMore();
    for (Database* database : {&first_, &second_}) database->Resume();
    for (Database* database : {&first_, &second_}) database->Recover();
    for (Database* database : {&first_, &second_}) database->CloseAndOpen();
    watch_.Settle();
  }

 private:
  void Begin(Database* database) {
    for (int writer = 0; writer < Database::kWriters; ++writer) {
      threads_.emplace_back([this, database, writer] {
        for (uint64_t n = 1; !ends_; ++n) database->Write(writer, n);
        ++ended_;
      });
    }
    threads_.emplace_back([this, database, seed = random_.Next()] {
      test::Random random(seed);
      while (!ends_) {
        database->Operate(&random);
        std::this_thread::sleep_for(milliseconds(random.Uniform(100)));
      }
      ++ended_;
    });
  }
  // A database whose recovery a listener has refused, or that has given up, may hold a thread of the other one back by its
  // share of the WriteBufferManager.
  void End() {
    const Watch::Doing doing(&watch_, "The wait for all threads");
    while (ended_ != threads_.size()) {
      for (Database* database : {&first_, &second_}) {
        database->UseIfOpen("Resume", [](rocksdb::DB* db) { db->Resume().PermitUncheckedError(); });
      }
      std::this_thread::sleep_for(milliseconds(20));
    }
    for (std::thread& thread : threads_) thread.join();
  }

  const Settings settings_;
  test::Random random_;
  const Verdict verdict_;
  Watch watch_;
  const std::shared_ptr<rocksdb::WriteBufferManager> buffers_;
  Counts* const counts_;
  Database first_, second_;
  std::atomic<bool> ends_{false};
  std::atomic<size_t> ended_{0};
  std::vector<std::thread> threads_;
};

int Run(const Settings& settings) {
  Counts counts;
  const uint64_t rounds = RunRounds(settings, [&](uint64_t seed) {
    std::printf("cairn_error_stress --seed=%" PRIu64 " --seconds=1\n", seed);
    std::fflush(stdout);
    const test::TempDir folder;
    Round(settings, seed, folder.path(), &counts).Run();
    return true;
  });
  std::printf("%" PRIu64 " rounds: %" PRIu64 " writes acknowledged, %" PRIu64 " refused; %" PRIu64 " errors, %" PRIu64
              " for good; %" PRIu64 " recoveries, %" PRIu64 " times Resume, %" PRIu64 " times Close\n",
              rounds, counts.written.load(), counts.refused.load(), counts.errors.load(), counts.for_good.load(),
              counts.recovered.load(), counts.resumed.load(), counts.closed.load());
  return 0;
}

}  // namespace
}  // namespace errors
}  // namespace cairn

int main(int argc, char** argv) {
  cairn::errors::Settings settings;
  const cairn::test::Flags flags = cairn::errors::FlagsOfRounds(
      &settings, {{"hang", [&](const cairn::test::FlagValue&) { settings.hangs = true; }}});
  return cairn::test::ParseFlags(argc, argv, "cairn_error_stress", flags) ? cairn::errors::Run(settings) : 2;
}
