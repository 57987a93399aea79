// The default memtable of RocksDB's test programs. It is defined in the program, so the loader takes it for every
// caller, the library's own code included; the programs themselves stay as upstream wrote them. With
// CAIRN_UPSTREAM_MEMTABLES=sub_memtables in the environment, whoever names no memtable gets sub-MemTables; who names
// one, gets that. (Default tables are changed by CAIRN_OPTIONS, docs/guide/switch_on.md.)
#include <cstdlib>
#include <cstring>

#include "cairn/memtable.h"
#include "rocksdb/options.h"
#include "rocksdb/table.h"

namespace rocksdb {

ColumnFamilyOptions::ColumnFamilyOptions() {
  compression = kSnappyCompression;
  table_factory.reset(NewBlockBasedTableFactory());
  static const char* const memtables = getenv("CAIRN_UPSTREAM_MEMTABLES");
  if (memtables == nullptr || strcmp(memtables, "sub_memtables") != 0) return;
  // The factory's own code may make options, too.
  thread_local bool within = false;
  if (within) return;
  within = true;
  memtable_factory = cairn::NewSubMemTableFactory();
  within = false;
}

}  // namespace rocksdb
