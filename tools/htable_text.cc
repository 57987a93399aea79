#include "tools/htable_text.h"

#include <cinttypes>
#include <cstdio>
#include <memory>

#include "rocksdb/env.h"
#include "trie_table/htable/htable_dump.h"

namespace cairn {

using rocksdb::Status;

namespace {

// Standard output, as the dump wants it.
class StandardOutput : public rocksdb::WritableFile {
 public:
  using rocksdb::WritableFile::Append;
  Status Append(const rocksdb::Slice& bytes) override {
    return std::fwrite(bytes.data(), 1, bytes.size(), stdout) == bytes.size() ? Status::OK()
                                                                              : Status::IOError("standard output");
  }
  uint64_t GetFileSize() override { return 0; }
  Status Close() override { return Status::OK(); }
  Status Flush() override { return Status::OK(); }
  Status Sync() override { return Status::OK(); }
};

}  // namespace

Status PrintHTable(const std::string& path, const HTableText& what, uint64_t* read) {
  if (read != nullptr) *read = 0;
  std::shared_ptr<HTableFile> file;
  KeyHash hash;
  Status s = OpenHTable(path, &file, &hash);
  if (!s.ok()) return s;
  if (what.description) {
    std::string text;
    s = DescribeHTable(*file, &text);
    if (!s.ok()) return s;
    std::printf("%s\nProperties\n  %s\n", text.c_str(), file->properties()->ToString("\n  ", ": ").c_str());
  }
  if (what.entries) {
    StandardOutput out;
    s = DumpHTableEntries(*file, hash, what.most_entries, what.silent ? nullptr : &out, read);
  }
  if (s.ok() && what.verify) {
    s = VerifyHTable(*file, hash);
    if (s.ok()) std::printf("%" PRIu64 " entries, every checksum matches\n", file->header().entries);
  }
  if (s.ok() && what.properties) {
    std::printf("Table Properties:\n------------------------------\n  %s\n",
                file->properties()->ToString("\n  ", ": ").c_str());
  }
  return s;
}

}  // namespace cairn
