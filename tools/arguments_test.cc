#include "tools/arguments.h"

#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "tools/commands.h"

namespace cairn {
namespace {

bool Parse(Arguments* arguments, std::vector<std::string> words) {
  words.insert(words.begin(), "command");
  std::vector<char*> argv;
  for (std::string& word : words) argv.push_back(word.data());
  return arguments->Parse(static_cast<int>(argv.size()), argv.data());
}

TEST(Arguments, DefaultsStayAndGivenOnesAreStored) {
  std::string db;
  uint64_t items = 7;
  uint64_t cache = 1 << 20;
  double skew = 0.99;
  double seconds = 3;
  int depth = -1;
  bool json = false;
  std::string engine = "a";
  std::vector<std::string> options;
  Arguments arguments("command", "Does it.");
  arguments.Positional("DB", &db, "the database");
  arguments.Count("items", &items, "items");
  arguments.Bytes("cache_size", &cache, "cache");
  arguments.Number("skew", &skew, "skew");
  arguments.Seconds("pause", &seconds, "pause");
  arguments.Integer("depth", &depth, "depth", -1, 10);
  arguments.Switch("json", &json, "as JSON");
  arguments.Choice("engine", &engine, {"a", "b"}, "engine");
  arguments.Texts("option", &options, "TEXT", "options");
  ASSERT_TRUE(Parse(&arguments, {"--items=5M", "path", "--cache-size", "64K", "--json", "--option", "x=1",
                                 "--option=y=2", "--pause=10ms"}))
      << arguments.error();
  EXPECT_EQ("path", db);
  EXPECT_EQ(5000000u, items);
  EXPECT_EQ(65536u, cache);
  EXPECT_EQ(0.99, skew);
  EXPECT_DOUBLE_EQ(0.01, seconds);
  EXPECT_EQ(-1, depth);
  EXPECT_TRUE(json);
  EXPECT_EQ("a", engine);
  EXPECT_EQ((std::vector<std::string>{"x=1", "y=2"}), options);
  EXPECT_TRUE(arguments.Given("cache_size"));
  EXPECT_TRUE(arguments.Given("cache-size"));
  EXPECT_FALSE(arguments.Given("skew"));
  EXPECT_EQ(kExitOk, arguments.exit_code());
}

TEST(Arguments, ErrorsNameTheFlagAndWhatItMayBe) {
  const struct {
    std::vector<std::string> words;
    const char* message;
  } cases[] = {
      {{}, "DB is missing"},
      {{"db", "more"}, "\"more\" is one argument too many"},
      {{"db", "--colour"}, "there is no flag --colour"},
      {{"db", "-x"}, "there is no flag -x"},
      {{"db", "--count"}, "--count needs a value"},
      {{"db", "--count", "-1"}, "--count is \"-1\"; it must be a whole number"},
      {{"db", "--count=1.5"}, "whole number"},
      {{"db", "--count=nan"}, "whole number"},
      {{"db", "--count="}, "whole number"},
      {{"db", "--count=18446744073709551616"}, "whole number"},
      {{"db", "--count=20000000000G"}, "whole number"},
      {{"db", "--count=0"}, "from 1 to 1000"},
      {{"db", "--count=1001"}, "from 1 to 1000"},
      {{"db", "--count=1", "--count=2"}, "given twice"},
      {{"db", "--number=nan"}, "--number is \"nan\"; it must be a number"},
      {{"db", "--number=inf"}, "a number"},
      {{"db", "--number=-0.5"}, "a number"},
      {{"db", "--number=1e999"}, "a number"},
      {{"db", "--number=0x10"}, "a number"},
      {{"db", "--bytes=1X"}, "bytes"},
      {{"db", "--bytes=-1K"}, "bytes"},
      {{"db", "--bytes=16777216T"}, "bytes"},
      {{"db", "--seconds=-1s"}, "a time"},
      {{"db", "--seconds=1e308h"}, "a time"},
      {{"db", "--switch=maybe"}, "true or false"},
      {{"db", "--choice=c"}, "one of a|b"},
      {{"db", "--integer=7x"}, "a whole number"},
      {{"db", "--integer=99999999999"}, "a whole number"},
  };
  for (const auto& c : cases) {
    std::string db;
    uint64_t count = 1;
    double number = 1;
    uint64_t bytes = 1;
    double seconds = 1;
    bool is_on = false;
    std::string choice = "a";
    int integer = 0;
    Arguments arguments("command", "Does it.");
    arguments.Positional("DB", &db, "the database");
    arguments.Count("count", &count, "", 1, 1000);
    arguments.Number("number", &number, "");
    arguments.Bytes("bytes", &bytes, "");
    arguments.Seconds("seconds", &seconds, "");
    arguments.Switch("switch", &is_on, "");
    arguments.Choice("choice", &choice, {"a", "b"}, "");
    arguments.Integer("integer", &integer, "");
    EXPECT_FALSE(Parse(&arguments, c.words)) << c.message;
    EXPECT_NE(std::string::npos, arguments.error().find(c.message)) << arguments.error();
    EXPECT_EQ(kExitUsage, arguments.exit_code());
  }
}

TEST(Arguments, HelpWinsOverErrorsAndNamesEverything) {
  std::string db;
  uint64_t count = 12;
  Arguments arguments("command", "Does it.");
  arguments.Positional("DB", &db, "the database");
  arguments.Count("some_count", &count, "how many");
  EXPECT_FALSE(Parse(&arguments, {"--nonsense", "--help"}));
  EXPECT_EQ(kExitOk, arguments.exit_code());
  const std::string help = arguments.HelpText();
  for (const char* part :
       {"Usage: cairn command DB [FLAG ...]", "Does it.", "the database", "--some-count N", "how many (default: 12)"}) {
    EXPECT_NE(std::string::npos, help.find(part)) << help;
  }
}

TEST(Arguments, TwoDashesEndTheFlags) {
  std::string db;
  Arguments arguments("command", "Does it.");
  arguments.Positional("DB", &db, "the database");
  ASSERT_TRUE(Parse(&arguments, {"--", "--help"}));
  EXPECT_EQ("--help", db);
}

TEST(Values, Units) {
  uint64_t value = 0;
  EXPECT_TRUE(ParseBytes("1.5GiB", &value));
  EXPECT_EQ(1610612736u, value);
  EXPECT_TRUE(ParseBytes("2GB", &value));
  EXPECT_EQ(2000000000u, value);
  EXPECT_TRUE(ParseBytes("0", &value));
  EXPECT_EQ(0u, value);
  EXPECT_TRUE(ParseBytes("18446744073709551615", &value));
  EXPECT_EQ(18446744073709551615u, value);
  EXPECT_FALSE(ParseBytes("0.3", &value));
  EXPECT_FALSE(ParseBytes("K", &value));
  EXPECT_FALSE(ParseBytes(" 1", &value));
  EXPECT_TRUE(ParseCount("2.5K", &value));
  EXPECT_EQ(2500u, value);
  double number = 0;
  EXPECT_TRUE(ParseNumber("-1e-3", &number));
  EXPECT_EQ(-0.001, number);
  EXPECT_TRUE(ParseSeconds("1.5h", &number));
  EXPECT_EQ(5400, number);
}

int Nothing(int, char**) { return kExitOk; }
const CommandRegistration kSecond("second", "Second", Nothing);
const CommandRegistration kFirst("first", "First", Nothing);

TEST(Commands, AreSortedAndFound) {
  ASSERT_EQ(2u, AllCommands().size());
  EXPECT_EQ("first", AllCommands()[0].name);
  ASSERT_NE(nullptr, FindCommand("second"));
  EXPECT_EQ("Second", FindCommand("second")->summary);
  EXPECT_EQ(nullptr, FindCommand("third"));
}

}  // namespace
}  // namespace cairn
