#include "tools/status/status_json.h"

#include <cmath>
#include <cstdio>
#include <nlohmann/json.hpp>
#include <utility>
#include <vector>

namespace cairn {
namespace {

using Labels = std::vector<std::pair<std::string, std::string>>;

// A label's value in quotes. JSON escapes the same three; other control characters have no escape here.
std::string LabelText(std::string value) {
  for (char& c : value) {
    if (static_cast<unsigned char>(c) < 0x20 && c != '\n') c = '?';
  }
  return nlohmann::json(value).dump(-1, ' ', false, nlohmann::json::error_handler_t::replace);
}

std::string NumberText(double value) {
  if (std::isnan(value)) return "NaN";
  if (std::isinf(value)) return value > 0 ? "+Inf" : "-Inf";
  char text[40];
  const bool whole = value == std::floor(value) && std::abs(value) < 1e15;
  snprintf(text, sizeof(text), whole ? "%.0f" : "%.9g", value);
  return text;
}

// One metric: its HELP and TYPE lines stand before its first sample, once.
class Metric {
 public:
  Metric(std::string* out, std::string name, const char* type, const std::string& help)
      : out_(out), name_(std::move(name)), type_(type), help_(help) {}

  template <class Number>
  void Add(const Labels& labels, Number value, const char* suffix = "") {
    if (!begun_) *out_ += "# HELP " + name_ + " " + help_ + "\n# TYPE " + name_ + " " + type_ + "\n";
    begun_ = true;
    *out_ += name_ + suffix;
    const char* separator = "{";
    for (const auto& [label, text] : labels) {
      *out_ += separator + label + "=" + LabelText(text);
      separator = ",";
    }
    *out_ += (labels.empty() ? " " : "} ") + NumberText(static_cast<double>(value)) + "\n";
  }

