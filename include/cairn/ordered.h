// cairn.OrderedTable: RocksDB's block-based table with an order filter, so that a seek reads the tables that hold what
// it returns, and not a block of every sorted run.
//
//   options.table_factory.reset(cairn::NewOrderedTableFactory(block_based_options));
//
// or as an option string, which takes every field of BlockBasedTableOptions beside its own:
// table_factory={id=cairn.OrderedTable;order_bits=6;filter_policy=bloomfilter:10:false;block_size=4096}
//
// It works under plain rocksdb::DB::Open, with every compaction style. Files stay RocksDB's own: a program without
// Cairn reads them, Bloom filter and all, and passes over the order filter; changing back is another table factory, no
// conversion.
//
// What it does not do: without the bytewise comparator, and with user timestamps, it is the block-based table.
// Iterators that are tailing, pin their data, or count what they skip (max_skippable_internal_keys) seek as RocksDB's
// do.
//
// Bytes and protocol: docs/design/ordered.md.
#pragma once

#include <cstdint>
#include <string>

#include "rocksdb/db.h"
#include "rocksdb/options.h"
#include "rocksdb/status.h"
#include "rocksdb/table.h"

namespace cairn {

// What an ordered table has beyond a block-based one.
struct OrderFilterOptions {
  // Bits per key of the order filters of tables with nothing older below them, 2.5 to 20; 0: no order filters. Each bit
  // halves the share of seeks that read a table in vain, 2^(2 - bits) of them where keys lie evenly. Uneven keys
  // (paths, URLs) take up to three times as many.
  double order_bits = 6;

  // What the tables above those have in addition. They are the smaller part of the keys and the larger part of the
  // runs, so that their bits save more.
  double extra_order_bits = 3;

  // A table with so many tombstones in a row, but for one other key in 16, is compacted further as soon as nothing else
  // is due: a scan would pass over each of them, at about 0.1 us. In level 0 they must be an eighth of the table's keys
  // as well. 0: never.
  uint32_t tombstone_run = 512;
};

// `table`: how the blocks are kept; its filter policy answers point lookups as ever. The caller owns the factory.
rocksdb::TableFactory* NewOrderedTableFactory(const rocksdb::BlockBasedTableOptions& table,
                                              const OrderFilterOptions& filter = OrderFilterOptions());

// What seeks of one factory's tables came to since it was made. Iterators add what they did when they are destroyed,
// and every few hundred seeks.
struct OrderedSeekStats {
  uint64_t deferred = 0;         // answered without I/O by a lower bound of the table's next key
  uint64_t resolved = 0;         // ... and read later, because the scan came there
  uint64_t resolved_unused = 0;  // ... and nobody asked for what was found: the filter's error, or an older entry
  uint64_t past_end = 0;         // answered without I/O: no key at or above the target
  uint64_t past_bound = 0;       // answered without I/O: the next key is at or above iterate_upper_bound
  uint64_t direct = 0;           // read at once, because the filter could not tell the target from a key, or at hand
  uint64_t direct_unused = 0;    // ... and nobody asked for what was found, as above
  uint64_t unfiltered = 0;       // read at once for another reason: no order filter, or no order filter in memory

  // Seeks of tables that read no block.
  uint64_t saved() const { return deferred - resolved + past_end + past_bound; }
};

struct OrderedStats {
  uint64_t runs = 0;  // sorted runs that a seek goes through: files of level 0, and levels that are not empty
  uint64_t files = 0;
  uint64_t bytes = 0;
  uint64_t filter_keys = 0;   // user keys of the tables that have an order filter, each table's on its own
  uint64_t filter_bytes = 0;  // of the order filters
  double filter_error = 0;    // estimated share of targets that an order filter cannot tell from a key
  OrderedSeekStats seeks;     // since this process opened the database
};

// InvalidArgument if the column family's table factory is no cairn.OrderedTable.
rocksdb::Status GetOrderedStats(rocksdb::DB* db, rocksdb::ColumnFamilyHandle* column_family, OrderedStats* stats);
std::string OrderedStatsToTable(const OrderedStats& stats, const std::string& column_family);
std::string OrderedStatsToJson(const OrderedStats& stats, const std::string& column_family);

struct OrderedOptions {
  // "universal", or "trie": a trie in key order (docs/design/ordered_trie.md), which writes somewhat more, but in
  // compactions of at most a few write buffers each, and keeps a bound on space. `runs` are then the write buffers of
  // one such compaction, and the universal options mean nothing. The database takes cairn::UseTrieCompaction (trie.h)
  // as well.
  std::string compaction = "universal";
  // Sorted runs at which universal compaction merges.
  int runs = 16;
  // Universal compaction's options of these names. A short scan reads a block of each run that holds one of its rows,
  // so it pays for the entries above the last run, and for the number of runs that have a large share of them.
  // RocksDB's 200 and 1 let these grow to twice the last run, in runs of one size: ten rows take 4.2 blocks on average
  // and 7.6 at worst, instead of 2.7 and 3.4, though two fifths fewer bytes are written. Leveled compaction writes
  // twice as many.
  int max_size_amplification_percent = 50;
  int size_ratio = 100;
  // Bits per key of the Bloom filters, at most 100; negative: as the options have it. The order filters see most keys
  // of which a Bloom filter errs; 8.5 keep near misses, which they do not see, below 2 %.
  double filter_bits = 8.5;
  OrderFilterOptions order;
  // Of compaction=trie: TrieOptions::space_bound.
  double space_bound = 1.6;
};

// For programs that scan: few bytes written per byte, as many runs as that takes, and seeks that do not pay for them.
// Universal compaction at OrderedOptions::runs sorted runs, and cairn.OrderedTable with what the options hold of
// block-based tables. Sub-MemTables (memtable.h) go well with it. NotSupported if the options hold another table
// format, or a comparator that is not bytewise.
rocksdb::Status UseOrdered(rocksdb::ColumnFamilyOptions* options, const OrderedOptions& ordered = OrderedOptions());

// The table alone, with the compaction that the options have.
rocksdb::Status UseOrderedTable(rocksdb::ColumnFamilyOptions* options,
                                const OrderedOptions& ordered = OrderedOptions());

// True if the options' tables are ordered ones.
bool IsOrdered(const rocksdb::ColumnFamilyOptions& options);

// Parses "runs=8;order_bits=7;...": fields not named keep their value in *options.
rocksdb::Status OrderedOptionsFromString(const std::string& text, OrderedOptions* options);

}  // namespace cairn
