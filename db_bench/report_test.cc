#include "db_bench/report.h"

#include <gtest/gtest.h>

#include <limits>

namespace cairn {
namespace bench {
namespace {

TEST(Human, UnitsArePowersOf1000) {
  EXPECT_EQ(HumanBytes(0), "0 B");
  EXPECT_EQ(HumanBytes(999), "999 B");
  EXPECT_EQ(HumanBytes(1000), "1.00 KB");
  EXPECT_EQ(HumanBytes(123456789), "123 MB");
  EXPECT_EQ(HumanBytes(7.38e9), "7.38 GB");
}

TEST(Table, ColumnsLineUp) {
  EXPECT_EQ(AlignTable({{"", "leveled", "trie"}, {"rate", "5", "12345"}, {"\xc3\xa4", "1", "2"}}),
            "      leveled   trie\n"
            "rate        5  12345\n"
            "\xc3\xa4           1      2\n");
}

TEST(Json, NestsAndEscapes) {
  JsonWriter json;
  json.BeginObject().Add("text", "a\"b\\\n").Add("count", uint64_t{18446744073709551615u});
  json.BeginArray("rates").AddElement(1.5).AddElement(2).EndArray();
  json.BeginObject("empty").EndObject();
  json.Add("bad", std::numeric_limits<double>::quiet_NaN()).EndObject();
  EXPECT_EQ(json.text(),
            "{\n"
            "  \"text\": \"a\\\"b\\\\\\u000a\",\n"
            "  \"count\": 18446744073709551615,\n"
            "  \"rates\": [\n    1.5,\n    2\n  ],\n"
            "  \"empty\": {},\n"
            "  \"bad\": null\n"
            "}\n");
}

TEST(WriteTextFileTest, NamesTheFileThatCannotBeWritten) {
  rocksdb::Status s = WriteTextFile("/nonexistent/x.json", "{}");
  EXPECT_TRUE(s.IsIOError());
  EXPECT_NE(s.ToString().find("/nonexistent/x.json"), std::string::npos);
}

}  // namespace
}  // namespace bench
}  // namespace cairn
