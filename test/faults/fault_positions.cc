// Runs a script of operations once for every system call of a kind with that call failing, and once for every system
// call with power lost after it, and judges what is left (script.h). docs/design/testing.md
//
//   fault_positions [--engine=E,...] [--kind=K,...] [--from=N] [--to=N] [--stride=N] [--seconds=S] [--rounds=N]
//   [--seed=X]
//                   [--operations=N] [--span=N] [--together=N] [--json=FILE] [--journal=FILE] [--keep] [--forget-syncs]
//   fault_positions --engine=E --kind=K --from=N --gap=N ...
//   fault_positions --then=LOSS [--then-calls=N] ...
//   fault_positions --engine=E --kind=K --site=0xHEX [--occurrence=N] ...
//
// --seconds and --rounds take a sample: in each round one position of each site (system_calls.h), so that one round has
//  been
// at every call of every function, from every operation of the script, on every kind of file. With --journal, what a
// run before has done is not done again, and counts. --site runs one call that fails: the one of this site that has N
// of them before it. With --together, so many calls fail in one run of the script, as far apart as they can be: that
// --gap.
//
// With --then, a process that dies, or power that is lost, follows the call that has failed: after each of the next N
// calls.
//
// A failure prints the line that runs its position again.

#include <signal.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <cstdio>
#include <cstring>
#include <filesystem>
#include <functional>
#include <map>
#include <new>
#include <random>
#include <set>
#include <sstream>

#include "test/faults/disk_image.h"
#include "test/faults/script.h"
#include "test/flags.h"

namespace cairn::faults {
namespace {

namespace fs = std::filesystem;
using Clock = std::chrono::steady_clock;

// Kinds of loss, beside the faults of one call.
struct Variant {
  const char* name;
  Loss loss;
  bool another_boot;
  Rule rule;
};
constexpr Variant kVariants[] = {
    {"kill", Loss::kNone, false, Rule::kAcknowledged},
    {"power_all_lost", Loss::kAll, true, Rule::kSynced},
    {"power_some_lost", Loss::kSome, true, Rule::kSynced},
    {"power_none_lost", Loss::kNone, true, Rule::kSynced},
};

const Variant* FindVariant(const std::string& name) {
  for (const Variant& variant : kVariants) {
    if (name == variant.name) return &variant;
  }
  return nullptr;
}

struct Arguments {
  std::vector<std::string> engines = DefaultScenarios();
  std::vector<std::string> kinds;
  uint64_t from = 0;
  uint64_t to = UINT64_MAX;
  uint64_t stride = 1;
  double seconds = 0;   // for all; 0: as long as it takes
  uint64_t rounds = 0;  // 0: as many as there are positions
  uint64_t seed = 1;
  int operations = 120;
  uint64_t span = 1;      // calls in a row that fail
  uint64_t together = 1;  // calls far apart that fail in one run
  uint64_t gap = 0;       // from each of them to the next; 0: as together has it
  std::string then;       // the loss that follows a call that has failed; empty: none
  uint64_t then_calls = 30;
  uint64_t site = 0;  // of the only call that fails; 0: positions are chosen otherwise
  uint64_t occurrence = 0;
  std::string json;
  std::string journal;
  bool keep = false;
  bool forget_syncs = false;

