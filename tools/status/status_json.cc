#include "tools/status/status_json.h"

#include <cmath>
#include <nlohmann/json.hpp>

namespace cairn {
namespace {

using Json = nlohmann::ordered_json;

template <class T>
Json OrNull(const std::optional<T>& value) {
  return value.has_value() ? Json(*value) : Json(nullptr);
}

// Six digits are more than the eye sees, and keep the document small.
Json Rounded(std::optional<double> value) {
  if (!value.has_value() || !std::isfinite(*value)) return nullptr;
  if (std::abs(*value) >= 1000) return std::round(*value);
  return std::round(*value * 1000) / 1000;
}

Json DepthToJson(const PictureDepth& picture, const std::optional<TrieStats>& stats) {
  Json cells = Json::array();
  for (const PictureCell& cell : picture.filled) {
    cells.push_back({cell.index, cell.containers, cell.slots, cell.files, cell.bytes, cell.compacting_files});
  }
  Json depth = {{"depth", picture.depth},
                {"places", picture.places},
                {"containers", picture.containers},
                {"slots_min", picture.slots_min},
                {"slots_max", picture.slots_max},
                {"full_slots", picture.full_slots},
                {"max_slots", picture.max_slots},
                {"files", picture.files},
                {"bytes", picture.bytes},
                {"live_share", nullptr},
                {"pending_containers", nullptr},
                {"cells", picture.cells},
                {"filled", cells}};
  // The estimate may be some seconds older than the picture: a share of both, and no bytes, so that they fit together.
  const auto index = static_cast<size_t>(picture.depth);
  if (!stats.has_value() || index >= stats->depths.size()) return depth;
  const TrieDepthStats& known = stats->depths[index];
  if (known.bytes > 0) {
    depth["live_share"] = Rounded(static_cast<double>(known.live_bytes) / static_cast<double>(known.bytes));
  }
  depth["pending_containers"] = known.pending_containers;
  return depth;
}

Json RunsToJson(const Picture& picture) {
  Json runs = Json::array();
  for (const PictureRun& run : picture.runs) {
    runs.push_back({{"level", run.level},
                    {"file", run.file_number},
                    {"files", run.files},
                    {"bytes", run.bytes},
                    {"compacting_files", run.compacting_files},
                    {"compacting_bytes", run.compacting_bytes}});
  }
  return runs;
}

Json TrieToJson(const FamilyStatus& family) {
  if (!family.trie.has_value()) return nullptr;
  const TrieStats& trie = *family.trie;
  return {{"live_bytes", trie.live_bytes},
          {"space_bound", trie.space_bound},
          {"flushed_bytes", trie.flushed_bytes},
          {"compacted_bytes", trie.compacted_bytes},
          {"running_compactions", trie.running_compactions},
          {"compactions",
           {{"root", trie.root_compactions},
            {"push_down", trie.push_compactions},
            {"merge_in_place", trie.merge_compactions},
            {"split", trie.split_compactions},
            {"failed", trie.failed_compactions}}},
          {"moved_tables", trie.moved_tables},
          {"age_compactions", trie.age_compactions},
          {"age_compacted_bytes", trie.age_compacted_bytes},
          {"scan_merges", trie.scan_merges},
          {"scan_merged_bytes", trie.scan_merged_bytes},
          {"write_throttle_bytes_per_second", trie.delayed_write_rate},
          {"described_tables", family.described_tables},
          {"last_error", trie.last_error}};
}

Json SiltToJson(const std::optional<SiltStats>& silt) {
  if (!silt.has_value()) return nullptr;
  return {{"hash_stores", silt->hash_stores.files},
          {"hash_store_bytes", silt->hash_stores.bytes},
          {"sorted_store_bytes", silt->sorted_store.bytes},
          {"flushed_bytes", silt->flushed_bytes},
          {"compacted_bytes", silt->compacted_bytes},
          {"resident_bytes", silt->resident_bytes},
          {"lookups", silt->lookups},
          {"blocks_read", silt->blocks_read}};
}

Json OrderedToJson(const std::optional<OrderedStats>& ordered) {
  if (!ordered.has_value()) return nullptr;
  return {{"runs", ordered->runs},
          {"filter_bytes", ordered->filter_bytes},
          {"filter_error", Rounded(ordered->filter_error)},
          {"seeks_saved", ordered->seeks.saved()}};
}

Json MemoryToJson(const FamilyStatus& family) {
  if (!family.memory.has_value()) return nullptr;
  const FamilyMemory& memory = *family.memory;
  Json json = {{"memtable_bytes", memory.memtables},
               {"table_reader_bytes", memory.table_readers},
               {"block_cache_bytes", memory.block_cache},
               {"block_cache_capacity_bytes", memory.block_cache_capacity},
               {"block_cache_pinned_bytes", memory.block_cache_pinned}};
  if (family.sub_memtable.has_value()) {
    json["memtable_pool_bytes"] = family.sub_memtable->claimed_bytes + family.sub_memtable->free_bytes;
    json["memtable_pool"] = family.sub_memtable->backing;
  }
  return json;
}

Json TunerToJson(const FamilyStatus& family) {
  if (!family.tuner.has_value() && family.tuner_log.empty()) return nullptr;
  Json json = {{"log", family.tuner_log}};
  if (!family.tuner.has_value()) return json;
  const TunerReport& report = *family.tuner;
  json["measured"] = Rounded(report.measured);
  json["predicted"] = Rounded(report.predicted);
  json["predicted_untuned"] = Rounded(report.predicted_untuned);
  json["predicted_best"] = Rounded(report.predicted_best);
  json["keys"] = Rounded(report.keys);
  json["item_bytes"] = Rounded(report.item_bytes);
  json["skew"] = Rounded(report.skew);
  json["looks"] = report.looks;
  json["changes"] = report.changes;
  json["rollbacks"] = report.rollbacks;
  json["returns"] = report.returns;
  json["failures"] = report.failures;
  return json;
}

Json FamilyToJson(const FamilyStatus& family) {
  Json json = {{"name", family.name},
               {"engine", family.engine},
               {"memtable", family.memtable},
               {"table", family.table},
               {"files", family.picture.files},
               {"bytes", family.picture.bytes},
               {"compacting_files", family.picture.compacting_files},
               {"compacting_bytes", family.picture.compacting_bytes},
               {"spanning_files", family.picture.spanning_files},
               {"space_amplification", Rounded(family.space_amplification)},
               {"write_amplification", Rounded(family.write_amplification)}};
  if (family.totals.has_value()) {
    json["totals"] = {{"flushed_bytes", family.totals->flushed_bytes},
                      {"compaction_read_bytes", family.totals->compaction_read_bytes},
                      {"compaction_written_bytes", family.totals->compaction_written_bytes}};
  } else {
    json["totals"] = nullptr;
  }
  json["memory"] = MemoryToJson(family);
  if (family.picture.depths.empty()) {
    json["depths"] = nullptr;
    json["runs"] = RunsToJson(family.picture);
  } else {
    Json depths = Json::array();
    for (const PictureDepth& depth : family.picture.depths) depths.push_back(DepthToJson(depth, family.trie));
    json["depths"] = depths;
    json["runs"] = nullptr;
  }
  json["trie"] = TrieToJson(family);
  json["silt"] = SiltToJson(family.silt);
  json["ordered"] = OrderedToJson(family.ordered);
  json["tuner"] = TunerToJson(family);
  json["properties"] = family.properties;
  return json;
}

Json WritersToJson(const std::optional<WriterTotals>& writers) {
  if (!writers.has_value()) return nullptr;
  return {{"unqueued", writers->unqueued},
          {"waits", writers->waits},
          {"queued", writers->queued},
          {"gate_closings", writers->gate_closings},
          {"gate_closed_seconds", Rounded(writers->gate_closed_seconds)}};
}

Json RunningToJson(const StatusSnapshot& snapshot) {
  if (!snapshot.running.has_value()) return nullptr;
  Json list = Json::array();
  for (const RunningCompaction& job : *snapshot.running) {
    list.push_back({{"column_family", job.column_family},
                    {"reason", job.reason},
                    {"files", job.files},
                    {"bytes", job.bytes},
                    {"levels", job.levels},
                    {"started_at", Rounded(job.started_at)}});
  }
  return list;
}

struct Series {
  const char* name;
  std::optional<double> StatusSample::*value;
  bool is_counter;  // shown as what it grew by per second
};
constexpr Series kSeries[] = {{"put_bytes_per_second", &StatusSample::user_bytes, true},
                              {"put_keys_per_second", &StatusSample::user_keys, true},
                              {"get_keys_per_second", &StatusSample::keys_read, true},
                              {"flushed_bytes_per_second", &StatusSample::flushed_bytes, true},
                              {"compaction_read_bytes_per_second", &StatusSample::compaction_read_bytes, true},
                              {"compaction_written_bytes_per_second", &StatusSample::compaction_written_bytes, true},
                              {"bytes", &StatusSample::bytes, false},
                              {"memory_bytes", &StatusSample::memory_bytes, false},
                              {"write_amplification", &StatusSample::write_amplification, false},
                              {"space_amplification", &StatusSample::space_amplification, false}};

Json HistoryToJson(const History& history) {
  Json at = Json::array();
  for (const StatusSample& sample : history.samples()) at.push_back(std::round(sample.at * 10) / 10);
  Json json = {{"at", at}};
  for (const Series& series : kSeries) {
    Json values = Json::array();
    const StatusSample* before = nullptr;
    for (const StatusSample& sample : history.samples()) {
      std::optional<double> value = sample.*series.value;
      if (series.is_counter) {
        value = before == nullptr ? std::nullopt : RateOf(before->*series.value, value, sample.at - before->at);
      }
      values.push_back(Rounded(value));
      before = &sample;
    }
    json[series.name] = values;
  }
  return json;
}

}  // namespace

std::string StatusToJson(const StatusSnapshot& snapshot, const History& history) {
  Json json = {{"schema", kStatusSchema},
               {"at", std::round(snapshot.at * 1000) / 1000},
               {"database", snapshot.database},
               {"source", snapshot.source == StatusSource::kProcess ? "process" : "files"},
               {"not_seen", snapshot.not_seen},
               {"open", OrNull(snapshot.open)},
               {"process", OrNull(snapshot.process)},
               {"uptime_seconds", Rounded(snapshot.uptime_seconds)},
               {"bytes", BytesOf(snapshot)},
               {"memory_bytes", OrNull(MemoryOf(snapshot))},
               {"put_bytes", OrNull(snapshot.user_bytes)},
               {"put_keys", OrNull(snapshot.user_keys)},
               {"wal_bytes", OrNull(snapshot.wal_bytes)},
               {"stall_seconds", Rounded(snapshot.stall_seconds)},
               {"write_throttle_bytes_per_second", OrNull(snapshot.throttled_rate)},
               {"writes_stopped", OrNull(snapshot.writes_stopped)},
               {"writers", WritersToJson(snapshot.writers)},
               {"properties", snapshot.properties},
               {"running_compactions", OrNull(snapshot.running_compactions)},
               {"running", RunningToJson(snapshot)}};
  if (snapshot.stats_dump.has_value()) {
    json["stats_dump"] = {{"at", Rounded(snapshot.stats_dump->at)},
                          {"put_bytes_per_second", Rounded(snapshot.stats_dump->ingest_bytes_per_second)},
                          {"stall_percent", Rounded(snapshot.stats_dump->stall_percent)}};
  } else {
    json["stats_dump"] = nullptr;
  }
  Json families = Json::array();
  for (const FamilyStatus& family : snapshot.families) families.push_back(FamilyToJson(family));
  json["column_families"] = families;
  json["history"] = HistoryToJson(history);
  // Names and paths need not be UTF-8.
  return json.dump(-1, ' ', false, Json::error_handler_t::replace);
}

}  // namespace cairn
