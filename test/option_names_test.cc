// Every name by which SetOptions and SetDBOptions know an option, those in a table's and in other options too, set on a
// database of each engine and on a stock one: the answer and what the option is then are the same, or the difference
// stands here. RocksDB's source itself says which names there are, aliases and names out of use among them.

#include <cstdlib>
#include <fstream>
#include <regex>
#include <set>
#include <sstream>

#include "cairn/engines.h"
#include "gtest/gtest.h"
#include "rocksdb/convenience.h"
#include "rocksdb/filter_policy.h"
#include "rocksdb/port/open_into.h"
#include "rocksdb/table.h"
#include "rocksdb/utilities/options_util.h"
#include "table/block_based/block_based_table_factory.h"
#include "test/support.h"

namespace cairn::test {
namespace {

using Texts = std::unordered_map<std::string, std::string>;
using Setting = std::pair<std::string, std::string>;

constexpr char kStock[] = "stock";

// The keys of the tables of options in a file of RocksDB's.
std::set<std::string> NamesIn(const std::string& file) {
  std::ifstream stream(std::string(CAIRN_ROCKSDB_TREE) + "/" + file);
  std::stringstream text;
  text << stream.rdbuf();
  const std::string source = text.str();
  std::set<std::string> names;
  const std::regex key("\\{\"([a-z_0-9]+)\",\\s*(\\{|OptionTypeInfo)");
  for (std::sregex_iterator at(source.begin(), source.end(), key), end; at != end; ++at) names.insert((*at)[1]);
  EXPECT_GT(names.size(), 10u) << file << " was not read";
  return names;
}

Texts MapOf(const std::string& text) {
  Texts map;
  EXPECT_OK(rocksdb::StringToMap(text, &map));
  return map;
}

Texts Printed(const Options& options) {
  std::string text;
  EXPECT_OK(rocksdb::GetStringFromColumnFamilyOptions(rocksdb::ConfigOptions(), options, &text));
  return MapOf(text);
}

Texts PrintedTable(const Options& options) {
  std::string text;
  const auto* const blocks = options.table_factory->CheckedCast<rocksdb::BlockBasedTableFactory>();
  if (blocks != nullptr) EXPECT_OK(blocks->GetOptionString(rocksdb::ConfigOptions(), &text));
  return MapOf(text);
}

// Another value of a switch or a number; the same of anything else.
std::string Other(const std::string& value) {
  if (value == "true" || value == "false") return value == "true" ? "false" : "true";
  const bool number = !value.empty() && value.size() < 10 && value.find_first_not_of("0123456789") == std::string::npos;
  return number ? std::to_string(2 * std::stoull(value) + 1) : value;
}

void AddBoth(const std::string& name, const std::string& value, std::vector<Setting>* settings) {
  if (Other(value) != value) settings->emplace_back(name, Other(value));
  settings->emplace_back(name, value);
}

// Each with another value and with its own again.
std::vector<Setting> SettingsOf(const Options& stock) {
  std::vector<Setting> settings;
  Texts values = Printed(stock);
  for (const std::string& name : NamesIn("options/cf_options.cc")) {
    const auto value = values.find(name);
    if (name.find("table_factory") != std::string::npos) continue;
    if (value == values.end() || value->second.find('=') == std::string::npos) {
      AddBoth(name, value == values.end() ? "1" : value->second, &settings);
      continue;
    }
    settings.emplace_back(name, value->second);
    for (const auto& [inner, text] : MapOf(value->second)) AddBoth(name + "." + inner, text, &settings);
  }
  values = PrintedTable(stock);
  for (const std::string& name : NamesIn("table/block_based/block_based_table_factory.cc")) {
    const auto value = values.find(name);
    if (value == values.end()) continue;  // the printed names of what an option may be
    AddBoth("table_factory." + name, value->second, &settings);
    AddBoth("block_based_table_factory." + name, value->second, &settings);
    for (const std::string& text : {Other(value->second), value->second}) {
      settings.emplace_back("block_based_table_factory", "{" + name + "=" + text + "}");
    }
  }
  settings.emplace_back("block_based_table_factory",
                        "{block_size=8192;block_restart_interval=4;whole_key_filtering=1}");
  settings.emplace_back("block_based_table_factory", "block_size=4096;block_restart_interval=2");
  settings.emplace_back("block_based_table_factory", "{block_size=8192;no_option=1}");
  settings.emplace_back("block_based_table_factory", "{block_size=nonsense}");
  settings.emplace_back("block_based_table_factory", "");
  settings.emplace_back("block_based_table_factory", "{{{");
  settings.emplace_back("block_based_table_factory", "{filter_policy=bloomfilter:12;block_size=512}");
  settings.emplace_back("plain_table_factory", "{user_key_len=8}");
  settings.emplace_back("table_factory", "BlockBasedTable");
  settings.emplace_back("no_option", "1");
  return settings;
}

std::string Outcome(const Status& s) { return s.ok() ? "OK" : s.ToString().substr(0, s.ToString().find(':')); }

// What a name of SettingsOf says of the options: the value, of several at once all of a table's.
std::string ValueOf(const Options& options, const std::string& name, const std::string& value) {
  const size_t dot = name.find('.');
  const std::string outer = name.substr(0, dot);
  Texts texts = outer.find("table_factory") == std::string::npos ? Printed(options) : PrintedTable(options);
  std::string inner = dot == std::string::npos ? "" : name.substr(dot + 1);
  if (inner.empty() && value.find('=') != std::string::npos && outer == "block_based_table_factory") {
    inner = value.substr(value.front() == '{' ? 1 : 0, value.find('=') - 1);
  }
  if (outer.find("table_factory") == std::string::npos && !inner.empty()) texts = MapOf(texts[outer]);
  return texts[inner.empty() ? outer : inner];
}

// Settings by a pattern of NAME=VALUE, engines by one of their names.
struct Difference {
  const char* setting;
  const char* engine;
  const char* outcome;
  const char* reason;
};
const Difference kDifferences[] = {
    {"(level0_.*_trigger|max_bytes_for_level_.*|max_compaction_bytes|target_file_size_multiplier|"
     "(soft|hard)_pending_compaction_bytes_limit|compaction_options_(universal|fifo).*|"
     "read_triggered_compaction_threshold|sst_partitioner_factory)=.*",
     "ordered_trie|trie|trie_sst|silt", "Not implemented", "a trie compacts by its own options"},
    {"comparator=.*", "trie|trie_sst|silt", "Invalid argument", "theirs is another"},
    {"sst_partitioner_factory=nullptr", "round_robin", "OK cairn.RoundRobin",
     "RocksDB passes over it where there is one"},
    {".*block_align=true.*", "silt", "Not implemented", "its blocks have no padding"},
    {".*partition_filters=true.*", ".*", "Invalid argument", "RocksDB dies at the next flush"},
    {".*format_version=1.*", "leveled_ordered|ordered.*|trie.*|round_robin|silt", "Invalid argument",
     "RocksDB would not open the database again"},
    {"table_factory=BlockBasedTable", "trie|trie_sst|silt", "Not implemented", "they do not have hash order"},
    {"block_based_table_factory=[^=]*", "leveled_ordered|ordered|ordered_trie|trie|trie_sst|silt", "Invalid argument",
     "a text without an option, which RocksDB passes over"},
};

std::string Expected(const std::string& engine, const Setting& setting, const std::string& stock) {
  const std::string text = setting.first + "=" + setting.second;
  for (const Difference& difference : kDifferences) {
    if (engine != kStock && std::regex_match(text, std::regex(difference.setting)) &&
        std::regex_match(engine, std::regex(difference.engine))) {
      return difference.outcome;
    }
  }
  return stock;
}

// Stock RocksDB first, with which all others are compared.
std::vector<std::string> StockAndOthers() {
  std::vector<std::string> names = {kStock};
  for (const std::string& engine : EngineNames()) {
    if (engine != kStock) names.push_back(engine);
  }
  return names;
}

Options WithFilter() {
  Options options = BaseOptions();
  rocksdb::BlockBasedTableOptions table = *options.table_factory->GetOptions<rocksdb::BlockBasedTableOptions>();
  table.filter_policy.reset(rocksdb::NewBloomFilterPolicy(10));
  options.table_factory.reset(rocksdb::NewBlockBasedTableFactory(table));
  return options;
}

Options OptionsOfEngine(const std::string& engine) {
  Options options = WithFilter();
  EXPECT_OK(UseEngineFromString("engine=" + engine, &options, &options));
  return options;
}

std::unique_ptr<DB> Opened(const Options& options, const std::string& path) {
  DB* db = nullptr;
  EXPECT_OK(DB::Open(options, path, port::Into(&db)));
  return std::unique_ptr<DB>(db);
}

// Sets everything on the database, and compares the answers with those of a stock one; empty: they become these.
void SetAll(DB* db, const std::string& engine, const std::vector<Setting>& settings, std::vector<std::string>* stock) {
  for (size_t i = 0; i < settings.size(); ++i) {
    const auto& [name, value] = settings[i];
    const Status s = db->SetOptions({{name, value}});
    const std::string outcome = s.ok() ? "OK " + ValueOf(db->GetOptions(), name, value) : Outcome(s);
    if (stock->size() == i) stock->push_back(outcome);
    EXPECT_EQ(outcome, Expected(engine, settings[i], (*stock)[i])) << name << "=" << value << ": " << s.ToString();
  }
}

TEST(OptionNamesTest, SetOptionsOfEveryName) {
  const TempDir dir;
  const std::vector<Setting> settings = SettingsOf(WithFilter());
  std::vector<std::string> stock;
  for (const std::string& engine : StockAndOthers()) {
    SCOPED_TRACE(engine);
    const auto db = Opened(OptionsOfEngine(engine), dir / engine);
    SetAll(db.get(), engine, settings, &stock);
    // As the OPTIONS file has it.
    rocksdb::DBOptions stored;
    std::vector<rocksdb::ColumnFamilyDescriptor> families;
    ASSERT_OK(rocksdb::LoadLatestOptions(rocksdb::ConfigOptions(), dir / engine, &stored, &families));
    EXPECT_EQ(Printed(Options(stored, families[0].options)), Printed(db->GetOptions()));
  }
  for (const std::string engine : {"sub_memtables", "leveled_ordered"}) {
    SCOPED_TRACE(engine + " by the environment");
    setenv("CAIRN_OPTIONS", ("engine=" + engine).c_str(), 1);
    const auto db = Opened(WithFilter(), dir / ("environment_" + engine));
    unsetenv("CAIRN_OPTIONS");
    SetAll(db.get(), "environment", settings, &stock);
  }
}

// In a program, by a text laid over options.
TEST(OptionNamesTest, TextsOverOptionsOfEveryName) {
  std::vector<std::string> stock;
  const std::vector<Setting> settings = SettingsOf(WithFilter());
  for (const std::string& engine : StockAndOthers()) {
    SCOPED_TRACE(engine);
    const Options base = OptionsOfEngine(engine);
    for (size_t i = 0; i < settings.size(); ++i) {
      const auto& [name, value] = settings[i];
      Options changed = base;
      const Status s =
          rocksdb::GetColumnFamilyOptionsFromMap(rocksdb::ConfigOptions(), base, {{name, value}}, &changed);
      const std::string outcome = s.ok() ? "OK " + ValueOf(changed, name, value) : Outcome(s);
      if (stock.size() == i) stock.push_back(outcome);
      // RocksDB looks for that very class, and says so: table_factory.OPTION is the name that reaches all.
      const bool refused =
          name == "block_based_table_factory" && std::string(base.table_factory->Name()) != "BlockBasedTable";
      EXPECT_EQ(outcome, refused ? "Invalid argument" : stock[i]) << name << "=" << value << ": " << s.ToString();
    }
  }
}

TEST(OptionNamesTest, SetDBOptionsOfEveryName) {
  const TempDir dir;
  std::string text;
  ASSERT_OK(rocksdb::GetStringFromDBOptions(rocksdb::ConfigOptions(), BaseOptions(), &text));
  Texts values = MapOf(text);
  std::vector<Setting> settings;
  for (const std::string& name : NamesIn("options/db_options.cc")) {
    AddBoth(name, values.count(name) > 0 ? values[name] : "1", &settings);
  }
  std::vector<std::string> stock;
  for (const std::string& engine : StockAndOthers()) {
    SCOPED_TRACE(engine);
    const auto db = Opened(OptionsOfEngine(engine), dir / engine);
    for (size_t i = 0; i < settings.size(); ++i) {
      const auto& [name, value] = settings[i];
      const Status s = db->SetDBOptions({{name, value}});
      EXPECT_OK(rocksdb::GetStringFromDBOptions(rocksdb::ConfigOptions(), db->GetDBOptions(), &text));
      const std::string outcome = s.ok() ? "OK " + MapOf(text)[name] : Outcome(s);
      if (stock.size() == i) stock.push_back(outcome);
      EXPECT_EQ(outcome, stock[i]) << name << "=" << value << ": " << s.ToString();
    }
  }
}

}  // namespace
}  // namespace cairn::test
