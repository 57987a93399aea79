#include "cairn/engines.h"

#include "gtest/gtest.h"
#include "rocksdb/memtablerep.h"
#include "rocksdb/port/open_into.h"
#include "rocksdb/table.h"
#include "test/support.h"

namespace cairn::test {
namespace {

TEST(EngineTextTest, EveryEngineByItsText) {
  for (const std::string& engine : EngineNames()) {
    SCOPED_TRACE(engine);
    const TempDir dir;
    Options options;
    options.create_if_missing = true;
    ASSERT_OK(UseEngineFromString("engine=" + engine, &options, &options));
    rocksdb::DB* db = nullptr;
    ASSERT_OK(rocksdb::DB::Open(options, dir / "db", port::Into(&db)));
    EXPECT_OK(db->Put(rocksdb::WriteOptions(), "a", "b"));
    std::string text;
    const bool shown = db->GetProperty("cairn.stats", &text);
    EXPECT_EQ(shown, engine != kStockEngine) << text;
    EXPECT_EQ(text.find("memtables: ") != std::string::npos,
              std::string(options.memtable_factory->Name()) == "cairn.SubMemTable")
        << text;
    delete db;
  }
}

TEST(EngineTextTest, OptionsOfAnEngine) {
  Options options;
  ASSERT_OK(UseEngineFromString("engine=ordered;runs=9;order_bits=7", &options, &options));
  EXPECT_EQ(options.level0_file_num_compaction_trigger, 9);
  ASSERT_OK(UseEngineFromString("engine=sub_memtables;segment_size=64K;pool_size=1M", nullptr, &options));
  EXPECT_STREQ(options.memtable_factory->Name(), "cairn.SubMemTable");
  ASSERT_OK(UseEngineFromString("engine=trie", &options, nullptr));
  EXPECT_EQ(options.listeners.size(), 1u);
}

TEST(EngineTextTest, AWrongTextIsNamedAndChangesNothing) {
  for (const char* text : {"", "ordered", "engine=", "engine=no_such", "engine=ordered;run=9", "engine=ordered;runs=x",
                           "engine=sub_memtables;pice_size=1M", "engine=stock;a=b", "engine=trie;fan_out=3"}) {
    Options options;
    const Status s = UseEngineFromString(text, &options, &options);
    EXPECT_TRUE(s.IsInvalidArgument()) << text << ": " << s.ToString();
    EXPECT_STREQ(options.memtable_factory->Name(), "SkipListFactory") << text;
    EXPECT_STREQ(options.table_factory->Name(), "BlockBasedTable") << text;
    EXPECT_TRUE(options.listeners.empty());
  }
}

}  // namespace
}  // namespace cairn::test
