// What lookups have made of the Versions of one open database, be it open for writing or for reading only. RocksDB
// keeps it among the database's listeners, as long as its Versions live.
//
// Invariant: two open databases never share one: the numbers of their Versions may be equal. Whatever opens a database
// takes those of another out of its options.
//
// Thread-safety: all.

#pragma once

#include <algorithm>
#include <memory>
#include <vector>

#include "rocksdb/listener.h"
#include "rocksdb/options.h"
#include "rocksdb/port/db_impl.h"
#include "table/ordered/ordered_lookup.h"
#include "table/silt/silt_lookup.h"
#include "trie_table/htable/version_filter.h"

namespace cairn {

// As a listener it has no name, so that no OPTIONS file mentions it.
class DatabaseLookups : public rocksdb::EventListener {
 public:
  using Listeners = std::vector<std::shared_ptr<rocksdb::EventListener>>;

  // Null: there is none.
  static DatabaseLookups* In(const Listeners& listeners) {
    return listeners.empty() || !IsLookups(listeners.front()) ? nullptr
                                                              : static_cast<DatabaseLookups*>(listeners.front().get());
  }
  static void RemoveFrom(Listeners* listeners) {
    listeners->erase(std::remove_if(listeners->begin(), listeners->end(), IsLookups), listeners->end());
  }

  const char* Name() const override { return port::kLookupsName; }
  VersionFilters* version_filters() { return &version_filters_; }
  SiltLookups* silt_lookups() { return &silt_lookups_; }
  OrderedLookups* ordered_lookups() { return &ordered_lookups_; }

 private:
  // The name's address tells; other listeners may have an empty name, too, and may not be cast.
  static bool IsLookups(const std::shared_ptr<rocksdb::EventListener>& listener) {
    const char* const name = listener == nullptr ? nullptr : listener->Name();
    return name == port::kServicesName || name == port::kLookupsName;
  }

  VersionFilters version_filters_;
  SiltLookups silt_lookups_;
  OrderedLookups ordered_lookups_;
};

}  // namespace cairn
