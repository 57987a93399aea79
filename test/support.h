// What the tests of this folder share: seeds that can be replayed, temporary folders, and the table of engines.

#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "gtest/gtest.h"
#include "rocksdb/db.h"
#include "rocksdb/merge_operator.h"
#include "rocksdb/options.h"
#include "rocksdb/status.h"
#include "test/testutil/assert_ok.h"
#include "test/testutil/random.h"
#include "test/testutil/temp_dir.h"

namespace cairn::test {

// CAIRN_SEED if it is set, else a fresh one.
uint64_t SeedFromEnvironment();

// The number in the environment variable `name`, or `otherwise`.
uint64_t NumberFromEnvironment(const char* name, uint64_t otherwise);

// One way to keep a column family. Later engines (another table format, another memtable) add a line to the table in
// support.cc, and every test that is parameterised by engine runs on them.
struct Engine {
  const char* name;
  // Makes *options, which hold BaseOptions, those of the engine, with sizes so small that files move through all depths
  // within seconds. May be called several times with other column family options over the same database options.
  rocksdb::Status (*fill)(rocksdb::Options* options);
  bool trie;
  // Depth below the root that a run of some seconds reaches; 0 if it makes no promise.
  int depth;
};

const std::vector<Engine>& Engines();
const Engine* FindEngine(const std::string& name);

// Prints an engine's name in the test's name.
std::string EngineName(const ::testing::TestParamInfo<Engine>& info);
void PrintTo(const Engine& engine, std::ostream* out);

// Small write buffers and blocks, two background jobs, create_if_missing.
rocksdb::Options BaseOptions();

// BaseOptions filled by the engine; a failure fails the test.
rocksdb::Options OptionsOf(const Engine& engine);

// Opens by the function of TransactionDB, OptimisticTransactionDB or DBWithTTL; a failure fails the test.
template <class Database, class... Arguments>
std::unique_ptr<Database> OpenedAs(const Arguments&... arguments) {
  Database* db = nullptr;
  EXPECT_OK(Database::Open(arguments..., &db));
  return std::unique_ptr<Database>(db);
}

// Compacts a whole column family by the means of its engine.
rocksdb::Status CompactAll(rocksdb::DB* db, rocksdb::ColumnFamilyHandle* column_family, bool trie);

// Merge operator: the last operand stands, behind it the operator's name if that is another.
class LastOperator : public rocksdb::AssociativeMergeOperator {
 public:
  explicit LastOperator(const char* name = "Last") : name_(name) {}
  const char* Name() const override { return name_; }
  bool Merge(const rocksdb::Slice& /*key*/, const rocksdb::Slice* /*existing*/, const rocksdb::Slice& value,
             std::string* result, rocksdb::Logger* /*logger*/) const override {
    *result = value.ToString() + (std::string(name_) == "Last" ? "" : name_);
    return true;
  }

 private:
  const char* const name_;
};

// The deepest depth that holds files (the level for an engine that is no trie).
int DeepestDepth(rocksdb::DB* db, rocksdb::ColumnFamilyHandle* column_family, bool trie);

}  // namespace cairn::test
