// cairn options: prints an OPTIONS file of an engine, or writes it where programs look that load options from a folder.

#include <cstdio>
#include <memory>
#include <unordered_map>

#include "cairn/engines.h"
#include "options/options_parser.h"
#include "rocksdb/convenience.h"
#include "rocksdb/env.h"
#include "tools/arguments.h"
#include "tools/commands.h"
#include "util/option_text.h"
#include "util/rocksdb_names.h"

namespace cairn {
namespace {

using rocksdb::ConfigOptions;

using OptionMap = std::unordered_map<std::string, std::string>;

// A number as RocksDB's own first file has; a database that is made in the folder counts on from there.
constexpr char kFileName[] = "OPTIONS-000005";

Status ColumnFamilyMap(const ConfigOptions& config, const ColumnFamilyOptions& options, OptionMap* map) {
  std::string text;
  Status s = GetStringFromColumnFamilyOptions(config, options, &text);
  return s.ok() ? rocksdb::StringToMap(text, map) : s;
}

// RocksDB would take 5 of "5e7", and 2^64 - 1 of "-1", without a word.
Status CheckRocksdbNumbers(const ConfigOptions& config, const std::vector<std::string>& texts, const Options& parsed) {
  std::string family;
  std::string database;
  std::string table;  // of which a column family's options have the name only
  Status s = GetStringFromColumnFamilyOptions(config, parsed, &family);
  if (s.ok()) s = GetStringFromDBOptions(config, parsed, &database);
  if (s.ok()) s = parsed.table_factory->GetOptionString(config, &table);
  for (const std::string& text : texts) {
    if (s.ok()) s = CheckNumbersAsPrinted(text, family + database + "table_factory={" + table + "}");  // "a=b;" each
  }
  return s;
}

// Applies the user's RocksDB options, then the engine's; an option that both set to different values is an error rather
// than silently the engine's.
Status MakeOptions(const std::string& engine, const std::vector<std::string>& engine_options,
                   const std::vector<std::string>& rocksdb_options, Options* options) {
  ConfigOptions config;
  OptionMap wanted;
  for (const std::string& text : rocksdb_options) {
    const Options base = *options;
    Status s = rocksdb::GetOptionsFromString(config, base, text, options);
    if (!s.ok()) return s;
    OptionMap map;
    s = rocksdb::StringToMap(text, &map);
    if (!s.ok()) return s;
    for (auto& entry : map) wanted.insert(entry);
  }
  OptionMap before;
  OptionMap after;
  Status s = CheckRocksdbNumbers(config, rocksdb_options, *options);
  if (s.ok()) s = ColumnFamilyMap(config, *options, &before);
  const std::shared_ptr<rocksdb::MemTableRepFactory> memtable = options->memtable_factory;
  if (s.ok()) s = UseEngine(engine, engine_options, options);
  // Every engine runs on every memtable.
  if (wanted.count("memtable_factory") + wanted.count("memtable") > 0) options->memtable_factory = memtable;
  if (s.ok()) s = UseEngineInDatabase(engine, engine_options, options);
  if (s.ok()) s = ColumnFamilyMap(config, *options, &after);
  if (!s.ok()) return s;
  for (const auto& [name, value] : wanted) {
    // Of a table factory, an engine replaces what stands in its way and keeps the rest.
    if (before[name] == after[name] || name.find("table_factory") != std::string::npos) continue;
    return Status::InvalidArgument("the engine \"" + engine + "\" sets " + name + " to " + after[name] +
                                   "; it cannot be " + before[name]);
  }
  return Status::OK();
}

// What LoadLatestOptions reads in `directory`, which is made if it is not there and may hold no database.
Status WriteInto(const std::string& directory, const Options& options) {
  rocksdb::Env* const env = rocksdb::Env::Default();
  Status s = env->CreateDirIfMissing(directory);
  if (!s.ok()) return s;
  std::vector<std::string> names;
  s = env->GetChildren(directory, &names);
  for (const std::string& name : names) {
    if (name != "CURRENT" && name.compare(0, 8, "OPTIONS-") != 0) continue;
    return Status::InvalidArgument(directory, "holds " + name + " already; name another folder, or remove it");
  }
  if (!s.ok()) return s;
  s = rocksdb::PersistRocksDBOptions(rocksdb::WriteOptions(), options, {rocksdb::kDefaultColumnFamilyName}, {options},
                                     directory + "/" + kFileName, env->GetFileSystem().get());
  std::unique_ptr<rocksdb::Directory> handle;
  if (s.ok()) s = env->NewDirectory(directory, &handle);
  return s.ok() ? handle->Fsync() : s;
}

Status OptionsFile(const Options& options, std::string* text) {
  std::unique_ptr<rocksdb::Env> env(rocksdb::NewMemEnv(rocksdb::Env::Default()));
  const std::string directory = "/options";
  const std::string path = directory + "/OPTIONS";
  Status s = env->CreateDirIfMissing(directory);
  if (s.ok()) {
    s = rocksdb::PersistRocksDBOptions(rocksdb::WriteOptions(), options, {rocksdb::kDefaultColumnFamilyName}, {options},
                                       path, env->GetFileSystem().get());
  }
  if (s.ok()) s = rocksdb::ReadFileToString(env.get(), path, text);
  return s;
}

int RunOptions(int argc, char** argv) {
  std::string engine;
  std::vector<std::string> engine_options;
  std::vector<std::string> rocksdb_options;
  std::string into;
  std::string names;
  for (const std::string& name : EngineNames()) names += (names.empty() ? "" : ", ") + name;
  Arguments arguments("options",
                      "Prints a complete OPTIONS file for a database on an engine, for LoadOptionsFromFile, db_bench\n"
                      "--options_file and every other program that reads such files.");
  arguments.Positional("ENGINE", &engine, "one of " + names);
  arguments.Texts("option", &engine_options, "TEXT", "options of the engine, \"fan_out=8;slots=12\"");
  arguments.Texts("rocksdb-option", &rocksdb_options, "TEXT",
                  "options of RocksDB, \"write_buffer_size=134217728;max_background_jobs=4\"");
  arguments.Text(
      "into", &into, "DIR",
      "writes the file into this folder, as OPTIONS-000005, for what loads options from a folder only (C, Rust, Go)");
  if (!arguments.Parse(argc, argv)) return arguments.exit_code();

  Options options;
  options.create_if_missing = true;
  Status s = MakeOptions(engine, engine_options, rocksdb_options, &options);
  if (!s.ok()) return arguments.UsageError(ErrorText(s));
  if (!into.empty()) {
    s = WriteInto(into, options);
    return s.ok() ? kExitOk : Fail("options", s);
  }
  std::string text;
  s = OptionsFile(options, &text);
  if (!s.ok()) return Fail("options", s);
  std::printf("%s\n", text.c_str());
  return kExitOk;
}

const CommandRegistration kOptions("options", "Prints an OPTIONS file for a database on an engine", RunOptions);

}  // namespace
}  // namespace cairn