  bool Together() const { return together > 1 || gap > 0; }
};

struct Result {
  std::string engine;
  std::string kind;
  uint64_t positions = 0;
  uint64_t run = 0;
  uint64_t not_reached = 0;
  uint64_t refused = 0;
  uint64_t failures = 0;
  uint64_t sites = 0;      // of its positions
  uint64_t sites_hit = 0;  // of those
};

// What was run of one kind on one engine, in this run and in those before.
struct Done {
  std::set<uint64_t> positions;
  std::map<uint64_t, uint64_t> sites;  // how often each
  uint64_t not_reached = 0;
  uint64_t failures = 0;
  uint64_t refused = 0;
};

// How one position ended. Its site is where the fault struck, which background threads have a say in.
struct Ended {
  uint64_t site = 0;
  bool reached = true;
  std::string wrong;  // empty: all is well
  std::string which;  // the flags that run it again; empty: those of its number
  uint64_t gap = 0;   // not 0: positions that far behind it were run with it, of these sites
  std::vector<uint64_t> also;
};

// Shared with the processes that run and judge.
struct Shared {
  Outcomes outcomes;
  Sites sites;
  Outcomes judged;  // those that a judge is told
  int verdict = -1;
  char text[1024] = {};
};

// How a process ended.
struct Ending {
  bool hung = false;
  int status = 0;
  bool Good() const { return !hung && WIFEXITED(status) && WEXITSTATUS(status) == 0; }
  std::string Text() const {
    if (hung) return "hung for two minutes";
    if (WIFSIGNALED(status)) return std::string("died by ") + strsignal(WTERMSIG(status));
    return "ended with " + std::to_string(WEXITSTATUS(status));
  }
};

// In a process of its own, which ends with it.
Ending InAnotherProcess(const std::function<void()>& work) {
  fflush(stdout);
  fflush(stderr);
  const pid_t child = fork();
  if (child == 0) {
    work();
    fflush(stdout);
    fflush(stderr);
    _exit(0);
  }
  Ending ending;
  const auto until = Clock::now() + std::chrono::seconds(120);
  for (useconds_t nap = 50; waitpid(child, &ending.status, WNOHANG) == 0; nap = std::min<useconds_t>(nap * 2, 5000)) {
    if (Clock::now() > until) {
      ending.hung = true;
      kill(child, SIGABRT);
      waitpid(child, &ending.status, 0);
      break;
    }
    usleep(nap);
  }
  return ending;
}

class Driver {
 public:
  Driver(Arguments arguments, std::string base) : arguments_(std::move(arguments)), base_(std::move(base)) {
    void* const memory = mmap(nullptr, sizeof(Shared), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    shared_ = new (memory) Shared();
    begun_ = Clock::now();
  }

  int Run() {
    size_t parts = arguments_.engines.size() * arguments_.kinds.size();
    for (const std::string& engine : arguments_.engines) {
      engine_ = engine;
      scenario_ = NewScenario(engine, arguments_.seed, arguments_.operations);
      if (scenario_ == nullptr) {
        fprintf(stderr, "fault_positions: there is no engine \"%s\"\n", engine.c_str());
        return 2;
      }
      if (!MakeTemplate() || !CountCalls()) return 1;
      ReadJournal();
      for (const std::string& kind : arguments_.kinds) {
        // Each gets its part of what time is left.
        const double left = arguments_.seconds - Elapsed();
        part_ends_ = arguments_.seconds > 0 ? Elapsed() + left / static_cast<double>(parts) : 0;
        --parts;
        if (!RunKind(kind)) return 2;
        Report();
      }
    }
    uint64_t failures = 0;
    for (const Result& result : results_) failures += result.failures;
    return failures == 0 ? 0 : 1;
  }

 private:
  double Elapsed() const { return std::chrono::duration<double>(Clock::now() - begun_).count(); }

  std::string Folder() const { return base_ + "/run"; }
  std::string Template() const { return base_ + "/template"; }

  bool MakeTemplate() {
    fs::remove_all(Template());
    fs::create_directory(Template());
    // It knows its path: made where it will be used.
    fs::remove_all(Folder());
    fs::create_directory(Folder());
    const Ending ending = InAnotherProcess([this] {
      if (!scenario_->Prepare(Folder())) _exit(1);
    });
    fs::copy(Folder(), Template(), fs::copy_options::recursive);
    if (!ending.Good()) fprintf(stderr, "%s cannot be prepared: %s\n", engine_.c_str(), ending.Text().c_str());
    return ending.Good();
  }

  void FreshFolder() {
    std::error_code error;
    fs::create_directory(Folder(), error);
    for (const auto& entry : fs::directory_iterator(Folder())) fs::remove_all(entry.path());
    fs::copy(Template(), Folder(), fs::copy_options::recursive);
  }

  Ending RunScript(const WatchOptions& watch, const std::string& events) {
    FreshFolder();
    shared_->outcomes = Outcomes();
    return InAnotherProcess([&] {
      WatchOptions options = watch;
      options.folder = Folder();
      options.counters = &shared_->outcomes.counters;
      options.forget_syncs = arguments_.forget_syncs;
      Watch(options);
      scenario_->Run(Folder(), &shared_->outcomes);
      Unwatch();
      if (!events.empty() && !SaveEvents(Recorded(), events)) _exit(1);
    });
  }

  // Without a fault: how many calls there are, and that the script passes.
  bool CountCalls() {
    new (&shared_->sites) Sites();
    WatchOptions counting;
    counting.sites = &shared_->sites;
    const Ending ending = RunScript(counting, "");
    totals_ = shared_->outcomes.counters;
    if (!ending.Good() || shared_->outcomes.message[0] != '\0') {
      fprintf(stderr, "%s without any fault: %s %s\n", engine_.c_str(), ending.Text().c_str(),
              shared_->outcomes.message);
      return false;
    }
    const std::string wrong = Judge(shared_->outcomes, Rule::kAcknowledged, false);
    if (wrong.empty()) return true;
    fprintf(stderr, "%s without any fault: %s\n", engine_.c_str(), wrong.c_str());
    return false;
  }

  // Empty if all is well.
  std::string Judge(const Outcomes& outcomes, Rule rule, bool another_boot) {
    shared_->judged = outcomes;
    shared_->verdict = -1;
    shared_->text[0] = '\0';
    const Ending ending = InAnotherProcess([&] {
      if (another_boot) PretendAnotherBoot();
      const Verdict verdict = scenario_->Judge(Folder(), shared_->judged, rule);
      std::snprintf(shared_->text, sizeof(shared_->text), "%s", verdict.text.c_str());
      shared_->verdict = verdict.kind;
    });
    if (!ending.Good() || shared_->verdict < 0) return "whoever opens it " + ending.Text();
    if (shared_->verdict == Verdict::kRefused) return std::string("does not open: ") + shared_->text;
    return shared_->text;
  }

  bool RunKind(const std::string& kind) {
    Result result;
    result.engine = engine_;
    result.kind = kind;
    Fault fault = Fault::kNone;
    if (FaultOf(kind, &fault) && fault != Fault::kNone) {
      RunFault(fault, &result);
      results_.push_back(result);
      Line(result);
      return true;
    }
    if (const Variant* const variant = FindVariant(kind)) {
      RunLoss(*variant, &result);
      results_.push_back(result);
      Line(result);
      return true;
    }
    fprintf(stderr, "fault_positions: there is no kind \"%s\"\n", kind.c_str());
    return false;
  }

  // The positions to run, whose sites are given: all of them, or a sample. run_one(n) gives what became of it.
  template <class RunOne>
  void ForPositions(const std::vector<uint64_t>& sites, Result* result, const RunOne& run_one) {
    Done* const done = &done_[result->engine + " " + result->kind];
    const auto run = [&](uint64_t n) {
      const Ended ended = run_one(n);
      Note(*result, n, ended, done);
      if (ended.gap > 0) NoteAlso(*result, n, sites.size(), ended, done);
      Progress(*result, done->positions.size(), sites.size());
    };
    const uint64_t end = std::min<uint64_t>(arguments_.to, sites.size());
    if (Samples()) {
      Sample(sites, end, *done, run);
    } else {
      for (uint64_t n = arguments_.from; n < end; n += arguments_.stride) {
        if (done->positions.count(n) == 0) run(n);
      }
    }
    // Another run, of which the journal tells, may have met more.
    result->positions = std::max(sites.size(), done->positions.size());
    result->run = done->positions.size();
    result->not_reached = done->not_reached;
    result->failures = done->failures;
    result->refused = done->refused;
    const std::set<uint64_t> all(sites.begin(), sites.end());
    result->sites = all.size();
    for (const uint64_t site : all) result->sites_hit += done->sites.count(site);
  }

  // In each round one position of each site, in random order.
  template <class Run>
  void Sample(const std::vector<uint64_t>& sites, uint64_t end, const Done& done, const Run& run) {
    std::mt19937_64 random(arguments_.seed ^ sites.size());
    std::map<uint64_t, std::vector<uint64_t>> by_site;
    for (uint64_t n = arguments_.from; n < end; ++n) {
      if (done.positions.count(n) == 0) by_site[sites[n]].push_back(n);
    }
    std::vector<uint64_t> order;
    for (auto& [site, positions] : by_site) {
      std::shuffle(positions.begin(), positions.end(), random);
      order.push_back(site);
    }
    std::shuffle(order.begin(), order.end(), random);
    for (uint64_t round = 1; !by_site.empty() && (arguments_.rounds == 0 || round <= arguments_.rounds); ++round) {
      // A thread may have come first, so that another site was struck; once more, then.
      for (int attempt = 0; attempt < 2; ++attempt) {
        std::vector<uint64_t> batch;
        for (const uint64_t site : order) {
          const auto left = by_site.find(site);
          const auto struck = done.sites.find(site);
          if (left == by_site.end() || (struck != done.sites.end() && struck->second >= round)) continue;
          batch.push_back(left->second.back());
          left->second.pop_back();
          if (left->second.empty()) by_site.erase(left);
        }
        if (part_ends_ == 0) std::sort(batch.begin(), batch.end());  // a record is played forwards
        for (const uint64_t n : batch) {
          run(n);
          if (part_ends_ > 0 && Elapsed() > part_ends_) return;
        }
      }
    }
  }

  void Note(const Result& result, uint64_t n, const Ended& ended, Done* done) {
    const bool refused = ended.wrong.find("does not open:") != std::string::npos;
    done->positions.insert(n);
    ++done->sites[ended.site];
    done->not_reached += ended.reached ? 0 : 1;
    done->failures += ended.wrong.empty() ? 0 : 1;
    done->refused += refused ? 1 : 0;
    if (!ended.wrong.empty()) {
      Failed(result, n,
             ended.which.empty() ? "--from=" + std::to_string(n) + " --to=" + std::to_string(n + 1) : ended.which,
             ended.wrong);
    }
    if (arguments_.journal.empty()) return;
    FILE* const file = fopen(arguments_.journal.c_str(), "a");
    if (file == nullptr) return;
    fprintf(file, "%s %s %llu %016llx %d %d %d\n", JournalHead().c_str(), result.kind.c_str(),
            static_cast<unsigned long long>(n), static_cast<unsigned long long>(ended.site), ended.reached ? 1 : 0,
            ended.wrong.empty() ? 0 : 1, refused ? 1 : 0);
    fclose(file);
  }

  // Positions that were run with this one. The script may have come to an end before some of them.
  void NoteAlso(const Result& result, uint64_t n, uint64_t positions, const Ended& first, Done* done) {
    Ended ended;
    for (size_t i = 0; n + (i + 1) * first.gap < positions; ++i) {
      const uint64_t position = n + (i + 1) * first.gap;
      ended.reached = i < first.also.size();
      ended.site = ended.reached ? first.also[i] : 0;
      if (done->positions.count(position) == 0) Note(result, position, ended, done);
    }
  }

  // Positions are those of one script.
  std::string JournalHead() const {
    return engine_ + " " + std::to_string(arguments_.seed) + " " + std::to_string(arguments_.operations) + " " +
           std::to_string(arguments_.span) + (arguments_.Together() ? "+" : "") + arguments_.then;
  }

  void ReadJournal() {
    FILE* const file = arguments_.journal.empty() ? nullptr : fopen(arguments_.journal.c_str(), "r");
    if (file == nullptr) return;
    char line[400];
    const std::string head = JournalHead() + " ";
    while (fgets(line, sizeof(line), file) != nullptr) {
      if (std::strncmp(line, head.c_str(), head.size()) != 0) continue;
      char kind[64];
      unsigned long long n = 0;
      unsigned long long site = 0;
      int reached = 0;
      int failed = 0;
      int refused = 0;
      if (std::sscanf(line + head.size(), "%63s %llu %llx %d %d %d", kind, &n, &site, &reached, &failed, &refused) != 6)
        continue;
      Done* const done = &done_[engine_ + " " + kind];
      if (!done->positions.insert(n).second) continue;
      ++done->sites[site];
      done->not_reached += reached == 0 ? 1 : 0;
      done->failures += static_cast<uint64_t>(failed);
      done->refused += static_cast<uint64_t>(refused);
    }
    fclose(file);
  }

  bool Samples() const { return arguments_.seconds > 0 || arguments_.rounds > 0; }

  void RunFault(Fault fault, Result* result) {
    const uint64_t* const of = shared_->sites.of[static_cast<int>(fault)];
    const uint64_t calls = std::min(kMaxSites, totals_.calls[static_cast<int>(fault)]);
    std::vector<uint64_t> sites(of, of + calls);
    if (arguments_.site != 0) sites = {arguments_.site};
    std::vector<uint64_t> occurrences;
    std::map<uint64_t, uint64_t> seen;
    for (const uint64_t site : sites) occurrences.push_back(seen[site]++);
    if (arguments_.site != 0) occurrences = {arguments_.occurrence};
    const uint64_t gap = !arguments_.Together() ? 0
                         : arguments_.gap != 0  ? arguments_.gap
                                                : (sites.size() + arguments_.together - 1) / arguments_.together;
    ForPositions(sites, result, [&](uint64_t n) {
      WatchOptions watch;
      watch.fault = fault;
      watch.from = n;
      watch.to = n + arguments_.span;
      watch.gap = gap;
      // A sample is of sites.
      if (Samples() || arguments_.site != 0) {
        watch.site = sites[n];
        watch.occurrence = occurrences[n];
      }
      const Variant* const then = FindVariant(arguments_.then);
      watch.record = then != nullptr;
      const std::string record = base_ + "/record";
      const Ending ending = RunScript(watch, then == nullptr ? "" : record);
      const Outcomes outcomes = shared_->outcomes;
      Ended ended;
      const uint64_t* const hit_sites = outcomes.counters.hit_sites;
      const uint64_t hits = std::min(kMaxHitSites, outcomes.counters.hits);
      ended.site = hit_sites[0];
      ended.reached = hits > 0;
      if (gap > 0) {
        ended.gap = gap;
        if (hits > 1) ended.also.assign(hit_sites + 1, hit_sites + hits);
        ended.which =
            "--from=" + std::to_string(n) + " --to=" + std::to_string(n + 1) + " --gap=" + std::to_string(gap);
      } else if (watch.site != 0) {
        char text[80];
        std::snprintf(text, sizeof(text), "--site=0x%016llx --occurrence=%llu",
                      static_cast<unsigned long long>(watch.site), static_cast<unsigned long long>(watch.occurrence));
        ended.which = text;
      }
      std::string wrong;
      if (!ending.Good()) wrong = "it " + ending.Text() + " in operation " + std::to_string(outcomes.current);
      if (wrong.empty() && outcomes.wrong) wrong = outcomes.message;
      if (wrong.empty()) wrong = Judge(outcomes, Rule::kAcknowledged, false);
      if (wrong.empty() && then != nullptr && ended.reached) wrong = JudgeLossesAfter(record, *then);
      if (!wrong.empty()) {
        ended.wrong =
            std::string(outcomes.counters.first_hit) + " failed: " + wrong + "; the script saw: " + outcomes.message;
      }
      return ended;
    });
  }

  static std::string FileOf(const Event& call) {
    return call.path.empty() ? "file " + std::to_string(call.file) : call.path;
  }

  // Of what a loss after the n-th call leaves. Empty if all is well.
  std::string JudgeImage(const DiskImage& image, uint64_t n, const Variant& loss, const Outcomes& outcomes) {
    const uint64_t seed = arguments_.seed * 7919 + n;
    std::string wrong = image.Write(Folder(), loss.loss, seed);
    if (!wrong.empty()) return "the image cannot be written: " + wrong;
    wrong = Judge(outcomes, loss.rule, loss.another_boot);
    if (wrong.empty()) return "";
    if (arguments_.keep) image.Write(base_ + "/kept", loss.loss, seed);
    return "in operation " + std::to_string(outcomes.current) + ": " + wrong;
  }

  // Empty if all is well after each of the calls that follow the one that has failed.
  std::string JudgeLossesAfter(const std::string& record, const Variant& loss) {
    std::vector<Event> events;
    if (!LoadEvents(record, &events)) return "the record cannot be read";
    DiskImage image;
    Outcomes outcomes;
    bool failed = false;
    uint64_t calls = 0;
    for (const Event& event : events) {
      image.Play(event);
      if (event.kind == EventKind::kMark) {
        failed = failed || event.number == kFailedMark;
        Told(event, &outcomes);
      }
      if (!failed || !event.is_call) continue;
      const std::string wrong = JudgeImage(image, calls, loss, outcomes);
      if (!wrong.empty()) {
        return std::string(loss.name) + " after call " + std::to_string(calls) + " behind it (" + FileOf(event) +
               "), " + wrong;
      }
      if (++calls == arguments_.then_calls) break;
    }
    return "";
  }

  bool MakeRecord() {
    if (recorded_ == engine_) return true;
    WatchOptions watch;
    watch.record = true;
    const std::string record = base_ + "/record";
    const Ending ending = RunScript(watch, record);
    if (!ending.Good() || !LoadEvents(record, &events_)) {
      fprintf(stderr, "%s: the record cannot be made: %s\n", engine_.c_str(), ending.Text().c_str());
      return false;
    }
    recorded_ = engine_;
    return true;
  }

  // The record is made once; every position is a part of it.
  void RunLoss(const Variant& variant, Result* result) {
    if (!MakeRecord()) {
      ++result->failures;
      return;
    }
    std::vector<uint64_t> sites;
    for (const Event& event : events_) {
      if (event.is_call) sites.push_back(event.site);
    }
    DiskImage image;
    Outcomes outcomes;
    size_t played = 0;
    uint64_t calls = 0;
    ForPositions(sites, result, [&](uint64_t n) {
      if (n < calls || played == 0) {
        image = DiskImage();
        outcomes = Outcomes();
        played = 0;
        calls = 0;
      }
      std::string call;
      for (; played < events_.size() && calls <= n; ++played) {
        const Event& event = events_[played];
        image.Play(event);
        if (event.is_call) {
          ++calls;
          call = FileOf(event);
        } else if (event.kind == EventKind::kMark) {
          Told(event, &outcomes);
        }
      }
      Ended ended;
      ended.site = sites[n];
      const std::string wrong = JudgeImage(image, n, variant, outcomes);
      if (!wrong.empty()) ended.wrong = "after " + call + ", " + wrong;
      return ended;
    });
  }

  static void Told(const Event& mark, Outcomes* outcomes) {
    if (mark.number >= kMaxOperations) return;
    const std::string& what = mark.other;
    outcomes->current = static_cast<int>(mark.number);
    if (what == "extra") outcomes->in_extra_family[mark.number] = true;
    if (what == "begun") outcomes->states[mark.number] = State::kBegun;
    if (what == "failed") outcomes->states[mark.number] = State::kFailed;
    if (what == "acknowledged" || what == "synced") outcomes->states[mark.number] = State::kAcknowledged;
    if (what == "synced") outcomes->synced[mark.number] = true;
  }

  void Failed(const Result& result, uint64_t n, const std::string& which, const std::string& what) const {
    printf("FAILED %s %s %llu: %s\n  fault_positions --engine=%s --kind=%s %s --seed=%llu --operations=%d%s%s\n",
           engine_.c_str(), result.kind.c_str(), static_cast<unsigned long long>(n), what.c_str(), engine_.c_str(),
           result.kind.c_str(), which.c_str(), static_cast<unsigned long long>(arguments_.seed), arguments_.operations,
           arguments_.span > 1 ? (" --span=" + std::to_string(arguments_.span)).c_str() : "",
           arguments_.then.empty()
               ? ""
               : (" --then=" + arguments_.then + " --then-calls=" + std::to_string(arguments_.then_calls)).c_str());
    fflush(stdout);
  }

  static void Progress(const Result& result, uint64_t run, uint64_t positions) {
    if (isatty(2) == 0) return;
    fprintf(stderr, "\r%-16s %-16s %6llu of %6llu   ", result.engine.c_str(), result.kind.c_str(),
            static_cast<unsigned long long>(run), static_cast<unsigned long long>(positions));
  }

  void Line(const Result& result) {
    if (isatty(2) != 0) fprintf(stderr, "\r%70s\r", "");
    printf("%-16s %-16s %6llu of %6llu positions, %5llu of %5llu sites, %llu failed, %.0f s\n", result.engine.c_str(),
           result.kind.c_str(), static_cast<unsigned long long>(result.run),
           static_cast<unsigned long long>(result.positions), static_cast<unsigned long long>(result.sites_hit),
           static_cast<unsigned long long>(result.sites), static_cast<unsigned long long>(result.failures), Elapsed());
    fflush(stdout);
  }

  void Report() const {
    if (arguments_.json.empty()) return;
    std::ostringstream text;
    text << "{\"seed\": " << arguments_.seed << ", \"operations\": " << arguments_.operations
         << ", \"span\": " << arguments_.span << ", \"together\": " << arguments_.together << ", \"then\": \""
         << arguments_.then << "\", \"then_calls\": " << arguments_.then_calls
         << ", \"seconds\": " << static_cast<uint64_t>(Elapsed()) << ", \"results\": [";
    const char* separator = "\n";
    for (const Result& result : results_) {
      text << separator << "  {\"engine\": \"" << result.engine << "\", \"kind\": \"" << result.kind
           << "\", \"positions\": " << result.positions << ", \"run\": " << result.run
           << ", \"sites\": " << result.sites << ", \"sites_hit\": " << result.sites_hit
           << ", \"not_reached\": " << result.not_reached << ", \"failures\": " << result.failures
           << ", \"refused\": " << result.refused << "}";
      separator = ",\n";
    }
    text << "\n]}\n";
    FILE* const file = fopen(arguments_.json.c_str(), "w");
    if (file == nullptr) return;
    fputs(text.str().c_str(), file);
    fclose(file);
  }

  const Arguments arguments_;
  const std::string base_;
  Shared* shared_ = nullptr;
  Clock::time_point begun_;
  double part_ends_ = 0;
  std::string engine_;
  std::unique_ptr<Scenario> scenario_;
  Counters totals_;
  std::string recorded_;
  std::vector<Event> events_;
  std::vector<Result> results_;
  std::map<std::string, Done> done_;
};

void ToAllKinds(std::vector<std::string>* kinds) {
  for (int i = 1; i < kFaults; ++i) {
    if (static_cast<Fault>(i) != Fault::kReadOnly) kinds->emplace_back(NameOf(static_cast<Fault>(i)));
  }
  for (const Variant& variant : kVariants) kinds->emplace_back(variant.name);
}

bool Parse(int argc, char** argv, Arguments* arguments) {
  using Value = test::FlagValue;
  const auto operations = [](uint64_t number) { return static_cast<int>(std::min<uint64_t>(number, kMaxOperations)); };
  const bool parsed = test::ParseFlags(
      argc, argv, "fault_positions",
      {{"engine", [=](const Value& value) { arguments->engines = value.List(); }},
       {"kind", [=](const Value& value) { arguments->kinds = value.List(); }},
       {"from", [=](const Value& value) { arguments->from = value.Number(); }},
       {"to", [=](const Value& value) { arguments->to = value.Number(); }},
       {"stride", [=](const Value& value) { arguments->stride = std::max<uint64_t>(1, value.Number()); }},
       {"seconds", [=](const Value& value) { arguments->seconds = value.Fraction(); }},
       {"seed", [=](const Value& value) { arguments->seed = value.Seed(); }},
       {"operations", [=](const Value& value) { arguments->operations = operations(value.Number()); }},
       {"span", [=](const Value& value) { arguments->span = value.Number(); }},
       {"together", [=](const Value& value) { arguments->together = std::max<uint64_t>(1, value.Number()); }},
       {"gap", [=](const Value& value) { arguments->gap = value.Number(); }},
       {"then", [=](const Value& value) { arguments->then = value.Text(); }},
       {"then-calls", [=](const Value& value) { arguments->then_calls = value.Number(); }},
       {"site", [=](const Value& value) { arguments->site = value.Number(); }},
       {"occurrence", [=](const Value& value) { arguments->occurrence = value.Number(); }},
       {"json", [=](const Value& value) { arguments->json = value.Text(); }},
       {"journal", [=](const Value& value) { arguments->journal = value.Text(); }},
       {"rounds", [=](const Value& value) { arguments->rounds = value.Number(); }},
       {"keep", [=](const Value& /*value*/) { arguments->keep = true; }},
       {"forget-syncs", [=](const Value& /*value*/) { arguments->forget_syncs = true; }}});
  if (arguments->kinds.empty()) ToAllKinds(&arguments->kinds);
  const bool together = arguments->Together();
  if (together && (arguments->span > 1 || arguments->seconds > 0 || arguments->rounds > 0 || arguments->site != 0)) {
    fprintf(stderr, "fault_positions: --together and --gap are of all positions, one call each\n");
    return false;
  }
  if (!arguments->then.empty() && (together || FindVariant(arguments->then) == nullptr)) {
    fprintf(stderr, "fault_positions: --then takes kill or a loss of power, and one call\n");
    return false;
  }
  return parsed;
}

int Main(int argc, char** argv) {
  Arguments arguments;
  if (!Parse(argc, argv, &arguments)) return 2;
  const char* const chosen = std::getenv("TEST_TMPDIR");
  std::string base = chosen != nullptr && *chosen != '\0' ? chosen : "/dev/shm";
  base += "/cairn_faults.XXXXXX";
  if (mkdtemp(base.data()) == nullptr) {
    fprintf(stderr, "fault_positions: no folder at %s\n", base.c_str());
    return 1;
  }
  printf("seed %llu, %d operations\n", static_cast<unsigned long long>(arguments.seed), arguments.operations);
  const bool keep = arguments.keep;
  const int code = Driver(std::move(arguments), base).Run();
  std::error_code ignored;
  if (keep) {
    printf("files are in %s\n", base.c_str());
  } else {
    fs::remove_all(base, ignored);
  }
  return code;
}

}  // namespace
}  // namespace cairn::faults

int main(int argc, char** argv) { return cairn::faults::Main(argc, argv); }
