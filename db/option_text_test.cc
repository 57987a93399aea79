// What every registered object of Cairn becomes in text: nothing at its defaults, only what RocksDB's parsers take when
// all of its options are set, and the same object again when it is read.

#include "util/option_text.h"

#include <cctype>
#include <cstring>
#include <functional>
#include <map>
#include <memory>
#include <set>
#include <string>
#include <vector>

#include "cairn/memtable.h"
#include "cairn/round_robin.h"
#include "cairn/silt.h"
#include "cairn/trie.h"
#include "cairn/tuner.h"
#include "gtest/gtest.h"
#include "rocksdb/comparator.h"
#include "rocksdb/convenience.h"
#include "rocksdb/listener.h"
#include "rocksdb/memtablerep.h"
#include "rocksdb/port/open_into.h"
#include "rocksdb/sst_partitioner.h"
#include "rocksdb/table.h"
#include "rocksdb/table_properties.h"
#include "rocksdb/utilities/object_registry.h"
#include "test/support.h"

namespace cairn {
namespace {

using rocksdb::ConfigOptions;
using rocksdb::Customizable;

// What RocksJava's parser of option strings accepts:
//   options = [ option { ";" option } [ ";" ] ]        option = key "=" value
//   value = "{" options "}" | simple { ":" simple } | nothing, before ";"
//   simple = characters | "{" characters "}"
class JavaGrammar {
 public:
  // Empty: accepted. Else what it stumbles over.
  static std::string Objection(const std::string& text) {
    JavaGrammar grammar(text);
    if (grammar.Options() && grammar.at_ == text.size()) return "";
    return "at \"" + text.substr(grammar.at_, 40) + "\" of \"" + text + "\"";
  }

 private:
  explicit JavaGrammar(const std::string& text) : text_(text) {}

  bool Is(char c) const { return at_ < text_.size() && text_[at_] == c; }
  bool IsWordCharacter(const char* others) const {
    if (at_ == text_.size() || text_[at_] == 0) return false;
    return std::isalnum(static_cast<unsigned char>(text_[at_])) != 0 || strchr(others, text_[at_]) != nullptr;
  }
  bool IsKeyCharacter() const { return IsWordCharacter("_"); }
  bool IsValueCharacter() const { return IsWordCharacter("_-+.[]"); }
  bool Take(char c) {
    if (!Is(c)) return false;
    ++at_;
    return true;
  }
  void Blanks() {
    while (at_ < text_.size() && std::isspace(static_cast<unsigned char>(text_[at_])) != 0) ++at_;
  }
  bool Simple() {
    const bool wrapped = Take('{');
    while (IsValueCharacter()) ++at_;
    return !wrapped || Take('}');
  }
  bool Value() {
    Blanks();
    if (Take('{')) {
      Blanks();
      const bool whole = Options() && Take('}');
      Blanks();
      return whole;
    }
    if (Is(';')) return true;
    if (!IsValueCharacter()) return false;
    do {
      if (!Simple()) return false;
    } while (Take(':'));
    return true;
  }
  bool Option() {
    if (!IsKeyCharacter()) return false;
    while (IsKeyCharacter()) ++at_;
    Blanks();
    return Take('=') && Value();
  }
  bool Options() {
    Blanks();
    if (at_ == text_.size()) return true;
    for (bool more = true; more;) {
      if (!Option()) return false;
      Blanks();
      more = Take(';');
      Blanks();
      more = more && IsKeyCharacter();
    }
    return true;
  }

