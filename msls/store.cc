#include <cstdio>

#include "cairn/msls.h"
#include "msls/model.h"

namespace cairn::msls {

namespace {

template <class Value>
struct Named {
  Value value;
  const char* name;
};

constexpr Named<Design> kDesigns[] = {
    {Design::kLevelDB, "leveldb"}, {Design::kRocksDB, "rocksdb"}, {Design::kUniversal, "universal"},
    {Design::kSamt, "samt"},       {Design::kCola, "cola"},       {Design::kSilt, "silt"},
    {Design::kTrie, "trie"},
};

constexpr Named<FilePick> kPicks[] = {
    {FilePick::kByCompensatedSize, "kByCompensatedSize"},
    {FilePick::kOldestLargestSeqFirst, "kOldestLargestSeqFirst"},
    {FilePick::kOldestSmallestSeqFirst, "kOldestSmallestSeqFirst"},
    {FilePick::kMinOverlappingRatio, "kMinOverlappingRatio"},
    {FilePick::kRoundRobin, "kRoundRobin"},
};

template <class Value, size_t kCount>
IndexStatus FromName(const char* what, const Named<Value> (&all)[kCount], const std::string& name, Value* out) {
  std::string known;
  for (const Named<Value>& one : all) {
    if (name == one.name) {
      *out = one.value;
      return IndexStatus::OK();
    }
    known += std::string(known.empty() ? "" : ", ") + one.name;
  }
  return IndexStatus::InvalidArgument(std::string(what) + " is \"" + name + "\"; it must be one of " + known + ".");
}

template <class Value, size_t kCount>
const char* NameOf(const Named<Value> (&all)[kCount], Value value) {
  for (const Named<Value>& one : all) {
    if (value == one.value) return one.name;
  }
  return "";
}

IndexStatus Bad(const std::string& field, double value, const std::string& allowed) {
  return IndexStatus::InvalidArgument(field + " is " + Number(value) + "; it must be " + allowed + ".");
}

bool Positive(double value) { return value > 0 && value <= 1e30; }

}  // namespace

std::string Number(double value) {
  char text[32];
  snprintf(text, sizeof(text), "%.12g", value);
  return text;
}

IndexStatus DesignFromName(const std::string& name, Design* out) { return FromName("design", kDesigns, name, out); }
const char* DesignName(Design design) { return NameOf(kDesigns, design); }

IndexStatus FilePickFromName(const std::string& name, FilePick* out) {
  return FromName("compaction_pri", kPicks, name, out);
}
const char* FilePickName(FilePick pick) { return NameOf(kPicks, pick); }

StoreShape StoreShape::Default(Design design) {
  StoreShape store;
  store.design = design;
  if (design == Design::kLevelDB) {
    store.write_buffer_bytes = 4 << 20;
    store.level_base_bytes = 10 << 20;
    store.file_bytes = 2 << 20;
    store.pick = FilePick::kRoundRobin;
    store.dynamic_level_bytes = false;
  }
  return store;
}

IndexStatus Validate(const StoreShape& store, const Popularity& popularity) {
  if (!(store.item_bytes >= 1 && store.item_bytes <= 1e9)) return Bad("item_bytes", store.item_bytes, "from 1 to 1e9");
  if (!Positive(store.write_buffer_bytes))
    return Bad("write_buffer_bytes", store.write_buffer_bytes, "a positive number");
  if (store.write_buffer_bytes < store.item_bytes) {
    return Bad("write_buffer_bytes", store.write_buffer_bytes,
               "at least one item, " + Number(store.item_bytes) + " bytes");
  }
  switch (store.design) {
    case Design::kLevelDB:
    case Design::kRocksDB: {
      if (store.level0_trigger < 1 || store.level0_trigger > 10000)
        return Bad("level0_trigger", store.level0_trigger, "from 1 to 10000");
      if (!Positive(store.file_bytes)) return Bad("file_bytes", store.file_bytes, "a positive number");
      if (store.file_bytes < store.item_bytes) {
        return Bad("file_bytes", store.file_bytes, "at least one item, " + Number(store.item_bytes) + " bytes");
      }
      if (!(store.level_multiplier > 1 && store.level_multiplier <= 1e6)) {
        return Bad("level_multiplier", store.level_multiplier, "more than 1 and at most 1e6");
      }
      if (!Positive(store.level_base_bytes))
        return Bad("level_base_bytes", store.level_base_bytes, "a positive number");
      if (store.design == Design::kRocksDB && store.dynamic_level_bytes && !store.level_bytes.empty()) {
        return IndexStatus::InvalidArgument(
            "Level sizes are given, but dynamic_level_bytes is on, which computes them from the data. Turn it off.");
      }
      const double data = popularity.keys() * store.item_bytes;
      double last = 0;
      for (size_t i = 0; i < store.level_bytes.size(); i++) {
        const double bytes = store.level_bytes[i];
        const std::string field = "Size of level " + std::to_string(i + 1);
        if (!(bytes >= store.item_bytes))
          return Bad(field, bytes, "at least one item, " + Number(store.item_bytes) + " bytes");
        if (!(bytes > last)) return Bad(field, bytes, "larger than the level before it, " + Number(last) + " bytes");
        if (!(bytes < data)) {
          return Bad(field, bytes, "smaller than the data, " + Number(data) + " bytes; the last level needs no size");
        }
        last = bytes;
      }
      if (store.level_bytes.size() > 60)
        return Bad("Number of level sizes", static_cast<double>(store.level_bytes.size()), "at most 60");
      break;
    }
    case Design::kUniversal:
      if (store.level0_trigger < 2 || store.level0_trigger > 1000)
        return Bad("level0_trigger", store.level0_trigger, "from 2 to 1000");
      if (store.size_ratio_percent < 0 || store.size_ratio_percent > 1000) {
        return Bad("size_ratio_percent", store.size_ratio_percent, "from 0 to 1000");
      }
      if (store.min_merge_width < 2 || store.min_merge_width > 1000) {
        return Bad("min_merge_width", store.min_merge_width, "from 2 to 1000");
      }
      if (store.max_size_amplification_percent < 1) {
        return Bad("max_size_amplification_percent", store.max_size_amplification_percent, "at least 1");
      }
      break;
    case Design::kSamt:
    case Design::kCola:
      if (store.growth < 2 || store.growth > 1000) return Bad("growth", store.growth, "from 2 to 1000");
      if (store.levels < 0 || store.levels > 60) return Bad("levels", store.levels, "from 0 (as many as needed) to 60");
      break;
    case Design::kSilt:
      if (!(store.hash_store_slots >= 1 && store.hash_store_slots <= 1e15)) {
        return Bad("hash_store_slots", store.hash_store_slots, "from 1 to 1e15");
      }
      if (!(store.hash_store_occupancy > 0 && store.hash_store_occupancy <= 1)) {
        return Bad("hash_store_occupancy", store.hash_store_occupancy, "more than 0 and at most 1");
      }
      if (store.hash_stores < 1) return Bad("hash_stores", store.hash_stores, "at least 1");
      if (store.instances < 1) return Bad("instances", store.instances, "at least 1");
      if (store.hash_store_slots * store.hash_store_occupancy * store.instances >= popularity.keys()) {
        return Bad("hash_store_slots", store.hash_store_slots,
                   "so small that one hash store an instance does not hold all " + Number(popularity.keys()) + " keys");
      }
      break;
    case Design::kTrie:
      if (store.root_trigger < 1 || store.root_trigger > 1000)
        return Bad("root_trigger", store.root_trigger, "from 1 to 1000");
      if (store.container_trigger < 2 || store.container_trigger > 1000) {
        return Bad("container_trigger", store.container_trigger, "from 2 to 1000");
      }
      if (store.slots != 0 && (store.slots < store.container_trigger || store.slots > 2000)) {
        return Bad("slots", store.slots, "0, or from container_trigger to 2000");
      }
      if (store.fan_out < 2 || store.fan_out > 64) return Bad("fan_out", store.fan_out, "from 2 to 64");
      if (!(store.grow_liveness > 0 && store.grow_liveness <= 1)) {
        return Bad("grow_liveness", store.grow_liveness, "more than 0 and at most 1");
      }
      if (!(store.space_bound >= 1.1)) return Bad("space_bound", store.space_bound, "at least 1.1");
      break;
  }
  return IndexStatus::OK();
}

IndexStatus LevelItems(const StoreShape& store, const Popularity& popularity, std::vector<double>* items) {
  items->clear();
  IndexStatus s = Validate(store, popularity);
  if (!s.ok()) return s;
  const double keys = popularity.keys();
  if (store.design == Design::kRocksDB && store.dynamic_level_bytes) {
    // VersionStorageInfo::CalculateBaseBytes: from the last level upward until a level fits into level_base_bytes; no
    // target is below level_base_bytes.
    const double base = store.level_base_bytes / store.item_bytes;
    for (double size = keys / store.level_multiplier;; size /= store.level_multiplier) {
      if (base < keys) items->insert(items->begin(), std::max(size, base));
      if (size <= base) break;
    }
    if (keys <= base) items->clear();
  } else if (!store.level_bytes.empty()) {
    for (double bytes : store.level_bytes) items->push_back(bytes / store.item_bytes);
  } else {
    for (double size = store.level_base_bytes / store.item_bytes; size < keys; size *= store.level_multiplier) {
      items->push_back(size);
    }
  }
  items->push_back(keys);
  return s;
}

}  // namespace cairn::msls
