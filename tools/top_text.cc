#include "tools/top_text.h"

#include <algorithm>
#include <cmath>
#include <ctime>

#include "tools/progress.h"
#include "util/stats_text.h"

namespace cairn {
namespace {

constexpr size_t kBarWidth = 20;
constexpr size_t kShownRuns = 12;
constexpr size_t kShownTunerLines = 3;

// As wide as a bar, as full as `part` (0 to 1) says.
std::string Bar(double part) {
  const auto full = static_cast<size_t>(std::lround(std::clamp(part, 0.0, 1.0) * kBarWidth));
  return "[" + std::string(full, '#') + std::string(kBarWidth - full, '.') + "]";
}

std::string RateText(std::optional<double> rate) { return rate.has_value() ? ShortBytes(*rate) + "/s" : "not seen"; }

// Of the last two samples.
std::optional<double> LastRate(const History& history, std::optional<double> StatusSample::*counter) {
  const std::vector<StatusSample>& samples = history.samples();
  if (samples.size() < 2) return std::nullopt;
  const StatusSample& before = samples[samples.size() - 2];
  const StatusSample& after = samples.back();
  return RateOf(before.*counter, after.*counter, after.at - before.at);
}

void AddTrie(const FamilyStatus& family, std::vector<std::string>* lines) {
  lines->emplace_back("  depth  containers     slots  fullest                 tables        bytes  compacting");
  for (const PictureDepth& depth : family.picture.depths) {
    uint64_t compacting = 0;
    for (const PictureCell& cell : depth.filled) compacting += cell.compacting_files;
    const std::string slots = std::to_string(depth.slots_max) + "/" + std::to_string(depth.full_slots);
    lines->push_back(FormatText("  %5d  %10llu  %8s  %s  %6llu  %11s  %10llu", depth.depth,
                                static_cast<unsigned long long>(depth.containers), slots.c_str(),
                                Bar(static_cast<double>(depth.slots_max) / std::max(1, depth.full_slots)).c_str(),
                                static_cast<unsigned long long>(depth.files), BytesText(depth.bytes).c_str(),
                                static_cast<unsigned long long>(compacting)));
  }
}

void AddRuns(const FamilyStatus& family, std::vector<std::string>* lines) {
  const std::vector<PictureRun>& runs = family.picture.runs;
  if (runs.empty()) return;
  uint64_t most = 1;
  for (const PictureRun& run : runs) most = std::max(most, run.bytes);
  lines->emplace_back("  run                            share of the largest    tables        bytes  compacting");
  for (size_t i = 0; i < std::min(runs.size(), kShownRuns); ++i) {
    const PictureRun& run = runs[i];
    const std::string name =
        run.level == 0 ? "level 0, table " + std::to_string(run.file_number) : "level " + std::to_string(run.level);
    lines->push_back(FormatText("  %-29s  %s  %6llu  %11s  %10llu", name.c_str(),
                                Bar(static_cast<double>(run.bytes) / static_cast<double>(most)).c_str(),
                                static_cast<unsigned long long>(run.files), BytesText(run.bytes).c_str(),
                                static_cast<unsigned long long>(run.compacting_files)));
  }
  if (runs.size() > kShownRuns) lines->push_back("  and " + std::to_string(runs.size() - kShownRuns) + " more runs");
}

void AddFamily(const FamilyStatus& family, std::vector<std::string>* lines) {
  lines->emplace_back();
  std::string head = family.name + " (" + family.engine + "): " + std::to_string(family.picture.files) + " tables, " +
                     BytesText(family.picture.bytes);
  if (family.space_amplification.has_value()) head += FormatText(", space %.2f times", *family.space_amplification);
  if (family.write_amplification.has_value()) head += FormatText(", written %.2f times", *family.write_amplification);
  lines->push_back(head);
  if (family.picture.depths.empty()) {
    AddRuns(family, lines);
  } else {
    AddTrie(family, lines);
  }
  const size_t shown = std::min(kShownTunerLines, family.tuner_log.size());
  for (size_t i = family.tuner_log.size() - shown; i < family.tuner_log.size(); ++i) {
    lines->push_back("  tuner: " + family.tuner_log[i]);
  }
}

void AddRunning(const StatusSnapshot& snapshot, std::vector<std::string>* lines) {
  if (!snapshot.running.has_value() || snapshot.running->empty()) return;
  lines->emplace_back();
  lines->emplace_back("compactions under way");
  for (const RunningCompaction& job : *snapshot.running) {
    std::string levels;
    for (const int level : job.levels) levels += (levels.empty() ? "" : ",") + std::to_string(level);
    lines->push_back("  " + (job.column_family.empty() ? "?" : job.column_family) + ": " + std::to_string(job.files) +
                     " tables, " + BytesText(job.bytes) + ", levels " + levels + ", " + job.reason + ", for " +
                     ShortTime(std::max(0.0, snapshot.at - job.started_at.value_or(snapshot.at))));
  }
}

}  // namespace

std::vector<std::string> StatusToLines(const StatusSnapshot& snapshot, const History& history, size_t width) {
  std::vector<std::string> lines;
  const auto seconds = static_cast<time_t>(snapshot.at);
  struct tm local = {};
  char clock[16] = "";
  if (localtime_r(&seconds, &local) != nullptr) strftime(clock, sizeof(clock), "%H:%M:%S", &local);
  std::string owner = "open elsewhere";
  if (!snapshot.open.has_value()) owner = "not seen whether a process has it open";
  if (snapshot.open == false) owner = "no process has it open";
  if (snapshot.process.has_value()) owner = "open in process " + std::to_string(*snapshot.process);
  lines.push_back(std::string(clock) + "  " + snapshot.database + "  " + BytesText(BytesOf(snapshot)) + ", " + owner);
  lines.push_back("flushed " + RateText(LastRate(history, &StatusSample::flushed_bytes)) + ", compactions read " +
                  RateText(LastRate(history, &StatusSample::compaction_read_bytes)) + ", wrote " +
                  RateText(LastRate(history, &StatusSample::compaction_written_bytes)) + ", " +
                  std::to_string(snapshot.running_compactions.value_or(0)) + " under way");
  if (snapshot.stats_dump.has_value()) {
    lines.push_back("put " + ShortBytes(snapshot.stats_dump->ingest_bytes_per_second) + "/s, writers held up " +
                    FormatText("%.1f %%", snapshot.stats_dump->stall_percent) + " of the time (the LOG's stats, " +
                    ShortTime(std::max(0.0, snapshot.at - snapshot.stats_dump->at)) + " ago)");
  }
  for (const FamilyStatus& family : snapshot.families) AddFamily(family, &lines);
  AddRunning(snapshot, &lines);
  if (!snapshot.not_seen.empty()) lines.emplace_back();
  for (const std::string& text : snapshot.not_seen) lines.push_back("not seen: " + text);
  for (std::string& line : lines) {
    if (line.size() > width) line.resize(width);
    for (char& c : line) {
      if (static_cast<unsigned char>(c) < 0x20 || c == 0x7F) c = '?';
    }
  }
  return lines;
}

}  // namespace cairn
