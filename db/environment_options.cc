#include "db/environment_options.h"

#include <algorithm>
#include <cctype>
#include <cstdarg>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <limits>
#include <unordered_map>
#include <utility>

#include "db/engine_table.h"
#include "memtable_cache/durable_writes.h"
#include "memtable_cache/sub_memtable_factory.h"
#include "result_cache/result_cache_listener.h"
#include "rocksdb/convenience.h"
#include "rocksdb/customizable.h"
#include "rocksdb/table.h"
#include "table/ordered/ordered_table.h"
#include "util/cairn_parts.h"
#include "util/option_text.h"
#include "util/rocksdb_names.h"

namespace cairn {

namespace {

constexpr char kText[] = "CAIRN_OPTIONS";
constexpr char kFile[] = "CAIRN_OPTIONS_FILE";
constexpr size_t kMaxFileBytes = 1 << 20;

constexpr char kMemTables[] = "memtable_factory";
constexpr char kTables[] = "table_factory";
constexpr char kCache[] = "result_cache";
constexpr char kEngine[] = "engine";
constexpr char kKnown[] =
    "the options are engine, memtable_factory (cairn.SubMemTable or skip_list), table_factory (cairn.OrderedTable), "
    "write_buffer_size, max_write_buffer_number, min_write_buffer_number_to_merge and, of a database, result_cache";

rocksdb::ConfigOptions Strictly() {
  rocksdb::ConfigOptions config;
  config.ignore_unknown_options = false;
  config.ignore_unsupported_options = false;
  return config;
}

std::string Trimmed(const std::string& text) {
  size_t begin = 0;
  size_t end = text.size();
  while (begin < end && isspace(static_cast<unsigned char>(text[begin])) != 0) ++begin;
  while (begin < end && isspace(static_cast<unsigned char>(text[end - 1])) != 0) --end;
  return text.substr(begin, end - begin);
}

// `*` is any text, `?` any one byte, all else itself.
bool Matches(const std::string& pattern, const std::string& text) {
  size_t p = 0;
  size_t t = 0;
  size_t star = std::string::npos;  // the last one, which may yet take more: up to `taken`
  size_t taken = 0;
  while (t < text.size()) {
    if (p < pattern.size() && pattern[p] == '*') {
      star = p++;
      taken = t;
    } else if (p < pattern.size() && (pattern[p] == '?' || pattern[p] == text[t])) {
      ++p;
      ++t;
    } else if (star != std::string::npos) {
      p = star + 1;
      t = ++taken;
    } else {
      return false;
    }
  }
  while (p < pattern.size() && pattern[p] == '*') ++p;
  return p == pattern.size();
}

// Whether what Absolute gives is never so.
bool MatchesNothing(const std::string& pattern) {
  if (pattern == "/") return false;
  const std::string closed = pattern + "/";
  for (const char* const part : {"//", "/./", "/../"}) {
    if (closed.find(part) != std::string::npos) return true;
  }
  return false;
}

// As patterns see it: absolute, without `.`, `..` and a slash at the end; links are not followed.
std::string Absolute(const std::string& path) {
  std::error_code error;
  const std::filesystem::path absolute = std::filesystem::absolute(path, error);
  std::string result = error ? path : absolute.lexically_normal().string();
  while (result.size() > 1 && result.back() == '/') result.pop_back();
  return result;
}

// A pipe would give its text to the first opening only, and a device may never end.
Status ReadFile(const std::string& name, std::string* text) {
  const std::string named = std::string(kFile) + " names " + name;
  std::error_code error;
  const std::filesystem::file_status status = std::filesystem::status(name, error);
  if (std::filesystem::exists(status) && !std::filesystem::is_regular_file(status)) {
    return Status::InvalidArgument(named, "it is no regular file; mend or unset it");
  }
  std::ifstream file(name, std::ios::binary);
  std::string content(kMaxFileBytes + 1, '\0');
  file.read(content.data(), static_cast<std::streamsize>(content.size()));
  if (!file.is_open() || file.bad()) {
    return Status::InvalidArgument(named, "the file cannot be read; mend or unset it");
  }
  content.resize(static_cast<size_t>(file.gcount()));
  if (content.size() > kMaxFileBytes) return Status::InvalidArgument(named, "the file is larger than 1 MiB");
  *text = std::move(content);
  return Status::OK();
}

// Of digits, and K, M, G or T behind them. RocksDB's parser passes over what it does not know: "32 M" is 32 to it.
bool ParseNumber(const std::string& text, uint64_t* number) {
  const size_t digits = std::min(text.find_first_not_of("0123456789"), text.size());
  if (digits == 0 || digits > std::numeric_limits<uint64_t>::digits10 || text.size() > digits + 1) return false;
  *number = std::stoull(text.substr(0, digits));
  if (text.size() == digits) return true;
  const size_t unit = std::string("KMGT").find(static_cast<char>(toupper(static_cast<unsigned char>(text.back()))));
  if (unit == std::string::npos) return false;
  const size_t shift = 10 * (unit + 1);
  if (*number > std::numeric_limits<uint64_t>::max() >> shift) return false;
  *number <<= shift;
  return true;
}

// The numbers that RocksDB takes as they are; others it would change without a word.
struct Range {
  const char* option;
  uint64_t least;
  uint64_t most;
};
constexpr Range kNumbers[] = {
    {"write_buffer_size", uint64_t{64} << 10, uint64_t{64} << 30},
    {"max_write_buffer_number", 2, std::numeric_limits<int>::max()},
    {"min_write_buffer_number_to_merge", 1, std::numeric_limits<int>::max()},
};

Status CheckNumber(const std::string& option, const std::string& value) {
  for (const Range& range : kNumbers) {
    if (option != range.option) continue;
    uint64_t number = 0;
    if (ParseNumber(value, &number) && number >= range.least && number <= range.most) return Status::OK();
    return Status::InvalidArgument("it may be a number from " + std::to_string(range.least) + " to " +
                                   std::to_string(range.most) + ", with K, M or G behind it");
  }
  return Status::InvalidArgument("there is no such option here", kKnown);
}

Status CheckMemTables(const ColumnFamilyOptions& parsed) {
  const char* const name = parsed.memtable_factory == nullptr ? "" : parsed.memtable_factory->Name();
  if (strcmp(name, "SkipListFactory") == 0) return Status::OK();
  if (strcmp(name, SubMemTableFactory::kClassName()) != 0) {
    return Status::InvalidArgument("it may be cairn.SubMemTable or skip_list");
  }
  if (!IsDurable({ColumnFamilyDescriptor("", parsed)})) return Status::OK();
  return Status::InvalidArgument(
      "durable memtables write a file that RocksDB without Cairn does not read; a program asks for them by its own "
      "options");
}

Status CheckTables(const std::string& value, const ColumnFamilyOptions& parsed) {
  if (parsed.table_factory == nullptr || parsed.table_factory->CheckedCast<OrderedTableFactory>() == nullptr) {
    return Status::InvalidArgument("it may be cairn.OrderedTable, whose files RocksDB without Cairn reads");
  }
  // Those of block-based tables are RocksDB's to parse.
  std::string printed;
  const Status s = parsed.table_factory->GetOptionString(Strictly(), &printed);
  return s.ok() ? CheckNumbersAsPrinted("table_factory=" + value, "table_factory={" + printed + "}") : s;
}

// Options that are a number.
void CopyNumber(const std::string& option, const ColumnFamilyOptions& from, ColumnFamilyOptions* to) {
  if (option == "write_buffer_size") to->write_buffer_size = from.write_buffer_size;
  if (option == "max_write_buffer_number") to->max_write_buffer_number = from.max_write_buffer_number;
  if (option == "min_write_buffer_number_to_merge") {
    to->min_write_buffer_number_to_merge = from.min_write_buffer_number_to_merge;
  }
}

Status ParseOption(const std::string& option, const std::string& value, ColumnFamilyOptions* parsed) {
  const bool memtables = option == kMemTables;
  const bool tables = option == kTables;
  Status s = memtables || tables ? Status::OK() : CheckNumber(option, value);
  if (s.ok() && value.empty()) s = Status::InvalidArgument("it has no value");
  if (s.ok()) s = rocksdb::GetColumnFamilyOptionsFromMap(Strictly(), ColumnFamilyOptions(), {{option, value}}, parsed);
  if (s.ok() && memtables) s = CheckMemTables(*parsed);
  if (s.ok() && tables) s = CheckTables(value, *parsed);
  return s;
}

// The program's block-based table, its cache and its filters, as an ordered one that texts name block-based.
Status UseOrderedTables(const std::string& value, ColumnFamilyOptions* options) {
  rocksdb::BlockBasedTableOptions table;
  if (options->table_factory != nullptr) {
    const auto* const given = options->table_factory->GetOptions<rocksdb::BlockBasedTableOptions>();
    if (given == nullptr) {
      return Status::NotSupported("its tables are " + std::string(options->table_factory->Name()),
                                  "only block-based ones can become ordered ones");
    }
    table = *given;
  }
  OrderedTableFactory named(table);
  std::string id;
  std::unordered_map<std::string, std::string> fields;
  Status s = rocksdb::Customizable::GetOptionsMap(Strictly(), nullptr, value, &id, &fields);
  if (s.ok()) s = named.ConfigureFromMap(Strictly(), fields);
  if (!s.ok()) return s;
  options->table_factory = std::make_shared<OrderedTableFactory>(
      *named.GetOptions<rocksdb::BlockBasedTableOptions>(), named.filter(), OrderedTableFactory::InTexts::kBlockBased);
  return s;
}

// Whatever the log's level is: programs with fixed options often fix it at errors. A program's Logger may implement
// Logv with a level and no other, so the level is one that it takes.
void WriteLine(rocksdb::Logger* log, const char* format, ...) {
  va_list arguments;
  va_start(arguments, format);
  log->Logv(std::max(rocksdb::INFO_LEVEL, std::min(log->GetInfoLogLevel(), rocksdb::FATAL_LEVEL)), format, arguments);
  va_end(arguments);
}

std::string StateOf(const Status& s) { return s.getState() == nullptr ? "" : s.getState(); }

}  // namespace

// Sections in brackets, options between them: docs/guide/switch_on.md.
class EnvironmentOptions::Parser {
 public:
  Parser(const std::string& source, const std::string& text, std::vector<Section>* sections)
      : source_(source), text_(text), sections_(sections) {}

