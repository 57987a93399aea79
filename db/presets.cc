// Sets RocksDB's options up for a Cairn engine.

#include <algorithm>
#include <memory>
#include <utility>

#include "cairn/ordered.h"
#include "cairn/silt.h"
#include "cairn/trie.h"
#include "rocksdb/filter_policy.h"
#include "rocksdb/table.h"
#include "table/ect/ect_table.h"
#include "table/ect/hash_order_table.h"
#include "table/hash_order/hash_order.h"
#include "table/hash_order/hash_order_options.h"
#include "table/ordered/ordered_table.h"
#include "table/silt/silt_merges.h"
#include "table/silt/silt_table.h"
#include "trie_table/compaction/trie_files.h"
#include "trie_table/compaction/trie_options.h"
#include "trie_table/compaction/trie_partitioner.h"
#include "trie_table/compaction/trie_scheduler.h"
#include "trie_table/htable/htable_table.h"
#include "util/class_of.h"
#include "util/listeners.h"
#include "util/rocksdb_names.h"

namespace cairn {

namespace {

constexpr int kNoTrigger = 1 << 20;

// *order gets the one that an engine's options name.
Status PrepareForHash(const std::string& hash, uint64_t seed, rocksdb::ColumnFamilyOptions* options,
                      const rocksdb::Comparator** order) {
  HashKind kind = HashKind::kXxh3;
  Status s = PrepareForHashOrder(options);
  if (s.ok()) s = ParseHashKind(hash, &kind);
  if (s.ok()) *order = seed == kRandomSeed ? OpenSeedComparator(kind) : HashOrderComparator(kind, seed);
  return s;
}

// The format that options hold below the wrapper that UseTrie puts around it; null: RocksDB's default.
std::shared_ptr<rocksdb::TableFactory> FormatOf(const rocksdb::ColumnFamilyOptions& options) {
  const auto* wrapper = AsInstanceOf<HashOrderTableFactory>(options.table_factory.get());
  return wrapper == nullptr ? options.table_factory : wrapper->table();
}

// The format to write: the trie's choice, with what the options hold of block-based tables, or a foreign format that
// they hold.
std::shared_ptr<rocksdb::TableFactory> FormatFor(const rocksdb::ColumnFamilyOptions& options,
                                                 const HashTrieOptions& trie) {
  const std::shared_ptr<rocksdb::TableFactory> format = FormatOf(options);
  const auto* htable = AsInstanceOf<HTableFactory>(format.get());
  const bool block_based = format == nullptr || format->IsInstanceOf(rocksdb::TableFactory::kBlockBasedTableName());
  if (htable == nullptr && !block_based) return format;
  const auto* table = format == nullptr ? nullptr : format->GetOptions<rocksdb::BlockBasedTableOptions>();
  rocksdb::BlockBasedTableOptions block_options;
  if (table != nullptr) block_options = *table;
  block_options.filter_policy.reset(trie.filter_bits > 0 ? rocksdb::NewBloomFilterPolicy(trie.filter_bits) : nullptr);
  std::shared_ptr<rocksdb::TableFactory> blocks(rocksdb::NewBlockBasedTableFactory(block_options));
  if (trie.format == kTrieFormatSst) return blocks;
  HTableOptions htable_options;
  // Its filters have 6 to 20 bits per key, or none.
  htable_options.filter.bits_per_key = trie.filter_bits == 0 ? 0 : std::clamp(trie.filter_bits, 6.0, 20.0);
  if (htable != nullptr) htable_options = htable->options();
  htable_options.table = std::move(blocks);
  return std::make_shared<HTableFactory>(htable_options);
}

// What tables with nothing older below them are written in; null: the same format.
Status BottommostFor(const rocksdb::ColumnFamilyOptions& options, const HashTrieOptions& trie,
                     const rocksdb::TableFactory& format, std::shared_ptr<rocksdb::TableFactory>* bottommost) {
  if (trie.bottommost_format == kTrieFormatSame) return Status::OK();
  const auto* blocks = format.GetOptions<rocksdb::BlockBasedTableOptions>();
  if (blocks == nullptr) {
    return Status::NotSupported("bottommost_format=ect with the table factory " + std::string(format.Name()),
                                "set a block-based table or a cairn.HTable, or bottommost_format=same");
  }
  EctTableOptions table;
  const auto* wrapper = AsInstanceOf<HashOrderTableFactory>(options.table_factory.get());
  const auto* before = wrapper == nullptr ? nullptr : AsInstanceOf<EctTableFactory>(wrapper->bottommost().get());
  if (before != nullptr) table = before->options();
  *bottommost = NewEctTableFactoryLike(*blocks, table);
  return Status::OK();
}

// Ordered tables with what the options hold of block-based ones; of other comparators than the bytewise one they are
// block-based tables with the facts that the picker wants.
Status UseTablesInKeyOrder(rocksdb::ColumnFamilyOptions* options, const KeyTrieOptions& trie) {
  if (IsOrdered(*options)) return Status::OK();
  rocksdb::BlockBasedTableOptions table;
  if (options->table_factory != nullptr) {
    const auto* given = options->table_factory->GetOptions<rocksdb::BlockBasedTableOptions>();
    if (given == nullptr) {
      return Status::NotSupported(
          "a trie with order=key over the table factory " + std::string(options->table_factory->Name()),
          "set a block-based table or a cairn.OrderedTable");
    }
    table = *given;
  }
  // A filter goes by the bytes of keys. Where others may be equal, who wants one brings one that knows when.
  const bool by_bytes = !options->comparator->CanKeysWithDifferentByteContentsBeEqual();
  if (trie.filter_bits == 0) {
    table.filter_policy = nullptr;
  } else if (by_bytes) {
    table.filter_policy.reset(rocksdb::NewBloomFilterPolicy(trie.filter_bits));
  }
  options->table_factory = std::make_shared<OrderedTableFactory>(table);
  return Status::OK();
}

// Of RocksDB's own options those that say how files lie on levels, and when they are compacted.
void UseTrieLevels(rocksdb::ColumnFamilyOptions* options, const TrieOptionText& trie) {
  options->sst_partitioner_factory = std::make_shared<TriePartitionerFactory>(trie);
  options->num_levels = TrieLevels(trie);
  options->compaction_style = rocksdb::kCompactionStyleNone;
  options->level_compaction_dynamic_level_bytes = false;
  options->disable_auto_compactions = false;
  // trie_table/compaction/write_throttle.h says why RocksDB must not stall writers by itself.
  options->level0_file_num_compaction_trigger = trie.root_trigger;
  options->level0_slowdown_writes_trigger = kNoTrigger;
  options->level0_stop_writes_trigger = kNoTrigger;
}

}  // namespace

Status UseTrie(rocksdb::ColumnFamilyOptions* options, const HashTrieOptions& trie) {
  Status s = ValidateTrieOptions(trie);
  const rocksdb::Comparator* order = nullptr;
  if (s.ok()) s = PrepareForHash(trie.hash, trie.seed, options, &order);
  if (!s.ok()) return s;
  std::shared_ptr<rocksdb::TableFactory> format = FormatFor(*options, trie);
  std::shared_ptr<rocksdb::TableFactory> bottommost;
  s = BottommostFor(*options, trie, *format, &bottommost);
  if (!s.ok()) return s;
  options->comparator = order;
  options->table_factory = std::make_shared<HashOrderTableFactory>(std::move(format), std::move(bottommost));
  UseTrieLevels(options, trie);
  return Status::OK();
}

Status UseTrie(rocksdb::ColumnFamilyOptions* options, const KeyTrieOptions& trie) {
  Status s = ValidateTrieOptions(trie);
  rocksdb::ColumnFamilyOptions changed = *options;
  if (s.ok()) s = ObeyAges("a trie in key order", &changed);
  if (s.ok()) s = UseTablesInKeyOrder(&changed, trie);
  if (!s.ok()) return s;
  UseTrieLevels(&changed, trie);
  s = CheckTrieOptions(changed);
  if (s.ok()) *options = std::move(changed);
  return s;
}

Status UseTrie(rocksdb::ColumnFamilyOptions* options, const TrieOptionText& trie) {
  Status s = ValidateTrieOptions(trie);
  if (!s.ok()) return s;
  s = trie.in_key_order() ? UseTrie(options, trie.key_order()) : UseTrie(options, trie.hash_order());
  // With the options that mean nothing in its order, so that its option string says what this one did.
  if (s.ok()) options->sst_partitioner_factory = std::make_shared<TriePartitionerFactory>(trie);
  return s;
}

Status UseTrieCompaction(rocksdb::DBOptions* options) {
  AddListener<TrieListener>(options);
  return Status::OK();
}

namespace {

template <class Trie>
Status UseTrieAndCompaction(rocksdb::Options* options, const Trie& trie) {
  const Status s = UseTrie(static_cast<rocksdb::ColumnFamilyOptions*>(options), trie);
  return s.ok() ? UseTrieCompaction(options) : s;
}

}  // namespace

Status UseTrie(rocksdb::Options* options, const HashTrieOptions& trie) { return UseTrieAndCompaction(options, trie); }
Status UseTrie(rocksdb::Options* options, const KeyTrieOptions& trie) { return UseTrieAndCompaction(options, trie); }
Status UseTrie(rocksdb::Options* options, const TrieOptionText& trie) { return UseTrieAndCompaction(options, trie); }

namespace {

Status UseOrderedTrie(rocksdb::ColumnFamilyOptions* options, const OrderedOptions& ordered) {
  rocksdb::ColumnFamilyOptions changed = *options;
  // The trie itself takes any comparator, the order filters of its tables only one.
  Status s = UseOrderedTable(&changed, ordered);
  KeyTrieOptions trie;
  trie.root_trigger = ordered.runs;
  trie.space_bound = ordered.space_bound;
  if (s.ok()) s = UseTrie(&changed, trie);
  if (s.ok()) *options = std::move(changed);
  return s;
}

}  // namespace

Status UseOrdered(rocksdb::ColumnFamilyOptions* options, const OrderedOptions& ordered) {
  if (ordered.runs < 2) {
    return Status::InvalidArgument("option runs of ordered tables is " + std::to_string(ordered.runs),
                                   "it may be 2 or more");
  }
  if (ordered.max_size_amplification_percent < 1) {
    return Status::InvalidArgument("option max_size_amplification_percent of ordered tables is " +
                                       std::to_string(ordered.max_size_amplification_percent),
                                   "it may be 1 or more");
  }
  if (ordered.size_ratio < 0) {
    return Status::InvalidArgument("option size_ratio of ordered tables is " + std::to_string(ordered.size_ratio),
                                   "it may be 0 or more");
  }
  if (ordered.compaction != kOrderedByTrie && ordered.compaction != "universal") {
    return Status::InvalidArgument("option compaction of ordered tables is \"" + ordered.compaction + "\"",
                                   "it may be universal or trie");
  }
  if (ordered.compaction == kOrderedByTrie) return UseOrderedTrie(options, ordered);
  const Status s = UseOrderedTable(options, ordered);
  if (!s.ok()) return s;
  options->compaction_options_universal.max_size_amplification_percent =
      static_cast<unsigned>(ordered.max_size_amplification_percent);
  options->compaction_options_universal.size_ratio = static_cast<unsigned>(ordered.size_ratio);
  options->compaction_style = rocksdb::kCompactionStyleUniversal;
  options->level0_file_num_compaction_trigger = ordered.runs;
  // Writers wait where compaction falls behind by as many runs again.
  options->level0_slowdown_writes_trigger = std::max(options->level0_slowdown_writes_trigger, 2 * ordered.runs);
  options->level0_stop_writes_trigger = std::max(options->level0_stop_writes_trigger, 3 * ordered.runs);
  return s;
}

namespace {

// The last level takes everything, however much that is.
constexpr uint64_t kNoLimit = uint64_t{1} << 60;

// RocksDB counts the HashStores.
void UseSiltLevels(rocksdb::ColumnFamilyOptions* options, const SiltOptions& silt) {
  options->sst_partitioner_factory = nullptr;
  options->compaction_style = rocksdb::kCompactionStyleLevel;
  options->num_levels = kSiltLevels;
  options->level_compaction_dynamic_level_bytes = false;
  options->max_bytes_for_level_base = kNoLimit;
  options->max_compaction_bytes = kNoLimit;
  const int most = MaxHashStores(silt);
  options->level0_file_num_compaction_trigger = most;
  options->level0_slowdown_writes_trigger = most + 2 * silt.merge_trigger;
  options->level0_stop_writes_trigger = options->level0_slowdown_writes_trigger + silt.merge_trigger;
}

// A trie of one depth. A flushed table is cut at once: what waits in level 0 would be garbage of all partitions.
HashTrieOptions PartitionsOf(const SiltOptions& silt) {
  HashTrieOptions trie;
  trie.hash = silt.hash;
  trie.seed = silt.seed;
  trie.fan_out = silt.partitions;
  trie.slots = kSlotsOfAPartition;
  trie.trigger = MaxHashStores(silt);
  trie.depth = 1;
  trie.root_trigger = 1;
  trie.space_bound = silt.space_bound;
  return trie;
}

}  // namespace

Status UseSilt(rocksdb::ColumnFamilyOptions* options, const SiltOptions& silt) {
  Status s = ValidateSiltOptions(silt);
  const rocksdb::Comparator* order = nullptr;
  if (s.ok()) s = PrepareForHash(silt.hash, silt.seed, options, &order);
  if (!s.ok()) return s;
  const rocksdb::BlockBasedTableOptions* blocks = nullptr;
  if (silt.table.table == nullptr && options->table_factory != nullptr &&
      options->table_factory->IsInstanceOf(rocksdb::TableFactory::kBlockBasedTableName())) {
    blocks = options->table_factory->GetOptions<rocksdb::BlockBasedTableOptions>();
  }
  const std::shared_ptr<rocksdb::TableFactory> table =
      blocks != nullptr ? NewEctTableFactoryLike(*blocks, silt.table) : std::make_shared<EctTableFactory>(silt.table);
  options->comparator = order;
  options->table_factory = std::make_shared<SiltTableFactory>(
      table, SiltMergeOptions{silt.partitions, silt.space_bound, silt.merge_trigger, silt.max_hash_stores});
  if (silt.partitions == 1) {
    UseSiltLevels(options, silt);
  } else {
    UseTrieLevels(options, PartitionsOf(silt));
  }
  return s;
}

Status UseSiltMerges(rocksdb::DBOptions* options, const SiltOptions& silt) {
  const Status s = ValidateSiltOptions(silt);
  if (!s.ok()) return s;
  if (silt.partitions > 1) return UseTrieCompaction(options);
  options->max_subcompactions = std::max(options->max_subcompactions, silt.merge_threads);
  AddListener<SiltMerges>(options);
  return s;
}

Status UseSilt(rocksdb::Options* options, const SiltOptions& silt) {
  const Status s = UseSilt(static_cast<rocksdb::ColumnFamilyOptions*>(options), silt);
  return s.ok() ? UseSiltMerges(options, silt) : s;
}

bool IsTrie(const rocksdb::ColumnFamilyOptions& options) {
  return AsTriePartitioner(options.sst_partitioner_factory) != nullptr;
}

bool IsTrie(const rocksdb::ColumnFamilyOptions& options, TrieOptionText* trie) {
  const auto* partitioner = AsTriePartitioner(options.sst_partitioner_factory);
  if (partitioner != nullptr) *trie = partitioner->trie();
  return partitioner != nullptr;
}

bool IsHashTrie(const rocksdb::ColumnFamilyOptions& options, HashTrieOptions* trie) {
  const auto* partitioner = AsTriePartitioner(options.sst_partitioner_factory);
  if (partitioner == nullptr || partitioner->trie().in_key_order()) return false;
  if (trie != nullptr) *trie = partitioner->trie().hash_order();
  return true;
}

bool IsKeyTrie(const rocksdb::ColumnFamilyOptions& options, KeyTrieOptions* trie) {
  const auto* partitioner = AsTriePartitioner(options.sst_partitioner_factory);
  if (partitioner == nullptr || !partitioner->trie().in_key_order()) return false;
  if (trie != nullptr) *trie = partitioner->trie().key_order();
  return true;
}

}  // namespace cairn
