// The items that cairn_demo stores: small texts under readable keys, from the distribution's package index, from a
// file, or made up with the sizes of the former.
//
// Items are numbered, and their keys are distinct: of several items with one key the last stays.
//
// Thread-safety: constant once made; any number of threads may read.

#pragma once

#include <cstdint>
#include <istream>
#include <memory>
#include <string>

#include "rocksdb/status.h"

namespace cairn::bench {

class ItemSource {
 public:
  virtual ~ItemSource() = default;
  virtual uint64_t count() const = 0;
  virtual void Key(uint64_t item, std::string* key) const = 0;

  // The item's text after it was replaced `version` times; 0: as it came. A replaced item takes another item's text, so
  // that sizes stay what they are.
  virtual void Value(uint64_t item, uint32_t version, std::string* value) const = 0;

  // For people: what it is, and what was left out.
  virtual std::string Description() const = 0;
};

// `text` in the form of `apt-cache dumpavail`: one item a package field, key "package/version/field". Corruption when a
// line is neither a field, nor the continuation of one, nor empty; NotFound when there is no item.
rocksdb::Status ReadPackageIndex(std::istream* text, std::unique_ptr<ItemSource>* items);

// Runs apt-cache. NotFound, with the remedy, when the machine has no package lists.
rocksdb::Status ReadPackageIndexOfThisMachine(std::unique_ptr<ItemSource>* items);

// One item a line: key, tab, value. `name` is for messages.
rocksdb::Status ReadTsv(std::istream* text, const std::string& name, std::unique_ptr<ItemSource>* items);

// `count` items with the shape of the package index: 17 fields a package, sizes of values drawn from its
// distribution (Debian 12), keys as long in the mean. Takes no memory.
std::unique_ptr<ItemSource> MakeUpItems(uint64_t count);

}  // namespace cairn::bench