  Status Run() {
    StartSection("everything");
    Status s;
    while (s.ok() && SkipToNext()) s = text_[at_] == '[' ? TakeSection() : TakeOption();
    return s;
  }

 private:
  // To the next option or section; false at the end. A line that begins with # is none.
  bool SkipToNext() {
    for (bool line_begins = at_ == 0; at_ < text_.size(); ++at_) {
      const char c = text_[at_];
      if (c == '#' && line_begins) {
        at_ = std::min(text_.find('\n', at_), text_.size());
        if (at_ == text_.size()) return false;
      } else if (c != ';' && isspace(static_cast<unsigned char>(c)) == 0) {
        return true;
      }
      line_begins = text_[at_] == '\n' || (line_begins && c != ';');
    }
    return false;
  }

  void StartSection(const std::string& name) {
    sections_->emplace_back();
    sections_->back().where = name + " in " + source_;
  }

  Status TakeSection() {
    const size_t begin = at_;
    std::string path;
    std::string family = "*";
    Status s = TakeBrackets(&path);
    if (s.ok() && at_ < text_.size() && text_[at_] == '[') s = TakeBrackets(&family);
    if (!s.ok()) return s;
    StartSection(text_.substr(begin, at_ - begin));
    if (path.empty() || family.empty() || (path[0] != '/' && path[0] != '*')) {
      return Status::InvalidArgument(sections_->back().where,
                                     "a section is [PATH] or [PATH][COLUMN FAMILY], and a path begins with / or *");
    }
    if (MatchesNothing(path)) {
      return Status::InvalidArgument(sections_->back().where,
                                     "no database's path is like that: it has no / at its end, and no //, /./ or /../");
    }
    sections_->back().path = path;
    sections_->back().family = family;
    return s;
  }

