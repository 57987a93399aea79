// What comes to a database from elsewhere: a table to ingest, a column family to import.

#pragma once

#include <memory>
#include <string>
#include <vector>

#include "gtest/gtest.h"
#include "rocksdb/db.h"
#include "rocksdb/sst_file_writer.h"
#include "rocksdb/utilities/checkpoint.h"
#include "test/testutil/assert_ok.h"

namespace cairn {
namespace test {

// A block-based table of these keys, which are in order, each with the value "ingested". Returns `path`.
inline std::string WriteTable(const std::string& path, const std::vector<std::string>& keys) {
  rocksdb::SstFileWriter file{rocksdb::EnvOptions(), rocksdb::Options()};
  EXPECT_OK(file.Open(path));
  for (const std::string& key : keys) EXPECT_OK(file.Put(key, "ingested"));
  EXPECT_OK(file.Finish());
  return path;
}

// The default column family, into a folder that is not there yet.
inline std::unique_ptr<rocksdb::ExportImportFilesMetaData> Export(rocksdb::DB* db, const std::string& folder) {
  rocksdb::Checkpoint* made = nullptr;
  EXPECT_OK(rocksdb::Checkpoint::Create(db, &made));
  const std::unique_ptr<rocksdb::Checkpoint> checkpoint(made);
  rocksdb::ExportImportFilesMetaData* exported = nullptr;
  EXPECT_OK(checkpoint->ExportColumnFamily(db->DefaultColumnFamily(), folder, &exported));
  return std::unique_ptr<rocksdb::ExportImportFilesMetaData>(exported);
}

}  // namespace test
}  // namespace cairn