  const std::string& text_;
  size_t at_ = 0;
};

TEST(JavaGrammarTest, TakesWhatJavaTakes) {
  for (const char* text : {"", "a=1", "a=1;", "a=1;b={c=2;d={e=x.y:z;};}", "a=;b=1", "a={b=c:{d}}", "a=[2F]+-_"}) {
    EXPECT_EQ(JavaGrammar::Objection(text), "") << text;
  }
  for (const char* text : {"a", "a=/tmp", "a={b}", "a={}", "a={{b=c}}", "a=b c", "a=1;;b=2", "a={b=/x;}", "a=b:/c"}) {
    EXPECT_NE(JavaGrammar::Objection(text), "") << text;
  }
}

struct Object {
  std::string name;
  // Makes one from its name, "NAME" or "{id=NAME;...}".
  std::function<Status(const std::string& text, std::shared_ptr<const Customizable>*)> make;
};

template <class Type>
Object ObjectOf(const std::string& name) {
  return {name, [](const std::string& text, std::shared_ptr<const Customizable>* object) {
            ConfigOptions config;
            config.ignore_unknown_options = false;
            config.ignore_unsupported_options = false;
            std::shared_ptr<Type> made;
            const Status s = Type::CreateFromString(config, text, &made);
            *object = made;
            return s;
          }};
}

// All that is registered under a name of Cairn's, except comparators, which are names and nothing else.
std::vector<Object> RegisteredObjects() {
  // Whatever is made first loads the plugins.
  std::shared_ptr<rocksdb::TableFactory> table;
  EXPECT_OK(rocksdb::TableFactory::CreateFromString(ConfigOptions(), "cairn.HTable", &table));
  const std::map<std::string, std::function<Object(const std::string&)>> types = {
      {rocksdb::TableFactory::Type(), ObjectOf<rocksdb::TableFactory>},
      {rocksdb::MemTableRepFactory::Type(), ObjectOf<rocksdb::MemTableRepFactory>},
      {rocksdb::SstPartitionerFactory::Type(), ObjectOf<rocksdb::SstPartitionerFactory>},
      {rocksdb::EventListener::Type(), ObjectOf<rocksdb::EventListener>},
      {rocksdb::TablePropertiesCollectorFactory::Type(), ObjectOf<rocksdb::TablePropertiesCollectorFactory>},
  };
  std::vector<Object> objects;
  std::unordered_set<std::string> found;
  const auto registry = ConfigOptions().registry;
  registry->GetFactoryTypes(&found);
  for (const std::string& type : found) {
    std::vector<std::string> names;
    registry->GetFactoryNames(type, &names);
    for (const std::string& name : names) {
      if (name.compare(0, 6, "cairn.") != 0 || type == rocksdb::Comparator::Type()) continue;
      const auto known = types.find(type);
      EXPECT_NE(known, types.end()) << "this test does not know how to make a " << type << ", " << name;
      if (known != types.end()) objects.push_back(known->second(name));
    }
  }
  return objects;
}

std::string TextOf(const Customizable& object) {
  ConfigOptions config;
  config.delimiter = ";";
  return object.ToString(config);
}

std::set<std::string> OptionsOf(const Customizable& object) {
  std::unordered_set<std::string> names;
  EXPECT_OK(object.GetOptionNames(ConfigOptions(), &names));
  std::set<std::string> own;
  for (const std::string& name : names) {
    if (name.find('.') == std::string::npos) own.insert(name);  // not those of objects inside
  }
  return own;
}

// Options that an object has from RocksDB's block-based table: its text says them all, and its tests are RocksDB's.
std::set<std::string> BlockBasedOptions(const Customizable& object) {
  if (!object.IsInstanceOf("cairn.OrderedTable")) return {};
  const std::unique_ptr<rocksdb::TableFactory> stock(rocksdb::NewBlockBasedTableFactory());
  return OptionsOf(*stock);
}

void ExpectSameAgain(const Object& object, const Customizable& made) {
  std::shared_ptr<const Customizable> again;
  const std::string text = TextOf(made);
  if (text.empty()) return;  // is in no text
  const std::string inner = text[0] == '{' ? text.substr(1, text.size() - 2) : text;
  SCOPED_TRACE(text);
  ASSERT_OK(object.make(inner, &again));
  std::string mismatch;
  ConfigOptions exact;
  exact.sanity_level = ConfigOptions::kSanityLevelExactMatch;
  EXPECT_TRUE(made.AreEquivalent(exact, again.get(), &mismatch)) << mismatch << " of " << text;
}

TEST(OptionTextTest, EveryObjectAtItsDefaults) {
  const std::vector<Object> objects = RegisteredObjects();
  EXPECT_GE(objects.size(), 8u);
  // Whose tables on disk depend on a value, which is therefore always said.
  const std::map<std::string, std::set<std::string>> always = {
      {"cairn.TriePartitioner", {"hash", "seed", "fan_out", "slots", "depth"}}};
  for (const Object& object : objects) {
    SCOPED_TRACE(object.name);
    std::shared_ptr<const Customizable> made;
    ASSERT_OK(object.make(object.name, &made));
    const std::string text = TextOf(*made);
    EXPECT_EQ(JavaGrammar::Objection("object=" + text + ";"), "");
    std::unordered_map<std::string, std::string> said;
    if (text[0] == '{') ASSERT_OK(rocksdb::StringToMap(text.substr(1, text.size() - 2), &said));
    said.erase("id");
    said.erase("table");  // RocksDB's block-based table says everything
    said.erase("bottommost_table");
    for (const std::string& option : BlockBasedOptions(*made)) said.erase(option);
    std::set<std::string> names;
    for (const auto& option : said) names.insert(option.first);
    const auto found = always.find(object.name);
    EXPECT_EQ(names, found == always.end() ? std::set<std::string>() : found->second) << text;
    ExpectSameAgain(object, *made);
  }
}

// Every option gets a value that is not its default: the first of these that it takes; and none takes half a number.
TEST(OptionTextTest, EveryOptionOfEveryObject) {
  const std::vector<std::string> values = {"true",
                                           "false",
                                           "6",
                                           "32",
                                           "65536",
                                           "67108864",
                                           "8.5",
                                           "0.7",
                                           "1.25",
                                           "sha1",
                                           "key",
                                           "htable",
                                           "sst",
                                           "ect",
                                           "cache",
                                           "always",
                                           "dropped",
                                           "zstd",
                                           "BlockBasedTable",
                                           "cairn.HTable",
                                           "best",
                                           "/a path/with [brackets]"};
  for (const Object& object : RegisteredObjects()) {
    std::shared_ptr<const Customizable> plain;
    ASSERT_OK(object.make(object.name, &plain));
    std::string all = "id=" + object.name + ";";
    const std::set<std::string> block_based = BlockBasedOptions(*plain);
    for (const std::string& option : OptionsOf(*plain)) {
      if (block_based.count(option) > 0) continue;
      SCOPED_TRACE(object.name + ", " + option);
      bool changed = false;
      for (const std::string& value : values) {
        const std::string text = "id=" + object.name + ";" + option + "=" + value;
        std::shared_ptr<const Customizable> made;
        if (!object.make(text, &made).ok() || TextOf(*made) == TextOf(*plain)) continue;
        changed = true;
        EXPECT_EQ(JavaGrammar::Objection("object=" + TextOf(*made)), "") << text;
        ExpectSameAgain(object, *made);
        // A number with something behind it is no number: RocksDB's parser would leave that away.
        if (std::isdigit(static_cast<unsigned char>(value[0])) != 0) {
          std::shared_ptr<const Customizable> wrong;
          EXPECT_FALSE(object.make(text + "abc", &wrong).ok()) << text << "abc";
          EXPECT_FALSE(object.make(text + " M", &wrong).ok()) << text << " M";
          // Nor is one that there is no room for: it would leave what is left of it.
          const std::string name = "id=" + object.name + ";" + option + "=";
          EXPECT_FALSE(object.make(name + "17179869185G", &wrong).ok()) << "2^64 + 2^30 for " << option;
          if (object.make(name + "-18446744073709551615", &wrong).ok()) {
            EXPECT_EQ(TextOf(*wrong).find(option + "=1;"), std::string::npos) << TextOf(*wrong);
          }
          if (object.make(name + "-1", &wrong).ok()) {
            EXPECT_NE(TextOf(*wrong).find(option + "=-1"), std::string::npos) << TextOf(*wrong);
          }
          if (object.make(name + "4194305K", &wrong).ok()) {
            EXPECT_NE(TextOf(*wrong).find(option + "=4294968320"), std::string::npos) << TextOf(*wrong);
          }
          if (object.make(name + "7T", &wrong).ok()) {
            EXPECT_NE(TextOf(*wrong).find(option + "=7696581394432"), std::string::npos) << TextOf(*wrong);
          }
        }
        std::shared_ptr<const Customizable> more;
        if (object.make(all + option + "=" + value, &more).ok()) all += option + "=" + value + ";";
        break;
      }
      EXPECT_TRUE(changed) << "no value of the list is taken; add one to the test";
    }
    SCOPED_TRACE(all);
    std::shared_ptr<const Customizable> made;
    ASSERT_OK(object.make(all, &made));
    EXPECT_EQ(JavaGrammar::Objection("object=" + TextOf(*made) + ";"), "");
    ExpectSameAgain(object, *made);
  }
}

TEST(OptionTextTest, AnyTextComesBack) {
  std::string every;
  for (int c = 0; c < 256; ++c) every += static_cast<char>(c);
  for (const std::string& value :
       {std::string(), every, std::string("[2F]"), std::string("[["), std::string("/dev/dax")}) {
    EXPECT_EQ(DecodeOptionText(EncodeOptionText(value)), value);
    EXPECT_EQ(JavaGrammar::Objection("a=" + EncodeOptionText(value) + ";"), "");
  }
  EXPECT_EQ(DecodeOptionText("/sys/fs/resctrl"), "/sys/fs/resctrl");
  EXPECT_EQ(EncodeOptionText("/pm/a"), "[2F]pm[2F]a");
}

// What RocksJava gets of an open database: everything, RocksDB's own options included.
TEST(OptionTextTest, WholeDatabases) {
  // RocksDB puts the names of listeners into braces, which the Java parser never takes: there must be none.
  const auto expect_parsed = [](const rocksdb::Options& options) {
    ConfigOptions config;
    config.delimiter = ";";
    std::string text;
    ASSERT_OK(rocksdb::GetStringFromDBOptions(config, options, &text));
    EXPECT_EQ(JavaGrammar::Objection(text), "");
    ASSERT_OK(rocksdb::GetStringFromColumnFamilyOptions(config, options, &text));
    EXPECT_EQ(JavaGrammar::Objection(text), "");
  };
  rocksdb::Options options;
  expect_parsed(options);
  options.memtable_factory = NewSubMemTableFactory();
  expect_parsed(options);
  SubMemTableOptions durable;
  durable.durable = true;
  durable.pool_file = "/mnt/pmem 0/{pool};=";
  options.memtable_factory = NewSubMemTableFactory(durable);
  expect_parsed(options);
  for (const char* text : {"format=sst", "format=htable", "format=htable;bottommost_format=ect"}) {
    rocksdb::Options trie_options = options;
    HashTrieOptions trie;
    ASSERT_OK(TrieOptionsFromString(text, &trie));
    ASSERT_OK(UseTrie(&trie_options, trie));
    expect_parsed(trie_options);
  }
  rocksdb::Options round_robin = options;
  RoundRobinOptions workload;
  workload.zipf = 0.99;
  ASSERT_OK(UseRoundRobin(&round_robin, workload));
  expect_parsed(round_robin);
  rocksdb::Options silt = options;
  ASSERT_OK(UseSilt(&silt));
  expect_parsed(silt);
  // What an open database says of itself.
  const test::TempDir dir;
  for (const bool trie : {true, false}) {
    rocksdb::Options stored;
    stored.create_if_missing = true;
    stored.memtable_factory = NewSubMemTableFactory();
    ASSERT_OK(trie ? UseTrie(&stored) : UseSilt(&stored));
    rocksdb::DB* db = nullptr;
    ASSERT_OK(rocksdb::DB::Open(stored, dir / (trie ? "trie" : "silt"), port::Into(&db)));
    EXPECT_EQ(db->GetDBOptions().listeners.size(), 1u);
    rocksdb::DBOptions opened = db->GetDBOptions();
    opened.wal_dir.clear();  // paths of RocksDB's own are as they are
    expect_parsed(rocksdb::Options(opened, db->GetOptions(db->DefaultColumnFamily())));
    delete db;
  }
}

}  // namespace
}  // namespace cairn
