#include "tools/htable_text.h"

#include <cinttypes>
#include <cstdio>
#include <memory>

#include "trie_table/htable/htable_dump.h"
#include "util/rocksdb_names.h"

namespace cairn {

Status PrintHTable(const std::string& path, const HTableText& what) {
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
    s = DumpHTableEntries(*file, hash, [](const std::string& line) {
      return std::fputs(line.c_str(), stdout) >= 0 ? Status::OK() : Status::IOError("standard output");
    });
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
