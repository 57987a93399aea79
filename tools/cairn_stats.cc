// cairn stats: what the tries, SILT stores and ordered tables of a database hold.

#include <cairn/db.h>
#include <cairn/memtable.h>
#include <cairn/ordered.h>
#include <cairn/silt.h>
#include <cairn/trie.h>

#include <cstdio>
#include <nlohmann/json.hpp>

#include "tools/arguments.h"
#include "tools/commands.h"
#include "tools/database.h"
#include "tools/progress.h"
#include "util/rocksdb_names.h"

namespace cairn {
namespace {

// Names and paths need not be UTF-8.
std::string JsonText(const std::string& text) {
  return nlohmann::json(text).dump(-1, ' ', false, nlohmann::json::error_handler_t::replace);
}

struct Output {
  std::string table;
  std::string json;  // the objects of the column families, separated by commas
};

// Reads the statistics of one kind of column family and appends both texts of them.
template <class Stats, class Read, class ToTable, class ToJson>
Status Append(const Read& read, const ToTable& to_table, const ToJson& to_json, Output* output) {
  Stats stats;
  Status s = read(&stats);
  if (!s.ok()) return s;
  output->table += to_table(stats);
  output->json += to_json(stats);
  return s;
}

Status DescribeTrie(rocksdb::DB* db, rocksdb::ColumnFamilyHandle* handle, Output* output) {
  return Append<TrieStats>([=](TrieStats* stats) { return GetTrieStats(db, handle, stats); }, TrieStatsToTable,
                           TrieStatsToJson, output);
}

Status DescribeSilt(rocksdb::DB* db, rocksdb::ColumnFamilyHandle* handle, Output* output) {
  return Append<SiltStats>([=](SiltStats* stats) { return GetSiltStats(db, handle, stats); }, SiltStatsToTable,
                           SiltStatsToJson, output);
}

Status DescribeOrdered(rocksdb::DB* db, rocksdb::ColumnFamilyHandle* handle, Output* output) {
  const std::string name = handle->GetName();
  return Append<OrderedStats>([=](OrderedStats* stats) { return GetOrderedStats(db, handle, stats); },
                              [&](const OrderedStats& stats) { return OrderedStatsToTable(stats, name); },
                              [&](const OrderedStats& stats) { return OrderedStatsToJson(stats, name); }, output);
}

void DescribeOther(rocksdb::DB* db, rocksdb::ColumnFamilyHandle* handle, Output* output) {
  rocksdb::ColumnFamilyMetaData meta;
  db->GetColumnFamilyMetaData(handle, &meta);
  output->table += "column family " + handle->GetName() + ": no trie; " + std::to_string(meta.file_count) + " files, " +
                   ShortBytes(static_cast<double>(meta.size)) + "\n";
  output->json += "{\"column_family\":" + JsonText(handle->GetName()) +
                  ",\"engine\":\"stock\",\"files\":" + std::to_string(meta.file_count) +
                  ",\"bytes\":" + std::to_string(meta.size) + "}";
}

Status Describe(const Database& database, const std::vector<std::string>& names, Output* output) {
  std::vector<rocksdb::ColumnFamilyHandle*> handles;
  for (const std::string& name : names) {
    handles.push_back(database.Find(name));
    if (handles.back() == nullptr) return Status::NotFound("there is no column family \"" + name + "\"");
  }
  if (names.empty()) handles = database.families();
  for (rocksdb::ColumnFamilyHandle* handle : handles) {
    if (!output->json.empty()) {
      output->json += ",";
      output->table += "\n";
    }
    if (IsSilt(database.db()->GetOptions(handle), nullptr)) {
      Status s = DescribeSilt(database.db(), handle, output);
      if (!s.ok()) return s;
    } else if (IsTrie(database.db()->GetOptions(handle))) {
      Status s = DescribeTrie(database.db(), handle, output);
      if (!s.ok()) return s;
      // Of a trie in key order the order filters, too; its JSON stays one object.
      OrderedStats ordered;
      if (GetOrderedStats(database.db(), handle, &ordered).ok()) {
        output->table += OrderedStatsToTable(ordered, handle->GetName());
      }
    } else if (IsOrdered(database.db()->GetOptions(handle))) {
      Status s = DescribeOrdered(database.db(), handle, output);
      if (!s.ok()) return s;
    } else {
      DescribeOther(database.db(), handle, output);
    }
    SubMemTableStats memtable;
    if (GetSubMemTableStats(*database.db()->GetOptions(handle).memtable_factory, &memtable).ok()) {
      output->table += SubMemTableStatsToTable(memtable);
    }
  }
  return Status::OK();
}

int RunStats(int argc, char** argv) {
  std::string path;
  std::vector<std::string> names;
  bool json = false;
  Arguments arguments(
      "stats",
      "Prints for each depth of each trie: containers, slots, files, bytes, live share and pending work,\n"
      "and the write amplification since creation; for each SILT store its two levels, and memory, reads and\n"
      "writes as the model predicts them and as measured; for ordered tables their runs and order filters. Only reads, "
      "and works while another process has the\n"
      "database open; what that process counts since it opened the database is not seen then.");
  arguments.Positional("DB", &path, "the database's directory");
  arguments.Texts("column-family", &names, "NAME", "this column family only");
  arguments.Switch("json", &json, "prints JSON");
  if (!arguments.Parse(argc, argv)) return arguments.exit_code();

  std::unique_ptr<Database> database;
  Output output;
  Status s = Database::OpenForReading(path, &database);
  if (s.ok()) s = Describe(*database, names, &output);
  if (!s.ok()) {
    return Fail("stats", s);
  }
  if (json) {
    std::printf("{\"database\":%s,\"not_read\":%s,\"column_families\":[%s]}\n", JsonText(path).c_str(),
                JsonText(database->pool_text()).c_str(), output.json.c_str());
  } else {
    std::fputs(output.table.c_str(), stdout);
    if (!database->pool_text().empty()) std::printf("not read: %s\n", database->pool_text().c_str());
  }
  return kExitOk;
}

const CommandRegistration kStats("stats", "Prints what the tries and SILT stores of a database hold", RunStats);

}  // namespace
}  // namespace cairn
