// Cuts the output of a compaction at the boundaries of the containers of the depth it writes to, and carries the trie's
// shape: a column family whose partitioner this is, is a trie, and the compaction scheduler reads its options here.
//
// Option string: {id=cairn.TriePartitioner;order=key;fan_out=8;slots=12;...}, the fields of TrieOptionText.
//
// Thread-safety: the factory is immutable once a database uses it; a partitioner serves one compaction.

#pragma once

#include <memory>

#include "rocksdb/sst_partitioner.h"
#include "trie_table/compaction/trie_options.h"

namespace cairn {

class TriePartitionerFactory : public rocksdb::SstPartitionerFactory {
 public:
  static const char* kClassName() { return "cairn.TriePartitioner"; }

  TriePartitionerFactory();
  // REQUIRES: ValidateTrieOptions(trie).ok().
  explicit TriePartitionerFactory(const TrieOptionText& trie);

  const char* Name() const override { return kClassName(); }
  rocksdb::Status PrepareOptions(const rocksdb::ConfigOptions& config) override;
  std::unique_ptr<rocksdb::SstPartitioner> CreatePartitioner(
      const rocksdb::SstPartitioner::Context& context) const override;

  // With the seed kRandomSeed: it is left open, and that of OpenSeedComparator until an opening replaces the factory.
  const TrieOptionText& trie() const { return trie_; }

 private:
  TrieOptionText trie_;
};

// Null: it is no trie's.
const TriePartitionerFactory* AsTriePartitioner(const std::shared_ptr<rocksdb::SstPartitionerFactory>& factory);

}  // namespace cairn