  Status TakeBrackets(std::string* content) {
    const size_t end = text_.find_first_of("]\n", at_);
    if (end == std::string::npos || text_[end] == '\n') {
      return Status::InvalidArgument(source_, "the section " + text_.substr(at_, 80) + " has no ]");
    }
    *content = text_.substr(at_ + 1, end - at_ - 1);
    at_ = end + 1;
    return Status::OK();
  }

  // Up to a semicolon or the line's end, outside braces.
  Status TakeOption() {
    const size_t begin = at_;
    int depth = 0;
    for (; at_ < text_.size(); ++at_) {
      const char c = text_[at_];
      if (c == '{') ++depth;
      if (c == '}') --depth;
      if (depth <= 0 && (c == ';' || c == '\n')) break;
    }
    const std::string written = Trimmed(text_.substr(begin, at_ - begin));
    const size_t equals = written.find('=');
    Section* const section = &sections_->back();
    if (equals == std::string::npos || depth != 0) {
      return Status::InvalidArgument(
          section->where, "\"" + written + "\" is " + (depth != 0 ? "without its closing brace" : "no OPTION=VALUE"));
    }
    std::string option = Trimmed(written.substr(0, equals));
    Setting setting;
    setting.value = Trimmed(written.substr(equals + 1));
    setting.where = section->where;
    Status s = option == kEngine ? TakeEngine(&option, &setting.value) : Status::OK();
    if (s.ok()) {
      s = option == kCache ? TakeCache(*section, setting.value, &setting.cache)
                           : ParseOption(option, setting.value, &setting.parsed);
    }
    if (!s.ok()) return Status::InvalidArgument(section->where, "\"" + written + "\": " + StateOf(s));
    section->settings[option] = std::move(setting);
    return s;
  }

