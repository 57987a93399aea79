#include "msls/model_options.h"

#include <cstdio>

#include "trie_table/compaction/trie_options.h"

namespace cairn {

msls::FilePick PickOf(rocksdb::CompactionPri pri) {
  switch (pri) {
    case rocksdb::kByCompensatedSize:
      return msls::FilePick::kByCompensatedSize;
    case rocksdb::kOldestLargestSeqFirst:
      return msls::FilePick::kOldestLargestSeqFirst;
    case rocksdb::kOldestSmallestSeqFirst:
      return msls::FilePick::kOldestSmallestSeqFirst;
    case rocksdb::kRoundRobin:
      return msls::FilePick::kRoundRobin;
    default:
      return msls::FilePick::kMinOverlappingRatio;
  }
}

LevelSizes LevelSizesOf(const rocksdb::ColumnFamilyOptions& options) {
  LevelSizes sizes{options.max_bytes_for_level_base, options.max_bytes_for_level_multiplier,
                   options.max_bytes_for_level_multiplier_additional};
  while (!sizes.additional.empty() && sizes.additional.back() == 1) sizes.additional.pop_back();
  return sizes;
}

bool AppendLevelTargets(const rocksdb::ColumnFamilyOptions& options, double data_bytes, std::vector<double>* targets) {
  const std::vector<int>& additional = options.max_bytes_for_level_multiplier_additional;
  auto bytes = static_cast<double>(options.max_bytes_for_level_base);
  for (size_t level = 1; level < static_cast<size_t>(options.num_levels) && bytes < data_bytes; level++) {
    if (!targets->empty() && bytes <= targets->back()) return false;
    targets->push_back(bytes);
    bytes *= options.max_bytes_for_level_multiplier * (level < additional.size() ? additional[level] : 1);
  }
  return true;
}

void SetTrieShape(const HashTrieOptions& trie, double data_bytes, double table_bytes, msls::StoreShape* store) {
  store->root_trigger = trie.root_trigger;
  store->container_trigger = TriggerOf(trie);
  store->slots = trie.slots;
  store->fan_out = trie.fan_out;
  store->grow_liveness = trie.grow_liveness;
  store->space_bound = msls::SpaceBoundInItems(trie.space_bound, data_bytes, table_bytes);
}

std::string TrieShapeText(const msls::StoreShape& store, double space_bound) {
  char text[128];
  snprintf(text, sizeof(text), "root_trigger=%d;slots=%d;trigger=%d;space_bound=%g", store.root_trigger, store.slots,
           store.container_trigger, space_bound);
  return text;
}

}  // namespace cairn
