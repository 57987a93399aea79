#include "rocksdb/port/block_based.h"

#include <cstdint>
#include <string>

#include "gtest/gtest.h"
#include "rocksdb/port/rocksdb_version.h"
#include "table/block_based/data_block_footer.h"
#include "util/coding.h"

namespace cairn::port {
namespace {

// RocksDB 11 looks itself.
#if !CAIRN_ROCKSDB_AT_LEAST(11, 0)
TEST(FindRestartsTest, RefusesAHashIndexLongerThanItsBlock) {
  const auto find = [](uint16_t buckets, uint32_t* end) {
    std::string block(20, '\0');
    rocksdb::PutFixed16(&block, buckets);
    rocksdb::PutFixed32(
        &block, rocksdb::PackIndexTypeAndNumRestarts(rocksdb::BlockBasedTableOptions::kDataBlockBinaryAndHash, 1));
    uint32_t count = 0;
    return FindRestarts(block, &count, end) && count == 1;
  };
  uint32_t end = 0;
  EXPECT_TRUE(find(5, &end));
  EXPECT_EQ(15u, end);
  EXPECT_TRUE(find(20, &end));
  EXPECT_EQ(0u, end);
  EXPECT_FALSE(find(21, &end));
  EXPECT_FALSE(find(UINT16_MAX, &end));
}
#endif

}  // namespace
}  // namespace cairn::port