  // An engine becomes the option that its row names.
  static Status TakeEngine(std::string* option, std::string* value) {
    std::string allowed;
    for (const EngineRow& row : EngineTable()) {
      if (row.environment == nullptr) continue;
      const std::string text = row.environment;
      const size_t equals = text.find('=');
      if (*value == row.name) {
        *option = text.substr(0, equals);
        *value = text.substr(equals + 1);
        return Status::OK();
      }
      allowed += (allowed.empty() ? "" : ", ") + std::string(row.name);
    }
    return Status::InvalidArgument("the environment may give the engines " + allowed,
                                   "a program asks for others by its own options");
  }

  static Status TakeCache(const Section& section, const std::string& value, DatabaseCacheOptions* cache) {
    uint64_t bytes = 0;
    if ((value.empty() || value.front() != '{') && !ParseNumber(value, &bytes)) {
      return Status::InvalidArgument("it may be a number of bytes, with K, M or G behind it, or {OPTION=VALUE;...}");
    }
    if (section.family != "*") {
      return Status::InvalidArgument(
          "a result cache is of a whole database; say it in a section [PATH], with "
          "column_families=NAME,NAME in its options");
    }
    return ParseDatabaseCacheOptions(value, cache);
  }

  const std::string& source_;
  const std::string& text_;
  std::vector<Section>* const sections_;
  size_t at_ = 0;
};

Status EnvironmentOptions::Append(const std::string& source, const std::string& text, std::vector<Section>* sections) {
  return Parser(source, text, sections).Run();
}

std::shared_ptr<EnvironmentOptions> EnvironmentOptions::ForPath(const std::vector<Section>& sections,
                                                                const std::string& path) {
  const std::string absolute = Absolute(path);
  auto result = std::make_shared<EnvironmentOptions>();
  for (const Section& section : sections) {
    if (!section.settings.empty() && Matches(section.path, absolute)) result->sections_.push_back(section);
  }
  return result->sections_.empty() ? nullptr : result;
}

Status EnvironmentOptions::FromText(const std::string& source, const std::string& text, const std::string& path,
                                    std::shared_ptr<EnvironmentOptions>* options) {
  options->reset();
  std::vector<Section> sections;
  const Status s = Append(source, text, &sections);
  if (s.ok()) *options = ForPath(sections, path);
  return s;
}

Status EnvironmentOptions::FromEnvironment(const std::string& path, std::shared_ptr<EnvironmentOptions>* options) {
  options->reset();
  const char* const file = secure_getenv(kFile);
  const char* const text = secure_getenv(kText);
  std::vector<Section> sections;
  Status s;
  if (file != nullptr && *file != '\0') {
    std::string content;
    s = ReadFile(file, &content);
    if (s.ok()) s = Append(file, content, &sections);
  }
  if (s.ok() && text != nullptr) s = Append(kText, text, &sections);
  if (s.ok() && !sections.empty()) *options = ForPath(sections, path);
  return s;
}

Status EnvironmentOptions::Change(const std::string& option, const Setting& setting,
                                  ColumnFamilyOptions* options) const {
  if (option == kTables) return UseOrderedTables(setting.value, options);
  CopyNumber(option, setting.parsed, options);
  if (option != kMemTables) return Status::OK();
  // RocksDB would refuse them, too, and not say who asked for them.
  if (duplicate_keys_ && !setting.parsed.memtable_factory->CanHandleDuplicatedKey()) {
    return Status::NotSupported(
        "its transactions (write policy WRITE_PREPARED or WRITE_UNPREPARED) need memtables that take a key twice under "
        "one sequence number, as skip_list does; say [PATH]memtable_factory=skip_list of the database in a later "
        "section");
  }
  options->memtable_factory = setting.parsed.memtable_factory;
  return Status::OK();
}

Status EnvironmentOptions::Apply(ColumnFamilyDescriptor* family) {
  std::map<std::string, const Setting*> settings;
  for (const Section& section : sections_) {
    if (!Matches(section.family, family->name)) continue;
    for (const auto& [option, setting] : section.settings) {
      if (option != kCache) settings[option] = &setting;
    }
  }
  if (settings.empty()) return Status::OK();
  std::string line = "column family " + family->name + ": ";
  if (UsesCairn(family->options)) {
    line += "keeps the options that the program gave, which use parts of Cairn";
  } else {
    ColumnFamilyOptions changed = family->options;
    for (const auto& [option, setting] : settings) {
      const Status s = Change(option, *setting, &changed);
      if (!s.ok()) {
        return Status::NotSupported(
            option + "=" + setting->value + " (" + setting->where + ") of column family " + family->name,
            StateOf(s) + (option == kMemTables ? ", or" : ";") +
                " leave the column family out of the section, [PATH][COLUMN FAMILY]");
      }
      line += option + "=" + setting->value + " (" + setting->where + ") ";
    }
    line.pop_back();
    family->options = changed;
  }
  const MutexLock guard(&mutex_);
  lines_[family->name] = line;
  unlogged_.push_back(std::move(line));
  return Status::OK();
}

Status EnvironmentOptions::Apply(std::vector<ColumnFamilyDescriptor>* families) {
  Status s;
  for (size_t i = 0; s.ok() && i < families->size(); ++i) s = Apply(&(*families)[i]);
  return s;
}

DatabaseCacheOptions EnvironmentOptions::result_cache() const {
  DatabaseCacheOptions cache;
  cache.capacity = 0;
  for (const Section& section : sections_) {
    const auto found = section.settings.find(kCache);
    if (found != section.settings.end()) cache = found->second.cache;
  }
  return cache;
}

std::string EnvironmentOptions::Describe(const std::string& family) const {
  const MutexLock guard(&mutex_);
  const auto found = lines_.find(family);
  return found == lines_.end() ? "" : found->second;
}

Status EnvironmentOptions::ApplyToNew(ColumnFamilyDescriptor* family) {
  return opened_.load(std::memory_order_acquire) ? Apply(family) : Status::OK();
}

void EnvironmentOptions::NoteOpened(rocksdb::Logger* log) {
  LogTo(log);
  opened_.store(true, std::memory_order_release);
}

void EnvironmentOptions::LogTo(rocksdb::Logger* log) {
  std::vector<std::string> lines;
  {
    const MutexLock guard(&mutex_);
    lines.swap(unlogged_);
  }
  if (log == nullptr || lines.empty()) return;
  for (const std::string& line : lines) WriteLine(log, "Cairn, options of the environment: %s", line.c_str());
  log->Flush();
}

}  // namespace cairn
