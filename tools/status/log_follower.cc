#include "tools/status/log_follower.h"

#include "util/rocksdb_names.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <cstdlib>
#include <cstring>
#include <ctime>
#include <nlohmann/json.hpp>
#include <utility>

namespace cairn {

namespace {

constexpr size_t kBlock = 64 << 10;
constexpr double kSecondsBetweenPast = 5;
// Job numbers whose family is remembered: more than ever run at a time.
constexpr size_t kMaxJobs = 1000;

// 0 where the field is missing or no number.
double NumberOf(const nlohmann::json& object, const char* field) {
  const auto found = object.find(field);
  return found != object.end() && found->is_number() ? found->get<double>() : 0;
}

std::string TextOf(const nlohmann::json& object, const char* field) {
  const auto found = object.find(field);
  return found != object.end() && found->is_string() ? found->get<std::string>() : std::string();
}

// 0 also where it is negative, or more than any LOG has.
uint64_t WholeOf(const nlohmann::json& object, const char* field) {
  const double number = NumberOf(object, field);
  return number > 0 && number < 9e18 ? static_cast<uint64_t>(number) : 0;
}

// The number behind `label` in a line of the stats dump; empty: the label is not there.
std::optional<double> Behind(const std::string& line, const char* label) {
  const size_t at = line.find(label);
  if (at == std::string::npos) return std::nullopt;
  return strtod(line.c_str() + at + strlen(label), nullptr);
}

// Of a line with "[name]" before `end`, which points at the bracket's end; empty: there is none.
std::string NameBefore(const std::string& line, size_t end) {
  const size_t begin = line.rfind(" [", end);
  return begin == std::string::npos ? std::string() : line.substr(begin + 2, end - begin - 2);
}

}  // namespace

class LogFollower::Descriptor {
 public:
  explicit Descriptor(const std::string& file) : number_(open(file.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK)) {
    if (number_ < 0 || fstat(number_, &facts_) != 0) error_ = errno;
  }
  ~Descriptor() {
    if (number_ >= 0) close(number_);
  }
  Descriptor(const Descriptor&) = delete;
  Descriptor& operator=(const Descriptor&) = delete;

  int number() const { return number_; }
  int error() const { return error_; }  // 0: none
  uint64_t size() const {               // at the time of the call
    struct stat facts = {};
    return fstat(number_, &facts) == 0 ? static_cast<uint64_t>(facts.st_size) : 0;
  }
  bool IsSameFileAs(const Descriptor& other) const {
    return facts_.st_ino == other.facts_.st_ino && facts_.st_dev == other.facts_.st_dev;
  }

