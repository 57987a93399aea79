// Cuts the output of a compaction at the boundaries of the containers of the depth it writes to, and carries the trie's
// shape: a column family whose partitioner this is, is a trie, and the compaction scheduler reads the TrieOptions here.
//
// Option string: {id=cairn.TriePartitioner;fan_out=8;slots=12;...}, the fields of cairn::TrieOptions.
//
// Thread-safety: the factory is immutable once a database uses it; a partitioner serves one compaction.

#pragma once

#include <memory>
#include <string>

#include "cairn/trie.h"
#include "rocksdb/sst_partitioner.h"
#include "trie_table/compaction/container_map.h"

namespace cairn {

class TriePartitionerFactory : public rocksdb::SstPartitionerFactory {
 public:
  static const char* kClassName() { return "cairn.TriePartitioner"; }

  TriePartitionerFactory();
  // REQUIRES: ValidateTrieOptions(trie).ok().
  explicit TriePartitionerFactory(const TrieOptions& trie);

  const char* Name() const override { return kClassName(); }
  rocksdb::Status PrepareOptions(const rocksdb::ConfigOptions& config) override;
  std::unique_ptr<rocksdb::SstPartitioner> CreatePartitioner(
      const rocksdb::SstPartitioner::Context& context) const override;

  // With the seed kRandomSeed: it is left open, and that of OpenSeedComparator until an opening replaces the factory.
  const TrieOptions& trie() const { return trie_; }

 private:
  TrieOptions trie_;
};

}  // namespace cairn
