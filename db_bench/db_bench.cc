// RocksDB's db_bench with one more choice: --engine=NAME, a preset that every other flag may override.
//
// RocksDB's own engines are presets of flags. An engine of Cairn is put on at the last moment instead: db_bench builds
// its options from all of its flags, and the calls by which it opens databases are linked to the functions below
// (ld --wrap; CMakeLists.txt has the same list of symbols), which lay the engine over those options. So no flag is lost
// on the way, as most are when db_bench reads an OPTIONS file.
//
// Without --engine, this is db_bench of RocksDB. --result_cache_size=BYTES puts a result cache above the database.

#include "rocksdb/db_bench_tool.h"

#include <gflags/gflags.h>

#include <cstdio>
#include <cstdlib>
#include <sstream>
#include <string>
#include <vector>

#include "cairn/db.h"
#include "cairn/trie.h"
#include "db_bench/engines.h"
#include "rocksdb/db.h"
#include "rocksdb/port/open_into.h"
#include "rocksdb/utilities/stackable_db.h"
#include "util/rocksdb_names.h"

DEFINE_string(engine, "",
              "Preset of an engine, which every other flag may override; unknown names are answered with the list");
DEFINE_string(engine_options, "",
              "With a Cairn engine: its own options as an option string, for trie_sst \"fan_out=8;trigger=6\", for "
              "silt \"merge_trigger=8\" ...");
DEFINE_uint64(result_cache_size, 0,
              "Bytes of a result cache above each database that is opened (docs/design/result_cache.md); 0: none");
DECLARE_string(flagfile);
DECLARE_string(fromenv);
DECLARE_string(tryfromenv);

namespace cairn::bench {
namespace {

// The engine to lay over the options of a database that db_bench opens; null: none. Set once, before db_bench starts.
const Engine* overlaid = nullptr;

bool UserSet(const std::string& flag) {
  gflags::CommandLineFlagInfo info;
  return gflags::GetCommandLineFlagInfo(flag.c_str(), &info) && !info.is_default;
}

std::string FlagText(const std::string& flag) {
  std::string text;
  gflags::GetCommandLineOption(flag.c_str(), &text);
  return text;
}

bool DiffersFromDefault(const std::string& flag) {
  gflags::CommandLineFlagInfo info;
  return gflags::GetCommandLineFlagInfo(flag.c_str(), &info) && info.current_value != info.default_value;
}

EngineSettings SettingsFromFlags() {
  EngineSettings settings;
  if (UserSet("bloom_bits")) {
    settings.filter_bits = std::stoi(FlagText("bloom_bits"));
  }
  if (UserSet("level0_file_num_compaction_trigger")) {
    settings.level0_trigger = std::stoi(FlagText("level0_file_num_compaction_trigger"));
  }
  if (UserSet("memtablerep")) {
    settings.memtable = FlagText("memtablerep");
  }
  settings.engine_options = FLAGS_engine_options;
  return settings;
}

Status Overlay(DBOptions* database, ColumnFamilyOptions* column_family) {
  ColumnFamilyOptions flags = *column_family;
  Status s = overlaid->overlay(SettingsFromFlags(), database, column_family);
  if (UserSet("level0_slowdown_writes_trigger")) {
    column_family->level0_slowdown_writes_trigger = flags.level0_slowdown_writes_trigger;
  }
  if (UserSet("level0_stop_writes_trigger")) {
    column_family->level0_stop_writes_trigger = flags.level0_stop_writes_trigger;
  }
  return s;
}

// The two forms in which db_bench has its options. OK, and no change, without an overlaid engine.
Status Overlay(Options* options) {
  if (overlaid == nullptr) {
    return Status::OK();
  }
  DBOptions database(*options);
  ColumnFamilyOptions column_family(*options);
  Status s = Overlay(&database, &column_family);
  *options = Options(database, column_family);
  return s;
}

Status Overlay(DBOptions* database, std::vector<ColumnFamilyDescriptor>* column_families) {
  Status s;
  for (size_t i = 0; overlaid != nullptr && s.ok() && i < column_families->size(); i++) {
    s = Overlay(database, &(*column_families)[i].options);
  }
  return s;
}

// What db_bench asks of a database and RocksDB answers for its own compactions only. A SILT store's are RocksDB's own.
class EngineUnderBenchmark : public rocksdb::StackableDB {
 public:
  explicit EngineUnderBenchmark(DB* db) : StackableDB(db) {}

  // Benchmark waitforcompaction.
  Status WaitForCompact(const rocksdb::WaitForCompactOptions& options) override {
    Status s = StackableDB::WaitForCompact(options);
    return s.ok() && !options.close_db ? WaitForTrieCompaction(this) : s;
  }

  // Benchmarks compact and compactall.
  using StackableDB::CompactRange;
  Status CompactRange(const rocksdb::CompactRangeOptions& options, ColumnFamilyHandle* column_family,
                      const rocksdb::Slice* begin, const rocksdb::Slice* end) override {
    if (begin != nullptr || end != nullptr || !IsTrie(GetOptions(column_family))) {
      return StackableDB::CompactRange(options, column_family, begin, end);
    }
    Status s = Flush(rocksdb::FlushOptions(), column_family);
    if (s.ok()) {
      s = CompactTrie(this, column_family);
    }
    if (!s.ok()) {
      fprintf(stderr, "compact: %s\n", s.ToString().c_str());
    }
    return s;
  }