 private:
  const int number_;
  int error_ = 0;
  struct stat facts_ = {};
};

std::optional<double> TimeOfLogLine(const std::string& line) {
  struct tm time = {};
  int micros = 0;
  if (line.empty() || line[0] < '0' || line[0] > '9') return std::nullopt;
  if (sscanf(line.c_str(), "%4d/%2d/%2d-%2d:%2d:%2d.%6d ", &time.tm_year, &time.tm_mon, &time.tm_mday, &time.tm_hour,
             &time.tm_min, &time.tm_sec, &micros) != 7) {
    return std::nullopt;
  }
  time.tm_year -= 1900;
  time.tm_mon -= 1;
  time.tm_isdst = -1;
  return static_cast<double>(mktime(&time)) + micros / 1e6;
}

Status LogFollower::Follow() {
  if (descriptor_ != nullptr) ReadOn();
  auto current = std::make_shared<const Descriptor>(file_);
  if (current->error() == ENOENT) return Status::NotFound(file_, "is not there");
  if (current->error() != 0) return Status::IOError(file_, strerror(current->error()));
  if (descriptor_ == nullptr || !descriptor_->IsSameFileAs(*current) || current->size() < offset_) {
    in_past_ = descriptor_ == nullptr;
    descriptor_ = std::move(current);
    const uint64_t size = descriptor_->size();
    offset_ = in_past_ && size > kPastBytes ? size - kPastBytes : 0;
    skip_line_ = offset_ > 0;
    rest_.clear();
    ReadOn();
    in_past_ = false;
  }
  return Status::OK();
}

void LogFollower::ReadOn() {
  const uint64_t end = descriptor_->size();
  std::vector<char> block(kBlock);
  while (offset_ < end) {
    const ssize_t got = pread(descriptor_->number(), block.data(), block.size(), static_cast<off_t>(offset_));
    if (got <= 0) return;  // read on the next time
    offset_ += static_cast<uint64_t>(got);
    OnText(block.data(), static_cast<size_t>(got));
  }
}

void LogFollower::OnText(const char* text, size_t size) {
  const char* const end = text + size;
  while (text < end) {
    const char* const line_end = static_cast<const char*>(memchr(text, '\n', static_cast<size_t>(end - text)));
    if (line_end == nullptr) {
      if (!skip_line_) rest_.append(text, end);
      if (rest_.size() > kMaxLine) {
        rest_.clear();
        skip_line_ = true;
      }
      return;
    }
    if (!skip_line_) {
      rest_.append(text, line_end);
      OnLine(rest_);
    }
    rest_.clear();
    skip_line_ = false;
    text = line_end + 1;
  }
}

void LogFollower::OnLine(const std::string& line) {
  const size_t event = line.find("EVENT_LOG_v1 ");
  if (event != std::string::npos) {
    OnEvent(line, line.c_str() + event + strlen("EVENT_LOG_v1 "));
    return;
  }
  // "<time> <thread> [file.cc:12] [name] [JOB 7] Compacting ..." and "<time> <thread> [name] cairn.Tuner: ..."
  static const std::string kJob = "] [JOB ";
  static const std::string kTuner = "] cairn.Tuner: ";
  if (const size_t job = line.find(kJob); job != std::string::npos) {
    if (family_of_job_.size() >= kMaxJobs) family_of_job_.erase(family_of_job_.begin());
    family_of_job_[strtoll(line.c_str() + job + kJob.size(), nullptr, 10)] = NameBefore(line, job);
  } else if (const size_t tuner = line.find(kTuner); tuner != std::string::npos) {
    if (tuner_log_.size() > kMaxJobs) return;  // no LOG of RocksDB's has so many families
    std::vector<std::string>& log = tuner_log_[NameBefore(line, tuner)];
    if (log.size() >= kMaxTunerLines) log.erase(log.begin());
    const size_t time_end = line.find('.');  // without microseconds and thread
    log.push_back(line.substr(0, time_end == std::string::npos ? 0 : time_end) + " " +
                  line.substr(tuner + kTuner.size()));
  } else if (line.compare(0, 17, "Interval writes: ") == 0) {
    // "... ingest: 12.00 MB, 1.20 MB/s"; the time stands in a line before, which has the word DUMPING.
    const size_t rate = line.rfind(", ");
    if (stats_dump_.has_value() && rate != std::string::npos) {
      stats_dump_->ingest_bytes_per_second = strtod(line.c_str() + rate + 2, nullptr) * (1 << 20);
    }
  } else if (line.compare(0, 16, "Interval stall: ") == 0) {
    const std::optional<double> percent = Behind(line, "H:M:S, ");
    if (stats_dump_.has_value() && percent.has_value()) stats_dump_->stall_percent = *percent;
  } else if (line.find("DUMPING STATS") != std::string::npos) {
    const std::optional<double> at = TimeOfLogLine(line);
    if (at.has_value()) {
      stats_dump_.emplace();
      stats_dump_->at = *at;
    }
  }
}

void LogFollower::OnEvent(const std::string& line, const char* text) {
  const nlohmann::json event = nlohmann::json::parse(text, nullptr, false);
  if (!event.is_object()) return;
  const std::string kind = TextOf(event, "event");
  const double at = NumberOf(event, "time_micros") / 1e6;
  const int64_t job = static_cast<int64_t>(WholeOf(event, "job"));
  if (kind == "compaction_started") {
    Job started;
    started.started_at = at;
    started.reason = TextOf(event, "compaction_reason");
    started.bytes = WholeOf(event, "input_data_size");
    const auto family = family_of_job_.find(job);
    if (family != family_of_job_.end()) started.column_family = family->second;
    for (const auto& [name, files] : event.items()) {
      if (name.compare(0, 7, "files_L") != 0 || !files.is_array() || files.empty()) continue;
      started.levels.push_back(atoi(name.c_str() + 7));
      for (const nlohmann::json& file : files) {
        if (file.is_number_unsigned()) started.files.insert(file.get<uint64_t>());
      }
    }
    if (running_.size() >= kMaxJobs) running_.clear();  // of no LOG of RocksDB's
    running_[job] = std::move(started);
  } else if (kind == "compaction_finished") {
    const auto found = running_.find(job);
    if (found != running_.end()) totals_.compaction_read_bytes += found->second.bytes;
    running_.erase(job);
    totals_.compaction_written_bytes += WholeOf(event, "total_output_size");
  } else if (kind == "table_file_creation" && running_.count(job) == 0) {
    totals_.flushed_bytes += WholeOf(event, "file_size");
  } else if (kind == "recovery_started") {
    running_.clear();  // another process
  } else {
    return;
  }
  if (in_past_) AddPast(at);
}

void LogFollower::AddPast(double at) {
  if (!past_.empty() && at - past_.back().at < kSecondsBetweenPast) return;
  StatusSample sample;
  sample.at = at;
  sample.flushed_bytes = static_cast<double>(totals_.flushed_bytes);
  sample.compaction_read_bytes = static_cast<double>(totals_.compaction_read_bytes);
  sample.compaction_written_bytes = static_cast<double>(totals_.compaction_written_bytes);
  past_.push_back(sample);
}

}  // namespace cairn
