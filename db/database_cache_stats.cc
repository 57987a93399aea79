#include <cinttypes>
#include <nlohmann/json.hpp>

#include "cairn/result_cache.h"
#include "db/cairn_db.h"
#include "util/stats_text.h"

namespace cairn {

using rocksdb::Status;

namespace {

double Percent(uint64_t part, uint64_t whole) {
  return whole == 0 ? 0 : 100.0 * static_cast<double>(part) / static_cast<double>(whole);
}

}  // namespace

Status GetDatabaseCacheStats(rocksdb::DB* db, DatabaseCacheStats* stats) {
  CairnDB* const ours = CairnDB::Of(db);
  DatabaseCache* const cache = ours == nullptr ? nullptr : ours->services()->cache();
  if (cache == nullptr) {
    return Status::NotFound("the database has no result cache", "cairn::UseResultCache asks for one");
  }
  *stats = cache->GetStats();
  return Status::OK();
}

std::string DatabaseCacheStatsToTable(const DatabaseCacheStats& stats) {
  const ResultCache::Statistics& cache = stats.cache;
  std::string table = FormatText("result cache: %s, %s of %s, %" PRIu64 " items of %s\n", stats.on ? "on" : "off",
                                 BytesText(cache.memory).c_str(), BytesText(cache.capacity).c_str(), cache.items,
                                 BytesText(cache.item_bytes).c_str());
  table += FormatText("reads: %" PRIu64 ", %.1f %% hits, %.1f %% hits of absent keys\n", stats.reads,
                      Percent(cache.hits, stats.reads), Percent(cache.absent_hits, stats.reads));
  table += FormatText("fills: %" PRIu64 ", %" PRIu64 " refused because a writer came between, %" PRIu64
                      " of keys not asked for of late; %" PRIu64 " evicted\n",
                      cache.puts, cache.refused_fills, cache.unadmitted_fills, cache.evictions);
  table += FormatText("writes: %" PRIu64 " keys, %" PRIu64 " answers removed, %" PRIu64
                      " changes of whole column families\n",
                      stats.barred_keys, cache.erases, stats.changes);
  table += FormatText("it saves %.0f ns a read; turned itself off %" PRIu64 " times; %" PRIu64
                      " hits compared with the tree, %" PRIu64 " wrong\n",
                      stats.saved_nanoseconds, stats.times_off, stats.checked_hits, stats.wrong_hits);
  return table;
}

std::string DatabaseCacheStatsToJson(const DatabaseCacheStats& stats) {
  const ResultCache::Statistics& cache = stats.cache;
  const nlohmann::ordered_json json = {{"on", stats.on},
                                       {"capacity", cache.capacity},
                                       {"memory", cache.memory},
                                       {"items", cache.items},
                                       {"item_bytes", cache.item_bytes},
                                       {"index_bytes", cache.index_bytes},
                                       {"reads", stats.reads},
                                       {"hits", cache.hits},
                                       {"absent_hits", cache.absent_hits},
                                       {"fills", cache.puts},
                                       {"refused_fills", cache.refused_fills},
                                       {"unadmitted_fills", cache.unadmitted_fills},
                                       {"evictions", cache.evictions},
                                       {"barred_keys", stats.barred_keys},
                                       {"erases", cache.erases},
                                       {"changes", stats.changes},
                                       {"saved_nanoseconds", stats.saved_nanoseconds},
                                       {"times_off", stats.times_off},
                                       {"checked_hits", stats.checked_hits},
                                       {"wrong_hits", stats.wrong_hits},
                                       {"z_hits", cache.z_hits},
                                       {"z_items", cache.z_items},
                                       {"z_bytes", cache.z_bytes}};
  return json.dump(2, ' ', false, nlohmann::json::error_handler_t::replace);
}

}  // namespace cairn