  // Benchmark stats.
  using StackableDB::GetProperty;
  bool GetProperty(ColumnFamilyHandle* column_family, const rocksdb::Slice& property, std::string* value) override {
    if (!StackableDB::GetProperty(column_family, property, value)) {
      return false;
    }
    std::string ours;
    if (property == DB::Properties::kStats && StackableDB::GetProperty(column_family, "cairn.stats", &ours)) {
      *value += "\n" + ours;
    }
    return true;
  }

  // --num_hot_column_families makes more of them on the way.
  Status CreateColumnFamily(const ColumnFamilyOptions& options, const std::string& name,
                            ColumnFamilyHandle** handle) override {
    DBOptions unchanged = GetDBOptions();
    ColumnFamilyOptions overlay = options;
    Status s = Overlay(&unchanged, &overlay);
    return s.ok() ? StackableDB::CreateColumnFamily(overlay, name, handle) : s;
  }
};

}  // namespace

#define REAL(symbol) __asm__("__real_" symbol)
#define WRAP(symbol) __asm__("__wrap_" symbol)
#define STRING "RKNSt7__cxx1112basic_stringIcSt11char_traitsIcESaIcEEE"

#define DB_OPEN "_ZN7rocksdb2DB4OpenERKNS_7OptionsE" STRING CAIRN_OPENED_DB_SYMBOL
Status RealOpen(const Options&, const std::string&, port::OpenedDb*) REAL(DB_OPEN);
Status WrapOpen(const Options& options, const std::string& path, port::OpenedDb* db) WRAP(DB_OPEN);
Status WrapOpen(const Options& options, const std::string& path, port::OpenedDb* db) {
  if (overlaid == nullptr) {
    return RealOpen(options, path, db);
  }
  Options overlay = options;
  Status s = Overlay(&overlay);
  DB* opened = nullptr;
  if (s.ok()) {
    s = overlaid->open(overlay, path, &opened);
  }
  if (s.ok()) {
    port::Set(db, new EngineUnderBenchmark(opened));
  }
  return s;
}

#define FAMILIES "RKSt6vectorINS_22ColumnFamilyDescriptorESaIS"
#define DB_OPEN_FAMILIES                                 \
  "_ZN7rocksdb2DB4OpenERKNS_9DBOptionsE" STRING FAMILIES \
  "D_EEPSC_IPNS_18ColumnFamilyHandleESaISJ_EE" CAIRN_OPENED_DB_SYMBOL
Status RealOpenFamilies(const DBOptions&, const std::string&, const std::vector<ColumnFamilyDescriptor>&,
                        std::vector<ColumnFamilyHandle*>*, port::OpenedDb*) REAL(DB_OPEN_FAMILIES);
Status WrapOpenFamilies(const DBOptions& options, const std::string& path,
                        const std::vector<ColumnFamilyDescriptor>& column_families,
                        std::vector<ColumnFamilyHandle*>* handles, port::OpenedDb* db) WRAP(DB_OPEN_FAMILIES);
Status WrapOpenFamilies(const DBOptions& options, const std::string& path,
                        const std::vector<ColumnFamilyDescriptor>& column_families,
                        std::vector<ColumnFamilyHandle*>* handles, port::OpenedDb* db) {
  if (overlaid == nullptr) {
    return RealOpenFamilies(options, path, column_families, handles, db);
  }
  DBOptions database = options;
  std::vector<ColumnFamilyDescriptor> families = column_families;
  Status s = Overlay(&database, &families);
  DB* opened = nullptr;
  if (s.ok()) {
    s = cairn::Open(database, path, families, handles, &opened);
  }
  if (s.ok()) {
    port::Set(db, new EngineUnderBenchmark(opened));
  }
  return s;
}

#define READ_ONLY "_ZN7rocksdb2DB15OpenForReadOnlyERKNS_7OptionsE" STRING CAIRN_OPENED_DB_SYMBOL "b"
Status RealReadOnly(const Options&, const std::string&, port::OpenedDb*, bool) REAL(READ_ONLY);
Status WrapReadOnly(const Options& options, const std::string& path, port::OpenedDb* db, bool fail) WRAP(READ_ONLY);
Status WrapReadOnly(const Options& options, const std::string& path, port::OpenedDb* db, bool fail_if_wal) {
  Options overlay = options;
  Status s = Overlay(&overlay);
  return s.ok() ? RealReadOnly(overlay, path, db, fail_if_wal) : s;
}

#define READ_ONLY_FAMILIES                                           \
  "_ZN7rocksdb2DB15OpenForReadOnlyERKNS_9DBOptionsE" STRING FAMILIES \
  "D_EEPSC_IPNS_18ColumnFamilyHandleESaISJ_EE" CAIRN_OPENED_DB_SYMBOL "b"
Status RealReadOnlyFamilies(const DBOptions&, const std::string&, const std::vector<ColumnFamilyDescriptor>&,
                            std::vector<ColumnFamilyHandle*>*, port::OpenedDb*, bool) REAL(READ_ONLY_FAMILIES);
Status WrapReadOnlyFamilies(const DBOptions& options, const std::string& path,
                            const std::vector<ColumnFamilyDescriptor>& column_families,
                            std::vector<ColumnFamilyHandle*>* handles, port::OpenedDb* db, bool fail_if_wal)
    WRAP(READ_ONLY_FAMILIES);
Status WrapReadOnlyFamilies(const DBOptions& options, const std::string& path,
                            const std::vector<ColumnFamilyDescriptor>& column_families,
                            std::vector<ColumnFamilyHandle*>* handles, port::OpenedDb* db, bool fail_if_wal) {
  DBOptions database = options;
  std::vector<ColumnFamilyDescriptor> families = column_families;
  Status s = Overlay(&database, &families);
  return s.ok() ? RealReadOnlyFamilies(database, path, families, handles, db, fail_if_wal) : s;
}

namespace {

std::vector<std::string> Benchmarks() {
  std::vector<std::string> names;
  std::stringstream list(FlagText("benchmarks"));
  for (std::string name; std::getline(list, name, ',');) {
    if (!name.empty()) {
      names.push_back(name);
    }
  }
  return names;
}

// Null, or why the engine cannot run the benchmark. `name` may carry db_bench's "[...]" suffix.
const RefusedBenchmark* FindRefusal(const Engine& engine, const std::string& name) {
  std::string bare = name.substr(0, name.find('['));
  for (const RefusedBenchmark& refused : engine.refused_benchmarks) {
    if (bare == refused.name && (refused.unless_default == nullptr || DiffersFromDefault(refused.unless_default))) {
      return &refused;
    }
  }
  return nullptr;
}

// Empty, or one line that says what is wrong.
std::string ChooseBenchmarks(const Engine& engine) {
  bool by_user = UserSet("benchmarks");
  std::string kept;
  for (const std::string& name : Benchmarks()) {
    const RefusedBenchmark* refused = FindRefusal(engine, name);
    if (refused == nullptr) {
      kept += (kept.empty() ? "" : ",") + name;
    } else if (by_user) {
      return "with --engine=" + std::string(engine.name) + ", benchmark " + name + " " + refused->why +
             (refused->unless_default == nullptr ? "" : " (--" + std::string(refused->unless_default) + ")");
    }
  }
  gflags::SetCommandLineOptionWithMode("benchmarks", kept.c_str(), gflags::SET_FLAG_IF_DEFAULT);
  return "";
}

// Empty, or one line that says what is wrong.
std::string ApplyEngine() {
  if (!UserSet("engine")) {
    return FLAGS_engine_options.empty() ? "" : "--engine_options needs --engine";
  }
  const Engine* engine = FindEngine(FLAGS_engine);
  if (engine == nullptr) {
    return "unknown --engine=" + FLAGS_engine + "; it may be " + EngineNames();
  }
  for (const RefusedFlag& refused : engine->refused_flags) {
    if (UserSet(refused.name)) {
      return std::string("--") + refused.name + " " + refused.why + " (--engine=" + engine->name + ")";
    }
  }
  std::string wrong = ChooseBenchmarks(*engine);
  if (!wrong.empty()) {
    return wrong;
  }
  for (const PresetFlag& flag : engine->flags) {
    gflags::SetCommandLineOptionWithMode(flag.name, flag.value, gflags::SET_FLAG_IF_DEFAULT);
  }
  // Says at once what configure does not like, before db_bench has printed its first lines.
  Options unused;
  Status s = engine->configure(SettingsFromFlags(), &unused);
  if (s.ok() && engine->overlay != nullptr) {
    overlaid = engine;
  }
  return s.ok() ? "" : s.ToString();
}

// Every way of opening obeys what the environment says, with and without an engine. Behind all that is there, in a
// section of its own, so that the flag holds whatever was said before.
void ApplyResultCache() {
  if (FLAGS_result_cache_size == 0) return;
  const char* const given = getenv("CAIRN_OPTIONS");
  const std::string options =
      std::string(given == nullptr ? "" : given) + "\n[*]\nresult_cache=" + std::to_string(FLAGS_result_cache_size);
  setenv("CAIRN_OPTIONS", options.c_str(), 1);
}

}  // namespace
}  // namespace cairn::bench

int main(int argc, char** argv) {
  // db_bench parses again: what is parsed here stays, and help is left to it.
  gflags::ParseCommandLineNonHelpFlags(&argc, &argv, true);
  // A flag file read twice would beat the command line.
  FLAGS_flagfile.clear();
  FLAGS_fromenv.clear();
  FLAGS_tryfromenv.clear();
  std::string wrong = cairn::bench::ApplyEngine();
  if (!wrong.empty()) {
    fprintf(stderr, "db_bench: %s\n", wrong.c_str());
    return 2;
  }
  cairn::bench::ApplyResultCache();
  return rocksdb::db_bench_tool(argc, argv);
}