 private:
  std::string* const out_;
  const std::string name_;
  const char* const type_;
  const std::string help_;
  bool begun_ = false;
};

template <class T>
void AddOne(std::string* out, const char* name, const char* type, const char* help, const std::optional<T>& value) {
  if (value.has_value()) Metric(out, name, type, help).Add({}, *value);
}

// One sample for each family that `value` knows something of.
template <class Value>
void AddFamilies(std::string* out, const StatusSnapshot& snapshot, const char* name, const char* type, const char* help,
                 const Value& value) {
  Metric metric(out, name, type, help);
  for (const FamilyStatus& family : snapshot.families) {
    const std::optional<double> sample = value(family);
    if (sample.has_value()) metric.Add({{"column_family", family.name}}, *sample);
  }
}

struct NamedProperty {
  const char* property;
  const char* metric;
  const char* help;
};

const NamedProperty kFamilyGauges[] = {
    {"num-immutable-mem-table", "cairn_immutable_memtables", "Full memtables that wait for their flush."},
    {"cur-size-active-mem-table", "cairn_active_memtable_bytes", "Memory of the memtable that writers fill."},
    {"num-entries-active-mem-table", "cairn_active_memtable_entries", "Entries of the memtable that writers fill."},
    {"estimate-num-keys", "cairn_estimated_keys", "Keys, by RocksDB's estimate."},
    {"estimate-pending-compaction-bytes", "cairn_pending_compaction_bytes",
     "Bytes that compactions which are due will rewrite."},
    {"compaction-pending", "cairn_compaction_pending", "1 if a compaction is due."},
    {"mem-table-flush-pending", "cairn_flush_pending", "1 if a flush is due."},
    {"num-live-versions", "cairn_live_versions", "Versions that iterators and compactions hold."},
    {"num-blob-files", "cairn_blob_files", "Blob files."},
    {"live-blob-file-size", "cairn_blob_file_bytes", "Bytes of blob files."},
};
const NamedProperty kDatabaseGauges[] = {
    {"num-running-flushes", "cairn_running_flushes", "Flushes under way."},
    {"num-snapshots", "cairn_snapshots", "Snapshots that are held."},
};

std::optional<double> Find(const std::map<std::string, uint64_t>& properties, const char* name) {
  const auto found = properties.find(name);
  return found == properties.end() ? std::nullopt : std::optional<double>(static_cast<double>(found->second));
}

void AddWriters(std::string* out, const WriterTotals& writers) {
  const auto add = [out](const char* name, const char* help, auto value) {
    Metric(out, name, "counter", help).Add({}, value);
  };
  add("cairn_unqueued_writes_total", "Writes that did not go through RocksDB's queue.", writers.unqueued);
  add("cairn_write_waits_total", "Of these, those that waited for others to be published.", writers.waits);
  add("cairn_write_gate_closings_total", "Times that queued writes, flushes and others kept them out.",
      writers.gate_closings);
  add("cairn_write_gate_closed_seconds_total", "Time of that.", writers.gate_closed_seconds);
  Metric queued(out, "cairn_queued_writes_total", "counter", "Writes that went through the queue, by the reason.");
  for (const auto& [reason, count] : writers.queued) queued.Add({{"reason", reason}}, count);
}

void AddDatabase(std::string* out, const StatusSnapshot& snapshot) {
  Metric(out, "cairn_info", "gauge", "Always 1; the labels say which database this is and how it is seen.")
      .Add({{"database", snapshot.database},
            {"source", snapshot.source == StatusSource::kProcess ? "process" : "files"}},
           1);
  AddOne(out, "cairn_uptime_seconds", "gauge", "Time since the database was opened.", snapshot.uptime_seconds);
  AddOne(out, "cairn_open", "gauge", "1 if a process has the database open.", snapshot.open);
  AddOne(out, "cairn_put_bytes_total", "counter", "Bytes that writers put in since the database was opened.",
         snapshot.user_bytes);
  AddOne(out, "cairn_put_keys_total", "counter", "Keys that writers put in since the database was opened.",
         snapshot.user_keys);
  AddOne(out, "cairn_wal_bytes_total", "counter", "Bytes written to the WAL since the database was opened.",
         snapshot.wal_bytes);
  AddOne(out, "cairn_stall_seconds_total", "counter", "Time that writers were held up since the database was opened.",
         snapshot.stall_seconds);
  AddOne(out, "cairn_write_throttle_bytes_per_second", "gauge",
         "Rate that writers are held to at present; 0 if they are not.", snapshot.throttled_rate);
  AddOne(out, "cairn_writes_stopped", "gauge", "1 while writers wait until compactions catch up.",
         snapshot.writes_stopped);
  if (snapshot.writers.has_value()) AddWriters(out, *snapshot.writers);
  AddOne(out, "cairn_running_compactions", "gauge", "Compactions under way.", snapshot.running_compactions);
  for (const NamedProperty& gauge : kDatabaseGauges) {
    AddOne(out, gauge.metric, "gauge", gauge.help, Find(snapshot.properties, gauge.property));
  }
  AddOne(out, "cairn_background_errors_total", "counter", "Errors of flushes and compactions.",
         Find(snapshot.properties, "background-errors"));
  AddOne(out, "cairn_memory_bytes", "gauge",
         "Memory of memtables, table readers and block caches; a shared cache counts once.", MemoryOf(snapshot));
}

void AddEachFamily(std::string* out, const StatusSnapshot& snapshot) {
  using Value = std::optional<double>;
  Metric info(out, "cairn_column_family_info", "gauge", "Always 1; the labels say what the column family is made of.");
  for (const FamilyStatus& family : snapshot.families) {
    info.Add({{"column_family", family.name},
              {"engine", family.engine},
              {"memtable", family.memtable},
              {"table", family.table}},
             1);
  }
  const auto add = [&](const char* name, const char* type, const char* help, const auto& value) {
    AddFamilies(out, snapshot, name, type, help, value);
  };
  add("cairn_table_files", "gauge", "Tables.", [](const FamilyStatus& f) { return Value(f.picture.files); });
  add("cairn_table_bytes", "gauge", "Bytes of tables.", [](const FamilyStatus& f) { return Value(f.picture.bytes); });
  add("cairn_compacting_files", "gauge", "Tables that are being compacted.",
      [](const FamilyStatus& f) { return Value(f.picture.compacting_files); });
  add("cairn_compacting_bytes", "gauge", "Bytes of tables that are being compacted.",
      [](const FamilyStatus& f) { return Value(f.picture.compacting_bytes); });
  add("cairn_live_bytes", "gauge", "Bytes of live data, estimated.", [](const FamilyStatus& f) {
    if (f.trie.has_value()) return Value(f.trie->live_bytes);
    return Find(f.properties, "estimate-live-data-size");
  });
  add("cairn_space_amplification_ratio", "gauge", "Bytes of tables per byte of live data, estimated.",
      [](const FamilyStatus& f) { return f.space_amplification; });
  add("cairn_write_amplification_ratio", "gauge",
      "Bytes written by flushes and compactions per byte flushed: of tries and SILT stores since their creation, of "
      "others since the database was opened.",
      [](const FamilyStatus& f) { return f.write_amplification; });
  const auto total = [](uint64_t FamilyTotals::*field) {
    return [field](const FamilyStatus& f) { return f.totals.has_value() ? Value((*f.totals).*field) : Value(); };
  };
  add("cairn_flushed_bytes_total", "counter", "Bytes written by flushes and ingestion.",
      total(&FamilyTotals::flushed_bytes));
  add("cairn_compaction_read_bytes_total", "counter", "Bytes read by compactions.",
      total(&FamilyTotals::compaction_read_bytes));
  add("cairn_compaction_written_bytes_total", "counter", "Bytes written by compactions.",
      total(&FamilyTotals::compaction_written_bytes));
  const auto memory = [](uint64_t FamilyMemory::*field) {
    return [field](const FamilyStatus& f) { return f.memory.has_value() ? Value((*f.memory).*field) : Value(); };
  };
  add("cairn_memtable_bytes", "gauge", "Memory of memtables.", memory(&FamilyMemory::memtables));
  add("cairn_table_reader_bytes", "gauge", "Memory of indexes and filters outside of the block cache.",
      memory(&FamilyMemory::table_readers));
  add("cairn_block_cache_bytes", "gauge", "Memory of the family's block cache, which others may share.",
      memory(&FamilyMemory::block_cache));
  add("cairn_block_cache_pinned_bytes", "gauge", "Memory of the block cache that cannot be evicted.",
      memory(&FamilyMemory::block_cache_pinned));
  add("cairn_block_cache_capacity_bytes", "gauge", "Bound of the block cache.",
      memory(&FamilyMemory::block_cache_capacity));
  for (const NamedProperty& gauge : kFamilyGauges) {
    add(gauge.metric, "gauge", gauge.help, [&](const FamilyStatus& f) { return Find(f.properties, gauge.property); });
  }
}

void AddLevels(std::string* out, const StatusSnapshot& snapshot) {
  std::string files_text;
  Metric bytes(out, "cairn_level_bytes", "gauge", "Bytes of tables of a level.");
  Metric files(&files_text, "cairn_level_files", "gauge", "Tables of a level.");
  for (const FamilyStatus& family : snapshot.families) {
    std::map<int, std::pair<uint64_t, uint64_t>> levels;
    for (const PictureRun& run : family.picture.runs) {
      levels[run.level].first += run.bytes;
      levels[run.level].second += run.files;
    }
    for (const auto& [level, sum] : levels) {
      const Labels labels = {{"column_family", family.name}, {"level", std::to_string(level)}};
      bytes.Add(labels, sum.first);
      files.Add(labels, sum.second);
    }
  }
  *out += files_text;
}

void AddTries(std::string* out, const StatusSnapshot& snapshot) {
  const auto add = [&](const char* name, const char* help, auto TrieDepthStats::*field) {
    Metric metric(out, name, "gauge", help);
    for (const FamilyStatus& family : snapshot.families) {
      if (!family.trie.has_value()) continue;
      for (const TrieDepthStats& depth : family.trie->depths) {
        metric.Add({{"column_family", family.name}, {"depth", std::to_string(depth.depth)}}, depth.*field);
      }
    }
  };
  add("cairn_trie_depth_bytes", "Bytes of tables of a depth; depth 0 is the root.", &TrieDepthStats::bytes);
  add("cairn_trie_depth_live_bytes", "Bytes of live data of a depth, estimated.", &TrieDepthStats::live_bytes);
  add("cairn_trie_depth_files", "Tables of a depth.", &TrieDepthStats::files);
  add("cairn_trie_depth_containers", "Containers of a depth that hold tables.", &TrieDepthStats::containers);
  add("cairn_trie_depth_slots", "Occupied slots of the fullest container of a depth.", &TrieDepthStats::slots_max);
  add("cairn_trie_depth_pending_containers", "Full containers of a depth that wait for a compaction.",
      &TrieDepthStats::pending_containers);
  add("cairn_trie_depth_filter_bytes", "Bytes of filters in the tables of a depth.", &TrieDepthStats::filter_bytes);
  add("cairn_trie_depth_filter_memory_bytes", "Bytes of filters of a depth that are in memory.",
      &TrieDepthStats::filter_memory_bytes);
  Metric compactions(out, "cairn_trie_compactions_total", "counter",
                     "Compactions of tries since the database was opened, by kind.");
  for (const FamilyStatus& family : snapshot.families) {
    if (!family.trie.has_value() || snapshot.source == StatusSource::kFiles) continue;
    const std::pair<const char*, uint64_t> kinds[] = {{"root", family.trie->root_compactions},
                                                      {"push_down", family.trie->push_compactions},
                                                      {"merge_in_place", family.trie->merge_compactions},
                                                      {"split", family.trie->split_compactions},
                                                      {"failed", family.trie->failed_compactions}};
    for (const auto& [kind, count] : kinds) {
      compactions.Add({{"column_family", family.name}, {"kind", kind}}, count);
    }
  }
}

// The tuner's belief; its reasons are text and stand in the JSON.
void AddTuners(std::string* out, const StatusSnapshot& snapshot) {
  using Value = std::optional<double>;
  const auto add = [&](const char* name, const char* type, const char* help, auto TunerReport::*field) {
    AddFamilies(out, snapshot, name, type, help,
                [field](const FamilyStatus& f) { return f.tuner.has_value() ? Value((*f.tuner).*field) : Value(); });
  };
  add("cairn_tuner_measured_write_amplification_ratio", "gauge",
      "Bytes written per byte flushed in the tuner's last window.", &TunerReport::measured);
  add("cairn_tuner_predicted_write_amplification_ratio", "gauge",
      "What the tuner's model predicts for the level sizes as they are.", &TunerReport::predicted);
  add("cairn_tuner_best_write_amplification_ratio", "gauge",
      "What the tuner's model predicts for the best level sizes.", &TunerReport::predicted_best);
  add("cairn_tuner_changes_total", "counter", "Level sizes that the tuner has set.", &TunerReport::changes);
  add("cairn_tuner_rollbacks_total", "counter", "Level sizes that the tuner has taken back.", &TunerReport::rollbacks);
}

// "rocksdb.db.get.micros" is "rocksdb_db_get_seconds", with *unit = 1e-6.
std::string StatisticName(const std::string& name, double* unit) {
  std::string result;
  for (const char c : name) {
    const bool plain = (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') || c == '_';
    result += plain ? c : '_';
  }
  *unit = 1;
  static const std::pair<std::string, double> kUnits[] = {{"micros", 1e-6}, {"nanos", 1e-9}, {"millis", 1e-3}};
  for (const auto& [end, seconds] : kUnits) {
    if (!rocksdb::Slice(result).ends_with(end)) continue;
    result.resize(result.size() - end.size());
    result += "seconds";
    *unit = seconds;
  }
  return result;
}

void AddStatistics(std::string* out, const StatusSnapshot& snapshot) {
  if (!snapshot.tickers.has_value()) return;
  for (const auto& [name, count] : *snapshot.tickers) {
    double unit = 1;
    const std::string metric = StatisticName(name, &unit) + "_total";
    Metric(out, metric, "counter", "RocksDB's ticker " + name + ".").Add({}, static_cast<double>(count) * unit);
  }
  for (const auto& [name, histogram] : snapshot.histograms) {
    double unit = 1;
    Metric summary(out, StatisticName(name, &unit), "summary", "RocksDB's histogram " + name + ".");
    summary.Add({{"quantile", "0.5"}}, histogram.median * unit);
    summary.Add({{"quantile", "0.95"}}, histogram.percentile95 * unit);
    summary.Add({{"quantile", "0.99"}}, histogram.percentile99 * unit);
    summary.Add({}, histogram.sum * unit, "_sum");
    summary.Add({}, histogram.count, "_count");
  }
}

}  // namespace

std::string StatusToMetrics(const StatusSnapshot& snapshot) {
  std::string out;
  AddDatabase(&out, snapshot);
  AddEachFamily(&out, snapshot);
  AddLevels(&out, snapshot);
  AddTries(&out, snapshot);
  AddTuners(&out, snapshot);
  AddStatistics(&out, snapshot);
  return out;
}

}  // namespace cairn
