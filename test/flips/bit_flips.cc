// Flips bits of what Cairn keeps on a disk, one at a time, and reads it: an answer is right, or an error says that
// something is damaged.
//
//   bit_flips [--format=F,...] [--flips=N] [--seed=X] [--json=FILE] [--list]
//
// `flips` of each format, 2,000 without the flag. Files are made anew for every 50,000. A process of its own reads
// them, so that a crash is a finding, too; the damaged files of a finding stay, and the last line of it says where.

#include <signal.h>
#include <sys/mman.h>
#include <sys/time.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <cstdio>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <new>

#include "test/flags.h"
#include "test/flips/formats.h"

namespace cairn::flips {
namespace {

namespace fs = std::filesystem;
using Clock = std::chrono::steady_clock;

constexpr uint64_t kFlipsOfFiles = 50000;
constexpr uint64_t kFlipsOfProcess = 10000;
constexpr size_t kLine = 64;
constexpr int kMostFindings = 10;

// How a process ends that found something.
enum : int { kFoundWrong = 1, kNotMade = 2, kNotWritten = 3 };
constexpr char kNotMadeText[] = "what was made cannot be read";

struct Arguments {
  std::vector<std::string> formats = FormatNames();
  uint64_t flips = 2000;
  uint64_t seed = 1;
  std::string json;
};

// Shared with the process that flips.
struct Shared {
  uint64_t done = 0;
  uint64_t refused = 0;
  char text[1024] = {};
};

struct Result {
  std::string format;
  uint64_t flips = 0;
  uint64_t refused = 0;
  uint64_t findings = 0;
};

struct File {
  std::string path;
  std::string bytes;
};

// Lines to be damaged: all that hold something, and of the others some.
std::vector<std::pair<size_t, size_t>> LinesOf(const std::vector<File>& files) {
  std::vector<std::pair<size_t, size_t>> lines;
  for (size_t file = 0; file < files.size(); ++file) {
    const std::string& bytes = files[file].bytes;
    for (size_t at = 0; at < bytes.size(); at += kLine) {
      const size_t end = std::min(at + kLine, bytes.size());
      const bool zeros = std::all_of(bytes.begin() + static_cast<long>(at), bytes.begin() + static_cast<long>(end),
                                     [](char c) { return c == '\0'; });
      if (!zeros || at / kLine % 512 == 0) lines.emplace_back(file, at);
    }
  }
  return lines;
}

bool Put(const std::string& path, size_t at, const char* bytes, size_t size) {
  FILE* const file = fopen(path.c_str(), "r+b");
  if (file == nullptr) return false;
  const bool written = fseek(file, static_cast<long>(at), SEEK_SET) == 0 && fwrite(bytes, 1, size, file) == size;
  return fclose(file) == 0 && written;
}

// It shall not go round and round over what it reads. Counts the time of the processor: others may stop this process.
void BoundProcessorTime() {
  const itimerval most = {{0, 0}, {60, 0}};
  setitimer(ITIMER_PROF, &most, nullptr);
}

[[noreturn]] void Flip(const std::string& name, const std::string& folder, uint64_t flips, uint64_t seed,
                       Shared* shared) {
  const std::unique_ptr<Format> format = NewFormat(name);
  test::Random random(seed);
  std::vector<File> files;
  for (const std::string& path : format->Load(folder)) {
    std::ifstream stream(path, std::ios::binary);
    files.push_back({path, std::string(std::istreambuf_iterator<char>(stream), std::istreambuf_iterator<char>())});
  }
  std::string what;
  if (files.empty() || format->Ask(&random, &what) != Answers::kRight) {
    snprintf(shared->text, sizeof(shared->text), "%s", what.c_str());
    _exit(kNotMade);
  }
  const auto lines = LinesOf(files);
  for (uint64_t i = 0; i < flips; ++i) {
    if (i % 100 == 0) BoundProcessorTime();
    const auto [file, line] = lines[random.Uniform(lines.size())];
    const std::string& good = files[file].bytes;
    const size_t at = line + random.Uniform(std::min(kLine, good.size() - line));
    const int bit = static_cast<int>(random.Uniform(8));
    const char damaged = static_cast<char>(good[at] ^ (1 << bit));
    snprintf(shared->text, sizeof(shared->text), "bit %d of byte %zu of %s", bit, at, files[file].path.c_str());
    what.clear();
    if (format->Writes() && !Put(files[file].path, 0, good.data(), good.size())) _exit(kNotWritten);
    if (!Put(files[file].path, at, &damaged, 1)) _exit(kNotWritten);
    const Answers answers = format->Ask(&random, &what);
    if (answers == Answers::kWrong) {
      const size_t used = strlen(shared->text);
      snprintf(shared->text + used, sizeof(shared->text) - used, ": %s", what.c_str());
      _exit(kFoundWrong);
    }
    if (!Put(files[file].path, at, &good[at], 1)) _exit(kNotWritten);
    shared->refused += answers == Answers::kRefused ? 1 : 0;
    ++shared->done;
  }
  // For the process after this one, which takes it for intact.
  for (const File& file : files) {
    if (format->Writes() && !Put(file.path, 0, file.bytes.data(), file.bytes.size())) _exit(kNotWritten);
  }
  _exit(0);
}

// Runs `work` in another process. What ended it, empty if it ended as it should.
template <class Work>
std::string InAnotherProcess(const Work& work) {
  const pid_t child = fork();
  if (child == 0) work();
  int status = 0;
  if (child < 0 || waitpid(child, &status, 0) != child) return "no process";
  if (WIFSIGNALED(status)) return std::string("died by ") + strsignal(WTERMSIG(status));
  switch (WEXITSTATUS(status)) {
    case 0:
      return "";
    case kFoundWrong:
      return "a wrong answer";
    case kNotMade:
      return kNotMadeText;
    default:
      return "the file cannot be written";
  }
}

bool Make(const std::string& name, const std::string& folder, uint64_t seed) {
  std::error_code ignored;
  fs::remove_all(folder, ignored);
  fs::create_directories(folder);
  const auto make = [&] {
    test::Random random(seed);
    _exit(NewFormat(name)->Make(folder, &random) ? 0 : kNotMade);
  };
  return InAnotherProcess(make).empty();
}

// A new folder in $TMPDIR, or in memory where that is not set; empty if there is none.
std::string NewFolder() {
  std::string folder = access("/dev/shm", W_OK) == 0 ? "/dev/shm" : "/tmp";
  if (const char* const set = std::getenv("TMPDIR")) folder = set;
  folder += "/bit_flips.XXXXXX";
  return mkdtemp(folder.data()) != nullptr ? folder : "";
}

Result Run(const Arguments& arguments, const std::string& name, const std::string& base, Shared* shared) {
  Result result;
  result.format = name;
  const auto began = Clock::now();
  uint64_t of_files = kFlipsOfFiles;
  uint64_t seed = arguments.seed;
  std::string folder;
  for (int set = 0; result.flips < arguments.flips && result.findings < kMostFindings;) {
    if (of_files >= kFlipsOfFiles) {
      std::error_code ignored;
      if (!folder.empty()) fs::remove_all(folder, ignored);
      folder = base + "/" + name + "." + std::to_string(++set);
      of_files = 0;
      if (!Make(name, folder, ++seed)) {
        printf("%s: cannot be made in %s\n", name.c_str(), folder.c_str());
        ++result.findings;
        return result;
      }
    }
    const uint64_t now = std::min({arguments.flips - result.flips, kFlipsOfFiles - of_files, kFlipsOfProcess});
    new (shared) Shared();
    ++seed;
    const std::string ended = InAnotherProcess([&] { Flip(name, folder, now, seed, shared); });
    result.flips += shared->done;
    result.refused += shared->refused;
    of_files += shared->done;
    if (ended.empty()) continue;
    ++result.findings;
    ++result.flips;
    printf("%s: %s, %s; the files are in %s\n", name.c_str(), ended.c_str(), shared->text, folder.c_str());
    if (ended == kNotMadeText) return result;
    of_files = kFlipsOfFiles;
    folder.clear();  // stays
  }
  std::error_code ignored;
  if (!folder.empty()) fs::remove_all(folder, ignored);
  printf("%-14s %8llu flips, %8llu refused, %8llu without effect, %llu findings, %.0f s\n", name.c_str(),
         static_cast<unsigned long long>(result.flips), static_cast<unsigned long long>(result.refused),
         static_cast<unsigned long long>(result.flips - result.refused - result.findings),
         static_cast<unsigned long long>(result.findings), std::chrono::duration<double>(Clock::now() - began).count());
  fflush(stdout);
  return result;
}

void WriteJson(const std::string& path, const std::vector<Result>& results) {
  std::ofstream json(path);
  json << "[";
  for (const Result& result : results) {
    json << (&result == results.data() ? "\n " : ",\n ") << "{\"format\": \"" << result.format
         << "\", \"flips\": " << result.flips << ", \"refused\": " << result.refused
         << ", \"findings\": " << result.findings << "}";
  }
  json << "\n]\n";
}

int Main(int argc, char** argv) {
  Arguments arguments;
  bool list = false;
  const test::Flags flags = {{"format", [&](const test::FlagValue& value) { arguments.formats = value.List(); }},
                             {"flips", [&](const test::FlagValue& value) { arguments.flips = value.Number(); }},
                             {"seed", [&](const test::FlagValue& value) { arguments.seed = value.Seed(); }},
                             {"json", [&](const test::FlagValue& value) { arguments.json = value.Text(); }},
                             {"list", [&](const test::FlagValue&) { list = true; }}};
  if (!test::ParseFlags(argc, argv, "bit_flips", flags)) return 2;
  for (const std::string& name : list ? FormatNames() : std::vector<std::string>()) printf("%s\n", name.c_str());
  if (list) return 0;
  printf("bit_flips --seed=%llu\n", static_cast<unsigned long long>(arguments.seed));
  void* const mapped = mmap(nullptr, sizeof(Shared), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
  const std::string base = NewFolder();
  if (mapped == MAP_FAILED || base.empty()) return 2;
  auto* const shared = static_cast<Shared*>(mapped);
  std::vector<Result> results;
  uint64_t findings = 0;
  for (const std::string& name : arguments.formats) {
    if (NewFormat(name) == nullptr) {
      fprintf(stderr, "bit_flips: there is no format %s; --list prints them\n", name.c_str());
      return 2;
    }
    results.push_back(Run(arguments, name, base, shared));
    findings += results.back().findings;
    if (!arguments.json.empty()) WriteJson(arguments.json, results);
  }
  std::error_code ignored;
  if (findings == 0) fs::remove_all(base, ignored);
  return findings == 0 ? 0 : 1;
}

}  // namespace
}  // namespace cairn::flips

int main(int argc, char** argv) { return cairn::flips::Main(argc, argv); }
