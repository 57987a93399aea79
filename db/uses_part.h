// Whether a database, or one of its column families, uses the part of Cairn that a function of RocksDB's is replaced
// for.
//
// Every function that takes the place of one of RocksDB's (rocksdb/rocksdb_hooks.txt) begins with one line, and does
// nothing before it:
//
//   if (!UsesPart(...)) return own::Function(this, ...);
//
// so that who does not use the part gets what RocksDB's own function returns. docs/architecture.md has the rule.
//
// Of a client's object only the name is asked, or which class it is by the address of its type information: it may have
// been compiled without any.
//
// Thread-safety: safe.

#pragma once

#include <typeinfo>

#include "db/cairn_db.h"
#include "db/column_family.h"
#include "db/db_impl/db_impl.h"
#include "db/version_set.h"
#include "memtable_cache/fast_writes.h"
#include "memtable_cache/sub_memtable.h"
#include "rocksdb/port/column_family.h"
#include "table/block_based/block_based_table_factory.h"
#include "table/hash_order/hash_order.h"
#include "table/ordered/ordered_table.h"
#include "trie_table/compaction/trie_partitioner.h"
#include "util/cairn_parts.h"

namespace cairn {

// Any part that the database has to know of: it is a CairnDB. One that is open for reading only never is.
inline bool UsesCairn(rocksdb::DBImpl* db) { return CairnDB::Of(db) != nullptr; }

// A pool file in the place of the WAL.
inline bool UsesDurablePool(rocksdb::DBImpl* db) {
  CairnDB* const ours = CairnDB::Of(db);
  return ours != nullptr && ours->services()->durable() != nullptr;
}

// Any part that shows in a column family's options, in a database that is open for reading, too.
inline bool UsesCairn(const rocksdb::ColumnFamilyData& family) {
  return IsCairnName(port::MutableOptionsOf(family).table_factory->Name()) ||
         IsCairnName(port::ImmutableOptionsOf(family).memtable_factory->Name()) ||
         IsCairnName(family.user_comparator()->Name());
}

// Writes that do not queue; the queue is a part of the database's object.
inline FastWrites* UsesFastWrites(const rocksdb::WriteThread* queue) { return FastWrites::Around(queue); }

// Keys in hash order: a trie's, a SILT store's.
inline bool UsesHashOrder(const rocksdb::Comparator* comparator) { return HashOfComparator(comparator) != nullptr; }
inline bool UsesHashOrder(const rocksdb::ColumnFamilyHandle* family) {
  return family != nullptr && UsesHashOrder(family->GetComparator());
}

// A trie, in either order. Null: it is none.
inline const TriePartitionerFactory* UsesTrie(const rocksdb::ImmutableOptions& options) {
  const auto& partitioner = options.sst_partitioner_factory;
  return partitioner == nullptr ? nullptr : partitioner->CheckedCast<TriePartitionerFactory>();
}

// Ordered tables, which may go by the name of RocksDB's own.
inline bool UsesOrderedTables(rocksdb::Version* version) {
  const rocksdb::TableFactory& tables = *version->GetMutableCFOptions().table_factory;
  return &typeid(tables) == &typeid(OrderedTableFactory);
}

// Tables whose filters a lookup may ask all at once. Asked for each lookup, so RocksDB's own tables are known without a
// call.
inline bool UsesCairnTables(rocksdb::Version* version) {
  const rocksdb::TableFactory& tables = *version->GetMutableCFOptions().table_factory;
  return &typeid(tables) != &typeid(rocksdb::BlockBasedTableFactory) &&
         (UsesOrderedTables(version) || IsCairnName(tables.Name()));
}

inline bool UsesSubMemTables(const rocksdb::MemTableRep& table) { return &typeid(table) == &typeid(SubMemTable); }

}  // namespace cairn
