// The statistics of a trie as text.

#include <cinttypes>
#include <nlohmann/json.hpp>

#include "cairn/db.h"
#include "util/stats_text.h"

namespace cairn {

namespace {

// Empty if there are none.
std::string FiltersToLine(const TrieStats& stats) {
  uint64_t bytes = 0, memory = 0;
  std::string by_pages;
  for (const TrieDepthStats& depth : stats.depths) {
    bytes += depth.filter_bytes;
    memory += depth.filter_memory_bytes;
    if (depth.filter_bytes > 0 && depth.filters_in_memory < depth.files) by_pages += FormatText(" %d", depth.depth);
  }
  if (bytes == 0) return "";
  std::string line =
      FormatText("filters: %s in files, %s in memory", BytesText(bytes).c_str(), BytesText(memory).c_str());
  if (!by_pages.empty()) line += ", by pages at depth" + by_pages;
  const uint64_t pages = stats.filter_pages_read + stats.filter_pages_cached;
  if (pages > 0) {
    line += FormatText(" (%.1f%% of %" PRIu64 " pages found in the block cache)",
                       100 * static_cast<double>(stats.filter_pages_cached) / static_cast<double>(pages), pages);
  }
  return line + "\n";
}

}  // namespace

std::string TrieStatsToTable(const TrieStats& stats) {
  std::string table = FormatText("trie %s\n", stats.column_family.c_str());
  table += "depth  containers  slots    files        bytes    live  pending  pending bytes      written\n";
  for (const TrieDepthStats& depth : stats.depths) {
    const double live =
        depth.bytes == 0 ? 0 : 100 * static_cast<double>(depth.live_bytes) / static_cast<double>(depth.bytes);
    table += FormatText("%5d %8d %3d-%-3d %7" PRIu64 " %12s %6.1f%% %8" PRIu64 " %14s %12s\n", depth.depth,
                        depth.containers, depth.slots_min, depth.slots_max, depth.files, BytesText(depth.bytes).c_str(),
                        live, depth.pending_containers, BytesText(depth.pending_bytes).c_str(),
                        BytesText(depth.written_bytes).c_str());
  }
  table += FormatText("the root is compacted at %d files\n", stats.root_due_files);
  table += FormatText("space: %s for %s live, %.2f times (bound %.2f)\n", BytesText(stats.bytes).c_str(),
                      BytesText(stats.live_bytes).c_str(), stats.space_amplification, stats.space_bound);
  table += FiltersToLine(stats);
  table += FormatText("written since creation: %s flushed, %s compacted, write amplification %.2f\n",
                      BytesText(stats.flushed_bytes).c_str(), BytesText(stats.compacted_bytes).c_str(),
                      stats.write_amplification);
  if (stats.ect_files > 0) {
    table +=
        FormatText("tables with an ECT index: %" PRIu64 " files, %s, %" PRIu64 " keys, %.2f bits per key in memory\n",
                   stats.ect_files, BytesText(stats.ect_bytes).c_str(), stats.ect_keys,
                   8.0 * static_cast<double>(stats.ect_memory_bytes) / static_cast<double>(stats.ect_keys));
  }
  table +=
      FormatText("compactions since open: %" PRIu64 " root, %" PRIu64 " push, %" PRIu64 " merge, %" PRIu64
                 " split, %" PRIu64 " failed, %" PRIu64 " running; picking took %.3f s\n",
                 stats.root_compactions, stats.push_compactions, stats.merge_compactions, stats.split_compactions,
                 stats.failed_compactions, stats.running_compactions, static_cast<double>(stats.pick_micros) * 1e-6);
  if (stats.moved_tables > 0)
    table += FormatText("tables moved unwritten since open: %" PRIu64 "\n", stats.moved_tables);
  if (stats.scan_merges > 0) {
    table += FormatText("merges because of scans since open: %" PRIu64 ", %s written\n", stats.scan_merges,
                        BytesText(stats.scan_merged_bytes).c_str());
  }
  if (stats.age_compactions > 0) {
    table += FormatText("compactions because of age since open: %" PRIu64 ", %s written\n", stats.age_compactions,
                        BytesText(stats.age_compacted_bytes).c_str());
  }
  if (stats.dropped_tables > 0) {
    table +=
        FormatText("tables that DeleteRange covered, dropped unread since open: %" PRIu64 "\n", stats.dropped_tables);
  }
  if (stats.delayed_write_rate > 0) {
    table += FormatText("writers are held to %s a second until compaction has caught up\n",
                        BytesText(stats.delayed_write_rate).c_str());
  }
  if (!stats.last_error.empty()) table += "last error: " + stats.last_error + "\n";
  return table;
}

std::string TrieStatsToJson(const TrieStats& stats) {
  nlohmann::ordered_json depths = nlohmann::ordered_json::array();
  for (const TrieDepthStats& depth : stats.depths) {
    depths.push_back({{"depth", depth.depth},
                      {"containers", depth.containers},
                      {"slots_min", depth.slots_min},
                      {"slots_max", depth.slots_max},
                      {"files", depth.files},
                      {"bytes", depth.bytes},
                      {"live_bytes", depth.live_bytes},
                      {"pending_containers", depth.pending_containers},
                      {"pending_bytes", depth.pending_bytes},
                      {"written_bytes", depth.written_bytes},
                      {"filter_bytes", depth.filter_bytes},
                      {"filter_memory_bytes", depth.filter_memory_bytes},
                      {"filters_in_memory", depth.filters_in_memory}});
  }
  const nlohmann::ordered_json json = {{"column_family", stats.column_family},
                                       {"depths", depths},
                                       {"root_due_files", stats.root_due_files},
                                       {"bytes", stats.bytes},
                                       {"live_bytes", stats.live_bytes},
                                       {"space_amplification", stats.space_amplification},
                                       {"space_bound", stats.space_bound},
                                       {"flushed_bytes", stats.flushed_bytes},
                                       {"compacted_bytes", stats.compacted_bytes},
                                       {"write_amplification", stats.write_amplification},
                                       {"ect_files", stats.ect_files},
                                       {"ect_keys", stats.ect_keys},
                                       {"ect_bytes", stats.ect_bytes},
                                       {"ect_memory_bytes", stats.ect_memory_bytes},
                                       {"filter_pages_read", stats.filter_pages_read},
                                       {"filter_pages_cached", stats.filter_pages_cached},
                                       {"running_compactions", stats.running_compactions},
                                       {"root_compactions", stats.root_compactions},
                                       {"push_compactions", stats.push_compactions},
                                       {"merge_compactions", stats.merge_compactions},
                                       {"split_compactions", stats.split_compactions},
                                       {"failed_compactions", stats.failed_compactions},
                                       {"moved_tables", stats.moved_tables},
                                       {"dropped_tables", stats.dropped_tables},
                                       {"age_compactions", stats.age_compactions},
                                       {"age_compacted_bytes", stats.age_compacted_bytes},
                                       {"scan_merges", stats.scan_merges},
                                       {"scan_merged_bytes", stats.scan_merged_bytes},
                                       {"delayed_write_rate", stats.delayed_write_rate},
                                       {"pick_micros", stats.pick_micros},
                                       {"last_error", stats.last_error}};
  return json.dump(2, ' ', false, nlohmann::json::error_handler_t::replace);
}

}  // namespace cairn
