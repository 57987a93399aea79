#include "trie_table/compaction/trie_partitioner.h"

#include <utility>

#include "rocksdb/utilities/options_type.h"
#include "table/hash_order/hash_order.h"
#include "trie_table/compaction/run_job.h"
#include "util/option_text.h"

namespace cairn {

namespace {

class TriePartitioner : public rocksdb::SstPartitioner {
 public:
  TriePartitioner(const HashPrefixMap& map, int depth) : map_(map), depth_(depth) {}

  const char* Name() const override { return TriePartitionerFactory::kClassName(); }

  rocksdb::PartitionerResult ShouldPartition(const rocksdb::PartitionerRequest& request) override {
    return SameContainer(*request.prev_user_key, *request.current_user_key) ? rocksdb::kNotRequired
                                                                            : rocksdb::kRequired;
  }

  bool CanDoTrivialMove(const rocksdb::Slice& smallest, const rocksdb::Slice& largest) override {
    return SameContainer(smallest, largest);
  }

 private:
  bool SameContainer(const rocksdb::Slice& a, const rocksdb::Slice& b) const {
    return map_.ContainerAt(map_.Position(a), depth_) == map_.ContainerAt(map_.Position(b), depth_);
  }

  const HashPrefixMap map_;
  const int depth_;
};

class KeyPartitioner : public rocksdb::SstPartitioner {
 public:
  explicit KeyPartitioner(std::unique_ptr<KeyCutter> cutter) : cutter_(std::move(cutter)) {}

  const char* Name() const override { return TriePartitionerFactory::kClassName(); }

  rocksdb::PartitionerResult ShouldPartition(const rocksdb::PartitionerRequest& request) override {
    return cutter_->CutBefore(*request.prev_user_key, *request.current_user_key, request.current_output_file_size)
               ? rocksdb::kRequired
               : rocksdb::kNotRequired;
  }

  bool CanDoTrivialMove(const rocksdb::Slice&, const rocksdb::Slice&) override { return true; }

 private:
  const std::unique_ptr<KeyCutter> cutter_;
};

}  // namespace

TriePartitionerFactory::TriePartitionerFactory() : TriePartitionerFactory(TrieOptionText()) {}

TriePartitionerFactory::TriePartitionerFactory(const TrieOptionText& trie) : trie_(trie) {
  static const TrieOptionText* const defaults = new TrieOptionText();
  // Where the keys of a trie lie follows from some of them, whatever a later release prefers.
  static const auto* types =
      new OptionTypes(WithoutDefaults(TrieOptionTypes(), defaults, {"hash", "seed", "fan_out", "slots", "depth"}));
  RegisterOptions("cairn.TrieOptions", &trie_, types);
}

rocksdb::Status TriePartitionerFactory::PrepareOptions(const rocksdb::ConfigOptions& config) {
  const rocksdb::Status s = ValidateTrieOptions(trie_);
  return s.ok() ? SstPartitionerFactory::PrepareOptions(config) : s;
}

std::unique_ptr<rocksdb::SstPartitioner> TriePartitionerFactory::CreatePartitioner(
    const rocksdb::SstPartitioner::Context& context) const {
  if (trie_.in_key_order()) {
    std::unique_ptr<KeyCutter> cutter = TrieJobScope::NewCutter();
    return cutter == nullptr ? nullptr : std::make_unique<KeyPartitioner>(std::move(cutter));
  }
  return std::make_unique<TriePartitioner>(ContainerMapOf(trie_), DepthOfLevel(trie_, context.output_level));
}

const TriePartitionerFactory* AsTriePartitioner(const std::shared_ptr<rocksdb::SstPartitionerFactory>& factory) {
  return factory == nullptr ? nullptr : factory->CheckedCast<TriePartitionerFactory>();
}

}  // namespace cairn
